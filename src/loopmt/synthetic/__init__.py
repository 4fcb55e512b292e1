"""Built-in languages with exact truth: a small grammar of real English, French, Spanish and German.

A `World` draws meanings, generates all sentences of a meaning in each language, and parses a sentence into its
meanings. So the correctness of a translation is computed exactly.
"""

from __future__ import annotations

from loopmt.synthetic.corpora import write_corpora
from loopmt.synthetic.lexicon import LANGUAGES, SIZES
from loopmt.synthetic.meaning import Clause, Meaning, NounPhrase, Relative
from loopmt.synthetic.world import World

__all__ = ["LANGUAGES", "SIZES", "Clause", "Meaning", "NounPhrase", "Relative", "World", "write_corpora"]
