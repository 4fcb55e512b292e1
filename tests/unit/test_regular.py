"""Opening files of a run: only regular files of a bounded size, never through a link."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stress.checks import limited

from helpers.facts import refused
from loopmt.errors import DamagedError, DataError, LockedError, UnsafeFileError
from loopmt.files import regular
from loopmt.files.documents import with_checksum
from loopmt.files.lock import lock_owner, locked
from loopmt.run import Run, write_json
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab


def replaced(file: Path) -> None:
    with regular.replacing(file) as stream:
        stream.write(b"new")


OPENERS: list[Callable[[Path], object]] = [
    regular.read_bytes,
    regular.appending,
    regular.creating,
    regular.file_size,
    lambda file: regular.cut(file, 0),
    replaced,
]


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("target", ["precious", "nothing", "link"])
def test_no_link_is_followed(tmp_path: Path, opener: Callable[[Path], object], target: str) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(target)
    with refused(UnsafeFileError, f"{tmp_path}/link", "symbolic link", str(target)):
        opener(tmp_path / "link")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link", "precious"]


@pytest.mark.parametrize("opener", OPENERS)
def test_opening_a_pipe_does_not_block(tmp_path: Path, opener: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with limited(5), refused(UnsafeFileError, "pipe", "named pipe"):
        opener(tmp_path / "pipe")


def test_no_folder_on_the_way_may_be_a_link(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    assert regular.make_subfolder(run, "stages", "one") == run / "stages" / "one"
    (run / "stages" / "two").symlink_to(outside)
    for function in (regular.subfolder, regular.make_subfolder):
        with refused(UnsafeFileError, "two", "symbolic link", str(outside)):
            function(run, "stages", "two", "checkpoints")
    assert not list(outside.iterdir())


def test_a_shared_folder_has_the_same_files_and_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store" / "en").mkdir(parents=True)
    (tmp_path / "store" / "en" / "ids").write_bytes(b"text")
    regular.share_subfolder(tmp_path / "store", tmp_path / "shared")
    assert (tmp_path / "shared" / "en" / "ids").samefile(tmp_path / "store" / "en" / "ids")

    def refused(*arguments: object, **options: object) -> None:
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", refused)
    regular.share_subfolder(tmp_path / "store", tmp_path / "copied")
    assert (tmp_path / "copied" / "en" / "ids").read_bytes() == b"text"
    (tmp_path / "store" / "en" / "vocab").symlink_to(tmp_path / "copied")
    with pytest.raises(UnsafeFileError, match="vocab"):
        regular.share_subfolder(tmp_path / "store", tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), regular.replacing(tmp_path / "file") as stream:
        stream.write(b"new")
        raise KeyboardInterrupt
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"file": b"old"}


def test_size_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with file.open("wb") as stream:
        stream.truncate(2**40)  # sparse: it takes no room
    with refused(UnsafeFileError, "file", "256 MiB"):
        regular.read_bytes(file)
    file.write_bytes(b"four")
    assert regular.read_bytes(file, 4) == b"four"
    with pytest.raises(UnsafeFileError):
        regular.read_bytes(file, 3)


def test_files_named_by_the_user(tmp_path: Path) -> None:
    """Links are followed and pipes of the shell are read, but not files without an end."""
    (tmp_path / "file").write_bytes("é".encode())
    (tmp_path / "link").symlink_to("file")
    assert regular.read_given_text(tmp_path / "link") == "é"
    reader, writer = os.pipe()
    os.write(writer, b"from the shell")
    os.close(writer)
    assert regular.read_given_text(Path(f"/dev/fd/{reader}")) == "from the shell"
    os.mkfifo(tmp_path / "pipe")
    for name, kind in {"pipe": "a named pipe", "/dev/zero": "a device", "": "a folder"}.items():
        with limited(5), pytest.raises(DataError, match=f"{tmp_path / name} is {kind}, not a file"):
            regular.reading_given(tmp_path / name)


# -- names that stand in files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", "a/b", ""])
def test_names_in_files_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret\n")
    store = {"version": 1, "sides": {}, "sets": {}, "files": {name: {"size": 7, "sha256": ""}}}
    model = {"file": name, "size": 1, "sha256": ""}
    vocab = {"version": 1, "languages": ["en"], "joint": True, "form": {}, "models": {"joint": model}}
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "store.json", with_checksum(store))
    write_json(tmp_path / "run" / "vocab.json", with_checksum(vocab))
    for read in (Store.open, Vocab.load):
        with pytest.raises((UnsafeFileError, DamagedError)) as caught:
            read(tmp_path / "run")
        assert str(tmp_path / "run") in str(caught.value)


# -- locks -----------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from loopmt.files.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_held_after_its_file_was_deleted(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == "held\n"
            (tmp_path / ".lock").unlink()
            with pytest.raises(LockedError, match=f"{tmp_path} is in use"), locked(tmp_path):
                pytest.fail("two hold the folder")
            (tmp_path / ".lock").unlink(missing_ok=True)
            assert lock_owner(tmp_path) == "unknown"
        finally:
            other.kill()
    with locked(tmp_path):
        assert Run(tmp_path).owner() == str(os.getpid())
    assert lock_owner(tmp_path) is None
