"""The protocol of translation models: our networks, an exported checkpoint and a CTranslate2 model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from loopmt.config import Generate
from loopmt.errors import RunError
from loopmt.export.ct2 import CTranslate2Model
from loopmt.path import Hop, LanguagePath
from loopmt.pretrained.checkpoint import ImportOptions
from loopmt.pretrained.generator import HuggingFaceGenerator
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.store import Store
from loopmt.translate.networks import NetworkStack, stack_of
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences, TranslationModel
from loopmt.translate.walker import Rollout, Translators, Walker, generate_along
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.importing import import_translator
from loopmt.workflow.models import for_text, result_of

EN_FR = Hop("en", "fr")
GREEDY, BEAM = Generate(how="greedy"), Generate(how="beam", beam=4)
LIMITS = DecodeLimits(longest=40)


@pytest.fixture(scope="module")
def networks(tiny_run: Path) -> NetworkStack:
    run = Run.open(tiny_run)
    experiment = run.experiment()
    return stack_of(result_of(run, experiment, experiment.stage("vanilla"), torch.device("cpu")))


@pytest.fixture(scope="module")
def models(
    networks: NetworkStack, tiny_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, TranslationModel]:
    folder = tmp_path_factory.mktemp("exported")
    export(tiny_run, ExportOptions("hf", folder / "hf", "vanilla", sentences=2), Silent())
    export(tiny_run, ExportOptions("ct2", folder / "ct2", "vanilla", sentences=2), Silent())
    imported = import_translator(folder / "hf" / "en-fr", folder / "run", ImportOptions(EN_FR))
    return {
        "networks": networks,
        "hugging face": HuggingFaceGenerator(imported, "cpu", networks.vocab),
        "ctranslate2": CTranslate2Model({EN_FR: folder / "ct2" / "en-fr"}, networks.vocab, False, "float32"),
    }


@pytest.fixture(scope="module")
def pairs(networks: NetworkStack, tiny_run: Path) -> tuple[Sentences, Sentences]:
    found = Store.open(tiny_run / "store").pair_texts("valid", "en", "fr")
    assert found is not None
    sources, targets = (
        Sentences(networks.vocab, language, texts=texts[:12])
        for language, texts in zip(("en", "fr"), found, strict=True)
    )
    return sources, targets


@pytest.mark.parametrize("how", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_all_models_translate_the_same(
    how: Generate, models: Mapping[str, TranslationModel], pairs: tuple[Sentences, Sentences]
) -> None:
    texts = {}
    for name, model in models.items():
        assert EN_FR in model.hops
        (found,) = model.generate([HopInput(EN_FR, pairs[0])], how, LIMITS, ("test",))
        assert found.counts.tolist() == [1] * len(pairs[0])
        assert found.ended.all(), name
        texts[name] = found.sentences.texts
    assert len(set(texts["networks"])) > 6
    agree = [
        np.mean([one == other for one, other in zip(texts["networks"], told, strict=True)]) for told in texts.values()
    ]
    assert min(agree) >= (1.0 if how is GREEDY else 0.8), "beams differ in when they end, not in what they find likely"


def test_all_models_score_the_same(models: Mapping[str, TranslationModel], pairs: tuple[Sentences, Sentences]) -> None:
    expected, counts = models["networks"].score(EN_FR, *pairs, as_generated=True)
    for name, model in models.items():
        losses, tokens = model.score(EN_FR, *pairs, as_generated=True)
        np.testing.assert_allclose(losses, expected, rtol=1e-3, err_msg=name)
        assert tokens.tolist() == counts.tolist()
    of_all, _ = models["networks"].score(EN_FR, *pairs)
    assert (of_all > expected).all(), "ids that are no text have a share of the probability in training"


@pytest.mark.parametrize("name", ["networks", "ctranslate2"])
def test_the_n_best_come_best_first(
    name: str, models: Mapping[str, TranslationModel], pairs: tuple[Sentences, Sentences]
) -> None:
    (found,) = models[name].generate([HopInput(EN_FR, pairs[0])], BEAM, LIMITS, ("test",), 3)
    assert found.counts.sum() == len(found.scores) == len(found.sentences)
    assert set(found.counts.tolist()) <= {1, 2, 3} and found.counts.max() == 3
    best = [candidates[0][0] for candidates in found.by_source()]
    assert found.best().sentences.texts == best
    assert found.best().scores.tolist() == [candidates[0][1] for candidates in found.by_source()]


def test_samples_differ_and_depend_on_the_key(networks: NetworkStack, pairs: tuple[Sentences, Sentences]) -> None:
    how = Generate(how="sample", temperature=1.5, top_k=0)
    (once,), (again,), (other,) = (
        networks.generate([HopInput(EN_FR, pairs[0])], how, LIMITS, (key,), 4) for key in ("one", "one", "two")
    )
    assert once.counts.tolist() == [4] * len(pairs[0])
    assert once.sentences.texts == again.sentences.texts != other.sentences.texts
    assert any(len({text for text, _ in draws}) > 1 for draws in once.by_source())


def test_an_export_searches_only(models: Mapping[str, TranslationModel], pairs: tuple[Sentences, Sentences]) -> None:
    with pytest.raises(RunError, match="--backend loopmt"):
        models["ctranslate2"].generate([HopInput(EN_FR, pairs[0])], Generate(how="sample"), LIMITS, ("test",))


def test_batched_inputs_are_returned_separately(networks: NetworkStack, pairs: tuple[Sentences, Sentences]) -> None:
    english, french = pairs
    inputs = [HopInput(EN_FR, english), HopInput(EN_FR.reverse, french), HopInput(EN_FR, english.take(np.arange(3)))]
    together = networks.generate(inputs, GREEDY, LIMITS, ("test",))
    alone = [networks.generate([one], GREEDY, LIMITS, ("test",))[0] for one in inputs]
    for one, other in zip(together, alone, strict=True):
        assert one.sentences.texts == other.sentences.texts
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4)


def test_long_text_is_cut_translated_and_joined(networks: NetworkStack) -> None:
    sentence = "The small child hears the kind cat often."
    model = for_text(networks, networks.vocab, 40)
    texts = [sentence, "", f"{sentence} {sentence} {sentence}"]
    (found,) = model.generate([HopInput(EN_FR, Sentences(None, "en", texts=texts))], GREEDY, LIMITS, ("test",))
    one, nothing, three = found.sentences.texts
    assert nothing == "" and three == " ".join([one] * 3)
    assert found.scores[2] == pytest.approx(3 * found.scores[0], rel=1e-3)


def test_rollouts_share_the_hops_that_they_begin_with(
    networks: NetworkStack, pairs: tuple[Sentences, Sentences]
) -> None:
    paths = ("en>fr", "en>fr>en", "en>fr>es>en", "en>es>en")
    rollouts = [Rollout.to_the_end(LanguagePath.parse(path), GREEDY, pairs[0]) for path in paths]
    walker, asked = Walker(rollouts), []
    while requests := walker.next():
        asked.append([str(request.input.hop) for request in requests])
        list(walker.receive(Translators(networks).answer(requests, LIMITS, ("test",))))
    assert asked == [["en>fr", "en>es"], ["fr>en", "fr>es", "es>en"], ["es>en"]]
    assert rollouts[0].trace[0] is rollouts[1].trace[0] is rollouts[2].trace[0]
    alone = Rollout.to_the_end(LanguagePath.parse("en>fr>es>en"), GREEDY, pairs[0])
    generate_along(Translators(networks), [alone], LIMITS, ("other",))
    assert alone.text.texts == rollouts[2].text.texts
    np.testing.assert_allclose(alone.scores, rollouts[2].scores, rtol=1e-4)
