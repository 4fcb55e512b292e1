"""Folders that are created atomically."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from loopmt.errors import LockedError, RunError
from loopmt.files.lock import locked

_DRAFT = ".draft."


@contextmanager
def appearing(out: Path) -> Iterator[Path]:
    """A draft folder that becomes `out` on success and is deleted on failure.

    An existing empty folder is filled, not replaced: it may be the current folder of a shell.
    """
    _remove_dead_drafts(out)
    _refuse_content(out)
    filled = out.exists()
    draft = _place(out) / f"{_prefix(out)}{uuid4().hex[:12]}"
    content = draft / "content"  # beside the lock
    try:
        content.mkdir(parents=True)
        with locked(draft):
            yield content
            _refuse_content(out, draft.name)  # a draft of another process
            if filled:
                _move(content, out)
            else:
                content.rename(out)
    except OSError as error:
        raise RunError(f"{out} could not be written: {error}.") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_content(out: Path, but: str = "") -> None:
    if os.path.lexists(out) and (not out.is_dir() or any(entry.name != but for entry in out.iterdir())):
        raise RunError(f"{out} exists already. Choose another folder, or delete it.")


def _place(out: Path) -> Path:
    return out if out.is_dir() else out.parent


def _prefix(out: Path) -> str:
    return _DRAFT if out.is_dir() else f".{out.name}{_DRAFT}"


def _remove_dead_drafts(out: Path) -> None:
    """Delete drafts of killed processes; no process holds their lock."""
    place, prefix = _place(out), _prefix(out)
    for draft in list(place.iterdir()) if place.is_dir() else ():
        if draft.name.startswith(prefix) and (draft / ".lock").is_file() and not draft.is_symlink():
            with suppress(LockedError, RunError), locked(draft):
                shutil.rmtree(draft, ignore_errors=True)


def _move(folder: Path, out: Path) -> None:
    for entry in list(folder.iterdir()):
        entry.rename(out / entry.name)
