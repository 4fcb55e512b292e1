"""The benchmark of all settings of loop stages: its table, its goals, and what it does when time is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import loop_session, loop_stages


def stage(name: str, seconds: float, tokens: float = 1000.0, **more: float | None) -> dict[str, object]:
    return {
        "stage": name,
        "seconds": seconds,
        "target_tokens": tokens,
        "tokens_per_second": tokens / seconds,
        "ms_per_update": seconds,
        "generate_share": 0.3,
        "generated_per_second": 4e6,
        "peak_gib": 4.0,
        "predicted_gib": 4.4,
        **more,
    }


FOUND = {
    "six": {
        "round": 50,
        "stages": [stage("vanilla", 9), stage("control", 10), stage("dual", 15), stage("chosen", 30, peak_gib=6.0)],
        "profile": {"rounds": [1.0, 1.0], "validations": [9.0, 0.4], "checkpoints": [9.0, 0.2]},
    },
    "shared-6": {"round": 50, "stages": [stage("control", 10, peak_gib=None), stage("dual", 20, peak_gib=None)]},
    "shared-42": {"round": 50, "stages": [stage("control", 77, 7000, peak_gib=None)]},
}


def test_goals_are_checked_on_what_was_measured() -> None:
    table = list(loop_session.rows(FOUND))
    found = {one["goal"]: one for one in loop_session.goals(table, FOUND)}
    assert found["six, dual: of_control"]["value"] == 1.5 and found["six, dual: of_control"]["met"]
    assert not found["six, chosen: of_control"]["met"], "three times the control"
    assert not found["six, chosen: peak_gib"]["met"] and found["six, dual: peak_gib"]["met"]
    assert found["six, dual: predicted of peak"]["met"] and not found["six, chosen: predicted of peak"]["met"]
    ratio = found["control: seconds per token with 42 directions of those with 6"]
    assert ratio["value"] == pytest.approx(1.1) and ratio["met"]
    assert found["six: share of validation"]["value"] == pytest.approx(0.6 / 10.6)
    assert not any("base" in goal or "shared-12" in goal for goal in found), "were not measured"
    assert next(loop_session.line(row).split()[:2] for row in table) == ["six", "vanilla"]


def test_what_does_not_end_in_time_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 539.0, 545.0])
    words = [str(tmp_path), str(tmp_path), "--out", str(tmp_path / "out"), "--only", "six", "base"]
    loop_session.main(words, lambda: next(clock))
    assert json.loads((tmp_path / "out" / "session.json").read_text())["ended"] == dict.fromkeys(
        ("six", "base"), "no time left"
    )
    assert "six: no time left" in capsys.readouterr().out


@pytest.mark.parametrize("name", loop_session.SETTINGS)
def test_every_setting_is_understood(name: str) -> None:
    words = ["corpora", "--run", "no-such-run", "--out", "out.json", *loop_session.SETTINGS[name].words.split()]
    options = loop_stages.parse(words)
    text = loop_stages.experiment(options)
    assert ('sharing = "all"' in text) == name.startswith("shared")
    pairs = text.count('= "bi.')
    directions = len(options.languages) * (len(options.languages) - 1)
    assert pairs == (len(options.languages) - 1 if options.star else directions / 2)
    assert name in ("six", "base") or directions == int(name.partition("-")[2])
