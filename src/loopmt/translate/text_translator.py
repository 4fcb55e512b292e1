"""Translators that are not ours: they have a vocabulary of their own, so they are spoken to in text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from loopmt.config import Generate
from loopmt.path import Hop
from loopmt.text.ragged import Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.beam_search import Hypotheses
from loopmt.translate.limits import DecodeLimits


@dataclass(frozen=True)
class TextHypothesis:
    """A translation as text, and whether it ended by itself."""

    text: str
    ended: bool


class TextTranslator(Protocol):
    """A frozen translator of one direction."""

    def say(self, texts: Sequence[str], how: Generate, limits: DecodeLimits, seed: int) -> list[TextHypothesis]:
        """One translation each, in order; the same for the same seed."""


def generate_through_text(
    foreign: TextTranslator, vocab: Vocab, hop: Hop, sources: Ragged, how: Generate, limits: DecodeLimits, seed: int
) -> Hypotheses:
    """From our ids through its text back to our ids. How likely it finds what it said is not known."""
    generated = foreign.say(vocab.decode(sources.rows(), hop.source), how, limits, seed)
    ids = vocab.encode([one.text for one in generated], hop.target)
    return Hypotheses(
        Ragged.of(ids), np.full(len(ids), np.nan), np.array([one.ended for one in generated], dtype=np.bool_)
    )
