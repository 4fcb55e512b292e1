"""What a run takes home from a machine that is lent: all that was said and measured, no training text, no weights.

    python -m benchmarks.bundle RUN run.tar.xz loops.tar.xz

unpacks it into a folder that evaluate, plan, analyze and report judge as if it had never been away, as long as they ask
for nothing that was not decoded there (`benchmarks.decoding`).
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
    """The run in run.tar.xz, what was said on loops in loops.tar.xz."""
    files = [file.relative_to(run) for file in run.rglob("*") if file.is_file()] if run.is_dir() else []
    light = [file for file in files if _light(file)]
    _archive(run, [file for file in light if file.parts[0] != "analysis"], out / "run.tar.xz")
    _archive(run, [file for file in light if file.parts[0] == "analysis"], out / "loops.tar.xz")


def _light(file: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.parts)
    return not hidden and _HEAVY.isdisjoint(file.parts) and file.suffix not in _HEAVY_FILES


def _archive(run: Path, files: Sequence[Path], archive: Path) -> None:
    """What stages say of one text differs little: side by side it packs to a fraction."""
    draft = archive.with_name(f".{archive.name}")
    with lzma.open(draft, "wb", preset=_PRESET) as stream, tarfile.open(fileobj=stream, mode="w") as packed:
        for file in sorted(files, key=lambda file: (file.name, file)):
            packed.add(run / file, file)
    draft.replace(archive)


def unpack(run: Path, archives: Sequence[Path]) -> None:
    """Of the training text the run knows the size, and judging asks for no more."""
    for archive in archives:
        with tarfile.open(archive) as packed:
            # As the library's manual has it for Python before 3.11.4, which knows no filters.
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
