"""A pilot: what a short training did to one half of the held-out sentences predicts the other half.

The accuracy after training is exact by total probability over the case of a sentence before it: right and home, wrong
and home, lost. How often each case ends right (1 - u11, u12, alpha + kappa) comes from the first half, how large each
case is from the second. A pilot is set against a control trained as long without loops: more training alone gains too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopmt.judge.analysis import AFTER, Estimate, Values, paired, shares
from loopmt.judge.bootstrap import FloatArray
from loopmt.judge.loops import Verdicts, count_verdicts
from loopmt.judge.theory.estimate import VerdictCounts
from loopmt.rng import numpy_generator

SAMPLES = 2000
_CASES = 3


@dataclass(frozen=True)
class Pilot:
    """Gains over the control, on the second half: as the first half predicts them, and as they are."""

    predicted: Estimate
    observed: Estimate
    trained: Values
    """alpha, beta, gamma, kappa, eta, u11, u12 on the first half."""
    control: Values


def judge_pilot(before: Verdicts, trained: Verdicts, control: Verdicts) -> Pilot:
    """Halves are the even and the odd rows."""
    first, second = slice(0, None, 2), slice(1, None, 2)
    return Pilot(
        _predict(before.only(first), trained.only(first), control.only(first), before.only(second)),
        paired(trained.right[second], control.right[second]),
        _parameters(before.only(first), trained.only(first)),
        _parameters(before.only(first), control.only(first)),
    )


def _parameters(before: Verdicts, after: Verdicts) -> Values:
    return shares(VerdictCounts(count_verdicts(before.right, before.home, after.right, after.home)), AFTER)


def _cases(verdicts: Verdicts) -> NDArray[np.int64]:
    """0: right and home, 1: wrong but home, 2: lost."""
    return np.where(verdicts.home, np.where(verdicts.right, 0, 1), 2)


def _predict(before: Verdicts, trained: Verdicts, control: Verdicts, elsewhere: Verdicts) -> Estimate:
    cells = _cases(before) * 4 + trained.right * 2 + control.right
    outcome = np.bincount(cells, minlength=_CASES * 4)
    sizes = np.bincount(_cases(elsewhere), minlength=_CASES)
    if not outcome.sum() or not sizes.sum():
        return [None, -1.0, 1.0]
    generator = numpy_generator("pilot", str(before.loop))
    resampled = _gain(*(_draw(generator, counts) for counts in (outcome, sizes)))
    low, high = np.quantile(resampled, [0.025, 0.975])
    return [float(_gain(outcome[None], sizes[None])[0]), float(low), float(high)]


def _draw(generator: np.random.Generator, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return generator.multinomial(counts.sum(), counts / counts.sum(), size=SAMPLES)


def _gain(outcome: NDArray[np.int64], sizes: NDArray[np.int64]) -> FloatArray:
    """The sum over cases of size times (right after training - right in the control); an unseen case adds nothing."""
    by_case = outcome.reshape(-1, _CASES, 2, 2)  # case, trained is right, control is right
    ahead = by_case[:, :, 1, 0] - by_case[:, :, 0, 1]
    rates = ahead / np.maximum(by_case.sum(axis=(2, 3)), 1)
    gains: FloatArray = (rates * sizes / sizes.sum(axis=1, keepdims=True)).sum(axis=1)
    return gains
