"""Limits on the length of translations and the size of batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from loopmt.text.ragged import Ints


@dataclass(frozen=True)
class DecodeLimits:
    """Limits on the length of outputs and the size of batches."""

    growth: float = 2.0
    extra: int = 10
    longest: int = 512
    batch_tokens: int = 16_384  # source tokens with padding, beams counted
    batch_rows: int = 512

    @classmethod
    def on(cls, device: torch.device, longest: int = 512) -> DecodeLimits:
        """Limits whose batches use the device well."""
        return (
            cls(longest=longest, batch_tokens=131_072, batch_rows=4096)
            if device.type == "cuda"
            else cls(longest=longest)
        )

    def length(self, source_length: int) -> int:
        """The longest allowed translation of a source."""
        return self.lengths(np.array([source_length]))[0]

    def lengths(self, source_lengths: Ints) -> list[int]:
        longest: list[int] = (
            np.minimum(self.longest, np.ceil(self.growth * source_lengths) + self.extra).astype(np.int64).tolist()
        )
        return longest
