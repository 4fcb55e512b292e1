"""An exploration in small: variants from one first stage, cut off, gone on with, and set against their controls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.explore import COOLED, VARIANTS, Exploration, control_of, gain_over, main, parse

from helpers.experiments import WORLD
from loopmt.config import load
from loopmt.run import Run, read_json


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """In three languages, so that every variant has its paths."""
    world = WORLD.replace('["en", "fr"]', '["en", "fr", "es"]').replace(
        '"en-fr" = 60', '"en-fr" = 60, "en-es" = 60, "fr-es" = 60'
    )
    (tmp_path / "world.toml").write_text(world.replace("fr = 60 }", "fr = 60, es = 60 }"), encoding="utf-8")
    return [
        str(tmp_path / "world.toml"),
        "--base",
        str(tmp_path / "base"),
        "--out",
        str(tmp_path / "out"),
        "--updates",
        "2",
    ]


def test_variants_are_measured_against_their_controls(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    some = ["--only", "control", "top-k-10", "agreement"]
    main([*words, *some, "--seconds", "30"])  # enough for the first stage alone
    assert re.search(r"agreement +no time left", capsys.readouterr().out)
    main([*words, *some])
    rows = {row["stage"]: row for row in read_json(Path(parse(words).out) / "explore.json")["variants"]}
    assert list(rows) == ["control", "control-cooled", "top-k-10", "top-k-10-cooled", "agreement"]
    assert rows["control"]["gain"] is None
    assert rows["agreement"]["gain"] == pytest.approx(rows["agreement"]["best"] - rows["control"]["best"], abs=0.011)
    cooled = rows["top-k-10-cooled"]
    assert cooled["gain"] == pytest.approx(cooled["best"] - rows["control-cooled"]["best"], abs=0.011)
    assert all(row["seconds"] and row["bleu"].keys() == rows["control"]["bleu"].keys() for row in rows.values())


def test_variants_after_dual_learning(words: list[str]) -> None:
    main([*words, "--start", "dual", "--workers", "2", "--only", "longer", "longer-auto"])
    rows = {row["stage"]: row for row in read_json(Path(parse(words).out) / "explore.json")["variants"]}
    assert rows["longer-auto"]["gain"] == pytest.approx(rows["longer-auto"]["best"] - rows["longer"]["best"], abs=0.011)
    assert [row["stage"] for row in read_json(Path(parse(words).out) / "explore.json")["start"]] == ["vanilla", "dual"]
    stages = Run(Path(parse(words).out) / "longer-auto").experiment().stages
    assert [(stage.name, stage.from_) for stage in stages] == [
        *(("vanilla", None), ("dual", "vanilla"), ("longer-auto", "dual"))
    ]


def test_a_gain_is_that_of_as_many_updates() -> None:
    """A variant that was cut off is not held against the end of its control."""
    control = {"update": 3500, "validation": [[1024, 10.0], [2016, 12.0], [3500, 15.0]]}
    cut_off = {"update": 2000, "validation": [[1000, 11.0], [2000, 12.5]]}
    assert gain_over(cut_off, control) == 0.5 and gain_over(control, cut_off) == -0.5
    assert gain_over(cut_off | {"update": 500, "validation": [[500, 9.0]]}, control) is None
    assert gain_over(control, control) is None


def test_a_variant_that_cannot_be_says_why(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Two languages have no third."""
    Path(words[0]).write_text(WORLD, encoding="utf-8")
    main([*words, "--only", "control", "three"])
    assert "refused: " in (said := capsys.readouterr().out) and "path X>Y>Z>X needs 3 languages" in said


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_an_experiment(words: list[str], name: str) -> None:
    Path(parse(words).out).mkdir()
    stages = load(Exploration(parse(words))._write(name)).stages
    assert [stage.name for stage in stages[1:]] == [name, f"{name}-cooled"][: 1 + (name in COOLED)]


def test_sampling_of_all_is_not_restricted(words: list[str]) -> None:
    Path(parse(words).out).mkdir()
    loop = load(Exploration(parse(words))._write("sample-all")).stages[1].entries()[1]
    (how,) = loop.hop_settings(1)
    assert (how.temperature, how.top_k, how.top_p) == (1.0, 0, 1.0)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if not name.startswith("control")])
def test_a_variant_is_measured_against_training_alike(variant: str) -> None:
    """It differs from its control in the loops alone."""
    control = control_of(variant)
    assert control in VARIANTS and ("X>Y>X" in VARIANTS[control]) is variant.startswith("longer")
    if not re.search("round-|no-smoothing", variant):  # of the loops, held against the default
        assert VARIANTS[variant].partition("\ntrain = ")[2] == VARIANTS[control].partition("\ntrain = ")[2]
