"""`loopmt fetch`: downloads a public corpus, unpacks it, and assigns its rows by seed to the files of an experiment."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loopmt.errors import DataError, listed
from loopmt.files.documents import parse_json
from loopmt.files.regular import read_given_text, reading_given
from loopmt.progress import Progress
from loopmt.run import Json, write_json
from loopmt.text.archives import check_text, unpack
from loopmt.text.corpus import Source
from loopmt.text.download import PATIENT, RetryPolicy, UnreachableError, download, local_name
from loopmt.text.recipes import Recipe, RecipePart, RecipeSide, Remote
from loopmt.text.sampling import deal, join

RECORD = "fetched.json"


@dataclass(frozen=True)
class FetchOptions:
    """What to fetch, and where to; `scale` multiplies every number of rows of the recipe."""

    recipe: Recipe
    folder: Path | None = None
    seed: int = 1
    scale: float = 1.0
    mirror: str | None = None
    patience: RetryPolicy = PATIENT

    def settings(self) -> Json:
        return {"seed": self.seed, "scale": self.scale}


@dataclass(frozen=True)
class Fetched:
    """The files with their rows; `fresh` is false if they existed before."""

    folder: Path
    rows: dict[str, int]
    fresh: bool


def fetch(options: FetchOptions, progress: Progress) -> Fetched:
    """Do the missing steps. The record is written last, so if it exists, everything does."""
    wanted = options.recipe
    folder = options.folder or Path("corpora") / wanted.folder
    record = _record(options, folder)
    if record is not None:
        _check_fetched(options.recipe, record["files"], folder)
        return Fetched(folder, record["rows"], False)
    _refuse_unknown_files(folder)
    files = _download(options, folder / "downloads", progress)
    rows: dict[str, int] = {}
    with _scratch(folder / "draft") as draft:
        for part in wanted.parts:
            rows |= _make(part, files, draft, options, progress)
        for file in sorted(draft.iterdir()):
            file.replace(folder / file.name)
    own = {**options.settings(), "rows": rows, "files": _seen(files, progress)}
    write_json(folder / RECORD, {**_records(folder), wanted.name: own})
    return Fetched(folder, rows, True)


def _refuse_unknown_files(folder: Path) -> None:
    """Refuse a folder with the user's own files; a folder of `fetch` has downloads or their record."""
    begun = not folder.exists() or (folder / "downloads").is_dir() or (folder / RECORD).exists()
    if not begun and (found := sorted(entry.name for entry in folder.iterdir())):
        raise DataError(f"{folder} holds files that were not fetched: {listed(found)}. Name another folder with --out.")


def _download(options: FetchOptions, folder: Path, progress: Progress) -> dict[Remote, Path]:
    """Download every file of the recipe; without a network, one error lists all missing files."""
    remotes = options.recipe.remotes()
    try:
        return {remote: download(remote, folder, progress, options.mirror, options.patience) for remote in remotes}
    except UnreachableError as error:
        missing = [remote for remote in remotes if not (folder / local_name(remote)).exists()]
        places = "".join(f"\n  {remote.address} at {folder / local_name(remote)}" for remote in missing)
        raise DataError(f"{error} {len(missing)} of {len(remotes)} files are missing:{places}") from None


def _records(folder: Path) -> Json:
    """The records of earlier fetches in a folder, by recipe."""
    file = folder / RECORD
    if not file.exists():
        return {}
    try:
        records: Json = parse_json(read_given_text(file))
        return dict(records)
    except (ValueError, TypeError):
        raise DataError(f"{file} is not what `loopmt fetch` wrote. Remove it; the downloads are kept.") from None


def _record(options: FetchOptions, folder: Path) -> Json | None:
    record: Json | None = _records(folder).get(options.recipe.name)
    if not isinstance(record, dict) or not {"rows", "files"} <= record.keys():
        return None
    unlike = [f"{key} {record.get(key)}" for key, value in options.settings().items() if record.get(key) != value]
    if unlike:
        raise DataError(
            f"{folder} holds {options.recipe.name} fetched with {', '.join(unlike)}. Name another folder with --out, "
            f"or remove {folder / RECORD} to write over it (the downloads are kept)."
        )
    whole = {remote.address for remote in options.recipe.remotes()} <= set(record["files"])  # recipes grow
    return record if whole and all((folder / name).exists() for name in record["rows"]) else None


def _check_fetched(recipe: Recipe, seen: Json, folder: Path) -> None:
    """Check that earlier downloads have the checksums that are expected now, even if the files were deleted."""
    for remote in recipe.remotes():
        found = f"sha256:{seen[remote.address]['sha256']}"
        if (remote.checksum or "").startswith("sha256:") and found != remote.checksum:
            raise DataError(
                f"{folder} was made from {remote.address} with the {found.replace(':', ' ')}, and {remote.checksum} is "
                "expected. Name another folder with --out to fetch it again."
            )


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _make(
    part: RecipePart, files: dict[Remote, Path], draft: Path, options: FetchOptions, progress: Progress
) -> dict[str, int]:
    with _scratch(draft.with_name("unpacked")) as folder:
        sources = [
            _source(piece, files, folder / str(number), progress, part) for number, piece in enumerate(part.pieces)
        ]
        if part.through:
            sources = [join(part, sources, folder, options.seed)]
        return deal(part, sources, draft, options.seed, options.scale, progress)


def _source(
    piece: dict[str, RecipeSide], files: dict[Remote, Path], folder: Path, progress: Progress, part: RecipePart
) -> Source:
    """A piece as columns: the downloads themselves, or unpacked members of an archive."""
    folder.mkdir()
    paths: dict[str, Path] = {}
    wanted: dict[Path, dict[str, Path]] = {}
    for language, side in piece.items():
        archive = files[side.remote]
        paths[language] = archive if side.member is None else folder / f"text.{language}"
        if side.member is None:
            check_text(archive)
        else:
            wanted.setdefault(archive, {})[side.member] = paths[language]
    for archive, members in wanted.items():
        with progress.track(f"{part.name}: unpacking {archive.name}"):
            unpack(archive, members)
    ordered = [language for language in part.languages if language in paths]
    return Source(part.name, "text", tuple(ordered), tuple(paths[language] for language in ordered))


def _seen(files: dict[Remote, Path], progress: Progress) -> Json:
    with progress.track("checksums", len(files)) as advance:
        seen: Json = {}
        for remote, file in files.items():
            known = remote.checksum is not None
            with reading_given(file) as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            seen[remote.address] = {"bytes": file.stat().st_size, "sha256": sha256, "checked": known}
            advance(1)
        return seen
