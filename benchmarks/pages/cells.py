"""Figures as text, and rows as tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from benchmarks.pages.raw import Gain

NOTHING = "–"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Figures are aligned to the right, but for those of the first column."""
    lines = [list(row) for row in rows]
    columns = list(zip(*lines, strict=True))
    rule = "|".join("---:" if place and _figures(cells) else "---" for place, cells in enumerate(columns))
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|", *(f"| {' | '.join(line)} |" for line in lines)])


def _figures(cells: Iterable[str]) -> bool:
    return all(re.match(rf"$|{NOTHING}|[-+.]*\d", cell) for cell in cells)


def points(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def signed(value: float, digits: int = 2) -> str:
    return f"{value:+z.{digits}f}"


def interval(gain: Gain | None, digits: int = 2) -> str:
    if gain is None:
        return NOTHING
    difference, low, high = (signed(value, digits) for value in gain)
    return f"{difference} ({low} to {high})"


def share(value: Sequence[float], plus: bool = False) -> str:
    """A share with its interval, as in the paper: without the leading zero."""
    centre, low, high = (f"{one:{'+' if plus else ''}z.3f}".replace("0.", ".", 1) for one in value)
    return f"{centre} ({low} to {high})"


def span(values: Sequence[float]) -> str:
    """One figure where all are the same, else the least and the most."""
    low, high = (f"{round(value):,}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
