"""The policy gradient: what is drawn from, advantages, clipped ratios, and the objective of rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.learners import HOPS, batch, rows, translators
from helpers.recorded import recorder
from loopmt.config import Baseline, Generate, MixEntry, Train
from loopmt.distributed import Processes
from loopmt.learn.captured import CapturedLearner
from loopmt.learn.learner import Learner
from loopmt.learn.objectives import DrawnColumns, PathRows, StageSettings, objectives_of
from loopmt.learn.reward import RewardObjective
from loopmt.model.policy_gradient import advantages, drawn_log_probs, policy_terms, restricted
from loopmt.model.transformer import NO_DROPOUT
from loopmt.path import LanguagePath
from loopmt.rng import torch_generator
from loopmt.text.batch import Batch, Rows
from loopmt.text.ragged import EOS, PAD, Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.beam_search import pick
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences
from loopmt.translate.scoring import decoder_states

WAYS = [
    Generate(top_k=0),
    Generate(top_k=4),
    Generate(top_k=0, top_p=0.8),
    Generate(temperature=1.3, top_k=6, top_p=0.7),
]
COLD = Generate(top_k=5)


@pytest.fixture(scope="session")
def vocab(tiny_run: Path) -> Vocab:
    return Vocab.load(tiny_run / "vocab")


def terse(vocab: Vocab) -> NetworkStack:
    """Small networks that end their sentences soon."""
    found = translators(vocab)
    found.layout.unpack(found.live)["output_bias"][..., EOS] += 4.0
    return found


# -- the distribution ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", WAYS, ids=repr)
def test_what_is_drawn_has_the_frequencies_of_the_restricted_distribution(how: Generate) -> None:
    logits = torch.randn(12, generator=torch_generator("cpu", "logits")) * 2
    drawn, _ = pick(logits.expand(40_000, -1), how, torch_generator("cpu", "draws"))
    expected = restricted(logits, how).softmax(-1)
    frequencies = torch.bincount(drawn, minlength=12) / len(drawn)
    assert not frequencies[expected == 0].any() and (expected == 0).any() == (how != WAYS[0])
    torch.testing.assert_close(frequencies, expected, atol=0.015, rtol=0)


def test_top_k_renormalizes_by_hand() -> None:
    logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 0.0, 3.0]])
    found = drawn_log_probs(logits, torch.tensor([2, -1]), Generate(temperature=0.5, top_k=2))
    assert found == pytest.approx(math.log(math.exp(2) / (math.exp(4) + math.exp(2)))), "the second is not drawn"
    outside = drawn_log_probs(logits, torch.tensor([1, 2]), Generate(temperature=0.5, top_k=2))
    assert outside == -math.inf


@pytest.mark.parametrize("how", WAYS, ids=repr)
def test_a_network_scores_what_it_drew_token_by_token(vocab: Vocab, how: Generate) -> None:
    found = terse(vocab)
    source = Sentences(vocab, "en", ids=Ragged.of([[20, 21, 22], [30], [40, 41]] * 4))
    limits = DecodeLimits(longest=5)
    (drawn,) = found.generate([HopInput(HOPS[0], source)], how, limits, ("key",))
    scores = found.drawn_scores(HOPS[0], source, drawn.sentences, how)
    expected = [_by_hand(found, *pair, how) for pair in zip(source.ids.rows(), drawn.sentences.ids.rows(), strict=True)]
    assert scores[drawn.ended] == pytest.approx(np.array(expected)[drawn.ended], abs=1e-4)
    assert np.isfinite(scores[drawn.ended]).all()


def _by_hand(found: NetworkStack, source: np.ndarray, target: np.ndarray, how: Generate) -> float:
    """The sum of the log-probabilities of single steps, each normalized over the tokens that may be drawn."""
    source_NBL = torch.tensor([[[*source.tolist(), EOS]]])
    target_NBL = torch.tensor([[[*target.tolist(), EOS]]])
    weights = found.layout.unpack(found.live[:1])
    states = decoder_states(weights, found.transformer, source_NBL, target_NBL, NO_DROPOUT)
    total = 0.0
    for logits, token in zip(found.transformer.logits(weights, states)[0, 0], target_NBL[0, 0], strict=True):
        ranked = sorted(enumerate((logits + found.logit_mask("fr")).tolist()), key=lambda one: -one[1])
        allowed = ranked[: how.top_k or len(ranked)]
        powers = {number: math.exp(value / how.temperature) for number, value in allowed if value > -math.inf}
        kept, reached = 0.0, sum(powers.values())
        inside: dict[int, float] = {}
        for number, power in powers.items():
            if kept < how.top_p * reached:
                inside[number] = power
            kept += power
        total += math.log(inside.get(int(token), 1e-30) / sum(inside.values()))
    return total


# -- the estimate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("none", [1.0, 4.0, 7.0, 2.0, 2.0, 5.0]),
        ("leave-one-out", [-4.5, 0.0, 4.5, 0.0, 0.0, 0.0]),
        ("group", [-math.sqrt(1.5), 0.0, math.sqrt(1.5), 0.0, 0.0, 0.0]),
    ],
)
def test_advantages_by_hand(baseline: Baseline, expected: list[float]) -> None:
    """Three samples of a sentence; two equal ones of another; one alone."""
    rewards, sentences = np.array([1.0, 4.0, 7.0, 2.0, 2.0, 5.0]), np.array([3, 3, 3, 1, 1, 0])
    assert advantages(rewards, sentences, baseline) == pytest.approx(expected)
    order = np.array([5, 2, 0, 4, 1, 3])
    assert advantages(rewards[order], sentences[order], baseline) == pytest.approx(np.array(expected)[order])


@pytest.mark.parametrize(
    ("ratio", "advantage", "clip", "loss", "slope"),
    [
        (1.1, 2.0, 0.2, -2.2, -2.2),
        (1.5, 2.0, 0.2, -2.4, 0.0),  # no more for what is already likelier
        (0.5, 2.0, 0.2, -1.0, -1.0),  # but back
        (0.5, -2.0, 0.2, 1.6, 0.0),
        (1.5, -2.0, 0.2, 3.0, 3.0),
        (1.5, 2.0, math.inf, -3.0, -3.0),
    ],
)
def test_clipped_ratios_by_hand(ratio: float, advantage: float, clip: float, loss: float, slope: float) -> None:
    now = torch.tensor(math.log(ratio) - 3.0, requires_grad=True)
    found = policy_terms(now, torch.tensor(-3.0), torch.tensor(advantage), clip, 0.0)
    (found_slope,) = torch.autograd.grad(found.losses, now)
    assert (found.losses.item(), found.ratios.item()) == pytest.approx((loss, ratio), rel=1e-5)
    assert found_slope.item() == pytest.approx(slope, rel=1e-5)


def test_the_divergence_of_later_updates_by_hand() -> None:
    """A ratio of e adds kl * 1 to the penalty."""
    found = policy_terms(torch.tensor(-1.0), torch.tensor(-2.0), torch.tensor(0.7), math.inf, 0.5)
    assert found.losses.item() == pytest.approx(-(0.7 - 0.5) * math.e)


def test_what_can_no_longer_be_drawn_has_no_gradient() -> None:
    now = torch.tensor(-math.inf, requires_grad=True)
    found = policy_terms(now, torch.tensor(-2.0), torch.tensor(0.7), 0.2, 0.5)
    (slope,) = torch.autograd.grad(found.losses, now)
    assert slope.item() == 0


# -- the objective -------------------------------------------------------------------------------------------------

PLAIN, LOOP = MixEntry(path="X>Y"), MixEntry(path="X>Y>X", reward="likelihood", credit="all", samples=2, kl=0.3)
UNCLIPPED = LOOP.model_copy(update={"ratio_clip": 0.0})


def objective(found: NetworkStack, entry: MixEntry = LOOP, how: Generate = COLD) -> RewardObjective:
    """Of three paths, the last two of which teach en>fr and fr>en what these drew."""
    drawn = [None, (HOPS[0], how), (HOPS[1], how)]
    (made,) = objectives_of(StageSettings(Train(), [PLAIN, entry, entry], found, drawn))
    assert isinstance(made, RewardObjective)
    return made


def rewarded(seed: int, path: int, found: NetworkStack, how: Generate = COLD, shift: float = 0.3) -> Rows:
    """Rows that learn by likelihood, and rows that a network drew, whose scores are shifted as by other weights."""
    plain = rows(seed, 8)
    source = Sentences(found.vocab, HOPS[path - 1].source, ids=plain.sources)
    (drawn,) = found.generate([HopInput(HOPS[path - 1], source)], how, DecodeLimits(longest=6), ("draw", seed))
    scores = found.drawn_scores(HOPS[path - 1], source, drawn.sentences, how)
    kept = np.flatnonzero(drawn.ended & np.isfinite(scores))
    assert len(kept) > 3
    generator = np.random.default_rng(seed)
    own = Rows.of(plain.sources, drawn.sentences.ids, np.full(8, path)).take(kept)
    shifted = scores[kept] + shift * generator.standard_normal(len(kept))
    own = replace(
        own, factors=generator.standard_normal(len(kept)).astype(np.float32), scores=shifted.astype(np.float32)
    )
    return Rows.join([replace(plain, paths=plain.paths * 0), own])


def gradient_by_hand(found: NetworkStack, given: Batch, entry: MixEntry, how: Generate) -> Tensor:
    flat = found.live.clone().requires_grad_()
    weights, source, target = found.layout.unpack(flat), *map(torch.from_numpy, (given.source_NBL, given.target_NBL))
    states = decoder_states(weights, found.transformer, source, target, NO_DROPOUT)
    losses = found.transformer.losses(weights, states, target, 0.1).sum(-1)
    masks = torch.stack([found.logit_mask(hop.target) for hop in HOPS])[:, None, None]
    logits = found.transformer.logits(weights, states)
    total = losses[torch.from_numpy(given.paths_NB == 0)].sum()
    log_q = restricted(logits + masks, how).log_softmax(-1).gather(-1, target[..., None])[..., 0]
    log_q = log_q.masked_fill(target == PAD, 0).sum(-1)
    for place in zip(*np.nonzero(given.paths_NB > 0), strict=True):
        gap = log_q[place] - float(given.scores_NB[place])
        advantage = float(given.factors_NB[place]) - (entry.kl or 0.0) * gap.item()
        ratio = gap.exp()
        if not (abs(ratio.item() - 1) > (entry.ratio_clip or math.inf) and (ratio.item() > 1) == (advantage > 0)):
            total = total - advantage * ratio
    (gradient,) = torch.autograd.grad(total, flat)
    return gradient


@pytest.mark.parametrize("entry", [LOOP, UNCLIPPED], ids=["clipped", "unclipped"])
@pytest.mark.parametrize("how", [COLD, Generate(top_k=0)], ids=["top-k", "all"])
def test_rewarded_rows_have_the_policy_gradient_in_every_learner(vocab: Vocab, entry: MixEntry, how: Generate) -> None:
    """Also with dropout: it changes neither ratios nor gradients of rewarded rows. The other rows are none then."""
    found = terse(vocab)
    made = [rewarded(number, number, found, how) for number in (1, 2)]
    given = batch(*made)
    expected = gradient_by_hand(found, given, entry, how)
    plain = Train(label_smoothing=0.1, dropout=0.0)
    for one in learners(vocab, plain, entry, how):
        one.add(given)
        torch.testing.assert_close(one.gradient, expected, rtol=1e-3, atol=1e-4)
        assert one.tokens.tolist() == given.target_tokens.tolist(), "rewarded rows count with their target tokens"
        ratios, counted = one.tally.measured[0], one.tally.measured_rows[0]
        assert counted[:, 0].sum() == 0 and counted.sum() == (given.paths_NB > 0).sum()
        assert 0.5 < ratios.sum() / counted.sum() < 2
    alone = batch(*(one.take(np.flatnonzero(one.paths > 0)) for one in made))
    expected = gradient_by_hand(found, alone, entry, how)
    for one in learners(vocab, Train(label_smoothing=0.1, dropout=0.4), entry, how):
        one.add(alone)
        torch.testing.assert_close(one.gradient, expected, rtol=1e-3, atol=1e-4)


def learners(vocab: Vocab, train: Train, entry: MixEntry, how: Generate) -> Sequence[Learner]:
    """An eager learner, and one that replays recorded work."""
    eager, captured = terse(vocab), terse(vocab)
    return [
        Learner(eager, train, 3, Processes(), 1, [objective(eager, entry, how)]),
        CapturedLearner(captured, train, 3, Processes(), 1, [objective(captured, entry, how)], recorder),
    ]


def test_captured_updates_are_eager_updates(vocab: Vocab) -> None:
    train = Train(dropout=0.3, learning_rate=0.01, warmup=1, adam=(0.9, 0.98, 1e-3))
    eager, captured = learners(vocab, train, LOOP, COLD)
    for number in range(1, 4):
        given = batch(*(rewarded(number, path, terse(vocab)) for path in (1, 2)))
        for one in (eager, captured):
            torch.manual_seed(number)
            one.update(given, number, 0.01)
    pairs = ((eager.weights, captured.weights), (eager.tally.measured, captured.tally.measured))
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_a_batch_have_the_same_rewards(vocab: Vocab, parts: int) -> None:
    found = terse(vocab)
    given = batch(*(rewarded(number, number, found) for number in (1, 2)))
    whole, cut = (Learner(terse(vocab), Train(), 3, Processes(), 1, [objective(found)]) for _ in range(2))
    whole.add(given)
    for part in given.parts(parts):
        cut.splitting.add(part, cut.add)
    torch.testing.assert_close(cut.gradient, whole.gradient, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(cut.tally.measured, whole.tally.measured)


def test_factors_of_a_round(vocab: Vocab) -> None:
    """Advantages of rewarded rows; the factor of the likelihood for the last hop of their path; 1 elsewhere."""
    entry = LOOP.model_copy(update={"likelihood": 0.25})
    one, scores, alone = Ragged.of([[20], [21]]), np.zeros(2), np.full(2, -1)
    path = LanguagePath.parse("en>fr>en")
    drawn = DrawnColumns(np.array([1.0, 3.0]), np.array([7, 7]))
    given = [
        PathRows(LanguagePath.parse("en>fr"), PLAIN, one, one, alone, None, scores),
        PathRows(path, entry, one, one, alone, one, scores),
        PathRows(path, entry, one, one, alone, one, scores, drawn),
    ]
    factors = objective(terse(vocab), entry).round_factors(given)
    assert [found.tolist() for found in factors] == [[1, 1], [0.25, 0.25], [-2, 2]]


def test_without_credit_there_is_no_objective(vocab: Vocab) -> None:
    entry = LOOP.model_copy(update={"credit": "last"})
    assert objectives_of(StageSettings(Train(), [PLAIN, entry], terse(vocab), [None, None])) == []
