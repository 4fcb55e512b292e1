"""A reversible feature grammar: the same rules generate the sentences of a meaning and parse sentences.

A *leaf* is a table of forms, each with features (`cats`: noun cat, number plural). A *phrase* is a set of *rules*,
sequences of slots whose features must agree: "DET ADJ? NOUN" shares number and gender because its slots use the same
names for them. Parsing matches rules with words and collects features; generation starts from the features of a
meaning and looks up words. Both directions accept the same sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

Features = dict[str, Any]
Words = tuple[str, ...]
Realization = tuple[Words, Features]
Read = tuple[int, Words, Features]
Order = Callable[[Sequence[Any]], Sequence[Any]]

CACHED_PHRASES = 20_000


def unify(one: Features, other: Mapping[str, Any]) -> Features | None:
    """The union of both, or None if they disagree."""
    for name, value in other.items():
        if name in one and one[name] != value:
            return None
    return {**one, **other}


class Leaf:
    """A table of forms with their features, indexed by first word and by concept."""

    def __init__(self, key: str, entries: Iterable[tuple[str, Features]], is_head: bool = False) -> None:
        self.is_head = is_head
        self.key = key
        self._by_word: dict[str, list[Realization]] = {}
        self._by_concept: dict[Any, list[Realization]] = {}
        self.features: set[str] = set()
        for form, features in entries:
            self.features.update(features)
            words = tuple(form.split())
            self._by_concept.setdefault(features.get(key), []).append((words, features))
            self._by_word.setdefault(words[0] if words else "", []).append((words, features))

    def entries(self) -> Iterator[Realization]:
        for group in self._by_concept.values():
            yield from group

    def read(self, tokens: Sequence[Words], start: int) -> Iterator[Read]:
        """The forms at position `start`, each with its end."""
        for words, features in self._by_word.get("", ()):
            yield start, words, features
        for token in tokens[start] if start < len(tokens) else ():
            for words, features in self._by_word.get(token, ()):
                end = start + len(words)
                if end == start + 1 or (
                    end <= len(tokens) and all(w in t for w, t in zip(words, tokens[start:end], strict=True))
                ):
                    yield end, words, features

    def generate(self, bound: Features) -> list[Realization]:
        """The forms that agree with the known features."""
        if self.key in bound:
            candidates: Iterable[Realization] = self._by_concept.get(bound[self.key], ())
        else:
            candidates = self.entries()
        return [one for one in candidates if all(bound.get(n, v) == v for n, v in one[1].items())]


@dataclass(frozen=True, eq=False)
class Slot:
    """A leaf or phrase in a rule; `names` maps its features to the rule's (None: the same names)."""

    category: str
    names: Mapping[str, str] | None = None
    fixed: Features = field(default_factory=dict)

    def outward(self, features: Features) -> Features | None:
        agreed = unify(features, self.fixed)
        if agreed is None or self.names is None:
            return agreed
        return {o: agreed[i] for i, o in self.names.items() if i in agreed}

    def inward(self, features: Features) -> Features:
        if self.names is None:
            return {**features, **self.fixed}
        return {i: features[o] for i, o in self.names.items() if o in features} | self.fixed


@dataclass(frozen=True, eq=False)
class GrammarRule:
    """A sequence of slots and words, with its own features and the order in which slots are generated."""

    slots: tuple[str, ...]
    constants: Features
    needs: tuple[str, ...]
    plan: tuple[int, ...]

    def fits(self, bound: Features) -> bool:
        """Whether the known features agree with the rule and include those that its slots express."""
        return all(bound.get(n, v) == v for n, v in self.constants.items()) and not any(
            bound.get(name, name) is None for name in self.needs
        )


