"""The predicted memory of a stage on CUDA, compared with the tensors that exist on a CPU, too."""

from __future__ import annotations

import numpy as np
import torch

from helpers.recorded import recorder
from helpers.stages import ASK, assembled, stage
from loopmt.config import Generate, Model
from loopmt.learn.learner import Learner
from loopmt.learn.memory import StageMemory, largest_caches
from loopmt.model.transformer import Transformer
from loopmt.model.weights import Layout
from loopmt.text.ragged import Ragged
from loopmt.translate.captured_decoder import CapturedDecoder
from loopmt.translate.decoder import Decoder, generate_up_to
from loopmt.translate.networks import stack_of
from loopmt.translate.protocol import DecodeLimits

SIZE = 60


def test_caches_have_the_predicted_size() -> None:
    """Of real batches of two networks, in none of which the caches have to grow."""
    model = Model.model_validate({"layers": 1, "width": 16, "heads": 2, "feed_forward": 32})
    layout, transformer = Layout(model, SIZE, SIZE, True), Transformer(model, True)
    fixed = CapturedDecoder(transformer, layout, torch.float32, torch.device("cpu"), recorder)
    draw = np.random.default_rng(1)
    lengths, networks = draw.integers(3, 30, size=90), np.repeat([0, 1], [60, 30])
    limits = DecodeLimits(longest=16, batch_rows=48, batch_tokens=600)
    sources = Ragged.of([draw.integers(3, SIZE, size=length) for length in lengths])
    flat = layout.initial((1, "x"), (2, "x"))
    decoder = Decoder(transformer, layout, flat, torch.zeros(2, SIZE), torch.float32, fixed)
    generate_up_to(decoder, sources, Generate(how="greedy"), limits, networks=networks)
    assert largest_caches(model, [lengths[:60], lengths[60:]], [0, 1], limits) == fixed.caches.numel()


def test_caches_of_many_rows_are_predicted_to_start_short() -> None:
    model, limits = Model.model_validate({"preset": "small"}), DecodeLimits.on(torch.device("cuda"), 128)
    few, many = (largest_caches(model, [np.full(rows, 63)], [0], limits) for rows in (512, 1024))
    assert (few, many) == tuple(2 * 3 * 256 * rows * (64 + length) for rows, length in ((512, 128), (1024, 64)))


def test_weights_are_those_that_a_stage_keeps(ask_for: ASK) -> None:
    mix = '["X>Y", { path = "X>Y>X", generate = { by = "frozen" } }]'
    trainer = assembled(ask_for(stage(mix, tokens=1024)))
    setup, learner = trainer.gatherer.setup, trainer.learner
    networks = stack_of(trainer.gatherer.networks)
    assert isinstance(learner, Learner)
    memory = StageMemory.of(setup, networks, trainer.gatherer.store)
    held = [learner.weights, learner.gradient, learner.first, learner.second, *networks.copies.values()]
    decoded = 2 * learner.weights.numel()  # in bfloat16
    assert memory.weights == sum(tensor.nbytes for tensor in held) + decoded
    assert memory.caches > 0 and memory.peak > memory.weights + memory.caches + memory.update
