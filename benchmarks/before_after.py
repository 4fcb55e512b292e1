"""The speed of two versions of loopmt, in turns on one machine.

    python -m benchmarks.before_after OLD NEW --device cuda --only training greedy dual six --out before-after.json

OLD and NEW are checkouts. Each runs the measurements of its own `benchmarks.speed`, without the other systems, in a
process that stays: both are set up first, then they run in turns. Of a measurement with several sizes, the first one
counts. The result is the ratio of the median times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NoReturn

Json = dict[str, Any]
_WARM_UPS = 2


# -- the process of one version: it imports the modules of its checkout -------------------------------------------


def serve(name: str, device: str, scratch: Path, tiny: bool) -> None:
    """Set up a measurement of `benchmarks.speed`; time one run for every line on standard input."""
    replies, sys.stdout = sys.stdout, sys.stderr  # replies only; the benchmark prints, too
    import torch
    from benchmarks import timing

    def answer(measurement: Any, systems: Any, plan: Any) -> NoReturn:
        work = systems["loopmt"]() if "loopmt" in systems else next(iter(systems.values()))()
        for _ in range(_WARM_UPS):
            timing.timed(work, plan)
        _reply(replies, {"name": measurement.name, "shape": measurement.shape})
        for _ in sys.stdin:
            _reply(replies, timing.timed(work, plan))
        os._exit(0)  # the rest of the benchmark needs the times of other systems

    timing.compare = answer  # before the benchmarks import it
    from benchmarks import speed

    if name not in speed.MEASUREMENTS:
        raise SystemExit(f"{name!r} is no measurement of {Path.cwd()}. There are: {', '.join(speed.MEASUREMENTS)}.")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    speed.MEASUREMENTS[name](timing.Plan(torch.device(device), tiny=tiny), scratch)


def _reply(stream: Any, value: Any) -> None:
    print(json.dumps(value), file=stream, flush=True)


# -- the two versions in turns ------------------------------------------------------------------------------------


class Version:
    """A checkout, and the process that runs its benchmark."""

    def __init__(self, which: str, checkout: Path, name: str, options: argparse.Namespace) -> None:
        scratch = options.scratch / which / name
        scratch.mkdir(parents=True, exist_ok=True)
        # -P keeps the folder of this file, which belongs to one version, out of the import path
        words = [sys.executable, "-P", str(Path(__file__)), "--serve", name, options.device, str(scratch)]
        self.process = subprocess.Popen(
            [*words, *(["--tiny"] if options.tiny else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": _import_path(checkout)},
        )
        self.about = self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.close()
            raise SystemExit(f"the benchmark ended with status {self.process.returncode}; its error is above.")
        return json.loads(line)

    def seconds(self) -> float:
        assert self.process.stdin is not None
        print("run", file=self.process.stdin, flush=True)
        return float(self._read())

    def close(self) -> None:
        with self.process:  # closes its pipes, and waits
            pass


def _import_path(checkout: Path) -> str:
    own = [str(checkout.absolute() / "src"), str(checkout.absolute())]
    return os.pathsep.join([*own, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])


def compare(name: str, options: argparse.Namespace) -> Json:
    """Time both versions in turns; which one begins alternates, too."""
    checkouts = {"old": options.old, "new": options.new}
    seconds: dict[str, list[float]] = {which: [] for which in checkouts}
    with ExitStack() as stack:
        versions = {
            which: stack.enter_context(closing(Version(which, checkout, name, options)))
            for which, checkout in checkouts.items()
        }
        for number in range(options.repeats):
            for which in sorted(versions, reverse=bool(number % 2)):
                seconds[which].append(versions[which].seconds())
    medians = {which: statistics.median(times) for which, times in seconds.items()}
    about = {which: version.about for which, version in versions.items()}
    return {**about, "seconds": seconds, "new_over_old": medians["new"] / medians["old"]}


def _machine(device: str) -> Json:
    import torch
    from benchmarks.machine import describe
    from benchmarks.timing import Plan

    return describe(Plan(torch.device(device)), "benchmarks.before_after")


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="+", default=["training-small", "greedy"], help="measurements of speed")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to check that everything runs")
    parser.add_argument("--scratch", type=Path, default=Path("scratch/before-after"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(words)
    for checkout in (options.old, options.new):
        if not (checkout / "benchmarks" / "speed.py").is_file():
            parser.error(f"{checkout} is no checkout of loopmt: it has no benchmarks/speed.py.")
    return options


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    options.scratch = options.scratch.absolute()
    found: Json = {"machine": _machine(options.device), "measurements": []}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        found["measurements"].append(row := compare(name, options))
        print(f"{row['new']['name']:40} new / old: {row['new_over_old']:.3f}", flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _, _, measurement, where, folder, *rest = sys.argv
        serve(measurement, where, Path(folder), bool(rest))
    else:
        main()
