"""The lexicon of a world: tables of nouns, verbs and modifiers, restricted to a size.

Persons are more specific than in English: `thou` and `ye` are the familiar you, singular and plural, `you` is the
polite one; `_m` and `_f` mark the gender of speaker or hearer. `it` is one thing, `those` are several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from loopmt.synthetic.modifiers import ADJECTIVES, MANNERS, PLACES, TIMES
from loopmt.synthetic.nouns import NAMES, NOUNS
from loopmt.synthetic.verbs import VERBS

SIZES = ("tiny", "small", "full")
LANGUAGES = ("en", "fr", "es", "de")

SINGULAR_PERSONS = ("I_m", "I_f", "thou_m", "thou_f", "you_m", "you_f", "he", "she", "it")
PLURAL_PERSONS = ("we_m", "we_f", "ye_m", "ye_f", "they_m", "they_f", "those")
PERSONS = SINGULAR_PERSONS + PLURAL_PERSONS
POSSESSIVES = ("my", "thy", "your", "his", "her", "our", "ye's", "their")
COUNTS = ("two", "three", "many")
MODALS = ("want", "can", "must")


def genders(person: str) -> str:
    """The genders that a pronoun may have: a thing has that of any noun."""
    if person in ("it", "those"):
        return "mf"
    return "f" if person == "she" or person.endswith("_f") else "m"


def number(person: str) -> str:
    return "singular" if person in SINGULAR_PERSONS else "plural"


@dataclass(frozen=True)
class Word:
    """A concept, its kinds, and its forms in each language (synonyms in a tuple)."""

    concept: str
    kinds: tuple[str, ...]
    forms: dict[str, tuple[str, ...]]

    def is_a(self, *kinds: str) -> bool:
        """Whether it has one of the kinds, and none of those excluded by a minus."""
        own = (self.concept, *self.kinds)
        return any(kind in kinds for kind in own) and not any(f"-{kind}" in kinds for kind in own)


@dataclass(frozen=True)
class Verb(Word):
    """A verb with its frame, its aspect, and the kinds of its subject and object."""

    frame: str
    aspect: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]


def _words(table: str, size: str) -> list[Word]:
    """The rows of a table that belong to the size."""
    known = SIZES[: SIZES.index(size) + 1]
    words = []
    for row in table.strip().splitlines():
        head, *cells = (cell.strip() for cell in row.split("|"))
        level, concept, *kinds = head.split()
        if level in known:
            forms = {lang: _synonyms(cell) for lang, cell in zip(LANGUAGES, cells, strict=True)} if cells else {}
            words.append(Word(concept, tuple(kinds), forms))
    return words


def _synonyms(cell: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in cell.split(" / "))


def _verb(word: Word) -> Verb:
    frame, aspect, *kinds = word.kinds
    cut = kinds.index(">")
    return Verb(word.concept, (), word.forms, frame, aspect, tuple(kinds[:cut]), tuple(kinds[cut + 1 :]))


class Lexicon:
    """Every word of a world of the given size, by concept."""

    def __init__(self, size: str) -> None:
        self.size = size
        self.nouns = {word.concept: word for word in _words(NOUNS, size)}
        self.names = {word.concept: word for word in _words(NAMES, size)}
        self.verbs = {word.concept: _verb(word) for word in _words(VERBS, size)}
        self.adjectives = {word.concept: word for word in _words(ADJECTIVES, size)}
        self.manners = {word.concept: word for word in _words(MANNERS, size)}
        self.times = {word.concept: word for word in _words(TIMES, size)}
        self.places = {word.concept: word for word in _words(PLACES, size)}

    @cached_property
    def determiners(self) -> tuple[str, ...]:
        more = {"tiny": ("my",), "small": POSSESSIVES, "full": (*POSSESSIVES, "this", "that", *COUNTS)}
        return ("the", "a", *more[self.size])

    @cached_property
    def modals(self) -> tuple[str, ...]:
        return () if self.size == "tiny" else MODALS

    def place_forms(self, language: str) -> Iterator[tuple[str, str]]:
        """Every phrase of place: "in the garden" with "at garden", "to the garden" with "to garden"."""
        for place in self.places.values():
            cells = " / ".join(place.forms[language]).split(" > ")
            for relation, cell in zip(("at", "to"), cells, strict=False):
                for form in cell.split(" / "):
                    yield form, f"{relation} {place.concept}"

    def time_forms(self, language: str, frequency: bool) -> Iterator[tuple[str, str]]:
        """The adverbs of time, or those of frequency."""
        for word in self.times.values():
            if word.is_a("frequency") == frequency:
                for form in word.forms[language]:
                    yield form.replace("_", " "), word.concept

    def manner_forms(self, language: str) -> Iterator[tuple[str, str]]:
        for word in self.manners.values():
            for form in word.forms[language]:
                yield form.replace("_", " "), word.concept
