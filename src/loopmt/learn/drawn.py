"""Samples drawn by rewarded hops, with their rewards: the text of the rows that learn from rewards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loopmt.config import MixEntry
from loopmt.errors import ExternalError
from loopmt.learn.objectives import DrawnColumns, PathRows
from loopmt.learn.routes import Route
from loopmt.text.ragged import Ints, Ragged
from loopmt.translate.protocol import Floats, Mask, RewardedModel, Sentences, TrainableModel
from loopmt.translate.utility import UTILITIES, Candidates
from loopmt.translate.walker import Rollout

Sums = dict[str, dict[str, tuple[float, int]]]
"""By measure and route: the sum over rows, and the number of rows."""


@dataclass(frozen=True)
class DrawnHop:
    """The sample that a hop drew for each of its inputs."""

    sources: Ragged
    targets: Ragged
    scores: Floats  # log-probability of drawing the target
    divergences: Floats  # minus the log-probability under the weights of the start; 0 without `kl`
    usable: Mask  # whether the target ended with EOS

    def take(self, rows: Ints) -> DrawnHop:
        return DrawnHop(
            self.sources.take(rows), self.targets.take(rows), self.scores[rows], self.divergences[rows],
            self.usable[rows],
        )  # fmt: skip

    @classmethod
    def join(cls, parts: Sequence[DrawnHop]) -> DrawnHop:
        return cls(
            Ragged.join([part.sources for part in parts]),
            Ragged.join([part.targets for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.divergences for part in parts]),
            np.concatenate([part.usable for part in parts]),
        )


@dataclass(frozen=True)
class DrawnText:
    """The samples of a rollout's rewarded hops, by hop number, with the reward of each row."""

    rewards: Floats
    hops: Mapping[int, DrawnHop]

    @classmethod
    def of(cls, route: Route, rollout: Rollout, rewards: Floats, model: TrainableModel) -> DrawnText:
        """The samples of this process. The weights must still be those that generated them."""
        hops = route.entry.rewarded_hops(len(rollout.settings))
        return cls(rewards, {number: _drawn_hop(rollout, number, route.entry.kl, model) for number in hops})

    @classmethod
    def in_order(cls, parts: Sequence[DrawnText], order: Ints) -> DrawnText:
        """The rows of all processes in their original order."""
        rewards = np.concatenate([part.rewards for part in parts])[order]
        hops = {number: DrawnHop.join([part.hops[number] for part in parts]).take(order) for number in parts[0].hops}
        return cls(rewards, hops)

    def path_rows(self, route: Route, keep: Mask) -> PathRows:
        """The training rows of a rewarded hop: its complete samples that the filters keep."""
        hop = self.hops[route.rewarded]
        rows = np.flatnonzero(keep & hop.usable & np.isfinite(hop.scores) & np.isfinite(hop.divergences))
        hop, alone = hop.take(rows), np.full(len(rows), -1, dtype=np.int64)
        rewards = self.rewards[rows] - (route.entry.kl or 0.0) * hop.divergences
        drawn = DrawnColumns(rewards, rows // route.entry.samples)
        return PathRows(route.path, route.entry, hop.sources, hop.targets, alone, hop.targets, hop.scores, drawn)

    def measured(self, route: Route, keep: Mask) -> Iterator[tuple[str, str, float, int]]:
        """Values for the log: measure, route, sum over the rows that filters keep, and their number."""
        yield "reward", str(route), float(self.rewards[keep].sum()), int(keep.sum())
        for rewarded in route.rewards(iter(self.hops)) if route.entry.kl else ():
            values = self.hops[rewarded.rewarded].divergences[keep]
            known = values[np.isfinite(values)]
            yield "divergence", str(rewarded), float(known.sum()), len(known)


def _drawn_hop(rollout: Rollout, number: int, kl: float | None, model: TrainableModel) -> DrawnHop:
    assert isinstance(model, RewardedModel), "the objective checks it"
    hop, how = rollout.path.hops[number], rollout.settings[number].model_copy(update={"by": "live"})
    before = rollout.trace[number - 1].best().sentences if number else rollout.start
    found = rollout.trace[number].best()
    source = Sentences(model.vocab, hop.source, ids=before.ids)
    target = Sentences(model.vocab, hop.target, ids=found.sentences.ids)
    scores = model.drawn_scores(hop, source, target, how)
    divergences = np.zeros(len(scores))
    if kl:  # without truncation, so that it is finite
        start = how.model_copy(update={"by": "frozen", "top_k": 0, "top_p": 1.0})
        divergences = scores - model.drawn_scores(hop, source, target, start)
    return DrawnHop(source.ids, target.ids, scores, divergences, found.ended)


def rewards_of(entry: MixEntry, candidates: Candidates) -> Floats:
    """The weighted sum of the utilities of an entry's reward."""
    parts = [weight * UTILITIES.find(name)(candidates) for name, weight in entry.rewards.items()]
    total: npt.NDArray[np.float64] = np.sum(parts, axis=0)
    if not np.isfinite(total).all():
        raise ExternalError(
            f"path {entry.path}: the reward {', '.join(entry.rewards)} is not finite for "
            f"{int((~np.isfinite(total)).sum())} of {len(total)} rows. Let it return finite numbers."
        )
    return total
