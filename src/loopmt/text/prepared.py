"""The prepared part of a run's folder: is it there, is it what would be prepared now, and how it is put there."""

from __future__ import annotations

import errno
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopmt.config import Data
from loopmt.config import Vocab as VocabConfig
from loopmt.errors import DamagedError, DataError, RunError
from loopmt.text.files import HashedFile
from loopmt.text.inputs import Inputs
from loopmt.text.manifest import FileRecord, Manifest
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab

_FORMAT = 1
_SCRATCH = "prepare.tmp"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def settings_of(data: Data, vocab: VocabConfig, languages: Sequence[str], seed: int) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "languages": list(languages),
        "seed": seed,
        "data": data.model_dump(mode="json", exclude_defaults=True),
        "vocab": vocab.model_dump(mode="json", exclude_defaults=True),
    }


def prepared(
    run_folder: Path,
    settings: dict[str, Any],
    data: Data,
    root: Path,
    languages: Sequence[str],
    say: Callable[[str], None] = lambda line: None,
) -> Manifest | None:
    """The manifest, if what it describes is there and is what would be prepared now; if not so, `say` hears why."""
    trained = (run_folder / "stages").exists()
    try:
        manifest = Manifest.load(run_folder / "manifest.json")
    except DamagedError:
        if trained and (run_folder / "manifest.json").exists():
            raise
        return None
    changes = [*_differences(manifest.settings, settings)] or _changed_files(manifest, data, root, languages)
    if not changes:
        return manifest if _whole(run_folder) else None
    if trained:
        raise RunError(
            f"{run_folder} holds stages trained on other data: {'; '.join(changes[:5])}. "
            "Change it back, or give another folder with --run."
        )
    say(f"{run_folder} was prepared otherwise: {'; '.join(changes[:5])}. It is prepared again.")
    return None


def _whole(run_folder: Path) -> bool:
    """Nothing is trained on text or subwords that changed on the disk."""
    try:
        Vocab.load(run_folder / "vocab")
        Store.open(run_folder / "store").verify()
    except DamagedError as error:
        if (run_folder / "vocab").exists() and (run_folder / "store").exists():
            warnings.warn(f"{error}", stacklevel=2)
        return False
    return True


def _differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}".lstrip("."))
    elif old != new:
        shown = ["the default" if value is None else f"{value}" for value in (old, new)]
        yield f"{key} was {shown[0]} and is {shown[1]}"


def _changed_files(manifest: Manifest, data: Data, root: Path, languages: Sequence[str]) -> list[str]:
    """A file that has gone since cannot have changed: a run is complete without its raw text."""
    known = {record.name: record for record in manifest.files}
    try:
        files = Inputs(data, root, languages).files()
    except DataError:
        files = {name: root / name for name in known if (root / name).is_file()}
    added = [f"{name} is new" for name in files if name not in known]
    return added + [f"{name} has changed" for name in files if name in known and _changed(files[name], known[name])]


def _changed(path: Path, record: FileRecord) -> bool:
    state = path.stat()
    if state.st_size != record.size:
        return True
    if state.st_mtime_ns == record.mtime_ns:
        return False
    with HashedFile(path) as file:
        return file.sha256() != record.sha256


@contextmanager
def scratch_folder(run_folder: Path) -> Iterator[Path]:
    """A folder that is gone afterwards, whatever happens."""
    scratch = run_folder / _SCRATCH
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        yield scratch
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise RunError(f"{run_folder} cannot be written: {error}.") from error
        raise RunError(
            f"no room left on the disk of {run_folder} ({error.strerror}); what was half written is removed. "
            "Make room for about four times the size of the text, or give another folder with --run."
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def install(scratch: Path, run_folder: Path) -> None:
    """The manifest goes first and comes last: while it is missing, nothing is prepared."""
    (run_folder / "manifest.json").unlink(missing_ok=True)
    for name in ("vocab", "store"):
        shutil.rmtree(run_folder / name, ignore_errors=True)
        (scratch / name).rename(run_folder / name)
    (scratch / "manifest.json").rename(run_folder / "manifest.json")
