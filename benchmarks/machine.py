"""Description of the machine, and its speed of matrix products."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from benchmarks.timing import Json, Plan, summary, timed

_PACKAGES = ("loopmt", "torch", "transformers", "ctranslate2", "numpy", "triton")


def describe(plan: Plan, module: str = "benchmarks.speed") -> Json:
    return {
        "device": torch.cuda.get_device_name() if plan.cuda else _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": list(os.getloadavg()),
        "platform": f"{platform.system()}-{platform.machine()}-with-{''.join(platform.libc_ver())}",
        "python": platform.python_version(),
        "cuda": torch.version.cuda if plan.cuda else None,
        "precision": str(plan.precision).removeprefix("torch."),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "command": " ".join([f"python -m {module}", *map(_short, sys.argv[1:])]),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _short(argument: str) -> str:
    """Shorten a path to its last part."""
    key, equals, value = argument.rpartition("=")
    return key + equals + Path(value).name if value.startswith("/") else argument


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def matrix_peak(plan: Plan) -> Json:
    """Floating-point operations per second of one large product, in the precision of the networks."""
    size, products = plan.pick(8192, 1024, 64), plan.pick(20, 4, 1)
    one, other = (torch.randn(size, size, device=plan.device, dtype=plan.precision) for _ in range(2))

    def work() -> None:
        for _ in range(products):
            one @ other

    timed(work, plan)
    return {"size": size, **summary([timed(work, plan) for _ in range(5)], 2.0 * size**3 * products)}
