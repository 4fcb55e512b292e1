"""One grammar, both ways: the same rules say a meaning and read a sentence.

A *leaf* is a table of forms, each with features (`cats`: noun cat, number plural). A *phrase* is a set of
*rules*, sequences of slots whose features must agree: "DET ADJ? NOUN" shares number and gender because its
slots call them by the same names. Reading walks the rules over the words and collects features; saying
starts from the features of a meaning and looks for words. What one direction accepts, the other produces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

Features = dict[str, Any]
Words = tuple[str, ...]
Said = tuple[Words, Features]
Read = tuple[int, Words, Features]
Order = Callable[[Sequence[Any]], Sequence[Any]]

CACHED_PHRASES = 20_000


def unify(one: Features, other: Mapping[str, Any]) -> Features | None:
    """Both together, or None where they disagree."""
    for name, value in other.items():
        if name in one and one[name] != value:
            return None
    return {**one, **other}


class Leaf:
    """A table of forms with their features, found by first word or by the concept they express."""

    def __init__(self, key: str, entries: Iterable[tuple[str, Features]], is_head: bool = False) -> None:
        self.is_head = is_head
        self.key = key
        self._by_word: dict[str, list[Said]] = {}
        self._by_concept: dict[Any, list[Said]] = {}
        self.features: set[str] = set()
        for form, features in entries:
            self.features.update(features)
            said = (tuple(form.split()), features)
            self._by_concept.setdefault(features.get(key), []).append(said)
            self._by_word.setdefault(said[0][0] if said[0] else "", []).append(said)

    def entries(self) -> Iterator[Said]:
        for group in self._by_concept.values():
            yield from group

    def read(self, tokens: Sequence[Words], start: int) -> Iterator[Read]:
        """The forms that stand at `start`, each with where it ends."""
        for words, features in self._by_word.get("", ()):
            yield start, words, features
        for token in tokens[start] if start < len(tokens) else ():
            for words, features in self._by_word.get(token, ()):
                end = start + len(words)
                if end == start + 1 or (
                    end <= len(tokens) and all(w in t for w, t in zip(words, tokens[start:end], strict=True))
                ):
                    yield end, words, features

    def say(self, bound: Features) -> list[Said]:
        """The forms that agree with the features known so far."""
        if self.key in bound:
            candidates: Iterable[Said] = self._by_concept.get(bound[self.key], ())
        else:
            candidates = self.entries()
        return [said for said in candidates if all(bound.get(n, v) == v for n, v in said[1].items())]


@dataclass(frozen=True, eq=False)
class Slot:
    """A place for a leaf or a phrase in a rule; `names` maps its features to the rule's (None: all alike)."""

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
    """A sequence of slots and words, with what it says by itself and the order in which to say the slots."""

    slots: tuple[str, ...]
    constants: Features
    needs: tuple[str, ...]
    plan: tuple[int, ...]

    def fits(self, bound: Features) -> bool:
        """Whether what is known neither contradicts the rule nor lacks what its slots express."""
        return all(bound.get(n, v) == v for n, v in self.constants.items()) and not any(
            bound.get(name, name) is None for name in self.needs
        )


class Phrase:
    """A record of the meaning, and the rules that express it.

    A rule is written "SUBJ FIN OBJ? now": slots in capitals, words as they are, `?` after what may be absent.
    A field of the record that no slot of the rule fills has its default.
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
        """The rules whose constants do not contradict what is known (found once per kind of meaning)."""
        kind = tuple(
            "?" if name not in bound else bound[name] if bound[name] in values else "other"
            for name, values in self._values.items()
        )
        if kind not in self._known:
            self._known[kind] = [rule for rule in self._rules if rule.fits(bound)]
        return self._known[kind]

    def close(self, features: Features) -> Features | None:
        """The record built from its fields, with the exported features; None where a field is missing."""
        try:
            record = self.record(**{name: features[name] for name in self.defaults})
        except KeyError:
            return None
        return {"self": record} | {name: features[name] for name in self.exports if name in features}

    def open(self, bound: Features) -> Features:
        """The fields of the record that is to be said, beside the other known features."""
        record = bound.get("self")
        known = {name: value for name, value in bound.items() if name != "self"}
        return known if record is None else known | {name: getattr(record, name) for name in self.defaults}


class Grammar:
    """Leaves, phrases and slots of one language."""

    def __init__(self, leaves: Mapping[str, Leaf], phrases: Mapping[str, Phrase], slots: Mapping[str, Slot]) -> None:
        self.leaves = leaves
        self.phrases = phrases
        self.slots = slots
        self._said: dict[tuple[Any, ...], list[Said]] = {}

    def add(self, phrase: str, text: str, **constants: Any) -> None:
        """Add a rule in all its ways to leave optional parts out, but for those that say one thing twice."""
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
        """The feature that a slot cannot do without."""
        if name not in self.slots:
            return ()
        slot = self.slots[name]
        inner = self.leaves[slot.category].key if slot.category in self.leaves else "self"
        return (inner if slot.names is None else slot.names[inner],)

    def say(self, phrase: str, bound: Features, order: Order = tuple) -> Iterator[Said]:
        """Every way to say the phrase with these features, in the order that `order` puts choices in."""
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
        """Phrases and heads first: they decide what the rest agrees with."""
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
        for words, found in order(self._say_slot(name, features)):
            agreed = unify(features, found)
            if agreed is not None:
                for parts, ended in self._fill(rule, plan[1:], agreed, order):
                    yield parts | {plan[0]: words}, ended

    def _say_slot(self, name: str, features: Features) -> list[Said]:
        if name not in self.slots:
            return [((name,), {})]
        slot = self.slots[name]
        bound = slot.inward(features)
        if slot.category in self.leaves:
            said = self.leaves[slot.category].say(bound)
        else:
            said = self._say_phrase(slot.category, bound)
        outward = ((words, slot.outward(found)) for words, found in said)
        return [(words, found) for words, found in outward if found is not None]

    def _say_phrase(self, category: str, bound: Features) -> list[Said]:
        key = (category, *sorted(bound.items(), key=lambda item: item[0]))
        if key not in self._said:
            if len(self._said) >= CACHED_PHRASES:
                self._said.clear()
            self._said[key] = list(self.say(category, bound))
        return self._said[key]

    def read(self, phrase: str, tokens: Sequence[Words]) -> Iterator[tuple[Words, Any]]:
        """Every reading of all the tokens, each token a tuple of the words it may stand for."""
        for end, words, features in Reader(self, tokens).phrase(phrase, 0):
            if end == len(tokens):
                yield words, features["self"]


class Reader:
    """One sentence being read; remembers what stands where."""

    def __init__(self, grammar: Grammar, tokens: Sequence[Words]) -> None:
        self._grammar = grammar
        self._tokens = tokens
        self._phrases: dict[tuple[str, int], list[Read]] = {}
        self._slots: dict[tuple[str, int], list[Read]] = {}

    def phrase(self, name: str, start: int) -> list[Read]:
        """What readings the phrase has from `start` on."""
        key = (name, start)
        if key not in self._phrases:
            self._phrases[key] = []  # a phrase does not begin with itself
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
