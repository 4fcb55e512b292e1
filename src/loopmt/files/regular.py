"""Opening the files of a run: only regular files of a bounded size, never through a link.

A run from an untrusted source may hold a link, a pipe, a device or an oversized file under any name. Anything that is
neither a regular file nor a folder is rejected before it is opened.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom, BufferedReader, BufferedWriter
from pathlib import Path
from typing import IO
from uuid import uuid4

from loopmt.errors import DamagedError, DataError, UnsafeFileError

TEXT_LIMIT = 2**28
"""The size limit, in bytes, of a file that is read at once."""
LOG_LIMIT = 2**30
"""The size limit, in bytes, of a training log."""

_SAFELY = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # opening a pipe without a writer must not block
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_FIX = "Delete it, or replace it by a copy of the file or folder that it should be."
_PIPES_OF_THE_SHELL = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


# -- checks ----------------------------------------------------------------------------------------------------


def has_file(file: Path) -> bool:
    """Whether the file exists; an error if it is not a regular file."""
    return _has(file, stat.S_IFREG)


def has_folder(folder: Path) -> bool:
    """Whether the folder exists; an error if it is not a folder."""
    return _has(folder, stat.S_IFDIR)


def _has(path: Path, wanted: int) -> bool:
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_IFMT(mode) != wanted:
        raise UnsafeFileError(f"{path} is {_kind(path, mode)}, not {_KINDS[wanted]}. {_FIX}")
    return True


def _kind(path: Path, mode: int) -> str:
    if not stat.S_ISLNK(mode):
        return _KINDS.get(stat.S_IFMT(mode), "something unknown")
    with suppress(OSError):
        return f"a symbolic link to {path.readlink()}"
    return "a symbolic link"


def member(folder: Path, name: str) -> Path:
    """The path of an untrusted name in a folder; an error if it leads out of the folder."""
    if Path(name).name != name or name == "..":
        raise UnsafeFileError(
            f"{folder}: {name!r} is not the name of a file in it. The folder is damaged; restore it from a copy."
        )
    return folder / name


def file_size(file: Path) -> int:
    """In bytes."""
    has_file(file)
    return file.lstat().st_size


def refuse_unsafe(folder: Path, files: Iterable[str], folders: Iterable[str]) -> None:
    """Raise an error if these names in a folder have another type, or if there are links, pipes or devices below."""
    for name in files:
        has_file(folder / name)
    waiting = [folder / name for name in folders if has_folder(folder / name)]
    while waiting:
        path = waiting.pop()
        with suppress(FileNotFoundError, NotADirectoryError):  # another process may rename its drafts
            if stat.S_ISDIR(path.lstat().st_mode):
                waiting += path.iterdir()
            else:
                has_file(path)


# -- folders -----------------------------------------------------------------------------------------------------


def subfolder(root: Path, *names: str) -> Path:
    """A folder below `root`, which need not exist; an error if a folder of the path is a link."""
    folder = root
    for name in names:
        folder = member(folder, name)
        has_folder(folder)
    return folder


def make_subfolder(root: Path, *names: str) -> Path:
    """The same folder; creates missing folders."""
    root.mkdir(parents=True, exist_ok=True)
    folder = root
    for name in names:
        folder = member(folder, name)
        if not has_folder(folder):
            folder.mkdir(exist_ok=True)
    return subfolder(root, *names)


def share_subfolder(source: Path, folder: Path) -> None:
    """Create a folder with the same files: hard links if the file system supports them, else copies."""
    refuse_unsafe(source.parent, [], [source.name])
    shutil.copytree(source, folder, copy_function=_share)


def _share(source: str, file: str) -> None:
    try:
        os.link(source, file, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, file)


# -- reading -----------------------------------------------------------------------------------------------------


def read_text(file: Path, most: int = TEXT_LIMIT) -> str:
    try:
        return read_bytes(file, most).decode()
    except UnicodeDecodeError as error:
        raise DamagedError(f"{file} is not UTF-8 text ({error.reason} at byte {error.start:,}).") from None


def read_bytes(file: Path, most: int = TEXT_LIMIT) -> bytes:
    with reading(file, most) as stream:
        return _whole(stream, file, most)


def read_given_text(file: Path, most: int = TEXT_LIMIT) -> str:
    """The text of a file that the user named; links are followed."""
    with reading_given(file, most) as stream:
        return _whole(stream, file, most).decode()


def read_stream_text(stream: IO[bytes], name: str, most: int = TEXT_LIMIT) -> str:
    """The text of a stream of unknown length, such as standard input."""
    return _whole(stream, name, most).decode()


def reading(file: Path, most: int | None = None) -> BufferedReader:
    """A regular file of at most `most` bytes, open for reading."""
    has_file(file)
    return os.fdopen(_opened(file, os.O_RDONLY | os.O_NOFOLLOW, most), "rb")


def has_given_file(file: Path) -> bool:
    """Whether a file that the user named exists; links are followed."""
    try:
        mode = file.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(mode) and not _is_pipe_of_the_shell(file, mode):
        raise DataError(f"{file} is {_kind(file, mode)}, not a file. Name a regular file.")
    return True


def _is_pipe_of_the_shell(file: Path, mode: int) -> bool:
    """Whether this is a shell's <(command): a pipe that has a writer, so reading it ends."""
    return stat.S_ISFIFO(mode) and str(file).startswith(_PIPES_OF_THE_SHELL)


def reading_given(file: Path, most: int | None = None) -> BufferedReader:
    """A file that the user named, open for reading."""
    if has_given_file(file) and _is_pipe_of_the_shell(file, file.stat().st_mode):
        return file.open("rb")
    return os.fdopen(_opened(file, os.O_RDONLY, most), "rb")


def _opened(file: Path, flags: int, most: int | None = None) -> int:
    """A descriptor, checked again: the file may have been replaced since it was checked by name."""
    descriptor = os.open(file, flags | _SAFELY, 0o666)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise UnsafeFileError(f"{file} is {_kind(file, state.st_mode)}, not a file. {_FIX}")
        if most is not None and state.st_size > most:
            raise UnsafeFileError(_too_large(file, most))
        return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _whole(stream: IO[bytes], file: Path | str, most: int) -> bytes:
    content = stream.read(most + 1)
    if len(content) > most:
        raise UnsafeFileError(_too_large(file, most))
    return content


def _too_large(file: Path | str, most: int) -> str:
    return f"{file} is larger than {most >> 20:,} MiB, the limit for this kind of file. Replace it by the right file."


# -- writing -----------------------------------------------------------------------------------------------------


def creating(file: Path) -> BufferedWriter:
    """A new file, open for writing; an existing file is deleted first."""
    if has_file(file):
        file.unlink()
    return os.fdopen(_opened(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW), "wb")


def appending(file: Path) -> BufferedRandom:
    """A file, open for reading and appending; created if it is missing."""
    has_file(file)
    return os.fdopen(_opened(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW), "ab+")


def cut(file: Path, size: int) -> None:
    """Truncate a file to its first bytes."""
    with appending(file) as stream:
        stream.truncate(size)


@contextmanager
def replacing(file: Path) -> Iterator[BufferedWriter]:
    """A stream whose content replaces the file atomically."""
    has_file(file)
    draft = file.with_name(f".{file.name}.{uuid4().hex[:12]}")  # unique across machines, unlike a process id
    try:
        with creating(draft) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
