"""`mix = "auto"`: which loops feed a direction, by what each route is worth on held-out text.

A loop that teaches s>t starts from real text in t and generates its way to s; the learner reads what arrives there.
So a route is worth what arrives: how often it is a right translation of the start. By the theory a way through other
languages pays only if it is better than the direct way back, and only if coming home tells right from wrong
(docs/theory.md). Routes that fail either get no share, and neither do those of which filters keep too little; the
others share by quality.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loopmt.config import Generate
from loopmt.evaluation.metrics import sentence_bleu
from loopmt.evaluation.validation import Agree, HeldOut, translate_hops
from loopmt.path import Hop, LanguagePath
from loopmt.translate.filters import FEWEST_KEPT, SyntheticTextFilter
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key
from loopmt.translate.walker import Rollout, Translators, generate_along, recorder

_RIGHT = 30.0  # sentence BLEU above which a translation counts as right where there is no exact judge
_FEWEST = 10  # right and wrong sentences needed before a missing signal counts against a route

FAR_BELOW = 0.5
"""Of the best route to a direction: in the laboratory poorer ones cost more than their evidence is worth."""


@dataclass(frozen=True)
class CandidatePath:
    """A loop that could teach a direction."""

    number: int
    path: LanguagePath
    settings: Sequence[Generate]


@dataclass(frozen=True)
class RouteQuality:
    """What a route is worth: quality of what arrives, and the ratio M of the theory (below 1: coming home tells).

    `kept` is the share of what it generates that filters keep.
    """

    quality: float
    ratio: float | None
    share: float = 0.0
    kept: float = 1.0


@dataclass(frozen=True)
class LoopChoice:
    """Weights of routes by number, and what they were chosen by, for the log."""

    weights: dict[int, float]
    worth: dict[str, RouteQuality]

    def as_json(self) -> dict[str, Any]:
        return {path: asdict(worth) for path, worth in self.worth.items()}


def choose_loop_weights(
    translators: Translators,
    sets: Sequence[HeldOut],
    candidates: Sequence[CandidatePath],
    supervised: Mapping[Hop, tuple[int, float]],
    key: Key,
    agree: Agree | None,
    text_filter: SyntheticTextFilter | None = None,
) -> LoopChoice:
    """Measure every candidate and share each direction among those that pay.

    `supervised` gives the number of the route of real pairs, and its share, for directions that have some.
    """
    worth = measure_routes(translators, sets, candidates, key, agree, text_filter)
    weights = dict(supervised.values())
    shown: dict[str, RouteQuality] = {}
    for hop in dict.fromkeys(candidate.path.taught for candidate in candidates):
        mine = {candidate.number: worth[candidate.number] for candidate in candidates if candidate.path.taught == hop}
        direct = next((c.number for c in candidates if c.path.taught == hop and len(c.path.hops) == 2), None)
        shares = share_out(mine, direct, must=hop not in supervised)
        free = 1 - supervised[hop][1] if hop in supervised else 1.0
        weights |= {number: free * share for number, share in shares.items() if share > 0}
        for candidate in candidates:
            if candidate.number in mine:
                share = shares.get(candidate.number, 0.0)
                shown[str(candidate.path)] = replace(worth[candidate.number], share=share)
    return LoopChoice(weights | _bitext_alone(weights, candidates, supervised), shown)


def _bitext_alone(
    weights: Mapping[int, float], candidates: Sequence[CandidatePath], supervised: Mapping[Hop, tuple[int, float]]
) -> dict[int, float]:
    """All of the share for the bitext of directions that no chosen loop feeds, even if its own share is 0."""
    looped = {candidate.path.taught for candidate in candidates if weights.get(candidate.number)}
    return {number: share or 1.0 for hop, (number, share) in supervised.items() if hop not in looped}


def share_out(worth: Mapping[int, RouteQuality], direct: int | None, must: bool) -> dict[int, float]:
    """Shares of the routes to one direction; `must` if nothing else feeds it."""
    bar = worth[direct].quality if direct is not None else 0.0
    best = max(one.quality for one in worth.values())
    kept = {
        number: one.quality
        for number, one in worth.items()
        if one.quality > 0
        and one.kept >= FEWEST_KEPT
        and (number == direct or one.quality >= bar)
        and one.quality >= FAR_BELOW * best
        and (one.ratio is None or one.ratio < 1)
    }
    if not kept and must:
        first = max(worth, key=lambda number: (worth[number].kept >= FEWEST_KEPT, worth[number].quality))
        return {first: 1.0}
    total = sum(kept.values())
    return {number: quality / total for number, quality in kept.items()}


def measure_routes(
    translators: Translators,
    sets: Sequence[HeldOut],
    candidates: Sequence[CandidatePath],
    key: Key,
    agree: Agree | None,
    text_filter: SyntheticTextFilter | None = None,
) -> dict[int, RouteQuality]:
    """Take every candidate from held-out text; judge what arrives, and whether it is kept and comes home."""
    held = {pairs.hop: pairs for pairs in sets}
    rollouts: dict[int, Rollout] = {}
    for candidate in candidates:
        pairs = held.get(candidate.path.taught.reverse)
        if pairs is not None:
            rollouts[candidate.number] = Rollout(candidate.path, candidate.settings, pairs.sources)
    limits = DecodeLimits.on(translators.own.device)
    generate_along(translators, list(rollouts.values()), limits, (*key, "measure"), observe=recorder(text_filter))
    arrived = [HopInput(rollout.path.taught, rollout.text) for rollout in rollouts.values()]
    home = dict(zip(rollouts, translate_hops(translators.own, arrived, Generate(how="greedy")), strict=True))
    return {
        candidate.number: _route_quality(
            rollouts[candidate.number], home[candidate.number], held[candidate.path.taught.reverse], agree
        )
        if candidate.number in rollouts
        else RouteQuality(0.0, None)
        for candidate in candidates
    }


def _route_quality(rollout: Rollout, home: Sequence[str], pairs: HeldOut, agree: Agree | None) -> RouteQuality:
    """`pairs` leads from the start of the rollout to where it arrives; `home` is what comes back from there."""
    taught = rollout.path.taught
    sources, references = pairs.sources.texts, pairs.references.texts
    quality = _quality(sources, pairs.hop.source, rollout.text.texts, taught.source, references, agree)
    came_home = _quality(sources, pairs.hop.source, home, taught.target, sources, agree)
    limit = 0.5 if agree else _RIGHT / 100
    ratio, kept = _ratio(quality > limit, came_home > limit), float(rollout.keep.mean())
    return RouteQuality(float(quality.mean()), ratio, kept=kept)


def _quality(
    sources: Sequence[str],
    language: str,
    texts: Sequence[str],
    other: str,
    references: Sequence[str],
    agree: Agree | None,
) -> Floats:
    """1 or 0 by the exact judge; a sentence's BLEU between 0 and 1 where there is none."""
    if agree and language != other:
        pairs = zip(sources, texts, strict=True)
        return np.array([float(agree(source, language, text, other)) for source, text in pairs])
    if agree:
        pairs = zip(texts, references, strict=True)
        return np.array([float(agree(reference, language, text, other)) for text, reference in pairs])
    return np.asarray(sentence_bleu(list(texts), list(references))) / 100


def _ratio(right: npt.NDArray[np.bool_], came_home: npt.NDArray[np.bool_]) -> float | None:
    """M = Pr(home | wrong) / Pr(home | right); None where there are too few of either to tell."""
    if min(right.sum(), (~right).sum()) < _FEWEST or not came_home[right].any():
        return None
    return float(came_home[~right].mean() / came_home[right].mean())
