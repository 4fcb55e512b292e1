"""How measured tables are made of raw files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks import condense
from benchmarks.pages import built_in, cells, predictions, raw, scores, summary
from benchmarks.pages.blocks import fill, filled, names
from benchmarks.pages.raw import Gain

BLOCK = "before\n<!-- table: one -->\nold\n<!-- end -->\nafter\n"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of raw files of the tests' own."""
    monkeypatch.setattr(raw, "RESULTS", tmp_path)
    raw.content.cache_clear()
    yield tmp_path
    raw.content.cache_clear()


def interval(of: float, against: float) -> dict[str, Any]:
    known = {"of": of, "against": against, "p_value": 0.01, "samples": 1000, "level": 0.95}
    return {"difference": of - against, "low": of - against - 1, "high": of - against + 1, **known}


def scorecard(dual: float, longer: float, seed: int = 1) -> dict[str, Any]:
    """A scorecard of two stages, one set and one direction, as `loopmt evaluate` writes it."""

    def stage(bleu: float) -> dict[str, Any]:
        over = {"over_direct": {"multi_bleu": interval(bleu + 2, bleu)}}
        pivots = {"fr>en>es": {"sentences": 9, "multi_bleu": bleu + 2, **over}}
        one = {"sentences": 9, "multi_bleu": bleu}
        test = {"directions": {"fr>es": one}, "mean": {"multi_bleu": bleu}, "pivots": pivots}
        return {"update": 100 * seed, "seconds": {"train": 1.0}, "sets": {"test": test}, "mean": {"multi_bleu": bleu}}

    gained = {"multi_bleu": interval(dual, longer)}
    sets = {"test": {"joint": gained, "directions": {"fr>es": gained}}}
    compared = {"of": "dual", "against": "longer", "joint": gained, "sets": sets}
    stages = {"dual": stage(dual), "longer": stage(longer)}
    head = {"version": 1, "experiment": "e", "languages": ["fr", "es"], "seeds": [seed], "beam": 4}
    return {**head, "stages": stages, "comparisons": [compared], "waiting": [], "signatures": {}}


def record(folder: Path, seed: int, card: dict[str, Any]) -> None:
    stages = {name: {"seconds": 10.0 * seed} for name in card["stages"]}
    condense.write(folder / f"seed-{seed}.json", {"scorecard": condense.scorecard(card), "stages": stages})


def test_a_block_is_replaced_and_the_rest_stays() -> None:
    found = filled(BLOCK, {"one": lambda: "| new |"})
    assert found == "before\n<!-- table: one -->\n\n| new |\n\n<!-- end -->\nafter\n"
    assert filled(found, {"one": lambda: "| new |"}) == found and names(found) == ["one"]


def test_an_unknown_table_is_named_with_those_that_exist() -> None:
    with pytest.raises(SystemExit, match=r"one.*other"):
        filled(BLOCK, {"other": lambda: ""})


def test_a_page_is_written_if_its_tables_changed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(BLOCK, encoding="utf-8")
    assert [fill(page, {"one": lambda: "| new |"}) for _ in range(2)] == [True, False]
    assert "| new |" in page.read_text(encoding="utf-8")


def test_figures_are_aligned_and_never_minus_nought() -> None:
    found = cells.grid(["stage", "BLEU", "note"], [["dual", "1.0", "a"], ["longer", "", "2"]])
    assert found.splitlines()[1] == "|---|---:|---|"
    assert cells.interval(Gain(-0.001, -0.5, 0.004)) == "+0.00 (-0.50 to +0.00)"
    assert cells.interval(None) == cells.points(None) == cells.NOTHING
    assert cells.share([0.25, 0.2, -0.0001], plus=True) == "+.250 (+.200 to +.000)"
    assert (cells.span([10.2, 9.8]), cells.span([9.0, 1200.4])) == ("10", "9 to 1,200")


def test_a_condensed_scorecard_keeps_scores_and_intervals() -> None:
    found = condense.scorecard(scorecard(30.123456789, 28.0))
    assert found["stages"]["dual"]["sets"]["test"]["directions"]["fr>es"]["multi_bleu"] == 30.123456789
    assert found["comparisons"][0]["sets"]["test"]["joint"]["multi_bleu"] == pytest.approx(
        [2.123, 1.123, 3.123], abs=1e-3
    )
    assert found["bootstrap"] == {"samples": 1000, "level": 0.95} and "waiting" not in found


def test_condensed_json_is_read_back_as_it_was(tmp_path: Path) -> None:
    content = {"a": [1, {"b": [None, "ü"]}], "c": {}, "d": []}
    for depth in range(4):
        condense.write(tmp_path / "x" / "file.json", content, depth)
        assert json.loads((tmp_path / "x" / "file.json").read_text(encoding="utf-8")) == content


