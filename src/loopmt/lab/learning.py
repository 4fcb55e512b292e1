"""Loop training of tables: every hop but the last generates, the last one learns.

Algorithm 1 has the paths 1>2>1 and 2>1>2, Algorithm 2 adds 1>3>2>1 and 2>3>1>2 (its step 4 updates only 1>2 and 2>1).
The gradient is exact, an expectation over all outputs of the generators, or estimated from samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

import numpy as np

from loopmt.lab.languages import Array, Hop, LabSettings, Translators
from loopmt.lab.measuring import decode

LabPath = tuple[int, ...]

DUAL: tuple[LabPath, ...] = ((1, 2, 1), (2, 1, 2))
TRIANGLE: tuple[LabPath, ...] = ((1, 3, 2, 1), (2, 3, 1, 2))
PIVOT_DUALS: tuple[LabPath, ...] = ((1, 3, 1), (3, 1, 3), (2, 3, 2), (3, 2, 3))


def loops_of(length: int) -> tuple[LabPath, ...]:
    """The closed paths of `length` hops through languages 3, 4, ... that teach 1>2 and 2>1."""
    pivots = tuple(range(3, length + 1))
    return (1, *reversed(pivots), 2, 1), (2, *pivots, 1, 2)


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def train(
    translators: Translators,
    paths: Sequence[LabPath],
    settings: LabSettings,
    steps: int | None = None,
    batch: int | None = None,
    rng: np.random.Generator | None = None,
) -> Translators:
    """Train on the paths with equal weights, with `batch` samples per path or the exact expectation.

    Directions that are not the last hop of a path do not change.
    """
    taught: dict[Hop, list[LabPath]] = {}
    for path in paths:
        taught.setdefault((path[-2], path[-1]), []).append(path)
    learning = {hop: translators[hop].copy() for hop in taught}
    known = {hop: _known_pairs(translators, hop, settings) for hop in learning}
    fixed = {hop: softmax(logits) for hop, logits in translators.items() if hop not in learning}
    for _ in range(steps or settings.steps):
        tables = fixed | {hop: softmax(logits) for hop, logits in learning.items()}
        for hop, group in taught.items():
            seen = known[hop] + sum(_generated(tables, path, batch, rng) for path in group) / len(group)
            learning[hop] += settings.rate * (seen - seen.sum(axis=1, keepdims=True) * tables[hop])
    return translators | learning


def train_every_hop(translators: Translators, settings: LabSettings, steps: int | None = None) -> Translators:
    """Algorithm 1 with the exact gradient of ln Pr(x returns) for both translators, on 1>2>1 and 2>1>2.

    The generator learns too: the expectation is over its outputs, given that the sentence returns.
    """
    there, back = translators[1, 2].copy(), translators[2, 1].copy()
    known = _known_pairs(translators, (1, 2), settings)
    for _ in range(steps or settings.steps):
        forward, backward = softmax(there), softmax(back)
        closed = forward * backward.T
        seen = closed / closed.sum(axis=1, keepdims=True) + closed / closed.sum(axis=0, keepdims=True)
        seen = seen / 2 + known
        there += settings.rate * (seen - seen.sum(axis=1, keepdims=True) * forward)
        back += settings.rate * (seen.T - seen.sum(axis=0)[:, None] * backward)
    return translators | {(1, 2): there, (2, 1): back}


def _known_pairs(translators: Translators, hop: Hop, settings: LabSettings) -> Array:
    """The parallel text of a direction: some of the pairs that both translators translate right."""
    there = (min(hop), max(hop))
    round_trip = decode(translators, (*there, there[0]), settings)
    sure = np.flatnonzero(round_trip.right[0] & round_trip.returned)
    chosen = sure[:: max(1, round(len(sure) / max(1, settings.parallel * settings.size)))]
    pairs = np.zeros((settings.size, settings.size))
    if settings.parallel:
        pairs[chosen, translators[there].argmax(axis=1)[chosen]] = 1.0
    return pairs if hop == there else pairs.T


def _generated(tables: Translators, path: LabPath, batch: int | None, rng: np.random.Generator | None) -> Array:
    """Frequencies of (input of the last hop, sentence to reconstruct); every start counts one."""
    generators = [tables[hop] for hop in pairwise(path[:-1])]
    if batch is None:
        return reduce(np.matmul, generators).T
    if rng is None:
        raise ValueError("sampling needs a random number generator: pass `rng`")
    size = len(generators[0])
    start = place = rng.integers(0, size, batch)
    for table in generators:
        chances = table[place].cumsum(axis=1)
        place = (chances > rng.random((batch, 1)) * chances[:, -1:]).argmax(axis=1)
    seen = np.zeros((size, size))
    np.add.at(seen, (place, start), size / batch)
    return seen
