"""Files in a folder that do not belong to a run, so that loopmt never overwrites them."""

from __future__ import annotations

import difflib
from pathlib import Path

from loopmt.errors import DamagedError, listed
from loopmt.files.documents import read_json_object
from loopmt.files.regular import has_file, reading

_NAME = 100  # bytes, at most, of a process id
_CHECKSUMMED = ("experiment.json", "origin.json", "manifest.json")
# Names that a run may contain before these three files exist.
_FIRST = {".lock", "imported", "pretrained", "stages", "prepare.tmp", "corpora", "vocab", "store"}


def unknown_files(folder: Path) -> list[str]:
    """Names in a folder that loopmt did not create; none if the folder is a run, even one that was just begun."""
    if not folder.is_dir() or any(_has_checksum(folder / name) for name in _CHECKSUMMED):
        return []
    ours = _FIRST if _is_our_lock(folder / ".lock") else {"imported"}  # importing does not lock
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in ours)


def suggest_run(folder: Path) -> str:
    """A suggestion for a folder that is not a run."""
    if folder.is_file():
        return "It is a file. Name a run folder, such as runs/experiment."
    if inside := _runs_in(folder):
        return f"Name a run in it: {listed([str(run) for run in inside])}."
    beside = [] if folder.exists() else [run.name for run in _runs_in(folder.parent)]
    if near := difflib.get_close_matches(folder.name, beside, n=1):
        return f"Did you mean {folder.parent / near[0]}?"
    place = folder / "run" if unknown_files(folder) else folder
    return f"Create one: `loopmt train EXPERIMENT --run {place}`."


def _runs_in(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob("*/experiment.json"))


def _has_checksum(file: Path) -> bool:
    """Whether loopmt wrote the file, even if it is damaged. Other programs may use the same file names."""
    try:
        return "check" in read_json_object(file, "")
    except DamagedError:
        return False


def _is_our_lock(file: Path) -> bool:
    """Whether the file holds a process id, or nothing yet."""
    if not has_file(file):
        return False
    with reading(file) as stream:
        content = stream.read(_NAME)
    return content.strip().isdigit() or not content
