"""A world of two languages that can be enumerated: all quantities computed by definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from loopmt.errors import TheoryError
from loopmt.theory.exact import Out, Value, distribution, natural, plain, ratio, sequence
from loopmt.theory.partition import Partition


def world2(
    mu: Sequence[float], T12: Sequence[int], T21: Sequence[int], Td12: Sequence[int], Td21: Sequence[int]
) -> Out:
    """All parameters of two deterministic translators before (T) and after (Td) training.

    Meanings are numbered from 0 in both languages so that the oracle is the identity; mu is the distribution of the
    source. It shows erratum 9: assumption 1 may hold while Theorem 1 is far from the accuracy.
    """
    weights = distribution("mu", mu)
    size = len(weights)
    forward, back = read_map("T12", T12, size), read_map("T21", T21, size)
    forward_d, back_d = read_map("Td12", Td12, size), read_map("Td21", Td21, size)
    right = [forward[x] == x for x in range(size)]
    back_right = [back[forward[x]] == forward[x] for x in range(size)]
    closed = [back[forward[x]] == x for x in range(size)]
    right_d = [forward_d[x] == x for x in range(size)]
    closed_d = [back_d[forward_d[x]] == x for x in range(size)]

    def mass(holds: Callable[[int], bool]) -> Fraction:
        return sum((weight for x, weight in enumerate(weights) if holds(x)), Fraction(0))

    def given(holds: Callable[[int], bool], condition: Callable[[int], bool]) -> Value:
        return ratio(mass(lambda x: holds(x) and condition(x)), mass(condition))

    p, r = mass(right.__getitem__), mass(back_right.__getitem__)
    cases = Partition.of(p, mass(lambda x: right[x] and closed[x]), mass(lambda x: not right[x] and closed[x]))
    alpha = given(lambda x: right_d[x] and closed_d[x], lambda x: not closed[x])
    return plain(
        {
            "p": p,
            "r": r,
            "lam": mass(lambda x: right[x] and back_right[x]) - p * r,
            "delta": given(closed.__getitem__, lambda x: not right[x] and not back_right[x]),
            "c11": cases.c11,
            "c12": cases.c12,
            "c2": mass(lambda x: not closed[x]),
            "alpha": alpha,
            "beta": given(lambda x: not right_d[x] and closed_d[x], lambda x: not closed[x]),
            "gamma": given(lambda x: not closed_d[x], lambda x: not closed[x]),
            "kappa": given(lambda x: right_d[x] and not closed_d[x], lambda x: not closed[x]),
            "u11": given(lambda x: not right_d[x], lambda x: right[x] and closed[x]),
            "u12": given(right_d.__getitem__, lambda x: not right[x] and closed[x]),
            "eta": given(closed_d.__getitem__, closed.__getitem__),
            "assumption1_holds": not mass(lambda x: closed[x] and not closed_d[x]),
            "p_d_true": mass(right_d.__getitem__),
            "printed_p_d": cases.c11 + mass(lambda x: not closed[x] and right_d[x] and closed_d[x]),
        }
    )


def read_map(name: str, images: Sequence[int], size: int) -> list[int]:
    """A map of `size` meanings into themselves."""
    values = [natural(f"{name}[{i}]", image) for i, image in enumerate(sequence(name, images))]
    if len(values) != size:
        raise TheoryError(f"{name} has {len(values)} entries for the {size} meanings of mu.")
    if max(values) >= size:
        raise TheoryError(f"{name} maps to {max(values)}; the meanings are numbered 0 to {size - 1}.")
    return values
