"""What each candidate of a plan would gain over its control, from amounts of text, qualities and training so far.

A candidate is a path that teaches a direction: the loop of two languages, over as much training on bitext alone; a
loop through a third language beside it, over the loop of two languages alone; without bitext, a path through a third
language, over translating through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopmt.path import Hop, LanguagePath
from loopmt.planning.advice import TriedLoops
from loopmt.planning.analysis import Estimate
from loopmt.planning.loop_choice import FAR_BELOW
from loopmt.planning.predictor import GAIN, LONGER, LOSS, NO_GAIN, PredictedGain, predict_gain
from loopmt.planning.zero_resource import ZeroResource

OVER_BITEXT, OVER_DUAL = "bitext", "dual loops"
"""What controls learn from, with the same updates."""
Quality = Mapping[Hop, Mapping[LanguagePath, Estimate]]


@dataclass(frozen=True)
class KnownAmounts:
    """What a run has: text, scores on the held-out set, and training so far."""

    pairs: Mapping[frozenset[str], int]
    """Sentence pairs by their two languages."""
    mono: Mapping[str, int]
    bleu: Mapping[Hop, float]
    """Of the planned stage on the held-out set."""
    rows_read: Mapping[Hop, float]
    """Rows of bitext that the stage and those before it learnt from."""
    tokens: int
    """Target tokens that the suggested stage would give each direction."""
    shared: bool

    def between(self, hop: Hop) -> int:
        return self.pairs.get(frozenset((hop.source, hop.target)), 0)


@dataclass(frozen=True)
class CandidateGain:
    """A path that could teach a direction, and what it is predicted to gain."""

    path: LanguagePath
    gain: PredictedGain

    @property
    def discouraged(self) -> bool:
        """A predicted loss; of a third language beside dual loops, also no gain."""
        return self.gain.verdict in ((LOSS, NO_GAIN) if self.gain.over == OVER_DUAL else (LOSS,))


def loop_candidates(
    known: KnownAmounts, quality: Quality, fed: Callable[[LanguagePath], bool]
) -> dict[LanguagePath, CandidateGain]:
    """The loops that teach directions with bitext, where the data can feed them and their sources are measured."""
    found, order = {}, list(known.bleu)
    for hop, rates in quality.items():
        for path in rates:
            gain = _loop_gain(known, hop, path, rates) if fed(path) else None
            if gain is not None:
                found[path] = CandidateGain(path, gain)
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0].taught), len(item[0].hops))))


def _loop_gain(
    known: KnownAmounts, hop: Hop, path: LanguagePath, rates: Mapping[LanguagePath, Estimate]
) -> PredictedGain | None:
    pairs, mono = known.between(hop), known.mono.get(hop.target, 0)
    if not pairs or not mono:
        return None
    amounts: dict[str, Any] = {"pairs": pairs, "mono": mono}
    if len(path.hops) == 2:
        if hop.reverse not in known.bleu:
            return None
        trained = {"epochs": known.rows_read.get(hop, 0.0) / pairs, "bleu_back": known.bleu[hop.reverse]}
        return predict_gain("dual", amounts | trained, OVER_BITEXT)
    direct, way = _rate(rates.get(LanguagePath((hop.target, hop.source, hop.target)))), _rate(rates[path])
    if direct is None or way is None:
        return None
    return predict_gain("longer", amounts | {"route": direct, "ahead": _share(way, direct) * (way - direct)}, OVER_DUAL)


def _rate(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate[0]


def _share(way: float, direct: float) -> float:
    """Of the generated text, what a suggested mix would take by the third language; of a poor way, half."""
    if direct < FAR_BELOW * way:
        return 1.0
    return way / (way + direct) if way >= FAR_BELOW * direct and way else 0.5


def untaught_candidates(
    known: KnownAmounts, untrained: Iterable[ZeroResource], fed: Callable[[LanguagePath], bool]
) -> dict[LanguagePath, CandidateGain]:
    """The paths that could teach directions without bitext, where translating through others is possible."""
    found = {}
    for one in untrained:
        ways = [str(way) for way in one.through if len(way.hops) > 1]
        for path in one.sources:
            if ways and len(path.hops) > 2 and fed(path):
                amounts = {"tokens": known.tokens, "shared": float(known.shared)}
                found[path] = CandidateGain(path, predict_gain("untaught", amounts, ways[0]))
    return found


def as_json(candidate: CandidateGain, tried: Sequence[TriedLoops], early: bool) -> dict[str, Any]:
    """The prediction with its verdict: what a comparison of the run measured, else whether to train longer first."""
    measured = [one for one in tried if candidate.path in one.paths]
    if measured:
        word = {1: GAIN, 0: NO_GAIN, -1: LOSS}[measured[-1].gain]
        return candidate.gain.as_json(word) | {"measured": measured[-1].sentence}
    return candidate.gain.as_json(LONGER if early else None) | {"measured": None}
