"""Progress of long work on standard error: bars on a terminal, an occasional line elsewhere, or nothing."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichBars

_TELLING, _LONG = 0.01, 60.0  # share of the work, and seconds, before which its pace says little
Advance = Callable[[float], None]


class Progress(Protocol):
    def track(self, description: str, total: float | None = None, done: float = 0.0) -> AbstractContextManager[Advance]:
        """Work of `total` steps; call what it yields with the number of steps done since. Tasks may nest.

        Work that goes on has `done` steps behind it, which say nothing about the time that is left.
        Work that leaves by an exception was stopped, not done.
        """

    def say(self, line: str) -> None:
        """A line worth reading once, above whatever moves."""


class Silent:
    """No progress at all."""

    @contextmanager
    def track(self, description: str, total: float | None = None, done: float = 0.0) -> Iterator[Advance]:
        yield lambda steps: None

    def say(self, line: str) -> None:
        pass


class Lines:
    """For logs: at most one line every `interval` seconds, and one at the end of what took longer."""

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
                self.say(f"{description}: {_standing(now, total, last - began, done)}")

        ended = "stopped after"
        try:
            yield advance
            ended = "done in"
        finally:
            if time.monotonic() - began >= self._interval:
                self.say(f"{description}: {ended} {_duration(time.monotonic() - began)}")

    def say(self, line: str) -> None:
        print(visible_message(line), file=self._stream or sys.stderr, flush=True)


def _standing(done: float, total: float | None, seconds: float, before: float = 0.0) -> str:
    if not total:
        return f"{done:,.0f} after {_duration(seconds)}"
    told = before < done < total and (done - before >= total * _TELLING or seconds >= _LONG)
    left = f", about {_duration(seconds * (total - done) / (done - before))} left" if told else ""
    return f"{done / total:.0%} after {_duration(seconds)}{left}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Bars:
    """For terminals: one bar for each task under way."""

    def __init__(self) -> None:
        self._bars: RichBars | None = None
        self._tasks = 0

    @contextmanager
    def track(self, description: str, total: float | None = None, done: float = 0.0) -> Iterator[Advance]:
        bars = self._shown()
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
        if bars := self._bars:  # which another thread may end
            bars.console.print(visible_message(line), markup=False, highlight=False)
        else:
            print(visible_message(line), file=sys.stderr, flush=True)

    def _shown(self) -> RichBars:
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
    """Bars if a person watches standard error, lines if not."""
    return Bars() if sys.stderr.isatty() else Lines()


# Line feed and tab are harmless; the last two ranges turn the reading order around, or are half a character.
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE = re.compile(r"\n(?! )")


def visible(text: str) -> str:
    """The text with control characters spelt out, as in \\x1b."""
    return _ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_message(text: str) -> str:
    """The same for a message: only indented lines may follow its first, so that no name in it looks like a message."""
    return _LINE.sub(r"\\n", visible(text))
