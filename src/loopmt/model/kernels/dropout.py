"""Random numbers inside kernels: a hash of seed and position, so no dropout mask is stored for the backward pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def new_seed(device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """A seed drawn on the device; a replayed CUDA graph draws a new one each time."""
    return torch.randint(2**62, (1,), device=device, generator=generator)


@triton.jit
def _mixed(h):
    """A permutation of 32-bit numbers in which every output bit depends on every input bit."""
    h = h ^ (h >> 16)
    h = h * 0x7FEB352D
    h = h ^ (h >> 15)
    h = h * 0x846CA68B
    return h ^ (h >> 16)


@triton.jit
def _bits(seed, place):
    """Two rounds of mixing, keyed by the halves of the seed; much cheaper than a counter-based generator."""
    low, high = (seed & 0xFFFFFFFF).to(tl.uint32), (seed >> 32).to(tl.uint32)
    return _mixed(_mixed(place.to(tl.uint32) ^ low) + high)


@triton.jit
def kept(seed, place, rate):
    """1 / (1 - rate) where an element is kept, 0 where it is dropped."""
    uniform = (_bits(seed, place) >> 8).to(tl.float32) * (1.0 / 16777216.0)
    return tl.where(uniform < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def gumbel(seed, place):
    """Gumbel noise: the argmax of logits plus this noise is a draw from their softmax.

    Large noise, -log of an exponential variable near 0, decides the argmax; it is computed exactly.
    """
    uniform = (_bits(seed, place).to(tl.float32) + 0.5) * (1.0 / 4294967296.0)
    waiting = tl.where(uniform < 1e-3, uniform * (1.0 + 0.5 * uniform), -tl.log(1.0 - uniform))
    return -tl.log(waiting)
