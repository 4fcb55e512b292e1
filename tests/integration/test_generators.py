"""Several generators of one hop: the weights of now, of an earlier stage and of another run; by turns or together."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.stages import ASK, assembled, folder_of, stage
from loopmt import load
from loopmt.config import Generate
from loopmt.errors import ConfigError, ExternalError, LoopmtError
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.vocab import Vocab
from loopmt.translate.ensemble import EnsembleModel, by_turns
from loopmt.translate.function import FunctionTranslator
from loopmt.translate.networks import NetworkStack, stack_of
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences
from loopmt.workflow.generators import OtherStage, ThroughText
from loopmt.workflow.train import train

HOP = Hop("en", "fr")
TEXTS = ["A dog sleeps.", "The cat sees a bird.", "", "The women eat bread.", "A man sees the cat."]
LIMITS = DecodeLimits()
GREEDY, BEAM = Generate(how="greedy"), Generate(how="beam", beam=3)


def network(run: Path, name: str) -> NetworkStack:
    return stack_of(OtherStage(Run(run), name).model(torch.device("cpu")))


def read(model: NetworkStack) -> HopInput:
    return HopInput(HOP, Sentences(model.vocab, "en", texts=TEXTS))


# -- together ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_an_ensemble_of_equals_is_one_of_them(tiny_run: Path, how: Generate) -> None:
    one = network(tiny_run, "dual")
    (alone,) = one.generate([read(one)], how, LIMITS, ("key",))
    for combine in ("mean", "max"):
        ensemble = EnsembleModel([(one, "live"), (one, "live")], combine)
        (both,) = ensemble.generate([read(one)], how, LIMITS, ("key",))
        assert both.sentences.texts == alone.sentences.texts
        assert both.scores == pytest.approx(alone.scores, abs=1e-3) or combine == "max"


def test_an_ensemble_averages_probabilities(tiny_run: Path) -> None:
    """The first token is the likeliest by the mean, as computed from each network's own scores of one-token outputs."""
    one, other = network(tiny_run, "vanilla"), network(tiny_run, "dual")
    found = [one.decoder(HOP), other.decoder(HOP)]
    sources = one.source_rows(read(one).sources, HOP)
    source = torch.from_numpy(sources.padded(np.array([1]), int(sources.lengths[1]) + 1))
    chances = []
    for decoder in found:
        weights = decoder.layout.unpack(decoder.flat)
        states = decoder.transformer.encode(weights, source[None])
        memory = decoder.transformer.memory(weights, states, source[None])
        out = decoder.transformer.decode(weights, memory, torch.zeros(1, 1, 1, dtype=torch.int64))
        chances.append((decoder.transformer.logits(weights, out)[0, 0, 0] + decoder.logit_mask).softmax(-1))
    expected = torch.stack(chances).mean(0).argmax().item()
    (both,) = EnsembleModel([(one, "live"), (other, "live")]).generate([read(one)], GREEDY, LIMITS, ("key",))
    assert both.sentences.ids.row(1)[0] == expected


# -- by turns ----------------------------------------------------------------------------------------------------


def test_rows_are_taken_in_turn_and_come_back_in_order(tiny_run: Path) -> None:
    one, other = network(tiny_run, "vanilla"), network(tiny_run, "dual")
    found = by_turns([(one, BEAM), (other, BEAM)], read(one), LIMITS, ("key",), 2)
    alone = [model.generate([read(model)], BEAM, LIMITS, ("key",), 2)[0] for model in (one, other)]
    expected = [list(alone[row % 2].by_source())[row] for row in range(len(TEXTS))]
    for mine, theirs in zip(found.by_source(), expected, strict=True):
        assert [text for text, _ in mine] == [text for text, _ in theirs]
        assert [score for _, score in mine] == pytest.approx([score for _, score in theirs], abs=1e-4)


def test_a_model_of_another_vocabulary_goes_through_text(tiny_run: Path) -> None:
    one = network(tiny_run, "dual")
    through = ThroughText(one, Vocab.load(tiny_run / "vocab"))
    (alone,), (found,) = (model.generate([read(one)], GREEDY, LIMITS, ("key",)) for model in (one, through))
    assert found.sentences.texts == alone.sentences.texts and found.sentences.codec is through.codec


