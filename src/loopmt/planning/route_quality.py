"""The quality of routes on held-out text: how often the text that they generate is right, and reasons against them.

A loop that teaches s>t translates real text in t into s; the learner reads this translation. A teacher path translates
real text in s through other languages into t; the learner is trained to write this translation. The quality of a route
is how often the generated sentence is a right translation of the real one. If there are many routes to a direction,
only those with the best hops are measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from loopmt.config import Generate
from loopmt.evaluation.metrics import sentence_bleu
from loopmt.evaluation.validation import Agree, HeldOut, translate_hops
from loopmt.path import Hop, LanguagePath
from loopmt.translate.filters import SyntheticTextFilter
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences
from loopmt.translate.walker import HopRecord, Rollout, Translators, generate_along, recorder

BEST = 2
"""The most routes of a pattern that are measured for a direction: those with the best hops."""
_GREEDY = Generate(how="greedy")
_RIGHT = 30.0  # sentence BLEU above which a translation counts as right without an exact judge
_FEWEST = 10  # right sentences, and wrong sentences, needed to estimate M

Alarms = Callable[[Iterable[tuple[int, HopRecord]]], Mapping[int, str]]
"""The guards' alarms by route number, from the records of the routes' hops."""


@dataclass(frozen=True)
class CandidatePath:
    """A loop or a teacher path that could teach a direction."""

    number: int
    path: LanguagePath
    settings: Sequence[Generate]
    pattern: int = 0  # the number of its pattern


@dataclass(frozen=True)
class RouteQuality:
    """Quality of the text that a route generates, and the ratio M of the theory (below 1: informative).

    `kept` is the share of the generated text that filters keep. `lead` is a teacher's quality minus that of the direct
    translator, less a standard error. `why` is the reason if the route has no share.
    """

    quality: float
    ratio: float | None
    share: float = 0.0
    kept: float = 1.0
    lead: float | None = None
    alarm: str | None = None
    why: str = ""


@dataclass(frozen=True)
class RouteMeter:
    """Measures routes on held-out text."""

    translators: Translators
    sets: Sequence[HeldOut]
    key: Key
    agree: Agree | None = None
    text_filter: SyntheticTextFilter | None = None
    alarms: Alarms = field(default=lambda records: {})

    def worth(self, candidates: Sequence[CandidatePath]) -> dict[int, RouteQuality]:
        """The quality of every candidate; 0 without held-out text."""
        loops = self._rollouts([one for one in candidates if not one.path.backward], "measure")
        teachers = self._rollouts([one for one in candidates if one.path.backward], "teachers")
        records = ((number, record) for number, one in (loops | teachers).items() for record in one.records)
        alarms, home, direct = self.alarms(records), self._home(loops), self._direct(teachers)
        found = {one.number: RouteQuality(0.0, None) for one in candidates}
        found |= {number: self._loop(one, home[number], alarms.get(number)) for number, one in loops.items()}
        return found | {number: self._teacher(one, direct, alarms.get(number)) for number, one in teachers.items()}

    def _rollouts(self, candidates: Sequence[CandidatePath], name: str) -> dict[int, Rollout]:
        """Held-out text translated along every candidate that has some."""
        rollouts = {
            one.number: Rollout(one.path, one.settings, self._held[hop].sources)
            for one in candidates
            if (hop := _generated(one.path)) in self._held
        }
        limits = DecodeLimits.on(self.translators.own.device)
        observe = recorder(self.text_filter)
        generate_along(self.translators, list(rollouts.values()), limits, (*self.key, name), observe=observe)
        return rollouts

    @property
    def _held(self) -> dict[Hop, HeldOut]:
        return {pairs.hop: pairs for pairs in self.sets}

    def _home(self, loops: Mapping[int, Rollout]) -> dict[int, list[str]]:
        """The generated texts of the loops, translated back to the language of their start."""
        arrived = [HopInput(one.path.taught, one.text) for one in loops.values()]
        return dict(zip(loops, translate_hops(self.translators.own, arrived, _GREEDY), strict=True))

    def _loop(self, rollout: Rollout, home: Sequence[str], alarm: str | None) -> RouteQuality:
        taught, pairs = rollout.path.taught, self._held[_generated(rollout.path)]
        right = self._right(pairs, rollout.text.texts)
        came_home = self._quality(pairs.sources, taught.target, home, taught.target, pairs.sources)
        limit = 0.5 if self.agree else _RIGHT / 100
        ratio = _ratio(right > limit, came_home > limit)
        return RouteQuality(float(right.mean()), ratio, kept=float(rollout.keep.mean()), alarm=alarm)

    def _teacher(self, rollout: Rollout, direct: Mapping[Hop, Floats], alarm: str | None) -> RouteQuality:
        taught = rollout.path.taught
        right = self._right(self._held[taught], rollout.text.texts)
        lead, kept = _lead(right - direct[taught]), float(rollout.keep.mean())
        return RouteQuality(float(right.mean()), None, kept=kept, lead=lead, alarm=alarm)

    def _direct(self, teachers: Mapping[int, Rollout]) -> dict[Hop, Floats]:
        """The quality of the direct translators, with the decoding of the teachers."""
        if not teachers:
            return {}
        how = next(iter(teachers.values())).settings[-1].model_copy(update={"by": "live"})
        return self._by_hop(dict.fromkeys(one.path.taught for one in teachers.values()), how)

    def hops(self, hops: Iterable[Hop]) -> dict[Hop, float]:
        """The quality of greedy translations of hops; 0 without held-out text."""
        wanted = list(hops)
        right = self._by_hop([hop for hop in wanted if hop in self._held], _GREEDY)
        return {hop: float(right[hop].mean()) if hop in right else 0.0 for hop in wanted}

    def _by_hop(self, hops: Iterable[Hop], how: Generate) -> dict[Hop, Floats]:
        """The quality of each translation of the hops' held-out text."""
        held = {hop: self._held[hop] for hop in hops}
        inputs = [HopInput(hop, pairs.sources) for hop, pairs in held.items()]
        found = translate_hops(self.translators.own, inputs, how) if inputs else []
        return {hop: self._right(pairs, texts) for (hop, pairs), texts in zip(held.items(), found, strict=True)}

    def _right(self, pairs: HeldOut, texts: Sequence[str]) -> Floats:
        """The quality of each translation of held-out sentences."""
        return self._quality(pairs.sources, pairs.hop.source, texts, pairs.hop.target, pairs.references)

    def _quality(
        self, sources: Sentences, language: str, texts: Sequence[str], other: str, references: Sentences
    ) -> Floats:
        """1 or 0 by the exact judge; without one, sentence BLEU between 0 and 1."""
        if self.agree is None:
            return np.asarray(sentence_bleu(list(texts), list(references.texts))) / 100
        rows = zip(sources.texts, texts, strict=True)
        return np.array([float(self.agree(source, language, text, other)) for source, text in rows])


