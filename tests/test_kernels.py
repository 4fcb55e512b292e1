"""Triton kernels compute what eager operations compute, forward and backward; here interpreted on the CPU.

`TRITON_INTERPRET=1 pytest tests/test_kernels.py` where triton is installed; on CUDA see test_gpu.py.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

if find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("kernels run on a CPU only with TRITON_INTERPRET=1", allow_module_level=True)

from loopmt.model.kernels.loss import cross_entropy


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def eager_loss(logits: Tensor, bias: Tensor | None, target: Tensor, smoothing: float) -> Tensor:
    if bias is not None:
        logits = logits + bias.repeat_interleave(len(logits) // len(bias), 0)
    return F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing).masked_fill(target == 0, 0)


@pytest.mark.parametrize(("networks", "rows", "size"), [(1, 1, 5), (2, 3, 37), (3, 70, 130), (1, 2, 8003), (2, 2, 4096)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
def test_cross_entropy(networks: int, rows: int, size: int, smoothing: float, biased: bool) -> None:
    logits, scale = 3 * normal(1, networks * rows, size), normal(2, networks * rows)
    target = torch.arange(networks * rows) * 7 % size
    bias = normal(3, networks, size) if biased else None
    inputs = [tensor.double().requires_grad_() for tensor in (logits, bias) if tensor is not None]
    expected = eager_loss(inputs[0], inputs[1] if biased else None, target, smoothing)
    slopes = torch.autograd.grad(expected, inputs, scale.double())
    leaves = [tensor.clone().requires_grad_() for tensor in (logits, bias) if tensor is not None]
    found = cross_entropy(leaves[0] * 1, target, smoothing, leaves[1] if biased else None)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    for one, other in zip(torch.autograd.grad(found, leaves, scale), slopes, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)
