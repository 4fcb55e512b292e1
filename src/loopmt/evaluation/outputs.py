"""Statistics of outputs, their length and repetitions, which show a collapse that scores may hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopmt.text.ragged import Ragged
from loopmt.translate.filters import RepetitionLimits
from loopmt.translate.protocol import Codec


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
    ids = Ragged.of(codec.encode(outputs, language))
    ratio = sum(map(len, outputs)) / max(sum(map(len, references)), 1)
    repetitive = float(limits.repetitive(ids, language).mean()) if len(ids) else 0.0
    return OutputStatistics(ratio, repetitive, len(ids))
