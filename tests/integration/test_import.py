"""Import from Hugging Face, as a start or as a frozen generator; the checkpoints are made here, offline."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from stress.checks import limited
from typer.testing import CliRunner

from helpers.checkpoints import experiment_text, imported_as, make_m2m, make_opus, pieces_of
from helpers.facts import missing
from helpers.pretrained import make_opus as make_trained_opus
from loopmt.cli import app
from loopmt.config import Generate, loads
from loopmt.distributed import Processes
from loopmt.errors import ConfigError, DataError, LoopmtError, PathError, RunError, UnsafeFileError
from loopmt.evaluation.metrics import sacre_bleu
from loopmt.evaluation.validation import held_out, loss_by_hop
from loopmt.path import Hop, LanguagePath
from loopmt.pretrained.checkpoint import ImportedCheckpoint, ImportOptions, load_config, load_model, load_tokenizer
from loopmt.pretrained.generator import HuggingFaceGenerator
from loopmt.pretrained.start import check_fits, starting_weights
from loopmt.pretrained.weight_names import from_hugging_face
from loopmt.progress import Lines, Silent
from loopmt.run import Run
from loopmt.text.ragged import Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack, stack_of
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences
from loopmt.translate.walker import Rollout, generate_along
from loopmt.workflow.dry_run import describe
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.importing import direction, import_translator
from loopmt.workflow.plan import PlanOptions, plan
from loopmt.workflow.stages import TrainingContext
from loopmt.workflow.start_quality import start_qualities
from loopmt.workflow.train import TrainOptions, prepare_run, train

transformers = pytest.importorskip("transformers", reason="imported translators need `transformers`")

EN_FR = Hop("en", "fr")
TEXTS = ["The red cat sees the old dog today.", "Never.", "The small bird likes the kind king often."]
LIMITS = DecodeLimits(growth=0, extra=20)
GREEDY = Generate(how="greedy", by="frozen")
SHAPE = {"layers": 1, "decoder_layers": 1, "width": 32, "feed_forward": 64, "heads": 2}


# -- checkpoints of the public shapes ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text(tiny_experiment_file: Path) -> Path:
    return tiny_experiment_file.parent / "text"


@pytest.fixture(scope="module")
def opus(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_opus(text, tmp_path_factory.mktemp("opus"))


@pytest.fixture(scope="module")
def m2m(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_m2m(text, tmp_path_factory.mktemp("m2m"))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], TrainOptions]:
    def write(content: str) -> TrainOptions:
        (tmp_path / "exp.toml").write_text(content, encoding="utf-8")
        return TrainOptions(tmp_path / "exp.toml", tmp_path / "run")

    return write


def site_of(request: TrainOptions) -> TrainingContext:
    run, _ = prepare_run(request, Silent())
    return TrainingContext.open(run, torch.device("cpu"), Processes())


def fresh(context: TrainingContext) -> NetworkStack:
    translators = stack_of(context.networks(context.experiment.stages[0]))
    translators.start_fresh(1)
    return translators


def said_by(generator: HuggingFaceGenerator, texts: Sequence[str], how: Generate, key: int) -> list[tuple[str, bool]]:
    """Each translation, and whether it ended with EOS."""
    (hop,) = generator.hops
    (found,) = generator.generate([HopInput(hop, Sentences(None, hop.source, texts=texts))], how, LIMITS, (key,))
    return list(zip(found.sentences.texts, found.ended.tolist(), strict=True))


# -- generators --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [GREEDY, Generate(how="beam", beam=3)], ids=["greedy", "beam"])
def test_a_generator_translates_like_the_checkpoint(how: Generate, opus: Path, tmp_path: Path) -> None:
    imported = import_translator(opus, tmp_path / "run", ImportOptions(EN_FR))
    said = said_by(HuggingFaceGenerator(imported, "cpu"), TEXTS, how, 1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(opus), local_files_only=True)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(opus), local_files_only=True)
    for text, (found, _) in zip(TEXTS, said, strict=True):
        beams = how.beam if how.how == "beam" else 1
        ids = model.generate(
            **tokenizer([text], return_tensors="pt"), num_beams=beams, max_length=None, max_new_tokens=20
        )
        assert found == tokenizer.decode(ids[0], skip_special_tokens=True)
    assert not any(ended for _, ended in said), "the end was forced into the last place"
    assert len({found for found, _ in said}) > 1, "a checkpoint that always says the same shows little"


def test_sampling_is_keyed_and_leaves_the_global_generator_alone(opus: Path, tmp_path: Path) -> None:
    generator = HuggingFaceGenerator(import_translator(opus, tmp_path / "run", ImportOptions(EN_FR)), "cpu")
    how = Generate(how="sample", top_k=8, temperature=1.0)
    before = torch.random.get_rng_state()
    first, again, other = (said_by(generator, TEXTS, how, key) for key in (1, 1, 2))
    assert first == again != other
    assert torch.equal(torch.random.get_rng_state(), before)
    assert said_by(generator, [], how, 1) == []


def test_hops_with_different_vocabularies_exchange_text(
    opus: Path, text: Path, write: Callable[[str], TrainOptions]
) -> None:
    mix = '{ path = "en>fr>en", generate = { by = "frozen", how = "greedy" } }'
    context = site_of(write(experiment_text(text, imported=imported_as("generator"), mix=mix)))
    imported = import_translator(opus, context.run.folder, ImportOptions(EN_FR))
    translators = fresh(context)
    assert translators.hops == (Hop("fr", "en"),)
    start = Sentences(context.vocab, "en", ids=Ragged.of(context.vocab.encode(TEXTS, "en")))
    rollout = Rollout(LanguagePath.parse("en>fr>en"), [Generate(by="frozen", how="greedy")], start)
    generate_along(context.translators(translators), [rollout], LIMITS, (1,))
    said = said_by(HuggingFaceGenerator(imported, "cpu"), TEXTS, GREEDY, 0)
    expected = context.vocab.encode([text for text, _ in said], "fr")
    assert [row.tolist() for row in rollout.text.ids.rows()] == expected
    with pytest.raises(PathError, match="there is no translator en>fr"):
        live = Rollout(rollout.path, [Generate()], start)
        generate_along(context.translators(translators), [live], LIMITS, (1,))


def test_a_loop_is_trained_on_a_frozen_generator(
    exported: Path, text: Path, write: Callable[[str], TrainOptions], tmp_path: Path
) -> None:
    """fr>en learns from monolingual English with a frozen translator; two runs are bit-identical."""
    mix = '{ path = "en>fr>en", generate = { by = "frozen", how = "sample", top_k = 8 } }'
    request = write(experiment_text(text, imported=imported_as("generator"), mix=mix))
    weights = []
    for name in ("one", "two"):
        here = TrainOptions(request.file, tmp_path / name)
        import_translator(exported / "en-fr", tmp_path / name, ImportOptions(EN_FR))
        assert train(here, Silent())
        weights.append(Run.open(tmp_path / name).stage("first").result_digest())
    assert weights[0] == weights[1]
    record = json.loads((tmp_path / "one" / "stages" / "first" / "stage.json").read_text(encoding="utf-8"))
    assert record["imported"]["en>fr"][0] == "generator"


def test_a_multilingual_model_gets_language_codes(m2m: Path, tmp_path: Path) -> None:
    options = ImportOptions(EN_FR, source_code="en", target_code="fr")
    imported = import_translator(m2m, tmp_path / "run", options)
    assert imported.options == options and not imported.model and "m2m_100" in imported.unfit
    generator = HuggingFaceGenerator(imported, "cpu")
    assert len(said_by(generator, TEXTS, GREEDY, 1)) == len(TEXTS)
    tokenizer = generator._tokenizer
    assert generator._target == {"forced_bos_token_id": tokenizer.get_lang_id("fr")}
    assert tokenizer("a").input_ids[0] == tokenizer.get_lang_id("en")
    with pytest.raises(LoopmtError, match="no language code xx"):
        import_translator(m2m, tmp_path / "other", ImportOptions(EN_FR, source_code="en", target_code="xx"))


# -- starts ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    export(tiny_run, ExportOptions("hf", folder / "hf", "vanilla", sentences=2), Silent())
    return folder / "hf"


def test_an_exported_network_is_imported_weight_for_weight(exported: Path, tiny_run: Path, tmp_path: Path) -> None:
    run = Run.open(tiny_run)
    experiment = run.experiment()
    translators = NetworkStack(experiment.model, Vocab.load(tiny_run / "vocab"), (EN_FR,), torch.device("cpu"))
    translators.start_fresh(5)
    imported = import_translator(exported / "en-fr", tmp_path / "run", ImportOptions(EN_FR))
    assert imported.model == {"norm": "post", "activation": "relu", **SHAPE}
    assert translators.load(starting_weights(imported, translators, EN_FR), strict=False) == []
    result = run.stage("vanilla").result().tensors["weights"]
    for name, tensor in translators.named().items():
        same = (tensor == result[name]).flatten(1).all(1) if tensor.dim() == 2 else tensor == result[name]
        tags = slice(3, 3 + len(experiment.languages) + 1) if "embed" in name or "output" in name else slice(0)
        same[tags] = True  # tags start fresh
        assert same.all(), name


def test_a_start_works_with_another_vocabulary(
    exported: Path, text: Path, write: Callable[[str], TrainOptions]
) -> None:
    """Only some subwords are shared, yet the validation loss is far below that of fresh weights."""
    context = site_of(write(experiment_text(text, vocab=330)))
    translators = fresh(context)
    imported = import_translator(exported / "en-fr", context.run.folder, ImportOptions(EN_FR))
    sets = held_out(context.store, translators.hops, context.vocab, "valid", 40)
    before = loss_by_hop(translators, sets)["en>fr"]
    translators.load(starting_weights(imported, translators, EN_FR), strict=False)
    after = loss_by_hop(translators, sets)["en>fr"]
    assert after < 0.7 * before


def test_a_pilot_has_the_imports_of_its_run(
    exported: Path, text: Path, write: Callable[[str], TrainOptions], tmp_path: Path
) -> None:
    request = write(experiment_text(text, imported=imported_as("start")))
    import_translator(exported / "en-fr", tmp_path / "run", ImportOptions(EN_FR))
    assert train(request, Silent())
    made = plan(tmp_path / "run", PlanOptions(beam=1, sentences=4, pilot=2), Silent())
    assert all(one["pilot"] for outlook in made["directions"].values() for one in outlook["loops"])


def test_an_opus_checkpoint_is_a_start(opus: Path, text: Path, write: Callable[[str], TrainOptions]) -> None:
    request = write(experiment_text(text, model='activation = "swish"', imported=imported_as("start")))
    context = site_of(request)
    imported = import_translator(opus, context.run.folder, ImportOptions(EN_FR))
    translators = fresh(context)
    found = starting_weights(imported, translators, EN_FR)
    theirs = load_file(opus / "model.safetensors")
    for name, tensor in from_hugging_face(context.experiment.model, theirs).items():
        assert torch.equal(found[f"en>fr/{name}"], tensor)
    ids = json.loads((opus / "vocab.json").read_text(encoding="utf-8"))
    ours = pieces_of(context.vocab.models["en"])
    embed, table = found["en>fr/embed"], theirs["model.shared.weight"]
    shared = [piece for piece in ours[7:] if piece in ids]
    assert len(shared) > 40
    assert all(torch.equal(embed[ours.index(piece)], table[ids[piece]]) for piece in shared)
    assert torch.equal(embed[0], table[ids["<pad>"]]) and torch.equal(embed[1], table[ids["</s>"]])
    spelt = [number for number, piece in enumerate(ours) if piece not in ids and not piece.startswith("<")]
    fresh_embed = fresh(context).named()["en>fr/embed"]
    assert spelt and all(not torch.equal(embed[number], fresh_embed[number]) for number in spelt)
    assert train(request, Silent())
    damage(imported.folder / "model.safetensors")
    with pytest.raises(DataError, match=r"model\.safetensors"):
        starting_weights(imported, translators, EN_FR)


def damage(weights: Path) -> None:
    """The size stays, and the header is no longer JSON."""
    with weights.open("r+b") as file:
        file.seek(8)
        file.write(b"#")


def test_a_start_says_what_its_vocabulary_costs(
    text: Path, tmp_path: Path, write: Callable[[str], TrainOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exact copy generates beside the network that starts from it, and is what the network is compared with."""
    model = 'norm = "post"\nactivation = "swish"'
    lines = imported_as("start") + imported_as("generator")
    mix = '{ path = "en>fr>en", generate = { by = "frozen", how = "greedy" } }, "en>fr"'
    request = write(experiment_text(text, model=model, imported=lines, mix=mix, vocab=340))
    assert request.run
    trained = make_trained_opus(text, tmp_path / "opus", "en", "fr", steps=150)
    import_translator(trained, request.run, ImportOptions(EN_FR))
    context = site_of(request)
    (found,) = start_qualities(context, context.experiment.stages[0], [EN_FR])
    assert 0 < found.vocabulary < 1 and 0 < found.text < 1 and found.sentences == 40
    assert found.before > found.after + 1
    sides = context.store.pair_texts("valid", "en", "fr")
    assert sides
    generator = HuggingFaceGenerator(ImportedCheckpoint.open(request.run / "imported" / "en-fr"), "cpu")
    inputs = [HopInput(EN_FR, Sentences(None, "en", texts=sides[0]))]
    (spoken,) = generator.generate(inputs, GREEDY, DecodeLimits(), ("test",))
    assert found.before == pytest.approx(sacre_bleu(spoken.sentences.texts, sides[1]).score)
    assert str(replace(found, before=0.0)).count("warning") == 0
    assert train(request, Lines()), "both entries of a direction"
    told = capsys.readouterr().err
    facts = ("warning", f"{found.vocabulary:.0%}", f"{found.before:.1f}", f"{found.after:.1f}", "[model] pretrained")
    assert not missing(told, *facts, f"{found.text:.0%}")
    assert train(replace(request, overrides=["stage.first.updates=4"]), Lines())
    assert f"{found.vocabulary:.0%}" not in capsys.readouterr().err, "it is said once"


