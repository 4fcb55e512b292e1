"""Pretrained checkpoints that learn as they are, in loops: made here, offline, in the public architectures."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.facts import missing
from helpers.hub import REVISION, hub
from helpers.pretrained import experiment, make_opus, make_t5, pairs_of
from helpers.pretrained_runs import CPU, EN_FR, LIMITS, LOOPS, TEXTS, Make, modules_in, plainly, stack_in, translated
from helpers.resuming import started, wait_for
from loopmt.config import Generate, loads
from loopmt.distributed import Processes
from loopmt.errors import ConfigError, DataError, LoopmtError, RunError, UnsafeFileError
from loopmt.learn.learner import Learner
from loopmt.learn.module import ModuleLearner
from loopmt.path import Hop
from loopmt.pretrained.rows import TokenizedRows
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.batch import Rows, make_shapes
from loopmt.text.packing import pack
from loopmt.text.ragged import Ints
from loopmt.translate.protocol import HopInput, Sentences, TrainableModel
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.plan import PlanOptions, plan
from loopmt.workflow.pretrained import verify_once
from loopmt.workflow.show import overview
from loopmt.workflow.stages import TrainingContext
from loopmt.workflow.train import TrainOptions, prepare_run, train

transformers = pytest.importorskip("transformers")


def context_of(request: TrainOptions) -> TrainingContext:
    run, _ = prepare_run(request, Silent())
    return TrainingContext.open(run, CPU, Processes())


# -- the stage that is the checkpoint as it came -----------------------------------------------------------------


def test_the_unmodified_stage_generates_what_hugging_face_does(dual: Make, opus: dict[str, Path]) -> None:
    request = dual()
    prepare_run(request, Silent())
    stack = stack_in(request)
    assert translated(stack, EN_FR, TEXTS) == plainly(opus["en>fr"], TEXTS)
    beam = translated(stack, EN_FR, TEXTS, Generate(how="beam", beam=3), n=3)
    assert beam == plainly(opus["en>fr"], TEXTS, num_beams=3, num_return_sequences=3)


def test_a_multilingual_checkpoint_generates_the_target_language(triangle: Make, m2m: Path) -> None:
    request = triangle()
    prepare_run(request, Silent())
    stack = stack_in(request)
    assert len(stack.hops) == 6 and stack.num_networks == 1
    for target in ("fr", "es"):
        found = translated(stack, Hop("en", target), TEXTS)
        assert found == plainly(m2m, TEXTS, ("en", target))
        assert not any("__" in text for text in found), "the language code is no text"


def test_it_is_a_finished_stage_for_every_verb(dual: Make) -> None:
    request = dual()
    prepare_run(request, Silent())
    assert request.run
    assert Run(request.run).finished() == ["pretrained"]
    card = evaluate([request.run], EvaluateOptions(beam=1, samples=10), Silent())
    assert list(card["stages"]) == ["pretrained"]
    assert plan(request.run, PlanOptions(sentences=6), Silent())["stage"] == "pretrained"
    (first, *_) = overview(request.run)["stages"]
    assert (first["name"], first["state"], first["best_valid_bleu"]) == ("pretrained", "finished", None)


def test_n_best_lists_have_scores_and_sampling_has_keys(dual: Make) -> None:
    request = dual()
    prepare_run(request, Silent())
    stack = stack_in(request)
    inputs = [HopInput(EN_FR, Sentences(stack.vocab, "en", texts=TEXTS))]
    best = stack.generate(inputs, Generate(how="beam", beam=3), LIMITS, ("k",), 3)[0]
    repeated = Sentences(stack.vocab, "en", texts=[text for text in TEXTS for _ in range(3)])
    assert np.allclose(-best.scores, stack.score(EN_FR, repeated, best.sentences, as_generated=True)[0])
    before = torch.get_rng_state()
    draws = [stack.generate(inputs, Generate(), LIMITS, (key,))[0].sentences.texts for key in "aab"]
    assert draws[0] == draws[1] != draws[2]
    assert torch.equal(before, torch.get_rng_state())


# -- learning ------------------------------------------------------------------------------------------------------


def rows_of(stack: TrainableModel, hop: Hop, pairs: tuple[list[str], list[str]]) -> Rows:
    sources, targets = (
        Sentences(stack.vocab, one, texts=side) for one, side in zip((hop.source, hop.target), pairs, strict=True)
    )
    paths: Ints = torch.zeros(len(pairs[0]), dtype=torch.long).numpy()
    return Rows.of(stack.source_rows(sources, hop), stack.target_rows(targets, hop), paths)


@pytest.mark.parametrize("kind", ["dual", "triangle"])
@pytest.mark.parametrize("backend", ["native", "module"])
def test_the_loss_is_the_modules_own(kind: str, backend: str, request: pytest.FixtureRequest, text: Path) -> None:
    make: Make = request.getfixturevalue(kind)
    asked = make("train.label_smoothing=0.0", "train.dropout=0.0", f'model.backend="{backend}"')
    context = context_of(asked)
    stage = context.experiment.stage("first")
    stack = context.networks(stage)
    assert isinstance(stack, TokenizedRows)
    sources, targets = (side[:8] for side in pairs_of(text, "en", "fr"))
    parts = [Rows.empty()] * stack.num_networks
    parts[stack.network(EN_FR)] = rows_of(stack, EN_FR, (sources, targets))
    (batch,) = pack(parts, make_shapes([48], 8 * 48, 8), 1, "test").batches
    learn = {"networks": Learner, "modules": ModuleLearner}[stack.learner]
    learner = learn(stack, context.experiment.training(stage), 1, Processes())
    learner.update(batch, 1, 0.0)
    network = modules_in(asked).of(EN_FR)
    tokenizer = stack.tokens_of(EN_FR).tokenizer
    inputs = dict(tokenizer(sources, text_target=targets, padding=True, return_tensors="pt"))
    inputs["labels"] = inputs["labels"].masked_fill(inputs["labels"] == tokenizer.pad_token_id, -100)
    own = network.model.eval()(**inputs).loss
    number = stack.network(EN_FR)
    assert float(learner.tally.tokens[number, 0]) == int((inputs["labels"] != -100).sum())
    assert float(learner.tally.loss[number, 0] / learner.tally.tokens[number, 0]) == pytest.approx(own.item(), abs=1e-5)


def test_loops_change_every_network_and_are_compared_with_the_checkpoint(dual: Make) -> None:
    request = dual(stages={"first": '["X>Y"]', "loops": LOOPS}, compare=[("loops", "first"), ("loops", "pretrained")])
    assert train(request, Silent())
    assert request.run
    run = Run(request.run)
    before, after = (stack_in(request, name).named() for name in ("pretrained", "loops"))
    changed = {name.partition("/")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"en>fr", "fr>en"}
    card = evaluate([request.run], EvaluateOptions(beam=1, samples=10), Silent())
    (compared,), (left_out,) = card["comparisons"], card["waiting"]
    assert (compared["of"], compared["against"]) == ("loops", "pretrained")
    assert (left_out["of"], left_out["against"]) == ("loops", "first")
    assert not missing(left_out["why"], "en>fr", "target tokens"), "so few updates have unequal tokens"
    records = [record for record in run.stage("loops").records() if record["kind"] == "train"]
    assert {"en>fr", "en>fr>en", "fr>en>fr"} <= records[-1]["loss"].keys()


def test_three_languages_learn_in_loops_of_two_and_three(triangle: Make) -> None:
    mix = """["X>Y", { path = "X>Y>X", keep = 0.9 }, { path = "X>Y>Z>X", tag = true,
        generate = [{ by = "frozen", how = "greedy" }, { by = "ema" }] }]"""
    request = triangle(stages={"loops": mix.replace("\n", " ")})
    assert train(request, Silent())
    before, after = (stack_in(request, name).named() for name in ("pretrained", "loops"))
    assert not all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("make", ["dual", "triangle"])
def test_rewards_are_learnt_under_the_distribution_that_was_drawn_from(
    make: str, request: pytest.FixtureRequest
) -> None:
    """In the first update, what is computed without dropout equals what was stored; language codes do not count."""
    rewarded = 'samples = 2, reward = "likelihood", credit = "all", kl = 0.1, generate = { top_k = 0 }'
    options = ("train.round=1", "train.log_every=1", "train.tokens=128", "guards.filters=[]")
    mix = f'["X>Y", {{ path = "en>fr>en", {rewarded} }}]'
    asked: TrainOptions = request.getfixturevalue(make)(*options, stages={"loops": mix}, updates=2)
    assert train(asked, Silent())
    assert asked.run
    records = [record for record in Run(asked.run).stage("loops").records() if record["kind"] == "train"]
    first = records[0]["measured"]
    name = "en>fr>en rewards en>fr"
    assert first["ratio"][name] == pytest.approx(1, abs=1e-3) and first["clipped"][name] == 0
    assert first["divergence"][name] == pytest.approx(0, abs=1e-4)
    before, after = (stack_in(asked, stage).named() for stage in ("pretrained", "loops"))
    assert not all(torch.equal(before[weight], after[weight]) for weight in before)


def test_a_stage_goes_on_from_another(dual: Make) -> None:
    request = dual(stages={"first": '["X>Y"]'})
    assert train(request, Silent())
    further = dual(stages={"first": '["X>Y"]', "second": ("first", '["X>Y"]')})
    assert train(further, Silent())
    first, second = (stack_in(further, name).named() for name in ("first", "second"))
    assert not all(torch.equal(first[name], second[name]) for name in first)


def test_a_killed_run_resumes_to_the_same_bits(dual: Make) -> None:
    mix = '["X>Y", { path = "X>Y>X", generate = { by = "ema" } }]'
    settings = {"stages": {"loops": mix}, "updates": 12, "validate_every": 4}
    whole, cut = dual(name="whole", **settings), dual(name="cut", **settings)
    assert train(whole, Silent())
    assert cut.run
    folder = Run(cut.run).stage("loops")
    process = started(cut)
    wait_for(lambda: bool([update for update in folder.updates() if update]), process)
    process.kill()
    process.communicate()
    assert not folder.finished, "killed in the middle"
    while not train(replace(cut, stop_after=0.0), Silent()):
        pass
    expected, found = (stack_in(one, "loops").named() for one in (whole, cut))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert [path for path in folder.folder.rglob("*") if path.suffix in (".bin", ".pt", ".pkl")] == []


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ('preset = "tiny"', ["model.preset", "Remove"]),
        ("layers = 2", ["model.layers"]),
        ('sharing = "all"', ["model.sharing"]),
        ("dropout = 0.2", ["model.dropout", "train.dropout"]),
        ('codes = { de = "deu" }', ["model.codes.de", "en, fr"]),
        ('prompt = "translate"', ["model.prompt", "{text}"]),
        ("\n[vocab]\nsize = 400", ["[vocab]", "tokenizer"]),
    ],
)
def test_keys_that_conflict_with_model_pretrained(lines: str, facts: list[str], text: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(experiment(text, ["en", "fr"], "folder", model=lines))
    assert all(fact in str(caught.value) for fact in facts)


@pytest.mark.parametrize(
    ("override", "facts"),
    [
        ("train.subword_dropout=0.1", ["train.subword_dropout", "tokenizer"]),
        ("stage.first.name=pretrained", ["pretrained"]),
        ('model.pretrained={"en>fr"="a"}', ["fr>en", "model.pretrained", "en>fr"]),
        ('model.pretrained={"en>de"="a"}', ["en>de", "en, fr"]),
        ('model.pretrained={"en"="a"}', ["model.pretrained", "en>fr"]),
    ],
)
def test_settings_that_pretrained_checkpoints_do_not_support(override: str, facts: list[str], text: Path) -> None:
    with pytest.raises(LoopmtError) as caught:
        loads(experiment(text, ["en", "fr"], "folder"), [override])
    assert all(fact in str(caught.value) for fact in facts)


@pytest.mark.parametrize(
    ("pretrained", "more"),
    [("folder", "model.backend='module'"), ("folder", "model.adapt='lora'"), ({"en>fr": "a", "fr>en": "b"}, "seed=2")],
)
def test_sharding_needs_one_network_of_our_own(pretrained: str | dict[str, str], more: str, text: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(experiment(text, ["en", "fr"], pretrained), ["train.shard=true", more])
    assert all(fact in str(caught.value) for fact in ("train.shard", "false"))


def refused(request: TrainOptions, *facts: str) -> None:
    with pytest.raises(LoopmtError) as caught:
        prepare_run(request, Silent())
    assert all(fact in str(caught.value) for fact in facts), str(caught.value)
    assert request.run and not (request.run / "pretrained").exists()


def test_checkpoints_without_the_languages_are_refused(triangle: Make, dual: Make, opus: dict[str, Path]) -> None:
    refused(triangle("model.codes={en='eng'}"), '"eng"', '"en"', "model.codes")
    refused(triangle(f"model.pretrained='{opus['en>fr']}'"), "one direction", "model.prompt")
    swapped = {"en>fr": str(opus["fr>en"]), "fr>en": str(opus["en>fr"])}
    refused(dual(f"model.pretrained={json.dumps(swapped).replace(': ', '=')}"), "fr>en", "model.codes")
    refused(triangle("model.pretrained='nowhere'"), "nowhere")


def test_missing_files_and_files_with_code_are_refused(triangle: Make, m2m: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(m2m, tmp_path / "copy")
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    refused(triangle(f"model.pretrained='{copy}'"), "pickle", "save_pretrained")
    shutil.rmtree(copy)
    shutil.copytree(m2m, copy)
    for name in ("vocab.json", "sentencepiece.bpe.model", "tokenizer.json", "tokenizer_config.json"):
        (copy / name).unlink(missing_ok=True)
    refused(triangle(f"model.pretrained='{copy}'"), "tokenizer", "copy")


def test_without_the_hub_the_error_names_a_local_folder(triangle: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refused(triangle("model.pretrained='somebody/no-such-model'"), "somebody/no-such-model", "hf download", "FOLDER")


def test_a_checkpoint_of_the_hub_is_recorded_with_its_revision(
    triangle: Make, m2m: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub").constants
    with hub("somebody/m2m", m2m) as address:
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace("https://huggingface.co", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        request = triangle("model.pretrained='somebody/m2m'")
        prepare_run(request, Silent())
        refused(triangle("model.pretrained='somebody/other'", name="other"), "somebody/other", "hf download")
    assert request.run
    notes = json.loads((request.run / "pretrained" / "pretrained.json").read_text())
    assert notes["revisions"] == {"somebody/m2m": REVISION}
    size, digest = notes["files"]["all/model.safetensors"]
    content = (m2m / "model.safetensors").read_bytes()
    assert (size, digest) == (len(content), hashlib.sha256(content).hexdigest())
    pinned = triangle(f"model.pretrained='somebody/m2m@{REVISION}'", name="pinned")
    prepare_run(pinned, Silent())  # from the cache: this revision was downloaded before


def test_a_checkpoint_too_large_for_memory_is_refused_before_it_is_copied(
    triangle: Make, m2m: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(m2m, tmp_path / "copy")
    header = json.dumps({"w": {"dtype": "F32", "shape": [2**19, 2**20], "data_offsets": [0, 2**41]}}).encode()
    with (copy / "model.safetensors").open("wb") as stream:  # a hole, which takes no space
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + 2**41)
    refused(triangle(f"model.pretrained='{copy}'"), f"{2**39:,}", "10,240.0 GiB", "2,048.0 GiB", "lora", "smaller")
    refused(triangle(f"model.pretrained='{copy}'", "model.adapt=lora"), "2,048.0 GiB", "adapter")


def test_a_run_keeps_its_checkpoint(triangle: Make, m2m: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(m2m, tmp_path / "copy")
    request = triangle(f"model.pretrained='{copy}'", stages={"first": '["X>Y"]'}, updates=2)
    assert train(request, Silent())
    shutil.rmtree(copy)
    assert train(request, Silent()), "the run has a copy"
    with pytest.raises(RunError) as caught:
        train(triangle(stages={"first": '["X>Y"]'}, updates=2), Silent())
    assert "first" in str(caught.value) and str(copy) in str(caught.value)
    assert request.run
    (request.run / "pretrained" / "all" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises((RunError, DataError), match=r"model\.safetensors"):
        prepare_run(request, Silent())


# -- export --------------------------------------------------------------------------------------------------------


def test_a_copy_of_somebody_else_is_checked(dual: Make) -> None:
    """Notes that hold something else or name a folder outside of the run, and a file that was changed."""
    run, _ = prepare_run(request := dual(), Silent())
    file = run.folder / "pretrained" / "pretrained.json"
    notes = json.loads(file.read_text())
    outside = {**notes, "folders": {**notes["folders"], "en>fr": "../../outside"}, "verified": False}
    values: tuple[tuple[str, object], ...] = (("folders", []), ("folders", {}), ("files", {"x": 5}), ("digest", "x"))
    for content in (outside, *({**notes, key: value} for key, value in values)):
        file.write_text(json.dumps(content))
        with pytest.raises(RunError, match="pretrained"):
            stack_in(request)
    file.write_text(json.dumps(outside))
    with pytest.raises(UnsafeFileError, match="outside"):
        verify_once(run.experiment(), run, Silent())
    file.write_text(json.dumps(notes))
    vocabulary = file.parent / notes["folders"]["en>fr"] / "vocab.json"
    vocabulary.write_text(vocabulary.read_text().replace("0", "1", 1))
    with pytest.raises(RunError, match=r"vocab.json is not the file that was copied"):
        stack_in(request)


def test_an_export_is_the_same_checkpoint_with_other_weights(dual: Make, opus: dict[str, Path], tmp_path: Path) -> None:
    request = dual("train.dropout=0.0", stages={"loops": LOOPS})
    assert train(request, Silent()) and request.run
    parities = export(request.run, ExportOptions("hf", tmp_path / "out", "loops", sentences=10), Silent())
    assert [(one.direction, one.same, one.misread) for one in parities] == [("en>fr", 10, 0), ("fr>en", 10, 0)]
    folder = tmp_path / "out" / "en-fr"
    assert plainly(folder, TEXTS) == translated(stack_in(request, "loops"), EN_FR, TEXTS)
    assert (folder / "source.spm").read_bytes() == (opus["en>fr"] / "source.spm").read_bytes()
    assert not list(folder.glob("*.bin"))
    again = dual(name="again", stages={"loops": LOOPS})
    exported = {way: str(tmp_path / "out" / way.replace(">", "-")) for way in opus}
    prepare_run(replace(again, overrides=[f"model.pretrained={json.dumps(exported).replace(': ', '=')}"]), Silent())
    assert translated(stack_in(again), EN_FR, TEXTS) == plainly(folder, TEXTS), "it can be trained on"


def test_only_hugging_face_has_its_architecture(triangle: Make, tmp_path: Path) -> None:
    request = triangle()
    prepare_run(request, Silent())
    assert request.run
    export(request.run, ExportOptions("hf", tmp_path / "out", "pretrained", sentences=4), Silent())
    assert plainly(tmp_path / "out" / "all", TEXTS, ("en", "es")) == translated(
        stack_in(request), Hop("en", "es"), TEXTS
    )
    with pytest.raises(ConfigError, match="--to hf"):
        export(request.run, ExportOptions("ct2", tmp_path / "ct2", "pretrained"), Silent())
    assert not (tmp_path / "ct2").exists()


# -- prompts and tags ------------------------------------------------------------------------------------------------


def test_a_prompt_or_a_tag_selects_the_target(text: Path, tmp_path: Path) -> None:
    t5 = make_t5(text, tmp_path / "t5")
    file = tmp_path / "t5.toml"
    prompt = 'prompt = "translate {source_language} to {target_language}: {text}"\ncodes = { en = "English" }'
    file.write_text(experiment(text, ["en", "fr"], "t5", model=prompt))
    request = TrainOptions(file, tmp_path / "run")
    prepare_run(request, Silent())
    stack = stack_in(request)
    source = "The {text} cat."
    (ids,) = stack.tokens_of(EN_FR).read([source], EN_FR)
    assert ids == stack.tokens_of(EN_FR).tokenizer(f"translate English to fr: {source}").input_ids
    found = translated(stack, EN_FR, TEXTS)
    assert found == plainly(t5, [f"translate English to fr: {text}" for text in TEXTS])
    multi = make_opus(text, tmp_path / "multi", "en", "fr", steps=0, tags=("fra", "spa"))
    file.write_text(experiment(text, ["en", "fr"], {"en>fr": "multi"}, mix='["en>fr"]'))
    refused(TrainOptions(file, tmp_path / "other"), '"fr"', "fra")
    file.write_text(experiment(text, ["en", "fr"], {"en>fr": "multi"}, mix='["en>fr"]', model='codes = { fr = "fra" }'))
    request = TrainOptions(file, tmp_path / "other")
    prepare_run(request, Silent())
    assert translated(stack_in(request), EN_FR, TEXTS) == plainly(multi, [f">>fra<< {text}" for text in TEXTS])
