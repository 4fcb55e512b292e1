"""The budgets of a stage and its control: target tokens, updates and seconds, and whether the tokens agree."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean
from typing import Literal

from loopmt.learn.routes import taught_by
from loopmt.path import Hop
from loopmt.run import Json

SAME_TOKENS = 0.05
"""Padding and the lengths of real sentences make the tokens of equal updates differ by up to about 2%."""


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


def unequal(kind: Literal["updates", "seconds"], of: str, against: str, budget: Json) -> list[str]:
    """A warning, if the two do not have as much of what they are compared at."""
    return _unequal_seconds(of, against, budget) if kind == "seconds" else _unequal_tokens(of, against, budget)


def _unequal_seconds(of: str, against: str, budget: Json) -> list[str]:
    one, other = (budget[side]["seconds"] for side in ("of", "against"))
    updates = budget["against"]["updates"] * one / other if other else 0.0
    if abs(one - other) <= SAME_TOKENS * min(one, other):
        return []
    return [
        f"{of} was trained for {one:,.0f} seconds and {against} for {other:,.0f}; for equal seconds give a control "
        f"about {updates:,.0f} updates"
    ]


def _unequal_tokens(of: str, against: str, budget: Json) -> list[str]:
    """Whether one of the two learnt from more text."""
    one, other = (budget[side]["target_tokens"] for side in ("of", "against"))
    share = max(one, other) / min(one, other) - 1 if one and other else 0.0
    if share <= SAME_TOKENS:
        return []
    more, less = (of, against) if one > other else (against, of)
    return [
        f"{more} learnt from {share:.0%} more target tokens than {less} ({one:,.0f} and {other:,.0f}), "
        "so the difference is not due to the paths alone"
    ]
