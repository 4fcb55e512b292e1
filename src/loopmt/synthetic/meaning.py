"""Meanings of sentences, independent of any language.

A meaning is a small tree of frozen records whose leaves are names of concepts (`"cat"`, `"eat"`, `"past"`). It
specifies everything that any of the languages can express: `you` is familiar, formal or plural, and every person has a
gender. An ambiguous sentence has several meanings.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NounPhrase:
    """A pronoun, a name, or a determiner with a noun, an adjective and perhaps a relative clause.

    Two coordinated phrases are a phrase whose head is `and`.
    """

    head: str
    number: str
    determiner: str | None = None
    adjective: str | None = None
    relative: Relative | None = None
    first: NounPhrase | None = None
    second: NounPhrase | None = None


@dataclass(frozen=True)
class Relative:
    """A clause about the noun before it, of which the noun is the subject: who reads the book."""

    verb: str
    tense: str
    object: NounPhrase | None = None


@dataclass(frozen=True)
class Clause:
    """Who does what to whom, how, where and when. As a whole sentence it is a meaning."""

    subject: NounPhrase
    verb: str
    tense: str
    polarity: str = "positive"
    question: bool = False
    modal: str | None = None
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    adjective: str | None = None
    manner: str | None = None
    place: str | None = None
    time: str | None = None
    content: Clause | None = None
    reason: Clause | None = None


Meaning = Clause
