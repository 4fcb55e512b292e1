"""References of an experiment to its files, and the rows behind them.

`PREFIX` stands for PREFIX.LANG with an optional .gz, .xz or .zst; `PREFIX[from:to]` for some of its rows; a name
with the ending of a format (`loopmt.text.formats`, compressed or not) for one file with all the languages.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from loopmt.config import Data
from loopmt.errors import DataError, listed
from loopmt.files.regular import has_given_file
from loopmt.languages import meant_language
from loopmt.text.compressed import ENDINGS
from loopmt.text.files import HashedFile
from loopmt.text.format import FORMATS, CorpusFile, Row
from loopmt.text.formats import endings, format_of, without_compression

_REFERENCE = re.compile(r"(?P<name>.*?)(?:\[(?P<start>\d*):(?P<stop>\d*)\])?", re.DOTALL)
DEFAULT = Data()
BLOCK_ROWS = 4096
BLOCK_BYTES = 2**22


@dataclass(frozen=True)
class Source:
    """One reference with its files (one per language, or one for all) and its range of rows."""

    reference: str
    format: str
    languages: tuple[str, ...]
    files: tuple[Path, ...]
    start: int = 0
    stop: int | None = None
    keys: Mapping[str, str] = field(default_factory=dict)  # names of columns by language


@dataclass(frozen=True)
class LineBlock:
    r"""Consecutive rows of one corpus, each side joined by \n; `first` and `files` give their origin."""

    corpus: int
    languages: tuple[str, ...]
    sides: Row
    first: int
    files: tuple[str, ...]

    def texts(self) -> list[list[str]]:
        return [self._decoded(side).split("\n") for side in range(len(self.sides))]

    def _decoded(self, side: int) -> str:
        try:
            return self.sides[side].decode()
        except UnicodeDecodeError as error:
            file = self.files[min(side, len(self.files) - 1)]
            line = self.first + self.sides[side].count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{file}, line {line} is not UTF-8 (byte 0x{self.sides[side][error.start]:02x}). "
                "Convert the file, for example with iconv, or remove the line."
            ) from None


# -- which files ---------------------------------------------------------------------------------------------


def resolve(reference: str, root: Path, languages: Sequence[str], data: Data = DEFAULT) -> Source:
    """The files of a reference for all of these languages."""
    name, start, stop = _parse(reference)
    if format := format_of(name, data):
        if not has_given_file(root / name):
            raise DataError(f"{root / name} does not exist. {_present(root, name)}")
        return Source(reference, format, tuple(languages), (root / name,), start, stop, data.keys)
    files = tuple(_find_or_raise(root, name, language, languages, data) for language in languages)
    return Source(reference, "text", tuple(languages), files, start, stop)


def resolve_set(reference: str, root: Path, languages: Sequence[str], data: Data = DEFAULT) -> Source:
    """The files of a multi-way set: those of the languages that have one."""
    name, _, _ = _parse(reference)
    if format_of(name, data):
        return resolve(reference, root, languages, data)
    present = [language for language in languages if _find(root, name, language)]
    return resolve(reference, root, present or languages, data)


def _parse(reference: str) -> tuple[str, int, int | None]:
    match = _REFERENCE.fullmatch(reference)
    assert match is not None
    start, stop = int(match["start"] or 0), int(match["stop"]) if match["stop"] else None
    if stop is not None and stop <= start:
        raise DataError(f"'{reference}' means no row: write [from:to] with from below to, counted from 0.")
    return match["name"], start, stop


def _find(root: Path, name: str, language: str) -> Path | None:
    candidates = [root / f"{name}.{language}{ending}" for ending in ENDINGS]
    present = [path for path in candidates if has_given_file(path)]
    if len(present) > 1:
        raise DataError(f"{' and '.join(map(str, present))} both exist: remove all but one.")
    return present[0] if present else None


def _find_or_raise(root: Path, name: str, language: str, languages: Sequence[str], data: Data) -> Path:
    file = _find(root, name, language)
    if file is None and (root / name).is_file():
        raise DataError(f"{root / name} is a file, and no format has its ending. {_way_out(name, languages, data)}")
    if file is None:
        where = f"there is no {root / name}.{language} (nor .gz, .xz, .zst). {_present(root, name)}"
        raise DataError(where + _other_code(root, name, language))
    return file


def _way_out(name: str, languages: Sequence[str], data: Data) -> str:
    """The hint for a file that was named where a prefix is needed."""
    prefix, _, ending = without_compression(name).rpartition(".")
    if prefix and ending in languages:
        return f'Name plain text by its prefix, "{prefix}": the language is added to it.'
    known = f"Endings that are known: {', '.join(endings(data))}; plain text is PREFIX.LANG, named by its prefix."
    shown = f".{ending}" if prefix else ".ENDING"
    return f'{known} Rename the file, or give the format in [data]: formats = {{ "{shown}" = "FORMAT" }}.'


def _present(root: Path, name: str) -> str:
    folder, start = (root / name).parent, Path(name).name
    if not folder.is_dir():
        return f"The folder {folder} does not exist either. {_beginning(root)}"
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    similar = [one for one in files if one.startswith(start)]
    names = listed(similar or files) or "nothing"
    if similar:
        return f"With that prefix there is: {names}."
    return f"In {folder} there is: {names}. {_beginning(root)}"


def _other_code(root: Path, name: str, language: str) -> str:
    """The hint if the language's file exists under another code of the language."""
    start = f"{Path(name).name}."
    files = [without_compression(file.name) for file in (root / name).parent.glob("*.*")]
    near = meant_language(language, (file.removeprefix(start) for file in files if file.startswith(start)))
    return f" If {near} is the language, write {near} instead of {language} in `languages`." if near else ""


def _beginning(root: Path) -> str:
    return f"Names begin at {root}: that is data.root, or the experiment file's folder where it is not set."


# -- which rows ----------------------------------------------------------------------------------------------


class CorpusReader:
    """One pass over a source. Iterating yields its rows; afterwards the sizes and hashes of its files are known."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rows = 0
        self._format = FORMATS.find(source.format)
        self._raw: list[HashedFile] = []
        self._stack = ExitStack()

    def __enter__(self) -> CorpusReader:
        self._raw = [self._stack.enter_context(HashedFile(path)) for path in self.source.files]
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def consumed(self) -> int:
        return sum(raw.consumed for raw in self._raw)

    def hashes(self) -> dict[Path, str]:
        return {raw.path: raw.sha256() for raw in self._raw}

    def __iter__(self) -> Iterator[Row]:
        source = self.source
        for row in itertools.islice(self._all_rows(), source.start, source.stop):
            self.rows += 1
            yield row
        wanted = None if source.stop is None else source.stop - source.start
        if self.rows == 0 or (wanted is not None and self.rows < wanted):
            raise DataError(self._too_short())

    def _too_short(self) -> str:
        source = self.source
        names = " and ".join(map(str, source.files))
        if source.start == 0 and source.stop is None:
            return f"{names}: no rows; the file is empty."
        return f"'{source.reference}': the rows of {names} end before that; {self.rows} of them are in the range."

    def _all_rows(self) -> Iterator[Row]:
        languages, files = self.source.languages, [CorpusFile(raw, self.source.keys) for raw in self._raw]
        if len(files) == 1:
            yield from self._format.rows(files[0], languages)
            return
        rows = [self._format.rows(file, [language]) for file, language in zip(files, languages, strict=True)]
        columns = [map(itemgetter(0), column) for column in rows]
        for number, row in enumerate(itertools.zip_longest(*columns)):
            if None in row:
                raise DataError(self._uneven(number, row, columns))
            yield row

    def _uneven(self, number: int, row: Sequence[bytes | None], columns: Sequence[Iterator[bytes]]) -> str:
        rests = [0 if text is None else 1 + sum(1 for _ in column) for text, column in zip(row, columns, strict=True)]
        counts = [f"{raw.path} has {number + rest} lines" for raw, rest in zip(self._raw, rests, strict=True)]
        return f"{', '.join(counts)}: line {number + 1} has no counterpart. Lines must be translations of each other."


def blocks(reading: CorpusReader, corpus: int) -> Iterator[LineBlock]:
    """The rows in blocks of bounded size."""
    source = reading.source
    return grouped(reading, corpus, source.languages, source.start, tuple(map(str, source.files)))


def grouped(
    rows: Iterable[Row], corpus: int, languages: tuple[str, ...], first: int, files: tuple[str, ...]
) -> Iterator[LineBlock]:
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(map(len, row))
        if len(group) == BLOCK_ROWS or size >= BLOCK_BYTES:
            yield LineBlock(corpus, languages, _joined(group), first, files)
            first, group, size = first + len(group), [], 0
    if group:
        yield LineBlock(corpus, languages, _joined(group), first, files)


def _joined(rows: list[Row]) -> Row:
    return tuple(map(b"\n".join, zip(*rows, strict=True)))
