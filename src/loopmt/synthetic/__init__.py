"""Built-in languages with exact truth: a small grammar of real English, French, Spanish and German.

A `World` draws meanings, says all sentences of a meaning in each language, and reads the meanings of a sentence,
so that whether a translation is right is decided and not estimated.
"""

from __future__ import annotations

from loopmt.synthetic.corpora import write_corpora
from loopmt.synthetic.lexicon import LANGUAGES, SIZES
from loopmt.synthetic.meaning import Clause, Meaning, NounPhrase, Relative
from loopmt.synthetic.world import World

__all__ = ["LANGUAGES", "SIZES", "Clause", "Meaning", "NounPhrase", "Relative", "World", "write_corpora"]
