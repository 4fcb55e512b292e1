"""External code named in an experiment: `module:function` is imported, `command:PROGRAM ARGS...` is run.

A program is run without a shell. It reads rows of tab-separated text on standard input and prints one number per line.
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
_LINE_BYTES = 100  # characters, at most, of a line with one number
_SEPARATORS = str.maketrans("\t\n\r", "   ")
_STDERR_CHARACTERS = 500  # shown in an error message
Function = TypeVar("Function", bound=Callable[..., Any])


def is_external(name: str) -> bool:
    """Whether a name refers to code outside of loopmt."""
    return ":" in name


def is_command(name: str) -> bool:
    return name.startswith(COMMAND)


# -- module:function -------------------------------------------------------------------------------------------


def imported(reference: str, kind: str) -> Callable[..., Any]:
    """Import the function of `module:function`; the current folder is on the search path."""
    name, _, attribute = reference.partition(":")
    module = _module(name, f'{kind} "{reference}"')
    function = getattr(module, attribute, None)
    if not callable(function):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        what = f'has no "{attribute}"' if function is None else f'defines "{attribute}", which is not a function'
        raise ConfigError(
            f'{kind} "{reference}": {module.__file__} {what}. Its functions are: {listed(own) or "none"}.'
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
            f'{what}: there is no module "{name}". The search path is {here} and the folders of PYTHONPATH.'
        ) from None
    except Exception as error:
        raise ConfigError(f'{what}: module "{name}" cannot be imported: {cause(error)}.') from error


def explained(function: Function, what: str) -> Function:
    """Wrap the function so that its exceptions become an `ExternalError` that names it."""

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
    """The exception with file and line of its innermost frame."""
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
        """Split the words as a shell would; `~` at the start of a word is the home folder."""
        try:
            words = tuple(map(os.path.expanduser, shlex.split(reference.removeprefix(COMMAND))))
        except ValueError as error:
            raise ConfigError(f'"{reference}": the command line is malformed ({error}). Close its quotes.') from None
        if not words:
            raise ConfigError(f'"{reference}" names no program. Write "command:PROGRAM ARGS...".')
        if shutil.which(words[0]) is None:
            raise ConfigError(
                f'"{reference}": there is no executable program {words[0]}. '
                "Give its path, from the current folder, and make it executable."
            )
        return cls(reference, words)

    def numbers(
        self, rows: Sequence[Sequence[str]], timeout: float, languages: tuple[str, str] | None = None
    ) -> list[float]:
        """Run the program on the rows and return its numbers, one per row; it may take `timeout` seconds.

        `languages` are passed in the environment as LOOPMT_SOURCE and LOOPMT_TARGET.
        """
        if not rows:
            return []
        with TemporaryFile() as stdin, TemporaryFile() as stderr:
            stdin.write("".join("\t".join(map(_cell, row)) + "\n" for row in rows).encode(errors="replace"))
            stdin.seek(0)
            hop = dict(zip(("LOOPMT_SOURCE", "LOOPMT_TARGET"), languages or (), strict=False))
            process = self._started(stdin, stderr, {**os.environ, **hop})
            printed = self._output(process, _LINE_BYTES * (len(rows) + 1), timeout)
            if process.returncode:
                stderr.seek(0)
                raise self._failed(f"it ended with exit code {process.returncode}", stderr.read())
        return self._parsed(printed.decode(errors="replace").rstrip().splitlines(), len(rows))

    def _started(self, stdin: IO[bytes], stderr: IO[bytes], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                start_new_session=True,  # so that its child processes can be killed, too
            )
        except OSError as error:
            raise self._failed(f"{self.words[0]} cannot be run: {error.strerror}") from None

    def _output(self, process: subprocess.Popen[bytes], most: int, timeout: float) -> bytes:
        """Standard output; the program is killed after `most` bytes or `timeout` seconds."""
        with process, _ended_after(process, timeout) as late:
            assert process.stdout is not None
            printed = process.stdout.read(most + 1)
            if len(printed) > most:
                raise self._failed(f"it printed more than {most:,} bytes; print one number per row")
            process.wait()
        if late:
            raise self._failed(f"it was still running after {timeout:g} seconds. Set `timeout` to change the limit")
        return printed

    def _parsed(self, lines: Sequence[str], count: int) -> list[float]:
        if len(lines) != count:
            printed = f"{len(lines):,} line{'s' * (len(lines) != 1)} for {count:,} rows"
            raise self._failed(f"it printed {printed}; print one number per row")
        return [self._number(line, number) for number, line in enumerate(lines, 1)]

    def _number(self, line: str, number: int) -> float:
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._failed(f'line {number} of its output is not a number: "{visible(line[:40])}"')
        return value

    def _failed(self, why: str, stderr: bytes = b"") -> ExternalError:
        message = visible(stderr.decode(errors="replace").strip()[-_STDERR_CHARACTERS:])
        return ExternalError(
            f'"{self.reference}" failed: {why}.' + (f" Its standard error: {message}" if message else "")
        )


def _cell(text: str) -> str:
    """Text with tabs and line breaks replaced by spaces."""
    return text.translate(_SEPARATORS)


@contextmanager
def _ended_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[list[bool]]:
    """Kill a program and its children at a timeout or an exception. After a timeout the yielded list is not empty."""
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
