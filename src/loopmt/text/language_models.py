"""Whether a text is in the language of its name, judged by character n-grams of the run's other texts.

Every text is compared with the others: its cross entropy under models of the texts of its own language, and of those of
every other language. Models that are compared have learnt from equally many characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_SIZES = (2_000, 12_000)  # characters that models learn from
_HELD_OUT, _HELD_OUT_IN_ALL = 4_000, 120_000  # characters of a text held out from its models, and of all texts
_FEWEST = 500
_LINE = 80  # characters of a held-out line
_ORDERS = 5
_BITS = 16
_CARRY = 4.0  # how strongly the shorter context counts
_ALPHABET = 200

# Bits per character. Measured on real text: docs/results/text-checks.json.
_CLOSER = 0.5  # by which another language must fit better, of all lines together or of one line
_APART = 0.8  # by which two languages differ at least, or they are not told apart
_KNOWN = (1.2, 1.6)  # by which a text is worse under another of its language than under its own model, at most
_FOREIGN = 0.75  # that difference, as a share of the same difference for the nearest other language
_DIFFERENT = (0.8, 1.2)  # and the least of it; for each size
_LINES, _WHOLE = 0.25, 0.75  # shares of lines for which it does: of a text that is named, and of one in that language


@dataclass(frozen=True)
class Text:
    """Lines of one language, all from the same side of a corpus or set."""

    owner: str  # texts of the same corpus are not compared with each other
    language: str
    lines: Sequence[str]
    weight: float = 1.0  # where two texts contradict each other, that of less weight is believed

    def mixed(self) -> list[int]:
        """Every seventh line, then the rest likewise, so that held-out and training lines are from the whole text."""
        return [line for first in range(7) for line in range(first, len(self.lines), 7)]


@dataclass(frozen=True)
class Misnamed:
    """A text in another language than its name says: `language` is the most similar one, or empty."""

    text: int
    language: str
    bits: float  # per character, under the closest text of its own language
    bits_other: float  # under the closest text of the other language; of an unknown one, under its own model
    sampled: int  # lines
    share: float  # of those
    example: int  # line
    compared: int  # the closest text of its own language

    @property
    def excess(self) -> float:
        return self.bits - self.bits_other


@dataclass(frozen=True)
class Grams:
    """Hashes of the n-grams of lines and of their contexts: (orders, characters), and the line of each character."""

    grams: Ints
    contexts: Ints
    line: Ints

    @classmethod
    def of(cls, lines: Sequence[str], characters: int) -> Grams:
        codes = [_codes(line) for line in lines]
        owners = [np.full(len(line), number) for number, line in enumerate(codes)]
        flat = np.concatenate([*codes, np.empty(0, np.int64)])[:characters]
        grams, contexts = _hashes(flat)
        return cls(grams, contexts, np.concatenate([*owners, np.empty(0, np.int64)])[:characters])

    @classmethod
    def joined(cls, parts: Sequence[Grams]) -> Grams:
        grams, contexts = (np.concatenate([getattr(part, name) for part in parts], 1) for name in ("grams", "contexts"))
        return cls(grams, contexts, np.concatenate([part.line for part in parts]))

    def __len__(self) -> int:
        return len(self.line)

    def part(self, first: int, last: int) -> Grams:
        return Grams(self.grams[:, first:last], self.contexts[:, first:last], self.line[first:last])


def _codes(line: str) -> Ints:
    text = f" {line.lower()[:_LINE]} "
    return np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.int64)


def _hashes(codes: Ints) -> tuple[Ints, Ints]:
    grams, contexts = (np.zeros((_ORDERS, len(codes)), np.int64) for _ in range(2))
    context = np.zeros(len(codes), np.int64)
    for order in range(_ORDERS):
        contexts[order] = _bucket(context * 1_000_003 + order)
        grams[order] = _bucket((context * 1_000_003 + order) * 31 + codes * 8191 + 1)
        before = np.concatenate([np.zeros(order + 1, np.int64), codes])[: len(codes)]
        context = (context * 31_337 + before * 65_599 + 1) & 0x7FFFFFFF
    return grams, contexts


def _bucket(numbers: Ints) -> Ints:
    mixed = (numbers * 0x9E3779B1) & 0x7FFFFFFFFFFF
    found: Ints = (mixed >> 20) & (2**_BITS - 1)
    return found


class NgramModel:
    """Interpolated n-grams of characters."""

    def __init__(self, grams: Grams) -> None:
        size = 2**_BITS
        self._counts = [
            (np.bincount(gram, minlength=size), np.bincount(context, minlength=size))
            for gram, context in zip(grams.grams, grams.contexts, strict=True)
        ]

    def bits(self, grams: Grams) -> Array:
        """Bits of each character."""
        chance = np.full(len(grams), 1 / _ALPHABET)
        for (seen, contexts), gram, context in zip(self._counts, grams.grams, grams.contexts, strict=True):
            chance = np.minimum((seen[gram] + _CARRY * chance) / (contexts[context] + _CARRY), 1.0)
        found: Array = -np.log2(chance)
        return found


class Distances:
    """Bits per character of every text under the model of every other, for each size of the models."""

    def __init__(self, texts: Sequence[Text]) -> None:
        longest = min(_HELD_OUT, _HELD_OUT_IN_ALL // max(len(texts), 1))
        mixed = [[text.lines[line] for line in text.mixed()] for text in texts]
        grams = [Grams.of(lines, _SIZES[-1] + longest) for lines in mixed]
        self._held_out = [one.part(0, min(longest, len(one) // 2)) for one in grams]
        self._ends = np.cumsum([0, *map(len, self._held_out)])
        together = Grams.joined(self._held_out)
        self._lines = [self._measured(*pair, together) for pair in zip(grams, self._held_out, strict=True)]

    def _measured(self, grams: Grams, held_out: Grams, together: Grams) -> list[list[Array]]:
        """By size and text the bits of each line."""
        rest = grams.part(len(held_out), len(grams))
        found = []
        for size in _SIZES:
            if size == _SIZES[0] or len(rest) >= size:
                bits = NgramModel(rest.part(0, size)).bits(together)
                parts = [bits[first:last] for first, last in pairwise(self._ends.tolist())]
                found.append([_by_line(part, one.line) for part, one in zip(parts, self._held_out, strict=True)])
        return found

    def known(self, text: int) -> bool:
        return len(self._held_out[text]) >= _FEWEST

    def size(self, text: int) -> int:
        """The number of the largest size of which it has a model."""
        return len(self._lines[text]) - 1

    def lines(self, one: int, other: int, size: int) -> Array:
        """Bits per character of each line of the one under the model of the other."""
        return self._lines[other][size][one]

    def bits(self, one: int, other: int, size: int) -> float:
        counts = np.bincount(self._held_out[one].line)
        return float((self.lines(one, other, size) * counts).sum() / counts.sum())

    def nearest(self, one: int, others: Sequence[int], size: int) -> int:
        return min(others, key=lambda other: self.bits(one, other, size))


def _by_line(bits: Array, line: Ints) -> Array:
    found: Array = np.bincount(line, bits) / np.maximum(np.bincount(line), 1)
    return found


# -- which texts are misnamed --------------------------------------------------------------------------------------


def misnamed(texts: Sequence[Text]) -> list[Misnamed]:
    """Texts in another language than their name says. The clearest are removed first; then the others are compared."""
    check = _LanguageCheck(texts, Distances(texts))
    found: list[Misnamed] = []
    while wrong := check.wrong():
        by_owner: dict[str, list[Misnamed]] = {}
        for one in wrong:
            by_owner.setdefault(texts[one.text].owner, []).append(one)
        worst = max(by_owner.values(), key=lambda group: sum(texts[one.text].weight * one.excess for one in group))
        found += worst
        check.relabel(worst)
    return sorted(found, key=lambda one: one.text)


class _LanguageCheck:
    """Compares texts, given the language that each is assumed to be in; None where it is unknown."""

    def __init__(self, texts: Sequence[Text], distances: Distances) -> None:
        self._texts = texts
        self._distances = distances
        self._languages = {n: text.language for n, text in enumerate(texts) if distances.known(n)}
        self._open = set(self._languages)

    def relabel(self, found: Sequence[Misnamed]) -> None:
        for one in found:
            self._open.discard(one.text)
            if one.language and one.share >= _WHOLE:
                self._languages[one.text] = one.language
            else:
                del self._languages[one.text]  # of an unknown language, or of two

    def wrong(self) -> list[Misnamed]:
        return [found for text in sorted(self._open) if (found := self._wrong_language(text))]

    def _wrong_language(self, text: int) -> Misnamed | None:
        by_language: dict[str, list[int]] = {}
        for other, language in self._languages.items():
            if self._texts[other].owner != self._texts[text].owner:
                by_language.setdefault(language, []).append(other)
        own = by_language.pop(self._languages[text], [])
        if not own or not by_language:
            return None
        found = [one for language, theirs in by_language.items() if (one := self._like(text, own, language, theirs))]
        if found:
            return max(found, key=lambda one: one.excess)
        return self._foreign(text, own, [other for theirs in by_language.values() for other in theirs])

    def _like(self, text: int, own: Sequence[int], language: str, theirs: Sequence[int]) -> Misnamed | None:
        """Whether texts of another language are more similar: over all lines, or over many of them."""
        distances = self._distances
        size = min(max(map(distances.size, side)) for side in (own, theirs))
        own, theirs = ([other for other in side if distances.size(other) >= size] for side in (own, theirs))
        mine, other = (distances.nearest(text, side, size) for side in (own, theirs))
        closer = distances.lines(text, mine, size) - distances.lines(text, other, size)
        bits, bits_other = (distances.bits(text, one, size) for one in (mine, other))
        share = float((closer > _CLOSER).mean())
        if (bits - bits_other < _CLOSER and share < _LINES) or self._apart(own, theirs, size) < _APART:
            return None
        if bits_other - distances.bits(text, text, min(size, distances.size(text))) > _KNOWN[size]:
            language = ""
        return self._misnamed(text, language, (bits, bits_other), closer, mine)

    def _apart(self, own: Sequence[int], theirs: Sequence[int], size: int) -> float:
        """How much worse texts of the two languages are under each other's models than under their own."""
        pairs = [order for pair in product(own, theirs) for order in (pair, pair[::-1])]
        bits = self._distances.bits
        return float(np.median([bits(one, other, size) - bits(one, one, size) for one, other in pairs]))

    def _foreign(self, text: int, own: Sequence[int], theirs: Sequence[int]) -> Misnamed | None:
        """Whether it is as far from the texts of its language as from other languages."""
        distances = self._distances
        size = min(distances.size(text), *(max(map(distances.size, side)) for side in (own, theirs)))
        own, theirs = ([other for other in side if distances.size(other) >= size] for side in (own, theirs))
        mine, other = (distances.nearest(text, side, size) for side in (own, theirs))
        itself, bits, bits_other = (distances.bits(text, one, size) for one in (text, mine, other))
        if bits - itself < max(_DIFFERENT[size], _FOREIGN * (bits_other - itself)):
            return None
        closer = distances.lines(text, mine, size) - distances.lines(text, text, size)
        return self._misnamed(text, "", (bits, bits_other), closer, mine)

    def _misnamed(self, text: int, language: str, bits: tuple[float, float], closer: Array, mine: int) -> Misnamed:
        share, example = float((closer > _CLOSER).mean()), self._texts[text].mixed()[int(closer.argmax())]
        return Misnamed(text, language, *bits, len(closer), share, example, mine)