def test_a_pegasus_checkpoint_is_a_start(text: Path, write: Callable[[str], TrainOptions], tmp_path: Path) -> None:
    request = write(experiment_text(text, model='norm = "pre"'))
    assert train(request, Silent())
    export(tmp_path / "run", ExportOptions("hf", tmp_path / "out", sentences=2), Silent())
    imported = import_translator(tmp_path / "out" / "en-fr", tmp_path / "other", ImportOptions(EN_FR))
    assert imported.model == {"norm": "pre", "activation": "relu", **SHAPE}
    translators = fresh(site_of(request))
    found = starting_weights(imported, translators, EN_FR)
    result = Run.open(tmp_path / "run").stage("first").result().tensors["weights"]
    assert all(torch.equal(found[name], result[name]) for name in found if "embed" not in name and "output" not in name)


# -- what is refused ---------------------------------------------------------------------------------------------


class Bomb:
    """A pickle that leaves a file behind if it is ever read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "checkpoint_best.pt", "last.ckpt", "MODEL.PTH", "weights.pkl"])
def test_a_pickle_is_refused_with_a_command_that_converts_it(opus: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(opus, tmp_path / "copy")
    (tmp_path / "copy" / "model.safetensors").unlink()
    (tmp_path / "copy" / name).write_bytes(pickle.dumps(Bomb(tmp_path / "run code")))
    for source in (tmp_path / "copy", tmp_path / "copy" / name):
        with pytest.raises(DataError, match=rf"only as a pickle \({name}\).* can run code.*save_pretrained"):
            import_translator(source, tmp_path / "run", ImportOptions(EN_FR))
    assert not (tmp_path / "run" / "imported" / "en-fr").exists()
    assert not (tmp_path / "run code").exists()


@pytest.mark.parametrize("vocabulary", ["shared_vocabulary.json", "source_vocabulary.json", "shared_vocabulary.txt"])
def test_a_ctranslate2_model_is_recognized(tmp_path: Path, vocabulary: str) -> None:
    folder = tmp_path / "ct2"
    folder.mkdir()
    for name in ("config.json", "model.bin", vocabulary):
        (folder / name).write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"CTranslate2 model.* Hugging Face checkpoint"):
        import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))


def test_a_pickle_under_another_name_is_not_read(opus: Path, tmp_path: Path) -> None:
    for name in ("model.safetensors", "config.json", "source.spm", "vocab.json"):
        folder = shutil.copytree(opus, tmp_path / f"as {name}")
        (folder / name).write_bytes(pickle.dumps(Bomb(tmp_path / "run code")))
        with pytest.raises(DataError):
            import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))
    assert {file.name for file in tmp_path.iterdir() if file.name == "run code"} == set()


def test_only_what_cannot_run_code_is_copied(opus: Path, tmp_path: Path) -> None:
    shutil.copytree(opus, tmp_path / "copy")
    for name in ("pytorch_model.bin", "modeling.py", "training_args.pt"):
        (tmp_path / "copy" / name).write_bytes(b"no")
    imported = import_translator(tmp_path / "copy", tmp_path / "run", ImportOptions(EN_FR))
    kept = {file.name for file in imported.folder.iterdir()}
    assert kept == {file.name for file in opus.iterdir()} | {"imported.json"}
    (imported.folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(RunError, match=r"model.safetensors has changed since it was imported"):
        ImportedCheckpoint.open(imported.folder)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ("no config", "no config.json"),
        ("no weights", ".safetensors"),
        ("code", "program code"),
        ("no tokenizer", "tokenizer"),
        ("cut weights", "model.safetensors cannot be read"),
    ],
)
def test_incomplete_checkpoints_are_refused(change: str, fact: str, opus: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(opus, tmp_path / "copy")
    if change == "no config":
        (folder / "config.json").unlink()
    elif change == "no weights":
        (folder / "model.safetensors").unlink()
    elif change == "code":
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "m.M"}}), encoding="utf-8")
    elif change == "no tokenizer":
        for name in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
            (folder / name).unlink()
    else:
        (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:200])
    with pytest.raises(DataError) as caught:
        import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))
    assert not missing(caught.value, fact, str(folder))


# -- checkpoints made by somebody else -----------------------------------------------------------------------------


def changed(opus: Path, folder: Path, keys: dict[str, Any], name: str = "config.json") -> Path:
    """A copy of a checkpoint, with other keys in one of its files."""
    shutil.copytree(opus, folder)
    config = json.loads((folder / name).read_text(encoding="utf-8"))
    (folder / name).write_text(json.dumps({**config, **keys}), encoding="utf-8")
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*address: object) -> None:
        raise AssertionError(f"a connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


CODE: list[tuple[str, dict[str, Any]]] = [
    ("config.json", {"auto_map": {"AutoModel": "m.M"}}),
    ("config.json", {"decoder": {"auto_map": {"AutoModel": "m.M"}}}),
    ("config.json", {"quantization_config": {"quant_method": "mallory"}}),
    ("generation_config.json", {"custom_generate": "mallory/evil"}),
    ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["t.T", None]}}),
]


@pytest.mark.parametrize(("name", "keys"), CODE)
def test_a_checkpoint_that_needs_other_code_is_refused(
    opus: Path, tmp_path: Path, no_network: None, name: str, keys: dict[str, Any]
) -> None:
    folder = changed(opus, tmp_path / "copy", keys, name)
    with pytest.raises(DataError, match=rf"{folder} .*program code.*in {name}"):
        import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))
    assert not (tmp_path / "run" / "imported" / "en-fr").exists()


STEERING: list[tuple[str, dict[str, Any]]] = [
    ("config.json", {"attn_implementation": "mallory/evil"}),
    ("config.json", {"_attn_implementation": "mallory/evil", "_attn_implementation_internal": "mallory/evil"}),
    ("config.json", {"_attn_implementation": {"": "mallory/evil"}}),
    ("config.json", {"experts_implementation": "mallory/evil", "kernel_config": {"a": "mallory/evil"}}),
    ("generation_config.json", {"attn_implementation": "mallory/evil"}),
    ("tokenizer_config.json", {"source_spm": "/dev/zero", "vocab": "/dev/zero", "target_vocab_file": "/dev/zero"}),
]


@pytest.mark.parametrize(("name", "keys"), STEERING)
def test_keys_that_name_code_or_files_are_removed(
    opus: Path, tmp_path: Path, no_network: None, name: str, keys: dict[str, Any]
) -> None:
    plain = import_translator(opus, tmp_path / "plain", ImportOptions(EN_FR))
    folder = changed(opus, tmp_path / "copy", keys, name)
    with limited(60):
        imported = import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))
    kept = (imported.folder / name).read_text(encoding="utf-8")
    assert "mallory" not in kept and "/dev/zero" not in kept
    assert load_model(imported.folder).config._attn_implementation in ("sdpa", "eager")
    said = [said_by(HuggingFaceGenerator(one, "cpu"), TEXTS, GREEDY, 1) for one in (plain, imported)]
    assert said[0] == said[1]


@pytest.mark.parametrize(("name", "keys"), CODE + STEERING[:2])
def test_keys_that_name_code_in_a_run_are_refused(
    opus: Path, tmp_path: Path, no_network: None, name: str, keys: dict[str, Any]
) -> None:
    """Such a run was not made by our import."""
    imported = import_translator(opus, tmp_path / "run", ImportOptions(EN_FR))
    file = imported.folder / name
    config = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**config, **keys}), encoding="utf-8")
    for load in (load_config, load_tokenizer, load_model):
        with pytest.raises(DataError, match=name):
            load(imported.folder)
    with pytest.raises(RunError, match=f"{file} has changed since it was imported"):
        ImportedCheckpoint.open(imported.folder)


def test_nothing_is_added_to_an_import(opus: Path, tmp_path: Path) -> None:
    imported = import_translator(opus, tmp_path / "run", ImportOptions(EN_FR))
    (imported.folder / "adapter_config.json").write_text('{"base_model_name_or_path": "mallory/evil"}')
    with pytest.raises(RunError, match=r"adapter_config\.json has changed since it was imported"):
        ImportedCheckpoint.open(imported.folder)


@pytest.mark.parametrize("key", ["encoder_layers", "d_model", "vocab_size", "max_position_embeddings"])
def test_sizes_that_do_not_match_the_weights(opus: Path, tmp_path: Path, key: str) -> None:
    folder = changed(opus, tmp_path / "copy", {key: 10**7})
    with limited(20), pytest.raises(DataError, match=rf"{folder}/config.json: {key} = 10000000"):
        import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json", "vocab.json"])
def test_a_deeply_nested_file_is_refused(opus: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(opus, tmp_path / "copy")
    (folder / name).write_text('{"a":' + "[" * 200_000)
    with limited(20), pytest.raises(DataError, match=str(folder)):
        import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))


def _huge(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    os.truncate(file, 2**40)  # sparse: it takes no room


UNUSUAL: dict[str, Callable[[Path, bytes], object]] = {
    "link loop": lambda file, content: file.symlink_to(file.name),
    "device": lambda file, content: file.symlink_to("/dev/zero"),
    "pipe": lambda file, content: os.mkfifo(file),
    "folder": lambda file, content: file.mkdir(),
    "huge": _huge,
    "cut": lambda file, content: file.write_bytes(content[: len(content) // 2]),
    "not UTF-8": lambda file, content: file.write_bytes(bytes(range(256)) * 8),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "model.safetensors", "vocab.json"])
def test_unusual_files_of_a_checkpoint(opus: Path, tmp_path: Path, name: str, kind: str) -> None:
    folder = Path(shutil.copytree(opus, tmp_path / "copy"))
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    UNUSUAL[kind](folder / name, content)
    with limited(20), pytest.raises(LoopmtError, match=str(folder)):
        import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))
    assert not list((tmp_path / "run" / "imported").iterdir())


def test_an_import_follows_no_links(opus: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = Path(shutil.copytree(opus, tmp_path / "copy"))
    (folder / "notes.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(UnsafeFileError, match=rf"{folder}/notes.txt is a symbolic link to {tmp_path}/secret"):
        import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))
    assert not list((tmp_path / "run" / "imported").iterdir())


def test_the_links_of_a_cache_are_followed_to_its_blobs(opus: Path, tmp_path: Path) -> None:
    cache = tmp_path / "models--somebody--opus"
    folder = cache / "snapshots" / "0123abcd"
    folder.mkdir(parents=True)
    shutil.copytree(opus, cache / "blobs")
    for file in opus.iterdir():
        (folder / file.name).symlink_to(Path("../../blobs") / file.name)
    imported = import_translator(folder, tmp_path / "run", ImportOptions(EN_FR))
    assert not [file for file in imported.folder.iterdir() if file.is_symlink()]
    (cache / "blobs" / "vocab.json").rename(tmp_path / "vocab.json")
    (cache / "blobs" / "vocab.json").symlink_to(tmp_path / "vocab.json")
    with pytest.raises(UnsafeFileError, match="is a symbolic link"):
        import_translator(folder, tmp_path / "other", ImportOptions(EN_FR))


def test_checkpoints_in_subfolders_are_suggested(opus: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no .*nowhere\. Name the folder"):
        import_translator(tmp_path / "nowhere", tmp_path / "run", ImportOptions(EN_FR))
    shutil.copytree(opus, tmp_path / "exported" / "en-fr")
    with pytest.raises(DataError, match=r"no config\.json\..*: en-fr\."):
        import_translator(tmp_path / "exported", tmp_path / "run", ImportOptions(EN_FR))


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"imported": imported_as("start", "en>de")}, 'imported "en>de": write one direction of the languages en, fr'),
        ({"imported": imported_as("start", "en>fr>en")}, 'imported "en>fr>en": write one direction'),
        ({"imported": imported_as("start", "en>en")}, "imported: path 'en>en' has the hop en>en"),
        ({"imported": imported_as("start") + imported_as("start")}, 'imported names en>fr with use = "start" twice'),
        ({"imported": imported_as("start"), "model": 'sharing = "all"'}, "all directions share cannot start"),
        (
            {"imported": imported_as("generator"), "mix": '"en>fr>en"'},
            'path en>fr>en generates en>fr by = "live", but nothing trains en>fr: it is an imported generator',
        ),
    ],
)
def test_invalid_experiments_are_refused(settings: dict[str, str], fact: str, text: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(experiment_text(text, **settings))  # type: ignore[arg-type]
    assert fact in str(caught.value)


def test_a_start_must_fit(
    opus: Path, m2m: Path, text: Path, write: Callable[[str], TrainOptions], tmp_path: Path
) -> None:
    request = write(experiment_text(text, imported=imported_as("start")))
    nothing = r'imported "en>fr": there is nothing in .*loopmt import --from hf DIR'
    for refused in (train, describe):
        with pytest.raises(ConfigError, match=nothing):
            refused(request, Silent())
    assert not (tmp_path / "run" / "manifest.json").exists(), "known before the text is prepared"
    import_translator(opus, tmp_path / "run", ImportOptions(EN_FR))
    with pytest.raises(ConfigError, match=r"\[model\]: set activation = 'swish'"):
        train(request, Silent())
    shutil.rmtree(tmp_path / "run" / "imported")
    import_translator(m2m, tmp_path / "run", ImportOptions(EN_FR, source_code="en", target_code="fr"))
    with pytest.raises(ConfigError, match=r'use = "start".*m2m_100.*use = "generator"'):
        train(request, Silent())


def test_missing_codes_are_suggested(m2m: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        import_translator(m2m, tmp_path / "run", ImportOptions(EN_FR))
    assert all(fact in str(caught.value) for fact in ("--source-code en", "--target-code fr"))
    assert not (tmp_path / "run" / "imported" / "en-fr").exists()


def test_several_directions_store_and_load_a_checkpoint_once(m2m: Path, tmp_path: Path) -> None:
    codes = {hop: ImportOptions(hop, "", hop.source, hop.target) for hop in (EN_FR, Hop("fr", "en"), Hop("en", "es"))}
    found = {hop: import_translator(m2m, tmp_path, options) for hop, options in codes.items()}
    files = [one.folder / "model.safetensors" for one in found.values()]
    assert {file.samefile(files[0]) for file in files} == {True}
    assert sorted(file.name for file in files[0].parent.iterdir()) == sorted(
        file.name for file in files[2].parent.iterdir()
    )
    generators = [HuggingFaceGenerator(one, "cpu") for one in found.values()]
    assert generators[0]._model is generators[1]._model is generators[2]._model
    alone = import_translator(m2m, tmp_path / "other", codes[EN_FR])
    assert not (alone.folder / "model.safetensors").samefile(files[0])
    expected = said_by(HuggingFaceGenerator(alone, "cpu"), TEXTS, GREEDY, 1)
    assert said_by(generators[0], TEXTS, GREEDY, 1) == expected != said_by(generators[2], TEXTS, GREEDY, 1)


def test_language_codes_are_not_text(m2m: Path, tmp_path: Path) -> None:
    imported = import_translator(m2m, tmp_path / "run", ImportOptions(EN_FR, source_code="en", target_code="fr"))
    sources = [HopInput(EN_FR, Sentences(None, "en", texts=TEXTS))]
    (found,) = HuggingFaceGenerator(imported, "cpu").generate(sources, GREEDY, LIMITS, ("test",))
    assert not [text for text in found.sentences.texts if "__" in text]


def test_a_checkpoint_with_a_prefix_cannot_be_a_start(
    opus: Path, text: Path, write: Callable[[str], TrainOptions], tmp_path: Path
) -> None:
    request = write(experiment_text(text, model='activation = "swish"', imported=imported_as("start")))
    import_translator(opus, tmp_path / "run", ImportOptions(EN_FR, prefix=">>fra<<"))
    with pytest.raises(ConfigError) as caught:
        train(request, Silent())
    assert all(fact in str(caught.value) for fact in (">>fra<<", "generator", "pretrained"))


def test_a_refused_start_can_be_corrected(
    opus: Path, text: Path, write: Callable[[str], TrainOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while a stage is set up leaves the stage unbegun."""
    request = write(experiment_text(text, imported=imported_as("start")))
    import_translator(opus, tmp_path / "run", ImportOptions(EN_FR))
    monkeypatch.setattr("loopmt.workflow.train.check_imported", lambda experiment, run: None)
    with pytest.raises(ConfigError, match=r"\[model\]: set activation = 'swish'"):
        train(request, Silent())
    assert train(replace(request, overrides=["model.activation=swish"]), Silent())


