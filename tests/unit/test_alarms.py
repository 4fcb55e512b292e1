"""Alarms: what a collapsed generator looks like in counts, and what is no collapse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loopmt.config import MixEntry
from loopmt.config import Vocab as VocabConfig
from loopmt.learn.alarms import AlarmMonitor
from loopmt.learn.routes import Route
from loopmt.path import Hop, LanguagePath
from loopmt.text.clean import Form
from loopmt.text.ragged import Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.filters import LanguageFrequencies, SyntheticTextFilter
from loopmt.translate.walker import HopRecord

HOP = Hop("en", "fr")
ROUTES = [Route(number, LanguagePath.parse("en>fr>es>en"), MixEntry(path="en>fr>es>en"), 0) for number in range(2)]
HEALTHY = HopRecord(HOP, 100, {"empty": 2, "copy": 3}, 900, 850, 100, 95, 3)


def alarms(*records: HopRecord) -> list[str]:
    guard = AlarmMonitor(ROUTES)
    guard.add([(0, record) for record in records])
    guard.window()
    return [str(alarm) for alarm in guard.alarms()]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, None),
        ({"dropped": {"empty": 30, "runaway": 40}}, "70% of what it says is dropped, most for: runaway"),
        ({"dropped": {"copy": 25}, "copies": 25}, "25% of what it says copies its input"),
        ({"distinct": 10}, "it says only 10% as many distinct sentences as it reads"),
        ({"offered": 20, "dropped": {"empty": 20}}, None),
        ({"distinct": 5, "distinct_inputs": 6}, None),
        ({"distinct": 200, "distinct_inputs": 50}, None),
    ],
    ids=["healthy", "dropped", "copies", "one sentence", "too few to judge", "a small corpus", "several samples"],
)
def test_alarms(changes: dict[str, object], what: str | None) -> None:
    found = alarms(replace(HEALTHY, **changes))  # type: ignore[arg-type]
    assert found == ([f"path en>fr>es>en, hop en>fr: {what}"] if what else [])


def test_every_hop_of_every_path_is_watched_by_itself() -> None:
    second = replace(HEALTHY, hop=Hop("fr", "es"), dropped={"length": 80})
    guard = AlarmMonitor(ROUTES)
    guard.add([(0, HEALTHY), (0, second), (1, HEALTHY), (1, replace(HEALTHY, hop=Hop("fr", "es")))])
    assert [(watch.route, watch.hop) for watch in guard.window()] == [
        (0, "en>fr"),
        (0, "fr>es"),
        (1, "en>fr"),
        (1, "fr>es"),
    ]
    assert [(alarm.route, alarm.hop) for alarm in guard.alarms()] == [(0, "fr>es")]
    assert guard.alarms() == [], "each is raised once"
    assert guard.window() == [], "a window begins empty"


def test_a_window_adds_up_and_survives_a_checkpoint() -> None:
    half = replace(HEALTHY, offered=40, dropped={"empty": 30}, distinct_inputs=40, distinct=40)
    guard = AlarmMonitor(ROUTES)
    guard.add([(0, half)])
    resumed = AlarmMonitor(ROUTES, guard.state())
    resumed.add([(0, half)])
    (watch,) = resumed.window()
    assert (watch.offered, watch.dropped, watch.distinct) == (80, {"empty": 60}, 80)
    assert len(resumed.alarms()) == 1


def test_a_path_that_is_seldom_walked_is_judged_once_enough_was_seen() -> None:
    few = replace(HEALTHY, offered=25, dropped={"empty": 25})
    guard, alarms = AlarmMonitor(ROUTES), []
    for _ in range(6):
        guard.add([(0, few)])
        assert [watch.offered for watch in guard.window()] == [25]
        alarms.append(len(guard.alarms()))
        guard = AlarmMonitor(ROUTES, guard.state())
    assert alarms == [0, 0, 1, 0, 0, 1]


def test_what_is_forgotten_raises_no_alarm() -> None:
    guard = AlarmMonitor(ROUTES)
    guard.add([(0, replace(HEALTHY, distinct=1)), (1, replace(HEALTHY, distinct=1))])
    guard.forget([0])
    guard.window()
    assert [alarm.route for alarm in guard.alarms()] == [1]


# -- the sieve -----------------------------------------------------------------------------------------------------


def test_what_is_dropped_and_why() -> None:
    before = Ragged.of([[5, 6, 7], [5, 6, 7], [5, 6, 7], [5, 6], [5] * 30, [5, 6, 7]])
    said = Ragged.of([[8, 9], [], [5, 6, 7], [8] * 17, [8, 9], [8] * 20])
    ended = np.array([True, True, True, True, True, False])
    reasons = SyntheticTextFilter(longest=20)(before, said, ended, HOP)
    assert {reason: np.flatnonzero(bad).tolist() for reason, bad in reasons.items()} == {
        "empty": [1],
        "runaway": [5],
        "copy": [2],
        "length": [3, 4, 5],
    }


def test_the_wrong_language_is_noticed() -> None:
    samples = {"en": Ragged.of([[10, 11, 12, 13]] * 20), "fr": Ragged.of([[20, 21, 22, 13]] * 20)}
    frequencies = LanguageFrequencies.learn(samples, 30)
    said = Ragged.of([[20, 21, 22, 20], [10, 11, 12, 10], [10, 11], [13, 13, 13, 13]])
    assert frequencies.foreign(said, "fr").tolist() == [False, True, False, False], "short and shared text is let by"
    assert frequencies.foreign(said, "en").tolist() == [True, False, False, False]
    assert not frequencies.foreign(said, "de").any(), "a language without text of its own is not judged"
    assert frequencies.foreign(Ragged.of([]), "fr").tolist() == []
    reasons = SyntheticTextFilter(50, frequencies)(Ragged.of([[1]] * 4), said, np.ones(4, dtype=np.bool_), HOP)
    assert reasons["language"].tolist() == [False, True, False, False]


def test_a_copy_is_noticed_between_two_vocabularies(tmp_path: Path) -> None:
    texts = {"en": ["the cat sees the old dog ."] * 9, "fr": ["le chat voit le vieux chien ."] * 9}
    vocab = Vocab.learn(tmp_path, texts, VocabConfig(size=320, sharing="language"), ["en", "fr"], 1, Form())
    lines = ["the cat", "où 日本", "le chat", ""]
    before = Ragged.of(vocab.encode(lines, "en"))
    said = Ragged.of(vocab.encode(["the cat", "où 日本", "la chat", "le chat"], "fr"))
    spelling = {language: vocab.spelling(language) for language in vocab.languages}
    reasons = SyntheticTextFilter(50, spelling=spelling)(before, said, np.ones(4, dtype=np.bool_), HOP)
    assert reasons["copy"].tolist() == [True, True, False, False]
    same_ids = SyntheticTextFilter(50, spelling=spelling)(before, before, np.ones(4, dtype=np.bool_), HOP)
    assert not same_ids["copy"][0], "the same ids are other words in another vocabulary"
