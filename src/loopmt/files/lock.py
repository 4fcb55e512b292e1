"""Locks of folders: one process at a time holds a lock, and others can read its id.

The file `.lock` is locked and holds the process id. The folder is locked too, if the file system supports it: `.lock`
may be deleted while it is locked, and the next process would then create and lock a new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from loopmt.errors import LockedError, RunError
from loopmt.files.regular import appending, has_file, reading

_GLANCE = 0.05  # seconds; `lock_owner` holds a lock for far less
_NAME = 100  # bytes, at most, of a process id


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for this process; an error if another process holds the lock."""
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            itself = stack.enter_context(_opened(folder))
            held = _acquire_soon(itself)  # before the file exists, so that no process finds it unlocked
            file = stack.enter_context(appending(folder / ".lock"))
        except OSError as error:
            raise RunError(f"{folder} is not writable: {error}. Make it writable, or choose another --run.") from None
        if not (held and _acquire_soon(file.fileno())):
            raise LockedError(
                f"{folder} is in use by another process (pid {_owner(file)}). "
                "Wait for it, stop it, or choose another --run."
            )
        _write_owner(file)
        try:
            yield
        finally:  # explicitly, because a child process may still have the files open
            for descriptor in (file.fileno(), itself):
                _release(descriptor)


def lock_owner(folder: Path) -> str | None:
    """The id of the process that holds the folder's lock, if any."""
    try:
        with _opened(folder) as itself:
            held = not _acquire(itself, fcntl.LOCK_SH)
            if not has_file(folder / ".lock"):
                return "unknown" if held else None
            with reading(folder / ".lock") as file:
                return _owner(file) if held or not _acquire(file.fileno(), fcntl.LOCK_SH) else None
    except OSError:  # it was never locked
        return None


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A locked descriptor of the folder; closing it releases the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire_soon(descriptor: int) -> bool:
    """Try twice: `lock_owner` in another process holds the lock for a moment."""
    if _acquire(descriptor, fcntl.LOCK_EX):
        return True
    time.sleep(_GLANCE)
    return _acquire(descriptor, fcntl.LOCK_EX)


def _acquire(descriptor: int, how: int) -> bool:
    """False if another process holds the lock. Network file systems cannot lock folders; there only `.lock` counts."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return os.path.isdir(descriptor)  # noqa: PTH112
    return True


def _release(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _owner(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(_NAME).decode(errors="replace").strip() or "unknown"


def _write_owner(file: BinaryIO) -> None:
    file.truncate(0)
    with contextlib.suppress(OSError):  # on a full disk the lock is held without an id
        file.write(str(os.getpid()).encode())
        file.flush()
