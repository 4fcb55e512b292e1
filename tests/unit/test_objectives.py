"""Objectives: their factors and terms affect the gradient in every learner; a stage has those that it turns on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import BaseModel
from torch import Tensor

from data.objectives.confidence import Confidence
from helpers.learners import HOPS, batch, row_losses, rows, translators
from helpers.recorded import recorder
from loopmt.config import MixEntry, Train
from loopmt.distributed import Processes
from loopmt.errors import ExternalError, LoopmtError
from loopmt.learn.captured import CapturedLearner
from loopmt.learn.learner import Learner
from loopmt.learn.logmeanexp import LogMeanExp
from loopmt.learn.objectives import OBJECTIVES, Objective, StageSettings, objectives_of
from loopmt.learn.rdrop import RDrop
from loopmt.model.transformer import Dropout
from loopmt.path import Hop
from loopmt.text.batch import Batch, Rows
from loopmt.text.ragged import PAD
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack
from loopmt.translate.scoring import decoder_states

HALF = Train(dropout=0.3, learning_rate=0.01, warmup=1, adam=(0.9, 0.98, 1e-3))


@pytest.fixture(scope="session")
def vocab(tiny_run: Path) -> Vocab:
    return Vocab.load(tiny_run / "vocab")


def weighted(given: Rows, seed: int = 1) -> Rows:
    """The rows with factors of all sizes, some of them 0 and some negative."""
    factors = np.random.default_rng(seed).integers(-2, 4, len(given)) / 2
    return replace(given, factors=factors.astype(np.float32))


def learners(
    found: Callable[[], NetworkStack], train: Train, objectives: Sequence[Objective], unit: int = 1
) -> list[Learner]:
    """An eager learner, and one that replays recorded work."""
    eager = Learner(found(), train, 3, Processes(), unit, objectives)
    return [eager, CapturedLearner(found(), train, 3, Processes(), unit, objectives, recorder)]


def losses_of(found: NetworkStack, weights: Tensor, given: Batch) -> Tensor:
    return row_losses(found, weights, given)[0]


# -- factors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hops", [HOPS, HOPS[:1]])
def test_a_factor_multiplies_the_gradient_of_its_row(vocab: Vocab, hops: tuple[Hop, ...]) -> None:
    given = batch(*(weighted(rows(number), number) for number in range(len(hops))))
    found = translators(vocab, hops)
    weights = found.live.clone().requires_grad_()
    losses = losses_of(found, weights, given)
    (expected,) = torch.autograd.grad((losses * torch.from_numpy(given.factors_NB)).sum(), weights)
    one = Learner(found, Train(label_smoothing=0.1), 3, Processes())
    one.add(given)
    assert torch.allclose(one.gradient, expected, atol=1e-5)
    assert torch.equal(one.tokens.long(), torch.from_numpy(given.target_tokens)), "divided by tokens, not by factors"
    assert torch.allclose(one.tally.loss.sum(), losses.sum().double()), "what is logged is without factors"


def test_packing_moves_factors_with_their_rows() -> None:
    given = weighted(rows(1))
    packed = batch(given)
    expected = {tuple(row.tolist()): factor for row, factor in zip(given.sources.rows(), given.factors, strict=True)}
    for source, factor, path in zip(packed.source_NBL[0], packed.factors_NB[0], packed.paths_NB[0], strict=True):
        assert factor == (expected[tuple(source[source > 1].tolist())] if path >= 0 else 1)
    together = np.concatenate([part.factors_NB for part in packed.parts(7)], 1)
    assert np.array_equal(together[:, : packed.shape.rows], packed.factors_NB)
    assert (together[:, packed.shape.rows :] == 1).all()
    assert packed.factors_NB.dtype == together.dtype == np.float32


# -- terms ---------------------------------------------------------------------------------------------------------


def r_drop_by_hand(found: NetworkStack, weights: Tensor, given: Batch, alpha: float) -> Tensor:
    """The gradient of the published loss, each row's times its factor."""
    source, target = torch.from_numpy(given.source_NBL), torch.from_numpy(given.target_NBL)
    views, transformer = found.layout.unpack(weights), found.transformer
    passes = [decoder_states(views, transformer, source, target, Dropout(0.3)) for _ in range(2)]
    one, other = (transformer.logits(views, states).log_softmax(-1) for states in passes)
    both = [F.kl_div(*pair, reduction="none", log_target=True) for pair in ((one, other), (other, one))]
    divergence = torch.stack(both).sum(-1)[:, target != PAD].sum() / 2
    rows_2NB = torch.stack([transformer.losses(views, states, target, 0.1).sum(-1) for states in passes])
    crossed = (rows_2NB.mean(0) * torch.from_numpy(given.factors_NB)).sum()
    (gradient,) = torch.autograd.grad(crossed + alpha * divergence, weights)
    return gradient


