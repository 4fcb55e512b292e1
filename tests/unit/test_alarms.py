"""Alarms: counts that show a collapsed generator, and counts that do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loopmt.config import Guards, MixEntry
from loopmt.errors import ConfigError, ExternalError
from loopmt.learn.alarms import DEFAULT_GUARDS, AlarmMonitor
from loopmt.learn.routes import Route
from loopmt.path import Hop, LanguagePath
from loopmt.translate.walker import HopRecord

HOP = Hop("en", "fr")
ROUTES = [Route(number, LanguagePath.parse("en>fr>es>en"), MixEntry(path="en>fr>es>en"), 0) for number in range(2)]
HEALTHY = HopRecord(HOP, 100, {"empty": 2, "copy": 3}, 900, 850, 100, 95, 3)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of alarms, which is removed after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "own_alarms.py"
    sys.modules.pop("own_alarms", None)


def alarms(*records: HopRecord, guards: Guards = DEFAULT_GUARDS) -> list[str]:
    guard = AlarmMonitor(ROUTES, guards=guards)
    guard.add([(0, record) for record in records])
    guard.window()
    return [str(alarm) for alarm in guard.alarms()]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, ()),
        ({"dropped": {"empty": 30, "runaway": 40}}, ("70%", "dropped", "runaway")),
        ({"dropped": {"copy": 25}, "copies": 25}, ("25%", "copies")),
        ({"distinct": 10}, ("10%", "distinct")),
        ({"repetitive": 11}, ("11%", "repeat")),
        ({"offered": 20, "dropped": {"empty": 20}}, ()),
        ({"distinct": 5, "distinct_inputs": 6}, ()),
        ({"distinct": 200, "distinct_inputs": 50}, ()),
    ],
    ids=[
        "healthy",
        "dropped",
        "copies",
        "one sentence",
        "repetition",
        "too few to judge",
        "a small corpus",
        "several samples",
    ],
)
def test_alarms(changes: dict[str, object], what: tuple[str, ...]) -> None:
    found = alarms(replace(HEALTHY, **changes))  # type: ignore[arg-type]
    assert len(found) == bool(what)
    assert not what or all(fact in found[0] for fact in ("path en>fr>es>en", "hop en>fr", *what))


@pytest.mark.parametrize(
    ("settings", "changes", "what"),
    [
        ({"alarms": ["distinct"]}, {"copies": 90}, None),
        ({"alarms": []}, {"distinct": 1}, None),
        ({"alarms": ["distinct", "copies"]}, {"copies": 90, "distinct": 1}, "distinct"),
        ({"most_copies": 0.95}, {"copies": 90}, None),
        ({"most_dropped": 0.01}, {}, "dropped"),
        ({"fewest_distinct": 1.5}, {}, "distinct"),
        ({"most_repetitive": 0.6}, {"repetitive": 50}, None),
        ({"fewest_rows": 101}, {"distinct": 1}, None),
    ],
)
def test_alarms_are_chosen_and_have_settings(
    settings: dict[str, object], changes: dict[str, int], what: str | None
) -> None:
    found = alarms(replace(HEALTHY, **changes), guards=Guards.model_validate(settings))  # type: ignore[arg-type]
    assert len(found) == bool(what) and (what is None or what in found[0])


def test_an_alarm_may_be_an_external_function(own: Path) -> None:
    own.write_text(
        "def short(counts, guards):\n    return f'{counts.offered_tokens}!' if counts.kept_tokens else None\n"
    )
    guards = Guards(alarms=["own_alarms:short"])
    assert alarms(HEALTHY, guards=guards) == ["path en>fr>es>en, hop en>fr: 900!"]
    assert alarms(replace(HEALTHY, kept_tokens=0), guards=guards) == []


def test_alarms_that_fail(own: Path) -> None:
    own.write_text("def wrong(counts, guards):\n    return 3\ndef broken(counts, guards):\n    return counts.nothing\n")
    with pytest.raises(ExternalError, match=r'"own_alarms:wrong" returned 3\..*None'):
        alarms(HEALTHY, guards=Guards(alarms=["own_alarms:wrong"]))
    with pytest.raises(ExternalError, match=r'"own_alarms:broken" failed: AttributeError.*line 4'):
        alarms(HEALTHY, guards=Guards(alarms=["own_alarms:broken"]))
    with pytest.raises(ConfigError, match=r'alarm "destinct".*"distinct".*copies.*repetition'):
        alarms(HEALTHY, guards=Guards(alarms=["destinct"]))
    with pytest.raises(ConfigError, match="cannot be a program"):
        alarms(HEALTHY, guards=Guards(alarms=["command:true"]))


def test_counts_of_an_older_version_have_no_repetition() -> None:
    guard = AlarmMonitor(ROUTES)
    guard.add([(0, HEALTHY)])
    state = guard.state()
    for counts in state["window"]:
        del counts["repetitive"]
    resumed = AlarmMonitor(ROUTES, state)
    resumed.add([(0, replace(HEALTHY, repetitive=50))])
    resumed.window()
    assert "25%" in str(resumed.alarms()[0])


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


def test_a_rare_path_is_checked_once_it_has_enough_rows() -> None:
    few = replace(HEALTHY, offered=25, dropped={"empty": 25})
    guard, alarms = AlarmMonitor(ROUTES), []
    for _ in range(6):
        guard.add([(0, few)])
        assert [watch.offered for watch in guard.window()] == [25]
        alarms.append(len(guard.alarms()))
        guard = AlarmMonitor(ROUTES, guard.state())
    assert alarms == [0, 0, 1, 0, 0, 1]


def test_removed_routes_raise_no_alarm() -> None:
    guard = AlarmMonitor(ROUTES)
    guard.add([(0, replace(HEALTHY, distinct=1)), (1, replace(HEALTHY, distinct=1))])
    guard.remove([0])
    guard.window()
    assert [alarm.route for alarm in guard.alarms()] == [1]
