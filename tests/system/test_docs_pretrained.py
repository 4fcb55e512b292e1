"""The experiment files of docs/pretrained.md, on small checkpoints: each is read, prepared and dry-run as it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from helpers.causal import make_qwen
from helpers.pretrained import make_m2m, make_opus
from loopmt.progress import Silent
from loopmt.workflow.dry_run import describe
from loopmt.workflow.train import TrainOptions, prepare_run

PAGE = Path(__file__).parents[2] / "docs" / "pretrained.md"
SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")
EXAMPLES = {one.partition("\n")[0]: one.split("```toml\n")[1].split("```")[0] for one in SECTIONS if "```toml" in one}
OPUS, NLLB = EXAMPLES["Two OPUS-MT models in dual loops"], EXAMPLES["NLLB with LoRA, three languages"]
LANGUAGE_MODEL, ENDPOINT = EXAMPLES["A language model with LoRA"], EXAMPLES["A language model behind an endpoint"]


def text_as_named(text: Path, folder: Path, names: dict[str, str]) -> None:
    for ours, named in names.items():
        for file in text.glob(f"{ours}.*"):
            shutil.copyfile(file, folder / file.name.replace(ours, named, 1))


def dry_run(experiment: str, folder: Path, *overrides: str) -> None:
    (folder / "experiment.toml").write_text(experiment, encoding="utf-8")
    request = TrainOptions(folder / "experiment.toml", folder / "run", overrides)
    prepare_run(request, Silent())
    describe(request, Silent())


def test_two_opus_models(tiny_experiment_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tiny_experiment_file.parent / "text"
    text_as_named(text, tmp_path, {"bi.en-fr": "train", "mono": "news", "valid": "dev", "test": "test"})
    for source, target in (("en", "fr"), ("fr", "en")):
        make_opus(text, tmp_path / f"opus-mt-{source}-{target}", source, target, steps=0)
    dry_run(OPUS, tmp_path, "train.tokens=64")
    said = capsys.readouterr().out
    assert "opus-mt-en-fr" in said and "parameters" in said and "stage loops: from pretrained" in said


def test_nllb_with_lora(tiny_experiment_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peft", reason="LoRA needs `peft`")
    text = tiny_experiment_file.parent / "text"
    text_as_named(text, tmp_path, {"bi.en-fr": "en-fr", "bi.en-es": "en-es", "mono": "news", "valid": "dev"})
    make_m2m(text, tmp_path / "nllb-200-distilled-600M", steps=0)
    dry_run(NLLB, tmp_path, "train.tokens=64", 'model.codes={ en = "en", fr = "fr", es = "es" }')
    trained, total = re.findall(r"([\d,]+) of ([\d,]+) parameters are trained", capsys.readouterr().out)[0]
    assert 0 < int(trained.replace(",", "")) < int(total.replace(",", "")) / 2


def test_a_language_model_with_lora(
    tiny_experiment_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("peft", reason="LoRA needs `peft`")
    text = tiny_experiment_file.parent / "text"
    text_as_named(text, tmp_path, {"bi.en-fr": "train", "mono": "news", "valid": "dev"})
    make_qwen(text, tmp_path / "Qwen2.5-0.5B-Instruct", steps=60)
    dry_run(LANGUAGE_MODEL, tmp_path, "train.tokens=64")
    trained, total = re.findall(r"([\d,]+) of ([\d,]+) parameters are trained", capsys.readouterr().out)[0]
    assert 0 < int(trained.replace(",", "")) < int(total.replace(",", "")) / 2


def test_an_endpoint_beside_a_checkpoint(
    tiny_experiment_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tiny_experiment_file.parent / "text"
    text_as_named(text, tmp_path, {"bi.en-fr": "train", "mono": "news", "valid": "dev"})
    make_opus(text, tmp_path / "opus-mt-fr-en", "fr", "en", steps=0)
    dry_run(ENDPOINT, tmp_path, "train.tokens=64")
    said = capsys.readouterr().out
    assert "en>fr>en" in said and "not timed: an endpoint generates en>fr" in said
    assert not (tmp_path / "run" / "imported").exists(), "nothing was asked"
