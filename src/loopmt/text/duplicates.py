"""Exact duplicates among any number of rows: hashes go to partitions on disk, and one partition at a time is sorted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loopmt.text.clean import Hashes

_PARTITIONS = 64
_RECORD = np.dtype([("hash", "<u8"), ("row", "<u8")])


class Partitions:
    """Equal hashes land in the same file, so each file can be judged alone."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._paths = [folder / f"{number:02d}" for number in range(_PARTITIONS)]
        self._stack = ExitStack()
        self._files = [self._stack.enter_context(path.open("wb")) for path in self._paths]
        self._rows = 0

    def __enter__(self) -> Partitions:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, hashes: Hashes) -> None:
        """The hashes of the next rows."""
        homes = hashes % np.uint64(_PARTITIONS)
        order = np.argsort(homes, kind="stable")
        records = np.empty(len(hashes), dtype=_RECORD)
        records["hash"] = hashes[order]
        records["row"] = order.astype(np.uint64) + np.uint64(self._rows)
        ends = np.cumsum(np.bincount(homes.astype(np.int64), minlength=_PARTITIONS))
        for file, part in zip(self._files, np.split(records, ends[:-1]), strict=True):
            file.write(part.tobytes())
        self._rows += len(hashes)

    def repeats(self) -> Iterator[npt.NDArray[np.uint64]]:
        """The rows that repeat an earlier one, partition by partition; the files are gone afterwards."""
        self._stack.close()
        for path in self._paths:
            records = np.fromfile(path, dtype=_RECORD)
            records = records[np.argsort(records["hash"], kind="stable")]
            again = records["hash"][1:] == records["hash"][:-1]
            yield records["row"][1:][again]
            path.unlink()
