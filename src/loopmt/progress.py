"""Progress of long tasks on standard error: bars on a terminal, occasional lines elsewhere, or nothing."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichBars

_LEAST_SHARE, _LEAST_SECONDS = 0.01, 60.0  # one of the two must be reached before the remaining time is estimated
Advance = Callable[[float], None]


class Progress(Protocol):
    def track(self, description: str, total: float | None = None, done: float = 0.0) -> AbstractContextManager[Advance]:
        """Show a task of `total` steps; call the yielded function with the number of new steps. Tasks may nest.

        A resumed task starts with `done` steps, which do not count for its speed. An exception marks it as stopped.
        """

    def say(self, line: str) -> None:
        """Print a line, above the progress bars if there are any."""


class Silent:
    """Shows nothing."""

    @contextmanager
    def track(self, description: str, total: float | None = None, done: float = 0.0) -> Iterator[Advance]:
        yield lambda steps: None

    def say(self, line: str) -> None:
        pass


class Lines:
    """For logs: at most one line every `interval` seconds, and one at the end of a task that took longer."""

    def __init__(self, stream: TextIO | None = None, interval: float = 10.0) -> None:
        self._stream = stream
        self._interval = interval

    @contextmanager
    def track(self, description: str, total: float | None = None, done: float = 0.0) -> Iterator[Advance]:
        began = last = time.monotonic()
        now = done

        def advance(steps: float) -> None:
            nonlocal now, last
            now += steps
            if time.monotonic() - last >= self._interval:
                last = time.monotonic()
                self.say(f"{description}: {_status(now, total, last - began, done)}")

        ended = "stopped after"
        try:
            yield advance
            ended = "done in"
        finally:
            if time.monotonic() - began >= self._interval:
                self.say(f"{description}: {ended} {_duration(time.monotonic() - began)}")

    def say(self, line: str) -> None:
        print(visible_message(line), file=self._stream or sys.stderr, flush=True)


def _status(done: float, total: float | None, seconds: float, before: float = 0.0) -> str:
    if not total:
        return f"{done:,.0f} after {_duration(seconds)}"
    predictable = before < done < total and (done - before >= total * _LEAST_SHARE or seconds >= _LEAST_SECONDS)
    left = f", about {_duration(seconds * (total - done) / (done - before))} left" if predictable else ""
    return f"{done / total:.0%} after {_duration(seconds)}{left}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Bars:
    """For terminals: one bar for each running task."""

    def __init__(self) -> None:
        self._bars: RichBars | None = None
        self._tasks = 0

    @contextmanager
    def track(self, description: str, total: float | None = None, done: float = 0.0) -> Iterator[Advance]:
        bars = self._started()
        task = bars.add_task(visible_message(description), total=total, completed=int(done))
        self._tasks += 1
        try:
            yield lambda steps: bars.advance(task, steps)
        finally:
            bars.remove_task(task)
            self._tasks -= 1
            if not self._tasks:
                bars.stop()
                self._bars = None

    def say(self, line: str) -> None:
        if bars := self._bars:  # another thread may reset it
            bars.console.print(visible_message(line), markup=False, highlight=False)
        else:
            print(visible_message(line), file=sys.stderr, flush=True)

    def _started(self) -> RichBars:
        from rich import progress
        from rich.console import Console

        if self._bars is None:
            name = progress.TextColumn("{task.description}", markup=False)
            columns = (name, progress.BarColumn(), progress.TaskProgressColumn())
            clock = (progress.TimeElapsedColumn(), progress.TimeRemainingColumn())
            self._bars = progress.Progress(*columns, *clock, console=Console(stderr=True), transient=True)
            self._bars.start()
        return self._bars


def standard() -> Progress:
    """Bars if standard error is a terminal, else lines."""
    return Bars() if sys.stderr.isatty() else Lines()


def wrapped(line: str, width: int | None = None) -> str:
    """A line wrapped to the width of the terminal with a hanging indent; files and pipes get it unwrapped."""
    known = "COLUMNS" in os.environ or sys.stdout.isatty()
    if width is None and not known:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line,
        width or shutil.get_terminal_size().columns,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# Control characters except line feed and tab, bidirectional overrides, and lone surrogates.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE = re.compile(r"\n(?! )")


def visible(text: str) -> str:
    """The text with control characters escaped, as in \\x1b."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_message(text: str) -> str:
    """The same for a message. Line breaks before unindented text are escaped, so that names cannot fake messages."""
    return _LINE.sub(r"\\n", visible(text))
