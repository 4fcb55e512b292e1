"""Running a verb on a case, and checking the rules that hold for every verb.

The exit code is 0, or 2 with a message and nothing on standard output. There is no traceback and no control sequence on
the terminal, and the verb ends within the time limit.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any
from unittest import mock

import typer.main

from loopmt.cli import main

TIMEOUT = 60.0  # seconds for one case, on a shared machine
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


_command = functools.cache(typer.main.get_command)  # parsing the signatures takes nine tenths of a case


class HangError(BaseException):
    """The time limit was exceeded. It is not an Exception, so that no handler in between catches it."""


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a verb."""

    code: int
    out: bytes
    err: str


def run_verb(words: Sequence[str], stdin: bytes = b"") -> CommandResult:
    """Run a verb in this process."""
    input_stream = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    written = io.BytesIO()
    out, err = io.TextIOWrapper(written, encoding="utf-8"), io.StringIO()
    streams: dict[str, Any] = {"stdin": input_stream, "stdout": out, "stderr": err, "argv": ["loopmt", *words]}
    code = 0
    once = mock.patch.object(typer.main, "get_command", _command)
    with mock.patch.multiple(sys, **streams), once, warnings.catch_warnings():
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        out.flush()
        return CommandResult(code, written.getvalue(), err.getvalue())


def run_in_process(words: Sequence[str], stdin: bytes = b"") -> CommandResult:
    command = [sys.executable, "-m", "loopmt", *words]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT)
    return CommandResult(done.returncode, done.stdout, done.stderr.decode())


def violation(end: CommandResult) -> str | None:
    """The rule that a verb violated, or None."""
    if end.code not in (0, 2):
        return f"exit code {end.code}: {end.err[-300:]}"
    if end.code and end.out:
        return f"standard output on an error: {end.out[:100]!r}"
    if end.code and not end.err.strip():
        return "an error without a message"
    if "Traceback" in end.err:
        return f"a traceback: {end.err[-300:]}"
    if found := CONTROL.search(end.err) or CONTROL.search(end.out.decode(errors="replace")):
        return f"the control character {found[0]!r} reaches the terminal"
    return None


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End what takes more processor time, or what waits ten times as long; so other work does not count."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError

    timers = {signal.ITIMER_PROF: (signal.SIGPROF, seconds), signal.ITIMER_REAL: (signal.SIGALRM, 10 * seconds)}
    before = {number: signal.signal(number, stop) for number, _ in timers.values()}
    try:
        for timer, (_, limit) in timers.items():
            signal.setitimer(timer, limit)
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def attempt(check: Callable[[Any], str | None], case: Any, seconds: float = TIMEOUT) -> str | None:
    """Check a case. Return the violation, or None."""
    try:
        with limited(seconds):
            return check(case)
    except HangError:
        return f"no end within {seconds:g} seconds of processor time"
    except Exception:
        return traceback.format_exc(limit=-4)
