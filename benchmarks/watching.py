"""Running a command and measuring its seconds, CPU-seconds, and the memory of its process tree."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_EVERY = 0.2  # seconds between measurements of memory
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Watched:
    """The measurements of a command; memory is the largest sum in bytes over the tree in each phase."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    resident: dict[str, int] = field(default_factory=dict)
    anonymous: dict[str, int] = field(
        default_factory=dict
    )  # the part that is not file pages, which the system may drop


def watch(
    command: Sequence[str], phases: Sequence[str] = ("whole",), tick: Callable[[int], None] | None = None
) -> Watched:
    """Run a command. A line `PHASE: done ...` on its standard error ends a phase; `tick` is called with its pid."""
    found, began, before = Watched(), time.perf_counter(), _children_cpu()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        left = list(phases)
        reader = threading.Thread(target=_follow, args=(process.stderr, left))
        reader.start()
        looked = 0.0
        while process.poll() is None:
            if tick:
                tick(process.pid)
            if time.perf_counter() - looked > _EVERY:
                _look(found, process.pid, left[0])
                looked = time.perf_counter()
            time.sleep(0.005 if tick else _EVERY)
        reader.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
    found.seconds, found.cpu_seconds = time.perf_counter() - began, _children_cpu() - before
    return found


def _follow(lines: IO[str], left: list[str]) -> None:
    for line in lines:
        sys.stderr.write(line)
        if line.startswith(f"{left[0]}: done") and len(left) > 1:
            del left[0]


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _look(found: Watched, pid: int, phase: str) -> None:
    states = [_status(one) for one in tree(pid)]
    for record, keys in ((found.resident, ("VmRSS",)), (found.anonymous, ("RssAnon",))):
        total = sum(state.get(key, 0) for state in states for key in keys)
        record[phase] = max(record.get(phase, 0), total)


def tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def _status(pid: int) -> dict[str, int]:
    with contextlib.suppress(OSError):
        lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1] == "kB"}
    return {}


def cpu_of(pid: int) -> float:
    """CPU-seconds of one process so far, including its threads."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICK
