"""The definition of a corpus format: a function that reads a file of that format.

A reader takes a file and the wanted languages, and yields rows: a sentence for each language. Readers of other modules
yield strings; readers of loopmt yield UTF-8.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from loopmt.errors import DataError, ExternalError
from loopmt.external import explained
from loopmt.files.regular import reading_given
from loopmt.registry import Registry
from loopmt.text.files import MAX_LINE, HashedFile, decoded, lines

Row = tuple[bytes, ...]


@dataclass(frozen=True)
class CorpusFile:
    """A file to read: plain, .gz, .xz or .zst."""

    raw: HashedFile
    keys: Mapping[str, str] = field(default_factory=dict)
    """The names of columns by language, where they are set (`data.keys`)."""

    @property
    def path(self) -> Path:
        return self.raw.path

    def lines(self) -> Iterator[str]:
        """Lines of UTF-8 without their ends; an error names the file and the line."""
        return decoded(lines(self.raw), str(self.path))

    def byte_lines(self) -> Iterator[bytes]:
        return lines(self.raw)

    def content(self) -> IO[bytes]:
        """The unpacked bytes. Read them within `damage_named(file.path)`, which explains what is damaged."""
        return self.raw.content()

    def opened(self) -> IO[bytes]:
        """A second, seekable handle of the file on disk."""
        return reading_given(self.path)


@dataclass(frozen=True)
class Format:
    """A reader with the properties of its format."""

    name: str
    function: Callable[[CorpusFile, Sequence[str]], Iterable[Any]]
    ending: str | None = None  # None: files of this format have none of their own

    def rows(self, file: CorpusFile, languages: Sequence[str]) -> Iterator[Row]:
        """The sentences of these languages, row after row."""
        found = self.function(file, languages)
        ours = getattr(self.function, "__module__", "").startswith("loopmt.")
        return iter(found) if ours else self._checked(found, file, languages)

    def _checked(self, found: Iterable[Any], file: CorpusFile, languages: Sequence[str]) -> Iterator[Row]:
        what = f'corpus format "{self.name}", {file.path}'
        step, rows = explained(next, what), explained(iter, what)(found)
        end = object()
        for number in itertools.count(1):
            if (row := step(rows, end)) is end:
                return
            yield self._row(row, f"{what}, row {number}", languages)

    def _row(self, row: Any, where: str, languages: Sequence[str]) -> Row:
        texts = (row,) if isinstance(row, str) else row
        fits = isinstance(texts, tuple | list) and len(texts) == len(languages)
        if not fits or not all(isinstance(text, str) for text in texts):
            raise ExternalError(
                f"{where}: the reader gave {f'{row!r}'[:80]}. Yield a tuple with a string for each of the languages "
                f"{', '.join(languages)}."
            )
        return tuple(encoded(text, where) for text in texts)


FORMATS: Registry[Format] = Registry("corpus format", Format)
corpus_format = FORMATS.register


def encoded(text: str, where: str) -> bytes:
    """A sentence of a row as one line of UTF-8 of bounded length."""
    try:
        line = text.replace("\n", " ").encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise DataError(f"{where} has half a character ({half}). Correct or remove it.") from None
    if len(line) >= MAX_LINE:
        raise DataError(f"{where} is longer than {MAX_LINE >> 20} MiB: is this a sentence?")
    return line
