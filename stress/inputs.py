"""Hypothesis strategies of odd inputs: text, bytes, and documents with errors."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import lzma
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from hypothesis import strategies as st

Strategy = st.SearchStrategy
Document = dict[str, Any]

ODD = [
    "", " ", "\t", "\0", "\r", "a\r\nb", "\n", "\x85", "\u2028", "\u2029", "\ufeff", "\u200b", "\u202e", "\u2066",
    "\x7f", "\x9b31m", "\x1b[31m", "\x1b]0;title\x07", "\x07", "\ud800", "\udfff\ud800", "\U0010fffd", "\U0010ffff",
    "e\u0301", "\u2581", "<2fr>", "<synthetic>", "</s>", "<0x0A>", "../../etc/passwd", "/dev/zero", "C:\\con", "~root",
    "-", "--help", "[bold]x[/]", "[/]", "%s%n", "{0}", "{{7*7}}", "<script>alert(1)</script>", "'; drop table x",
    "$(touch evil)", "`id`", "nan", "inf", "1e999", "0x10", "١٢", "²", "名前", "שלום", "🏳️‍🌈", "X>Y", "en>fr", "en-fr",
    "en", "a" * 300, "ab " * 3000,
]  # fmt: skip
NUMBERS = [0, -1, 1, 2**31, 2**63, 2**64, 10**30, -(10**30), 0.5, -0.0, 1e-320, 1e308, float("inf"), float("nan")]
_ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "shift_jis")
_PACKED: list[Callable[[bytes], bytes]] = [
    bytes, gzip.compress, lzma.compress, lambda data: zstandard.ZstdCompressor().compress(data)
]  # fmt: skip

texts = st.sampled_from(ODD) | st.text(st.characters(), max_size=20) | st.text(string.printable, max_size=20)
scalars = st.sampled_from(NUMBERS) | st.booleans() | st.integers() | st.floats() | texts


def values(leaves: Strategy[Any] = scalars) -> Strategy[Any]:
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


# -- bytes -----------------------------------------------------------------------------------------------------


def raw(text: str, encoding: str = "utf-8") -> bytes:
    """The text as bytes; lone surrogates become bytes that are not UTF-8."""
    return text.encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace")


@st.composite
def lines(draw: st.DrawFn, longest: int = 10**6) -> bytes:
    """A file of good and odd lines, sometimes with another encoding, line end, mark, cut or a huge line."""
    good = st.sampled_from(["The cat sleeps.", "Le chat dort.", "El gato duerme hoy."])
    rows = draw(st.lists(good | texts, max_size=12))
    encoding = draw(st.sampled_from(_ENCODINGS)) if draw(st.integers(0, 9)) == 0 else "utf-8"
    ending = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\u2028"]))
    data = raw(ending.join(rows) + draw(st.sampled_from([ending, ""])), encoding)
    match draw(st.integers(0, 11)):
        case 0:
            data = codecs.BOM_UTF8 + data
        case 1:
            data = data[: draw(st.integers(0, max(len(data), 1)))]
        case 2:
            data += draw(st.binary(max_size=40))
        case 3:
            data += raw(draw(st.sampled_from(["ab ", "a", "é", "\u200b", "漢"]))) * draw(st.integers(1, longest // 3))
    return data


@st.composite
def pairs(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Odd rows of two sides that can be prepared."""
    odd = texts | st.builds(str.__mul__, st.sampled_from(["ab ", "a", "é", "\u200b", "漢"]), st.integers(1, 10**5))
    line = odd.map(lambda text: text.replace("\n", " ").encode(errors="replace").decode())
    return draw(st.lists(st.tuples(line, line), max_size=8))


def packed(content: Strategy[bytes]) -> Strategy[bytes]:
    """The content, plain or compressed, sometimes truncated or damaged."""
    return st.builds(_pack, content, st.sampled_from(_PACKED), st.integers(0, 5), st.integers(0, 2**16))


