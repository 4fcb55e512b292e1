"""LoRA: an adapter beside a frozen checkpoint learns in loops, resumes, and is exported alone or merged."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.pretrained import experiment, transformers
from helpers.pretrained_runs import EN_FR, LOOPS, TEXTS, Make, plainly, stack_in, translated
from loopmt.config import loads
from loopmt.errors import ConfigError, LoopmtError, MissingExtraError
from loopmt.progress import Silent
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.train import prepare_run, train

ADAPT = 'adapt = "lora"\nlora = { rank = 4, alpha = 64 }'


def test_without_peft_the_error_names_the_package(dual: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError) as caught:
        train(dual(model=ADAPT), Silent())
    assert "peft" in str(caught.value) and "pip install" in str(caught.value) and "full" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "more", "facts"),
    [
        ("", 'adapt = "lora"\nfrom = "first"', ["second", "first", "lora", "full"]),
        (ADAPT, 'lora = { rank = 2 }\nfrom = "first"', ["second", "rank", "pretrained"]),
        ('adapt = "half"', "", ["model.adapt", "lora"]),
    ],
)
def test_a_stage_goes_on_as_it_began(model: str, more: str, facts: list[str], tmp_path: Path) -> None:
    text = experiment(tmp_path, ["en", "fr"], "folder", model=model)
    second = f'[[stage]]\nname = "second"\nmix = ["X>Y"]\nupdates = 2\n{more}\n'
    with pytest.raises(ConfigError) as caught:
        loads(text + second)
    assert all(fact in str(caught.value) for fact in facts)


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


def test_unknown_targets_are_listed_with_the_known_ones(triangle: Make) -> None:
    pytest.importorskip("peft", reason="LoRA needs `peft`")
    with pytest.raises(LoopmtError) as caught:
        train(triangle(model='adapt = "lora"\nlora = { targets = ["q_porj"] }'), Silent())
    assert all(fact in str(caught.value) for fact in ("q_porj", "q_proj", "fc1", "attention"))
    assert train(
        triangle(model='adapt = "lora"\nlora = { targets = ["q_proj", "fc1"], rank = 2 }', updates=2), Silent()
    )
