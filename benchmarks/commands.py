"""Commands of loopmt with a time limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

GRACE = 25.0  # seconds for training to end its round and save before it is killed


def pause(seconds: float) -> tuple[str, str]:
    """The option that makes training stop after a time."""
    return "--stop-after", f"{max(1.0, seconds - GRACE):.0f}s"


def execute(module: str, words: Sequence[str], log: Path, seconds: float) -> int | None:
    """The exit code of `python -m MODULE WORDS`; None if it was killed after the time limit."""
    with log.open("a", encoding="utf-8") as output:
        process = subprocess.Popen([sys.executable, "-m", module, *words], stdout=output, stderr=subprocess.STDOUT)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
