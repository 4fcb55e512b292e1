"""What users build on: a change here is a change for them, and belongs in docs too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main

import loopmt
import loopmt.api
from helpers.facts import refused
from loopmt.cli import app
from loopmt.config import Experiment, Generate
from loopmt.run import Run, read_json

NAMES = {"Candidate", "Generate", "LoopmtError", "Translator", "__version__", "evaluate", "load", "plan", "train"}
METHODS = {"directions", "languages", "mbr", "nbest", "rerank", "score", "trace", "translate"}
VERBS = {
    "demo",
    "fetch",
    "prepare",
    "train",
    "translate",
    "evaluate",
    "show",
    "generate",
    "analyze",
    "plan",
    "report",
    "serve",
    "export",
    "import",
    "score",
    "paths",
    "world",
    "theory",
    "lab",
    "doctor",
}
KEYS = {
    "name",
    "languages",
    "seed",
    "data",
    "vocab",
    "model",
    "train",
    "imported",
    "stage",
    "compare",
    "evaluate",
    "guards",
}


def test_public_names() -> None:
    assert set(loopmt.__all__) == NAMES
    assert all(getattr(loopmt, name) is not None for name in NAMES)
    assert set(loopmt.api.__all__) == NAMES - {"LoopmtError", "__version__"}
    assert set(dir(loopmt)) >= NAMES
    assert {name for name in vars(loopmt.Translator) if not name.startswith("_")} == METHODS
    assert loopmt.__version__ == version("loopmt")


def test_unknown_name() -> None:
    with refused(AttributeError, "'Translater'", "Candidate, Generate"):
        loopmt.__getattr__("Translater")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"how": "sampel"}, r"loopmt\.Generate: how = 'sampel': it should be 'sample', 'greedy' or 'beam'\."),
        (
            {"beams": 4},
            r"loopmt\.Generate: unknown key 'beams'\. Did you mean 'beam'\? Valid keys: by, ensemble, how,",
        ),
        ({"how": "beam", "beam": 0}, "beam = 0: it should be greater than or equal to 1"),
    ],
)
def test_ways_to_generate_that_are_none(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(loopmt.LoopmtError, match=message):
        loopmt.Generate(**asked)


def test_a_way_to_generate_is_that_of_an_experiment_file() -> None:
    asked = loopmt.Generate(how="beam", beam=8)
    assert isinstance(asked, Generate)
    assert asked.model_dump() == Generate(how="beam", beam=8).model_dump()


def test_a_run_from_python_alone(
    tiny_experiment_file: Path, tiny_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(tiny_run, tmp_path / "run", ignore=shutil.ignore_patterns("dual"))
    assert Run.open(folder).finished() == ["vanilla", "vanilla-longer"]
    with ThreadPoolExecutor() as threads:  # where no signal can be heard
        run = threads.submit(loopmt.train, str(tiny_experiment_file), folder).result()
    assert run == folder and Run.open(run).finished() == ["vanilla", "vanilla-longer", "dual"]
    plan, card = loopmt.plan(run), loopmt.evaluate(str(run))
    assert plan == read_json(run / "plan.json") and plan["stage"] == "vanilla"
    assert card == read_json(run / "scorecard.json") and len(card["comparisons"]) == 1
    assert capfd.readouterr() == ("", "")


def test_a_run_lies_where_the_command_puts_it(
    tiny_experiment_file: Path, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_run, tmp_path / "runs" / "tiny")
    assert loopmt.train(tiny_experiment_file) == Path("runs/tiny")


def test_what_cannot_be_trained_or_judged(tiny_experiment_file: Path, tmp_path: Path) -> None:
    with refused(loopmt.LoopmtError, "none.toml", "no such experiment file"):
        loopmt.train(tmp_path / "none.toml")
    with refused(loopmt.LoopmtError, "'tokns'", "train", "'tokens'"):
        loopmt.train(tiny_experiment_file, tmp_path / "run", ["train.tokns=8"])
    for judge in (loopmt.evaluate, loopmt.plan):
        with refused(loopmt.LoopmtError, "run folder", "experiment.json"):
            judge(tmp_path)


def test_training_that_is_asked_to_stop_says_how_to_go_on(tiny_experiment_file: Path, tmp_path: Path) -> None:
    def ask() -> None:
        while not (tmp_path / "run/stages/vanilla/metrics.jsonl").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=ask, daemon=True).start()
    with pytest.raises(loopmt.LoopmtError, match="training paused: SIGTERM was received"):
        loopmt.train(tiny_experiment_file, tmp_path / "run", ["stage.vanilla.updates=100000"])


def test_verbs() -> None:
    assert set(typer.main.get_command(app).commands) == VERBS  # type: ignore[attr-defined]


def test_experiment_keys() -> None:
    assert {field.alias or name for name, field in Experiment.model_fields.items()} == KEYS


def test_import_is_light() -> None:
    code = "import sys, loopmt; print([name for name in ('torch', 'pydantic', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"
