"""Adam's step in one pass over the weights.

Shapes: N networks, P weights of each.
"""

from __future__ import annotations

import triton
import triton.language as tl

from loopmt.model.adam import AdamStep

_BLOCK = 2048


@triton.jit
def _step(
    weights, first, second, gradient, scale, good, size, unbias, decay,
    P, follow1, follow2, epsilon, DECAY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < P
    place = network * P + columns
    # All loads come first, so that their latencies overlap.
    g = tl.load(gradient + place, mask=inside, other=0.0)
    m = tl.load(first + place, mask=inside, other=0.0)
    v = tl.load(second + place, mask=inside, other=0.0)
    w = tl.load(weights + place, mask=inside, other=0.0)
    learns = tl.load(good + network) != 0
    g *= tl.load(scale + network)
    new_m = m + follow1 * (g - m)
    new_v = v + follow2 * (g * g - v)
    root = tl.sqrt(new_v) * tl.load(unbias + network) + epsilon
    new_w = w
    if DECAY:
        new_w *= tl.load(decay + network)
    new_w -= new_m * tl.load(size + network) / root
    tl.store(first + place, tl.where(learns, new_m, m), mask=inside)
    tl.store(second + place, tl.where(learns, new_v, v), mask=inside)
    tl.store(weights + place, tl.where(learns, new_w, w), mask=inside)
    tl.store(gradient + place, tl.zeros((BLOCK,), tl.float32), mask=inside)


def adam_step(step: AdamStep) -> None:
    """As `model.adam.adam_step`."""
    adam, steps = step.adam, step.steps.clamp_min(1)
    size = step.rate / (1 - adam.beta1**steps)
    unbias = (1 - adam.beta2**steps).rsqrt()
    decay = (1 - step.rate * adam.weight_decay).expand_as(size).contiguous()
    networks, places = step.weights.shape
    _step[(triton.cdiv(places, _BLOCK), networks)](
        step.weights, step.first, step.second, step.gradient, step.scale, step.good.int(), size, unbias, decay,
        places, 1 - adam.beta1, 1 - adam.beta2, adam.epsilon,
        DECAY=adam.weight_decay > 0, BLOCK=_BLOCK, num_warps=8,
    )  # fmt: skip
