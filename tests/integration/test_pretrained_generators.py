"""Several generators and noise beside pretrained checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.pretrained_runs import EN_FR, Make, stack_in
from helpers.stages import CPU
from loopmt.cli import app
from loopmt.distributed import Processes
from loopmt.errors import ConfigError
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.ragged import UNK, Ragged
from loopmt.translate.protocol import Sentences
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, assemble
from loopmt.workflow.train import TrainOptions, prepare_run, train

pytest.importorskip("transformers")


def loops(settings: str) -> dict[str, str]:
    return {"loops": f'["X>Y", {{ path = "X>Y>X", {settings} }}]'}


def opened(request: TrainOptions) -> TrainingContext:
    prepare_run(request, Silent())
    assert request.run
    return TrainingContext.open(Run.open(request.run), CPU, Processes())


def test_the_unmodified_checkpoint_generates_beside_the_live_one(dual: Make) -> None:
    request = dual(stages=loops('generate = { by = ["live", "stage:pretrained"] }'))
    assert train(request, Silent()) and request.run
    run = Run.open(request.run)
    assert run.stage("loops").begun_with()["generators"] == {
        "stage:pretrained": run.stage("pretrained").result_digest()
    }
    words = ["translate", str(request.run), "en>fr", "--ensemble", "pretrained,loops"]
    found = CliRunner().invoke(app, words, input="A dog.\n")
    assert found.exit_code == 0 and found.output.strip()


@pytest.mark.parametrize(
    ("backend", "members", "name"),
    [("module", '["live", "frozen"]', "live"), ("native", '["live", "stage:pretrained"]', "stage:pretrained")],
)
def test_modules_and_other_stages_do_not_choose_tokens_together(
    dual: Make, backend: str, members: str, name: str
) -> None:
    mix = loops(f'generate = {{ by = {members}, ensemble = "mean" }}')
    request = dual(f'model.backend="{backend}"', stages=mix)
    context = opened(request)
    stage = context.experiment.stage("loops")
    with pytest.raises(ConfigError) as error:
        assemble(context, stage, context.run.stage("loops"), StopSignal(), lambda record: None)
    assert all(fact in str(error.value) for fact in ("mean", name, "rows"))


def test_a_blanked_word_is_one_token_of_the_checkpoint(dual: Make) -> None:
    request = dual(stages=loops("noise = { drop = 0, blank = 1.0, shuffle = 0 }"))
    context = opened(request)
    stack = stack_in(request)
    (ids,) = stack.vocab.encode(["red"], "en")
    rows = stack.source_rows(Sentences(stack.vocab, "en", ids=Ragged.of([[*ids, UNK, *ids]])), EN_FR)
    (red,) = stack.source_rows(Sentences(stack.vocab, "en", texts=["red"]), EN_FR).rows()
    assert rows.row(0).tolist() == [*red, UNK, *red]
    trainer = assemble(
        context, context.experiment.stage("loops"), context.run.stage("loops"), StopSignal(), lambda record: None
    )
    found = trainer.gatherer.round(0, dict.fromkeys(range(len(trainer.routes)), 1.0))
    loop = [route.number for route in trainer.routes if route.synthetic]
    sources = [one.sources.take(np.flatnonzero(np.isin(one.paths, loop))).flat for one in found.networks]
    assert all(len(flat) and (flat == UNK).all() for flat in sources)


def test_a_run_is_named_relative_to_the_experiment_file(
    dual: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dual(name="other")
    prepare_run(other, Silent())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    request = dual(stages=loops('generate = { by = "run:other" }'), name="asked")
    assert train(request, Silent()) and request.run
    assert set(Run.open(request.run).stage("loops").begun_with()["generators"]) == {"run:other"}
    monkeypatch.chdir(tmp_path)
    assert train(TrainOptions(Path("asked.toml"), Path("asked")), Silent()), "the same from another folder"
    assert Run.open(Path("asked")).experiment_folder == tmp_path
