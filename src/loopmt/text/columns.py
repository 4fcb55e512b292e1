"""Columns with names, as rows of JSON Lines and Parquet have: which column holds the text of a language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loopmt.errors import DataError, listed
from loopmt.text.format import CorpusFile, encoded

NESTED = "translation"
"""The column that may hold the texts by language, as in datasets of Hugging Face."""
_ALONE = "text"  # the column of monolingual text, if none is called as the language
_SHOWN = 40  # characters of a name in an error


def candidates(file: CorpusFile, language: str, languages: Sequence[str]) -> list[str]:
    """The possible names of a language's column, in the order in which they are tried."""
    names = [file.keys[language]] if language in file.keys else []
    return list(dict.fromkeys([*names, language, *([_ALONE] if len(languages) == 1 else [])]))


def place_of(names: Sequence[str], columns: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The place of a language's text: a column, or a column within `translation`. None if there is neither."""
    nested = columns.get(NESTED)
    for within, place in ((columns, ()), (nested if isinstance(nested, Mapping) else {}, (NESTED,))):
        for name in names:
            if name in within and not (name == NESTED and isinstance(within[name], Mapping)):
                return (*place, name)
    return None


def missing(where: str, language: str, names: Sequence[str], columns: Mapping[str, Any]) -> DataError:
    """The error that a language has no column."""
    there = [*_names(columns)]
    if isinstance(columns.get(NESTED), Mapping):
        there = [name for name in there if name != NESTED] + [f"{NESTED}.{name}" for name in _names(columns[NESTED])]
    tried = " or ".join(f'"{_short(name)}"' for name in names)
    return DataError(
        f"{where} has no key {tried} for the language {language}; its keys are: {listed(there) or 'none'}. "
        f'Name the key in [data]: keys = {{ {language} = "KEY" }}.'
    )


def text_of(value: Any, place: Sequence[str], where: str) -> bytes:
    """The text at that place of a row."""
    where = f'{where}, key "{".".join(map(_short, place))}"'
    if not isinstance(value, str):
        raise DataError(f"{where} is {_kind(value)}, not a string. Correct or remove the row.")
    return encoded(value, where)


def _names(columns: Iterable[str]) -> list[str]:
    return [_short(name) for name in columns]


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return "null" if value is None else kinds.get(type(value), "something else")
