"""A language that the tokenizer of an NLLB checkpoint lacks."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from helpers.pretrained import SIZE, experiment, transformers
from helpers.pretrained_runs import EN_FR, TEXTS, stack_in
from loopmt.errors import DataError
from loopmt.path import Hop
from loopmt.pretrained.native_stack import NativeStack
from loopmt.progress import Silent
from loopmt.translate.protocol import Sentences
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.train import TrainOptions, prepare_run, train

CODES = {"en": "eng_Latn", "fr": "fra_Latn", "es": "new:fra_Latn"}


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The architecture and the kind of tokenizer of NLLB-200; its subwords are letters."""
    folder = tmp_path_factory.mktemp("nllb") / "nllb"
    letters = string.ascii_letters + string.digits + ".,'?!-éèêàâçîïôûùñáíóúü¿¡œ"
    names = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", *letters]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = transformers.NllbTokenizer(
        vocab=vocabulary, merges=[], extra_special_tokens=["eng_Latn", "fra_Latn", "deu_Latn"]
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    config = transformers.M2M100Config(
        vocab_size=len(tokenizer), decoder_start_token_id=2, activation_function="relu", init_std=0.3, **SIZE
    )
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
    return folder


@pytest.fixture
def asked(nllb: Path, text: Path, tmp_path: Path) -> Callable[..., TrainOptions]:
    def make(codes: dict[str, str], name: str = "run") -> TrainOptions:
        table = ", ".join(f'{language} = "{code}"' for language, code in codes.items())
        file = tmp_path / f"{name}.toml"
        document = experiment(text, list(codes), str(nllb), model=f"codes = {{ {table} }}", updates=2)
        file.write_text(document.replace("max_length = 60", "max_length = 120"), encoding="utf-8")
        return TrainOptions(file, tmp_path / name)

    return make


def test_it_begins_as_a_related_language(asked: Callable[..., TrainOptions], nllb: Path, tmp_path: Path) -> None:
    request = asked(CODES)
    assert train(request, Silent()) and request.run
    stack = stack_in(request)
    assert isinstance(stack, NativeStack)
    source, target = (Sentences(None, one, texts=TEXTS) for one in ("en", "fr"))
    fr, es = (stack.score(hop, source, target)[0] for hop in (EN_FR, Hop("en", "es")))
    back = stack.score(Hop("fr", "en"), source, target)[0]
    assert fr == pytest.approx(es), "the new code has the embedding of fra_Latn"
    assert fr != pytest.approx(back)
    trained = stack_in(request, "first").named()["all/model.shared.weight"]
    known, new = stack.tokens_of(EN_FR).tokenizer.convert_tokens_to_ids(["fra_Latn", "es_New"])
    assert not torch.equal(trained[known], trained[new]), "they learn apart"
    before = transformers.AutoModelForSeq2SeqLM.from_pretrained(nllb).get_input_embeddings().weight
    now = stack.named()["all/model.shared.weight"]
    assert torch.equal(now[: len(before)], before) and len(now) == len(before) + 1
    export(request.run, ExportOptions("hf", tmp_path / "out", "first", sentences=3), Silent())
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out" / "all", src_lang="es_New")
    assert tokenizer("a").input_ids[0] == new


def test_without_a_related_language_it_begins_as_their_mean(asked: Callable[..., TrainOptions], nllb: Path) -> None:
    request = asked({**CODES, "es": "new"})
    prepare_run(request, Silent())
    stack = stack_in(request)
    table = stack.named()["all/model.shared.weight"]
    codes = stack.tokens_of(EN_FR).tokenizer.convert_tokens_to_ids(["eng_Latn", "fra_Latn", "deu_Latn"])
    assert torch.allclose(table[-1], table[codes].mean(0))


def test_what_it_cannot_begin_as_is_named(asked: Callable[..., TrainOptions], m2m: Path, text: Path) -> None:
    with pytest.raises(DataError) as caught:
        prepare_run(asked({**CODES, "es": "new:fra_Latin"}), Silent())
    assert all(fact in str(caught.value) for fact in ("model.codes", "fra_Latin", "fra_Latn"))
    request = asked({"en": "en", "fr": "fr", "es": "new"}, "fixed")
    document = experiment(text, ["en", "fr", "es"], str(m2m), model='codes = { es = "new" }')
    request.file.write_text(document, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        prepare_run(request, Silent())
    assert all(fact in str(caught.value) for fact in ("new", "fixed", str(m2m)))
