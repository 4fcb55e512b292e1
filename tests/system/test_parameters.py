"""The parameters of all directions together are those of each direction, weighted by its sentences."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from benchmarks.parameters import main

from loopmt.progress import Silent
from loopmt.workflow.analyze import AnalyzeOptions, analyze


def test_directions_and_seeds_together(tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    each = analyze(run, AnalyzeOptions(thresholds=(), beam=1, sentences=20, longest=2), Silent())
    main([str(run), str(run), "--beam", "1", "--sentences", "20", "--samples", "200", "--out", str(tmp_path / "kept")])
    (row, _) = json.loads((tmp_path / "kept/parameters.json").read_text())
    assert [row[key] for key in ("before", "after", "control", "set")] == ["vanilla", "dual", "vanilla-longer", "test"]
    for name, stage in (("after", "dual"), ("control", "vanilla-longer")):
        alone = [one["values"] for one in each["pairs"] if one["after"] == stage and one["rule"] == row["rule"]]
        lost = [20 * (1 - values["D"][0]) for values in alone]
        assert row["among"]["alpha"] == pytest.approx(2 * sum(lost)), "the same run twice"
        for share in ("alpha", "beta", "gamma", "kappa"):
            weighted = sum(count * (values[share][0] or 0.0) for count, values in zip(lost, alone, strict=True))
            value, low, high = row["values"][share][name]
            assert value == pytest.approx(weighted / sum(lost))
            assert low <= value <= high
        for share in ("p", "p_d"):
            assert row["values"][share][name][0] == pytest.approx(sum(values[share][0] for values in alone) / 6)
    after, control, beyond = (row["values"]["gamma"][name][0] for name in ("after", "control", "beyond"))
    assert beyond == pytest.approx(after - control)
    assert "vanilla to dual, placebo vanilla-longer" in capsys.readouterr().out.replace("\n", " ")
