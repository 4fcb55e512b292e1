"""Exports to Hugging Face and CTranslate2 translate like our networks, or are not written."""

from __future__ import annotations

import ast
import hashlib
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from helpers.facts import refused
from loopmt.cli import app
from loopmt.distributed import Processes
from loopmt.errors import ConfigError, MissingExtraError, RunError
from loopmt.export.ct2 import write_ct2
from loopmt.export.huggingface import write_hugging_face
from loopmt.export.network import networks
from loopmt.export.parity import Parity
from loopmt.files.folder import appearing
from loopmt.progress import Silent
from loopmt.run import Checkpoint, Run
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack, stack_of
from loopmt.workflow import export as workflow
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.models import result_of
from loopmt.workflow.stage_choice import choose_stage
from loopmt.workflow.stages import TrainingContext
from loopmt.workflow.train import TrainOptions, prepare_run


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"needs the package `{package}`")


FORMATS = [pytest.param("hf", marks=needs("transformers")), pytest.param("ct2", marks=needs("ctranslate2"))]
ODD = [
    "", " ", "The  cat\tsleeps.", "日本語 😀 x", "aaaaaaa ....... !!!", "zero\u200bwidth\u00adhyphen", "▁under ▁x",
    "a\u2028b", "</s> <pad> <unk> <2fr>", "<0x41>", "e\u0301 \u1e9b\u0323", "no\u00a0break\u3000wide",
    "\x00\x01x\x85y", "ὈΔΥΣΣΕΎΣ İSTANBUL", "e\u200b\u0301 E\u00ad\u0301 e\x00\u0301", "ΟΔΟΣ\u00ad ΟΔΟΣ\u200bΑ",
]  # fmt: skip
REFUSED = "pre-norm, a vocabulary each"  # by Hugging Face
VARIANTS: dict[str, list[str]] = {
    "post": [],
    "pre": ["model.norm=pre", "model.activation=gelu"],
    "shared": ["model.sharing=all"],
    "a vocabulary each": ["vocab.sharing=language", "model.activation=swish"],
    REFUSED: ["vocab.sharing=language", "model.norm=pre"],
    "lower case": ["data.lowercase=true", "vocab.kind=unigram"],
    "Moses tokens": ["data.pretokenize=true", "model.decoder_layers=2"],
    "no bytes": ["vocab.byte_fallback=false", "vocab.size=140"],
}
Make = Callable[[str], Path]


