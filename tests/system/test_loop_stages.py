"""The benchmark of stages with loops, with a corpus of the tests: it trains, and its sums are those of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import loop_stages

from helpers.toy import write_corpora


def test_stages_are_measured_beside_their_control(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_corpora(tmp_path / "corpora")
    sizes = "--preset tiny --tokens 256 --round 1 --vanilla 2 --updates 12 --pairs 100 --mono 100 --vocabulary 300"
    sizes += " --validate 4"
    options = ["--run", str(tmp_path / "run"), "--out", str(tmp_path / "out.json"), "--profile", "dual"]
    loop_stages.main([str(tmp_path / "corpora"), *options, "--stages", "control", "dual", *sizes.split()])
    found = json.loads((tmp_path / "out.json").read_text())
    control, dual = found["stages"][1:]
    assert [stage["stage"] for stage in found["stages"]] == ["vanilla", "control", "dual"]
    assert control["generated_tokens"] == 0 < dual["generated_tokens"]
    assert len(found["profile"]["rounds"]) == 3
    assert "generating" in capsys.readouterr().out


def test_the_first_record_is_not_part_of_the_sums() -> None:
    def record(update: int, seconds: float) -> dict[str, float | str]:
        rates = {"generate_share": 0.5, "generated_tokens": 100, "tokens_per_second": 10}
        return {"kind": "train", "update": update, "seconds": seconds, "first_update": 3.0, **rates}

    found = loop_stages.summed([record(10, 9), record(20, 2), record(30, 2), {"kind": "end", "best_bleu": 1.5}])
    assert (found["updates"], found["seconds"], found["seconds_with_start"]) == (20, 4, 13)
    assert (found["generating"], found["generated_per_second"], found["tokens_per_second"]) == (2, 100, 10)
    assert found["valid_bleu"] == 1.5


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--profile dual --stages control", "--stages names control only"),
        ("--profile dual --updates 100", "needs 9 rounds: raise --updates to 288"),
        ("--run .", "exists, and a stage that has ended is not trained again"),
    ],
)
def test_wrong_words(capsys: pytest.CaptureFixture[str], words: str, says: str) -> None:
    with pytest.raises(SystemExit):
        loop_stages.parse(["corpora", "--out", "out.json", "--run", "no-such-run", *words.split()])
    assert says in capsys.readouterr().err
