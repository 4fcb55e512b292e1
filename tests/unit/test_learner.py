"""Updates: independent of how a batch is cut, of the other networks, and of what is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.facts import missing
from helpers.learners import CPU, HOPS, batch, row_losses, rows, translators
from loopmt.config import Train
from loopmt.distributed import Processes
from loopmt.errors import DivergedError
from loopmt.learn.learner import Learner, LossTally
from loopmt.learn.logmeanexp import LogMeanExp, logmeanexp_factors
from loopmt.model.backend import precision
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.batch import Rows
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack, stack_of
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, assemble
from loopmt.workflow.train import TrainOptions, prepare_run, train

ASK = Callable[..., TrainOptions]


@pytest.fixture(scope="session")
def vocab(tiny_run: Path) -> Vocab:
    return Vocab.load(tiny_run / "vocab")


def learner(found: NetworkStack, unit: int = 1, **settings: Any) -> Learner:
    # Keys of attention have a bias without effect: its gradient is noise, which a small epsilon would make into steps.
    objectives = [LogMeanExp(torch.ones(3, dtype=torch.bool))] if unit > 1 else []
    values = {"learning_rate": 0.01, "warmup": 1, "clip": 0.0, "adam": (0.9, 0.98, 1e-3), **settings}
    return Learner(found, Train.model_validate(values), 3, Processes(), unit, objectives)


# -- one update ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1, 3])
@pytest.mark.parametrize("parts", [2, 3, 4, 5, 8, 16])
def test_parts_do_not_change_an_update(vocab: Vocab, unit: int, parts: int) -> None:
    """Also where they do not divide the rows, and where there are more parts than rows."""
    group = unit if unit > 1 else 0
    both = batch(rows(1, group=group), rows(2, group=group))
    results = []
    for count in (1, parts):
        found = translators(vocab)
        one = learner(found, unit, accumulate=count, clip=1.0)
        one.update(both, 1, 0.01)
        results.append((found.live, one.tally.loss, one.tally.tokens, one.tally.norms))
    for whole, cut in zip(*results, strict=True):
        assert torch.allclose(whole, cut, atol=1e-6)


def test_an_update_is_adam_on_the_mean_over_target_tokens(vocab: Vocab) -> None:
    found = translators(vocab)
    start, given = found.live.clone(), batch(rows(1), rows(2))
    one = learner(found, weight_decay=0.1, label_smoothing=0.1)
    expected = [start[row : row + 1].clone().requires_grad_() for row in range(2)]
    for row, weights in enumerate(expected):
        optimizer = torch.optim.AdamW([weights], 0.01, (0.9, 0.98), 1e-3, weight_decay=0.1)
        for _ in range(3):
            losses, tokens = row_losses(found, weights, given, slice(row, row + 1))
            (weights.grad,) = torch.autograd.grad(losses.sum() / tokens.sum(), weights)
            optimizer.step()
    for number in range(3):
        one.update(given, number + 1, 0.01)
    assert torch.allclose(found.live, torch.cat(expected).detach(), atol=2e-5)


def test_gradients_of_a_failed_attempt_are_discarded(vocab: Vocab) -> None:
    clean, other = translators(vocab), translators(vocab)
    for found, left in ((clean, 0.0), (other, 7.0)):
        one = learner(found, accumulate=2)
        for place in found.layout.unpack(one.gradient).values():
            place.fill_(left)
        one.update(batch(rows(1), rows(2)), 1, 0.01)
    assert torch.equal(clean.live, other.live)


def test_every_network_is_clipped_separately(vocab: Vocab) -> None:
    found = translators(vocab)
    one = learner(found, clip=0.1, adam=(0.0, 0.0, 1e9))  # with this epsilon a move is the gradient over 1e9
    start = found.live.clone()
    with torch.no_grad():
        found.layout.unpack(found.live)["output_bias"][1] *= 50
    one.update(batch(rows(1), rows(2)), 1, 1e9)
    moved = (found.live - start).norm(dim=1)
    assert one.tally.norms.min() > 0.1
    assert moved.tolist() == pytest.approx([0.1, 0.1], rel=1e-3)


def test_networks_are_independent(vocab: Vocab) -> None:
    """Training two in a stack is training each alone."""
    lessons = [(rows(number), rows(100 + number)) for number in range(4)]
    together = translators(vocab)
    stack = learner(together, clip=1.0)
    for number, (one, other) in enumerate(lessons, 1):
        stack.update(batch(one, other), number, 0.01)
    for row, hop in enumerate(HOPS):
        alone = translators(vocab, (hop,))
        single = learner(alone, clip=1.0)
        for number, lesson in enumerate(lessons, 1):
            single.update(batch(lesson[row]), number, 0.01)
        assert torch.allclose(alone.live[0], together.live[row], atol=1e-5)
        assert torch.allclose(single.tally.loss[0], stack.tally.loss[row], atol=1e-4)


def test_a_network_without_rows_stays_as_it_is(vocab: Vocab) -> None:
    found = translators(vocab)
    start = found.live.clone()
    one = learner(found)
    one.update(batch(rows(1), Rows.empty()), 1, 0.01)
    assert torch.equal(found.live[1], start[1])
    assert not torch.equal(found.live[0], start[0])
    assert one.steps.tolist() == [1, 0]
    assert one.tally.updates.tolist() == [1, 0]
    assert one.tally.bad_update.tolist() == [-1, -1]


def test_the_tally_counts_losses_by_path(vocab: Vocab) -> None:
    found = translators(vocab)
    given = batch(rows(1), rows(2))
    losses, tokens = row_losses(found, found.live, given)
    one = learner(found)
    one.update(given, 1, 0.01)
    for path in range(3):
        mine = torch.from_numpy(given.paths_NB) == path
        assert torch.allclose(one.tally.loss[:, path].float(), (losses * mine).sum(1), rtol=1e-5)
        assert torch.equal(one.tally.tokens[:, path].long(), (tokens * mine).sum(1))
    one.tally.clear()
    assert isinstance(one.tally, LossTally)
    assert one.tally.loss.abs().sum() + one.tally.tokens.sum() + one.tally.norms.sum() + one.tally.updates.sum() == 0


def test_the_average_follows_the_weights(vocab: Vocab) -> None:
    found = translators(vocab)
    found.copy("ema")
    found.copy("frozen")
    start = found.live.clone()
    learner(found, ema=0.9).update(batch(rows(1), rows(2)), 1, 0.01)
    assert torch.allclose(found.copies["ema"], 0.9 * start + 0.1 * found.live)
    assert torch.equal(found.copies["frozen"], start)


def test_an_optimizer_resumes(vocab: Vocab) -> None:
    found = translators(vocab)
    found.copy("ema")
    one = learner(found)
    one.update(batch(rows(1), rows(2)), 1, 0.01)
    weights = {name: tensor.clone() for name, tensor in found.named().items()}
    tensors = {name: tensor.clone() for name, tensor in one.tensors().items()}
    other = translators(vocab)
    other.copy("ema")
    again = learner(other)
    other.load(weights)
    again.load(tensors)
    for each in (one, again):
        each.update(batch(rows(3), rows(4)), 2, 0.01)
    assert torch.equal(found.live, other.live)
    assert torch.equal(found.copies["ema"], other.copies["ema"])


def test_dropout_is_drawn_from_the_seed(vocab: Vocab) -> None:
    losses = []
    for rate, seed in ((0.0, 1), (0.3, 1), (0.3, 1), (0.3, 2)):
        one = learner(translators(vocab, dropout=0.3), dropout=rate)
        torch.manual_seed(seed)
        one.update(batch(rows(1), rows(2)), 1, 0.01)
        losses.append(float(one.tally.loss.sum()))
    assert losses[1] == losses[2]
    assert len({losses[0], losses[1], losses[3]}) == 3


# -- what is not finite ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_network_with_a_bad_gradient_does_not_change_while_others_do(vocab: Vocab, poison: float) -> None:
    found = translators(vocab)
    with torch.no_grad():
        found.layout.unpack(found.live)["encoder.0.ffn.up.weight"][1, 0, 0] = poison
    start = found.live.clone()
    one = learner(found, clip=1.0)
    for number in (5, 6):
        one.update(batch(rows(1), rows(2)), number, 0.01)
    assert torch.equal(found.live[1].nan_to_num(), start[1].nan_to_num())
    assert one.first[1].abs().sum() == one.second[1].abs().sum() == one.steps[1] == 0
    assert one.steps[0] == 2
    assert found.live[0].isfinite().all()
    assert not torch.equal(found.live[0], start[0])
    assert one.tally.bad_update.tolist() == [-1, 5]


@pytest.mark.parametrize(("origin", "rate", "warmup"), [("", "0.01", 20), ('from = "vanilla"\n', "0.001", 4)])
def test_divergence_stops_a_stage_with_update_path_and_settings(
    ask_for: ASK, origin: str, rate: str, warmup: int
) -> None:
    request = ask_for(
        f'[[stage]]\nname = "doomed"\n{origin}mix = ["X>Y"]\nupdates = 24\ntrain = {{ log_every = 8 }}',
    )
    run, _ = prepare_run(request, Silent())
    experiment = run.experiment()
    context = TrainingContext.open(run, CPU, Processes())
    folder = run.stage("doomed")
    trainer = assemble(context, experiment.stage("doomed"), folder, StopSignal(), lambda record: None)
    trainer._resume()
    hop = Hop("fr", "es")
    with torch.no_grad():
        stack_of(trainer.translators).live[trainer.translators.network(hop), 7] = math.inf
    with pytest.raises(DivergedError) as caught:
        while True:
            started = trainer.progress.update
            for number, one in enumerate(trainer._batches(), 1):
                trainer._learn(one, started + number)
            trainer._after_round(started)
    facts = ('"doomed"', "update 1", "path fr>es", f"learning_rate (now {rate})", f"warmup (now {warmup})", "float32")
    assert not missing(caught.value, *facts)
    assert folder.updates() == [0], "nothing was saved since"


# -- groups ------------------------------------------------------------------------------------------------------


def test_group_weights_are_the_gradient_of_the_log_mean_likelihood() -> None:
    groups = torch.tensor([[0, 0, 0, 1, 1, -1, -1, 2], [-1, 4, 4, 4, 4, 4, 5, 5]])
    losses = (torch.rand(2, 8, generator=torch.Generator().manual_seed(1)) * 6).requires_grad_()
    truth = torch.zeros(())
    for row in range(2):
        for group in groups[row].unique().tolist():  # type: ignore[no-untyped-call]
            mine = losses[row][groups[row] == group]
            if group < 0:
                truth = truth + mine.sum()
            else:
                truth = truth - len(mine) * (torch.logsumexp(-mine, 0) - math.log(len(mine)))
    (expected,) = torch.autograd.grad(truth, losses)
    assert torch.allclose(logmeanexp_factors(losses.detach(), groups), expected, atol=1e-5)


def test_a_group_learns_most_from_its_most_likely_member(vocab: Vocab) -> None:
    """The gradient of an update with groups is that of the true loss, through the network."""
    found = translators(vocab, HOPS[:1])
    given = batch(rows(1, group=3))
    one = learner(found, 3, label_smoothing=0.0)
    one.add(given)
    weights = found.live.clone().requires_grad_()
    losses, _ = row_losses(found, weights, given, smoothing=0.0)
    groups = torch.from_numpy(given.groups_NB)[0]
    members = [losses[0][groups == group] for group in range(4)]
    truth = sum((-3 * (torch.logsumexp(-mine, 0) - math.log(3)) for mine in members), torch.zeros(()))
    (expected,) = torch.autograd.grad(truth, weights)
    assert torch.allclose(one.gradient, expected, atol=1e-4)


# -- precision ---------------------------------------------------------------------------------------------------


def test_precision() -> None:
    assert precision(Train(), CPU) == torch.float32, "never bfloat16 by itself on a CPU"
    assert precision(Train(), torch.device("cuda")) == torch.bfloat16
    assert precision(Train(precision="float32"), torch.device("cuda")) == torch.float32


# -- golden ------------------------------------------------------------------------------------------------------

GOLDEN = [6.5304, 6.4596, 6.31154, 6.09473, 5.89601]


def test_golden_losses(ask_for: ASK) -> None:
    """The first losses of a seeded run: a refactor that moves them changed what is computed."""
    request = ask_for(
        '[[stage]]\nname = "gold"\nmix = ["X>Y"]\nupdates = 5\n'
        "train = { round = 1, log_every = 1, validate_every = 100, label_smoothing = 0.1 }",
        parent=False,
    )
    assert train(request, Silent())
    assert request.run is not None
    losses = [record["loss"] for record in Run(request.run).stage("gold").records() if record["kind"] == "train"]
    means: list[float] = [sum(one.values()) / len(one) for one in losses]
    assert means == pytest.approx(GOLDEN, abs=1e-4)
