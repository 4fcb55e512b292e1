"""The demo from end to end, in small: what it does is checked here, what it shows is recorded in docs/results/."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import loopmt
from loopmt.cli.demo import _command, _print
from loopmt.config import load
from loopmt.progress import Silent
from loopmt.workflow.demo import PAIR, demo

STAGES = ("vanilla", "longer", "loops")
SMALL = (
    "data.world.valid=20",
    "data.world.test=20",
    "data.world.mono={en=200, fr=200, es=200}",
    'data.world.pairs={"en-fr"=200, "en-es"=200}',
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
    shown = Shown()
    outcome = demo(tmp_path / "run", SMALL, shown)
    assert outcome is not None
    assert list(outcome.scorecard["stages"]) == list(STAGES)
    assert any("vanilla at update" in line and "->" in line for line in shown.lines), "a sentence is shown on the way"
    _print(outcome)
    printed = capsys.readouterr().out
    assert all(stage in printed for stage in STAGES) and "fr>es" in printed
    assert re.search(
        r"French and Spanish, .*\d+% .*\d+% .*\d+% and \d+%\. .*\d+% with loops and \d+% without",
        printed.replace("\n", " "),
    )
    assert max(map(len, printed.splitlines()[:12])) <= 80
    assert f" serve {outcome.run}\n" in printed and printed.endswith(f" plan {outcome.run}\n")


class Shown(Silent):
    """Keeps the lines that are worth reading once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_the_pair_of_the_demo_has_no_bitext() -> None:
    file = Path(loopmt.__file__).with_name("demo.toml")
    experiment = load(file)
    assert not {hop.pair for hop in PAIR} & {f"{one}-{other}" for one, other in experiment.data.pairs()}
    budgets = {stage.updates for stage in experiment.stages if stage.from_ == "vanilla"}
    assert len(budgets) == 1, "the control trains as long as the loops"


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
