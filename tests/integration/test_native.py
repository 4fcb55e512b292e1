"""Checkpoints computed by loopmt's own transformer give the numbers of Hugging Face's module."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.pretrained import SIZE, make_m2m, make_opus, pairs_of, transformers
from helpers.pretrained_runs import CPU, EN_FR, GREEDY, LIMITS, LOOPS, TEXTS, Make, modules_in, plainly, stack_in
from helpers.recorded import recorder
from loopmt.config import Generate, Train
from loopmt.distributed import Processes
from loopmt.errors import DataError
from loopmt.learn.learner import Learner
from loopmt.learn.module import ModuleLearner
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import load_pretrained, load_tokenizer
from loopmt.pretrained.module_stack import ModuleStack
from loopmt.pretrained.native import UnfitError, native_form
from loopmt.pretrained.native_stack import NativeStack
from loopmt.pretrained.network import PretrainedNetwork
from loopmt.pretrained.tokens import ModelTokens
from loopmt.pretrained.verify import disagreement
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.batch import Rows, make_shapes
from loopmt.text.packing import pack
from loopmt.text.ragged import Ints
from loopmt.translate.captured_decoder import CapturedDecoder
from loopmt.translate.decoder import generate_nbest
from loopmt.translate.protocol import HopInput, Sentences, TrainableModel
from loopmt.workflow.checkpoint_check import examine_checkpoint
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.train import prepare_run, train

MORE = {**SIZE, "encoder_layers": 3, "decoder_layers": 2, "init_std": 0.3}  # unequal sides


def random_opus(text: Path, folder: Path, settings: dict[str, Any]) -> None:
    """Random weights in the shape of OPUS-MT, or of Pegasus with its tokenizer."""
    make_opus(text, folder, "en", "fr", steps=0)
    kind = settings.pop("kind", "Marian")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    keys = ("vocab_size", "pad_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id")
    ids = {key: config.get(key) for key in keys[:-1]} | {"forced_eos_token_id": 0}
    made = getattr(transformers, f"{kind}Config")(**{**ids, **MORE, **settings})
    model = getattr(transformers, {"Marian": "MarianMTModel", "Pegasus": "PegasusForConditionalGeneration"}[kind])(made)
    model.final_logits_bias.normal_()
    model.generation_config.bad_words_ids = [[made.pad_token_id]]
    model.save_pretrained(folder)


def random_m2m(text: Path, folder: Path, settings: dict[str, Any]) -> None:
    make_m2m(text, folder, steps=0)
    size = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    config = transformers.M2M100Config(vocab_size=size, decoder_start_token_id=2, **{**MORE, **settings})
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)


KINDS: dict[str, tuple[Callable[[Path, Path, dict[str, Any]], None], dict[str, Any]]] = {
    "marian": (random_opus, {"activation_function": "swish"}),
    "marian-relu": (random_opus, {"activation_function": "relu", "scale_embedding": False, "init_std": 1.0}),
    "pegasus": (random_opus, {"kind": "Pegasus", "activation_function": "relu"}),
    "m2m": (random_m2m, {"activation_function": "relu"}),
}


@pytest.fixture(scope="module")
def checkpoints(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def checkpoint(kind: str) -> Path:
        if kind not in made:
            make, settings = KINDS[kind]
            made[kind] = tmp_path_factory.mktemp(kind) / kind
            torch.manual_seed(7)
            make(text, made[kind], dict(settings))
        return made[kind]

    return checkpoint


def both(folder: Path, hops: tuple[Hop, ...] = (EN_FR,)) -> tuple[NativeStack, PretrainedNetwork]:
    tokens = ModelTokens(folder, load_tokenizer(folder))
    network = PretrainedNetwork(load_pretrained(folder, 0.0), tokens, CPU)
    return NativeStack.alone(native_form(folder, tokens), folder, hops), network


@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_greedy_translations_are_those_of_hugging_face(
    kind: str, checkpoints: Callable[[str], Path], text: Path
) -> None:
    folder = checkpoints(kind)
    native, network = both(folder)
    sources, targets = (side[:60] for side in pairs_of(text, "en", "fr"))
    texts = Sentences(None, "en", texts=sources)
    ours, counts = native.score(EN_FR, texts, Sentences(None, "fr", texts=targets))
    tokenizer = network.tokens.tokenizer
    if network.tokens.coded:
        tokenizer.src_lang, tokenizer.tgt_lang = "en", "fr"
    for row in range(0, 60, 6):
        batch = tokenizer(sources[row], text_target=targets[row], return_tensors="pt")
        mean = network.model.eval()(**batch).loss.item()
        assert ours[row] / counts[row] == pytest.approx(mean, abs=1e-4)
    found = native.generate([HopInput(EN_FR, texts)], GREEDY, LIMITS, ("k",))[0]
    assert found.sentences.texts == plainly(folder, sources, ("en", "fr") if network.tokens.coded else None)
    assert len(set(found.sentences.texts)) > 5, "random weights say different things"
    assert disagreement(native, network, EN_FR, sources[:5]) is None


def test_weights_keep_their_names_and_bits(checkpoints: Callable[[str], Path]) -> None:
    for kind in KINDS:
        native, network = both(checkpoints(kind))
        theirs = {f"all/{name}": tensor for name, tensor in network.trainable.items()}
        ours = native.named()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
        native.live.zero_()
        assert native.load(ours) == []
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in native.named().items())


@pytest.mark.parametrize("kind", ["marian", "m2m"])
def test_an_update_is_the_one_of_the_module(kind: str, checkpoints: Callable[[str], Path], text: Path) -> None:
    native, network = both(checkpoints(kind))
    modules = ModuleStack(native.vocab, native.hops, CPU, {"all": network}, "")
    # Without clipping, since the module does not learn how padding, Marian's first input, is embedded: one update.
    # A large epsilon does not turn rounding into steps where a gradient is 0; all weights decay but the output bias.
    train = Train(dropout=0.0, adam=(0.9, 0.98, 1e-2), weight_decay=0.01, clip=0.0)
    sides = [side[:8] for side in pairs_of(text, "en", "fr")]
    before, bias = native.named(), native._views("all")["output_bias"].clone()
    learners: list[Learner | ModuleLearner] = [
        Learner(native, train, 1, Processes()),
        ModuleLearner(modules, train, 1, Processes()),
    ]
    for learner in learners:
        (batch,) = pack([rows_of(learner.translators, sides)], make_shapes([64], 8 * 64, 8), 1, "test").batches
        learner.update(batch, 1, 0.1)
    ours, theirs = native.named(), modules.named()
    padding = int(network.model.config.pad_token_id)
    ours["all/model.shared.weight"][padding] = theirs["all/model.shared.weight"][padding]
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) < 2e-4
    assert max(float((ours[name] - before[name]).abs().max()) for name in theirs) > 1e-2
    assert torch.equal(native._views("all")["output_bias"], bias)


def rows_of(stack: TrainableModel, sides: list[list[str]]) -> Rows:
    source, target = (Sentences(None, one, texts=side) for one, side in zip(("en", "fr"), sides, strict=True))
    paths: Ints = np.zeros(len(sides[0]), dtype=np.int64)
    return Rows.of(stack.source_rows(source, EN_FR), stack.target_rows(target, EN_FR), paths)


@pytest.mark.parametrize("how", [GREEDY, Generate(how="beam", beam=3)])
def test_captured_decoding_begins_with_the_language_too(how: Generate, checkpoints: Callable[[str], Path]) -> None:
    native, _ = both(checkpoints("m2m"), (EN_FR, Hop("en", "es")))
    fixed = CapturedDecoder(native.transformer, native.layout, torch.float32, CPU, recorder)
    sources = native.source_rows(Sentences(None, "en", texts=TEXTS), EN_FR).rows()
    for hop in (EN_FR, Hop("en", "es"), EN_FR):
        slow = native.decoder(hop)
        found = [
            generate_nbest(one, sources, how, LIMITS, nbest=how.beam) for one in (slow, replace(slow, captured=fixed))
        ]
        outputs = [[[one.ids for one in row] for row in rows] for rows in found]
        assert outputs[0] == outputs[1]
        assert {ids[0] for row in outputs[0] for ids in row} == {slow.opening}
    assert len(fixed.shapes) == 1, "languages share the graphs"


def test_n_best_scores_leave_out_the_forced_language(checkpoints: Callable[[str], Path]) -> None:
    native, _ = both(checkpoints("m2m"))
    how = Generate(how="beam", beam=3)
    best = native.generate([HopInput(EN_FR, Sentences(None, "en", texts=TEXTS))], how, LIMITS, ("k",), 3)[0]
    decoder = native.decoder(EN_FR)
    rows = native.source_rows(Sentences(None, "en", texts=TEXTS), EN_FR).rows()
    found = [one for row in generate_nbest(decoder, rows, how, LIMITS, nbest=3) for one in row]
    assert best.scores.tolist() == pytest.approx([one.score for one in found])
    greedy = native.generate([HopInput(EN_FR, Sentences(None, "en", texts=TEXTS))], GREEDY, LIMITS, ("k",))[0]
    assert all(score < 0 for score in greedy.scores)


@pytest.mark.parametrize("kind", ["marian", "m2m"])
def test_both_find_how_likely_a_sentence_is_drawn(kind: str, checkpoints: Callable[[str], Path], text: Path) -> None:
    native, network = both(checkpoints(kind))
    modules = ModuleStack(native.vocab, native.hops, CPU, {"all": network}, "")
    sides = [
        Sentences(None, one, texts=side[:6]) for one, side in zip(("en", "fr"), pairs_of(text, "en", "fr"), strict=True)
    ]
    how = Generate(how="sample", temperature=0.7)
    expected = modules.drawn_scores(EN_FR, sides[0], sides[1], how)
    assert native.drawn_scores(EN_FR, sides[0], sides[1], how) == pytest.approx(expected, abs=0.02)
    assert native.drawable(EN_FR).isinf().any()


# -- what is not native --------------------------------------------------------------------------------------------


def changed(folder: Path, copy: Path, file: str, **values: Any) -> Path:
    shutil.copytree(folder, copy)
    settings = json.loads((copy / file).read_text(encoding="utf-8"))
    (copy / file).write_text(json.dumps({**settings, **values}), encoding="utf-8")
    return copy


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("config.json", {"activation_function": "gelu_new"}),
        ("config.json", {"decoder_ffn_dim": 32}),
        ("config.json", {"decoder_start_token_id": 5}),
        ("generation_config.json", {"no_repeat_ngram_size": 3}),
        ("generation_config.json", {"bad_words_ids": [[5, 6]]}),
    ],
)
def test_what_our_transformer_lacks_is_named(
    file: str, values: dict[str, Any], checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    copy = changed(checkpoints("marian"), tmp_path / "copy", file, **values)
    with pytest.raises(UnfitError, match=next(iter(values))):
        native_form(copy, ModelTokens(copy, load_tokenizer(copy)))


def test_other_computation_falls_back_to_the_module(dual: Make, opus: dict[str, Path], tmp_path: Path) -> None:
    """A checkpoint that may choose padding: `generate` goes on after it, which our decoder does not."""
    copy = shutil.copytree(opus["en>fr"], tmp_path / "copy")
    model = transformers.MarianMTModel.from_pretrained(copy)
    model.final_logits_bias[0, model.config.pad_token_id] = 100.0
    model.generation_config.bad_words_ids = None
    model.save_pretrained(copy)
    pretrained = {"en>fr": str(copy), "fr>en": str(opus["fr>en"])}
    asked = f"model.pretrained={json.dumps(pretrained).replace(': ', '=')}"
    request = dual(asked, name="fallen")
    prepare_run(request, Silent())
    assert isinstance(stack_in(request), ModuleStack)
    assert request.run
    notes = json.loads((request.run / "pretrained" / "pretrained.json").read_text(encoding="utf-8"))
    assert notes["backend"] == "module" and "en>fr" in notes["why"]
    assert examine_checkpoint(copy)["backend"] == "module"
    with pytest.raises(DataError) as caught:
        prepare_run(dual(asked, "model.backend='native'", name="strict"), Silent())
    assert all(fact in str(caught.value) for fact in ("model.backend", "en>fr", "module"))


# -- runs ----------------------------------------------------------------------------------------------------------


def test_stages_go_on_with_the_other_backend(triangle: Make, tmp_path: Path) -> None:
    """Both have the weights by the checkpoint's names; the export holds exactly these."""
    request = triangle(stages={"loops": LOOPS}, updates=2)
    assert train(request, Silent()) and request.run
    native, modules = stack_in(request, "loops"), modules_in(request, "loops")
    assert isinstance(native, NativeStack)
    assert all(torch.equal(tensor, modules.named()[name]) for name, tensor in native.named().items())
    for hop in (EN_FR, Hop("es", "en")):
        source, target = (Sentences(None, one, texts=TEXTS) for one in (hop.source, hop.target))
        assert native.score(hop, source, target)[0] == pytest.approx(modules.score(hop, source, target)[0], abs=1e-3)
    export(request.run, ExportOptions("hf", tmp_path / "out", "loops", sentences=4), Silent())
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out" / "all")
    exported = dict(model.named_parameters())
    assert all(torch.equal(tensor, exported[name.partition("/")[2]]) for name, tensor in native.named().items())


def test_a_run_that_began_with_the_module_stays_with_it(dual: Make) -> None:
    """Runs of older versions did not record a backend."""
    request = dual()
    prepare_run(request, Silent())
    assert request.run
    file = request.run / "pretrained" / "pretrained.json"
    notes = json.loads(file.read_text(encoding="utf-8"))
    assert notes.pop("backend") == "native"
    (Run(request.run).folder / "pretrained" / "pretrained.json").write_text(json.dumps(notes), encoding="utf-8")
    assert isinstance(stack_in(request), ModuleStack)


def test_doctor_examines_a_checkpoint(checkpoints: Callable[[str], Path]) -> None:
    found = examine_checkpoint(checkpoints("m2m"))
    assert (found["backend"], found["architecture"]) == ("native", "m2m_100")
    memory = found["memory_bytes"]
    assert 0 < memory["translate"] < memory["lora"] < memory["full"]
