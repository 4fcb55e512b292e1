"""Predicted gains of a plan's candidates over their controls, from amounts of text, qualities and training so far.

A candidate is a path that teaches a direction. The control of a loop of two languages trains as long on bitext alone.
A loop through a third language is added to the loop of two languages; its control has only the latter. Without bitext,
a path through a third language is compared with translating through that language.
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
"""What controls train on, for the same number of updates."""
Quality = Mapping[Hop, Mapping[LanguagePath, Estimate]]


@dataclass(frozen=True)
class KnownAmounts:
    """What a run has: text, scores on the held-out set, and training so far."""

    pairs: Mapping[frozenset[str], int]
    """Sentence pairs by their two languages."""
    mono: Mapping[str, int]
    bleu: Mapping[Hop, float]
    """BLEU of the planned stage on the held-out set."""
    rows_read: Mapping[Hop, float]
    """Rows of bitext that the stage and its ancestors were trained on."""
    tokens: int
    """Target tokens of each direction in the suggested stage."""
    shared: bool

    def between(self, hop: Hop) -> int:
        return self.pairs.get(frozenset((hop.source, hop.target)), 0)


@dataclass(frozen=True)
class CandidateGain:
    """A path that could teach a direction, and its predicted gain."""

    path: LanguagePath
    gain: PredictedGain

    @property
    def discouraged(self) -> bool:
        """Whether it predicts a loss, or no gain from a third language added to dual loops."""
        return self.gain.verdict in ((LOSS, NO_GAIN) if self.gain.over == OVER_DUAL else (LOSS,))


def loop_candidates(
    known: KnownAmounts, quality: Quality, fed: Callable[[LanguagePath], bool]
) -> dict[LanguagePath, CandidateGain]:
    """Loops that teach directions with bitext, if the data can feed them and their sources are measured."""
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
    """The third language's share of the generated text in a suggested mix; half if its sources are poor."""
    if direct < FAR_BELOW * way:
        return 1.0
    return way / (way + direct) if way >= FAR_BELOW * direct and way else 0.5


def untaught_candidates(
    known: KnownAmounts, untrained: Iterable[ZeroResource], fed: Callable[[LanguagePath], bool]
) -> dict[LanguagePath, CandidateGain]:
    """Paths that could teach directions without bitext, if other languages connect the two."""
    found = {}
    for one in untrained:
        ways = [str(way) for way in one.through if len(way.hops) > 1]
        for path in one.sources:
            if ways and len(path.hops) > 2 and fed(path):
                amounts = {"tokens": known.tokens, "shared": float(known.shared)}
                found[path] = CandidateGain(path, predict_gain("untaught", amounts, ways[0]))
    return found


def as_json(candidate: CandidateGain, tried: Sequence[TriedLoops], early: bool) -> dict[str, Any]:
    """The prediction with its verdict: as measured, `train longer first` if `early`, or as predicted."""
    measured = [one for one in tried if candidate.path in one.paths]
    if measured:
        word = {1: GAIN, 0: NO_GAIN, -1: LOSS}[measured[-1].gain]
        return candidate.gain.as_json(word) | {"measured": measured[-1].sentence}
    return candidate.gain.as_json(LONGER if early else None) | {"measured": None}