def test_tables_of_stages_and_gains(recorded: Path) -> None:
    record(recorded / "two", 1, scorecard(30, 28))
    record(recorded / "two", 2, scorecard(32, 28, seed=2))
    condense.write(recorded / "two" / "scores.json", condense.scorecard({**scorecard(31, 28), "seeds": [1, 2]}))
    columns = [scores.updates(), scores.seconds(), scores.mean("test"), scores.direction("es>fr", "test", "es>fr")]
    table = scores.stages(columns, scores.of("two", "dual") + scores.of("two/seed-2", "dual", note="seed 2"))
    assert table.splitlines()[2:] == [
        "| dual | 100, 200 | 10 to 20 | 31.00 | – |",
        "| dual, seed 2 | 200 | 20 | 32.00 | – |",
    ]
    pairs = scores.over("two", "dual/longer", "longer/dual", "dual/pivot-decoding")
    assert scores.gains([scores.gain_of("fr>es", "test", "fr>es")], pairs).splitlines()[2:] == [
        "| dual over longer | +3.00 (+2.00 to +4.00) |",
        "| longer over dual | – |",
        "| dual over decoding through English | -2.00 (-3.00 to -1.00) |",
    ]


def demo_card(loops: float, longer: float) -> dict[str, Any]:
    directions = {"vanilla": {"en>fr": 0.5}, "longer": {"fr>es": longer}, "loops": {"fr>es": loops, "en>fr": 0.6}}
    stages = {
        name: {
            "seconds": {"train": 60.0, "generate": 10.0},
            "sets": {"test": {"directions": {hop: {"accuracy": right} for hop, right in found.items()}}},
        }
        for name, found in directions.items()
    }
    return {"stages": stages}


def test_the_demo_by_seed_and_in_the_mean_of_its_seeds(tmp_path: Path) -> None:
    for seed, gain in ((1, 0.3), (2, 0.4), (3, 0.5)):
        condense.write(tmp_path / f"seed-{seed}.json", demo_card(0.1 + gain, 0.1))
    lines = built_in.demo(tmp_path).splitlines()
    assert lines[0] == "| seed | direction | vanilla | longer | loops | loops over longer, points |"
    assert "| mean | fr>es | 0.0% | 10.0% | 50.0% | +40.0 (+15.2 to +64.8) |" in lines
    assert "| 1 | fr>es | 0.0% | 10.0% | 40.0% |  |" in lines
    assert any(line.startswith("| mean of the ") for line in built_in.demo_means(tmp_path).splitlines())
    assert "no raw files" in built_in.demo(tmp_path / "nothing")


def test_how_verdicts_ended() -> None:
    row = {"verdict": "may help", "outcome": "gained"}
    found = predictions.outcomes({"vanilla": [row, row, {**row, "outcome": "lost"}, {**row, "verdict": "helps"}]})
    assert found.splitlines()[2:] == [
        "| vanilla | helps | 1 | 1 (100%) | 0 (0%) | 0 (0%) |",
        "| vanilla | may help | 3 | 2 (67%) | 0 (0%) | 1 (33%) |",
    ]


@pytest.mark.parametrize(
    ("other", "outcome"), [({}, "gained"), ({"of": "nothing"}, None), ({"run": "no-such-1"}, None)]
)
def test_what_became_of_a_prediction_in_bleu(other: dict[str, str], outcome: str | None) -> None:
    row = {"run": "europarl-star-1", "of": "auto", "against": "dual-longer", "set": "test", "direction": "fr>es"}
    assert predictions.bleu_outcome({**row, **other}) == outcome


def test_plans_with_pilots_are_kinds_of_their_own() -> None:
    assert predictions.kind({"planned_on": "vanilla", "pilot_updates": 1000}) == "vanilla, a pilot of 1,000 updates"
    assert predictions.kind({"planned_on": "dual", "pilot_updates": None}) == "dual"


def test_a_line_of_the_front_page_has_each_of_its_directions() -> None:
    star = summary.poor("star", "loops", "dual loops", "europarl-star", "poor-pair.md", "auto", "dual-longer")
    data, what, gained, _, seeds = star.cells()
    assert data == "[star](experiments/poor-pair.md)" and (what, seeds) == ("loops over dual loops", "3")
    assert [part.split()[:2] for part in gained.split("; ")] == [["fr>es", "+3.78"], ["es>fr", "+4.19"]]


def test_a_condensed_plan_keeps_verdicts_values_and_pilots() -> None:
    loop: dict[str, Any] = {
        "loop": "en>fr>en",
        "verdict": "helps",
        "values": {"M": [0.5, 0.4, 0.6]},
        "pilot": None,
        "curves": {"H": []},
    }
    head = dict.fromkeys(("experiment", "stage", "set", "sentences", "beam", "rule", "threshold", "pilot_updates"), 1)
    outlook = {"verdict": "helps", "best": "en>fr>en", "loops": [loop], "pivots": [loop]}
    grid = {"en>fr>en": [{"rule": "BLEU > 10", "p": [0.7, 0.6, 0.8], "verdict": "helps"}]}
    found = condense.plan({**head, "seed": 1, "directions": {"en>fr": outlook}, "grid": grid, "zero_resource": {}})
    kept = {name: loop[name] for name in ("loop", "verdict", "values")}
    assert found["directions"]["en>fr"] == {"verdict": "helps", "best": "en>fr>en", "loops": [kept]}
    assert found["right"] == {"en>fr>en": {"BLEU > 10": 0.7}} and "zero_resource" not in found
