"""Two lines, word by word: what stayed, what was lost, what is new, and how alike they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal

_LETTERS_ALONE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # scripts that put no spaces between words
_MARKS = r".,;:!?¡¿\"“”„«»()\[\]…。、，；！？؟।"
_WORD = re.compile(rf"[{_LETTERS_ALONE}]|[^\s{_MARKS}{_LETTERS_ALONE}]+|[{_MARKS}]")

Kind = Literal["same", "lost", "new"]


def words(text: str) -> list[str]:
    """Words and marks; letters where a script has no spaces."""
    return _WORD.findall(text)


def similarity(one: str, other: str) -> float:
    """Twice the words in common, in order, over all words: 1 if the lines are the same, 0 if nothing is."""
    return _matcher(words(one), words(other)).ratio()


def differences(before: str, after: str) -> Iterator[tuple[Kind, str]]:
    """Pieces of both lines in reading order, as they are spelt there."""
    old, new = list(_WORD.finditer(before)), list(_WORD.finditer(after))
    matcher = _matcher([match[0] for match in old], [match[0] for match in new])
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if end > start:
            yield "same" if kind == "equal" else "lost", before[old[start].start() : old[end - 1].end()]
        if new_end > new_start and kind != "equal":
            yield "new", after[new[new_start].start() : new[new_end - 1].end()]


def _matcher(one: list[str], other: list[str]) -> SequenceMatcher[str]:
    return SequenceMatcher(None, one, other, autojunk=False)
