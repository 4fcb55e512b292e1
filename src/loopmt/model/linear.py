"""Products of a stack of networks: each one's inputs with its own matrix.

Shapes: N networks, I inputs, O outputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def matmul(x: Tensor, weight_NOI: Tensor, bias_NO: Tensor) -> Tensor:
    """x (N, ..., I) times each network's own matrix, plus its bias."""
    if x.shape[0] == 1:
        return F.linear(x, weight_NOI.squeeze(0), bias_NO.squeeze(0))
    spread = (-1, *([1] * (x.dim() - 2)), bias_NO.shape[1])
    return product(x, weight_NOI) + bias_NO.view(spread)


def product(x: Tensor, weight_NOI: Tensor) -> Tensor:
    if x.shape[0] == 1:
        return F.linear(x, weight_NOI.squeeze(0))
    return torch.bmm(x.flatten(1, -2), weight_NOI.transpose(1, 2)).view(*x.shape[:-1], weight_NOI.shape[1])
