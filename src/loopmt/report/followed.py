"""Example sentences translated along loops, before and after training: which to show, and which words they lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from loopmt.evaluation.validation import Agree
from loopmt.path import LanguagePath
from loopmt.planning.round_trips import Bools, RoundTrip
from loopmt.run import Json

FATES = ("mended", "broken", "lost", "home though wrong", "home")
"""Most telling first."""
RIGHT = 20.0  # sentence BLEU above which a hop is right, without an exact judge, a plan and an analysis
_TELLING = range(4, 25)  # words of a sentence worth showing
_WORD = re.compile(r"[\w'’-]+\s*|[^\w\s]\s*")
_CLOSING = re.compile(r"[.,;:!?…)\]»”。、，；！？؟।]")
_LONGEST_WORD = 12
Diff = list[tuple[str, str]]


def chosen_loops(paths: Sequence[LanguagePath], most: int = 4) -> list[LanguagePath]:
    """A few of the loops: some of each length, starting from different languages."""
    closed = list(dict.fromkeys(path for path in paths if path.loop))
    lengths = sorted({len(path.hops) for path in closed})
    shares = max(1, most // max(1, len(lengths)))
    found: list[LanguagePath] = []
    for length in lengths:
        mine = [path for path in closed if len(path.hops) == length]
        first = {path.languages[0]: path for path in reversed(mine)}
        found += [*reversed(first.values())][:shares]
    return found[:most]


@dataclass(frozen=True)
class CheckedTest:
    """The round trips of many sentences, with a verdict after every hop."""

    stage: str
    round_trip: RoundTrip
    right: list[Bools | None]
    bleu: list[list[float] | None]

    @classmethod
    def of(cls, stage: str, round_trip: RoundTrip, agree: Agree | None, threshold: float = RIGHT) -> CheckedTest:
        scores = round_trip.scores(smooth=True)
        bleu = [None if one is None else one.tolist() for one in scores]
        if agree is None:
            return cls(stage, round_trip, [None if one is None else one > threshold for one in scores], bleu)
        languages = round_trip.loop.languages
        right: list[Bools | None] = [
            np.array([agree(start, languages[0], text, languages[place]) for start, text in rows], dtype=np.bool_)
            for place in range(1, len(languages))
            for rows in [list(zip(round_trip.start.sources, round_trip.texts[place], strict=True))]
        ]
        return cls(stage, round_trip, right, bleu)

    def home(self, row: int) -> bool:
        last = self.right[-1]
        return bool(last is not None and last[row])

    def there(self, row: int) -> bool:
        first = self.right[0]
        return bool(first is None or first[row])

    def as_json(self, row: int) -> Json:
        hops = [
            {
                "language": language,
                "text": texts[row],
                "right": None if right is None else bool(right[row]),
                "bleu": None if bleu is None else round(bleu[row], 1),
            }
            for language, texts, right, bleu in zip(
                self.round_trip.loop.languages[1:], self.round_trip.texts[1:], self.right, self.bleu, strict=True
            )
        ]
        return {"stage": self.stage, "home": self.home(row), "hops": hops}


def show(round_trips: Sequence[CheckedTest], name: str, most: int = 3) -> list[Json]:
    """The same loop by one stage, or before and after: one sentence of each outcome, the most informative first."""
    rows = range(len(round_trips[0].round_trip.start.sources))
    by_fate: dict[str, list[int]] = {}
    for row in sorted(
        rows, key=lambda row: len(_words(round_trips[0].round_trip.start.sources[row])[0]) not in _TELLING
    ):
        by_fate.setdefault(loop_outcome(round_trips, row), []).append(row)
    picked = [(one, by_fate[one][0]) for one in FATES if one in by_fate][:most]
    return [
        {
            "set": name,
            "loop": str(round_trips[0].round_trip.loop),
            "fate": one,
            "start": round_trips[0].round_trip.start.sources[row],
            "trips": [round_trip.as_json(row) for round_trip in round_trips],
        }
        for one, row in picked
    ]


def loop_outcome(round_trips: Sequence[CheckedTest], row: int) -> str:
    """The outcome of a sentence, from the first stage to the last."""
    before, after = ((round_trip.home(row), round_trip.there(row)) for round_trip in (round_trips[0], round_trips[-1]))
    if all(before) != all(after):
        return "mended" if all(after) else "broken"
    if all(after):
        return "home"
    return "home though wrong" if after[0] else "lost"


def with_differences(rows: Sequence[Json]) -> list[Json]:
    """The followed sentences, with the word differences between each original and what the loop returned."""
    return [
        {
            **row,
            "trips": [
                {**round_trip, "way": difference(row["start"], round_trip["hops"][-1]["text"])}
                for round_trip in row["trips"]
            ],
        }
        for row in rows
    ]


def difference(start: str, end: str) -> Diff:
    """Runs of words that returned ("same"), were lost ("lost") or were added ("new")."""
    one, other = _words(start, end)
    bare, bare_other = ([word.strip() for word in words] for words in (one, other))
    found: Diff = []
    for kind, a, b, c, d in SequenceMatcher(None, bare, bare_other, autojunk=False).get_opcodes():
        parts = [("same", other[c:d])] if kind == "equal" else [("lost", one[a:b]), ("new", other[c:d])]
        found += [(what, "".join(words)) for what, words in parts if words]
    return _parted(found) if _has_spaces(start, end) else found


def _parted(found: Diff) -> Diff:
    """A space between runs, which come from two sentences, but not before closing punctuation."""
    texts = [words.strip() for _, words in found]
    gaps = ["" if _CLOSING.match(after) else " " for after in texts[1:]] + [""]
    return [(kind, text + gap) for (kind, _), text, gap in zip(found, texts, gaps, strict=True)] if found else []


def _words(*texts: str) -> list[list[str]]:
    """Words and punctuation with the space after them; characters in scripts without spaces."""
    return [_WORD.findall(text) if _has_spaces(*texts) else list(text) for text in texts]


def _has_spaces(*texts: str) -> bool:
    return any(" " in text for text in texts) or max(map(len, texts)) <= _LONGEST_WORD
