"""One process at a time in a folder, and who it is.

The file `.lock` is locked and names the process. The folder itself is locked too, where the file system can do that:
a file may be removed while it is held, and then the next process would make and lock another one.
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

_GLANCE = 0.05  # seconds: far longer than asking who holds a lock takes
_NAME = 100  # bytes that may name a process


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; a second one is refused."""
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            itself = stack.enter_context(_opened(folder))
            file = stack.enter_context(appending(folder / ".lock"))
        except OSError as error:
            raise RunError(f"{folder} cannot be written: {error}. Free it, or choose another --run.") from None
        if not (_take_soon(itself) and _take_soon(file.fileno())):
            raise LockedError(
                f"{folder} is in use by another process (pid {_named(file)}). "
                "Wait for it, stop it, or choose another --run."
            )
        _sign(file)
        try:
            yield
        finally:  # at once, even if a child of this process still has the files open
            for descriptor in (file.fileno(), itself):
                _let_go(descriptor)


def lock_owner(folder: Path) -> str | None:
    """The id of the process that holds the folder now, if there is one."""
    try:
        with _opened(folder) as itself:
            held = not _take(itself, fcntl.LOCK_SH)
            if not has_file(folder / ".lock"):
                return "unknown" if held else None
            with reading(folder / ".lock") as file:
                return _named(file) if held or not _take(file.fileno(), fcntl.LOCK_SH) else None
    except OSError:  # nobody ever held it
        return None


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Closing it lets go of its lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _take_soon(descriptor: int) -> bool:
    """A process that only asks who holds the lock has it for a moment."""
    if _take(descriptor, fcntl.LOCK_EX):
        return True
    time.sleep(_GLANCE)
    return _take(descriptor, fcntl.LOCK_EX)


def _take(descriptor: int, how: int) -> bool:
    """False if another process has it. Network file systems cannot lock folders: there `.lock` is all there is."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return os.path.isdir(descriptor)  # noqa: PTH112
    return True


def _let_go(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _named(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(_NAME).decode(errors="replace").strip() or "unknown"


def _sign(file: BinaryIO) -> None:
    file.truncate(0)
    with contextlib.suppress(OSError):  # on a full disk the lock holds all the same, without a name
        file.write(str(os.getpid()).encode())
        file.flush()
