"""Will a checkpoint fit into memory? Asked before it is copied."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch

from loopmt.config import Experiment
from loopmt.distributed import device_of_this_process
from loopmt.errors import DataError
from loopmt.pretrained.importing import blob
from loopmt.pretrained.untrusted import parameter_count

_FROZEN, _TRAINED = 4, 20  # bytes of a parameter: float32; with gradients, their sum and two moments
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # of containers


def check_memory(experiment: Experiment, folders: Iterable[Path]) -> None:
    """Raise an error if the weights of a stage exceed all memory; there is a folder for each network."""
    files = [blob(file) or file for folder in folders for file in sorted(folder.glob("*.safetensors"))]
    parameters = sum(map(parameter_count, files))
    full = [stage.name for stage in experiment.stages if experiment.lora(stage) is None]
    needed, device = parameters * (_TRAINED if full else _FROZEN), device_of_this_process()
    memory = total_memory(device)
    if needed <= memory:
        return
    what = f"all of them (stage {full[0]})" if full else "an adapter on them"
    of = "weights, gradients and moments" if full else "weights"
    lora = f' With adapt = "lora" in all stages, {_gib(parameters * _FROZEN)} are enough.' if full else ""
    raise DataError(
        f"model.pretrained has {parameters:,} parameters. To train {what} takes at least {_gib(needed)} for {of}; this "
        f"machine ({device.type}) has {_gib(memory)}.{lora} Use a smaller checkpoint or a machine with more memory."
    )


def total_memory(device: torch.device) -> int:
    """Bytes of the device; on a CPU, of this machine or container."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    found += [int(text) for file in _LIMITS if file.is_file() and (text := file.read_text().strip()).isdigit()]
    return min(found)


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
