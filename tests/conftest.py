"""One tiny experiment for all tests: three toy languages of a few words, each with its own word order.

`tiny_experiment_file` and `tiny_run` are made once per session, in about six seconds: read them, never write into them;
`shutil.copytree` what a test must change.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from helpers.commands import AskFor, Cli, Outcome
from helpers.paths import DATA
from helpers.toy import EXPERIMENT, write_corpora
from loopmt.cli import main
from loopmt.progress import Silent
from loopmt.workflow.train import TrainOptions, train

pytest_plugins = ["helpers.pretrained_fixtures"]

torch.set_num_threads(1)  # matrices this small lose by more
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to Ctrl-C
os.environ.pop("COLUMNS", None)  # pytest-xdist gives its workers one, and tables would come in parts

# A submission is judged on the same cases every time; anywhere else hypothesis looks for new ones. A busy machine is
# no failure, so no case has a deadline.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session")
def tiny_experiment_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment file beside its text; nothing is prepared yet."""
    folder = tmp_path_factory.mktemp("tiny")
    write_corpora(folder / "text")
    file = folder / "tiny.toml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def tiny_run(tiny_experiment_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the tiny experiment: stages vanilla, vanilla-longer and dual."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert train(TrainOptions(tiny_experiment_file, folder), Silent())
    return folder


@pytest.fixture
def legacy(tmp_path: Path) -> Path:
    """A copy of the run that an older version trained, with new modification times, as after a checkout."""
    kept = DATA / "legacy-run"
    return Path(shutil.copytree(kept, tmp_path / "legacy", copy_function=shutil.copyfile))


@pytest.fixture
def ask_for(tiny_experiment_file: Path, tiny_run: Path, tmp_path: Path) -> AskFor:
    """Other stages on the tiny experiment's prepared text, each test in a run folder of its own."""

    def ask(stages: str, *overrides: str, parent: bool = True) -> TrainOptions:
        folder = tmp_path / f"asked{len(list(tmp_path.iterdir()))}"
        shutil.copytree(tiny_run, folder / "run", ignore=shutil.ignore_patterns("stages", ".lock"))
        (folder / "text").symlink_to(tiny_experiment_file.parent / "text")
        head, vanilla, *_ = EXPERIMENT.split("[[stage]]")
        if parent:
            head += f"[[stage]]{vanilla}"
            shutil.copytree(tiny_run / "stages" / "vanilla", folder / "run" / "stages" / "vanilla")
        (folder / "tiny.toml").write_text(head + stages, encoding="utf-8")
        return TrainOptions(folder / "tiny.toml", folder / "run", overrides)

    return ask


@pytest.fixture(scope="module")
def references() -> dict[str, TrainOptions]:
    return {}


@pytest.fixture
def reference(request: pytest.FixtureRequest, ask_for: AskFor, references: dict[str, TrainOptions]) -> TrainOptions:
    """The STAGE of a module trained in one go, once for all its tests."""
    if "whole" not in references:
        references["whole"] = ask_for(request.module.STAGE)
        assert train(references["whole"], Silent())
    return references["whole"]


# -- verbs as typed -------------------------------------------------------------------------------------------


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """The command line in this process: loading torch anew for each call would take seconds."""

    def call(*words: object, stdin: str | bytes = "") -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["loopmt", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capfd.readouterr()
        return Outcome(stop.value.code if isinstance(stop.value.code, int) else 0, captured.out, captured.err)

    return call
