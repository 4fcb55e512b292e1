"""The numbers that a network computes with."""

from __future__ import annotations

import torch

from loopmt.config import Train


def precision(train: Train, device: torch.device) -> torch.dtype:
    """bfloat16 where it was asked for, or by itself on CUDA; never by itself on a CPU, which may not have it."""
    chosen = train.precision
    if chosen == "auto":
        chosen = "bfloat16" if device.type == "cuda" else "float32"
    return torch.bfloat16 if chosen == "bfloat16" else torch.float32