def _generated(path: LanguagePath) -> Hop:
    """The direction of the translation that a route generates: the reverse of what a loop teaches."""
    return path.taught if path.backward else path.taught.reverse


def _ratio(right: npt.NDArray[np.bool_], came_home: npt.NDArray[np.bool_]) -> float | None:
    """M = Pr(returns | wrong) / Pr(returns | right); None with too few wrong or right sentences."""
    if min(right.sum(), (~right).sum()) < _FEWEST or not came_home[right].any():
        return None
    return float(came_home[~right].mean() / came_home[right].mean())


def _lead(differences: Floats) -> float:
    """The mean of paired differences, less its standard error."""
    return float(differences.mean() - differences.std() / math.sqrt(len(differences)))


# -- which routes are measured ---------------------------------------------------------------------------------


def rivals(candidates: Sequence[CandidatePath]) -> list[list[CandidatePath]]:
    """Candidates of one pattern that teach one direction, together."""
    groups: dict[tuple[int, Hop], list[CandidatePath]] = {}
    for one in candidates:
        groups.setdefault((one.pattern, one.path.taught), []).append(one)
    return list(groups.values())


def hops_to_estimate(candidates: Sequence[CandidatePath]) -> list[Hop]:
    """The hops of candidates that have too many rivals for all to be measured."""
    many = [one for group in rivals(candidates) if len(group) > BEST for one in group]
    return list(dict.fromkeys(hop for one in many for hop in one.path.generating))


def shortlist(candidates: Sequence[CandidatePath], hops: Mapping[Hop, float]) -> list[CandidatePath]:
    """The candidates to measure: of many rivals, those with the highest product of hop qualities."""
    chosen: set[int] = set()
    for group in rivals(candidates):
        best = sorted(group, key=lambda one: -math.prod(hops[hop] for hop in one.path.generating if hop in hops))
        chosen.update(one.number for one in best[: BEST if len(group) > BEST else None])
    return [one for one in candidates if one.number in chosen]


def decodings(candidates: Sequence[CandidatePath]) -> int:
    """About how often a measurement translates the held-out text.

    It counts the hops of the routes, each loop's way back, and direct translations. Routes with the same first hops
    share them (see `with_shared_sources`).
    """
    measured = shortlist(candidates, {})
    shared = {
        (one.path.backward, one.path.languages[: hop + 2])
        for one in measured
        for hop in range(len(one.path.generating))
    }
    loops = sum(not one.path.backward for one in measured)
    direct = {one.path.taught for one in measured if one.path.backward}
    return len(hops_to_estimate(candidates)) + len(shared) + loops + len(direct)


def with_shared_sources(sets: Sequence[HeldOut]) -> list[HeldOut]:
    """The same sets with equal sources as one object, so that routes from it share their first hops."""
    known: dict[tuple[str, ...], Sentences] = {}
    return [
        replace(pairs, sources=known.setdefault((pairs.hop.source, *pairs.sources.texts), pairs.sources))
        for pairs in sets
    ]
