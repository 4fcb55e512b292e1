"""Decompression in pieces, with limits on size and memory: a small file cannot unpack to an unbounded one."""

from __future__ import annotations

import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from loopmt.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ENDINGS = ("", ".gz", ".xz", ".zst")
MEMORY = 2**29
"""Bytes of the window or dictionary of a compressed file; `xz -9` and `zstd -19` have an eighth."""
GROWTH, SPARE = 100, 2**21
"""Unpacked text is at most so many times as large, and so many bytes more; real text grows tenfold."""
_BUFFER = 2**18
_PADDING = 2**20  # bytes
_PIECE = 2**10  # bytes that are unpacked at once: 32 MiB at most


class CountedFile(Protocol):
    """A file on disk, and the number of bytes that were read of it."""

    path: Path
    consumed: int

    def read(self, size: int = -1, /) -> bytes | None: ...


def unpacked(raw: Any) -> io.BufferedReader:
    """The content of a plain, .gz, .xz or .zst file, by its name."""
    opener = {".gz": _gz, ".xz": _xz, ".zst": _zst}.get(raw.path.suffix)
    return io.BufferedReader(_BoundedFile(opener(raw), raw) if opener else raw, _BUFFER)


def _gz(raw: CountedFile) -> Any:
    return _Frames(raw, lambda: zlib.decompressobj(wbits=31), padding=b"\0")


def _xz(raw: CountedFile) -> Any:
    return _Frames(raw, lambda: lzma.LZMADecompressor(memlimit=MEMORY), padding=b"\0")


def _zst(raw: CountedFile) -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(
            f"{raw.path} needs the package zstandard: pip install 'loopmt[zstd]', or decompress the file."
        ) from None
    return _Frames(raw, zstandard.ZstdDecompressor(max_window_size=MEMORY).decompressobj)


class _Frames(io.RawIOBase):
    """Consecutive frames, with a little padding between them; a truncated frame is an error."""

    def __init__(self, raw: CountedFile, new_frame: Callable[[], Any], padding: bytes = b"") -> None:
        self._raw, self._new_frame, self._padding = raw, new_frame, padding
        self._frame: Any = None
        self._packed = self._text = b""
        self._padded = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._text:
            self._packed = self._packed or self._raw.read(2**14) or b""
            if not self._packed:
                return self._end()
            self._unpack()
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._text))
        view[:count], self._text = self._text[:count], self._text[count:]
        return count

    def _unpack(self) -> None:
        if self._frame is None:
            self._begin()
        else:
            piece, self._packed = self._packed[:_PIECE], self._packed[_PIECE:]
            self._text = self._frame.decompress(piece)
            if self._frame.eof:
                self._packed = self._frame.unused_data + self._packed
                self._frame = None

    def _begin(self) -> None:
        size = len(self._packed)
        self._packed = self._packed.lstrip(self._padding)
        self._padded += size - len(self._packed)
        if self._padded > _PADDING:
            raise EOFError(f"it goes on with more than {_PADDING >> 20} MiB of zeros")
        self._frame = self._new_frame() if self._packed else None

    def _end(self) -> int:
        if self._frame is not None:
            raise EOFError("the last frame is cut off")
        return 0


class _BoundedFile(io.RawIOBase):
    """A decompressed stream. It is refused if it is larger than text in a file of this size can be."""

    def __init__(self, stream: Any, raw: CountedFile) -> None:
        self._stream, self._raw = stream, raw
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        count: int = self._stream.readinto(buffer)
        self._given += count
        if self._given > SPARE + GROWTH * self._raw.consumed:
            raise DataError(
                f"{self._raw.path} unpacks to more than {GROWTH} times its size, which text does not: it is refused. "
                "If it is what you want, unpack it first."
            )
        return count


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn the errors of a decompressor into an error that names the damaged file."""
    zstandard = sys.modules.get("zstandard")
    damage = (EOFError, OSError, zlib.error, lzma.LZMAError, *((zstandard.ZstdError,) if zstandard else ()))
    try:
        yield
    except damage as error:
        if "memory" in str(error).lower():
            raise DataError(
                f"{path} needs more than {MEMORY >> 20} MiB of memory to be unpacked ({error}). "
                "Compress it again with a smaller dictionary, as xz -9 or zstd -19 do."
            ) from None
        raise DataError(f"{path} is damaged or cut off ({error}). Fetch or compress it again.") from None
