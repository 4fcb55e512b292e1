"""How unlikely the real target is: the loss of every row.

Shapes: N networks, B rows, L length, P weights.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.model.transformer import Dropout, Transformer
from loopmt.model.translators import NetworkStack
from loopmt.model.weights import Weights
from loopmt.text.ids import PAD


def row_losses(
    translators: NetworkStack,
    flat_NP: Tensor,
    source_NBL: Tensor,
    target_NBL: Tensor,
    label_smoothing: float,
    dropout: Dropout,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Label-smoothed loss of every row, summed over its tokens, and its number of target tokens."""
    weights = translators.layout.unpack(flat_NP.to(dtype))
    return losses_with(weights, translators.transformer, source_NBL, target_NBL, label_smoothing, dropout)


def losses_with(
    weights: Weights,
    transformer: Transformer,
    source_NBL: Tensor,
    target_NBL: Tensor,
    label_smoothing: float,
    dropout: Dropout,
) -> tuple[Tensor, Tensor]:
    states = transformer.encode(weights, source_NBL, dropout)
    memory = transformer.memory(weights, states, source_NBL)
    states = transformer.decode(weights, memory, shifted(target_NBL), dropout)
    losses = transformer.losses(weights, states, target_NBL, label_smoothing)
    return losses.sum(-1), (target_NBL != PAD).sum(-1)


def shifted(target_NBL: Tensor) -> Tensor:
    """What the decoder is given when it must say `target_NBL`; it starts from padding."""
    return F.pad(target_NBL[..., :-1], (1, 0), value=PAD)
