"""Statistics of outputs that need no vocabulary."""

from __future__ import annotations

import pytest

from loopmt.evaluation.outputs import text_statistics

PLAIN = ["the old man sees a red house by the sea", "one of the girls has read every book that we own"]


@pytest.mark.parametrize("separator", [" ", ""])
def test_repetitions_are_found_with_and_without_spaces(separator: str) -> None:
    """Text without spaces is counted in characters."""
    real = [text.replace(" ", separator) for text in PLAIN]
    endless = separator.join(["the", "red", "house"] * 20)
    found = text_statistics([endless, real[1]], real, 0.3)
    assert (found.repetitive, found.sentences) == (0.5, 2) and found.length_ratio > 1
    assert text_statistics(real, real, 0.3).repetitive == 0


def test_no_outputs_have_no_repetitions() -> None:
    assert text_statistics([], [], 0.3).repetitive == 0