class Phrase:
    """A type of record in a meaning, and the rules that express it.

    A rule is written "SUBJ FIN OBJ? now": slots in capitals, literal words, and `?` after optional parts. Fields of the
    record that no slot fills have their default.
    """

    def __init__(self, record: type, exports: str = "") -> None:
        self.record = record
        self.defaults = {f.name: f.default for f in fields(record)}
        self.exports = tuple(exports.split())
        self.trie: dict[str, Any] = {}
        self._rules: list[GrammarRule] = []
        self._values: dict[str, set[Any]] = {}
        self._known: dict[tuple[Any, ...], list[GrammarRule]] = {}

    def add(self, rule: GrammarRule) -> None:
        self._rules.append(rule)
        for name, value in rule.constants.items():
            self._values.setdefault(name, set()).add(value)
        node = self.trie
        for slot in rule.slots:
            node = node.setdefault(slot, {})
        node.setdefault("", []).append(rule.constants)

    def rules_for(self, bound: Features) -> list[GrammarRule]:
        """The rules that fit the known features, cached by the features that the rules test."""
        kind = tuple(
            "?" if name not in bound else bound[name] if bound[name] in values else "other"
            for name, values in self._values.items()
        )
        if kind not in self._known:
            self._known[kind] = [rule for rule in self._rules if rule.fits(bound)]
        return self._known[kind]

    def close(self, features: Features) -> Features | None:
        """The record built from its fields, with the exported features; None if a field is missing."""
        try:
            record = self.record(**{name: features[name] for name in self.defaults})
        except KeyError:
            return None
        return {"self": record} | {name: features[name] for name in self.exports if name in features}

    def open(self, bound: Features) -> Features:
        """The fields of the record to generate, and the other known features."""
        record = bound.get("self")
        known = {name: value for name, value in bound.items() if name != "self"}
        return known if record is None else known | {name: getattr(record, name) for name in self.defaults}


class Grammar:
    """Leaves, phrases and slots of one language."""

    def __init__(self, leaves: Mapping[str, Leaf], phrases: Mapping[str, Phrase], slots: Mapping[str, Slot]) -> None:
        self.leaves = leaves
        self.phrases = phrases
        self.slots = slots
        self._cache: dict[tuple[Any, ...], list[Realization]] = {}

    def add(self, phrase: str, text: str, **constants: Any) -> None:
        """Add a rule in all variants of its optional parts, except variants that express a feature twice."""
        options = [(p[:-1], "") if p.endswith("?") and p != "?" else (p,) for p in text.split()]
        optional = {option[0] for option in options if len(option) == 2}
        defaults = self.phrases[phrase].defaults
        for choice in product(*options):
            slots = tuple(slot for slot in choice if slot)
            needs = [name for slot in slots for name in self._expresses(slot) if name in defaults]
            twice = {slot for slot in slots for name in self._expresses(slot) if needs.count(name) > 1}
            if not optional & twice:
                taken = set(constants).union(*(self._fills(slot) for slot in slots))
                rest = {name: default for name, default in defaults.items() if name not in taken}
                self.phrases[phrase].add(GrammarRule(slots, {**rest, **constants}, tuple(needs), self._plan(slots)))

    def _fills(self, slot: str) -> Iterable[str]:
        if slot not in self.slots:
            return ()
        names = self.slots[slot].names
        return self.leaves[self.slots[slot].category].features if names is None else names.values()

    def _expresses(self, name: str) -> Iterable[str]:
        """The feature that a slot requires."""
        if name not in self.slots:
            return ()
        slot = self.slots[name]
        inner = self.leaves[slot.category].key if slot.category in self.leaves else "self"
        return (inner if slot.names is None else slot.names[inner],)

    def generate(self, phrase: str, bound: Features, order: Order = tuple) -> Iterator[Realization]:
        """All realizations of the phrase with these features; `order` orders the choices."""
        record = self.phrases[phrase]
        features = record.open(bound)
        for rule in order(record.rules_for(features)):
            started = unify(features, rule.constants)
            if started is not None:
                for parts, ended in self._fill(rule, rule.plan, started, order):
                    words = tuple(w for i in range(len(rule.slots)) for w in parts[i])
                    closed = record.close(ended)
                    if closed is not None:
                        yield words, {**bound, **closed}

    def _plan(self, slots: Sequence[str]) -> tuple[int, ...]:
        """The order of generation: phrases and heads first, with which the other slots agree."""
        return tuple(sorted(range(len(slots)), key=lambda i: (self._rank(slots[i]), i)))

    def _rank(self, slot: str) -> int:
        if slot not in self.slots:
            return 0
        category = self.slots[slot].category
        return 2 if category in self.leaves and not self.leaves[category].is_head else 1

    def _fill(
        self, rule: GrammarRule, plan: Sequence[int], features: Features, order: Order
    ) -> Iterator[tuple[dict[int, Words], Features]]:
        if not plan:
            yield {}, features
            return
        name = rule.slots[plan[0]]
        for words, found in order(self._generate_slot(name, features)):
            agreed = unify(features, found)
            if agreed is not None:
                for parts, ended in self._fill(rule, plan[1:], agreed, order):
                    yield parts | {plan[0]: words}, ended

    def _generate_slot(self, name: str, features: Features) -> list[Realization]:
        if name not in self.slots:
            return [((name,), {})]
        slot = self.slots[name]
        bound = slot.inward(features)
        if slot.category in self.leaves:
            found = self.leaves[slot.category].generate(bound)
        else:
            found = self._generate_phrase(slot.category, bound)
        outward = ((words, slot.outward(inner)) for words, inner in found)
        return [(words, features) for words, features in outward if features is not None]

    def _generate_phrase(self, category: str, bound: Features) -> list[Realization]:
        key = (category, *sorted(bound.items(), key=lambda item: item[0]))
        if key not in self._cache:
            if len(self._cache) >= CACHED_PHRASES:
                self._cache.clear()
            self._cache[key] = list(self.generate(category, bound))
        return self._cache[key]

    def read(self, phrase: str, tokens: Sequence[Words]) -> Iterator[tuple[Words, Any]]:
        """All parses of the tokens; each token is a tuple of the words that it may stand for."""
        for end, words, features in Parser(self, tokens).phrase(phrase, 0):
            if end == len(tokens):
                yield words, features["self"]


