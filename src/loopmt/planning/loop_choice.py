"""`mix = "auto"`: choose the loops and teacher paths of each direction by their quality on held-out text.

By the theory (docs/theory.md) a path through other languages pays only if it is better than the direct way back, and
if its round trips tell right translations from wrong ones. A teacher pays only if it translates better than the direct
translator. A route gets no share if it does not pay, if the guards raise an alarm, or if the filters keep too little
of its text. The shares of the others are proportional to their quality.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from loopmt.path import Hop
from loopmt.planning.route_quality import CandidatePath, RouteMeter, RouteQuality, hops_to_estimate, shortlist
from loopmt.translate.filters import FEWEST_KEPT

FAR_BELOW = 0.5
"""Routes below this share of the best quality are not used: in the laboratory they cost more than they brought."""


@dataclass(frozen=True)
class LoopChoice:
    """Weights of routes by number, and the measurements behind the choice, for the log."""

    weights: dict[int, float]
    worth: dict[str, RouteQuality]
    candidates: int = 0
    hops: dict[Hop, float] = field(default_factory=dict)  # qualities that decided which routes to measure

    def as_json(self) -> dict[str, Any]:
        return {
            "worth": {path: asdict(worth) for path, worth in self.worth.items()},
            "measured": len(self.worth),
            "candidates": self.candidates,
            "hops": {str(hop): quality for hop, quality in self.hops.items()},
        }


def choose_loop_weights(
    meter: RouteMeter, candidates: Sequence[CandidatePath], supervised: Mapping[Hop, tuple[int, float]]
) -> LoopChoice:
    """Measure the best candidates and divide each direction among those that pay.

    `supervised` gives the number and the share of the bitext route, for directions with bitext.
    """
    hops = meter.hops(hops_to_estimate(candidates))
    measured = shortlist(candidates, hops)
    worth = meter.worth(measured)
    weights = dict(supervised.values())
    shown: dict[str, RouteQuality] = {}
    for hop in dict.fromkeys(one.path.taught for one in measured):
        own = [one for one in measured if one.path.taught == hop]
        shared = share_out({one.number: worth[one.number] for one in own}, _direct(own), must=hop not in supervised)
        free = 1 - supervised[hop][1] if hop in supervised else 1.0
        weights |= {number: free * one.share for number, one in shared.items() if one.share > 0}
        shown |= {str(one.path): shared[one.number] for one in own}
    return LoopChoice(weights | _bitext_alone(weights, candidates, supervised), shown, len(candidates), hops)


def _direct(candidates: Sequence[CandidatePath]) -> int | None:
    """The number of the loop of two languages."""
    return next((one.number for one in candidates if len(one.path.hops) == 2 and not one.path.backward), None)


def _bitext_alone(
    weights: Mapping[int, float], candidates: Sequence[CandidatePath], supervised: Mapping[Hop, tuple[int, float]]
) -> dict[int, float]:
    """The weight of bitext in directions that no chosen loop feeds: its share, or 1 if the share is 0."""
    looped = {candidate.path.taught for candidate in candidates if weights.get(candidate.number)}
    return {number: share or 1.0 for hop, (number, share) in supervised.items() if hop not in looped}


def share_out(worth: Mapping[int, RouteQuality], direct: int | None, must: bool) -> dict[int, RouteQuality]:
    """The routes to one direction with their shares; `must`: nothing else feeds it."""
    bar = worth[direct].quality if direct is not None else 0.0
    best = max(one.quality for one in worth.values())
    why = {number: _refusal(one, 0.0 if number == direct else bar, best) for number, one in worth.items()}
    paying = {number: one.quality for number, one in worth.items() if not why[number]}
    if not paying and must:
        first = max(worth, key=lambda number: _least_bad(worth[number]))
        paying, why[first] = {first: 1.0}, f"nothing else feeds the direction; {why[first]}"
    total = sum(paying.values())
    return {
        number: replace(one, share=paying.get(number, 0.0) / (total or 1.0), why=why[number])
        for number, one in worth.items()
    }


def _refusal(one: RouteQuality, bar: float, best: float) -> str:
    """Why a route gets no share; empty if it pays. `bar`: quality of the direct way back."""
    teacher = one.lead is not None
    reasons = {
        "no generated text is right": one.quality <= 0,
        f"alarm: {one.alarm}": one.alarm is not None,
        f"filters keep {one.kept:.0%}": one.kept < FEWEST_KEPT,
        "no better than the direct translator": teacher and (one.lead or 0.0) <= 0,
        "below the direct way back": not teacher and one.quality < bar,
        "far below the best route": one.quality < FAR_BELOW * best,
        "round trips do not tell right translations from wrong ones": one.ratio is not None and one.ratio >= 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _least_bad(one: RouteQuality) -> tuple[bool, bool, bool, float]:
    """The sort key if no route pays; loops are preferred to teachers."""
    return one.alarm is None, one.kept >= FEWEST_KEPT, one.lead is None, one.quality


# -- summary ---------------------------------------------------------------------------------------------------


def chosen_kinds(worth: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """The number of chosen routes by kind: dual loops, and loops and teachers by the languages between."""
    kinds = Counter(_kind(path) for path, one in worth.items() if one["share"] > 0)
    return dict(kinds.most_common())


def _kind(path: str) -> str:
    languages = path.replace("<", ">").split(">")
    through = ", ".join(languages[1:-2])
    what = "teachers" if "<" in path else "loops"
    return f"{what} through {through}" if through else "dual loops"
