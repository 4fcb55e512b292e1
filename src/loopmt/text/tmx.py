"""Translation memories (TMX), read as a stream: one row per unit that has every language asked for."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from typing import IO

from loopmt.errors import DataError

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = frozenset({"bpt", "ept", "ph", "it", "ut"})


def units(file: IO[bytes], name: str, languages: Sequence[str]) -> Iterator[tuple[bytes, ...]]:
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
    """Every <tu>, dropped from the tree once it has been looked at, so that memory stays flat."""
    parents: list[ElementTree.Element] = []
    try:
        for event, element in ElementTree.iterparse(file, events=("start", "end")):
            if event == "start":
                parents.append(element)
                continue
            parents.pop()
            if element.tag == "tu":
                yield element
                parents[-1].clear() if parents else None
    except ElementTree.ParseError as error:
        raise DataError(f"{name}, line {error.position[0]} is not well-formed TMX: {error}.") from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{name} is not TMX that can be read: {error}.") from None


def _segments(unit: ElementTree.Element) -> dict[str, str]:
    segments: dict[str, str] = {}
    for variant in unit.iter("tuv"):
        language = (variant.get(_LANG) or variant.get("lang") or "").lower().replace("_", "-")
        segment = variant.find("seg")
        if segment is not None:
            segments.setdefault(language, "".join(_text(segment)).replace("\n", " "))
    return segments


def _text(element: ElementTree.Element) -> Iterator[str]:
    """The text of a segment; what an editing tool's codes enclose is not text."""
    yield element.text or ""
    for child in element:
        if child.tag not in _CODES:
            yield from _text(child)
        yield child.tail or ""


def _segment(segments: dict[str, str], language: str) -> str | None:
    """The segment of `en`, `EN` or `en-GB` when asked for en."""
    code = language.lower().replace("_", "-")
    matches = (text for tag, text in segments.items() if tag == code or tag.startswith(f"{code}-"))
    return next(matches, None)
