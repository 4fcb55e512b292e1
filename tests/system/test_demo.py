"""The demo from end to end, in small: what it does is checked here, what it shows is recorded in docs/results/."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loopmt.cli.demo import _command, _print
from loopmt.progress import Silent
from loopmt.workflow.demo import demo

STAGES = ("vanilla", "vanilla-longer", "dual", "dual-longer", "uniform", "multi-step")
SMALL = (
    "data.world.valid=20",
    "data.world.test=20",
    "data.world.mono={en=200, fr=200, es=200}",
    'data.world.pairs={"en-fr"=200, "en-es"=200, "fr-es"=40}',
    "vocab.size=500",
    "model.layers=1",
    "model.width=16",
    "model.heads=2",
    "model.feed_forward=16",
    "train.tokens=128",
    "train.round=4",
    "train.validate_sentences=4",
    "train.max_length=32",
    *(f"stage.{stage}.updates=4" for stage in STAGES),
)


def test_demo_runs_to_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = demo(tmp_path / "run", SMALL, Silent())
    assert outcome is not None
    assert list(outcome.scorecard["stages"]) == list(STAGES)
    for row in outcome.theory:
        assert row["exact_formula"] == pytest.approx(row["after"], abs=1e-12)
    _print(outcome)
    shown = capsys.readouterr().out
    assert "exact accuracy" in shown
    assert "multi-step" in shown
    assert "dual-longer" in shown
    assert f" serve {outcome.run}\n" in shown and shown.endswith(f" plan {outcome.run}\n")


def test_what_to_type_next_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / ".venv" / "bin" / "loopmt"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert _command(".venv/bin/loopmt") == _command(str(program)) == ".venv/bin/loopmt"
    monkeypatch.setenv("PATH", str(program.parent))
    assert _command(".venv/bin/loopmt") == _command(str(program)) == "loopmt"
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    assert _command("/some/loopmt/__main__.py") == ".venv/bin/python -m loopmt"
