"""Greedy, sampling and beam, against exhaustive search and against the network's own probabilities."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.config import Generate, Model
from loopmt.model.transformer import Transformer
from loopmt.model.weights import Layout
from loopmt.text.ragged import EOS, PAD, UNK
from loopmt.translate.decoder import Decoder, generate_each, generate_nbest
from loopmt.translate.protocol import DecodeLimits

SIZE = 12
SILENT = [PAD, UNK, 3, 4]
TEXT = [token for token in range(SIZE) if token not in (*SILENT, EOS)]
GREEDY = Generate(how="greedy")


@cache
def decoder() -> Decoder:
    """A half-trained network that generates most words of the source in any order, with uncertainty."""
    settings = Model(layers=1, width=16, feed_forward=24, heads=2, dropout=0.0)
    layout = Layout(settings, SIZE, SIZE, True)
    flat = layout.initial((1, "speaker")).requires_grad_()
    logit_mask = torch.zeros(SIZE)
    logit_mask[SILENT] = -math.inf
    one = Decoder(Transformer(settings, True), layout, flat, logit_mask, torch.float32)
    optimizer = torch.optim.Adam([flat], 0.02)
    for step in range(60):
        (flat.grad,) = torch.autograd.grad(-_likelihood(one, *_lesson(step)), flat)
        optimizer.step()
    return replace(one, flat=flat.detach())


def _lesson(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    length = step % 6 + 2
    words = torch.randint(5, SIZE, (32, length), generator=generator)
    order = torch.rand(32, length, generator=generator).argsort(1)
    said = words.gather(1, order)[:, : length - step % 2]
    return F.pad(words, (0, 1), value=EOS), F.pad(said, (0, 1), value=EOS)


def _likelihood(one: Decoder, source: Tensor, target: Tensor) -> Tensor:
    weights = one.layout.unpack(one.flat)
    memory = one.transformer.memory(weights, one.transformer.encode(weights, source[None]), source[None])
    states = one.transformer.decode(weights, memory, F.pad(target[:, :-1], (1, 0), value=PAD)[None])
    logprobs = one.transformer.logits(weights, states)[0].log_softmax(-1)
    return logprobs.gather(-1, target[..., None]).mean()


def sources(count: int, longest: int = 9, seed: int = 2) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(5, SIZE, (length,), generator=generator).tolist() for length in lengths]


@torch.no_grad()
def scores(one: Decoder, source: list[int], targets: Tensor) -> Tensor:
    """Log-probability of every prefix's next token with teacher forcing: (targets, length)."""
    weights = one.layout.unpack(one.flat)
    table = torch.tensor([[*source, EOS]])[None].expand(1, len(targets), -1)
    memory = one.transformer.memory(weights, one.transformer.encode(weights, table), table)
    states = one.transformer.decode(weights, memory, F.pad(targets[:, :-1], (1, 0), value=PAD)[None])
    logprobs = (one.transformer.logits(weights, states)[0] + one.logit_mask).log_softmax(-1)
    return logprobs.gather(-1, targets[..., None])[..., 0]


def score(one: Decoder, source: list[int], ids: list[int], ended: bool = True) -> float:
    targets = torch.tensor([[*ids, EOS] if ended else ids])
    return float(scores(one, source, targets).sum())


def everything(one: Decoder, source: list[int], length: int) -> dict[tuple[int, ...], float]:
    """Log-probability of every translation of at most `length` tokens including EOS."""
    found = {}
    for size in range(length):
        targets = torch.tensor([[*ids, EOS] for ids in itertools.product(TEXT, repeat=size)])
        for ids, value in zip(targets.tolist(), scores(one, source, targets).sum(1).tolist(), strict=True):
            found[tuple(ids[:-1])] = value
    return found


# -- greedy ------------------------------------------------------------------------------------------------------


