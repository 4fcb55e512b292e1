"""Exact measurement of translators: verdicts on all sentences, which are equally likely."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from loopmt import theory
from loopmt.lab.languages import LabSettings, Translators

Verdicts = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LabRoundTrip:
    """All sentences translated along a path, with the best translation on each hop."""

    right: tuple[Verdicts, ...]
    """For each hop, whether it is right for its input."""
    returned: Verdicts
    """Whether the end has the meaning of the start."""

    def only(self, chosen: Verdicts) -> LabRoundTrip:
        return LabRoundTrip(tuple(right[chosen] for right in self.right), self.returned[chosen])


def decode(translators: Translators, path: tuple[int, ...], settings: LabSettings) -> LabRoundTrip:
    """Translate all sentences of the first language along a path."""
    meaning = settings.meaning
    start = place = np.arange(settings.size)
    right = []
    for hop in pairwise(path):
        image = translators[hop].argmax(axis=1)[place]
        right.append(meaning[image] == meaning[place])
        place = image
    return LabRoundTrip(tuple(right), meaning[place] == meaning[start])


def tally(*verdicts: Verdicts) -> dict[str, int]:
    """Counts of sentences by their verdicts, written as bits."""
    return dict(Counter("".join("01"[int(bit)] for bit in row) for row in zip(*verdicts, strict=True)))


def dual_truth(before: LabRoundTrip, after: LabRoundTrip) -> dict[str, Any]:
    """Every quantity of the two-translator theory, from the verdicts before and after training."""
    seen = theory.estimate_observed(tally(before.right[0], before.returned, after.right[0], after.returned))
    latent = theory.estimate_latent(tally(*before.right[:2], before.returned)) if len(before.right) == 2 else {}
    return {key: value for key, value in (seen | latent).items() if not key.endswith(("_ci", "_se"))}


def triangle_truth(before: LabRoundTrip) -> dict[str, Any]:
    """The joint law of three steps and of the sentences that return."""
    return theory.estimate_triangle(tally(*before.right, before.returned))


def likelihood(round_trip: LabRoundTrip) -> float | None:
    """M of a loop of any length: Pr(returns | wrong) / Pr(returns | right)."""
    return _ratio(round_trip.returned[~round_trip.right[0]], round_trip.returned[round_trip.right[0]])


def conditional_likelihood(shorter: LabRoundTrip, longer: LabRoundTrip) -> float | None:
    """M of the longer loop among sentences that return in the shorter one: whether it adds evidence."""
    right, returned = shorter.right[0], shorter.returned
    return _ratio(longer.returned[returned & ~right], longer.returned[returned & right])


def _ratio(wrong: Verdicts, right: Verdicts) -> float | None:
    if not len(wrong) or not len(right) or not right.any():
        return None
    return float(wrong.mean() / right.mean())
