"""A rough time of training before any text is prepared: from parameters, tokens, and the speed of matrix products.

An update costs about 6 operations per parameter and target token: 2 forward, 4 backward. Generating a token counts as
much as learning from one: it is forward only, in smaller matrices.
"""

from __future__ import annotations

import time

import torch

from loopmt.config import Experiment, Stage, expansions

_OPERATIONS = 6
_SIZES = (512, 256, 512)  # rows, width and columns of the product that is timed
_SECONDS = 0.2
_REACHED = 0.5  # of that speed, in training


def rough_seconds(experiment: Experiment, stage: Stage, parameters: int, speed: float) -> float:
    """Seconds of a stage with networks of so many parameters, at so many operations a second."""
    train = experiment.training(stage)
    weights: dict[object, float] = {}
    generated: dict[object, float] = {}
    for entry, expansion in expansions(experiment, stage):
        for path in expansion.paths:
            weights[path.taught] = weights.get(path.taught, 0.0) + entry.weight
            hops = entry.weight * len(path.generating)
            generated[path.taught] = generated.get(path.taught, 0.0) + hops
    tokens = train.tokens * sum(1 + generated[hop] / weight for hop, weight in weights.items() if weight)
    return (stage.updates or train.max_updates) * _OPERATIONS * parameters * tokens / speed


def measured_speed(device: torch.device) -> float:
    """Operations a second that training may reach on this device, from a short run of matrix products."""
    rows, width, columns = _SIZES
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    left, right = (torch.ones(shape, device=device, dtype=dtype) for shape in ((rows, width), (width, columns)))
    (left @ right).sum().item()
    began, products = time.perf_counter(), 0
    while time.perf_counter() - began < _SECONDS:
        (left @ right).sum().item()  # waits for the device
        products += 1
    return _REACHED * products * 2 * rows * width * columns / (time.perf_counter() - began)
