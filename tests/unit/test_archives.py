"""What comes out of an archive: members that are text, and nothing that could do harm."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from stress.checks import limited

from helpers.facts import refused
from helpers.packed import tar_of, zip_of
from loopmt.errors import DataError
from loopmt.text.archives import unpack

Pack = Callable[..., bytes]
KINDS: dict[str, Pack] = {"a.tgz": tar_of, "a.zip": zip_of}


def unpacked(tmp_path: Path, name: str, content: bytes, member: str = "text.en") -> bytes:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / name).write_bytes(content)
    try:
        unpack(tmp_path / name, {member: inside / "out"})
        return (inside / "out").read_bytes()
    finally:
        assert {file.name for file in tmp_path.iterdir()} == {"inside", name}
        assert {file.name for file in inside.iterdir()} <= {"out"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_comes_out(tmp_path: Path, kind: str) -> None:
    links = {"LATEST": (tarfile.SYMTYPE, "/etc/passwd")}
    assert unpacked(tmp_path, kind, KINDS[kind]({"README": b"?", "text.en": b"one\ntwo\n"}, links)) == b"one\ntwo\n"


@pytest.mark.parametrize("evil", ["../evil", "a/../../evil", "/tmp/evil", "..\\evil", "C:evil"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_that_would_leave_its_folder(tmp_path: Path, kind: str, evil: str) -> None:
    with refused(DataError, "refused"):
        unpacked(tmp_path, kind, KINDS[kind]({"text.en": b"one\n", evil: b"evil"}))


@pytest.mark.parametrize(
    ("kind", "link"),
    [
        *(("a.tgz", kind) for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE)),
        *(("a.tgz", kind) for kind in (tarfile.FIFOTYPE, tarfile.DIRTYPE)),
        ("a.zip", b""),
    ],
)
def test_a_link_or_a_device_in_place_of_text(tmp_path: Path, kind: str, link: bytes) -> None:
    with refused(DataError, "'text.en'", "link", "refused"):
        unpacked(tmp_path, kind, KINDS[kind]({}, {"text.en": (link, "/etc/passwd")}))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_text_missing_or_damaged(tmp_path: Path, kind: str) -> None:
    cases = {
        "is not plain text": KINDS[kind]({"text.en": b"\x7fELF\0\0"}),
        r"has no member text\.en": KINDS[kind]({"text.fr": b"un"}),
        "cannot be unpacked": KINDS[kind]({"text.en": bytes(range(1, 100)) * 50})[:150],
    }
    for number, (message, content) in enumerate(cases.items()):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(DataError, match=message):
            unpacked(tmp_path / str(number), kind, content)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_bounded(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is repeated for ever is small in an archive; text is not."""
    monkeypatch.setattr("loopmt.text.archives._SPARE", 2**16)
    bomb = KINDS[kind]({"text.en": b"boom\n" * 2**20})
    with refused(DataError, "64 times", "refused"):
        unpacked(tmp_path, kind, bomb)
    assert sum(file.stat().st_size for file in (tmp_path / "inside").iterdir()) <= 64 * len(bomb) + 2**16


def test_a_bomb_in_a_tar_header_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long name is read into memory before anything is unpacked."""
    monkeypatch.setattr("loopmt.text.archives._SPARE", 2**16)
    with refused(DataError, "64 times"):
        unpacked(tmp_path, "a.tgz", tar_of({"a" * 2**23: b"", "text.en": b"one\n"}))


def test_segments_of_sgm(tmp_path: Path) -> None:
    text = '<refset>\n<hl>\n<seg id="1"> A &amp; B </seg>\n</hl><SEG id=2>«ü» &quot;x&quot;</SEG>\n<seg id="3"></seg>\n'
    out = unpacked(tmp_path, "a.tgz", tar_of({"t.sgm": text.encode()}), "t.sgm")
    assert out.decode() == 'A & B\n«ü» "x"\n\n'


@pytest.mark.parametrize("line", [b"<seg>" * 500_000, b"<seg " * 500_000])
def test_segments_without_an_end_are_searched_once(tmp_path: Path, line: bytes) -> None:
    with limited(20):
        assert unpacked(tmp_path, "a.tgz", tar_of({"t.sgm": line + b"\n<seg>one</seg>\n"}), "t.sgm") == b"one\n"


def test_a_zip_that_wants_memory_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("text.en", "text")
    with refused(DataError, "a.zip", "'text.en'", "method 14"):
        unpacked(tmp_path, "a.zip", out.getvalue())