def test_the_dry_run_lists_imported_starts(
    exported: Path, text: Path, write: Callable[[str], TrainOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = write(experiment_text(text, imported=imported_as("start")))
    import_translator(exported / "en-fr", tmp_path / "run", ImportOptions(EN_FR))
    describe(request, Silent())
    assert "en>fr from imported weights, the others from fresh weights, 4 updates" in capsys.readouterr().out


def test_the_verb_prints_the_lines_for_the_experiment(opus: Path, m2m: Path, tmp_path: Path) -> None:
    words = ["import", "--from", "hf", str(opus), "--direction", "en>fr", "--run", str(tmp_path / "run")]
    said = CliRunner().invoke(app, words).output
    assert (
        '[[imported]]\ndirection = "en>fr"\nuse = "start"  # with [model] norm = "post", activation = "swish"' in said
    )
    codes = ["--source-code", "en", "--target-code", "fr"]
    words = ["import", str(m2m), "--direction", "en>fr", "--run", str(tmp_path / "other"), *codes]
    assert CliRunner().invoke(app, words).output.endswith('direction = "en>fr"\nuse = "generator"\n')


def test_a_shared_export_needs_a_prefix(text: Path, write: Callable[[str], TrainOptions], tmp_path: Path) -> None:
    request = write(experiment_text(text, model='sharing = "all"'))
    assert train(request, Silent())
    export(tmp_path / "run", ExportOptions("hf", tmp_path / "out", sentences=2), Silent())
    with pytest.raises(DataError, match=r'is one network for several directions.* Give --prefix "<2fr>"\.'):
        import_translator(tmp_path / "out" / "all", tmp_path / "other", ImportOptions(EN_FR))
    with pytest.raises(DataError, match=r"Give --prefix and one of its tags: <2en>, <2fr>\."):
        import_translator(tmp_path / "out" / "all", tmp_path / "other", ImportOptions(Hop("en", "es"), prefix="<2es>"))
    imported = import_translator(tmp_path / "out" / "all", tmp_path / "other", ImportOptions(EN_FR, prefix="<2fr>"))
    with pytest.raises(ConfigError, match=r'use = "start".*one network for several directions.*use = "generator"'):
        check_fits(imported, Run.open(tmp_path / "run").experiment().model)
    vocab = Vocab.load(tmp_path / "run" / "vocab")
    (ids,) = vocab.encode(TEXTS[:1], "en")
    assert HuggingFaceGenerator(imported, "cpu")._read(TEXTS[:1]) == [[vocab.tag("fr"), *ids, 1]]


@pytest.mark.parametrize("wrong", ["en", "en>fr>en", "X>fr"])
def test_a_direction_is_one_hop(wrong: str) -> None:
    with pytest.raises(PathError):
        direction(wrong)
