"""Bytes of a file: plain, gz, xz or zst, hashed while they are read, split into lines at \\n alone."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import lzma
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from loopmt.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ENDINGS = ("", ".gz", ".xz", ".zst")
MAX_LINE = 16 * 2**20
_BUFFER = 2**18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks, with which no UTF-8 can begin


class HashedFile(io.RawIOBase):
    """A file as it lies on the disk; knows how much of it was read, and its sha256 when it is finished."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.consumed = 0
        self._hash = hashlib.sha256()
        try:
            self._file = path.open("rb", buffering=0)
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
        """The decompressed bytes. Kept, because a reader that is thrown away closes the file below it."""
        self._content = _decompressed(self)
        return self._content

    def sha256(self) -> str:
        """The hash of the whole file, of whatever was not read yet too."""
        while self.read(_BUFFER):
            pass
        return self._hash.hexdigest()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _ZstdFile(io.RawIOBase):
    """Frames of zstd one after another; a cut-off frame is an error, as it is for gz and xz."""

    def __init__(self, raw: HashedFile) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError(
                f"{raw.path} needs the package zstandard: pip install 'loopmt[zstd]', or decompress the file."
            ) from None
        self._raw = raw
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._pending = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._pending:
            data = self._frame.unused_data if self._frame and self._frame.eof else b""
            data = data or self._raw.read(2**14) or b""
            if not data:
                return self._end()
            if self._frame is None or self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            self._pending = self._frame.decompress(data)
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._pending))
        view[:count], self._pending = self._pending[:count], self._pending[count:]
        return count

    def _end(self) -> int:
        if self._frame is not None and not self._frame.eof:
            raise EOFError("the last frame is cut off")
        return 0


def _decompressed(raw: HashedFile) -> IO[bytes]:
    ending = raw.path.suffix
    if ending == ".gz":
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER)
    if ending == ".xz":
        return io.BufferedReader(lzma.LZMAFile(raw), _BUFFER)  # type: ignore[arg-type]
    return io.BufferedReader(_ZstdFile(raw) if ending == ".zst" else raw, _BUFFER)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """What a decompressor says of a damaged file, as a sentence that names it."""
    zstandard = sys.modules.get("zstandard")
    damage = (EOFError, OSError, zlib.error, lzma.LZMAError, *((zstandard.ZstdError,) if zstandard else ()))
    try:
        yield
    except damage as error:
        raise DataError(f"{path} is damaged or cut off ({error}). Fetch or compress it again.") from None


def lines(raw: HashedFile) -> Iterator[bytes]:
    """Lines without their \\n, whatever other separators they hold; a byte order mark at the start is no text."""
    with damage_named(raw.path):
        file = raw.content()
        line = _first(file.readline(MAX_LINE), str(raw.path))
        number = 1
        while line:
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                raise DataError(f"{raw.path}, line {number} is longer than {MAX_LINE >> 20} MiB: is this a text file?")
            yield line.rstrip(b"\n")
            line = file.readline(MAX_LINE)
            number += 1


def read_files(files: Iterable[Path]) -> Iterator[str]:
    """The lines of files, one after another: plain, .gz, .xz or .zst."""
    for file in files:
        with HashedFile(file) as raw:
            yield from _decoded(lines(raw), str(file))


def read_stream(stream: IO[bytes], name: str = "standard input") -> Iterator[str]:
    """The lines of a stream, each as soon as it is there, and none before it is asked for."""
    first = _first(stream.readline(), name)
    yield from _decoded((line.removesuffix(b"\n") for line in itertools.chain([first] if first else [], stream)), name)


def _first(line: bytes, name: str) -> bytes:
    """The first line without its byte order mark; one of UTF-16 would be cut at bytes that end no line."""
    if line.startswith(_UTF_16):
        raise DataError(f"{name} is UTF-16. Convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW.")
    return line.removeprefix(_BYTE_ORDER_MARK)


def _decoded(raw: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(raw, 1):
        try:
            yield line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number} is not UTF-8 (byte 0x{line[error.start]:02x}). "
                "Convert the text, for example with iconv, or remove the line."
            ) from None


_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = frozenset({"bpt", "ept", "ph", "it", "ut"})


def units(file: IO[bytes], name: str, languages: Sequence[str]) -> Iterator[tuple[bytes, ...]]:
    seen: set[str] = set()
    found = False
    for unit in _elements(file, name):
        segments = _segments(unit)
        seen.update(segments)
        row = [_segment(segments, language) for language in languages]
        if None not in row:
            found = True
            yield tuple(text.encode() for text in row if text is not None)
    if not found:
        known = ", ".join(sorted(seen)) or "none"
        raise DataError(f"{name} has no unit with {' and '.join(languages)}; its languages are: {known}.")


def _elements(file: IO[bytes], name: str) -> Iterator[ElementTree.Element]:
    """Every <tu>, dropped from the tree once it has been looked at, so that memory stays flat."""
    parents: list[ElementTree.Element] = []
    try:
        for event, element in ElementTree.iterparse(file, events=("start", "end")):
            if event == "start":
                parents.append(element)
                continue
            parents.pop()
            if _name(element) == "tu":
                yield element
                parents[-1].clear() if parents else None
    except ElementTree.ParseError as error:
        raise DataError(f"{name}, line {error.position[0]} is not well-formed TMX: {error}.") from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{name} is not TMX that can be read: {error}.") from None


def _name(element: ElementTree.Element) -> str:
    """The tag without its namespace, which some tools write and others do not."""
    return element.tag.rpartition("}")[2]


def _segments(unit: ElementTree.Element) -> dict[str, str]:
    segments: dict[str, str] = {}
    for variant in unit:
        language = (variant.get(_LANG) or variant.get("lang") or "").lower().replace("_", "-")
        segment = next((child for child in variant if _name(child) == "seg"), None)
        if _name(variant) == "tuv" and segment is not None:
            segments.setdefault(language, "".join(_text(segment)).replace("\n", " "))
    return segments


def _text(element: ElementTree.Element) -> Iterator[str]:
    """The text of a segment; what an editing tool's codes enclose is not text."""
    yield element.text or ""
    for child in element:
        if _name(child) not in _CODES:
            yield from _text(child)
        yield child.tail or ""


def _segment(segments: dict[str, str], language: str) -> str | None:
    """Asked for en: the segment of `en` or `EN`; without one, that of `en-GB`."""
    code = language.lower().replace("_", "-")
    regional = (text for tag, text in segments.items() if tag.startswith(f"{code}-"))
    return segments[code] if code in segments else next(regional, None)
