"""Every exception a user can meet, a tree on one page.

A message says what is wrong, where, what exists, and the way out. The command line prints it on
standard error and leaves with the class's exit code; it never shows a traceback for one of these.
"""

from __future__ import annotations

from collections.abc import Sequence


class LoopmtError(Exception):
    """An error that the user can fix. Its message says what is wrong, where, and how to fix it."""

    exit_code = 2


class PathError(LoopmtError):
    """A path or a pattern that cannot be read, or that the data cannot feed."""


class ConfigError(LoopmtError):
    """An experiment file that is not valid."""


class DataError(LoopmtError):
    """Text that cannot be used: missing, unreadable, uneven, empty."""


class TheoryError(LoopmtError):
    """Numbers that are not probabilities, laws or counts."""


class RunError(LoopmtError):
    """A run's directory that is not what it should be."""


class LockedError(RunError):
    """Another process is working in the run's directory."""


class UnsafeFileError(RunError):
    """A link, a pipe, a device, a folder or a far too large file where a run has a regular file."""


class DamagedError(RunError):
    """A file of the run does not have the content it was written with."""


class DivergedError(LoopmtError):
    """Training met a loss that is not finite; the weights were not touched by it."""

    exit_code = 3


class CollapseError(LoopmtError):
    """A generator collapsed and the experiment said `on_collapse = "stop"`."""

    exit_code = 3


class StoppedError(LoopmtError):
    """Training was paused by a signal; a shell must not take that for its end."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal  # as shells count


class ExhaustedError(LoopmtError):
    """Memory ran out, and splitting the work did not help."""


class ExternalError(LoopmtError):
    """A function or a program that the experiment names failed, or returned something else than it should."""


class MissingExtraError(LoopmtError):
    """An optional package is needed and not installed."""


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names for a sentence, the first of many."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
