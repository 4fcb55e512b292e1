"""A bounded sample of the rows of a source, taken while they are read: pieces of neighbouring rows, spread evenly."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from loopmt.text.corpus import LineBlock, Source

PIECE = 128  # neighbouring rows
_PIECES = 16
_LONGEST = 400  # characters of a line that are looked at

Rows = list[tuple[str, ...]]


@dataclass
class LineSample:
    """Up to 2,048 rows of one source. Which ones depends only on the number of rows."""

    kind: str  # bitext, mono, valid or test
    name: str  # of the corpus or the set
    source: Source
    _pieces: dict[int, Rows] = field(default_factory=dict)
    _stride: int = 1

    @property
    def languages(self) -> tuple[str, ...]:
        return self.source.languages

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name}" if self.name != self.kind else self.kind

    def add(self, block: LineBlock) -> None:
        """The next rows; only those of wanted pieces are decoded."""
        first = block.first - self.source.start
        count = block.sides[0].count(b"\n") + 1
        wanted = [
            piece for piece in range(first // PIECE, (first + count - 1) // PIECE + 1) if not piece % self._stride
        ]
        if not wanted:
            return
        columns = [side.split(b"\n") for side in block.sides]
        for piece in wanted:
            begin, end = max(0, piece * PIECE - first), (piece + 1) * PIECE - first
            rows = zip(*(map(_readable, column[begin:end]) for column in columns), strict=True)
            self._pieces.setdefault(piece, []).extend(rows)
        while len(self._pieces) > _PIECES:
            self._stride *= 2
            self._pieces = {piece: rows for piece, rows in self._pieces.items() if not piece % self._stride}

    def rows(self) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """The sampled rows in order: the piece, the line in the file counted from 1, and the text of each side."""
        for piece, rows in self._pieces.items():
            for place, row in enumerate(rows):
                yield piece, self.source.start + piece * PIECE + place + 1, row

    def file(self, language: str) -> str:
        """The file of a side; of a file that holds several languages, its column too."""
        if len(self.source.files) == 1 and len(self.languages) > 1:
            return f"{self.source.files[0]} ({language})"
        return str(self.source.files[self.languages.index(language)])


def _readable(line: bytes) -> str:
    """Bytes that are no UTF-8 are refused elsewhere."""
    text = line[: 4 * _LONGEST].decode(errors="replace")[:_LONGEST]
    return unicodedata.normalize("NFC", " ".join(text.split()))
