"""Checkpoint averaging: the mean of the weights of a stage's last checkpoints (`train.average`)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from loopmt.run import StageFolder


def average_checkpoints(folder: StageFolder, updates: Sequence[int]) -> dict[str, Tensor] | None:
    """The mean weights of the checkpoints at these updates; None if there are fewer than two."""
    if len(updates) < 2:
        return None
    total = {name: tensor.clone() for name, tensor in folder.weights(updates[0]).items()}
    for update in updates[1:]:
        for name, tensor in folder.weights(update).items():
            total[name] += tensor
    return {name: tensor / len(updates) for name, tensor in total.items()}