MODULE = """
def good(texts, hop): return [f"{hop}  {text}" for text in texts]
def few(texts, hop): return texts[1:]
def one(texts, hop): return "text"
def numbers(texts, hop): return [3 for text in texts]
def failing(texts, hop): return texts[99]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "their_translators.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "their_translators"


def test_a_function_translates_texts(tiny_run: Path, module: str) -> None:
    vocab = Vocab.load(tiny_run / "vocab")
    model = FunctionTranslator.of(f"{module}:good", vocab, torch.device("cpu"))
    given = HopInput(HOP, Sentences(vocab, "en", texts=TEXTS))
    (found,) = model.generate([given], GREEDY, LIMITS, ("key",), 3)
    assert found.sentences.texts == [f"en>fr {text}".strip() for text in TEXTS], "one line, however it is asked"
    assert found.counts.tolist() == [1] * len(TEXTS) and HOP in model.hops
    assert len(found.best().sentences.ids) == len(TEXTS)


@pytest.mark.parametrize("name", ["few", "one", "numbers", "failing"])
def test_a_function_that_gives_something_else_is_named(tiny_run: Path, module: str, name: str) -> None:
    vocab = Vocab.load(tiny_run / "vocab")
    model = FunctionTranslator.of(f"{module}:{name}", vocab, torch.device("cpu"))
    with pytest.raises(ExternalError, match=f"{module}:{name}"):
        model.generate([HopInput(HOP, Sentences(vocab, "en", texts=TEXTS))], GREEDY, LIMITS, ("key",))


# -- in training -------------------------------------------------------------------------------------------------


def mix(generate: str) -> str:
    return stage(f'["X>Y", {{ path = "X>Y>X", samples = 2, generate = {{ {generate} }} }}]', updates=4)


@pytest.mark.parametrize("ensemble", ["rows", "mean", "max"])
def test_a_stage_learns_from_several_generators(ask_for: ASK, tiny_run: Path, tmp_path: Path, ensemble: str) -> None:
    other = Path(shutil.copytree(tiny_run, tmp_path / "other"))
    request = ask_for(mix(f'by = ["live", "ema", "stage:vanilla", "run:{other}#dual"], ensemble = "{ensemble}"'))
    assert train(request, Silent())
    remembered = folder_of(request).begun_with()["generators"]
    assert set(remembered) == {"stage:vanilla", f"run:{other}#dual"} and len(set(remembered.values())) == 2


def test_results_of_other_generators_are_refused_later(ask_for: ASK, tiny_run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(tiny_run, tmp_path / "other"))
    request = ask_for(mix(f'by = "run:{other}#dual"'))
    assert train(request, Silent())
    shutil.rmtree(other / "stages" / "dual")
    shutil.copytree(other / "stages" / "vanilla", other / "stages" / "dual")
    with pytest.raises(LoopmtError, match="generators"):
        train(request, Silent())


@pytest.mark.parametrize(
    ("generate", "facts"),
    [
        ('by = "stage:later"', ["stage:later", "vanilla"]),
        ('by = "stages:vanilla"', ["stages:vanilla", "stage:NAME"]),
        ('by = ["live", "live"]', ["different"]),
        ("by = []", ["one"]),
        ('by = "run:nowhere"', ["nowhere"]),
        ('by = "no_such_module:translate"', ["no_such_module", "translator"]),
        ('by = "command:cat"', ["command:cat", "module:function"]),
        ('by = ["live", "math:ceil"], ensemble = "mean"', ["math:ceil", "rows"]),
        ('by = ["live", "frozen"], ensemble = "sum"', ["mean", "max", "rows"]),
    ],
)
def test_generators_that_there_are_not(ask_for: ASK, generate: str, facts: list[str]) -> None:
    with pytest.raises(LoopmtError) as error:
        assembled(ask_for(mix(generate)))
    assert all(fact in str(error.value) for fact in facts), str(error.value)


def test_a_finished_stage_has_one_set_of_weights(tiny_run: Path) -> None:
    with pytest.raises(ConfigError, match="by"):
        load(tiny_run, "dual").translate(TEXTS, "en>fr", how=Generate(by=["live", "frozen"]))
