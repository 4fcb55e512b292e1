"""Decoder-only language models that learn in loops: prompts, padding, the loss, stop strings, LoRA, export."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.causal import make_llama, make_qwen
from helpers.facts import missing
from helpers.pretrained import experiment, pairs_of
from helpers.pretrained_runs import CPU, EN_FR, GREEDY, LIMITS, TEXTS, modules_in, stack_in, translated
from helpers.resuming import started, wait_for
from loopmt.config import Generate, loads
from loopmt.distributed import Processes
from loopmt.errors import LoopmtError
from loopmt.learn.module import ModuleLearner
from loopmt.pretrained.causal import CausalNetwork
from loopmt.pretrained.checkpoint import ImportOptions
from loopmt.pretrained.module_stack import ModuleStack
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.batch import Rows, make_shapes
from loopmt.text.packing import pack
from loopmt.translate.protocol import Sentences
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.importing import import_translator
from loopmt.workflow.stages import TrainingContext
from loopmt.workflow.train import TrainOptions, prepare_run, train

transformers = pytest.importorskip("transformers")

PROMPT = "{source_language} to {target_language}: {text}"
SETTINGS = f'prompt = "{PROMPT}"\ncodes = {{ en = "English", fr = "French" }}'
LOOPS = """[[stage]]
name = "loops"
mix = ["X>Y", { path = "X>Y>X", tag = true, generate = { by = "ema" }, noise = {} }]
updates = 12
"""
ADAPTER = """[[stage]]
name = "adapter"
adapt = "lora"
mix = ["X>Y"]
updates = 4
"""
Make = Callable[..., TrainOptions]


@pytest.fixture(scope="module")
def text(tiny_experiment_file: Path) -> Path:
    return tiny_experiment_file.parent / "text"


@pytest.fixture(scope="module")
def models(text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("causal")
    return {one: make(text, folder / one, steps=60) for one, make in (("qwen", make_qwen), ("llama", make_llama))}


@pytest.fixture(scope="module")
def ask(models: dict[str, Path], text: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    folder = tmp_path_factory.mktemp("runs")

    def make(kind: str, name: str, stages: str) -> TrainOptions:
        lines = experiment(text, ["en", "fr"], str(models[kind]), model=SETTINGS, stages={}, validate_every=4)
        file = folder / f"{name}.toml"
        file.write_text(lines.replace("max_length = 60", "max_length = 120") + stages + "[guards]\nfilters = []\n")
        return TrainOptions(file, folder / name)

    return make


@pytest.fixture(scope="module")
def trained(ask: Make) -> TrainOptions:
    """A stage with loops, and an adapter."""
    request = ask("qwen", "trained", LOOPS + ADAPTER)
    assert train(request, Silent())
    return request


@pytest.fixture(scope="module")
def llama(ask: Make) -> TrainOptions:
    request = ask("llama", "llama", LOOPS)
    prepare_run(request, Silent())
    return request


@pytest.fixture(params=["qwen", "llama"])
def either(request: pytest.FixtureRequest) -> TrainOptions:
    made = request.getfixturevalue("trained" if request.param == "qwen" else "llama")
    assert isinstance(made, TrainOptions)
    return made


def network_in(request: TrainOptions, stage: str = "pretrained") -> CausalNetwork:
    found = modules_in(request, stage).of(EN_FR)
    assert isinstance(found, CausalNetwork)
    return found


def prompted(tokenizer: Any, text: str) -> Any:
    """One prompt as in the documentation of the models."""
    prompt = f"English to French: {text}"
    if not tokenizer.chat_template:
        return tokenizer(prompt, return_tensors="pt").input_ids
    turns = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)[
        "input_ids"
    ]


def plainly(folder: Path, texts: Sequence[str], model: Any = None) -> list[str]:
    """What Hugging Face alone generates, one sentence at a time, without padding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = model or transformers.AutoModelForCausalLM.from_pretrained(folder)
    found = []
    for text in texts:
        ids = prompted(tokenizer, text)
        made = model.generate(ids, do_sample=False, max_new_tokens=20)[0, ids.shape[1] :]
        found.append(" ".join(tokenizer.decode(made, skip_special_tokens=True).split()))
    return found


# -- translating ---------------------------------------------------------------------------------------------------


def folder_of(request: TrainOptions) -> Path:
    """The checkpoint of a run."""
    assert request.run
    return request.run / "pretrained" / "all"


def test_the_unmodified_model_generates_what_hugging_face_does(either: TrainOptions) -> None:
    found = translated(stack_in(either), EN_FR, TEXTS)
    assert found == plainly(folder_of(either), TEXTS)