class Parser:
    """A parser of one sentence with memoization."""

    def __init__(self, grammar: Grammar, tokens: Sequence[Words]) -> None:
        self._grammar = grammar
        self._tokens = tokens
        self._phrases: dict[tuple[str, int], list[Read]] = {}
        self._slots: dict[tuple[str, int], list[Read]] = {}

    def phrase(self, name: str, start: int) -> list[Read]:
        """All parses of the phrase from `start` on."""
        key = (name, start)
        if key not in self._phrases:
            self._phrases[key] = []  # phrases are not left-recursive
            phrase = self._grammar.phrases[name]
            self._phrases[key] = list(self._walk(phrase, phrase.trie, start, (), {}))
        return self._phrases[key]

    def _walk(self, phrase: Phrase, node: dict[str, Any], at: int, words: Words, features: Features) -> Iterator[Read]:
        for name, below in node.items():
            if name:
                for end, more, found in self._slot(name, at):
                    agreed = unify(features, found)
                    if agreed is not None:
                        yield from self._walk(phrase, below, end, words + more, agreed)
            else:
                for constants in below:
                    agreed = unify(features, constants)
                    closed = None if agreed is None else phrase.close(agreed)
                    if closed is not None:
                        yield at, words, closed

    def _slot(self, name: str, at: int) -> list[Read]:
        key = (name, at)
        if key not in self._slots:
            self._slots[key] = list(self._read_slot(name, at))
        return self._slots[key]

    def _read_slot(self, name: str, at: int) -> Iterator[Read]:
        grammar = self._grammar
        if name not in grammar.slots:
            if at < len(self._tokens) and name in self._tokens[at]:
                yield at + 1, (name,), {}
            return
        slot = grammar.slots[name]
        leaf = grammar.leaves.get(slot.category)
        for end, words, features in leaf.read(self._tokens, at) if leaf else self.phrase(slot.category, at):
            outward = slot.outward(features)
            if outward is not None:
                yield end, words, outward
