"""Small files that unpack to much, or want much memory, are refused; real ones are read as they are."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import resource
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from stress.checks import limited

from helpers.facts import refused
from loopmt.errors import DataError
from loopmt.text import compressed
from loopmt.text.files import MAX_LINE, read_files, read_stream

SOON = 20.0  # seconds
MIB = 2**20


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lambda text: lzma.compress(text, preset=0),
    ".zst": zstandard.compress,
}


@pytest.mark.parametrize("byte", [b"\n", b"a"])
@pytest.mark.parametrize("ending", PACK)
def test_bombs(tmp_path: Path, ending: str, byte: bytes) -> None:
    file = tmp_path / f"bomb{ending}"
    file.write_bytes(PACK[ending](byte * (100 * MIB)) * 3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with limited(SOON), refused(DataError, f"bomb{ending}", "100 times"):
        for _ in read_files([file]):
            pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024, "KiB more than before"


def test_a_huge_dictionary(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(b"text\n"))
    begin, end = 12, 24  # the header of the first block: 12 bytes, the last four of them their checksum
    assert packed[begin : begin + 4] == b"\x02\x00\x21\x01"
    packed[begin + 4] = 40  # of the dictionary: 4 GiB
    packed[end - 4 : end] = zlib.crc32(packed[begin : end - 4]).to_bytes(4, "little")
    (tmp_path / "huge.xz").write_bytes(packed)
    with refused(DataError, "huge.xz", "512 MiB"):
        list(read_files([tmp_path / "huge.xz"]))


def test_a_huge_window(tmp_path: Path) -> None:
    frame = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=30, write_content_size=False)
    ).compressobj()
    (tmp_path / "huge.zst").write_bytes(frame.compress(b"text\n") + frame.flush())
    with refused(DataError, "huge.zst", "512 MiB"):
        list(read_files([tmp_path / "huge.zst"]))


@pytest.mark.parametrize("ending", PACK)
def test_text_is_read_however_much_it_is(tmp_path: Path, ending: str) -> None:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefgh", k=5)) for _ in range(500)]
    lines = [" ".join(chance.choices(words, k=12)) for _ in range(60_000)]
    text = "".join(f"{line}\n" for line in lines).encode()
    half = len(text) // 2
    file = tmp_path / f"text{ending}"
    file.write_bytes(PACK[ending](text[:half]) + PACK[ending](text[half:]))
    assert len(text) > compressed.SPARE
    assert list(read_files([file])) == lines


def test_padding_between_streams_of_xz(tmp_path: Path) -> None:
    (tmp_path / "text.xz").write_bytes(lzma.compress(b"one\n") + bytes(8) + lzma.compress(b"two\n") + bytes(4))
    assert list(read_files([tmp_path / "text.xz"])) == ["one", "two"]


def test_a_line_of_standard_input_is_bounded() -> None:
    stream = io.BytesIO(b"first\n" + b"a" * (MAX_LINE + 1))
    lines = read_stream(stream)
    assert next(lines) == "first"
    with refused(DataError, "standard input, line 2", "16 MiB"):
        next(lines)