def test_it_is_evaluated_like_any_stage(trained: TrainOptions) -> None:
    card = evaluate([trained.run or Path()], EvaluateOptions(beam=1, samples=10, stages=["pretrained"]), Silent())
    assert list(card["stages"]) == ["pretrained"]


def test_a_prompt_may_hold_anything(trained: TrainOptions) -> None:
    tokens = network_in(trained).tokens
    text = "A {text} of {source_language}.\\1"
    (ids,) = tokens.read([text], EN_FR)
    whole = tokens.tokenizer.decode(ids)
    assert whole == f"<|im_start|>user\nEnglish to French: {text}<|im_end|>\n<|im_start|>assistant\n"
    (ids,) = tokens.read(["word " * 3000], EN_FR)
    assert len(ids) < 600 and tokens.tokenizer.decode(ids).endswith("<|im_start|>assistant\n"), "the text is cut"
    bare = replace(tokens, chat=False)
    assert bare.tokenizer.decode(bare.read(["A cat."], EN_FR)[0]) == "English to French: A cat."


def test_stop_strings_end_a_translation(trained: TrainOptions) -> None:
    network = network_in(trained)
    sources = network.tokens.read(TEXTS, EN_FR)
    whole = [text for text, _ in network.generate(sources, EN_FR, GREEDY, LIMITS, 1)]
    stop = next(one for one in "".join(whole) if one.isalpha())
    stopping = replace(network, tokens=replace(network.tokens, stop=(stop,)))
    found = stopping.generate(sources, EN_FR, GREEDY, LIMITS, 1)
    assert [text for text, _ in found] == [one.partition(stop)[0].strip() for one in whole]
    assert all(end for (_, end), one in zip(found, whole, strict=True) if stop in one)


def test_samples_have_keys(trained: TrainOptions) -> None:
    stack = stack_in(trained)
    draws = [translated(stack, EN_FR, TEXTS, Generate(), n) for n in (1, 1, 3)]
    assert draws[0] == draws[1] and len(draws[2]) == 3 * len(TEXTS)
    assert len(translated(stack, EN_FR, TEXTS, Generate(how="beam", beam=2), 2)) == 2 * len(TEXTS)


# -- learning ------------------------------------------------------------------------------------------------------


def own_loss(model: Any, tokenizer: Any, source: str, target: str) -> tuple[float, int]:
    """The loss of a target alone, by the module's own labels, and its tokens."""
    prompt = prompted(tokenizer, source)
    answer = tokenizer(target, add_special_tokens=False, return_tensors="pt").input_ids
    answer = torch.cat([answer, torch.tensor([[tokenizer.eos_token_id]])], 1)
    labels = torch.cat([torch.full_like(prompt, -100), answer], 1)
    with torch.no_grad():
        loss = model(input_ids=torch.cat([prompt, answer], 1), labels=labels).loss
    return float(loss) * answer.shape[1], answer.shape[1]


def test_the_loss_is_that_of_the_target(either: TrainOptions, text: Path) -> None:
    assert either.run
    context = TrainingContext.open(Run(either.run), CPU, Processes())
    stage = context.experiment.stage("loops")
    stack = context.networks(stage)
    assert isinstance(stack, ModuleStack)
    sources, targets = (side[:8] for side in pairs_of(text, "en", "fr"))
    assert len({len(source) for source in sources}) > 1, "padding is needed"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder_of(either))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder_of(either))
    own = [own_loss(model, tokenizer, *pair) for pair in zip(sources, targets, strict=True)]
    sides = (Sentences(stack.vocab, "en", texts=sources), Sentences(stack.vocab, "fr", texts=targets))
    scores, counts = stack.score(EN_FR, *sides)
    assert scores.tolist() == pytest.approx([loss for loss, _ in own], rel=1e-4)
    assert counts.tolist() == [count for _, count in own]
    rows = Rows.of(stack.source_rows(sides[0], EN_FR), stack.target_rows(sides[1], EN_FR), counts * 0)
    (batch,) = pack([rows], make_shapes([120], 8 * 120, 8), 1, "test").batches
    settings = context.experiment.training(stage).model_copy(update={"label_smoothing": 0.0})
    learner = ModuleLearner(stack, settings, 1, Processes())
    before = {name: tensor.clone() for name, tensor in stack.named().items()}
    learner.update(batch, 1, 1e-3)
    assert float(learner.tally.tokens.sum()) == sum(counts)
    assert float(learner.tally.loss.sum()) == pytest.approx(sum(loss for loss, _ in own), rel=1e-4)
    changed = [name for name, tensor in stack.named().items() if not torch.equal(tensor, before[name])]
    assert len(changed) == len(before) and all(tensor.isfinite().all() for tensor in stack.named().values())
    after, _ = stack.score(EN_FR, *sides)
    assert after.sum() < scores.sum()


