"""What is true of a set of translators, exactly: verdicts on every sentence, every one as likely."""

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
    """Every sentence sent along a walk, each hop saying its best translation."""

    right: tuple[Verdicts, ...]
    """For each hop, whether it was right for the input it received."""
    returned: Verdicts
    """Whether the end has the meaning of the start."""

    def only(self, chosen: Verdicts) -> LabRoundTrip:
        return LabRoundTrip(tuple(right[chosen] for right in self.right), self.returned[chosen])


def decode(translators: Translators, walk: tuple[int, ...], settings: LabSettings) -> LabRoundTrip:
    """The journey of all sentences of the first language."""
    meaning = settings.meaning
    start = place = np.arange(settings.size)
    right = []
    for hop in pairwise(walk):
        image = translators[hop].argmax(axis=1)[place]
        right.append(meaning[image] == meaning[place])
        place = image
    return LabRoundTrip(tuple(right), meaning[place] == meaning[start])


def tally(*verdicts: Verdicts) -> dict[str, int]:
    """Sentences counted by their verdicts, written as bits."""
    return dict(Counter("".join("01"[int(bit)] for bit in row) for row in zip(*verdicts, strict=True)))


def dual_truth(before: LabRoundTrip, after: LabRoundTrip) -> dict[str, Any]:
    """Every quantity of the two-translator theory, from the verdicts before and after training."""
    seen = theory.estimate_observed(tally(before.right[0], before.returned, after.right[0], after.returned))
    latent = theory.estimate_latent(tally(*before.right[:2], before.returned)) if len(before.right) == 2 else {}
    return {key: value for key, value in (seen | latent).items() if not key.endswith(("_ci", "_se"))}


def triangle_truth(before: LabRoundTrip) -> dict[str, Any]:
    """The joint law of three steps and what comes home."""
    return theory.estimate_triangle(tally(*before.right, before.returned))


def likelihood(journey: LabRoundTrip) -> float | None:
    """M of a loop of any length: Pr(home | wrong) / Pr(home | right)."""
    return _ratio(journey.returned[~journey.right[0]], journey.returned[journey.right[0]])


def conditional_likelihood(shorter: LabRoundTrip, longer: LabRoundTrip) -> float | None:
    """M of the longer loop among the sentences that the shorter one brought home: is it new evidence?"""
    right, home = shorter.right[0], shorter.returned
    return _ratio(longer.returned[home & ~right], longer.returned[home & right])


def _ratio(wrong: Verdicts, right: Verdicts) -> float | None:
    if not len(wrong) or not len(right) or not right.any():
        return None
    return float(wrong.mean() / right.mean())
