"""Weights as digests, and the machine that they belong to: other CPUs round differently."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def signature() -> dict[str, str]:
    """What rounding depends on."""
    return {
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cpu": _cpu_model(),
    }


def _cpu_model() -> str:
    """Name, family, model and stepping of the first core; in a virtual machine the name alone says little."""
    file = Path("/proc/cpuinfo")
    core = file.read_text(encoding="utf-8").partition("\n\n")[0] if file.exists() else ""
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in core.splitlines())}
    known = [facts[key] for key in ("model name", "cpu family", "model", "stepping") if key in facts]
    return " ".join(known) or platform.processor()


def weights_digest(stage: Path) -> str:
    """SHA-256 of the final weights of a finished stage: names and float32 bytes, sorted by name."""
    found = hashlib.sha256()
    for name, tensor in sorted(load_file(stage / "result" / "weights.safetensors").items()):
        found.update(name.encode())
        found.update(tensor.to(torch.float32).contiguous().numpy().tobytes())
    return found.hexdigest()


def loopmt(*words: object) -> str:
    """What a command prints. The test fails if the command does."""
    command = [sys.executable, "-m", "loopmt", *map(str, words)]
    done = subprocess.run(command, env=ONE_THREAD, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command[2:])}: {done.stderr}"
    return done.stdout