def test_a_killed_run_resumes_to_the_same_bits(ask: Make, trained: TrainOptions) -> None:
    cut = ask("qwen", "cut", LOOPS)
    assert cut.run
    folder = Run(cut.run).stage("loops")
    process = started(cut)
    wait_for(lambda: bool([update for update in folder.updates() if update]), process)
    process.kill()
    process.communicate()
    while not train(replace(cut, stop_after=0.0), Silent()):
        pass
    expected, found = (stack_in(one, "loops").named() for one in (trained, cut))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    unchanged = stack_in(trained).named()
    assert not any(torch.equal(unchanged[name], expected[name]) for name in expected)
    records = [record for record in folder.records() if record["kind"] == "train"]
    assert {"en>fr", "en>fr>en", "fr>en>fr"} <= records[-1]["loss"].keys()


# -- LoRA and export -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stage", "merge"), [("loops", False), ("adapter", False), ("adapter", True)])
def test_an_export_is_the_same_model(trained: TrainOptions, tmp_path: Path, stage: str, merge: bool) -> None:
    peft = pytest.importorskip("peft", reason="LoRA needs `peft`")
    assert trained.run
    one, other = export(trained.run, ExportOptions("hf", tmp_path / "out", stage, sentences=5, merge=merge), Silent())
    assert one.same + one.ties == other.same + other.ties == 5
    expected = translated(stack_in(trained, stage), EN_FR, TEXTS)
    folder = tmp_path / "out" / "all"
    if stage == "loops" or merge:
        assert plainly(folder, TEXTS) == expected
    else:
        names = set(stack_in(trained, "adapter").named())
        assert all("lora_" in name for name in names) and any("o_proj" in name for name in names)
        base = transformers.AutoModelForCausalLM.from_pretrained(folder_of(trained))
        assert plainly(folder_of(trained), TEXTS, peft.PeftModel.from_pretrained(base, folder)) == expected


def test_the_code_in_the_readme_of_an_export_runs(
    either: TrainOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export(either.run or Path(), ExportOptions("hf", tmp_path / "out", "pretrained", sentences=2), Silent())
    monkeypatch.chdir(tmp_path / "out" / "all")
    code = Path("README.md").read_text().split("```python\n")[1].split("```")[0]
    capsys.readouterr()
    exec(code.replace("max_new_tokens=100", "max_new_tokens=20"), {})
    (expected,) = translated(stack_in(either), EN_FR, ["A sentence."])
    (found,) = ast.literal_eval(capsys.readouterr().out.strip())
    assert " ".join(found.split()) == expected


# -- what is refused -----------------------------------------------------------------------------------------------


def test_what_cannot_be_is_explained(models: dict[str, Path], text: Path, tmp_path: Path, triangle_of: Path) -> None:
    cases: list[tuple[str, str, list[str]]] = [
        (str(models["qwen"]), "", ["prompt", "{text}"]),
        (str(models["llama"]), f"{SETTINGS}\nchat = true", ["chat", "template"]),
        (str(triangle_of), 'stop = ["x"]', ["model.stop", "decoder-only"]),
        (str(models["llama"]), f'{SETTINGS}\nstop = [""]', ["model.stop"]),
    ]
    for folder, model, facts in cases:
        file = tmp_path / "wrong.toml"
        file.write_text(experiment(text, ["en", "fr"], folder, model=model))
        with pytest.raises(LoopmtError) as caught:
            prepare_run(TrainOptions(file, tmp_path / "wrong"), Silent())
        assert not missing(caught.value, *facts)
    pair = {"en>fr": str(models["qwen"]), "fr>en": str(models["llama"])}
    file.write_text(experiment(text, ["en", "fr"], pair))
    with pytest.raises(LoopmtError) as caught:
        prepare_run(TrainOptions(file, tmp_path / "wrong"), Silent())
    assert not missing(caught.value, "prompt", "qwen")
    with pytest.raises(LoopmtError) as caught:
        import_translator(models["qwen"], tmp_path / "imported", ImportOptions(EN_FR))
    assert not missing(caught.value, "decoder-only", "pretrained", "url")
    with pytest.raises(LoopmtError, match=r"model\.chat"):
        loads(experiment(text, ["en", "fr"], "x").replace('pretrained = "x"', "chat = true"))


@pytest.fixture(scope="module")
def triangle_of(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from helpers.pretrained import make_m2m

    return make_m2m(text, tmp_path_factory.mktemp("m2m") / "m2m", ["en", "fr"], steps=0)
