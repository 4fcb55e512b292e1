"""An enumeration of a world's meanings, so that a keyed permutation draws them without repetition.

Families of meanings that some language does not distinguish are numbered, not single meanings. Each draw takes one
meaning of a family, so no two drawn meanings share a sentence in any language.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from itertools import accumulate
from math import prod
from random import Random
from typing import Any

import numpy as np

from loopmt.errors import DataError
from loopmt.rng import numpy_generator, permute
from loopmt.synthetic.families import Factor, WordChoice, Words
from loopmt.synthetic.lexicon import Lexicon
from loopmt.synthetic.meaning import Clause, Meaning, NounPhrase, Relative
from loopmt.synthetic.sense import Sense, commonness
from loopmt.synthetic.shapes import SentenceShape, shapes

BATCH = 256
TRIES = 8
LARGEST = 1 << 62
FRAMES = {"quality": "be", "location": "be", "trade": "be"}


class SentenceSpace:
    """All families of meanings of one shape: for each family of verbs a product of independent choices."""

    def __init__(self, shape: SentenceShape, words: Words, lexicon: Lexicon, sense: Sense) -> None:
        self.shape = shape
        self._words = words
        self._lexicon = lexicon
        self._sense = sense
        inner = SentenceSpace(shape.inner, words, lexicon, sense) if shape.inner else None
        verbs = words.verb_groups(FRAMES.get(shape.frame, shape.frame))
        self._products = [dict(self._factors(group, inner)) for group in verbs]
        self._ends = list(accumulate(prod(map(len, factors.values())) for factors in self._products))

    def __len__(self) -> int:
        return min(self._ends[-1], LARGEST) if self._ends else 0

    def pick(self, index: int, random: Random) -> Meaning | None:
        """A sensible meaning of the family; None if it has none, or if a rare one is skipped at random."""
        number = bisect_right(self._ends, index)
        index -= self._ends[number - 1] if number else 0
        chosen: list[tuple[str, Factor, int]] = []
        for name, factor in self._products[number].items():
            index, digit = divmod(index, len(factor))
            chosen.append((name, factor, digit))
        inner = {name: factor.pick(digit, random) for name, factor, digit in chosen if name == "inner"}
        if None in inner.values():
            return None
        for _ in range(min(TRIES, prod(factor.breadth(digit) for _, factor, digit in chosen))):
            words = {name: factor.pick(digit, random) for name, factor, digit in chosen if name != "inner"}
            meaning = _assemble(self.shape, words | inner)
            if random.random() > commonness(meaning):
                return None
            if self._sense.sensible(meaning):
                return meaning
        return None

    def reshaped(self, shape: SentenceShape) -> SentenceSpace:
        """The same choices of words for a shape with another polarity or mood."""
        other = copy(self)
        other.shape = shape
        return other

    def breadth(self, index: int) -> int:
        return TRIES

    def _factors(self, verbs: tuple[str, ...], inner: SentenceSpace | None) -> Iterator[tuple[str, Factor]]:
        shape = self.shape
        known = [self._lexicon.verbs[verb] for verb in verbs]
        subjects = [kind for verb in known for kind in verb.subjects]
        if shape.subject == "relative" or shape.within == "reason":
            subjects = ["person"]
        objects = [kind for verb in known for kind in verb.objects]
        yield "verb", WordChoice([verbs])
        yield from self._subject(subjects)
        if shape.object:
            yield from self._phrase("object", shape.object, objects)
        if shape.recipient:
            yield from self._phrase("recipient", shape.recipient, ["person"])
        if shape.frame == "trade":
            yield "trade", self._words.nouns(frozenset({"trade"}), False)
        yield from self._adverbs(verbs)
        if inner is not None:
            yield "inner", inner

    def _adverbs(self, verbs: tuple[str, ...]) -> Iterator[tuple[str, Factor]]:
        extras = self.shape.extras
        if self.shape.within in ("relative", "reason"):
            yield "timing", WordChoice([(("present", None), ("past", None))])
        else:
            yield "timing", self._words.timings("time" in extras, "modal" in extras)
        if "modal" in extras:
            yield "modal", WordChoice((modal,) for modal in self._lexicon.modals)
        if "manner" in extras:
            yield "manner", self._words.manners_of(verbs)
        if "place" in extras:
            relation = {"goal": ("to", "to"), "home": ("at", "home")}.get(self.shape.frame, ("at", "at", "water"))
            yield "place", self._words.places_of(*relation)

    def _subject(self, kinds: list[str]) -> Iterator[tuple[str, Factor]]:
        """The subject, together with the adjective if the clause has one."""
        if self.shape.frame == "quality":
            yield from self._quality(kinds)
        elif self.shape.subject == "pair":
            yield from self._phrase("first", "name", kinds)
            yield from self._phrase("second", "plain", kinds)
        else:
            relative = self.shape.subject == "relative"
            yield from self._phrase("subject", "plain" if relative else self.shape.subject, kinds)

    def _quality(self, kinds: list[str]) -> Iterator[tuple[str, Factor]]:
        passing = self.shape.within == "reason" or "time" in self.shape.extras
        if self.shape.subject == "noun" and not passing:
            yield from self._phrase("subject", "adjective", kinds)
        else:
            yield from self._phrase("subject", self.shape.subject, kinds)
            yield "adjective", self._words.states() if passing else WordChoice(self._words.adjectives)

    def _phrase(self, name: str, kind: str, kinds: Iterable[str]) -> Iterator[tuple[str, Factor]]:
        heads, determiners = self._words.phrase(kind, kinds)
        yield name, heads
        yield f"{name} determiner", determiners


def _noun_phrase(parts: Mapping[str, Any], name: str) -> NounPhrase | None:
    if name not in parts:
        return None
    head, number, adjective = parts[name]
    return NounPhrase(head, number, parts[f"{name} determiner"], adjective)


def _subject(parts: Mapping[str, Any]) -> NounPhrase:
    """The subject of a clause from its parts."""
    if "first" in parts:
        first, second = _noun_phrase(parts, "first"), _noun_phrase(parts, "second")
        return NounPhrase("and", "plural", first=first, second=second)
    subject = _noun_phrase(parts, "subject")
    assert subject is not None
    return subject


def _assemble(shape: SentenceShape, parts: Mapping[str, Any]) -> Meaning:
    """The meaning of this shape with these words."""
    tense, time = parts["timing"]
    subject, adjective = _subject(parts), parts.get("adjective")
    if shape.frame == "quality" and adjective is None:
        subject, adjective = replace(subject, adjective=None), subject.adjective
    inner, place = parts.get("inner"), parts.get("place")
    if inner is not None and shape.link == "relative":
        subject = replace(subject, relative=Relative(inner.verb, inner.tense, inner.object))
    if shape.asked == "where":
        place = "to where" if shape.frame == "goal" else "at where"
    trade = _noun_phrase({**parts, "trade determiner": "a"}, "trade")
    return Clause(
        subject=subject,
        verb=parts["verb"],
        tense=tense,
        polarity=shape.polarity,
        question=shape.question,
        modal=parts.get("modal"),
        object=_noun_phrase(parts, "object") or trade,
        recipient=_noun_phrase(parts, "recipient"),
        adjective=adjective,
        manner=parts.get("manner"),
        place=place,
        time="when" if shape.asked == "when" else time,
        content=inner if shape.link == "content" else None,
        reason=inner if shape.link == "reason" else None,
    )


class Space:
    """All shapes of a world."""

    def __init__(self, lexicon: Lexicon, words: Words, sense: Sense) -> None:
        self._lexicon = lexicon
        alike: dict[SentenceShape, SentenceSpace] = {}
        known: list[tuple[SentenceSpace, float]] = []
        for shape, weight in shapes(lexicon.size):
            plain = replace(shape, polarity="positive", question=False)
            if plain not in alike:
                alike[plain] = SentenceSpace(plain, words, lexicon, sense)
            known.append((alike[plain].reshaped(shape), weight))
        self._spaces = [space for space, _ in known if len(space)]
        self._weights = np.array([weight for space, weight in known if len(space)])

    def __len__(self) -> int:
        """An upper bound of the number of families; some have no sensible member."""
        return min(sum(map(len, self._spaces)), LARGEST)

    def draw(self, *key: str | int) -> Iterator[Meaning]:
        """Different meanings, determined by the key; an error when all are drawn."""
        generator = numpy_generator(*key, "shapes")
        random = Random(int(generator.integers(1 << 62)))
        queues = [_permuted(space, random, key, i) for i, space in enumerate(self._spaces)]
        weights, count = self._weights.copy(), 0
        while weights.any():
            for i in generator.choice(len(queues), size=BATCH, p=weights / weights.sum()):
                meaning = next(queues[i], None) if weights[i] else None
                if meaning is None:
                    weights[i] = 0
                else:
                    count += 1
                    yield meaning
        raise DataError(
            f"the {self._lexicon.size} world has only {count:,} meanings that all languages distinguish, and more "
            "were requested. Request fewer lines, or a larger world."
        )


def _permuted(space: SentenceSpace, random: Random, key: tuple[str | int, ...], number: int) -> Iterator[Meaning]:
    """A sensible meaning of each family of one shape, in the order of a keyed permutation."""
    size = len(space)
    for start in range(0, size, BATCH):
        indices = np.arange(start, min(start + BATCH, size))
        for index in permute(indices, size, *key, "families", number):
            meaning = space.pick(int(index), random)
            if meaning is not None:
                yield meaning
