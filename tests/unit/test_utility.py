"""Utilities of candidates."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from helpers.facts import refused
from loopmt.errors import ConfigError, ExternalError
from loopmt.translate.utility import UTILITIES, best_of, chrf_table

WORDS = ["the", "cat", "sat", "on", "a", "mat", "with", "some", "dogs", "and", "tiny", "été", "ça", "ü", "猫"]


def test_chrf_is_that_of_sacrebleu() -> None:
    draw = random.Random(1)
    texts = [" ".join(draw.choices(WORDS, k=length)) for length in range(1, 13)] + ["a", "ab", "aaaa aaaa"]
    expected = [[CHRF().sentence_score(one, [other]).score for other in texts] for one in texts]
    assert chrf_table(texts) == pytest.approx(np.array(expected), abs=1e-9)
    assert chrf_table(["", "cat"]).tolist() == [[0, 0], [0, pytest.approx(100)]]


def test_the_best_allowed_candidate_of_each_sentence() -> None:
    values, counts = np.array([1.0, 3, 2, 5, 4, 6]), np.array([3, 1, 2])
    allowed = np.array([1, 0, 1, 0, 0, 0], dtype=np.bool_)
    assert best_of(values, counts, np.ones(6, dtype=np.bool_)).tolist() == [1, 3, 5]
    assert best_of(values, counts, allowed).tolist() == [2, 3, 4], "where none is allowed, any: the filter drops it"


def test_unknown_names_and_wrong_answers() -> None:
    with refused(ConfigError, '"consenus"', '"consensus"'):
        UTILITIES.check("consenus")
    with pytest.raises(ExternalError, match="builtins:len"):
        UTILITIES.find("builtins:len")(None)  # type: ignore[arg-type]
