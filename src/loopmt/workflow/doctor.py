"""`loopmt doctor`: what this machine has, what works on it, and what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from loopmt.run import Json

_PACKAGES = ("loopmt", "torch", "numpy", "sentencepiece", "sacrebleu", "sacremoses", "safetensors", "pydantic")
EXTRAS = {  # by extra: what it is for, and the modules it brings
    "report": ("report pages and pictures", ("matplotlib", "jinja2")),
    "serve": ("the translation server", ("fastapi", "uvicorn", "jinja2")),
    "export": ("CTranslate2 and Hugging Face", ("ctranslate2", "transformers")),
    "lora": ("adapters of pretrained checkpoints", ("peft",)),
    "tensorboard": ("TensorBoard logs", ("tensorboard",)),
    "track": ("TensorBoard and Weights & Biases", ("tensorboard", "wandb")),
    "zstd": (".zst files", ("zstandard",)),
    "parquet": (".parquet files", ("pyarrow",)),
}
_CORE_TIMES = Path("/proc/stat")
_LOOK = 0.3  # seconds that cores are watched for
_SLOWER = 1.05  # times the step of one thread, from which on more threads are a loss
# A CPU without the instructions may kill the process, so this one tries for us.
_TRY_BFLOAT16 = (
    "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); "
    "torch.nn.functional.layer_norm((a @ a).softmax(-1), (64,)).sum().item()"
)


def examine(folder: Path) -> Json:
    """All findings; `folder` is where runs would be."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "cpu": {"cores": os.cpu_count(), "busy_cores": busy_cores(), **_threads()},
        "memory_bytes": _memory(),
        "devices": _devices(),
        "precision": {"cpu": _cpu_precision(), **_cuda_precision()},
        "compile": _compile(),
        "disk_free_bytes": shutil.disk_usage(folder).free,
        "extras": {name: _extra(*extra) for name, extra in EXTRAS.items()},
    }


def advice(findings: Json) -> list[str]:
    """What the user can do about the findings."""
    lines = [
        f"for {extra['for']}: pip install 'loopmt[{name}]' (adds {', '.join(extra['missing'])})"
        for name, extra in findings["extras"].items()
        if extra["missing"]
    ]
    if not findings["devices"]:
        lines.append("no CUDA device: training runs on the CPU in float32, which suits tiny and small models")
    if slower := slower_threads(findings):
        lines.append(slower)
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


def busy_cores() -> int | None:
    """How many of the usable cores other programs keep busy now; None if the system does not say."""
    if not _CORE_TIMES.is_file():
        return None
    before = _core_times()
    time.sleep(_LOOK)
    after = _core_times()
    busy = [(after[core][0] - before[core][0]) / max(after[core][1] - before[core][1], 1) for core in before]
    return sum(share > 0.5 for share in busy)


def _core_times() -> dict[int, tuple[int, int]]:
    """Busy and total clock ticks of each usable core."""
    usable, found = os.sched_getaffinity(0), {}
    for line in _CORE_TIMES.read_text(encoding="ascii").splitlines():
        name, *numbers = line.split()
        if name[3:].isdecimal() and int(name[3:]) in usable:
            ticks = [int(number) for number in numbers[:8]]
            found[int(name[3:])] = (sum(ticks) - ticks[3] - ticks[4], sum(ticks))  # idle, waiting for a disk
    return found


def _threads() -> Json:
    """The number of threads, and the seconds of a small training step with that number and with fewer."""
    import torch

    from loopmt.learn.threads import mean_seconds, set_by_user, thread_counts, usable_cores

    now = torch.get_num_threads()
    seconds = mean_seconds(_small_step, thread_counts(now))
    times = {str(number): spent for number, spent in seconds.items()}
    return {"usable_cores": usable_cores(), "threads": now, "threads_set_by": set_by_user(), "step_seconds": times}


def _small_step() -> None:
    """The operations of a layer of preset tiny, forward and backward."""
    import torch
    from torch.nn.functional import layer_norm

    generator = torch.Generator().manual_seed(1)
    x, weight = (torch.randn(6, rows, 128, generator=generator, requires_grad=True) for rows in (768, 128))
    for _ in range(4):
        x = layer_norm(x + torch.relu(x @ weight), (128,))
    (x @ x.mT).softmax(-1).sum().backward()  # type: ignore[no-untyped-call]


def slower_threads(findings: Json) -> str | None:
    """A warning if the usual number of threads makes training slower than one thread, or if cores are busy."""
    cpu = findings["cpu"]
    busy, times, number = cpu["busy_cores"], cpu["step_seconds"], cpu["threads"]
    cores = f"{busy} of {cpu['usable_cores']} cores busy with other programs" if busy else ""
    ratio = times[str(number)] / times["1"]
    if ratio <= _SLOWER:
        return f"{cores}: training is slower than it could be" if busy else None
    remedy = (
        f"change or unset it ({cpu['threads_set_by']})" if cpu["threads_set_by"] else "`train` measures and uses fewer"
    )
    why = f" ({cores})" if busy else ""
    return f"a training step takes {ratio:.1f} times as long with {number} threads as with 1{why}: {remedy}"


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
