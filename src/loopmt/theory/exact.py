"""Exact arithmetic for the theory: validation, comparison and division of fractions.

A number is parsed as the decimal it spells (0.1 is one tenth, not the nearest double) and kept as a fraction, so that
empty cases, bounds and strict comparisons are exact. Results are converted to floats at the end, in `plain`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from loopmt.errors import TheoryError

Value = Fraction | float | None
"""A quantity: a fraction, an infinity, or None if it is undefined (0/0)."""

Out = dict[str, Any]
"""Results of the functions: floats, infinities, booleans and None."""

TOLERANCE = Fraction(1, 10**12)
SUM_TOLERANCE = Fraction(1, 10**9)
LARGEST_COUNT = 10**15


def exact(name: str, value: object) -> Fraction:
    """The exact number that `value` spells; an error if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TheoryError(f"{name} is {value!r}, which is not a number.")
    if not isinstance(value, Rational) and not math.isfinite(value):
        raise TheoryError(f"{name} is {value}; it must be a finite number.")
    number = Fraction(value) if isinstance(value, Rational) else Fraction(repr(float(value)))
    if abs(number) > 10**100:
        raise TheoryError(f"{name} is too large: its absolute value must not exceed 1e100.")
    return number


def feasible(value: Fraction, low: Fraction, high: Fraction) -> bool:
    """Whether the value is in [low, high], up to rounding."""
    return low - TOLERANCE <= value <= high + TOLERANCE


def snap_to_bounds(value: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """Replace a value that differs from a bound only by rounding by the bound.

    So a cell that should be empty is empty, and 0/0 stays undefined.
    """
    near = rounding(low, high)
    if value <= low + near:
        return low
    return high if value >= high - near else value


def rounding(low: Fraction, high: Fraction) -> Fraction:
    """The tolerance for rounding of values in [low, high]."""
    return min(TOLERANCE, (high - low) / 10**6)


def emptied(cells: Mapping[str, Fraction], near: Fraction) -> dict[str, Fraction]:
    """Replace cells that differ from 0 only by rounding by 0.

    Two cells may be empty at the same bound, and rounding leaves a small value in one of them.
    """
    return {name: Fraction(0) if abs(cell) <= near else cell for name, cell in cells.items()}


def within(name: str, value: object, low: Fraction, high: Fraction, why: str = "") -> Fraction:
    """Parse a number in [low, high]."""
    number = exact(name, value)
    if not feasible(number, low, high):
        allowed = f"[{float(low):.12g}, {float(high):.12g}]"
        raise TheoryError(f"{name} = {float(number):g} is impossible{why}: the range is {allowed}.")
    return snap_to_bounds(number, low, high)


def probability(name: str, value: object) -> Fraction:
    """Parse a number in [0, 1]."""
    number = exact(name, value)
    if not -TOLERANCE <= number <= 1 + TOLERANCE:
        raise TheoryError(f"{name} = {float(number):g} is not a probability: it must lie in [0, 1].")
    return min(max(number, Fraction(0)), Fraction(1))


def natural(name: str, value: object, least: int = 0) -> int:
    """Parse a whole number of at least `least`."""
    number = exact(name, value)
    if number.denominator != 1 or not least <= number <= LARGEST_COUNT:
        raise TheoryError(f"{name} = {value!r} must be a whole number from {least} to {LARGEST_COUNT:.0e}.")
    return int(number)


def distribution(name: str, values: object) -> list[Fraction]:
    """A list of probabilities that sum to one."""
    numbers = probabilities(name, values)
    total = sums_to_one(name, numbers)
    return [number / total for number in numbers]


def probabilities(name: str, values: object) -> list[Fraction]:
    """A list of probabilities, at least one."""
    return [probability(f"{name}[{i}]", value) for i, value in enumerate(sequence(name, values))]


def sequence(name: str, values: object) -> Sequence[object]:
    """A list that is not empty; NumPy arrays are allowed, strings are not."""
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        raise TheoryError(f"{name} is {values!r}; it must be a list of numbers.")
    items: list[object] = list(values)  # type: ignore[call-overload]
    if not items:
        raise TheoryError(f"{name} is empty; it must hold at least one number.")
    return items


def sums_to_one(name: str, numbers: Iterable[Fraction]) -> Fraction:
    """The sum, which is 1 up to rounding: divide by it, and it is 1."""
    total = sum(numbers, Fraction(0))
    if abs(total - 1) > SUM_TOLERANCE:
        raise TheoryError(f"{name} sums to {float(total):.12g}; the probabilities must sum to 1.")
    return total


def bit_table(name: str, table: object, bits: int) -> Mapping[str, object]:
    """A table keyed by strings of `bits` zeros and ones; a key that is not there counts as zero."""
    if not isinstance(table, Mapping):
        raise TheoryError(f"{name} is {table!r}; it must be an object keyed by strings of {bits} bits.")
    for key in table:
        if not isinstance(key, str) or len(key) != bits or set(key) - {"0", "1"}:
            raise TheoryError(f"{name} has the key {key!r}; a key is a string of {bits} zeros and ones.")
    return table


def ratio(above: Fraction, below: Fraction) -> Value:
    """above / below: None for 0/0, an infinity for x/0."""
    if below:
        return above / below
    return _infinity(above) if above else None


def exceeds(left: Fraction | float, right: Fraction | float) -> bool:
    """left > right, where a difference below 1e-12 counts as none."""
    return left - right > TOLERANCE


def plain(out: Mapping[str, object]) -> Out:
    """The same results with fractions converted to floats."""
    return {key: _plain(value) for key, value in out.items()}


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return _to_float(value)
    if isinstance(value, Mapping):
        return plain(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return _infinity(value)


def _infinity(like: Fraction) -> float:
    return math.inf if like > 0 else -math.inf
