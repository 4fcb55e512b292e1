"""What a stage and its control were trained with: target tokens, updates and seconds, and whether the tokens agree.

Directions in which the tokens do not agree are not compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean

from loopmt.learn.routes import taught_by
from loopmt.path import Hop
from loopmt.run import Json

SAME_TOKENS = 0.05  # of all compared directions together
SAME_IN_ONE = 0.10
"""Of one direction. Lengths of real sentences and padding make the tokens of equal updates differ by up to 8%, more in
one direction and less in another."""


def trained_tokens(state: Json, directions: Collection[Hop]) -> int:
    """Target tokens that a stage trained on in these directions."""
    return sum(int(spent["target_tokens"]) for path, spent in state["spent"].items() if taught_by(path) in directions)


def budget_of(states: Sequence[Json], directions: Collection[Hop]) -> dict[str, float]:
    """The budget of a stage, as a mean over seeds: tokens of these directions; updates and seconds of all."""
    return {
        "target_tokens": fmean(trained_tokens(state, directions) for state in states),
        "updates": fmean(state["update"] for state in states),
        "seconds": fmean(sum(state["seconds"].values()) for state in states),
    }


def unequal_tokens(
    of: str, against: str, states: Sequence[Sequence[Json]], directions: Sequence[Hop]
) -> dict[Hop, str]:
    """The directions in which one of the two learnt from too much more text, with the reason why they are left out.

    `states` are those of both stages, over seeds. Where all directions together do not agree, each must.
    """
    excess = {hop: _excess(states, {hop}) for hop in directions}
    alike = {hop for hop in directions if abs(excess[hop]) <= SAME_IN_ONE}
    if abs(_excess(states, alike)) > SAME_TOKENS:
        alike = {hop for hop in alike if abs(excess[hop]) <= SAME_TOKENS}
    return {hop: _reason(of, against, excess[hop]) for hop in directions if hop not in alike}


def _excess(states: Sequence[Sequence[Json]], directions: Collection[Hop]) -> float:
    """By what share the first stage learnt from more tokens than the other one; negative if from fewer.

    0 if one of them learnt nothing, as an unmodified checkpoint.
    """
    one, other = (budget_of(side, directions)["target_tokens"] for side in states)
    if not one or not other:
        return 0.0
    return one / other - 1 if one > other else 1 - other / one


def _reason(of: str, against: str, excess: float) -> str:
    more, less = (of, against) if excess > 0 else (against, of)
    return f"{more} learnt from {abs(excess):.0%} more target tokens than {less}"


def unequal_seconds(of: str, against: str, budget: Json) -> list[str]:
    """A warning, if two stages that are compared at equal time were trained for different times."""
    one, other = (budget[side]["seconds"] for side in ("of", "against"))
    updates = budget["against"]["updates"] * one / other if other else 0.0
    if abs(one - other) <= SAME_TOKENS * min(one, other):
        return []
    return [
        f"{of} was trained for {one:,.0f} seconds and {against} for {other:,.0f}; for equal seconds give a control "
        f"about {updates:,.0f} updates"
    ]
