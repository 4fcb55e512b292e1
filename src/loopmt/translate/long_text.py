"""Translation of text longer than a model's training rows: split it, translate the pieces, join them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from loopmt.config import Generate
from loopmt.path import Hop
from loopmt.text.ragged import Ints, Ragged
from loopmt.translate.protocol import (
    Codec,
    DecodeLimits,
    Floats,
    HopInput,
    Key,
    Sentences,
    TranslationModel,
    Translations,
)

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ENDS = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?P<space>\s++)|(?<![。！？؟।])[。！？؟।]++(?P<none>\s*+)")
_ABBREVIATIONS = frozenset(["mr", "mrs", "ms", "dr", "prof", "st", "nr", "vs", "bzw", "ca", "sr", "sra", "mme", "hr"])
_CUTS = [
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？؟।])"),
    re.compile(r"(?<=[,;:–—])\s+|(?<=[、，；])"),
    re.compile(r"\s+"),
]

Candidates = list[tuple[str, float, bool]]  # text, score, and whether it ended with EOS; best first


@dataclass(frozen=True)
class LongTextModel:
    """Wraps a translation model; each translation is one line of printable text."""

    inner: TranslationModel
    codec: Codec
    window: int  # ids of the longest piece
    by_sentence: bool = False  # translate each sentence of a line by itself

    @property
    def hops(self) -> Sequence[Hop]:
        return self.inner.hops

    @property
    def device(self) -> torch.device:
        return self.inner.device

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        pieces = [self._cut(one.sources.texts, one.hop.source) for one in inputs]
        ids = [Ragged.of([piece for text in texts for piece in text]) for texts in pieces]
        cut = [
            HopInput(one.hop, Sentences(self.codec, one.hop.source, ids=rows))
            for one, rows in zip(inputs, ids, strict=True)
        ]
        searched = how.how == "beam" and n > 1
        found = self.inner.generate(cut, how, limits, key, how.beam if searched else n)
        return [
            self._joined(one.hop, [len(text) for text in texts], translations, n if searched else None)
            for one, texts, translations in zip(inputs, pieces, found, strict=True)
        ]

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        """Pairs are scored without splitting."""
        source, target = (
            Sentences(self.codec, language, texts=side.texts)
            for side, language in ((sources, hop.source), (targets, hop.target))
        )
        return self.inner.score(hop, source, target, as_generated)

    def _cut(self, texts: Sequence[str], language: str) -> list[list[list[int]]]:
        """The pieces of each text, as ids; an empty text has none."""
        if self.by_sentence:
            cut = [self._cut_in_two(sentences(text), language) for text in texts]
            return [[piece for pieces in parts for piece in pieces] for parts in cut]
        return self._cut_in_two(texts, language)

    def _cut_in_two(self, texts: Sequence[str], language: str) -> list[list[list[int]]]:
        encoded = self.codec.encode(texts, language)
        return [self._pieces(text, ids, language) for text, ids in zip(texts, encoded, strict=True)]

    def _pieces(self, text: str, ids: list[int], language: str) -> list[list[int]]:
        if len(ids) <= self.window or len(text) < 2:
            return [ids] if ids else []
        parts = split_in_two(text)
        encoded = self.codec.encode(parts, language)
        return [piece for part, own in zip(parts, encoded, strict=True) for piece in self._pieces(part, own, language)]

    def _joined(self, hop: Hop, pieces: Sequence[int], found: Translations, most: int | None) -> Translations:
        """Join translations of pieces to translations of texts, given each text's number of pieces.

        A search yields up to `most` distinct texts; sampling yields all draws (`most` is None).
        """
        candidates = _candidates(found)
        if most is not None:
            candidates = map(_distinct, candidates)
        joined = [_joined([next(candidates) for _ in range(count)])[:most] for count in pieces]
        flat = [one for hypotheses in joined for one in hypotheses]
        texts, scores, ended = zip(*flat, strict=True) if flat else ((), (), ())
        sentences = Sentences(self.codec, hop.target, texts=texts)
        counts = np.array([len(hypotheses) for hypotheses in joined], dtype=np.int64)
        return Translations(sentences, np.array(scores, np.float64), np.array(ended, np.bool_), counts)


def _candidates(found: Translations) -> Iterator[Candidates]:
    texts = map(one_line, found.sentences.texts)
    rows = zip(texts, found.scores.tolist(), found.ended.tolist(), strict=True)
    for count in found.counts.tolist():
        yield [next(rows) for _ in range(count)]


def _distinct(candidates: Candidates) -> Candidates:
    """Distinct texts with their best score, because a search may find several segmentations of a text."""
    found: dict[str, tuple[str, float, bool]] = {}
    for one in candidates:
        found.setdefault(one[0], one)
    return list(found.values())


def _joined(parts: Sequence[Candidates]) -> Candidates:
    """Join the candidates of a line's pieces rank by rank; without pieces, an empty line."""
    count = max(map(len, parts), default=1)
    ranks = [[part[min(rank, len(part) - 1)] for part in parts] for rank in range(count)]
    return [
        (join_pieces([text for text, _, _ in rank]), sum(score for _, score, _ in rank), all(end for *_, end in rank))
        for rank in ranks
    ]


def sentences(text: str) -> list[str]:
    """The sentences of a line, which is not split after initials and abbreviations or before lower-case letters."""
    parts, start = [], 0
    for end in _ENDS.finditer(text):
        space = "none" if end["space"] is None else "space"
        if space == "none" or not (_abbreviated(text, end.start()) or text[end.end() : end.end() + 1].islower()):
            parts.append(text[start : end.start(space)])
            start = end.end()
    return [part for part in (*parts, text[start:]) if part.strip()]


def _abbreviated(text: str, stop: int) -> bool:
    """Whether the word before this full stop is an initial or an abbreviation."""
    word = re.split(r"\W", text[max(0, stop - 6) : stop])[-1]
    return text[stop] == "." and ((len(word) == 1 and word.isalpha()) or word.lower() in _ABBREVIATIONS)


def split_in_two(text: str) -> list[str]:
    """Split at the end of a sentence, otherwise of a clause, otherwise at a space, otherwise in the middle."""
    middle = len(text) // 2
    for cut in _CUTS:
        places = [match.span() for match in cut.finditer(text) if match.start() > 0 and match.end() < len(text)]
        if places:
            end, start = min(places, key=lambda place: abs(place[0] - middle))
            return [text[:end], text[start:]]
    return [text[:middle], text[middle:]]


def one_line(text: str) -> str:
    """Remove control characters and line breaks, which a network can generate as bytes."""
    return _UNPRINTABLE.sub(" ", text)


def join_pieces(texts: Sequence[str]) -> str:
    line = ""
    for text in filter(None, texts):
        wide = line and unicodedata.east_asian_width(line[-1]) in "WF"  # these scripts have no spaces
        line = f"{line}{'' if wide or not line else ' '}{text}"
    return line
