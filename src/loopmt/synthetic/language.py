"""A language: a grammar and a spelling. It says every sentence of a meaning, and reads a sentence's meanings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopmt.synthetic.grammar import Grammar, Order, Words
from loopmt.synthetic.meaning import Meaning


@dataclass(frozen=True)
class Language:
    """`spell` writes words as a sentence; `tokens` takes it apart into the words each piece may stand for."""

    grammar: Grammar
    spell: Callable[[Words], str]
    tokens: Callable[[str], list[Words]]

    def say(self, meaning: Meaning, order: Order = tuple) -> Iterator[str]:
        """The sentences of the meaning, each at least once, in the order that `order` puts choices in."""
        for words, _ in self.grammar.say("SENTENCE", {"self": meaning}, order):
            yield self.spell(words)

    def read(self, sentence: str) -> set[Meaning]:
        """Every meaning of the sentence by the grammar; empty where it is not a sentence."""
        readings = self.grammar.read("SENTENCE", self.tokens(sentence))
        return {meaning for words, meaning in readings if self.spell(words) == sentence}


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def either_case(token: str) -> Words:
    """A first word may be a capital letter's or not."""
    small = token[:1].lower() + token[1:]
    return (token,) if small == token else (token, small)
