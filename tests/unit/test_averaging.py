"""Checkpoint averaging: the mean weights of the last checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch

from loopmt.learn.averaging import average_checkpoints
from loopmt.run import Checkpoint, StageFolder


def saved(folder: Path, *updates: int) -> StageFolder:
    """A stage whose weights after each update equal the number of the update."""
    stage = StageFolder(folder)
    stage.begin({"stage": "one"})
    for update in updates:
        weights = {"en>fr/embed": torch.full((2, 3), float(update)), "fr>en/embed": torch.full((4,), -float(update))}
        stage.save(Checkpoint(update, {"weights": weights, "optimizer": {}}, {}), updates, update)
    return stage


def test_the_mean_of_the_last_checkpoints(tmp_path: Path) -> None:
    average = average_checkpoints(saved(tmp_path / "one", 2, 4, 9), [2, 4, 9])
    assert average is not None
    assert torch.equal(average["en>fr/embed"], torch.full((2, 3), 5.0))
    assert torch.equal(average["fr>en/embed"], torch.full((4,), -5.0))


def test_one_checkpoint_has_no_average(tmp_path: Path) -> None:
    stage = saved(tmp_path / "one", 2)
    assert average_checkpoints(stage, [2]) is None
    assert average_checkpoints(stage, []) is None
