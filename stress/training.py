"""A training process that can be stopped at any moment, whose phase can be read, and that can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
EXPERIMENT = HERE / "experiment.toml"
_TIMEOUT = 1800.0  # seconds; only a hung process needs them
# The first of these functions on a stack, from the innermost call, determines the phase.
PHASES = {
    "write_checkpoint": "checkpoint write",
    "record": "capture",
    "generate_along": "generation",
    "_learn": "update",
    "_validation": "validation",
    "_finish": "between stages",
    "run": "between rounds",
    "train_stage": "between stages",
    "prepare": "prepare",
}


def phase_of(stack: str) -> str:
    """The phase of a stack by faulthandler, innermost call first."""
    for line in stack.splitlines():
        name, file = line.rpartition(" in ")[2].strip(), line.partition('"')[2].partition('"')[0]
        if name in PHASES and "/loopmt/" in file and "/cli/" not in file:
            return PHASES[name]
    return "start-up"


class TrainingProcess:
    """`loopmt train` in a process, or in two that torchrun starts."""

    def __init__(self, run: Path, stacks: Path, processes: int = 1, experiment: Path = EXPERIMENT) -> None:
        self.stacks = stacks
        self.processes = processes
        stacks.mkdir(parents=True, exist_ok=True)
        for old in stacks.iterdir():
            old.unlink()
        command = ["-m", "loopmt", "train", str(experiment), "--run", str(run)]
        if processes > 1:
            several = ["--nproc-per-node", str(processes), "--standalone", "-m", "--"]
            command = ["-m", "torch.distributed.run", *several, *command[1:]]
        path = [str(HERE / "watch"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "STRESS_STACKS": str(stacks),
        }
        with (stacks.parent / "stderr.txt").open("w", encoding="utf-8") as stderr:
            # SIGTSTP stops only process groups with a parent outside of the group.
            self.process = subprocess.Popen(
                [sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=stderr, process_group=0
            )

    @property
    def stderr(self) -> str:
        return (self.stacks.parent / "stderr.txt").read_text(encoding="utf-8")

    def alive(self) -> bool:
        return self.process.poll() is None

    def finish(self) -> int:
        return self.process.wait(_TIMEOUT)

    def workers(self) -> list[int]:
        """The processes that train; none before torchrun has started them."""
        if self.processes == 1:
            return [self.process.pid]
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="utf-8")
            return [pid for pid in map(int, children.split()) if b"loopmt" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        except OSError:
            return []

    def stop(self, worker: int) -> str:
        """Stop a worker and return its phase; a worker without a stack file is starting up."""
        file = self.stacks / str(worker)
        before = file.stat().st_size if file.exists() else 0
        os.kill(worker, signal.SIGTSTP)
        deadline = time.monotonic() + 0.5  # SIGTSTP does not stop torchrun's workers, which are orphans
        while _state(worker) not in "TZ" and time.monotonic() < deadline:
            if self.processes > 1 and file.exists() and file.stat().st_size > before:
                break
            time.sleep(0.0002)
        return phase_of(file.read_text(encoding="utf-8")[before:]) if file.exists() else "start-up"

    def resume(self, worker: int) -> None:
        os.kill(worker, signal.SIGCONT)

    def kill(self, worker: int) -> None:
        """Kill one process by SIGKILL; torchrun ends the others."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        self.process.wait(_TIMEOUT)


@contextlib.contextmanager
def training_process(
    run: Path, stacks: Path, processes: int = 1, experiment: Path = EXPERIMENT
) -> Iterator[TrainingProcess]:
    """A training process that is killed at the end of the block."""
    found = TrainingProcess(run, stacks, processes, experiment)
    try:
        yield found
    finally:
        if found.alive():
            for pid in {*found.workers(), found.process.pid}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            found.process.wait()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
