"""Loops over regimes of the built-in languages: `python -m benchmarks.regimes --regimes all --seeds 1 2 3 --out DIR`.

Each (regime, seed) is a process with one thread, the longest first. It writes DIR/REGIME-SEED.json, and the last one of
a regime DIR/REGIME.json over all seeds. Existing results are kept, and interrupted runs resume from WORK. `python -m
benchmarks.regimes_table DIR` makes the tables.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from benchmarks.regime import REGIMES


@dataclass(frozen=True)
class Campaign:
    seeds: Sequence[int]
    out: Path
    work: Path
    quick: bool
    lock: Lock

    def run(self, regime: str, seed: int) -> bool:
        """Run one seed; after the last one of its regime evaluate all together."""
        done = self._process(regime, [seed], self.out / f"{regime}-{seed}.json")
        together = self.out / f"{regime}.json"
        with self.lock:
            last = all((self.out / f"{regime}-{one}.json").is_file() for one in self.seeds)
            mine = last and len(self.seeds) > 1 and not together.with_suffix(".begun").exists()
            if mine:
                together.with_suffix(".begun").touch()
        if mine:
            done &= self._process(regime, self.seeds, together)
            together.with_suffix(".begun").unlink()
        return done

    def _process(self, regime: str, seeds: Sequence[int], result: Path) -> bool:
        if result.is_file():
            return True
        began = time.monotonic()
        command = [sys.executable, "-m", "benchmarks.regime_job", regime, *map(str, seeds)]
        command += ["--work", str(self.work), "--out", str(self.out), *(["--quick"] if self.quick else [])]
        with (self.work / f"{result.stem}.log").open("w", encoding="utf-8") as log:
            code = subprocess.run(command, stdout=log, stderr=log, env=_environment(), check=False).returncode
        print(f"{result.stem}: {'done' if not code else f'FAILED ({log.name})'} in {time.monotonic() - began:.0f} s")
        return not code


def _environment() -> dict[str, str]:
    return {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"), "CUDA_VISIBLE_DEVICES": ""}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--regimes", nargs="+", default=["all"], choices=["all", *REGIMES])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "loopmt-regimes", help="runs, logs")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    options = parser.parse_args(arguments)
    work = options.work / ("quick" if options.quick else "full")
    for folder in (work, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(options.seeds, options.out.absolute(), work.absolute(), options.quick, Lock())
    chosen = [name for name in REGIMES if "all" in options.regimes or name in options.regimes]
    tasks = [(name, seed) for name in chosen for seed in options.seeds]
    with ThreadPoolExecutor(options.jobs) as pool:
        finished = list(pool.map(lambda task: campaign.run(*task), tasks))
    sys.exit(0 if all(finished) else 1)


if __name__ == "__main__":
    main()