@pytest.fixture(scope="module")
def run_of(tiny_experiment_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A run of a variant with random networks that generate text: parity needs no training."""
    folder = tmp_path_factory.mktemp("export")
    file = folder / "two.toml"
    file.write_text(two_languages(tiny_experiment_file), encoding="utf-8")

    def make(variant: str) -> Path:
        place = folder / variant
        if not place.exists():
            run, _ = prepare_run(TrainOptions(file, place, VARIANTS[variant]), Silent())
            context = TrainingContext.open(run, torch.device("cpu"), Processes())
            translators = stack_of(context.networks(context.experiment.stages[0]))
            translators.start_fresh(1)
            translators.live += 0.15 * torch.randn(translators.live.shape, generator=torch.Generator().manual_seed(3))
            run.stage("vanilla").finish(Checkpoint(0, {"weights": translators.named()}, {}))
        return place

    return make


def two_languages(tiny: Path) -> str:
    """The tiny experiment with two languages and one stage."""
    return (
        tiny.read_text(encoding="utf-8").partition("[[stage]]")[0]
        .replace('root = "text"', f'root = "{tiny.parent / "text"}"')
        .replace('"en", "fr", "es"', '"en", "fr"')
        .replace(', "en-es" = "bi.en-es", "fr-es" = "bi.fr-es"', "")
        .replace(', es = "mono"', "")
        + '[[stage]]\nname = "vanilla"\nmix = ["X>Y"]\nupdates = 1\n'
    )  # fmt: skip


def translators_of(folder: Path) -> NetworkStack:
    run = Run.open(folder)
    experiment = run.experiment()
    return stack_of(result_of(run, experiment, choose_stage(run, experiment, "vanilla"), torch.device("cpu")))


@pytest.mark.parametrize("to", FORMATS)
def test_a_trained_run_translates_the_same_everywhere(to: Any, tiny_run: Path, tmp_path: Path) -> None:
    parities = export(tiny_run, ExportOptions(to, tmp_path / to, "vanilla", sentences=8), Silent())
    assert [parity.direction for parity in parities] == ["en>fr", "en>es", "fr>en", "fr>es", "es>en", "es>fr"]
    assert all(parity.same == parity.sentences == 8 for parity in parities)
    assert all(parity.bleu and parity.bleu > 5 for parity in parities), "parity of nonsense shows little"
    if to == "hf":
        assert all(parity.logits is not None and parity.logits <= 1e-4 for parity in parities)
    folders = ["en-es", "en-fr", "es-en", "es-fr", "fr-en", "fr-es"]
    assert sorted(file.name for file in (tmp_path / to).iterdir()) == [*folders, "parity.json"]


@needs("transformers")
@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant != REFUSED])
def test_every_variant_is_the_same_at_hugging_face(variant: str, run_of: Make, tmp_path: Path) -> None:
    check_variant("hf", variant, run_of(variant), tmp_path)


@needs("ctranslate2")
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_the_same_at_ctranslate2(variant: str, run_of: Make, tmp_path: Path) -> None:
    check_variant("ct2", variant, run_of(variant), tmp_path)


def check_variant(to: Any, variant: str, run: Path, out: Path) -> None:
    parities = export(run, ExportOptions(to, out / to, sentences=6), Silent())
    assert [parity.failures() for parity in parities] == [[], []]
    found = {path.name for path in (out / to).iterdir() if path.is_dir()}
    assert found == ({"all"} if variant == "shared" else {"en-fr", "fr-en"})
    readme = next((out / to).rglob("README.md")).read_text(encoding="utf-8")
    assert ("<2" in readme) == (variant == "shared")
    assert ("sacremoses" in readme) == (variant == "Moses tokens")


@pytest.mark.parametrize("variant", ["shared", "a vocabulary each"])
@pytest.mark.parametrize("to", ["hf", "ct2"])
def test_the_readme_runs_as_it_stands(
    variant: str,
    to: str,
    run_of: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    found = CliRunner().invoke(app, ["export", str(run_of(variant)), "--to", to, "--out", str(out), "--sentences", "2"])
    assert found.exit_code == 0, found.output
    assert "en>fr" in found.output and "100.0%" in found.output
    readme = next(out.rglob("README.md"))
    monkeypatch.chdir(readme.parent)
    exec(readme.read_text(encoding="utf-8").split("```python")[1].split("```")[0], {})
    said = ast.literal_eval(capsys.readouterr().out.strip())
    assert len(said) == 2 and all(isinstance(one, str) and "<" not in one for one in said)


@needs("ctranslate2")
@pytest.mark.parametrize("kind", ["int8", "int8_float16"])
def test_quantized_networks_are_smaller_and_translate_nearly_the_same(
    kind: Any, tiny_run: Path, tmp_path: Path
) -> None:
    parities = export(tiny_run, ExportOptions("ct2", tmp_path / kind, "vanilla", kind, 20), Silent())
    assert sum(parity.agreement for parity in parities) / 6 > 0.7
    assert all(parity.bleu_difference is not None and abs(parity.bleu_difference) < 8 for parity in parities)
    write_ct2(networks(translators_of(tiny_run), "bpe", 40)[0], tmp_path / "full", "float32")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("full", f"{kind}/en-fr")]
    assert sizes[1] < 0.7 * sizes[0]


@needs("ctranslate2")
def test_the_live_networks_are_untouched(run_of: Make, tmp_path: Path) -> None:
    """int8 conversion scales the arrays that it is given, in place."""
    folder = run_of("post")
    translators = translators_of(folder)
    before = translators.live.clone()
    for network in networks(translators, "bpe", 40):
        weights = {name: weight.clone() for name, weight in network.weights.items()}
        for kind in ("int8", "int8_float16"):
            write_ct2(network, tmp_path / kind / network.name, kind)
        write_hugging_face(network, tmp_path / "hf" / network.name)
        assert all(torch.equal(weight, network.weights[name]) for name, weight in weights.items())
    assert torch.equal(translators.live, before)
    result = (folder / "stages" / "vanilla" / "result" / "weights.safetensors").read_bytes()
    export(folder, ExportOptions("ct2", tmp_path / "out", kind="int8", sentences=2), Silent())
    assert (folder / "stages" / "vanilla" / "result" / "weights.safetensors").read_bytes() == result
    assert hashlib.sha256(result).hexdigest() == Run.open(folder).stage("vanilla").result_digest()


# -- tokenizers --------------------------------------------------------------------------------------------------


@needs("transformers")
@pytest.mark.parametrize("variant", ["post", "shared", "lower case", "no bytes"])
def test_the_tokenizer_has_our_ids(variant: str, run_of: Make, tmp_path: Path) -> None:
    export(run_of(variant), ExportOptions("hf", tmp_path / "out", sentences=1), Silent())
    folder = next(path for path in (tmp_path / "out").iterdir() if path.is_dir())
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    ours = Vocab.load(run_of(variant) / "vocab")
    draw = random.Random(1)
    texts = ["".join(draw.choices("aeiou cdhlnrst. -'éÉñ", k=draw.randrange(40))) for _ in range(300)]
    for text in [*ODD, *texts]:
        if "<" in text and variant in ("shared", "lower case"):
            continue  # a shared network is told its target in the text; a unigram model may read what spells a tag
        (ids,) = ours.encode([text], "en")
        assert tokenizer(text).input_ids == [*ids, 1], repr(text)
        if 2 not in ids:  # an unknown character is never said
            assert tokenizer.decode([*ids, 1], skip_special_tokens=True) == ours.decode([ids], "en")[0], repr(text)
    if variant == "shared":
        (ids,) = ours.encode(["The cat."], "en")
        assert tokenizer("<2fr> The cat.").input_ids == [ours.tag("fr"), *ids, 1]


@needs("transformers")
def test_generate_never_returns_special_tokens(run_of: Make, tmp_path: Path) -> None:
    export(run_of("shared"), ExportOptions("hf", tmp_path / "hf", sentences=1), Silent())
    folder = str(tmp_path / "hf" / "all")
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True)
    torch.manual_seed(1)
    batch = tokenizer(["<2fr> The cat.", "<2en> The old king sees the bird."], padding=True, return_tensors="pt")
    said = model.generate(**batch, do_sample=True, num_beams=1, num_return_sequences=20, temperature=5.0, max_length=60)
    ours = Vocab.load(run_of("shared") / "vocab")
    rows = [row[1:] for row in said.tolist()]
    generated = {one for row in rows for one in (row[: row.index(1)] if 1 in row else row)}
    assert len(generated) > 100
    assert not generated & {0, 2, ours.synthetic, *map(ours.tag, ours.languages)}


# -- what is refused ---------------------------------------------------------------------------------------------


@needs("transformers")
def test_an_export_that_differs_is_not_written(run_of: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_wrongly(network: Any, folder: Path) -> None:
        write(network, folder)
        tensors = load_file(folder / "model.safetensors")
        tensors["model.decoder.layers.0.fc1.bias"] += 0.5
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    write = write_hugging_face
    monkeypatch.setattr(workflow, "write_hugging_face", write_wrongly)
    with refused(RunError, "en>fr", "logits", "Nothing was written"):
        export(run_of("post"), ExportOptions("hf", tmp_path / "out", sentences=4), Silent())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", [".", "there", "new/one"])
def test_a_folder_is_created_atomically(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / ("there" if out == "." else ""))
    with pytest.raises(RunError, match="on purpose"), appearing(Path(out)) as draft:
        (draft / "half").touch()
        raise RunError("on purpose")
    assert not list(tmp_path.rglob("half"))
    with appearing(Path(out)) as draft:
        (draft / "en-fr").mkdir()
        (draft / "en-fr" / "file").touch()
    assert [str(file) for file in Path(out).rglob("*")] == [str(Path(out, "en-fr")), str(Path(out, "en-fr", "file"))]


KILLED = """
import os, signal, sys
from pathlib import Path
from loopmt.files.folder import appearing
with appearing(Path(sys.argv[1])) as draft:
    (draft / "half").touch()
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("empty", [True, False])
def test_a_folder_that_appears_meanwhile_is_kept(empty: bool, tmp_path: Path) -> None:
    """Two processes with the same --out: the second one to end is refused."""
    if empty:
        (tmp_path / "out").mkdir()
    with pytest.raises(RunError, match="out exists already"), appearing(tmp_path / "out") as draft:
        (draft / "file").write_text("second")
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / "file").write_text("first")
    assert {file.relative_to(tmp_path): file.read_text() for file in tmp_path.rglob("*") if file.is_file()} == {
        Path("out/file"): "first"
    }


