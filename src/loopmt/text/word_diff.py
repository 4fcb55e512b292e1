"""Word-by-word comparison of two lines: common, lost and new words, and their similarity.

It computes the longest common subsequence with one bit per word. Time and memory grow with the product of both lengths
over the size of a machine word: 2,000 by 2,000 words take some milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # scripts without spaces between words
_MARKS = r".,;:!?¡¿\"“”„«»()\[\]…。、，；！？؟।"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_MARKS}{_UNSPACED}]+|[{_MARKS}]")
_MOST_BITS = 2**26  # 8,192 by 8,192 words; longer middle parts count as different

Kind = Literal["same", "lost", "new"]
Match = tuple[int, int]  # positions of one word in both lines


def words(text: str) -> list[str]:
    """Words and punctuation marks; single letters of scripts without spaces."""
    return _WORD.findall(text)


def similarity(one: str, other: str) -> float:
    """Twice the common words in order over all words: 1 for equal lines, 0 if no word is common."""
    old, new = words(one), words(other)
    total = len(old) + len(new)
    return 2 * len(matches(old, new)) / total if total else 1.0


def differences(before: str, after: str) -> Iterator[tuple[Kind, str]]:
    """Pieces of both lines in reading order, with their original spelling."""
    old, new = list(_WORD.finditer(before)), list(_WORD.finditer(after))
    found = matches([match[0] for match in old], [match[0] for match in new])
    for kind, start, end in runs(found, len(old), len(new)):
        text, places = (after, new) if kind == "new" else (before, old)
        yield kind, text[places[start].start() : places[end - 1].end()]


def runs(found: Sequence[Match], old: int, new: int) -> Iterator[tuple[Kind, int, int]]:
    """Maximal runs of one kind in lines of `old` and `new` words, with start and end in the line that has them.

    Positions of common words are those in the first line.
    """
    row = column = 0
    for start, new_start, length in (*_blocks(found), (old, new, 0)):
        if start > row:
            yield "lost", row, start
        if new_start > column:
            yield "new", column, new_start
        if length:
            yield "same", start, start + length
        row, column = start + length, new_start + length


def _blocks(found: Sequence[Match]) -> Iterator[tuple[int, int, int]]:
    """Blocks of consecutive matches: start in each line, and length."""
    numbered = enumerate(found)
    for _, group in groupby(numbered, key=lambda item: (item[1][0] - item[0], item[1][1] - item[0])):
        run = [match for _, match in group]
        yield *run[0], len(run)


def matches(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """A longest common subsequence; common words at both ends are matched first."""
    shorter = min(len(old), len(new))
    start = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    rest = shorter - start
    end = next((place for place in range(rest) if old[-1 - place] != new[-1 - place]), rest)
    middle = _longest(old[start : len(old) - end], new[start : len(new) - end])
    return [
        *((place, place) for place in range(start)),
        *((start + row, start + column) for row, column in middle),
        *((len(old) - place, len(new) - place) for place in range(end, 0, -1)),
    ]


def _longest(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """Hyyrö's bit-parallel recurrence: zero bits mark where the common length grows."""
    if not old or not new or len(old) * len(new) > _MOST_BITS:
        return []
    places: dict[str, int] = {}
    for place, word in enumerate(old):
        places[word] = places.get(word, 0) | 1 << place
    rows, row, mask = [], (1 << len(old)) - 1, (1 << len(old)) - 1
    for word in new:
        common = row & places.get(word, 0)
        row = ((row + common) | (row - common)) & mask
        rows.append(row)
    return _traced(rows, len(old))


def _traced(rows: Sequence[int], place: int) -> list[Match]:
    """Trace back from the last row the words at which the length grew."""
    found: list[Match] = []
    number = len(rows)
    while number and place:
        if rows[number - 1] >> (place - 1) & 1:
            place -= 1
            continue
        number -= 1
        if not number or rows[number - 1] >> (place - 1) & 1:
            place -= 1
            found.append((place, number))
    return found[::-1]
