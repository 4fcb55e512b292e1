"""Triton kernels give the results of eager operations, forward and backward; here interpreted on the CPU.

`TRITON_INTERPRET=1 pytest tests/unit/test_kernels.py` where triton is installed; on CUDA see test_gpu.py.
"""

from __future__ import annotations

import dataclasses
import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

if find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("kernels run on a CPU only with TRITON_INTERPRET=1", allow_module_level=True)

from helpers.recorded import recorder
from loopmt.config import Generate, Model
from loopmt.model.accelerated import Accelerated
from loopmt.model.adam import Adam, AdamStep
from loopmt.model.adam import adam_step as reference_adam_step
from loopmt.model.kernels.activate import bias_act
from loopmt.model.kernels.adam import adam_step
from loopmt.model.kernels.ancestors import move
from loopmt.model.kernels.attend import attend_cross, attend_self
from loopmt.model.kernels.decode import attend_past, attend_source
from loopmt.model.kernels.linear import linear
from loopmt.model.kernels.loss import cross_entropy
from loopmt.model.kernels.residual import residual_norm
from loopmt.model.loss import cross_entropy as reference_cross_entropy
from loopmt.model.transformer import Transformer
from loopmt.model.weights import Layout
from loopmt.translate import beam_search
from loopmt.translate.captured_decoder import CapturedDecoder
from loopmt.translate.decoder import Decoder, generate_nbest
from loopmt.translate.kernels.beam import extended, extended_beams
from loopmt.translate.kernels.sampling import likeliest, pick
from loopmt.translate.protocol import DecodeLimits
from loopmt.translate.scoring import shifted


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def eager_loss(logits: Tensor, bias: Tensor | None, target: Tensor, smoothing: float) -> Tensor:
    if bias is not None:
        logits = logits + bias.repeat_interleave(len(logits) // len(bias), 0)
    return reference_cross_entropy(logits, target, smoothing).masked_fill(target == 0, 0)


@pytest.mark.parametrize(
    ("networks", "rows", "size"), [(1, 1, 5), (2, 3, 37), (3, 70, 130), (1, 2, 8003), (2, 2, 4096)]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
def test_cross_entropy(networks: int, rows: int, size: int, smoothing: float, biased: bool) -> None:
    logits, scale = 3 * normal(1, networks * rows, size), normal(2, networks * rows)
    target = torch.arange(networks * rows) * 7 % size
    bias = normal(3, networks, size + 3)[:, :size] if biased else None  # as in flat weights, where rows are apart
    inputs = [tensor.double().requires_grad_() for tensor in (logits, bias) if tensor is not None]
    expected = eager_loss(inputs[0], inputs[1] if biased else None, target, smoothing)
    slopes = torch.autograd.grad(expected, inputs, scale.double())
    leaves = [tensor.clone().requires_grad_() for tensor in (logits, bias) if tensor is not None]
    found = cross_entropy(leaves[0] * 1, target, smoothing, leaves[1] if biased else None)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    for one, other in zip(torch.autograd.grad(found, leaves, scale), slopes, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


def heads(packed: Tensor, parts: int, count: int) -> Any:
    """(R, T, parts*D) to `parts` views (R, H, T, K), as the network makes them."""
    return [part.reshape(*part.shape[:2], count, -1).transpose(1, 2) for part in packed.chunk(parts, -1)]


@pytest.mark.parametrize(
    ("rows", "count", "size", "length"), [(1, 1, 16, 1), (3, 2, 32, 70), (2, 3, 64, 37), (2, 1, 128, 20)]
)
@pytest.mark.parametrize("beams", [False, True])
def test_one_query_attends_to_its_past(rows: int, count: int, size: int, length: int, beams: bool) -> None:
    caches = normal(1, 2, rows, count, length, size)
    draw = torch.Generator().manual_seed(4)
    ancestors = torch.randint(rows, (rows, length), generator=draw, dtype=torch.int32) if beams else None
    new: Any
    for position in sorted({0, length // 2, length - 1}):
        new = heads(normal(position + 2, rows, 1, 3 * count * size), 3, count)
        keys, values = caches.clone()
        away = None if ancestors is None else ancestors - torch.arange(rows, dtype=torch.int32)[:, None]
        found = attend_past(new[0], new[1], new[2], keys, values, torch.tensor(position), away)
        for cache, old, fresh in zip((keys, values), caches, new[1:], strict=True):
            old[:, :, position] = fresh[:, :, 0]
            assert torch.equal(cache, old)
        past = caches[:, :, :, : position + 1]
        if ancestors is not None:
            table = ancestors[:, : position + 1].long()
            table[:, position] = torch.arange(rows)
            times = torch.arange(position + 1)
            past = past.transpose(2, 3)[:, table, times].transpose(2, 3)
        expected = F.scaled_dot_product_attention(new[0], past[0], past[1])
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        assert found.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize(
    ("sentences", "width", "count", "size", "length"), [(1, 1, 1, 16, 1), (3, 2, 2, 32, 40), (2, 5, 1, 64, 33)]
)
@pytest.mark.parametrize("packed", [False, True])
def test_one_query_attends_to_the_source(
    sentences: int, width: int, count: int, size: int, length: int, packed: bool
) -> None:
    (query,) = heads(normal(1, sentences * width, 1, count * size), 1, count)
    keys, values = heads(normal(2, sentences, length, 2 * count * size), 2, count)
    if not packed:
        keys, values = keys.contiguous(), values.contiguous()
    mask = (torch.arange(length) <= torch.arange(sentences)[:, None] * 9)[:, None, None]
    found = attend_source(query, keys, values, mask)
    every: Any = [tensor.repeat_interleave(width, 0) for tensor in (keys, values, mask)]
    expected = F.scaled_dot_product_attention(query, every[0], every[1], every[2])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def same_gradients(found: Tensor, expected: Tensor, leaves: list[Tensor], doubles: list[Tensor]) -> None:
    """`leaves` in float32 led to `found`, `doubles` in float64 to `expected`."""
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-5)
    scale = normal(99, *found.shape)
    slopes = torch.autograd.grad(expected, doubles, scale.to(expected.dtype))
    for one, other in zip(torch.autograd.grad(found, leaves, scale), slopes, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-5)


def leaf(tensor: Tensor) -> tuple[Tensor, Tensor]:
    return tensor.clone().requires_grad_(), tensor.double().requires_grad_()


def padding(rows: int, length: int) -> Tensor:
    """Every row has at least one place that is real."""
    return (torch.arange(length) <= torch.arange(rows)[:, None] * 5 % length)[:, None, None]


@pytest.mark.parametrize(
    ("rows", "count", "size", "length"), [(1, 1, 16, 1), (3, 2, 32, 13), (2, 1, 64, 33), (1, 1, 128, 100)]
)
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(rows: int, count: int, size: int, length: int, causal: bool) -> None:
    packed, double = leaf(normal(1, rows, length, 3 * count * size))
    mask = None if causal else padding(rows, length)
    query, key, value = heads(double, 3, count)
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
    found = attend_self(packed, count, mask, causal)
    same_gradients(found, expected.transpose(1, 2).flatten(2), [packed], [double])


@pytest.mark.parametrize(
    ("rows", "count", "size", "length", "source"), [(2, 2, 16, 3, 40), (3, 1, 32, 33, 16), (1, 2, 64, 1, 1)]
)
def test_cross_attention(rows: int, count: int, size: int, length: int, source: int) -> None:
    query, double_query = leaf(normal(1, rows, length, count * size))
    packed, double = leaf(normal(2, rows, source, 2 * count * size))
    mask = padding(rows, source)
    one, other = (
        (*heads(pair[0], 1, count), *heads(pair[1], 2, count)) for pair in ((query, packed), (double_query, double))
    )
    expected = F.scaled_dot_product_attention(other[0], other[1], other[2], attn_mask=mask).transpose(1, 2).flatten(2)
    found = attend_cross(one[0], one[1], one[2], mask)
    same_gradients(found, expected, [query, packed], [double_query, double])


def spread(weight: Tensor, like: Tensor) -> Tensor:
    return weight[:, :, None].transpose(1, 2).expand_as(like)


@pytest.mark.parametrize("how", [Generate(how="greedy"), Generate(how="beam", beam=3)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_networks_decode_together_with_kernels(how: Generate, norm: str) -> None:
    model, layout = network(norm=norm)
    flat = layout.initial((1, "x"), (2, "x"), (3, "x")) * 2
    masks = torch.zeros(3, SIZE)
    masks[:, [0, 2]] = -torch.inf
    draw = np.random.default_rng(1)
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in (12, 2, 1, 3, 2, 11, 2, 1, 2, 3)]
    networks = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 2])
    fixed = CapturedDecoder(Accelerated(model, True), layout, torch.float32, torch.device("cpu"), recorder)
    together = Decoder(fixed.transformer, layout, flat, masks, torch.float32, fixed)
    limits = DecodeLimits(growth=1.0, extra=2)
    found = generate_nbest(together, sources, how, limits, nbest=3, networks=networks)
    for number in range(3):
        slow = Decoder(Transformer(model, True), layout, flat[number : number + 1], masks[number], torch.float32)
        rows = np.flatnonzero(networks == number)
        alone = generate_nbest(slow, [sources[row] for row in rows], how, limits, nbest=3)
        for row, expected in zip(rows, alone, strict=True):
            assert [output.ids for output in found[row]] == [output.ids for output in expected]
            np.testing.assert_allclose([x.score for x in found[row]], [x.score for x in expected], rtol=1e-4)


@pytest.mark.parametrize(("networks", "rows", "width"), [(1, 1, 5), (3, 7, 32), (2, 300, 24), (1, 3, 600)])
@pytest.mark.parametrize("parts", ["out bias norm", "out norm", "out bias", "norm"])
def test_the_end_of_a_block(networks: int, rows: int, width: int, parts: str) -> None:
    shapes: dict[str, tuple[int, ...]] = {"x": (networks, rows, width)}
    shapes |= {"out": (networks, rows, width)} if "out" in parts else {}
    shapes |= {"bias": (networks, width)} if "bias" in parts else {}
    shapes |= {"scale": (networks, width), "shift": (networks, width)} if "norm" in parts else {}
    given = {name: leaf(normal(number, *shape)) for number, (name, shape) in enumerate(shapes.items())}
    one, two = ({name: pair[side] for name, pair in given.items()} for side in (0, 1))
    norm = (one["scale"], one["shift"]) if "norm" in parts else None
    found = residual_norm(one["x"], one.get("out"), one.get("bias"), norm)
    expected = two["x"]
    if "out" in two:
        expected = expected + two["out"] + (spread(two["bias"], expected) if "bias" in two else 0)
    if norm:
        normed = F.layer_norm(expected, (width,))
        expected = normed * spread(two["scale"], normed) + spread(two["shift"], normed)
    same_gradients(found, expected, list(one.values()), list(two.values()))


@pytest.mark.parametrize(("networks", "rows", "width"), [(1, 1, 5), (2, 9, 40), (2, 1100, 3), (1, 3, 600)])
@pytest.mark.parametrize(("name", "function"), [("relu", F.relu), ("gelu", F.gelu), ("swish", F.silu)])
def test_activation(networks: int, rows: int, width: int, name: str, function: Any) -> None:
    (x, double_x), (bias, double_bias) = leaf(normal(1, networks, rows, width)), leaf(normal(2, networks, width))
    expected = function(double_x + spread(double_bias, double_x))
    same_gradients(bias_act(x, bias, name), expected, [x, bias], [double_x, double_bias])


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_dropout_keeps_its_share_and_is_the_same_backward(rate: float) -> None:
    torch.manual_seed(1)
    x, out = (torch.ones(2, 200, 64).requires_grad_() for _ in range(2))
    masks = []
    for y in (residual_norm(x, out, None, None, rate) - 1, bias_act(out, torch.zeros(2, 64), "relu", rate)):
        mask = y.detach() != 0
        assert torch.allclose(y[mask], torch.tensor(1 / (1 - rate)))
        assert float(mask.float().mean()) == pytest.approx(1 - rate, abs=0.01)
        (slope,) = torch.autograd.grad(y.sum(), out)
        assert torch.equal(slope, y.detach())
        masks.append(mask.float() - mask.float().mean())
    neighbours = [(masks[0] * masks[1]), masks[0][:, 1:] * masks[0][:, :-1], masks[0][..., 1:] * masks[0][..., :-1]]
    assert all(abs(float(product.mean())) < 4 * rate / 25_000**0.5 for product in neighbours), "independent"


SIZE = 60


def network(**settings: object) -> tuple[Model, Layout]:
    model = Model.model_validate({"layers": 1, "width": 32, "heads": 2, "feed_forward": 40, "dropout": 0.0, **settings})
    return model, Layout(model, SIZE, SIZE, True)


def losses(transformer: Transformer, layout: Layout, flat: Tensor, length: int) -> Tensor:
    ids = torch.from_numpy(np.random.default_rng(1).integers(3, SIZE, (2, len(flat), 3, length)))
    ids[:, :, 0, length // 2 :] = 0
    weights = layout.unpack(flat)
    memory = transformer.memory(weights, transformer.encode(weights, ids[0]), ids[0])
    return transformer.losses(weights, transformer.decode(weights, memory, shifted(ids[1])), ids[1], 0.1)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("networks", "activation", "length"), [(1, "gelu", 9), (3, "relu", 9), (2, "swish", 40)])
def test_a_network_of_kernels(norm: str, networks: int, activation: str, length: int) -> None:
    """Beyond 32 places attention in float32 is left to the eager network."""
    model, layout = network(norm=norm, activation=activation)
    flat = layout.initial(*((number, "w") for number in range(networks)))
    flat += 0.1 * normal(5, *flat.shape)  # biases too
    leaves, doubles = leaf(flat)
    found = losses(Accelerated(model, True), layout, leaves, length)
    same_gradients(found, losses(Transformer(model, True), layout, doubles, length), [leaves], [doubles])


@pytest.mark.parametrize("how", [Generate(how="greedy"), Generate(how="beam", beam=3)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoding_with_kernels_gives_the_same_outputs(how: Generate, norm: str) -> None:
    model, layout = network(norm=norm)
    logit_mask = torch.zeros(SIZE)
    logit_mask[[0, 2]] = -torch.inf
    draw = np.random.default_rng(1)
    lengths = (12, 2, 1, 3, 2, 11, 2, 1, 2, 3)  # most end early, and the others move to a smaller shape
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in lengths]
    slow = Decoder(Transformer(model, True), layout, layout.initial((1, "x")) * 2, logit_mask, torch.float32)
    fixed = CapturedDecoder(Accelerated(model, True), layout, torch.float32, torch.device("cpu"), recorder)
    fast = dataclasses.replace(slow, captured=fixed)
    limits = DecodeLimits(growth=1.0, extra=2)
    for one, other in zip(
        generate_nbest(slow, sources, how, limits, nbest=3),
        generate_nbest(fast, sources, how, limits, nbest=3),
        strict=True,
    ):
        assert [output.ids for output in one] == [output.ids for output in other]
        np.testing.assert_allclose([x.score for x in one], [x.score for x in other], rtol=1e-4)


@pytest.mark.parametrize(("networks", "rows", "width"), [(1, 1, 5), (2, 9, 40), (2, 1100, 3), (1, 3, 600)])
@pytest.mark.parametrize("biased", [False, True])
def test_projection(networks: int, rows: int, width: int, biased: bool) -> None:
    shapes = [(networks, 2, rows, 7), (networks, width, 7), *([(networks, width)] if biased else [])]
    pairs = [leaf(normal(number, *shape)) for number, shape in enumerate(shapes)]
    (leaves, (x, weight, *bias)) = ([pair[side] for pair in pairs] for side in (0, 1))
    expected = torch.einsum("nbri,noi->nbro", x, weight) + (bias[0][:, None, None] if biased else 0)
    same_gradients(linear(*leaves), expected, leaves, [x, weight, *bias])


@pytest.mark.parametrize(("rows", "size"), [(1, 5), (3, 130), (2, 2048), (2, 8003)])
@pytest.mark.parametrize("count", [1, 4, 10])
@pytest.mark.parametrize("coarse", [False, True])
def test_the_most_likely_tokens(rows: int, size: int, count: int, coarse: bool) -> None:
    """`coarse` numbers have many that are equal, and some tokens must not be said."""
    logits = 3 * normal(1, rows, size)
    logits = logits.mul(2).round().div(2) if coarse else logits
    logits[:, :2] = -torch.inf
    found, tokens = likeliest(logits, count)
    expected, _ = beam_search.likeliest(logits, count)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    prefixes = [row[scores > -torch.inf] for row, scores in zip(tokens, found, strict=True)]
    assert all(len(set(row.tolist())) == len(row) for row in prefixes)
    logprobs = logits.log_softmax(-1)
    for row, scores, places in zip(logprobs, found, tokens, strict=True):
        real = scores > -torch.inf
        torch.testing.assert_close(row[places][real], scores[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [5, 130, 2048, 8003])
@pytest.mark.parametrize("how", [Generate(how="greedy"), Generate(how="sample", top_k=1, temperature=1.0)])
def test_the_most_likely_token(size: int, how: Generate) -> None:
    logits = 3 * normal(1, 3, size)
    logits[:, 0] = -torch.inf
    for one, other in zip(pick(logits, how, None), beam_search.pick(logits, how, None), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"top_k": 4}, {"top_p": 0.6}])
def test_draws_have_the_right_frequencies(settings: dict[str, float]) -> None:
    how, rows = Generate.model_validate({"how": "sample", **settings}), 4000
    logits = normal(3, 1, 24).repeat(rows, 1)
    logits[:, 0] = -torch.inf
    tokens, scores = pick(logits, how, torch.Generator().manual_seed(1))
    torch.testing.assert_close(scores, logits[0].log_softmax(-1)[tokens])
    other, _ = beam_search.pick(logits, how, torch.Generator().manual_seed(2))
    counts = torch.stack([torch.bincount(draws, minlength=24) for draws in (tokens, other)])
    often = counts.sum(0) > 20
    pearson = ((counts[0] - counts[1])[often] ** 2 / counts.sum(0)[often]).sum()
    assert float(pearson) < 2.2 * int(often.sum()), "as two samples of one law"
    again, _ = pick(logits, how, torch.Generator().manual_seed(1))
    assert torch.equal(tokens, again)


@pytest.mark.parametrize("rows", [1, 7, 130])
def test_hypotheses_are_extended_by_a_token(rows: int) -> None:
    draw, length, position = torch.Generator().manual_seed(1), 5, torch.tensor(3)
    prefixes = torch.randint(3, 9, (rows, length), generator=draw)
    ended, longest = torch.arange(rows) % 3 == 1, torch.arange(rows) % 2 + 4
    now = longest, position, torch.randint(1, 4, (rows,), generator=draw), normal(2, rows)
    expected = beam_search.extended((prefixes, normal(1, rows), ended, prefixes[:, 2].clone()), *now)
    found = extended((prefixes.clone(), normal(1, rows), ended.clone(), prefixes[:, 2].clone()), *now)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def beams(rows: int, width: int, length: int, position: int) -> beam_search.BeamState:
    """Some hypotheses of each sentence have ended, of some sentences none and of some all."""
    prefixes = torch.zeros(2, rows, width, length, dtype=torch.long)
    prefixes[..., :position] = torch.randint(
        3, 50, (2, rows, width, position), generator=torch.Generator().manual_seed(1)
    )
    scores = normal(2, 2, rows, width).abs().neg().sort(-1, descending=True).values
    if position == 0:
        scores[0, :, 1:] = -torch.inf
    many = torch.arange(rows) % (width + 1) if position > 1 else torch.zeros(rows)
    scores[1, torch.arange(width) >= many[:, None]] = -torch.inf
    prefixes[1, ..., position // 2] = 1
    prefixes[1, ..., position // 2 + 1 :] = 0
    return prefixes[0], scores[0], prefixes[1], scores[1], prefixes[0, :, :, max(position - 1, 0)].flatten()


@pytest.mark.parametrize(
    ("width", "choices", "length", "position"),
    [(4, 8, 20, 7), (1, 2, 9, 3), (5, 10, 70, 66), (3, 6, 9, 0), (4, 8, 9, 8), (2, 2, 140, 133)],
)
@pytest.mark.parametrize("penalty", [0.0, 0.6])
def test_beams_are_extended(width: int, choices: int, length: int, position: int, penalty: float) -> None:
    rows, draw, place = 7, torch.Generator().manual_seed(3), torch.tensor(position)
    kept = beams(rows, width, length, position)
    longest = torch.full((rows,), length)
    longest[2] = position  # at its limit
    logprobs = normal(4, rows * width, choices).abs().neg().sort(-1, descending=True).values
    tokens = torch.stack([torch.randperm(12, generator=draw)[:choices] for _ in range(rows * width)])
    now = beam_search.BeamStep(longest, place, (place + 1) ** penalty, logprobs, tokens)
    expected, parents = beam_search.extended_beams(kept, now)
    found, rows_found = extended_beams(tuple(tensor.clone() for tensor in kept), now)  # type: ignore[arg-type]
    for number in (1, 3):
        assert torch.equal(found[number], expected[number])
        real = expected[number] > -torch.inf
        assert torch.equal(found[number - 1][real], expected[number - 1][real])
    real = (expected[1] > -torch.inf) & (longest > place)[:, None]
    assert torch.equal(found[4].view(rows, width)[real], expected[4].view(rows, width)[real])
    assert torch.equal(rows_found[real], parents[real])


@pytest.mark.parametrize(("width", "length", "position"), [(4, 20, 7), (5, 70, 66), (1, 3, 0), (20, 30, 29)])
def test_ancestor_tables_are_reordered(width: int, length: int, position: int) -> None:
    draw, rows = torch.Generator().manual_seed(1), 3
    own = torch.arange(rows * width)
    parents = torch.randint(width, (rows, width), generator=draw) + own.view(rows, width)[:, :1]
    before = torch.randint(-3, 3, (rows * width, length), generator=draw, dtype=torch.int32)
    expected = before.clone()
    expected[:, position] = 0
    expected = expected[parents.flatten()] + (parents.flatten() - own).int()[:, None]
    move(before, parents, torch.tensor(position))
    assert torch.equal(before[:, : position + 1], expected[:, : position + 1])


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_adam(decay: float) -> None:
    adam, places = Adam(0.9, 0.98, 1e-9, decay), 2100
    states = [[normal(seed, 3, places).abs() for seed in range(4)] for _ in range(2)]
    good, steps = torch.tensor([True, False, True]), torch.tensor([1.0, 4.0, 900.0])
    for state, step in zip(states, (reference_adam_step, adam_step), strict=True):
        state[3][1] = torch.nan  # what a network that is left out has come to
        step(AdamStep(*state, torch.tensor([0.5, 1.0, 2.0]), good, steps, torch.tensor(1e-2), adam))  # type: ignore[arg-type,call-arg]
    for one, other in zip(*states, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
