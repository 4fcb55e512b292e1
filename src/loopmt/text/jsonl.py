"""JSON Lines: an object a line, whose keys name the languages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from loopmt.errors import DataError
from loopmt.files.documents import parse_json
from loopmt.text.columns import candidates, missing, place_of, text_of
from loopmt.text.format import CorpusFile, Row, corpus_format


@corpus_format("jsonl", ending=".jsonl")
def json_lines(file: CorpusFile, languages: Sequence[str]) -> Iterator[Row]:
    """Keys are language codes, also within "translation"; `data.keys` names others. Empty lines are skipped."""
    names = {language: candidates(file, language, languages) for language in languages}
    for number, line in enumerate(file.lines(), 1):
        if line.strip():
            where = f"{file.path}, line {number}"
            columns = _columns(line, where)
            yield tuple(_text(columns, where, language, tried) for language, tried in names.items())


def _text(columns: dict[str, Any], where: str, language: str, names: Sequence[str]) -> bytes:
    place = place_of(names, columns)
    if place is None:
        raise missing(where, language, names, columns)
    value = columns[place[0]] if len(place) == 1 else columns[place[0]][place[1]]
    return text_of(value, place, where)


def _columns(line: str, where: str) -> dict[str, Any]:
    try:
        found = parse_json(line, not_finite=float)  # in columns that are not read
    except json.JSONDecodeError as error:
        raise DataError(
            f"{where} is not JSON: {error.msg} at column {error.colno}. Write one object a line; is the file cut off?"
        ) from None
    except ValueError as error:
        raise DataError(f"{where} is not JSON that can be read: {error}.") from None
    if not isinstance(found, dict):
        raise DataError(f'{where} is no JSON object. Write one with a key for each language, as in {{"en": "Hello"}}.')
    return found
