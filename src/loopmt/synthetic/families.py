"""Families of words: sets that some language does not distinguish.

German has one word for clock and watch, Spanish leaves out he, she and polite you, French has one tense where English
has two. Each such set is a family, derived from the word forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, Protocol

from loopmt.synthetic.grammar import Leaf
from loopmt.synthetic.language import Language
from loopmt.synthetic.lexicon import COUNTS, PERSONS, Lexicon, number

Member = Any
Group = tuple[Member, ...]


def families(entries: Iterable[tuple[Member, str]]) -> list[Group]:
    """Groups of members that share forms, directly or through other members."""
    parent: dict[Member, Member] = {}
    owner: dict[str, Member] = {}

    def root(member: Member) -> Member:
        while parent[member] != member:
            member = parent[member]
        return member

    for member, form in entries:
        parent.setdefault(member, member)
        parent[root(member)] = root(owner.setdefault(form, member))
    groups: dict[Member, list[Member]] = {}
    for member in parent:
        groups.setdefault(root(member), []).append(member)
    return [tuple(sorted(group)) for group in groups.values()]


class Factor(Protocol):
    """One independent choice among families, each with its members."""

    def __len__(self) -> int: ...
    def breadth(self, index: int) -> int: ...
    def pick(self, index: int, random: Random) -> Member | None: ...


class WordChoice:
    """A factor given by a list of families."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self.groups = [group for group in groups if group]

    def __len__(self) -> int:
        return len(self.groups)

    def breadth(self, index: int) -> int:
        """The number of members of a family."""
        return len(self.groups[index])

    def pick(self, index: int, random: Random) -> Member | None:
        return random.choice(self.groups[index])


class Words:
    """The families of words of a world, restricted to the arguments of a verb."""

    def __init__(self, lexicon: Lexicon, languages: Mapping[str, Language]) -> None:
        self._lexicon = lexicon
        self._languages = languages
        self._nouns: dict[tuple[frozenset[str], bool], WordChoice] = {}
        units = families(self._forms("NOUN", "head", "number"))
        self.adjectives = families(self._forms("ADJECTIVE", "adjective"))
        self.determiners = families(self._forms("DETERMINER", "determiner"))
        self.times = families(self._forms("TIME", "time") + self._forms("FREQUENCY", "time"))
        self.places = families(self._forms("PLACE", "place"))
        self.manners = families(self._forms("MANNER", "manner") + self._forms("SHORT", "manner"))
        known = {"": lexicon.determiners, "plain": [d for d in lexicon.determiners if d not in ("a", *COUNTS)]}
        self._before = {
            kind: WordChoice(tuple(d for d in group if d in some) for group in self.determiners)
            for kind, some in known.items()
        }
        self._bare = [tuple((h, n, None) for h, n in group) for group in units]
        self._described = [
            tuple((h, n, a) for h, n in group for a in more if self._fits(h, a))
            for group, more in product(units, self.adjectives)
        ]
        self._names = WordChoice(((name, "singular", None),) for name in lexicon.names)
        self._none = WordChoice([(None,)])
        self._timings = {
            (timed, modal): WordChoice(self._timing_groups(timed, modal))
            for timed in (True, False)
            for modal in (True, False)
        }
        verbs = ("MAIN", "REST", "FINITE", "LAST", "INFINITIVE", "PARTICIPLE")
        self.verbs = families(entry for leaf in verbs for entry in self._forms(leaf, "verb"))

    def _forms(self, leaf: str, *names: str) -> list[tuple[Member, str]]:
        """The forms of each concept in each language, in lower case, as sentences begin with a capital."""
        return [
            (member[0] if len(names) == 1 else member, f"{code} {form.lower()}")
            for code, language in self._languages.items()
            for form, member in _entries(language.grammar.leaves.get(leaf), names)
        ]

    def verb_groups(self, frame: str) -> list[Group]:
        wanted = {v.concept for v in self._lexicon.verbs.values() if v.frame == frame}
        return [group for group in (tuple(v for v in g if v in wanted) for g in self.verbs) if group]

    def nouns(self, kinds: frozenset[str], with_adjective: bool) -> WordChoice:
        """(head, number, adjective) families among nouns of these kinds."""
        key = (kinds, with_adjective)
        if key not in self._nouns:
            heads = {noun.concept for noun in self._lexicon.nouns.values() if noun.is_a(*kinds)}
            groups = self._described if with_adjective else self._bare
            self._nouns[key] = WordChoice(tuple(unit for unit in group if unit[0] in heads) for group in groups)
        return self._nouns[key]

    def _fits(self, head: str, adjective: str) -> bool:
        return self._lexicon.nouns[head].is_a(*self._lexicon.adjectives[adjective].kinds)

    def phrase(self, kind: str, kinds: Iterable[str]) -> tuple[Factor, Factor]:
        """Heads and determiners of a noun phrase of some kind."""
        if kind in ("noun", "adjective", "plain"):
            return self.nouns(frozenset(kinds), kind == "adjective"), self._before["plain" if kind == "plain" else ""]
        if kind == "name":
            return self._names if "person" in kinds else WordChoice(()), self._none
        if kind == "pronoun":
            return _pronouns(set(kinds)), self._none
        return WordChoice([((kind, "singular", None),)]), self._none

    def manners_of(self, verbs: Sequence[str]) -> WordChoice:
        known = self._lexicon.manners
        return WordChoice(tuple(m for m in group if known[m].is_a(*verbs)) for group in self.manners)

    def places_of(self, relation: str, *kinds: str) -> WordChoice:
        known = {f"{relation} {place.concept}" for place in self._lexicon.places.values() if place.is_a(*kinds)}
        return WordChoice(tuple(p for p in group if p in known) for group in self.places)

    def timings(self, timed: bool, modal: bool) -> WordChoice:
        return self._timings[timed, modal]

    def states(self) -> WordChoice:
        """Adjectives of temporary states."""
        known = self._lexicon.adjectives
        return WordChoice(tuple(a for a in group if known[a].is_a("~")) for group in self.adjectives)

    def _timing_groups(self, timed: bool, modal: bool) -> Iterator[Group]:
        """(tense, time) families; only the future differs from the other tenses in every language."""
        for tenses in (("present", "past"), ()) if modal else (("present", "progressive", "past"), ("future",)):
            if not timed:
                yield tuple((tense, None) for tense in tenses)
            for group in self.times if timed else ():
                yield tuple((n, t) for n in tenses for t in group if self._can_be(n, t))

    def _can_be(self, tense: str, time: str) -> bool:
        return self._lexicon.times[time].is_a(tense, "state" if tense == "present" else tense)


def _entries(leaf: Leaf | None, names: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for words, features in leaf.entries() if leaf else ():
        if all(name in features for name in names):
            yield " ".join(words), tuple(features[name] for name in names)


def _pronouns(kinds: set[str]) -> WordChoice:
    """We, and all others, whom Spanish does not always tell apart; persons, things or both."""
    things = ("it", "those") if kinds - {"person"} else ()
    persons = [p for p in PERSONS if p in things or ("person" in kinds and p not in ("it", "those"))]
    groups = ([p for p in persons if p.startswith("we") == us] for us in (True, False))
    return WordChoice(tuple((p, number(p), None) for p in group) for group in groups)
