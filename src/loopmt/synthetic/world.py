"""A world: languages that share meanings. It draws meanings, generates and parses sentences, judges translations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from random import Random

import numpy as np

from loopmt.errors import DataError
from loopmt.synthetic import english, french, german, spanish
from loopmt.synthetic.families import Words
from loopmt.synthetic.language import Language
from loopmt.synthetic.lexicon import LANGUAGES, SIZES, Lexicon
from loopmt.synthetic.meaning import Meaning
from loopmt.synthetic.sense import Sense
from loopmt.synthetic.space import Space

BUILDERS = {"en": english.build, "fr": french.build, "es": spanish.build, "de": german.build}
CACHED_SENTENCES = 20_000


class World:
    """Languages of one size. `tiny` is for quick runs, `full` has several hundred words and every construction."""

    def __init__(self, size: str = "full", languages: Sequence[str] = LANGUAGES) -> None:
        if size not in SIZES:
            raise DataError(f'the world has no size "{size}"; it has {", ".join(SIZES)}.')
        for code in languages:
            _check_language(code, LANGUAGES)
        self.size = size
        self.languages = tuple(languages)
        self.lexicon = Lexicon(size)
        self.sense = Sense(self.lexicon)
        self._built = {code: BUILDERS[code](self.lexicon) for code in languages}
        self._read: OrderedDict[tuple[str, str], frozenset[Meaning]] = OrderedDict()

    @cached_property
    def space(self) -> Space:
        """The enumeration of all meanings."""
        return Space(self.lexicon, Words(self.lexicon, self._built), self.sense)

    def draw_meanings(self, count: int, *key: str | int) -> list[Meaning]:
        """Different meanings, determined by the key; no two share a sentence in any language."""
        return list(islice(self.space.draw(*key), count))

    def sentence(self, meaning: Meaning, language: str, generator: np.random.Generator) -> str:
        """A random sentence of the meaning."""
        random = Random(int(generator.integers(1 << 62)))
        shuffled = self._language(language).generate(meaning, lambda choices: random.sample(choices, len(choices)))
        return next(shuffled)

    def sentences(self, meaning: Meaning, language: str) -> list[str]:
        """All sentences of the meaning."""
        return sorted(set(self._language(language).generate(meaning)))

    def meanings(self, sentence: str, language: str) -> frozenset[Meaning]:
        """All meanings of the sentence; none if it is not a sentence of this world."""
        key = (sentence, language)
        if key not in self._read:
            read = self._language(language).read(sentence)
            self._read[key] = frozenset(meaning for meaning in read if self.sense.sensible(meaning))
            if len(self._read) > CACHED_SENTENCES:
                self._read.popitem(last=False)
        return self._read[key]

    def agree(self, source: str, source_language: str, translation: str, target_language: str) -> bool:
        """Whether the translation is correct: source and translation share a meaning."""
        meant = self.meanings(source, source_language)
        return not meant.isdisjoint(self.meanings(translation, target_language))

    def _language(self, code: str) -> Language:
        _check_language(code, self.languages)
        return self._built[code]


def _check_language(code: str, known: Sequence[str]) -> None:
    if code not in known:
        raise DataError(f'the world has no language "{code}"; its languages are {", ".join(known)}.')
