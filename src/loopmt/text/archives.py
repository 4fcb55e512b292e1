"""Extracts members of tar and zip archives as plain text, under names that loopmt chooses.

Names inside an archive are never used as file names, and an archive that tries to leave its folder is refused. The
extracted size is limited to 64 times the size of the archive, because text compresses less than that.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, cast
from xml.sax.saxutils import unescape

from loopmt.errors import DataError
from loopmt.files.regular import creating, reading, replacing
from loopmt.text.compressed import damage_named
from loopmt.text.files import MAX_LINE, HashedFile

_SEGMENT = re.compile(rb"<seg\b[^<>]*>", re.IGNORECASE)
_SEGMENT_END = re.compile(rb"</seg>", re.IGNORECASE)
_MARKS = {"&quot;": '"', "&apos;": "'"}
_CHUNK = 2**20
_GROWTH, _SPARE = 64, 2**26  # what is unpacked may be so many times the archive, and so many bytes more
Opened = tuple[str, Callable[[], IO[bytes]]]


def unpack(archive: Path, wanted: Mapping[str, Path]) -> None:
    """Write these members to these files; of an .sgm member its segments, one a line."""
    missing = set(wanted)
    with _damage_named(archive):
        for name, open_member in _members(archive, wanted.keys()):
            with open_member() as stream:
                _write_text(stream, wanted[name], f"{archive}, member {name}")
            if name.endswith(".sgm"):
                _keep_segments(wanted[name])
            missing.discard(name)
    if missing:
        raise DataError(f"{archive} has no member {', '.join(sorted(missing))}. Is it the archive that its name says?")


class _BoundedMember(io.RawIOBase):
    """A decompressed stream of an archive, refused if it is larger than text in an archive of this size can be."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, archive: Path) -> None:
        self._stream = stream
        self._archive = archive
        self._left = _GROWTH * archive.stat().st_size + _SPARE

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise DataError(
                f"{self._archive} unpacks to more than {_GROWTH} times its size, which text does not: it is refused."
            )
        return data


@contextmanager
def _damage_named(archive: Path) -> Iterator[None]:
    damage = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, OSError, NotImplementedError, RuntimeError)
    try:
        yield
    except damage as error:
        raise DataError(
            f"{archive} cannot be unpacked ({error}). If it is damaged, remove it and fetch it again."
        ) from None


def _members(archive: Path, wanted: Collection[str]) -> Iterator[Opened]:
    return (_zip_members if archive.suffix == ".zip" else _tar_members)(archive, wanted)


def _zip_members(archive: Path, wanted: Collection[str]) -> Iterator[Opened]:
    with reading(archive) as whole, zipfile.ZipFile(whole) as file:
        for info in file.infolist():
            _check_name(archive, info.filename)
        for info in file.infolist():
            if info.filename in wanted:
                is_link = (info.external_attr >> 16) & 0o170000 == 0o120000
                _check_plain(archive, info.filename, not info.is_dir() and not is_link)
                _check_compression(archive, info)
                yield info.filename, lambda info=info: _BoundedMember(file.open(info), archive)  # type: ignore[misc]


def _tar_members(archive: Path, wanted: Collection[str]) -> Iterator[Opened]:
    with (
        reading(archive) as packed,
        gzip.open(packed) as whole,
        tarfile.open(fileobj=cast(IO[bytes], _BoundedMember(whole, archive)), mode="r|") as file,
    ):
        for info in file:
            _check_name(archive, info.name)
            name = info.name.removeprefix("./")
            if name in wanted:
                _check_plain(archive, name, info.isreg())
                yield name, lambda info=info: file.extractfile(info)  # type: ignore[misc]


def _check_name(archive: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
        raise DataError(f"{archive} has a member '{name}' that would leave its folder: the archive is refused.")


def _check_plain(archive: Path, name: str, plain: bool) -> None:
    if not plain:
        raise DataError(f"{archive}: the member '{name}' is a link or no file at all: the archive is refused.")


def _check_compression(archive: Path, info: zipfile.ZipInfo) -> None:
    """Refuse other methods, such as LZMA: the archive decides how much memory they need."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(
            f"{archive}: the member '{info.filename}' is compressed by method {info.compress_type}; "
            "stored and deflated ones are read. Compress the archive again."
        )


def check_text(file: Path) -> None:
    """Refuse a download that is not text, compressed or not."""
    with damage_named(file), HashedFile(file) as raw:
        _check_no_binary(raw.content().read(_CHUNK), str(file))


def _check_no_binary(data: bytes, where: str) -> None:
    if b"\0" in data:
        raise DataError(f"{where} is not plain text: it is refused.")


def _write_text(stream: IO[bytes], target: Path, where: str) -> None:
    data = stream.read(_CHUNK)
    _check_no_binary(data, where)
    with creating(target) as file:
        while data:
            file.write(data)
            data = stream.read(_CHUNK)


def _keep_segments(file: Path) -> None:
    with reading(file) as lines, replacing(file) as out:
        for line in iter(lambda: lines.readline(MAX_LINE), b""):
            out.writelines(_plain(segment) + b"\n" for segment in _segments(line))


def _segments(line: bytes) -> Iterator[bytes]:
    """Each part of the line is searched once, however many segments begin in it and do not end."""
    *parts, _ = _SEGMENT_END.split(line)
    for part in parts:
        if begun := _SEGMENT.search(part):
            yield part[begun.end() :]


def _plain(segment: bytes) -> bytes:
    text = unescape(segment.decode(errors="surrogateescape"), _MARKS)
    return text.strip().encode(errors="surrogateescape")
