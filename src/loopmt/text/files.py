"""Reads plain, gz, xz and zst files: hashes the bytes while reading, and splits lines at line feeds only."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from loopmt.errors import DataError
from loopmt.files.regular import reading_given
from loopmt.text.compressed import damage_named, unpacked

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_LINE = 16 * 2**20
_BUFFER = 2**18
_COMPRESSED = (".gz", ".xz", ".zst")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks, with which no UTF-8 can begin


class HashedFile(io.RawIOBase):
    """A file on disk; counts the bytes that were read, and has its sha256 when it was read completely."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.consumed = 0
        self._hash = hashlib.sha256()
        try:
            self._file = reading_given(path).detach()
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        count = self._file.readinto(view) or 0
        self._hash.update(view[:count])
        self.consumed += count
        return count

    def content(self) -> IO[bytes]:
        """The decompressed bytes. A reference is kept, because a discarded reader closes the file below it."""
        self._content = unpacked(self)
        return self._content

    def sha256(self) -> str:
        """The hash of the whole file; reads the rest first."""
        while self.read(_BUFFER):
            pass
        return self._hash.hexdigest()

    def close(self) -> None:
        if not self.closed and hasattr(self, "_file"):  # __init__ may have failed
            self._file.close()
        super().close()


def lines(raw: HashedFile) -> Iterator[bytes]:
    r"""Lines without their \n; other separators stay, a byte order mark at the start is removed."""
    with damage_named(raw.path):
        yield from _lines(raw.content(), str(raw.path))


def _lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    line = _first(stream.readline(MAX_LINE), name)
    number = 1
    while line:
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            raise DataError(f"{name}, line {number} is longer than {MAX_LINE >> 20} MiB: is this a text file?")
        yield line.removesuffix(b"\n")
        line = stream.readline(MAX_LINE)
        number += 1


def read_files(files: Iterable[Path]) -> Iterator[str]:
    """The lines of files, one after another: plain, .gz, .xz or .zst."""
    for file in files:
        with HashedFile(file) as raw:
            yield from decoded(lines(raw), str(file))


def count_lines(files: Sequence[Path]) -> int | None:
    """The number of lines of plain files; None for compressed files and for pipes, which can be read only once."""
    if not files or not all(file.is_file() and file.suffix not in _COMPRESSED for file in files):
        return None
    count = 0
    for file in files:
        with HashedFile(file) as raw:
            count += sum(1 for _ in lines(raw))
    return count


def read_stream(stream: IO[bytes], name: str = "standard input") -> Iterator[str]:
    """The lines of a stream, each as soon as it arrives. No line is read before it is requested."""
    yield from decoded(_lines(stream, name), name)


def _first(line: bytes, name: str) -> bytes:
    """The first line without its byte order mark; UTF-16 is refused, because its lines cannot be split at bytes."""
    if line.startswith(_UTF_16):
        raise DataError(f"{name} is UTF-16. Convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW.")
    return line.removeprefix(_BYTE_ORDER_MARK)


def decoded(raw: Iterable[bytes], name: str) -> Iterator[str]:
    """The text of lines; an error names the file and the line."""
    for number, line in enumerate(raw, 1):
        try:
            yield line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number} is not UTF-8 (byte 0x{line[error.start]:02x}). "
                "Convert the text, for example with iconv, or remove the line."
            ) from None
