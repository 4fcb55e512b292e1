"""Archives of a run from a borrowed machine: all translations and measurements, without training text and weights.

    python -m benchmarks.bundle RUN run.tar.xz loops.tar.xz

unpacks them into a folder on which evaluate, plan, analyze and report work as on the original run, as long as they need
only translations that were decoded there (`benchmarks.decoding`).
"""

from __future__ import annotations

import argparse
import lzma
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

from loopmt.run import read_json

_PRESET = 2  # of xz: a window of 2 MB
_HEAVY = {"vocab", "corpora", "checkpoints"}
_HEAVY_FILES = {".tokens", ".offsets", ".safetensors"}


def pack(run: Path, out: Path) -> None:
    """Pack the run into run.tar.xz, and the translations along loops into loops.tar.xz."""
    files = [file.relative_to(run) for file in run.rglob("*") if file.is_file()] if run.is_dir() else []
    light = [file for file in files if _light(file)]
    _archive(run, [file for file in light if file.parts[0] != "analysis"], out / "run.tar.xz")
    _archive(run, [file for file in light if file.parts[0] == "analysis"], out / "loops.tar.xz")


def _light(file: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.parts)
    return not hidden and _HEAVY.isdisjoint(file.parts) and file.suffix not in _HEAVY_FILES


def _archive(run: Path, files: Sequence[Path], archive: Path) -> None:
    """Archive files so that translations of the same text are adjacent, which compress well."""
    draft = archive.with_name(f".{archive.name}")
    with lzma.open(draft, "wb", preset=_PRESET) as stream, tarfile.open(fileobj=stream, mode="w") as packed:
        for file in sorted(files, key=lambda file: (file.name, file)):
            packed.add(run / file, file)
    draft.replace(archive)


def unpack(run: Path, archives: Sequence[Path]) -> None:
    """Unpack archives and create an empty store: evaluation needs only the sizes of the training text."""
    for archive in archives:
        with tarfile.open(archive) as packed:
            # Python before 3.11.4 has no extraction filters; this follows the library's manual.
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            packed.extractall(run)
    for name, file in read_json(run / "store/store.json")["files"].items():
        if not (run / "store" / name).exists():
            with (run / "store" / name).open("wb") as hole:
                os.truncate(hole.fileno(), file["size"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("archives", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    unpack(options.run, options.archives)


if __name__ == "__main__":
    main()
