"""Kill training at any point, resume with the same command, and compare with an uninterrupted run.

    python -m stress.kills --kills 100 --torchrun 15 --out docs/results/stress/kills.json

Every kill is a SIGKILL. Some happen at a random moment, others wait for a phase: see `AIMS`. A run is killed several
times, then it may finish. The weights of every stage must be bit-identical to those of the uninterrupted run, and the
log must be the same except for times.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stress.training import EXPERIMENT, TrainingProcess, training_process

AIMS = (
    "anywhere",
    "generation",
    "checkpoint write",
    "anywhere",
    "update",
    "between stages",
    "anywhere",
    "validation",
    "anywhere",
    "start-up",
)
_SPEEDS = {"tokens_per_second", "learnt_per_second", "generated_per_second"}
TIMED = {"check", "seconds", "generate_share", "window", "first_update", *_SPEEDS}


@dataclass
class Kill:
    """One SIGKILL, with its aim and the phase that it hit."""

    aim: str
    phase: str
    processes: int
    seconds: float  # since the process was started
    draft_left: bool  # it left a half-written checkpoint


@dataclass
class KilledRun:
    """A run with its kills, and whether its result is that of the uninterrupted run."""

    processes: int
    kills: list[Kill] = field(default_factory=list)
    identical: bool = False


def outcome(run: Path) -> dict[str, Any]:
    """For every stage the digest of its weights and its log without times."""
    found = {}
    for stage in sorted((run / "stages").iterdir()):
        weights = hashlib.sha256((stage / "result" / "weights.safetensors").read_bytes()).hexdigest()
        lines = (stage / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [{key: value for key, value in json.loads(line).items() if key not in TIMED} for line in lines]
        found[stage.name] = [weights, records]
    return found


def drafts(run: Path) -> list[Path]:
    return [*run.rglob("*.draft"), *run.rglob("*.old"), *run.rglob("prepare.tmp")]


class Lane:
    """Runs training one run after another in a scratch folder, until the requested number of kills is reached."""

    def __init__(self, scratch: Path, seed: str, experiment: Path = EXPERIMENT) -> None:
        self.scratch = scratch
        self.random = random.Random(seed)
        self.experiment = experiment

    def kill(self, kills: int, processes: int, most: int) -> Iterator[KilledRun]:
        """Make `kills` kills, at most `most` in one run."""
        self.scratch.mkdir(parents=True)
        started = time.monotonic()
        reference = outcome(self.finished(self._folder("reference"), processes))
        self.duration = time.monotonic() - started  # seconds of a run
        aims = deque(AIMS[number % len(AIMS)] for number in range(kills))
        while aims:
            folder = self._folder("run")
            run = KilledRun(processes)
            while aims and len(run.kills) < most and (found := self._kill_once(folder, aims[0], processes)):
                run.kills.append(found)
                aims.popleft()
            run.identical = outcome(self.finished(folder, processes)) == reference and not drafts(folder)
            shutil.rmtree(folder)
            yield run

    def _folder(self, name: str) -> Path:
        shutil.rmtree(self.scratch / name, ignore_errors=True)
        return self.scratch / name

    def finished(self, folder: Path, processes: int) -> Path:
        with training_process(folder, self.scratch / "stacks", processes, self.experiment) as training:
            code = training.finish()
            if code:
                raise RuntimeError(f"training ended with {code}: {training.stderr}")
        return folder

    def _kill_once(self, folder: Path, aim: str, processes: int) -> Kill | None:
        """Start training and kill it; None if it ends before the phase of `aim`."""
        with training_process(folder, self.scratch / "stacks", processes, self.experiment) as training:
            started = time.monotonic()
            early = aim == "start-up" or (aim != "anywhere" and self.random.random() < 0.5)
            time.sleep(self.random.random() * self.duration * (0.1 if early else 0.9))
            while training.alive():
                if (found := self.kill_in_phase(training, folder, aim)) is not None:
                    lasted = time.monotonic() - started
                    left = found == "checkpoint write" and bool(drafts(folder))
                    return Kill(aim, found, processes, round(lasted, 2), left)
                time.sleep(0.002 if aim == "checkpoint write" else 0.02)
        return None

    def kill_in_phase(self, training: TrainingProcess, folder: Path, aim: str) -> str | None:
        """Stop a process. Kill it if it is in the phase of `aim`, else resume it."""
        workers = training.workers()
        if not workers:
            return None
        worker = self.random.choice(workers)
        phase = training.stop(worker)
        begun = any((folder / "stages").glob("*/result")) if aim == "between stages" else True
        if aim not in ("anywhere", phase) or not begun:
            training.resume(worker)
            return None
        training.kill(worker)
        return phase


def as_json(runs: Sequence[KilledRun], command: str) -> dict[str, Any]:
    kills = [kill for run in runs for kill in run.kills]
    return {
        "command": command,
        "machine": f"{os.cpu_count()} shared cores, one thread per process",
        "versions": {"python": platform.python_version(), "torch": version("torch"), "loopmt": version("loopmt")},
        "date": datetime.now(UTC).date().isoformat(),
        "kills": len(kills),
        "bit_identical": sum(len(run.kills) for run in runs if run.identical),
        "runs": len(runs),
        "hit": dict(Counter(_kind(kill) for kill in kills).most_common()),
        "half_written_checkpoints": sum(kill.draft_left for kill in kills),
        "each": [asdict(run) for run in runs],
    }


def _kind(kill: Kill) -> str:
    return kill.phase if kill.processes == 1 else f"one of {kill.processes} processes: {kill.phase}"


def _print(run: KilledRun) -> None:
    phases = ", ".join(kill.phase for kill in run.kills)
    print(
        f"{'identical' if run.identical else 'DIFFERENT'}  {run.processes} process(es), killed in: {phases}", flush=True
    )


def stress(
    kills: int,
    torchrun: int,
    seed: int,
    scratch: Path,
    jobs: int = 1,
    done: Callable[[KilledRun], None] = lambda run: None,
) -> list[KilledRun]:
    """Make `kills` kills, `torchrun` of them in one of two processes, with `jobs` single-process runs in parallel."""
    single = [len(range(lane, kills - torchrun, jobs)) for lane in range(jobs)]
    wanted = [(torchrun, 2, 5), *((count, 1, 10) for count in single)]
    runs: list[KilledRun] = []

    def work(number: int) -> None:
        count, processes, most = wanted[number]
        lane = Lane(scratch / f"lane{number}", f"{seed}.{number}")
        for run in lane.kill(count, processes, most) if count else ():
            runs.append(run)
            done(run)

    with ThreadPoolExecutor(len(wanted)) as pool:
        list(pool.map(work, range(len(wanted))))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--torchrun", type=int, default=15, help="number of kills in one of two processes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="single-process runs in parallel")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    options = " ".join(f"--{name} {getattr(asked, name)}" for name in ("kills", "torchrun", "seed", "jobs"))
    runs: list[KilledRun] = []

    def done(run: KilledRun) -> None:
        runs.append(run)
        _print(run)
        if asked.out:
            asked.out.parent.mkdir(parents=True, exist_ok=True)
            result = as_json(runs, f"python -m stress.kills {options}")
            asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as scratch:
        stress(asked.kills, asked.torchrun, asked.seed, Path(scratch), asked.jobs, done)
    good, total = (sum(len(run.kills) for run in some) for some in ([run for run in runs if run.identical], runs))
    print(f"{good} of {total} kills bit-identical, in {len(runs)} runs")
    sys.exit(good != total)


if __name__ == "__main__":
    main()
