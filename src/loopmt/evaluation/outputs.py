"""Statistics of outputs, their length and repetitions, which show a collapse that scores may hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopmt.text.ragged import Ragged
from loopmt.translate.filters import RepetitionLimits
from loopmt.translate.protocol import Codec, Mask


@dataclass(frozen=True)
class OutputStatistics:
    """Statistics of the outputs of one direction."""

    length_ratio: float
    """Characters of the outputs per character of the references."""
    repetitive: float
    """The share of outputs with more repetitions than real text of their language."""
    sentences: int


def output_statistics(
    outputs: Sequence[str], references: Sequence[str], language: str, codec: Codec, limits: RepetitionLimits
) -> OutputStatistics:
    """Repetitions are counted in subwords."""
    return _statistics(outputs, references, limits.repetitive(Ragged.of(codec.encode(outputs, language)), language))


def text_statistics(outputs: Sequence[str], references: Sequence[str], margin: float) -> OutputStatistics:
    """The same without a vocabulary: repetitions of words, or of characters where a text has no spaces.

    The limit is what the references repeat, plus the margin.
    """
    numbers: dict[str, int] = {}

    def rows(texts: Sequence[str]) -> Ragged:
        pieces = [text.split() if " " in text.strip() else list(text) for text in texts]
        return Ragged.of([[numbers.setdefault(piece, len(numbers)) for piece in row] for row in pieces])

    limits = RepetitionLimits(lambda _: rows(references), margin)
    return _statistics(outputs, references, limits.repetitive(rows(outputs), ""))


def _statistics(outputs: Sequence[str], references: Sequence[str], repetitive: Mask) -> OutputStatistics:
    ratio = sum(map(len, outputs)) / max(sum(map(len, references)), 1)
    return OutputStatistics(ratio, float(repetitive.mean()) if len(outputs) else 0.0, len(outputs))
