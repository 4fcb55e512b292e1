"""Compiled regions give the results of the eager network; here on the CPU."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from helpers.recorded import recorder
from loopmt.config import Generate, Model
from loopmt.model.backend import Fused
from loopmt.model.transformer import NO_DROPOUT, Transformer
from loopmt.model.weights import Layout
from loopmt.translate.captured_decoder import CapturedDecoder
from loopmt.translate.decoder import Decoder, generate_each
from loopmt.translate.protocol import DecodeLimits
from loopmt.translate.scoring import shifted

SIZE = 60
pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="the compiler needs g++"),
    pytest.mark.filterwarnings("default"),  # the compiler's own
]


def model() -> Model:
    return Model.model_validate({"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "dropout": 0.0})


def loss_and_gradient(transformer: Transformer, layout: Layout, rows: int, length: int) -> tuple[float, torch.Tensor]:
    flat = layout.initial((1, "a"), (2, "b")).requires_grad_()
    weights = layout.unpack(flat)
    ids = torch.from_numpy(np.random.default_rng(rows).integers(3, SIZE, (2, 2, rows, length)))
    ids[:, :, 0, length // 2 :] = 0
    states = transformer.encode(weights, ids[0], NO_DROPOUT)
    memory = transformer.memory(weights, states, ids[0])
    losses = transformer.losses(weights, transformer.decode(weights, memory, shifted(ids[1])), ids[1], 0.1)
    (gradient,) = torch.autograd.grad(losses.sum(), flat)
    return float(losses.detach().sum()), gradient


def test_compiled_losses_and_gradients_equal_eager_ones() -> None:
    layout = Layout(model(), SIZE, SIZE, True)
    for rows, length in ((3, 8), (5, 12)):  # one compilation serves both shapes
        loss, gradient = loss_and_gradient(Transformer(model(), True), layout, rows, length)
        fused_loss, fused_gradient = loss_and_gradient(Fused(model(), True), layout, rows, length)
        assert fused_loss == pytest.approx(loss, rel=1e-5)
        torch.testing.assert_close(fused_gradient, gradient, rtol=1e-3, atol=1e-4)


def greedy(transformer: Transformer, layout: Layout, flat: torch.Tensor) -> list[list[int]]:
    """In fixed shapes, as on CUDA: a position is a tensor, so one compilation serves all steps."""
    logit_mask = torch.zeros(SIZE)
    logit_mask[[0, 2]] = -torch.inf
    fixed = CapturedDecoder(transformer, layout, torch.float32, torch.device("cpu"), recorder)
    draw = np.random.default_rng(1)
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in draw.integers(1, 14, size=30)]
    decoder = Decoder(transformer, layout, flat, logit_mask, torch.float32, fixed)
    return [output.ids for output in generate_each(decoder, sources, Generate(how="greedy"), DecodeLimits(longest=20))]


def test_compiled_layers_generate_what_eager_ones_generate() -> None:
    layout = Layout(model(), SIZE, SIZE, True)
    flat = layout.initial((1, "x")) * 2
    said = greedy(Transformer(model(), True), layout, flat)
    assert greedy(Fused(model(), True), layout, flat) == said
    assert len({tuple(ids) for ids in said}) > 20, "not all the same"
