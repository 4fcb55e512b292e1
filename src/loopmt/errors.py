"""All exceptions that a user can meet.

A message says what is wrong, where, which values exist, and how to fix it. The command line prints the message on
standard error, without a traceback, and exits with the class's exit code.
"""

from __future__ import annotations

from collections.abc import Sequence


class LoopmtError(Exception):
    """An error that the user can fix. Its message says what is wrong, where, and how to fix it."""

    exit_code = 2


class PathError(LoopmtError):
    """A path or pattern that is malformed, or that the data does not supply with text."""


class ConfigError(LoopmtError):
    """An experiment file that is not valid."""


class DataError(LoopmtError):
    """Text that cannot be used: missing, unreadable, empty, or sides of unequal length."""


class TheoryError(LoopmtError):
    """Numbers that are not probabilities, distributions or counts."""


class RunError(LoopmtError):
    """A run folder that cannot be used."""


class LockedError(RunError):
    """Another process is using the run folder."""


class UnsafeFileError(RunError):
    """A link, a pipe, a device, a folder or an oversized file in place of a regular file of a run."""


class DamagedError(RunError):
    """A file of the run has changed since it was written, or cannot be parsed."""


class DivergedError(LoopmtError):
    """A gradient was not finite; the weights were not updated with it."""

    exit_code = 3


class CollapseError(LoopmtError):
    """A generator collapsed, and the experiment has `on_collapse = "stop"`."""

    exit_code = 3


class StoppedError(LoopmtError):
    """A signal paused training; the exit code tells a shell that training has not finished."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal  # by the convention of shells


class ExhaustedError(LoopmtError):
    """Out of memory, even after splitting the work."""


class ExternalError(LoopmtError):
    """A function or program named in the experiment failed, or returned an invalid value."""


class MissingExtraError(LoopmtError):
    """A required optional package is not installed."""


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names joined by commas; at most the first `most`."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
