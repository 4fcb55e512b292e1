"""What a plan predicted, set against what happened."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.toy import EXPERIMENT
from loopmt.config import loads
from loopmt.planning.forecast import VERDICTS
from loopmt.planning.predicted import hit_rate, is_hit, outcome_of, predicted_rows

HEAD = {"rule": "exact", "stage": "vanilla", "pilot_updates": 8}  # of a plan


@pytest.mark.parametrize(
    ("verdict", "hits"),
    [
        ("helps", {"gained": True, "no difference": False, "lost": False}),
        ("may help", {"gained": None, "no difference": None, "lost": None}),
        ("no signal", {"gained": False, "no difference": True, "lost": True}),
        ("likely harmful", {"gained": False, "no difference": False, "lost": True}),
    ],
)
def test_what_counts_as_a_hit(verdict: str, hits: dict[str, bool | None]) -> None:
    assert verdict in VERDICTS
    assert {outcome: is_hit(verdict, outcome) for outcome in hits} == hits


def test_outcomes_are_those_of_the_interval() -> None:
    gains = ([0.02, 0.01, 0.03], [0.02, -0.01, 0.05], [-0.02, -0.03, -0.01])
    assert [outcome_of(list(gain)) for gain in gains] == ["gained", "no difference", "lost"]


def test_abstentions_do_not_count() -> None:
    def row(verdict: str, outcome: str, predicted: float, gain: float) -> dict[str, Any]:
        head = {"verdict": verdict, "outcome": outcome, "hit": is_hit(verdict, outcome)}
        return {**head, "predicted": [predicted, None, None], "observed": [gain, None, None]}

    rows = [
        row("helps", "gained", 0.1, 0.2),
        row("helps", "no difference", 0.1, -0.01),
        row("no signal", "no difference", -0.1, 0.01),
        row("may help", "lost", 0.1, -0.2),
    ]
    rate = hit_rate(rows)
    assert (rate["rows"], rate["decided"], rate["abstained"]) == (4, 3, 1)
    assert rate["hits"][0] == pytest.approx(2 / 3) and rate["always_helps"][0] == pytest.approx(1 / 3)
    assert rate["same_sign"][0] == 1 / 4


def test_only_loops_that_the_control_lacks_are_judged() -> None:
    experiment = loads(EXPERIMENT)
    loops = [
        {"loop": loop, "verdict": verdict, "pilot": {"predicted": [0.1, 0.0, 0.2]}}
        for loop, verdict in (("en>fr>en", "may help"), ("en>fr>es>en", "helps"))
    ]
    planned = {**HEAD, "directions": {"en>fr": {"loops": loops, "pivots": []}}}
    seen = {"after": "dual", "control": "vanilla-longer", "set": "test", "rule": "exact"}
    gains = [{**seen, "loop": loop, "values": {"gain": [0.1, 0.05, 0.15]}} for loop in ("en>fr>en", "en>es>en")]
    (row,) = predicted_rows(experiment, planned, {"beyond_placebo": gains})
    assert (row["loop"], row["verdict"], row["outcome"], row["hit"]) == ("en>fr>en", "may help", "gained", None)
    assert row["predicted_by"] == "pilot" and row["direction"] == "en>fr"
    assert (row["planned_on"], row["pilot_updates"]) == ("vanilla", 8)


def test_a_plan_says_nothing_about_stages_that_do_not_come_from_its_translators() -> None:
    experiment = loads(EXPERIMENT)
    loop = {"loop": "en>fr>en", "verdict": "helps", "pilot": {"predicted": [0.1, 0.0, 0.2]}}
    planned = {**HEAD, "stage": "dual", "directions": {"en>fr": {"loops": [loop], "pivots": []}}}
    gain = {"after": "dual", "control": "vanilla-longer", "set": "test", "rule": "exact", "loop": "en>fr>en"}
    assert not predicted_rows(experiment, planned, {"beyond_placebo": [{**gain, "values": {"gain": [0.1, 0.0, 0.2]}}]})


def test_beside_a_control_with_loops_the_plan_on_pivots_counts() -> None:
    longer = """
[[stage]]
name = "longer"
from = "vanilla"
mix = ["X>Y", { path = "X>Y>X", weight = 0.5 }, { path = "X>Y>Z>X", weight = 0.5 }]
updates = 16
[[compare]]
of = "longer"
against = "dual"
"""
    experiment = loads(EXPERIMENT + longer)
    pivot = {"loop": "en>fr>es>en", "verdict": "likely harmful", "pilot": None}
    loop = {"loop": "en>fr>es>en", "verdict": "helps", "pilot": {"predicted": [0.1, 0.0, 0.2]}}
    planned = {**HEAD, "directions": {"en>fr": {"loops": [loop], "pivots": [pivot]}}}
    seen = {"after": "longer", "control": "dual", "set": "test", "rule": "exact", "loop": "en>fr>en"}
    gains = [{**seen, "values": {"gain": [-0.1, -0.15, -0.05]}}]
    (row,) = predicted_rows(experiment, planned, {"beyond_placebo": gains})
    assert (row["verdict"], row["outcome"], row["hit"]) == ("likely harmful", "lost", True)
