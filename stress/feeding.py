"""A verb fed with a case, and what was wrong with its manners.

Good manners: an exit code of 0, or of 2 with one sentence and nothing on standard output; no traceback; an end
within the time limit; no control sequence on the terminal.
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

PATIENCE = 60.0  # seconds for one case, on a machine that others use too
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


_command = functools.cache(typer.main.get_command)  # typer reads every verb's signature anew: nine tenths of a case


class HangError(BaseException):
    """No end within the time limit; not an Exception, so that nothing in between takes it for a mistake of its own."""


@dataclass(frozen=True)
class Said:
    """What a verb left behind."""

    code: int
    out: bytes
    err: str


def said(words: Sequence[str], stdin: bytes = b"") -> Said:
    """A verb as typed, in this process."""
    inward = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    said_out = io.BytesIO()
    out, err = io.TextIOWrapper(said_out, encoding="utf-8"), io.StringIO()
    streams: dict[str, Any] = {"stdin": inward, "stdout": out, "stderr": err, "argv": ["loopmt", *words]}
    code = 0
    once = mock.patch.object(typer.main, "get_command", _command)
    with mock.patch.multiple(sys, **streams), once, warnings.catch_warnings():
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        out.flush()
        return Said(code, said_out.getvalue(), err.getvalue())


def said_by_process(words: Sequence[str], stdin: bytes = b"") -> Said:
    command = [sys.executable, "-m", "loopmt", *words]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE)
    return Said(done.returncode, done.stdout, done.stderr.decode())


def manners(end: Said) -> str | None:
    """What is wrong; None if nothing is."""
    if end.code not in (0, 2):
        return f"exit code {end.code}: {end.err[-300:]}"
    if end.code and end.out:
        return f"standard output on an error: {end.out[:100]!r}"
    if end.code and not end.err.strip():
        return "an error without a sentence"
    if "Traceback" in end.err:
        return f"a traceback: {end.err[-300:]}"
    if found := CONTROL.search(end.err) or CONTROL.search(end.out.decode(errors="replace")):
        return f"the control character {found[0]!r} reaches the terminal"
    return None


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(check: Callable[[Any], str | None], case: Any, seconds: float = PATIENCE) -> str | None:
    """What is wrong with a case's treatment; None if nothing is."""
    try:
        with limited(seconds):
            return check(case)
    except HangError:
        return f"no end within {seconds:g} seconds"
    except Exception:
        return traceback.format_exc(limit=-4)
