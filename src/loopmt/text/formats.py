"""The built-in corpus formats and their file endings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import loopmt.text.jsonl
import loopmt.text.parquet
import loopmt.text.tmx  # noqa: F401
from loopmt.config import Data
from loopmt.errors import DataError
from loopmt.text.compressed import ENDINGS
from loopmt.text.format import FORMATS, CorpusFile, Row, corpus_format


@corpus_format("text")
def plain_text(file: CorpusFile, languages: Sequence[str]) -> Iterator[Row]:
    """One sentence a line, a file for each language."""
    if len(languages) > 1:
        raise DataError(
            f"{file.path} is plain text, which has one language, and {len(languages)} are wanted of it "
            f"({', '.join(languages)}). Give a file of each language by their common prefix."
        )
    return zip(file.byte_lines(), strict=True)


@corpus_format("tsv", ending=".tsv")
def tab_separated(file: CorpusFile, languages: Sequence[str]) -> Iterator[Row]:
    """A column for each language, in the order of the requested languages."""
    for number, line in enumerate(file.byte_lines(), 1):
        row = tuple(line.split(b"\t"))
        if len(row) != len(languages):
            raise DataError(
                f"{file.path}, line {number} has {len(row)} columns; "
                f"{len(languages)} are expected ({', '.join(languages)}), separated by tabs."
            )
        yield row


# -- endings -------------------------------------------------------------------------------------------------


def endings(data: Data) -> dict[str, str]:
    """The format of each ending of a file's name, without that of a compressed file."""
    known = {name: FORMATS.find(name).ending for name in FORMATS}
    return {ending: name for name, ending in known.items() if ending} | dict(data.formats)


def format_of(name: str, data: Data) -> str | None:
    """The format that a file's name ends with; None if it is a prefix."""
    plain = without_compression(name.lower())
    known = {ending.lower(): format for ending, format in endings(data).items()}
    fitting = [ending for ending in known if plain.endswith(ending)]
    return known[max(fitting, key=len)] if fitting else None


def without_compression(name: str) -> str:
    """A file's name without .gz, .xz or .zst."""
    return next((name.removesuffix(ending) for ending in ENDINGS[1:] if name.endswith(ending)), name)
