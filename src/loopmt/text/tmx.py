"""Reads the units of a TMX file one at a time, in bounded memory, whatever their number and depth."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, Any

from loopmt.errors import DataError
from loopmt.text.compressed import damage_named
from loopmt.text.format import CorpusFile, Row, corpus_format

DEPTH = 100
"""How deep elements may be nested."""
UNIT = 2**22
"""Bytes of a unit, all its languages together."""
_BLOCK = 2**16
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = frozenset({"bpt", "ept", "ph", "it", "ut"})


@corpus_format("tmx", ending=".tmx")
def translation_memory(file: CorpusFile, languages: Sequence[str]) -> Iterator[Row]:
    with damage_named(file.path):
        yield from units(file.content(), str(file.path), languages)


def units(file: IO[bytes], name: str, languages: Sequence[str]) -> Iterator[Row]:
    """The segments of each unit that has all these languages."""
    seen: set[str] = set()
    found = False
    for unit in _elements(file, name):
        segments = _segments(unit)
        seen.update(segments)
        row = [_segment(segments, language) for language in languages]
        if None not in row:
            found = True
            yield tuple(text.encode() for text in row if text is not None)
    if not found:
        known = ", ".join(sorted(seen)) or "none"
        raise DataError(f"{name} has no unit with {' and '.join(languages)}; its languages are: {known}.")


def _elements(file: IO[bytes], name: str) -> Iterator[ElementTree.Element]:
    """Every <tu>."""
    tree = _Tree(name)
    try:
        for block in chain(iter(lambda: file.read(_BLOCK), b""), [None]):
            yield from tree.units(block)
    except ElementTree.ParseError as error:
        raise DataError(f"{name}, line {error.position[0]} is not well-formed TMX: {error}.") from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{name} is not TMX that can be read: {error}.") from None


class _Tree:
    """The open elements. Closed ones are discarded, unless they are in an open unit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._parser: Any = ElementTree.XMLPullParser(("start", "end"))
        self._open: list[ElementTree.Element] = []
        self._open_units = 0
        self._bytes = 0  # since a unit was closed

    def units(self, block: bytes | None) -> Iterator[ElementTree.Element]:
        """The units that are closed in the next block of the file; None is the end of the file."""
        self._parser.close() if block is None else self._parser.feed(block)
        self._bytes += len(block or b"")
        for event, element in self._parser.read_events():
            if event == "start":
                self._start(element)
            else:
                yield from self._end(element)
        if self._bytes > UNIT:
            raise DataError(f"{self._name} has more than {UNIT >> 20} MiB without the end of a unit. Is it TMX?")

    def _start(self, element: ElementTree.Element) -> None:
        self._open.append(element)
        self._open_units += _name(element) == "tu"
        if len(self._open) > DEPTH:
            raise DataError(f"{self._name} has elements nested more than {DEPTH} deep. Is it TMX?")

    def _end(self, element: ElementTree.Element) -> Iterator[ElementTree.Element]:
        self._open.pop()
        if _name(element) == "tu":
            self._open_units -= 1
            self._bytes = 0
            yield element
        if self._open and not self._open_units:
            self._open[-1].clear()


def _name(element: ElementTree.Element) -> str:
    """The tag without its namespace, which only some tools write."""
    return element.tag.rpartition("}")[2]


def _segments(unit: ElementTree.Element) -> dict[str, str]:
    segments: dict[str, str] = {}
    for variant in unit:
        language = (variant.get(_LANG) or variant.get("lang") or "").lower().replace("_", "-")
        segment = next((child for child in variant if _name(child) == "seg"), None)
        if _name(variant) == "tuv" and segment is not None:
            segments.setdefault(language, "".join(_text(segment)).replace("\n", " "))
    return segments


def _text(element: ElementTree.Element) -> Iterator[str]:
    """The text of a segment, without the codes of editing tools."""
    yield element.text or ""
    for child in element:
        if _name(child) not in _CODES:
            yield from _text(child)
        yield child.tail or ""


def _segment(segments: dict[str, str], language: str) -> str | None:
    """For en: the segment of `en` or `EN`; without one, that of `en-GB`."""
    code = language.lower().replace("_", "-")
    regional = (text for tag, text in segments.items() if tag.startswith(f"{code}-"))
    return segments[code] if code in segments else next(regional, None)
