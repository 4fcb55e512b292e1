"""Directions that nobody has taught yet: text that others send to them can teach them.

Without a pair of fr and es, the path es>en>fr>es teaches fr>es: real Spanish, and the French that two translators make
of it. In advance one can know how often that French is right, and how often decoding through English, fr>en>es, is: a
direct translator must beat that to be worth its training. One network for all languages speaks fr>es untaught, mostly
in the wrong language; what its loops bring home now says nothing of what training makes of it, so they are not asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopmt.path import Hop, LanguagePath, ways
from loopmt.planning.analysis import Estimate
from loopmt.planning.forecast import VERDICTS, WORTH

_UNKNOWN: Estimate = [None, 0.0, 1.0]


@dataclass(frozen=True)
class ZeroResource:
    """What can be said of a direction not taught yet."""

    direction: Hop
    sources: dict[LanguagePath, Estimate]
    """By the path that would teach it: how often what it would read is right."""
    through: dict[LanguagePath, Estimate]
    """How often decoding through others is right, and untaught, where a shared network can."""
    verdict: str
    why: str

    @property
    def promising(self) -> bool:
        return self.verdict in VERDICTS[:2]

    def as_json(self) -> dict[str, Any]:
        told = {
            name: {str(path): rate for path, rate in getattr(self, name).items()} for name in ("sources", "through")
        }
        return {"verdict": self.verdict, "why": self.why, **told}


def missing(languages: Sequence[str], taught: Collection[Hop], available: Collection[Hop] | None = None) -> list[Hop]:
    """Directions not taught that some walk over translators leads along, there or back."""
    hops = taught if available is None else available
    pairs = [Hop(one, other) for one in languages for other in languages if one != other]
    return [hop for hop in pairs if hop not in taught and (ways(hop, hops) or ways(hop.reverse, hops))]


def zero_resource(
    direction: Hop, hops: Collection[Hop], arrived: Mapping[LanguagePath, Estimate], worth: float = WORTH
) -> ZeroResource:
    """`arrived`: how often what a walk brings is right, where a reference can tell."""
    back = {
        LanguagePath((*way.languages, way.languages[0])): arrived.get(way, _UNKNOWN)
        for way in ways(direction.reverse, hops)
    }
    there = {way: arrived.get(way, _UNKNOWN) for way in ways(direction, hops)}
    return ZeroResource(direction, back, there, *_decide(back, there, worth))


def _decide(
    sources: Mapping[LanguagePath, Estimate], through: Mapping[LanguagePath, Estimate], worth: float
) -> tuple[str, str]:
    if not sources:
        return "no signal", "no translator generates text in its source language, so nothing can teach it."
    known = {path: (rate, low) for path, (rate, low, _) in sources.items() if rate is not None and low is not None}
    if not known:
        return "no signal", "the set has no sentence in both languages, so generated text cannot be judged."
    path, (rate, low) = max(known.items(), key=lambda item: item[1])
    if low <= worth:
        return "no signal", f"too little of the text that {path} generates is right ({rate:.1%})."
    bar = [f"{_named(way)} ({seen[0]:.0%} right)" for way, seen in through.items() if seen[0] is not None]
    beat = f" A direct translator must beat translating by {' and '.join(bar)}." if bar else ""
    return "may help", f"{rate:.0%} of the text that {path} would generate to train it is right.{beat}"


def _named(way: LanguagePath) -> str:
    return f"{way} untrained" if len(way.hops) == 1 else str(way)
