"""Five languages and more: groups and matrices in place of lists of directions."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from rich.console import Console

from loopmt.cli.matrices import languages_of, print_compared, print_many, print_route_counts
from loopmt.cli.plan_matrices import has_many_languages, print_loop_matrices, print_untaught_matrix
from loopmt.config import Stage, Train
from loopmt.evaluation.groups import Groups
from loopmt.evaluation.metric import MetricFacts
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.workflow.observers import Display

LANGUAGES = ("en", "de", "es", "fr", "it")
HOPS = [f"{one}>{other}" for one, other in permutations(LANGUAGES, 2)]
HUB = [hop for hop in HOPS if "en" in hop]
BLEU = MetricFacts("bleu", "BLEU", "BLEU")


def scores(gain: float = 0.0) -> dict[str, dict[str, float]]:
    """30 with English and 10 without, and more for a stage with a gain."""
    return {hop: {"bleu": (30.0 if hop in HUB else 10.0) + gain} for hop in HOPS}


def route(hop: str, best: str, decided: bool) -> dict[str, Any]:
    pivot = hop.replace(">", ">en>")
    return {"pivot": pivot, "scores": {hop: 10.0, pivot: 12.0}, "best": best or pivot, "decided": decided}


def card() -> dict[str, Any]:
    routes = {hop: route(hop, hop if hop == "de>es" else "", hop != "fr>it") for hop in HOPS if hop not in HUB}
    stages = {
        name: {"sets": {"test": {"directions": scores(gain)}}, "routes": routes}
        for name, gain in (("control", 0.0), ("loops", 1.5))
    }
    return {"stages": stages}


def printed(call: Any, *given: Any) -> str:
    out = Console(width=80, record=True, file=None, quiet=False, force_terminal=False)
    call(out, *given)
    return out.export_text()


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("│┃ ").split("│")] for line in text.splitlines()]


def row(text: str, first: str) -> list[str]:
    """The cells of the first row that begins with this."""
    return next(cells for cells in rows(text) if cells[0] == first)


def test_groups_follow_the_text() -> None:
    groups = dict(Groups.of(card()["stages"]).named())
    assert list(groups) == ["all", "with bitext", "without bitext"]
    assert (len(groups["all"]), groups["with bitext"], len(groups["without bitext"])) == (20, HUB, 12)
    more = dict(Groups(HOPS, {hop for hop in HOPS if hop not in HUB and hop != "de>fr"}).named())
    assert more["with en"] == HUB and len(more["with bitext"]) == len(HUB) + 1


def test_means_and_a_matrix_of_the_last_stage() -> None:
    text = printed(print_many, card(), [BLEU])
    assert max(map(len, text.splitlines())) <= 80 and languages_of(card()["stages"]) == list(LANGUAGES)
    assert row(text, "with bitext (8)")[1:] == ["30.00", "31.50"]
    assert row(text, "without bitext (12)")[1:] == ["10.00", "11.50"]
    assert row(text, "de")[1:] == ["31.5", "", "11.5", "11.5", "11.5"]


def test_a_comparison_as_a_matrix_of_differences() -> None:
    one = {"difference": 1.5, "low": 1.0, "high": 2.0, "p_value": 0.01}
    directions = {hop: {"bleu": one | {"difference": -0.5 if hop == "en>it" else 1.5}} for hop in HOPS}
    comparison = {
        "of": "loops",
        "against": "control",
        "joint": {"bleu": one},
        "sets": {"test": {"directions": directions}},
    }
    text = printed(print_compared, comparison, BLEU, Groups.of(card()["stages"]))
    assert "+1.50 BLEU (+1.00 to +2.00), p = 0.010" in text
    assert row(text, "en")[1:] == ["", "+1.5", "+1.5", "+1.5", "-0.5"]
    assert row(text, "with bitext (8)")[1:] == ["1.25"]


def test_routes_are_counted() -> None:
    text = printed(print_route_counts, card()["stages"], BLEU)
    assert row(text, "loops")[1:] == ["1", "10", "1", "10.00", "12.00"]


def loop(path: str, right: float, ratio: float | None) -> dict[str, Any]:
    return {"loop": path, "values": {"p": [right, 0.0, 1.0], "M": [ratio, 0.0, 1.0]}}


def test_a_plan_of_many_languages_counts_its_loops() -> None:
    """What is known of every direction in matrices, and how many loops have which verdict."""
    ratios = {hop: None if hop == "en>de" else 0.5 for hop in HUB}
    directions = {
        hop: {"loops": [loop(f"{hop}>{hop[:2]}", 0.25, ratio), loop(f"{hop}>xx>{hop[:2]}", 0.9, 0.1)]}
        for hop, ratio in ratios.items()
    }
    rates = {
        "verdict": "may help",
        "through": {"de>en>es": [0.4, 0, 1], "de>it>es": [0.3, 0, 1], "de>es": [None, 0, 1]},
    }
    plan = {"stage": "vanilla", "set": "valid", "directions": directions, "zero_resource": {"de>es": rates}}
    assert has_many_languages(plan) and not has_many_languages(plan | {"directions": {"en>de": {}}})
    text = printed(print_loop_matrices, plan, lambda one: "will help" if one["values"]["p"][0] > 0.5 else "unclear")
    assert row(text, "en")[1:] == ["", *["0.25"] * 4] and ["en", "", *["0.50"] * 3] in rows(text)
    assert row(text, "2")[1:] == ["8", "0"] and row(text, "3")[1:] == ["0", "8"]
    text = printed(print_untaught_matrix, plan["zero_resource"])
    assert row(text, "de")[1:] == ["", "0.40"] and row(text, "may help")[1:] == ["1"]


class Lines(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def display() -> Display:
    stage = Stage.model_validate({"name": "loops", "mix": ["X>Y"], "updates": 100})
    return Display(stage, Train(), Lines(), bitext=[Hop(*hop.split(">")) for hop in HUB])


def test_a_line_of_the_log_has_the_mean_into_each_language(display: Display) -> None:
    bleu = {hop: one["bleu"] for hop, one in scores().items()}
    record = {"kind": "valid", "update": 10, "mean_bleu": 18.0, "mean_accuracy": None, "bleu": bleu}
    display.show(record)
    display.show(record | {"bleu": {"en>fr": 30.0, "fr>en": 31.0}})
    many, few = display.progress.lines  # type: ignore[attr-defined]
    assert "with bitext 30.0" in many and "without bitext 10.0" in many
    assert "into " in many and "en 30.0" in many and "de 15.0" in many and "de>" not in many
    assert "en>fr 30.0  fr>en 31.0" in few


def test_many_chosen_routes_are_counted(display: Display) -> None:
    """Which directions learn from which kind of route; a few routes are listed with their shares."""
    dual = {f"{hop}>{hop.partition('>')[0]}": {"share": 0.5} for hop in HOPS}
    other = {"de>en>es>de": {"share": 0.5}, "de>en>fr<de": {"share": 0.25}, "de>fr>es>de": {"share": 0.0}}
    record = {"kind": "choice", "update": 0, "measured": 23, "candidates": 60, "seconds": 1.25}
    display.show(record | {"worth": dual | other})
    display.show(record | {"worth": other})
    many, few = display.progress.lines  # type: ignore[attr-defined]
    assert "dual loops 20" in many and "loops through en 1" in many and "teachers through en 1" in many
    assert "through fr" not in many and "23 of 60" in many and len(many) < 200
    assert "de>en>es>de 0.50" in few and "de>en>fr<de 0.25" in few and "de>fr>es>de" not in few


def test_a_collapse_of_all_hops_is_a_few_lines(display: Display) -> None:
    for update in (10, 20):
        for hop in HOPS:
            alarm = {"kind": "alarm", "update": update, "path": f"{hop}>en", "hop": hop, "what": "copies"}
            display.show(alarm)
    lines = display.progress.lines  # type: ignore[attr-defined]
    assert len(lines) == 14 and sum("metrics.jsonl" in line for line in lines) == 2