def _pack(content: bytes, pack: Callable[[bytes], bytes], damage: int, place: int) -> bytes:
    data = pack(content)
    where = place % (len(data) or 1)
    if damage == 0:
        return data[:where]
    return data[:where] + b"\xff" + data[where + 1 :] if damage == 1 else data


@dataclass(frozen=True)
class Records:
    """Rows with named columns, and how the file of them is damaged."""

    rows: list[Any]
    damage: int
    place: int

    def packed(self, ending: str) -> bytes:
        data = {"jsonl": self._jsonl, "parquet": self._parquet}[ending.split(".")[0]]()
        pack: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstandard.compress}
        return _pack(data, pack.get(ending.rpartition(".")[2], bytes), self.damage, self.place)

    def _jsonl(self) -> bytes:
        return b"".join(raw(json.dumps(row, ensure_ascii=self.place % 2 == 0) + "\n") for row in self.rows)

    def _parquet(self) -> bytes:
        file = io.BytesIO()
        try:
            pq.write_table(pa.Table.from_pylist([row for row in self.rows if isinstance(row, dict)]), file)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return b"PAR1" + self._jsonl() + b"PAR1"  # no table has such rows
        return file.getvalue()


def records() -> Strategy[Records]:
    """Objects with a text for each language, among which some are not."""
    sides = st.fixed_dictionaries({"en": texts, "fr": texts})
    good = sides | st.builds(lambda found: {"translation": found}, sides)
    odd = st.dictionaries(st.sampled_from(["en", "fr", "translation", "text"]) | texts, scalars | good, max_size=3)
    rows = st.lists(good, max_size=9) | st.lists(good | odd, max_size=9) | st.lists(values(), max_size=3)
    return st.builds(Records, rows, st.integers(0, 5), st.integers(0, 2**16))


# -- documents -------------------------------------------------------------------------------------------------


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document, including the document itself."""
    yield here
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*here, key))


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """The document with another value at a place; None deletes it."""
    if not place:
        return new
    key, *rest = place
    copy = value.copy()
    if not rest and new is None:
        del copy[key]
    else:
        copy[key] = replaced(copy[key], tuple(rest), new)
    return copy


@st.composite
def wrong(draw: st.DrawFn, documents: list[Document], leaves: Strategy[Any] = scalars) -> Document:
    """A valid document with one to three errors: a wrong value, a missing key, or an extra key."""
    document = draw(st.sampled_from(documents))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        place = draw(st.sampled_from(list(places(document))[1:] or [()]))
        if not place:
            break
        match draw(st.integers(0, 9)):
            case 0:
                document = replaced(document, place, None)
            case 1:
                document = replaced(document, place, {draw(texts): draw(leaves)})
            case 2:
                document = {**document, draw(texts): draw(values(leaves))}
            case 3:
                document = replaced(document, place, draw(values(leaves)))
            case 4:
                document = replaced(document, place, draw(leaves))
            case _:
                document = replaced(document, place, draw(st.sampled_from(_same_type(document, place))))
    return document


def _same_type(document: Document, place: tuple[Any, ...]) -> list[Any]:
    """Values of the same type from other places, and extreme numbers, which may be semantically wrong."""
    kind = type(at(document, place))
    found = [value for other in places(document) if type(value := at(document, other)) is kind]
    return [*found, *(number for number in NUMBERS if type(number) is kind)]


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def toml(document: Document) -> str:
    return "\n".join(f"{_key(key)} = {_toml(value)}" for key, value in document.items()) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _key(value) if isinstance(value, str) else repr(value)


def _key(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@st.composite
def misspelt(draw: st.DrawFn, document: str) -> str:
    """A text with a piece replaced by odd text."""
    start = draw(st.integers(0, len(document)))
    length = draw(st.integers(0, 20))
    return document[:start] + draw(texts) + document[start + length :]