def test_greedy_takes_the_most_likely_token() -> None:
    one, limits = decoder(), DecodeLimits(growth=0, extra=6)
    for source, output in zip(sources(20), generate_each(one, sources(20), GREEDY, limits), strict=True):
        ids = [*output.ids, EOS] if output.ended else output.ids
        given = scores(one, source, torch.tensor([ids]))[0]
        for place, value in enumerate(given.tolist()):
            rivals = torch.tensor([[*ids[:place], token] for token in (EOS, *TEXT)])
            assert value == pytest.approx(float(scores(one, source, rivals)[:, -1].max()), abs=1e-5)
        assert output.score == pytest.approx(float(given.sum()), abs=1e-4)


def test_a_beam_of_one_is_greedy() -> None:
    one, limits = decoder(), DecodeLimits()
    assert generate_each(one, sources(30), Generate(how="beam", beam=1), limits) == generate_each(
        one, sources(30), GREEDY, limits
    )


# -- beam --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("source", sources(3), ids=str)
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all(penalty: float, source: list[int]) -> None:
    one, length = decoder(), 4
    how = Generate(how="beam", beam=len(TEXT) ** (length - 1), length_penalty=penalty)
    (found,) = generate_nbest(one, [source], how, DecodeLimits(growth=0, extra=length), nbest=20)
    truth = everything(one, source, length)
    ranked = sorted(truth, key=lambda ids: -truth[ids] / (len(ids) + 1) ** penalty)
    assert [tuple(output.ids) for output in found] == ranked[:20]
    assert [output.score for output in found] == pytest.approx([truth[ids] for ids in ranked[:20]], abs=1e-4)
    assert all(output.ended for output in found)


def test_a_wider_beam_finds_better_scores() -> None:
    one, limits = decoder(), DecodeLimits(growth=0, extra=12)
    means = []
    for beam in (1, 4, 16):
        outputs = generate_each(one, sources(40), Generate(how="beam", beam=beam, length_penalty=0), limits)
        means.append(sum(output.score for output in outputs) / len(outputs))
    assert means[0] < means[1] < means[2]


def test_a_larger_length_penalty_makes_longer_translations() -> None:
    one, limits = decoder(), DecodeLimits(growth=0, extra=12)
    lengths = [
        sum(len(output.ids) for output in generate_each(one, sources(40), how, limits))
        for how in (Generate(how="beam", beam=6, length_penalty=penalty) for penalty in (0.0, 1.0, 3.0))
    ]
    assert lengths[0] < lengths[1] < lengths[2]


def test_the_n_best_are_sorted_and_differ() -> None:
    how = Generate(how="beam", beam=6, length_penalty=1.0)
    for source, found in zip(
        sources(20), generate_nbest(decoder(), sources(20), how, DecodeLimits(), nbest=5), strict=True
    ):
        values = [output.score / (len(output.ids) + 1) for output in found if output.ended]
        assert values == sorted(values, reverse=True)
        assert len({tuple(output.ids) for output in found}) == len(found) <= 5
        assert [output.score for output in found] == pytest.approx(
            [score(decoder(), source, output.ids, output.ended) for output in found], abs=1e-3
        )


# -- sampling ----------------------------------------------------------------------------------------------------


def first_tokens(how: Generate, count: int = 4000) -> tuple[Tensor, Tensor]:
    """Counts of the first token of many samples, and the network's probabilities for it."""
    one, source = decoder(), sources(1)[0]
    generator = torch.Generator().manual_seed(7)
    outputs = generate_each(one, [source] * count, how, DecodeLimits(growth=0, extra=1), generator)
    counts = torch.bincount(torch.tensor([(output.ids or [EOS])[0] for output in outputs]), minlength=SIZE)
    probabilities = scores(one, source, torch.arange(SIZE)[:, None])[:, 0].exp()
    return counts, probabilities


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_samples_follow_the_network(temperature: float) -> None:
    """Chi-square with 7 degrees of freedom, well under its 99.99% point."""
    counts, probabilities = first_tokens(Generate(how="sample", temperature=temperature, top_k=0))
    expected = probabilities ** (1 / temperature)
    expected = expected / expected.sum() * counts.sum()
    likely = expected > 0
    assert counts[~likely].sum() == 0
    assert float(((counts - expected)[likely] ** 2 / expected[likely]).sum()) < 29.9