@pytest.mark.parametrize("out", ["new", "there"])
def test_drafts_of_killed_processes_are_deleted(out: str, tmp_path: Path) -> None:
    """A draft that is still being written stays."""
    (tmp_path / "there").mkdir()
    command = [sys.executable, "-c", KILLED, str(tmp_path / out)]
    assert subprocess.run([*command, "killed"]).returncode == -signal.SIGKILL
    with subprocess.Popen([*command, "alive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "writing\n"
        assert len(list(tmp_path.rglob("half"))) == 1, "the first one is gone"
        subprocess.run([*command, "killed"], stderr=subprocess.DEVNULL)
        assert len(list(tmp_path.rglob("half"))) == (2 if out == "new" else 1), "the second one is not"
        other.kill()
    with appearing(tmp_path / out) as draft:
        (draft / "whole").touch()
    assert [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()] == [f"{out}/whole"]


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({}, None),
        ({"ties": 1, "same": 9}, None),
        ({"misread": 2}, "2 of 10 sentences have different ids"),
        ({"logits": 2e-4}, "logits differ by 0.0002 (at most 1e-04)"),
        ({"logits": float("inf")}, "logits differ by inf (at most 1e-04)"),
        ({"same": 8}, "2 of 10 greedy translations differ"),
    ],
)
def test_failures_of_the_parity_check(change: dict[str, Any], failure: str | None) -> None:
    found: dict[str, Any] = {"misread": 0, "same": 10, "ties": 0, "logits": 1e-5, "bleu": 3.0, "bleu_difference": 0.0}
    parity = Parity("en>fr", 10, **{**found, **change})
    assert parity.failures() == ([f"en>fr: {failure}"] if failure else [])


@needs("transformers")
def test_errors_of_export_name_the_alternatives(run_of: Make, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(RunError, match=r"full exists already.*another folder"):
        export(run_of("post"), ExportOptions("hf", tmp_path / "full"), Silent())
    with pytest.raises(ConfigError, match=r"vocab\.sharing.*Pegasus.*--to ct2"):
        export(run_of(REFUSED), ExportOptions("hf", tmp_path / "out"), Silent())


@pytest.mark.parametrize(("to", "package"), [("hf", "transformers"), ("ct2", "ctranslate2")])
def test_missing_packages_are_named(
    to: Any, package: str, run_of: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with refused(MissingExtraError, package, "pip install 'loopmt[export]'"):
        export(run_of("post"), ExportOptions(to, tmp_path / "out"), Silent())
