"""Differences between published architectures other than sizes: first decoder input, positions, scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

from loopmt.text.ragged import PAD


@dataclass(frozen=True)
class Conventions:
    """The conventions of an architecture; by default those of Marian and Pegasus, which loopmt's networks follow."""

    start: int = PAD  # the token that the decoder reads first
    first_position: int = 0
    last_period: bool = False  # the last sine has exactly the longest period, as in fairseq
    opens: bool = False  # outputs begin with a given token, such as the code of a language
    scaled: bool = True  # embeddings are multiplied by the square root of the width

    def scale(self, width: int) -> float:
        return math.sqrt(width) if self.scaled else 1.0


OWN = Conventions()
