"""`loopmt doctor`: what this machine has, what works on it, and what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from loopmt.run import Json

_PACKAGES = ("loopmt", "torch", "numpy", "sentencepiece", "sacrebleu", "sacremoses", "safetensors", "pydantic")
EXTRAS = {  # by extra: what it is for, and the modules it brings
    "report": ("report pages and pictures", ("matplotlib", "jinja2")),
    "serve": ("the translation server", ("fastapi", "uvicorn", "jinja2")),
    "export": ("CTranslate2 and Hugging Face", ("ctranslate2", "transformers")),
    "tensorboard": ("TensorBoard logs", ("tensorboard",)),
    "zstd": (".zst files", ("zstandard",)),
}
# A CPU without the instructions may kill the process, so this one tries for us.
_TRY_BFLOAT16 = (
    "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); "
    "torch.nn.functional.layer_norm((a @ a).softmax(-1), (64,)).sum().item()"
)


def examine(folder: Path) -> Json:
    """All findings; `folder` is where runs would lie."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "cpu": {"cores": os.cpu_count(), "usable_cores": _usable_cores(), "threads": _threads()},
        "memory_bytes": _memory(),
        "devices": _devices(),
        "precision": {"cpu": _cpu_precision(), **_cuda_precision()},
        "compile": _compile(),
        "disk_free_bytes": shutil.disk_usage(folder).free,
        "extras": {name: _extra(*extra) for name, extra in EXTRAS.items()},
    }


def advice(findings: Json) -> list[str]:
    """What a person might do about the findings."""
    lines = [
        f"{extra['for']} needs {', '.join(extra['missing'])}: pip install 'loopmt[{name}]'"
        for name, extra in findings["extras"].items()
        if extra["missing"]
    ]
    if not findings["devices"]:
        lines.append("no CUDA device: training runs on the CPU in float32, which suits tiny and small models")
    if findings["disk_free_bytes"] < 2**30:
        lines.append("less than 1 GiB of disk is free here: put runs elsewhere with --run")
    return lines


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _extra(purpose: str, modules: tuple[str, ...]) -> Json:
    return {"for": purpose, "missing": [name for name in modules if find_spec(name) is None]}


def _usable_cores() -> int | None:
    """A container may be given fewer cores than the machine has; only Linux says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _devices() -> list[Json]:
    import torch

    if not torch.cuda.is_available():
        return []
    found = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return [{"name": one.name, "memory_bytes": one.total_memory} for one in found]


def _cpu_precision() -> list[str]:
    tried = subprocess.run([sys.executable, "-c", _TRY_BFLOAT16], capture_output=True, timeout=120, check=False)
    return ["float32", *(["bfloat16"] if tried.returncode == 0 else [])]


def _cuda_precision() -> dict[str, list[str]]:
    import torch

    if not torch.cuda.is_available():
        return {}
    return {"cuda": ["float32", *(["bfloat16"] if torch.cuda.is_bf16_supported() else [])]}


def _compile() -> bool:
    """Compiled steps need CUDA and Triton; without them training is eager."""
    import torch

    return torch.cuda.is_available() and find_spec("triton") is not None
