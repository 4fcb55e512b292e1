"""Code of others that an experiment names: `module:function` is imported, `command:PROGRAM ARGS...` is run.

A program is run without a shell. It reads rows of tab-separated text on standard input and prints one number a line.
"""

from __future__ import annotations

import importlib
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from types import ModuleType
from typing import IO, Any, TypeVar

from loopmt.errors import ConfigError, ExternalError, LoopmtError, listed
from loopmt.progress import visible

COMMAND = "command:"
_BYTES = 100  # of a line that holds one number, at most
_SEPARATORS = str.maketrans("\t\n\r", "   ")
_SHOWN = 500  # characters of what a program says on standard error
Function = TypeVar("Function", bound=Callable[..., Any])


def is_external(name: str) -> bool:
    """Does a name refer to code outside of loopmt?"""
    return ":" in name


def is_command(name: str) -> bool:
    return name.startswith(COMMAND)


# -- module:function -------------------------------------------------------------------------------------------


def imported(reference: str, kind: str) -> Callable[..., Any]:
    """The function that `module:function` refers to; modules in the current folder are found, too."""
    name, _, attribute = reference.partition(":")
    module = _module(name, f'{kind} "{reference}"')
    function = getattr(module, attribute, None)
    if not callable(function):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        what = "has no" if function is None else "has something else than a function called"
        raise ConfigError(
            f'{kind} "{reference}": {module.__file__} {what} "{attribute}". Its functions are: {listed(own) or "none"}.'
        )
    return function  # type: ignore[no-any-return]


def _module(name: str, what: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
        importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f'{what}: module "{name}" needs the module "{error.name}", which is missing.') from None
        raise ConfigError(
            f'{what}: there is no module "{name}". It is looked for in {here} and in the folders of PYTHONPATH.'
        ) from None
    except Exception as error:
        raise ConfigError(f'{what}: module "{name}" cannot be imported: {cause(error)}.') from error


def explained(function: Function, what: str) -> Function:
    """The function; whatever it raises is an error that names it."""

    @wraps(function)
    def call(*values: Any, **options: Any) -> Any:
        try:
            return function(*values, **options)
        except LoopmtError:
            raise
        except Exception as error:
            raise ExternalError(f"{what} failed: {cause(error)}.") from error

    return call  # type: ignore[return-value]


def cause(error: Exception) -> str:
    """What happened and where: the innermost line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


# -- command:PROGRAM -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """A program that reads rows of text and prints a number for each."""

    reference: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, reference: str) -> Command:
        """Split as a shell would, but no shell reads it; `~` at the start of a word is the home folder."""
        try:
            words = tuple(map(os.path.expanduser, shlex.split(reference.removeprefix(COMMAND))))
        except ValueError as error:
            raise ConfigError(f'"{reference}" cannot be split into words: {error}.') from None
        if not words:
            raise ConfigError(f'"{reference}" names no program. Write "command:PROGRAM ARGS...".')
        if shutil.which(words[0]) is None:
            raise ConfigError(
                f'"{reference}": there is no program {words[0]} that can be run. '
                "Give its path, from the current folder, and make it executable."
            )
        return cls(reference, words)

    def numbers(
        self, rows: Sequence[Sequence[str]], timeout: float, languages: tuple[str, str] | None = None
    ) -> list[float]:
        """What it prints: one number for each row, within `timeout` seconds.

        It finds the languages of a hop, where they are known, as LOOPMT_SOURCE and LOOPMT_TARGET.
        """
        if not rows:
            return []
        with TemporaryFile() as given, TemporaryFile() as complaints:
            given.write("".join("\t".join(map(_cell, row)) + "\n" for row in rows).encode(errors="replace"))
            given.seek(0)
            hop = dict(zip(("LOOPMT_SOURCE", "LOOPMT_TARGET"), languages or (), strict=False))
            process = self._started(given, complaints, {**os.environ, **hop})
            printed = self._output(process, _BYTES * (len(rows) + 1), timeout)
            if process.returncode:
                complaints.seek(0)
                raise self._failed(f"it ended with exit code {process.returncode}", complaints.read())
        return self._parsed(printed.decode(errors="replace").rstrip().splitlines(), len(rows))

    def _started(
        self, given: IO[bytes], complaints: IO[bytes], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.words,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=environment,
                start_new_session=True,  # to end all that it starts
            )
        except OSError as error:
            raise self._failed(f"{self.words[0]} cannot be run: {error.strerror}") from None

    def _output(self, process: subprocess.Popen[bytes], most: int, timeout: float) -> bytes:
        """All that it prints; it is ended if that is more than `most` bytes or takes too long."""
        with process, _ended_after(process, timeout) as late:
            assert process.stdout is not None
            printed = process.stdout.read(most + 1)
            if len(printed) > most:
                raise self._failed(f"it printed more than {most:,} bytes, where one number a row is needed")
            process.wait()
        if late:
            raise self._failed(f"it had not ended after {timeout:g} seconds. `timeout` sets another limit")
        return printed

    def _parsed(self, lines: Sequence[str], count: int) -> list[float]:
        if len(lines) != count:
            printed = f"{len(lines):,} line{'s' * (len(lines) != 1)} for {count:,} rows"
            raise self._failed(f"it printed {printed}; one number a row is needed")
        return [self._number(line, number) for number, line in enumerate(lines, 1)]

    def _number(self, line: str, number: int) -> float:
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._failed(f'line {number} of what it printed is not a number: "{visible(line[:40])}"')
        return value

    def _failed(self, why: str, complaints: bytes = b"") -> ExternalError:
        said = visible(complaints.decode(errors="replace").strip()[-_SHOWN:])
        return ExternalError(f'"{self.reference}" failed: {why}.' + (f" It said: {said}" if said else ""))


def _cell(text: str) -> str:
    """Text without what separates cells and rows."""
    return text.translate(_SEPARATORS)


@contextmanager
def _ended_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[list[bool]]:
    """A program and all that it starts end after a time, or with an exception; what is yielded says if it was late."""
    late: list[bool] = []

    def end() -> None:
        late.append(True)
        _kill(process)

    clock = Timer(seconds, end)
    clock.start()
    try:
        yield late
    except BaseException:
        _kill(process)
        raise
    finally:
        clock.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
