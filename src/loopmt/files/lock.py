"""One process at a time in a folder, and who it is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from loopmt.errors import LockedError, RunError

_GLANCE = 0.05  # seconds: far longer than asking who holds a lock takes


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; a second one is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a+")
    except OSError as error:
        raise RunError(f"{folder} cannot be written: {error}. Free it, or choose another --run.") from None
    with file:
        _acquire(file, folder)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def lock_owner(folder: Path) -> str | None:
    """The id of the process that holds the folder now, if there is one."""
    try:
        with (folder / ".lock").open() as file:
            return _holder(file)
    except OSError:  # nobody ever held it
        return None


def _holder(file: IO[str]) -> str | None:
    """Closing the file lets go of the share that asking may have got."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _named(file)
    return None


def _take(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def _named(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip() or "unknown"


def _acquire(file: IO[str], folder: Path) -> None:
    if not _take(file):
        time.sleep(_GLANCE)  # it may have been somebody who only asked
        if not _take(file):
            raise LockedError(
                f"{folder} is in use by another process (pid {_named(file)}). "
                "Wait for it, stop it, or choose another --run."
            )
    file.seek(0)
    file.truncate()
    with contextlib.suppress(OSError):  # on a full disk the lock holds all the same, without a name
        file.write(str(os.getpid()))
        file.flush()
