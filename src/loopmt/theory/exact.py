"""Exact numbers for the theory: what is read, compared and divided.

A number is read as the decimal it spells (0.1 is one tenth, not the nearest double) and kept as a
fraction, so that an empty case is exactly empty, a bound is exactly reached, and a strict comparison
says what the mathematics says. Floats come back only at the end, in `plain`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from loopmt.errors import TheoryError

Value = Fraction | float | None
"""A quantity: a fraction, an infinity, or None where it is undefined (0/0)."""

Out = dict[str, Any]
"""What the functions of the theory return: plain floats, infinities, booleans and None."""

TOLERANCE = Fraction(1, 10**12)
SUM_TOLERANCE = Fraction(1, 10**9)
LARGEST_COUNT = 10**15


def exact(name: str, value: object) -> Fraction:
    """The number that `value` spells; refuses everything that is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TheoryError(f"{name} is {value!r}, which is not a number.")
    if not isinstance(value, Rational) and not math.isfinite(value):
        raise TheoryError(f"{name} is {value}; it must be a finite number.")
    number = Fraction(value) if isinstance(value, Rational) else Fraction(repr(float(value)))
    if abs(number) > 10**100:
        raise TheoryError(f"{name} is beyond 1e100, too large to mean anything here.")
    return number


def feasible(value: Fraction, low: Fraction, high: Fraction) -> bool:
    """Inside [low, high], up to rounding."""
    return low - TOLERANCE <= value <= high + TOLERANCE


def settle(value: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """A value that differs from a bound of its range by rounding alone is put on that bound.

    So a cell of a law that should be empty is empty, and what is 0/0 does not become a number.
    """
    near = rounding(low, high)
    if value <= low + near:
        return low
    return high if value >= high - near else value


def rounding(low: Fraction, high: Fraction) -> Fraction:
    """How far rounding may move a value of the range [low, high]."""
    return min(TOLERANCE, (high - low) / 10**6)


def emptied(cells: Mapping[str, Fraction], near: Fraction) -> dict[str, Fraction]:
    """Cells of a law, those that differ from 0 by rounding alone put on 0.

    Two cells may be empty at the same bound, and rounding leaves a trace in the one that did not set it.
    """
    return {name: Fraction(0) if abs(cell) <= near else cell for name, cell in cells.items()}


def within(name: str, value: object, low: Fraction, high: Fraction, why: str = "") -> Fraction:
    """A number inside [low, high]."""
    number = exact(name, value)
    if not feasible(number, low, high):
        allowed = f"[{float(low):.12g}, {float(high):.12g}]"
        raise TheoryError(f"{name} = {float(number):g} is impossible{why}: the range is {allowed}.")
    return settle(number, low, high)


def probability(name: str, value: object) -> Fraction:
    """A number inside [0, 1]."""
    number = exact(name, value)
    if not -TOLERANCE <= number <= 1 + TOLERANCE:
        raise TheoryError(f"{name} = {float(number):g} is not a probability: it must lie in [0, 1].")
    return min(max(number, Fraction(0)), Fraction(1))


def natural(name: str, value: object, least: int = 0) -> int:
    """A whole number, `least` or more."""
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
    """A list with something in it (a NumPy array will do, a string will not)."""
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
    """The same answer with every fraction turned into a float."""
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
