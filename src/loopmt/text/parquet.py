"""Parquet: columns named by language, read a few rows at a time, with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from loopmt.errors import DataError, MissingExtraError
from loopmt.text.columns import NESTED, candidates, missing, place_of, text_of
from loopmt.text.compressed import ENDINGS
from loopmt.text.format import CorpusFile, Row, corpus_format

FOOTER = 2**26
"""Bytes of the description of the columns."""
_BATCH = 16  # rows
_BUFFER = 2**20


@corpus_format("parquet", ending=".parquet")
def parquet(file: CorpusFile, languages: Sequence[str]) -> Iterator[Row]:
    """Columns are found like the keys of JSON Lines."""
    _check_plain(file.path)
    with file.opened() as stream, _damage_named(file.path):
        _check_footer(stream, file.path)
        yield from _rows(stream, file, languages)


def _rows(stream: IO[bytes], file: CorpusFile, languages: Sequence[str]) -> Iterator[Row]:
    opened = _open(stream)
    columns = _columns(opened.schema_arrow)
    places = {language: _place(columns, file, language, languages) for language in languages}
    number = 0
    for batch in _batches(opened, [".".join(place) for place in places.values()]):
        file.raw.consumed = max(file.raw.consumed, stream.tell())
        found = [_values(batch, place) for place in places.values()]
        for values in zip(*found, strict=True):
            number += 1
            where = f"{file.path}, row {number}"
            yield tuple(text_of(one.as_py(), place, where) for one, place in zip(values, places.values(), strict=True))


def _open(stream: IO[bytes]) -> Any:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(stream, buffer_size=_BUFFER, pre_buffer=False, thrift_string_size_limit=FOOTER)


def _batches(opened: Any, columns: Sequence[str]) -> Iterator[Any]:
    """A few rows at a time, since a long text of a column's dictionary is repeated for each of its rows.

    Sizes of columns are not looked at before: pyarrow ends the process where they are damaged.
    """
    for group in range(opened.num_row_groups):
        yield from opened.iter_batches(_BATCH, row_groups=[group], columns=columns, use_threads=False)


def _values(batch: Any, place: Sequence[str]) -> Any:
    column = batch.column(place[0])
    return column.field(place[1]) if len(place) > 1 else column


def _columns(schema: Any) -> dict[str, Any]:
    """Names and types; of the column that has columns by language within it, theirs."""
    from pyarrow.types import is_struct

    within = {field.name: is_struct(field.type) and field.name == NESTED for field in schema}
    return {
        field.name: {inner.name: inner.type for inner in field.type} if within[field.name] else field.type
        for field in schema
    }


def _place(columns: Mapping[str, Any], file: CorpusFile, language: str, languages: Sequence[str]) -> tuple[str, ...]:
    names = candidates(file, language, languages)
    place = place_of(names, columns)
    if place is None:
        raise missing(f"{file.path}", language, names, columns)
    kind: Any = columns
    for name in place:
        kind = kind[name]
    if _type_of_values(kind) not in ("string", "large_string", "string_view"):
        shown = "a group of columns" if isinstance(kind, Mapping) else str(kind)
        raise DataError(f'{file.path}, key "{".".join(place)}" has the type {shown[:80]}, not string. Convert it.')
    return place


def _type_of_values(kind: Any) -> str:
    return str(getattr(kind, "value_type", kind) if str(kind).startswith("dictionary") else kind)


# -- limits --------------------------------------------------------------------------------------------------


def _check_plain(path: Path) -> None:
    if path.suffix in ENDINGS[1:]:
        raise DataError(f"{path}: Parquet is compressed inside and is read in parts. Unpack the file {path.suffix}.")


def _check_footer(stream: IO[bytes], path: Path) -> None:
    if not stream.seekable():
        raise DataError(f"{path} is a pipe, and Parquet is read in parts. Write it into a file first.")
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    if end[4:] != b"PAR1":
        raise DataError(f"{path} is not Parquet, or it is cut off: it does not end with PAR1.")
    if int.from_bytes(end[:4], "little") > min(FOOTER, size):
        raise DataError(f"{path} is damaged, or its footer is larger than {FOOTER >> 20} MiB.")
    stream.seek(0)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn errors of pyarrow into an error that names the damaged file."""
    try:
        from pyarrow import ArrowException
    except ImportError:
        raise MissingExtraError(
            f"{path} needs the package pyarrow: pip install 'loopmt[parquet]', or convert the file to .jsonl."
        ) from None
    try:
        yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(f"{path} has text that is not UTF-8 (byte 0x{byte:02x}). Convert or remove it.") from None
    except (ArrowException, OSError, KeyError) as error:
        raise DataError(f"{path} is not Parquet that can be read: {str(error).splitlines()[0]:.200}.") from None