def test_top_k_and_top_p_restrict() -> None:
    _, probabilities = first_tokens(Generate(how="greedy"), 1)
    order = probabilities.argsort(descending=True).tolist()
    counts, _ = first_tokens(Generate(how="sample", top_k=3, temperature=1.0), 1000)
    assert set(counts.nonzero()[:, 0].tolist()) == set(order[:3])
    share = (counts[order[:3]] / counts.sum() - probabilities[order[:3]] / probabilities[order[:3]].sum()).abs()
    assert share.max() < 0.05
    mass = float(probabilities[order[:2]].sum()) + 1e-4  # two are not quite enough, so the third is let in
    counts, _ = first_tokens(Generate(how="sample", top_p=mass, temperature=1.0, top_k=0), 1000)
    assert set(counts.nonzero()[:, 0].tolist()) == set(order[:3])
    counts, _ = first_tokens(Generate(how="sample", top_p=1e-6, temperature=1.0, top_k=0), 50)
    assert counts[order[0]] == 50


def test_samples_repeat_with_their_generator_and_differ_without() -> None:
    how, texts = Generate(how="sample", temperature=1.0, top_k=0), sources(30)
    once, again, other = (
        generate_each(decoder(), texts, how, DecodeLimits(), torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert once == again
    assert once != other


def test_the_score_of_a_sample_is_its_unrestricted_log_probability() -> None:
    """It does not depend on top-k, top-p and temperature."""
    one, texts = decoder(), sources(10)
    how = Generate(how="sample", temperature=0.7, top_k=4)
    for source, output in zip(
        texts, generate_each(one, texts, how, DecodeLimits(), torch.Generator().manual_seed(1)), strict=True
    ):
        assert output.score == pytest.approx(score(one, source, output.ids, output.ended), abs=1e-3)


# -- all of them -------------------------------------------------------------------------------------------------

ALL = [GREEDY, Generate(how="beam", beam=4), Generate(how="beam", beam=3, length_penalty=0.0)]


@pytest.mark.parametrize("how", ALL, ids=lambda how: f"{how.how}{how.beam}")
def test_a_translation_does_not_depend_on_its_batch(how: Generate) -> None:
    one, texts = decoder(), sources(10, longest=12)
    limits, small = DecodeLimits(growth=1), DecodeLimits(growth=1, batch_rows=3, batch_tokens=40)
    together = generate_each(one, texts, how, limits)
    alone = [generate_each(one, [source], how, limits)[0] for source in texts]
    for other in (alone, generate_each(one, texts, how, small)):
        assert [output.ids for output in together] == [output.ids for output in other]
        assert [output.score for output in together] == pytest.approx([output.score for output in other], abs=1e-3)


@pytest.mark.parametrize(
    "how", [*ALL, Generate(how="sample", temperature=3.0, top_k=0)], ids=lambda how: f"{how.how}{how.beam}"
)
def test_length_limits_and_logit_masks(how: Generate) -> None:
    texts = sources(60, longest=12)
    limits = DecodeLimits(growth=0.5, extra=2, longest=6)
    outputs = generate_each(decoder(), texts, how, limits, torch.Generator().manual_seed(1))
    for source, output in zip(texts, outputs, strict=True):
        length = min(6, math.ceil(len(source) / 2) + 2)
        assert len(output.ids) + output.ended <= length
        assert output.ended or len(output.ids) == length
        assert set(output.ids) <= set(TEXT)
        assert math.isfinite(output.score)
    assert {output.ended for output in outputs} == {True, False} or how.how == "beam"


@pytest.mark.parametrize("how", ALL, ids=lambda how: f"{how.how}{how.beam}")
def test_an_empty_source_and_no_source(how: Generate) -> None:
    assert generate_each(decoder(), [], how, DecodeLimits()) == []
    (output,) = generate_each(decoder(), [[]], how, DecodeLimits())
    assert output.score == pytest.approx(score(decoder(), [], output.ids, output.ended), abs=1e-4)


def test_progress_counts_every_source() -> None:
    seen: list[int] = []
    generate_each(decoder(), sources(10), GREEDY, DecodeLimits(batch_rows=3), advance=seen.append)
    assert sum(seen) == 10
    assert max(seen) <= 3