@pytest.mark.parametrize("hops", [HOPS, HOPS[:1]])
@pytest.mark.parametrize("given_factors", [False, True])
def test_r_drop_has_the_gradient_of_the_published_loss(
    vocab: Vocab, hops: tuple[Hop, ...], given_factors: bool
) -> None:
    made = [weighted(rows(number)) if given_factors else rows(number) for number in range(len(hops))]
    given = batch(*made)
    found = translators(vocab, hops)
    torch.manual_seed(1)
    expected = r_drop_by_hand(found, found.live.clone().requires_grad_(), given, 2.0)
    for one in learners(lambda: translators(vocab, hops), HALF, [RDrop(2.0)]):
        torch.manual_seed(1)
        one.add(given)
        torch.testing.assert_close(one.gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("objectives", [[], [RDrop(1.0)], [Confidence(0.5), RDrop(0.5)]])
@pytest.mark.parametrize("unit", [1, 3])
def test_captured_updates_are_eager_updates(vocab: Vocab, objectives: list[Objective], unit: int) -> None:
    """Also of several shapes, with factors, and with samples that combine."""
    every = [*objectives, *([LogMeanExp(torch.ones(3, dtype=torch.bool))] if unit > 1 else [])]
    eager, captured = learners(lambda: translators(vocab), HALF, every, unit)
    lessons = [batch(weighted(rows(number, group=unit if unit > 1 else 0)), rows(9)) for number in range(3)]
    lessons.append(lessons[0].parts(2, unit)[0])
    for number, lesson in enumerate(lessons, 1):
        for one in (eager, captured):
            torch.manual_seed(number)
            one.update(lesson, number, 0.01)
    for ours, theirs in ((eager.weights, captured.weights), (eager.tally.loss, captured.tally.loss)):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("halved", [False, True])
def test_neither_parts_nor_halves_change_the_terms_of_objectives(vocab: Vocab, parts: int, halved: bool) -> None:
    given = batch(weighted(rows(1)), rows(2))
    whole, cut = (Learner(translators(vocab), Train(), 3, Processes(), 1, [Confidence(0.5)]) for _ in range(2))
    whole.add(given)
    for part in given.parts(parts):
        cut.splitting.halved |= {part.shape} if halved else set()
        cut.splitting.add(part, cut.add)
    torch.testing.assert_close(cut.gradient, whole.gradient, rtol=1e-4, atol=1e-5)


# -- the registry --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_keys_of_objectives_are_in_the_schema(name: str) -> None:
    section, key = OBJECTIVES[name].key.split(".")
    sections: dict[str, type[BaseModel]] = {"train": Train, "mix": MixEntry}
    assert key in sections[section].model_fields


def test_a_stage_has_the_objectives_that_it_turns_on(vocab: Vocab) -> None:
    loop = MixEntry(path="X>Y>X", samples=2)
    combined = loop.model_copy(update={"combine": "logmeanexp"})
    for entries, expected in (([loop], []), ([loop, combined], [LogMeanExp])):
        found = objectives_of(StageSettings(Train(), entries, translators(vocab)))
        assert [type(one) for one in found] == expected
    assert [found[0].groups(entry) for entry in (loop, combined)] == [False, True]


def test_r_drop_is_turned_on_by_its_key(vocab: Vocab) -> None:
    (found,) = objectives_of(StageSettings(Train(rdrop=2.0), [], translators(vocab)))
    assert isinstance(found, RDrop) and found.alpha == 2.0


# -- of other modules ----------------------------------------------------------------------------------------------

MODULE = """
import torch
from loopmt.learn.objectives import Objective, UpdateTerms

class Given(Objective):
    def __init__(self, update=None, factors=None):
        self.update, self.factors = update, factors
    def update_terms(self, forward):
        return self.update(forward) if self.update else None
    def round_factors(self, rows):
        return self.factors

def off(settings): return None
def good(settings): return Given(lambda forward: UpdateTerms(terms_NB=forward.losses_NB))
def number(settings): return 3
def broken(settings): return settings.nothing
def failing(settings): return Given(lambda forward: 1 / 0)
def crooked(settings): return Given(lambda forward: UpdateTerms(terms_NB=forward.losses_NB[:, :1]))
def odd(settings): return Given(lambda forward: forward.losses_NB)
def full(settings): return Given(lambda forward: (_ for _ in ()).throw(torch.OutOfMemoryError("no room")))
def short(settings): return Given(factors=[[1.0]])
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "their_objectives.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "their_objectives"


def named(vocab: Vocab, *references: str) -> list[Objective]:
    return objectives_of(StageSettings(Train(objectives=list(references)), [], translators(vocab)))


def test_a_function_makes_an_objective(vocab: Vocab, module: str) -> None:
    assert named(vocab, f"{module}:off") == []
    plain, doubled = (
        Learner(translators(vocab), Train(), 3, Processes(), 1, given) for given in ([], named(vocab, f"{module}:good"))
    )
    for one in (plain, doubled):
        one.add(batch(rows(1), rows(2)))
    torch.testing.assert_close(doubled.gradient, 2 * plain.gradient)


@pytest.mark.parametrize(
    ("function", "fact"), [("number", "Objective"), ("broken", "AttributeError"), ("missing", "off, good")]
)
def test_a_function_that_makes_no_objective_is_named(vocab: Vocab, module: str, function: str, fact: str) -> None:
    with pytest.raises(LoopmtError) as error:
        named(vocab, f"{module}:{function}")
    assert f"{module}:{function}" in str(error.value) and fact in str(error.value)


@pytest.mark.parametrize(
    ("function", "fact"), [("failing", "ZeroDivisionError"), ("crooked", "shape"), ("odd", "UpdateTerms")]
)
def test_an_objective_that_fails_is_named(vocab: Vocab, module: str, function: str, fact: str) -> None:
    one = Learner(translators(vocab), Train(), 3, Processes(), 1, named(vocab, f"{module}:{function}"))
    with pytest.raises(ExternalError) as error:
        one.add(batch(rows(1), rows(2)))
    assert f"{module}:{function}" in str(error.value) and fact in str(error.value)


def test_memory_that_runs_out_in_an_objective_is_no_failure_of_it(vocab: Vocab, module: str) -> None:
    one = Learner(translators(vocab), Train(), 3, Processes(), 1, named(vocab, f"{module}:full"))
    with pytest.raises(torch.OutOfMemoryError):
        one.add(batch(rows(1), rows(2)))


def test_factors_of_a_round_are_counted(vocab: Vocab, module: str) -> None:
    (one,) = named(vocab, f"{module}:short")
    with pytest.raises(ExternalError, match="their_objectives:short"):
        one.round_factors([])


@pytest.mark.parametrize("name", ["rdrop", "command:awk", "a:", ":b", "a:b c"])
def test_other_objectives_are_functions(name: str) -> None:
    with pytest.raises(ValueError, match="module:function"):
        Train(objectives=[name])
