"""Consistency between routes: rows of one real sentence meet in a batch, and their predictions are compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from helpers.learners import HOPS, batch, rows, translators
from helpers.recorded import recorder
from helpers.stages import ASK, assembled, records, stage
from loopmt.config import Train
from loopmt.distributed import Processes
from loopmt.errors import ConfigError
from loopmt.learn.captured import CapturedLearner
from loopmt.learn.consistency import RouteConsistency, next_of_group
from loopmt.learn.learner import Learner
from loopmt.model.transformer import NO_DROPOUT
from loopmt.progress import Silent
from loopmt.text.batch import Batch, Rows
from loopmt.text.ragged import PAD
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack
from loopmt.translate.scoring import decoder_states
from loopmt.workflow.train import train

GREEDY = 'generate = { how = "greedy" }, same_rows = true, consistency = 1.5'
ROUTES = f'["X>Y", {{ path = "X>Y>X", {GREEDY} }}, {{ path = "X>Y>Z>X", {GREEDY} }}]'


# -- the term ------------------------------------------------------------------------------------------------------


def test_every_row_is_compared_with_the_next_of_its_group() -> None:
    groups = torch.tensor([[-1, 4, 7, 4, -1, 4], [3, 3, -1, -1, 9, 5]])
    assert next_of_group(groups).tolist() == [[0, 3, 2, 5, 4, 1], [1, 0, 2, 3, 4, 5]]


def paired(seed: int) -> Rows:
    """Targets with one, two or three sources each, of paths 0 to 2."""
    given = rows(seed, 12)
    groups = np.array([0, 0, 1, 1, 1, 2, 3, 3, -1, -1, 4, 4])
    targets = given.targets.take(np.unique(groups, return_index=True)[1][groups + 1])
    return Rows.of(given.sources, targets, np.array([0, 1, 0, 1, 2, 0, 1, 2, 0, 1, 2, 2]), groups)


def by_hand(found: NetworkStack, given: Batch, weights: Sequence[float]) -> torch.Tensor:
    """The gradient of the losses and of the mean of both divergences of each row and the next of its sentence."""
    flat = found.live.clone().requires_grad_()
    source, target = torch.from_numpy(given.source_NBL), torch.from_numpy(given.target_NBL)
    views, transformer = found.layout.unpack(flat), found.transformer
    states = decoder_states(views, transformer, source, target, NO_DROPOUT)
    total = transformer.losses(views, states, target, 0.1).sum()
    log_probs = transformer.logits(views, states).log_softmax(-1)
    for network, (groups, paths) in enumerate(zip(given.groups_NB, given.paths_NB, strict=True)):
        for group in set(groups.tolist()) - {-1}:
            own = [row for row in np.flatnonzero(groups == group).tolist() if weights[paths[row]]]
            for row, other in zip(own, [*own[1:], own[0]], strict=False) if len(own) > 1 else ():
                real = target[network, row] != PAD
                one, two = (log_probs[network, place][real] for place in (row, other))
                both = [F.kl_div(*pair, reduction="sum", log_target=True) for pair in ((one, two), (two, one))]
                total = total + weights[paths[row]] * sum(both) / 2
    (gradient,) = torch.autograd.grad(total, flat)
    return gradient


@pytest.mark.parametrize("weights", [(1.5, 0.5, 2.0), (0.0, 1.0, 1.0)])
def test_the_gradient_is_that_of_both_divergences_in_every_learner(
    tiny_run: Path, weights: tuple[float, float, float]
) -> None:
    vocab = Vocab.load(tiny_run / "vocab")
    given = batch(paired(1), paired(2))
    expected = by_hand(translators(vocab, HOPS), given, weights)
    objective = RouteConsistency(torch.tensor(weights))
    plain = Train(label_smoothing=0.1, dropout=0.0)
    for one in (
        Learner(translators(vocab), plain, 3, Processes(), 3, [objective]),
        CapturedLearner(translators(vocab), plain, 3, Processes(), 3, [objective], recorder),
    ):
        one.add(given)
        torch.testing.assert_close(one.gradient, expected, rtol=1e-3, atol=1e-4)
    parts = Learner(translators(vocab), plain, 3, Processes(), 3, [objective])
    for part in given.parts(3, 3):
        parts.add(part)
    torch.testing.assert_close(parts.gradient, expected, rtol=1e-3, atol=1e-4)


# -- in a stage ----------------------------------------------------------------------------------------------------


def test_direct_and_pivot_sources_of_a_sentence_meet_in_a_batch(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage(ROUTES, tokens=512), "guards.filters=[]"))
    named = {route.number: str(route) for route in trainer.routes}
    met: set[tuple[str, ...]] = set()
    for given in trainer._batches():
        for groups, paths, targets in zip(given.groups_NB, given.paths_NB, given.target_NBL, strict=True):
            for group in set(groups[groups >= 0].tolist()):
                own = np.flatnonzero(groups == group)
                assert len({tuple(row) for row in targets[own].tolist()}) == 1, "one real sentence"
                met.add(tuple(sorted(named[path] for path in paths[own].tolist())))
    taught = [{path.rsplit(">", 2)[1] for path in paths} for paths in met]
    assert all(len(own) == 1 for own in taught), "what they teach starts in the same language, too"
    assert {("en>es>en", "en>fr>es>en"), ("en>es>fr>en", "en>fr>en"), ("fr>en>es>fr", "fr>es>fr")} <= met


def test_predictions_of_routes_come_closer(ask_for: ASK) -> None:
    options = {"updates": 12, "tokens": 512, "round": 4, "log_every": 4, "validate_every": 12, "learning_rate": 3e-3}
    request = ask_for(stage(ROUTES, **options), "guards.filters=[]")  # type: ignore[arg-type]
    assert train(request, Silent())
    measured = [record["measured"]["route_divergence"] for record in records(request)]
    first, last = (np.mean(list(one.values())) for one in (measured[0], measured[-1]))
    assert all("X" not in name and name.count(">") > 1 for name in measured[0]) and 0 < last < first


@pytest.mark.parametrize(
    ("mix", "facts"),
    [
        ('["X>Y", { path = "X>Y>X", consistency = 1.0 }]', ["X>Y>X", "same_rows"]),
        ('["X>Y", { path = "en>fr>en", consistency = 1.0, same_rows = true }]', ["samples = 2", "X>Z>Y>X"]),
        (
            '["X>Y", { path = "X>Y>X", samples = 2, consistency = 1.0, same_rows = true, combine = "logmeanexp" }]',
            ["logmeanexp"],
        ),
        ('["X>Y", { path = "X>Y<X", samples = 2, consistency = 1.0, same_rows = true }]', ["X>Y<X", "real targets"]),
    ],
)
def test_what_cannot_be_compared_is_refused(ask_for: ASK, mix: str, facts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        assembled(ask_for(stage(mix)))
    assert all(fact in str(error.value) for fact in facts), str(error.value)


def test_targets_must_have_the_same_subwords(ask_for: ASK) -> None:
    with pytest.raises(ConfigError, match="subword_dropout"):
        assembled(ask_for(stage(ROUTES, subword_dropout=0.1)))
