"""A training that can be stopped at any moment, asked where it is, and killed there."""

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
_PATIENCE = 1800.0  # seconds; only a hung process needs them
# The first name of a stack, from its innermost call, that is one of these says what was being done.
PHASES = {
    "write_checkpoint": "checkpoint write",
    "generate_along": "generation",
    "_learn": "update",
    "_validation": "validation",
    "_finish": "between stages",
    "run": "between rounds",
    "train_stage": "between stages",
    "prepare": "prepare",
}


def phase_of(stack: str) -> str:
    """What a stack of faulthandler's, innermost call first, was doing."""
    for line in stack.splitlines():
        name, file = line.rpartition(" in ")[2].strip(), line.partition('"')[2].partition('"')[0]
        if name in PHASES and "/loopmt/" in file and "/cli/" not in file:
            return PHASES[name]
    return "start-up"


class Victim:
    """`loopmt train` in a process, or in two that torchrun starts."""

    def __init__(self, run: Path, stacks: Path, processes: int = 1) -> None:
        self.stacks = stacks
        self.processes = processes
        stacks.mkdir(parents=True, exist_ok=True)
        for old in stacks.iterdir():
            old.unlink()
        command = ["-m", "loopmt", "train", str(EXPERIMENT), "--run", str(run)]
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
        with (stacks.parent / "said.txt").open("w", encoding="utf-8") as said:
            # A group of its own with a parent outside it: else the system would not let SIGTSTP stop it.
            self.process = subprocess.Popen(
                [sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=said, process_group=0
            )

    @property
    def said(self) -> str:
        return (self.stacks.parent / "said.txt").read_text(encoding="utf-8")

    def alive(self) -> bool:
        return self.process.poll() is None

    def finish(self) -> int:
        return self.process.wait(_PATIENCE)

    def workers(self) -> list[int]:
        """The processes that train; none while torchrun has not started them."""
        if self.processes == 1:
            return [self.process.pid]
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="utf-8")
            return [pid for pid in map(int, children.split()) if b"loopmt" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        except OSError:
            return []

    def stop(self, worker: int) -> str:
        """Stop a worker where it is and say what it was doing; one that is not watched yet is starting up."""
        file = self.stacks / str(worker)
        before = file.stat().st_size if file.exists() else 0
        os.kill(worker, signal.SIGTSTP)
        deadline = time.monotonic() + 0.5  # torchrun's workers are orphans, whom SIGTSTP does not stop
        while _state(worker) not in "TZ" and time.monotonic() < deadline:
            if self.processes > 1 and file.exists() and file.stat().st_size > before:
                break
            time.sleep(0.0002)
        return phase_of(file.read_text(encoding="utf-8")[before:]) if file.exists() else "start-up"

    def go_on(self, worker: int) -> None:
        os.kill(worker, signal.SIGCONT)

    def kill(self, worker: int) -> None:
        """SIGKILL for one process; torchrun ends the others."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        self.process.wait(_PATIENCE)


@contextlib.contextmanager
def victim(run: Path, stacks: Path, processes: int = 1) -> Iterator[Victim]:
    """A training that does not outlive the block."""
    found = Victim(run, stacks, processes)
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
