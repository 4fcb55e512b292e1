"""The benchmark of loops over regimes: fair experiments, condensed records. A whole regime runs under `make stress`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import regime_job, regimes_table
from benchmarks.regime import QUICK, REGIMES, comparisons, experiment
from benchmarks.timing import Json

from loopmt.config import load, supervised_shares


@pytest.mark.parametrize("name", REGIMES)
def test_every_regime_is_a_fair_experiment(name: str, tmp_path: Path) -> None:
    regime, file = REGIMES[name], tmp_path / "regime.toml"
    for sizes in (regime.sizes, QUICK):
        file.write_text(experiment(regime, 3, sizes), encoding="utf-8")
        made = load(file)  # refuses comparisons that are not fair
        assert [(one.of, one.against) for one in made.compare] == comparisons(regime)
        assert made.seed == 3 and made.stage("vanilla").updates == sizes.vanilla


def test_the_letter_updates_one_pair_and_its_half_has_the_shares_of_the_others(tmp_path: Path) -> None:
    file = tmp_path / "letter.toml"
    file.write_text(experiment(REGIMES["letter-four"], 1, QUICK), encoding="utf-8")
    made = load(file)
    shares = {name: supervised_shares(made, made.stage(name)) or {} for name in ("letter", "letter-half", "uniform")}
    assert {str(hop): share for hop, share in shares["letter"].items()} == {"en>fr": 0.0, "fr>en": 0.0}
    assert {str(hop): share for hop, share in shares["letter-half"].items()} == {"en>fr": 0.5, "fr>en": 0.5}
    assert set(shares["uniform"].values()) == {0.5}


def recorded(seed: int, gain: float) -> Json:
    """A run with two stages, as regime_job leaves it."""
    score = {"accuracy": 0.5, "multi_bleu": 20.0}
    ends = {"low": gain - 0.01, "high": gain + 0.01, "samples": 1000, "level": 0.95}
    difference = {"accuracy": {"difference": gain, **ends}}
    stages = {name: {"mean": score, "directions": {"en>fr": score}} for name in ("dual-longer", "auto")}
    compared = {"of": "auto", "against": "dual-longer", "joint": difference, "directions": {"en>fr": difference}}
    machine = {"device": "a machine", "cores": 2, "python": "3.11", "versions": {"torch": "2"}}
    return {
        "regime": "star",
        "seed": seed,
        "seeds": [seed],
        "what": "few pairs",
        "machine": machine,
        "collapsed": None,
        "cpu_seconds": {"train": 1.0},
        "stages": stages,
        "comparisons": [compared],
        "predicted": [],
        "choices": [{"update": 0, "stage": "auto", "worth": {"en>fr>en": {"share": 1.0, "quality": 0.7}}}],
    }


def test_runs_are_condensed_for_the_documentation(tmp_path: Path) -> None:
    (tmp_path / "star-1.json").write_text(json.dumps(recorded(1, 0.05)), encoding="utf-8")
    regimes_table.main([str(tmp_path), "--docs", str(tmp_path / "docs")])
    found = json.loads((tmp_path / "docs" / "regimes" / "star-1.json").read_text(encoding="utf-8"))
    assert (found["seed"], found["what"]) == (1, "few pairs")
    assert found["comparisons"][0]["directions"]["en>fr"]["accuracy"] == pytest.approx([0.05, 0.04, 0.06])
    assert found["choices"] == [{"update": 0, "stage": "auto", "shares": {"en>fr>en": 1.0}}]
    assert json.loads((tmp_path / "docs" / "plans" / "star-1.json").read_text())["rows"] == []


def test_figures_are_rounded_and_nothing_else() -> None:
    assert regime_job.rounded({"a": [0.1234567, None, 3], "b": "inf"}) == {"a": [0.12346, None, 3], "b": "inf"}


@pytest.mark.slow
def test_a_quick_regime_leaves_its_figures(tmp_path: Path) -> None:
    regime_job.main(["little-text", "1", "--quick", "--work", str(tmp_path / "work"), "--out", str(tmp_path)])
    found = json.loads((tmp_path / "little-text-1.json").read_text(encoding="utf-8"))
    assert set(found["stages"]) == {"vanilla", "vanilla-longer", "dual", "dual-longer", "uniform", "auto"}
    assert {row["planned_on"] for row in found["predicted"]} == {"vanilla", "dual"}
    assert [plan["pilot_updates"] for plan in found["plans"]] == [None, QUICK.pilot, None]
    assert found["choices"] and found["cpu_seconds"]["train"] > 0
