"""Checkpoints while training goes on: on CUDA they are copied off the device, and written in the background.

A checkpoint counts from the moment its folder has its name, so a process that dies while one is being written resumes
from the one before, as if it had died a little earlier.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor

from loopmt.run import Checkpoint, StageFolder


class CheckpointWriter:
    """Writes the checkpoints of a stage, one after another."""

    def __init__(self, folder: StageFolder, background: bool) -> None:
        self.folder = folder
        self._writer = ThreadPoolExecutor(1, "checkpoint") if background else None
        self._pending: Future[None] | None = None

    def save(self, checkpoint: Checkpoint, keep: Collection[int | None], whole: int) -> None:
        self.wait()
        checkpoint = self.folder.stamped(checkpoint)
        if self._writer is None:
            self.folder.save(checkpoint, keep, whole)
        else:
            self._pending = self._writer.submit(self.folder.save, _copied(checkpoint), frozenset(keep), whole)

    def wait(self) -> None:
        """Until everything is written; what went wrong in the background is raised here."""
        pending, self._pending = self._pending, None
        if pending:
            pending.result()


def _copied(checkpoint: Checkpoint) -> Checkpoint:
    tensors = {
        name: {key: tensor.detach().to("cpu", copy=True) for key, tensor in group.items()}
        for name, group in checkpoint.tensors.items()
    }
    return Checkpoint(checkpoint.update, tensors, checkpoint.state)
