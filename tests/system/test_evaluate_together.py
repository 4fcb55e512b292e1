"""Several `loopmt evaluate` at the same time, in processes of their own: none may see what another is making."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.kept import kept_files
from loopmt.progress import Silent
from loopmt.workflow.evaluate import EvaluateOptions, RunEvaluation, evaluate

BEAMS = (4, 1, 4, 1)
Scores = dict[str, float]


def begun(run: Path, beam: int, stage: str = "dual", **environment: str) -> subprocess.Popen[str]:
    words = ["evaluate", str(run), "--stage", stage, "--beam", str(beam), "--samples", "10", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error", **environment}
    command = [sys.executable, "-m", "loopmt", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str], stage: str = "dual") -> Scores:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    directions = json.loads(out)["stages"][stage]["sets"]["test"]["directions"]
    return {hop: scores["chrf"] for hop, scores in directions.items()}


@pytest.fixture(scope="module")
def alone(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Scores]:
    """By beam, what an evaluation finds that nobody disturbs."""
    folder = tmp_path_factory.mktemp("alone")
    found = {}
    for beam in set(BEAMS):
        run = Path(shutil.copytree(tiny_run, folder / f"beam{beam}"))
        found[beam] = ended(begun(run, beam))
    assert found[1] != found[4]
    return found


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.slow)], ids=lambda rounds: f"{rounds} rounds")
def test_evaluations_at_the_same_time(rounds: int, alone: dict[int, Scores], tiny_run: Path, tmp_path: Path) -> None:
    for number in range(rounds):
        run = Path(shutil.copytree(tiny_run, tmp_path / f"run{number}"))
        together = [(beam, begun(run, beam)) for beam in BEAMS]
        assert [(beam, ended(process)) for beam, process in together] == [(beam, alone[beam]) for beam in BEAMS]
        assert all(ended(begun(run, beam)) == alone[beam] for beam in alone), "nor is anything wrong kept"
        assert [len(kept_files(run, "dual", beam=beam)) for beam in alone] == [6, 6]
        assert not list((run / "stages/dual/translations").rglob(".*")), "no drafts stay"
        assert json.loads((run / "scorecard.json").read_text())["beam"] in BEAMS


STAGES = ("vanilla", "vanilla-longer", "dual")


def test_stages_evaluated_at_the_same_time_are_all_in_the_scorecard(tiny_run: Path, tmp_path: Path) -> None:
    """Each knows only its own stage before it writes; the last one must not lose those of the others."""
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    asked = [EvaluateOptions(stages=[stage], beam=1, samples=10) for stage in STAGES]
    evaluations = [RunEvaluation.open(run, options) for options in asked]
    measured = [one.measures(options, Silent()) for one, options in zip(evaluations, asked, strict=True)]
    for evaluation, found, options in zip(evaluations, measured, asked, strict=True):
        evaluation.record(found, options, Silent())
    card = json.loads((run / "scorecard.json").read_text())
    assert tuple(card["stages"]) == STAGES and not card["waiting"] and card["comparisons"]
    assert card == evaluate([run], EvaluateOptions(beam=1, samples=10), Silent())


def test_stages_evaluated_without_locks(tiny_run: Path, tmp_path: Path) -> None:
    """On a shared folder of another machine, locks may do nothing."""
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    (tmp_path / "nolocks").mkdir()
    (tmp_path / "nolocks" / "sitecustomize.py").write_text("import fcntl\nfcntl.flock = lambda *arguments: None\n")
    path = os.pathsep.join([str(tmp_path / "nolocks"), os.environ.get("PYTHONPATH", "")])
    together = [(stage, begun(run, 1, stage, PYTHONPATH=path)) for stage in STAGES]
    scores = {stage: ended(process, stage) for stage, process in together}
    card = json.loads((run / "scorecard.json").read_text())
    assert tuple(card["stages"]) == STAGES
    for stage, found in scores.items():
        directions = card["stages"][stage]["sets"]["test"]["directions"]
        assert {hop: one["chrf"] for hop, one in directions.items()} == found
