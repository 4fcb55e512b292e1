"""LoRA: an adapter beside a frozen checkpoint learns in loops, resumes, and is exported alone or merged."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.facts import missing
from helpers.pretrained import experiment, transformers
from helpers.pretrained_runs import CPU, EN_FR, LOOPS, TEXTS, Make, modules_in, plainly, stack_in, translated
from loopmt.config import Experiment, Lora, loads, setting_differences
from loopmt.distributed import Processes
from loopmt.errors import ConfigError, LoopmtError, MissingExtraError
from loopmt.pretrained.lora import targets_in
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.translate.protocol import TrainableModel
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.pretrained import whole_weights
from loopmt.workflow.stages import TrainingContext, starting_point
from loopmt.workflow.train import TrainOptions, prepare_run, train

ADAPT = 'adapt = "lora"\nlora = { rank = 4, alpha = 64 }'


def test_without_peft_the_error_names_the_package(dual: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError) as caught:
        train(dual(model=ADAPT), Silent())
    assert "peft" in str(caught.value) and "pip install" in str(caught.value) and "full" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "stage", "facts"),
    [
        ('adapt = "half"', "", ["model.adapt", "lora"]),
        ("", 'adapt = "none"', ["adapt", "lora", "full"]),
        ("", "lora = { rank = 0 }", ["rank"]),
        ("", 'adapt = "lora"\n[[compare]]\nof = "second"\nagainst = "first"', ["adapt", "tuned", "second", "first"]),
    ],
)
def test_settings_that_cannot_be(model: str, stage: str, facts: list[str], tmp_path: Path) -> None:
    text = experiment(tmp_path, ["en", "fr"], "folder", model=model)
    second = f'[[stage]]\nname = "second"\nmix = ["X>Y"]\nupdates = 4\n{stage}\n'
    with pytest.raises(ConfigError) as caught:
        loads(text + second)
    assert all(fact in str(caught.value) for fact in facts), str(caught.value)


def stage(name: str, start: str, adapt: str) -> str:
    return f'[[stage]]\nname = "{name}"\nfrom = "{start}"\nmix = ["X>Y"]\nupdates = 2\n{adapt}\n'


LORA = 'adapt = "lora"\nlora = { rank = 2, alpha = 64 }'


def test_stages_change_how_they_adapt(dual: Make, tmp_path: Path) -> None:
    """full -> LoRA starts an adapter on the current weights; LoRA -> full, or to another rank, merges it."""
    pytest.importorskip("peft", reason="LoRA needs `peft`")
    more = stage("thin", "first", LORA) + stage("thick", "thin", ADAPT) + stage("whole", "thick", "")
    more += stage("beside", "pretrained", LORA)
    more += '[[compare]]\nof = "beside"\nagainst = "first"\ntuned = ["adapt"]\n'

    def make(name: str) -> TrainOptions:
        request = dual("train.learning_rate=0.03", "train.dropout=0.0", name=name, updates=2)
        request.file.write_text(request.file.read_text(encoding="utf-8") + more, encoding="utf-8")
        return request

    run, cut = make("run"), make("cut")
    assert train(run, Silent()) and run.run
    while not train(replace(cut, stop_after=0.0, until="thick"), Silent()):
        pass
    for name in ("thin", "thick"):
        one, other = (stack_in(request, name).named() for request in (run, cut))
        assert all(torch.equal(one[key], other[key]) for key in one), name
    text = experiment_of(run)
    merged = {name: whole_weights(Run(run.run), text, text.stage(name)) for name in ("first", "thin", "thick")}
    key = next(key for key in merged["first"] if key.endswith("q_proj.weight"))
    assert not torch.equal(merged["first"][key], merged["thin"][key])
    assert not torch.equal(merged["thin"][key], merged["thick"][key])
    thin = stack_in(run, "thin")
    base = (
        modules_in(run, "thick")
        .of(EN_FR)
        .model.get_parameter(key.partition("/")[2].replace("q_proj.", "q_proj.base_layer."))
    )
    assert torch.equal(base, merged["thin"][key]), "the new adapter lies on the merged weights"
    assert translated(thin, EN_FR, TEXTS) == translated(stack_of(run, merged["thin"]), EN_FR, TEXTS)
    start = starting_point(TrainingContext.open(Run(run.run), CPU, Processes()), text.stage("whole")).named()
    assert all(torch.equal(tensor, merged["thick"][key]) for key, tensor in start.items())
    with pytest.raises(ConfigError, match="--merge"):
        export(run.run, ExportOptions("hf", tmp_path / "alone", "thin", sentences=2), Silent())
    export(run.run, ExportOptions("hf", tmp_path / "out", "thin", sentences=4, merge=True), Silent())
    assert plainly(tmp_path / "out" / "en-fr", TEXTS) == translated(thin, EN_FR, TEXTS)
    assert setting_differences(text, text.compare[0]) == []


def experiment_of(request: TrainOptions) -> Experiment:
    return Run(request.run or Path()).experiment()


def stack_of(request: TrainOptions, weights: Mapping[str, torch.Tensor]) -> TrainableModel:
    stack = stack_in(request)
    stack.load(weights)
    return stack


def test_lora_needs_a_pretrained_checkpoint(tmp_path: Path) -> None:
    text = experiment(tmp_path, ["en", "fr"], "folder", model=ADAPT).replace('pretrained = "folder"\n', "")
    with pytest.raises(ConfigError, match=r"model\.pretrained"):
        loads(text)


def test_an_adapter_learns_and_the_rest_stays(dual: Make, tmp_path: Path, opus: dict[str, Path]) -> None:
    peft = pytest.importorskip("peft", reason="LoRA needs `peft`")
    settings = {"model": ADAPT, "stages": {"loops": LOOPS}, "updates": 6}
    request, cut = (
        dual("train.learning_rate=0.03", **settings),
        dual("train.learning_rate=0.03", name="cut", **settings),
    )
    assert train(request, Silent()) and request.run
    while not train(replace(cut, stop_after=0.0), Silent()):
        pass
    stack, again = stack_in(request, "loops"), stack_in(cut, "loops")
    assert stack.named() and all("lora_" in name for name in stack.named())
    assert all(torch.equal(again.named()[name], tensor) for name, tensor in stack.named().items())
    said = translated(stack, EN_FR, TEXTS)
    export(request.run, ExportOptions("hf", tmp_path / "adapter", "loops", sentences=8), Silent())
    base = transformers.AutoModelForSeq2SeqLM.from_pretrained(opus["en>fr"])
    model = peft.PeftModel.from_pretrained(base, tmp_path / "adapter" / "en-fr").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(opus["en>fr"])
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    ids = model.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=20, max_length=None)
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == said
    described = json.loads((tmp_path / "adapter" / "en-fr" / "adapter_config.json").read_text(encoding="utf-8"))
    assert (described["r"], described["base_model_name_or_path"]) == (4, str(opus["en>fr"]))
    export(request.run, ExportOptions("hf", tmp_path / "whole", "loops", sentences=8, merge=True), Silent())
    assert plainly(tmp_path / "whole" / "en-fr", TEXTS) == said
    assert translated(stack_in(request), EN_FR, TEXTS) == plainly(opus["en>fr"], TEXTS), "the base is as it was"
    prepare_run(request, Silent())


def test_attention_under_unknown_names_is_no_silent_nothing() -> None:
    model = torch.nn.ModuleDict({"mixer": torch.nn.Linear(2, 2), "lm_head": torch.nn.Linear(2, 2)})
    with pytest.raises(ConfigError) as caught:
        targets_in(model, Lora(), Path("folder"))
    assert not missing(caught.value, "lora.targets", "attention", "folder", "mixer") and "lm_head" not in str(
        caught.value
    )


def test_unknown_targets_are_listed_with_the_known_ones(triangle: Make) -> None:
    pytest.importorskip("peft", reason="LoRA needs `peft`")
    with pytest.raises(LoopmtError) as caught:
        train(triangle(model='adapt = "lora"\nlora = { targets = ["q_porj"] }'), Silent())
    assert all(fact in str(caught.value) for fact in ("q_porj", "q_proj", "fc1", "attention"))
    assert train(
        triangle(model='adapt = "lora"\nlora = { targets = ["q_proj", "fc1"], rank = 2 }', updates=2), Silent()
    )
