"""Speed compared with other systems: all measurements in one run on one machine.

    python3 -m benchmarks.speed --device cuda [--only training ...] [--quick]

Each measurement is a separate process, so that systems do not affect each other (compiled graphs may share memory). The
JSON file is written after every measurement, so an interrupted run keeps its results.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from benchmarks import generation, loops, training
from benchmarks.machine import describe
from benchmarks.table import line
from benchmarks.timing import Json, Measurement, Plan

MEASUREMENTS: dict[str, Callable[[Plan, Path], list[Measurement]]] = {
    "training": training.training,
    "training-small": training.training_small,
    "greedy": generation.greedy,
    "sampling": generation.sampling,
    "beam": generation.beam,
    "dual": loops.dual,
    "six": loops.six_directions,
}
_CPU = ("training", "training-small", "greedy")  # the others take too long without a GPU


def measure(plan: Plan, names: Sequence[str], out: Path) -> bool:
    """Run the named measurements and write `out`. Return False if a system failed."""
    found: list[Json] = []
    machine = describe(plan)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for measurement in MEASUREMENTS[name](plan, Path(folder)):
                found.append(measurement.as_json())
                print(line(found[-1]), flush=True)
                _write(out, {"machine": machine, "measurements": found})
            _release(plan)
    return not any("failed" in system for one in found for system in one["systems"].values())


def apart(plan: Plan, names: Sequence[str], out: Path) -> bool:
    """Run each measurement in its own process and merge their files. Return False if a system failed."""
    together: Json = {"machine": describe(plan), "measurements": []}
    good = True
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.speed", *sys.argv[1:], "--only", name, "--out", folder]
            good &= subprocess.run(command, check=False).returncode == 0
            for file in Path(folder).glob("*.json"):
                together["measurements"] += json.loads(file.read_text(encoding="utf-8"))["measurements"]
                _write(out, together)
    return good


def _write(out: Path, content: Json) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _release(plan: Plan) -> None:
    gc.collect()
    if plan.cuda:
        torch.compiler.reset()
        torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("docs/results/bench"),
        help="folder for DEVICE[-NAME].json",
    )
    parser.add_argument("--only", nargs="+", choices=list(MEASUREMENTS), metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="half the repeats")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to check that everything runs")
    parser.add_argument("--threads", type=int, default=2, help="threads of every system on a CPU")
    parser.add_argument(
        "--joey", type=Path, metavar="PYTHON", help="the Python of an environment with JoeyNMT, to measure it, too"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    repeats = 1 if options.tiny else 3 if options.quick else 6
    plan = Plan(torch.device(options.device), repeats, options.tiny, options.threads, options.joey)
    everything = list(MEASUREMENTS) if plan.cuda or plan.tiny else _CPU
    name = "-".join([options.device, *(options.only or [])])
    names, out = options.only or everything, options.out / f"{name}.json"
    good = measure(plan, names, out) if len(names) == 1 else apart(plan, names, out)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
