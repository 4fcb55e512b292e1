"""Objectives: their factors and terms reach the gradient in every learner; a stage has those that it turns on."""

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
from data.objectives.r_drop import RDrop
from helpers.learners import HOPS, batch, rows, translators
from helpers.recorded import recorder
from loopmt.config import MixEntry, Train
from loopmt.distributed import Processes
from loopmt.learn.captured import CapturedLearner
from loopmt.learn.learner import Learner
from loopmt.learn.logmeanexp import LogMeanExp
from loopmt.learn.objectives import OBJECTIVES, Objective, StageSettings, objectives_of
from loopmt.model.transformer import NO_DROPOUT, Dropout
from loopmt.path import Hop
from loopmt.text.batch import Batch, Rows
from loopmt.text.ragged import PAD
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack
from loopmt.translate.scoring import decoder_states, losses_with

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
    """An eager one, and one that replays what it recorded."""
    eager = Learner(found(), train, 3, Processes(), unit, objectives)
    return [eager, CapturedLearner(found(), train, 3, Processes(), unit, objectives, recorder)]


def losses_of(found: NetworkStack, weights: Tensor, given: Batch) -> Tensor:
    source, target = torch.from_numpy(given.source_NBL), torch.from_numpy(given.target_NBL)
    return losses_with(found.layout.unpack(weights), found.transformer, source, target, 0.1, NO_DROPOUT)[0]


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
    """The gradient of the published loss."""
    source, target = torch.from_numpy(given.source_NBL), torch.from_numpy(given.target_NBL)
    views, transformer = found.layout.unpack(weights), found.transformer
    passes = [decoder_states(views, transformer, source, target, Dropout(0.3)) for _ in range(2)]
    one, other = (transformer.logits(views, states).log_softmax(-1) for states in passes)
    both = [F.kl_div(*pair, reduction="none", log_target=True) for pair in ((one, other), (other, one))]
    divergence = torch.stack(both).sum(-1)[:, target != PAD].sum() / 2
    crossed = torch.stack([transformer.losses(views, states, target, 0.1).sum() for states in passes]).mean()
    (gradient,) = torch.autograd.grad(crossed + alpha * divergence, weights)
    return gradient


@pytest.mark.parametrize("hops", [HOPS, HOPS[:1]])
def test_r_drop_has_the_gradient_of_the_published_loss(vocab: Vocab, hops: tuple[Hop, ...]) -> None:
    given = batch(*(rows(number) for number in range(len(hops))))
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
def test_neither_parts_nor_halves_change_what_objectives_add(vocab: Vocab, parts: int, halved: bool) -> None:
    given = batch(weighted(rows(1)), rows(2))
    whole, cut = (Learner(translators(vocab), Train(), 3, Processes(), 1, [Confidence(0.5)]) for _ in range(2))
    whole.add(given)
    for part in given.parts(parts):
        cut.splitting.halved |= {part.shape} if halved else set()
        cut.splitting.add(part, cut.add)
    torch.testing.assert_close(cut.gradient, whole.gradient, rtol=1e-4, atol=1e-5)


# -- the registry --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_turns_an_objective_on_is_in_the_schema(name: str) -> None:
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
