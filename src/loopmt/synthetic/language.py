"""A language: a grammar and spelling rules. It generates the sentences of a meaning and parses sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopmt.synthetic.grammar import Grammar, Order, Phrase, Words
from loopmt.synthetic.meaning import Clause, Meaning, NounPhrase, Relative


@dataclass(frozen=True)
class Language:
    """`spell` joins words to a sentence; `tokens` splits it into tokens with the words that each may stand for."""

    grammar: Grammar
    spell: Callable[[Words], str]
    tokens: Callable[[str], list[Words]]

    def generate(self, meaning: Meaning, order: Order = tuple) -> Iterator[str]:
        """The sentences of the meaning, each at least once; `order` orders the choices."""
        for words, _ in self.grammar.generate("SENTENCE", {"self": meaning}, order):
            yield self.spell(words)

    def read(self, sentence: str) -> set[Meaning]:
        """All meanings of the sentence by the grammar; empty if it is not a sentence."""
        readings = self.grammar.read("SENTENCE", self.tokens(sentence))
        return {meaning for words, meaning in readings if self.spell(words) == sentence}


def phrases(noun_phrase: str, relative: str = "agreement") -> dict[str, Phrase]:
    """The phrases of a grammar, with the features that noun phrases and relative clauses export."""
    return {
        "SIMPLE": Phrase(NounPhrase, noun_phrase),
        "NP": Phrase(NounPhrase, noun_phrase),
        "RELATIVE": Phrase(Relative, relative),
        "CLAUSE": Phrase(Clause),
        "SENTENCE": Phrase(Clause),
    }


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def either_case(token: str) -> Words:
    """The forms of a first word, which may be capitalized only because of its position."""
    small = token[:1].lower() + token[1:]
    return (token,) if small == token else (token, small)
