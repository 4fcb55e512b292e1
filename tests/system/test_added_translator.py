"""A trainable translator of another module is one new file, which the experiment names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import loopmt
from helpers.commands import AskFor, Cli
from helpers.facts import missing
from helpers.paths import DATA
from helpers.stages import assembled, records, stage
from loopmt.errors import ConfigError, ExternalError, RunError
from loopmt.learn.module import ModuleLearner
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.workflow.train import TrainOptions, train

REFERENCE = "gru_translator:make"
MIX = """[
    "X>Y",
    { path = "X>Y>X", generate = { how = "greedy" } },
    { path = "en>fr>en", generate = { by = "ema" } },
]"""


@pytest.fixture
def request_of(ask_for: AskFor, monkeypatch: pytest.MonkeyPatch) -> TrainOptions:
    monkeypatch.syspath_prepend(DATA / "models")
    return ask_for(stage(MIX, parent=False, tokens=128), f"model.translator={REFERENCE}", parent=False)


def weights(run: Path | None) -> bytes:
    assert run is not None
    return (run / "stages" / "loops" / "result" / "weights.safetensors").read_bytes()


def test_it_learns_translates_and_resumes(
    request_of: TrainOptions, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(assembled(request_of).learner, ModuleLearner)
    dry = ("train", request_of.file, "--run", request_of.run, "--set", *request_of.overrides, "--dry-run")
    assert REFERENCE in cli(*dry).out
    cut = replace(request_of, run=tmp_path / "cut")
    assert not train(replace(cut, stop_after=1e-9), Silent()) and train(cut, Silent())
    assert train(request_of, Silent())
    first, last = (records(request_of)[place] for place in (0, -1))
    assert last["loss"]["en>fr"] < first["loss"]["en>fr"] and last["generated_tokens"] > 0
    assert weights(request_of.run) == weights(cut.run)
    assert request_of.run is not None
    with pytest.raises(RunError) as refused:
        loopmt.load(request_of.run)
    assert not missing(refused.value, REFERENCE, "LOOPMT_ALLOW_CODE")
    monkeypatch.setenv("LOOPMT_ALLOW_CODE", "1")
    assert len(loopmt.load(request_of.run).translate(["The cat sees the dog."], "en>fr>en")) == 1
    assert cli("evaluate", request_of.run, "--beam", 1, "--samples", 20).code == 0
    exported = cli("export", request_of.run, "--to", "hf", "--out", tmp_path / "exported")
    assert exported.code == 2 and REFERENCE in exported.err
    assert Run(request_of.run).stage("loops").finished


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        (["model.translator=gru_translator"], ["model.translator", "module:function"]),
        (["model.translator=gru_translator:none"], ["gru_translator", "none"]),
        (["model.pretrained=folder"], ["model.translator", "model.pretrained"]),
        (["model.sharing=all", "train.shard=true"], ["model.translator", "train.shard"]),
    ],
)
def test_what_cannot_be_is_refused(request_of: TrainOptions, settings: list[str], facts: list[str]) -> None:
    asked = replace(request_of, overrides=(*request_of.overrides, *settings))
    with pytest.raises(ConfigError) as refused:
        train(asked, Silent())
    assert not missing(refused.value, *facts)


def test_what_the_function_returns_is_checked(request_of: TrainOptions) -> None:
    asked = replace(request_of, overrides=("model.translator=gru_translator:Gru",))
    with pytest.raises(ExternalError) as refused:
        train(asked, Silent())
    assert not missing(refused.value, "gru_translator:Gru")
