"""Somebody's own files in a folder that is asked to be a run: they are told, and never written over."""

from __future__ import annotations

import difflib
from pathlib import Path

from loopmt.errors import DamagedError, listed
from loopmt.files.checksums import read_json_object
from loopmt.files.regular import has_file, reading

_NAME = 100  # bytes that may name a process
_SEALED = ("experiment.json", "origin.json", "manifest.json")
# What a run may hold before these three.
_FIRST = {".lock", "imported", "pretrained", "stages", "prepare.tmp", "corpora", "vocab", "store"}


def foreign_files(folder: Path) -> list[str]:
    """What lies in a folder that no run of ours put there; nothing if the folder is a run, or one just begun."""
    if not folder.is_dir() or any(_is_sealed(folder / name) for name in _SEALED):
        return []
    ours = _FIRST if _is_our_lock(folder / ".lock") else {"imported"}  # an import alone takes no lock
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in ours)


def suggest_run(folder: Path) -> str:
    """What to name where a run was asked for."""
    if folder.is_file():
        return "It is a file: name the folder of a run, such as runs/experiment."
    if inside := _runs_in(folder):
        return f"Name one of the runs in it: {listed([str(run) for run in inside])}."
    beside = [] if folder.exists() else [run.name for run in _runs_in(folder.parent)]
    if near := difflib.get_close_matches(folder.name, beside, n=1):
        return f"Did you mean {folder.parent / near[0]}?"
    place = folder / "run" if foreign_files(folder) else folder
    return f"Make one: `loopmt train EXPERIMENT --run {place}`."


def _runs_in(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob("*/experiment.json"))


def _is_sealed(file: Path) -> bool:
    """A damaged seal is ours too; other programs have files of these names."""
    try:
        return "check" in read_json_object(file, "")
    except DamagedError:
        return False


def _is_our_lock(file: Path) -> bool:
    """It names a process, or nobody yet."""
    if not has_file(file):
        return False
    with reading(file) as stream:
        content = stream.read(_NAME)
    return content.strip().isdigit() or not content
