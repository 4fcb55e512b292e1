"""A cache of a service's answers in a file, so that no request is sent twice and a resumed run is identical.

The file has a line of JSON for each answer. Lines are only appended, while the file is locked, and the first answer to
a request counts, so several processes may use the file at the same time. Damaged lines are skipped.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

from loopmt.files.documents import json_text, parse_json
from loopmt.files.regular import appending, make_subfolder


class Answer(NamedTuple):
    """The answer's text, and whether it is complete."""

    text: str
    ended: bool


@dataclass(frozen=True)
class _Line:
    key: str
    text: str
    ended: bool


@dataclass
class AnswerFile:
    """A dictionary stored in a file: `find` reads it, `add` appends to it."""

    file: Path
    _known: dict[str, Answer] = field(default_factory=dict, repr=False)
    _read: int = 0  # bytes of the file that are in `_known`
    _lock: Lock = field(default_factory=Lock, repr=False)

    def find(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The answers that are known."""
        keys = list(keys)
        with self._lock:
            if any(key not in self._known for key in keys):
                with self._opened() as stream:
                    self._catch_up(stream)
        return {key: self._known[key] for key in keys if key in self._known}

    def add(self, key: str, answer: Answer) -> None:
        """Store an answer, unless another process has stored one meanwhile."""
        with self._lock, self._opened() as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)  # closing the file releases it
            torn = self._catch_up(stream)
            if key in self._known:
                return
            line = f"{json_text(asdict(_Line(key, *answer)))}\n".encode()
            stream.write(b"\n" * torn + line)
            stream.flush()
            self._known[key] = answer
            self._read = stream.tell()

    def sync(self) -> None:
        """Sync the file to disk, so that the answers survive a power failure."""
        with self._lock, self._opened() as stream:
            os.fsync(stream.fileno())

    def _opened(self) -> BinaryIO:
        make_subfolder(self.file.parent.parent, self.file.parent.name)
        return appending(self.file)

    def _catch_up(self, stream: BinaryIO) -> bool:
        """Read new lines. Return True if the last line is incomplete, such as one of a killed process."""
        stream.seek(self._read)
        rest = stream.read()
        whole = rest[: rest.rfind(b"\n") + 1]
        for line in whole.splitlines():
            if found := _parsed(line):
                self._known.setdefault(found.key, Answer(found.text, found.ended))
        self._read += len(whole)
        return len(whole) < len(rest)


def _parsed(line: bytes) -> _Line | None:
    try:
        found = _Line(**parse_json(line))
    except (ValueError, TypeError):
        return None
    kinds = (str, str, bool)
    return found if all(map(isinstance, (found.key, found.text, found.ended), kinds)) else None
