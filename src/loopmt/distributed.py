"""One process or many: the operations of torch.distributed that a run needs.

Under `torchrun` every process calls `Processes.join()`. A single process is a group of one, where every operation is
the identity.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_TIMEOUT = timedelta(days=1)  # processes wait while the main one prepares or validates; torchrun ends orphans


@dataclass(frozen=True)
class Processes:
    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> Processes:
        """Join the group that torchrun describes in the environment, if there is one."""
        if "WORLD_SIZE" not in os.environ:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_TIMEOUT)
        return cls(dist.get_rank(), dist.get_world_size())

    def leave(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def in_group(self) -> bool:
        """Whether a process group exists, even of one process."""
        return dist.is_initialized()

    @property
    def many(self) -> bool:
        return self.size > 1

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        if self.many:
            dist.all_reduce(tensor)
        return tensor

    def all_gather(self, value: Any) -> list[Any]:
        """The value of every process, in the order of ranks."""
        if not self.many:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any) -> Any:
        """The value of the main process, on every process."""
        if not self.many:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def barrier(self) -> None:
        if self.many:
            dist.barrier()


def is_main_process() -> bool:
    """Whether this is torchrun's first process, or the only one; valid before joining and after leaving."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("RANK", "0") == "0"


def device_of_this_process() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
