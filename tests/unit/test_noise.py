"""Noise on generated sources."""

from __future__ import annotations

import numpy as np
import pytest

from loopmt.config import Noise, VocabConfig
from loopmt.text.clean import Form
from loopmt.text.noise import WordNoise
from loopmt.text.ragged import UNK, Ragged
from loopmt.text.vocab import Vocab

LINES = [" ".join(f"w{number}x{place}" for place in range(10)) for number in range(200)] + ["one", ""]


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Vocab:
    config = VocabConfig.model_validate({"size": 330})
    return Vocab.learn(tmp_path_factory.mktemp("vocab"), {"en": LINES[:-1]}, config, ["en"], 1, Form())


def noised(vocab: Vocab, drop: float = 0.0, blank: float = 0.0, shuffle: int = 0, key: str = "a") -> Ragged:
    settings = Noise(drop=drop, blank=blank, shuffle=shuffle)
    return WordNoise(vocab)(Ragged.of(vocab.encode(LINES, "en")), "en", settings, key)


def words(vocab: Vocab, rows: Ragged) -> list[list[str]]:
    return [line.split() for line in vocab.decode(rows.rows(), "en")]


def test_no_noise_changes_nothing(vocab: Vocab) -> None:
    assert vocab.decode(noised(vocab).rows(), "en") == LINES


def test_words_are_dropped_whole_and_never_all(vocab: Vocab) -> None:
    found = words(vocab, noised(vocab, drop=0.9))
    assert all(set(kept) <= set(line.split()) for kept, line in zip(found, LINES, strict=True))
    assert all(found[:-1]) and found[-1] == []
    assert sum(map(len, found)) == pytest.approx(0.1 * 2000 + 0.9**10 * 200, rel=0.15)


def test_a_blanked_word_is_one_unknown(vocab: Vocab) -> None:
    rows = noised(vocab, blank=0.3)
    assert int((rows.flat == UNK).sum()) == pytest.approx(0.3 * 2000, rel=0.1)
    assert (noised(vocab, blank=1.0).lengths == [*[10] * 200, 1, 0]).all()


def test_words_move_by_so_many_places_at_most(vocab: Vocab) -> None:
    found = words(vocab, noised(vocab, shuffle=3))
    moves = np.array([[place - int(word.split("x")[1]) for place, word in enumerate(line)] for line in found[:200]])
    assert np.abs(moves).max() == 3 and (moves != 0).mean() > 0.3


def test_draws_follow_the_key(vocab: Vocab) -> None:
    one, same, other = (noised(vocab, 0.1, 0.1, 3, key).flat for key in ("a", "a", "b"))
    assert np.array_equal(one, same) and not np.array_equal(one, other)
