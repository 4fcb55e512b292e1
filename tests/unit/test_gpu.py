"""Tests that need CUDA: captured graphs give the results of eager steps. `make test-gpu`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.learners import losses_with
from loopmt.config import Generate, Model, Train
from loopmt.distributed import Processes
from loopmt.learn.captured import CapturedLearner
from loopmt.learn.learner import Learner
from loopmt.model.loss import cross_entropy
from loopmt.model.transformer import NO_DROPOUT, Transformer
from loopmt.model.weights import Layout
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.batch import Batch, BatchShape
from loopmt.text.ragged import Ragged
from loopmt.translate import beam_search
from loopmt.translate.captured_decoder import CapturedDecoder
from loopmt.translate.decoder import Decoder, generate_each
from loopmt.translate.protocol import DecodeLimits
from loopmt.translate.scoring import negative_log_likelihood
from loopmt.workflow.train import TrainOptions, train

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
DEVICE = torch.device("cuda")
SIZE = 500


@dataclasses.dataclass
class Stack:
    """The part of `Translators` that a learner needs."""

    model: Model
    layout: Layout
    transformer: Transformer
    live: torch.Tensor
    copies: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    @property
    def num_networks(self) -> int:
        return self.live.shape[0]

    def follow(self, decay: float) -> None:
        pass


def stack(networks: int, kind: type[Transformer] = Transformer, **model: object) -> Stack:
    settings = Model.model_validate({"preset": "small", "dropout": 0.0, **model})
    layout = Layout(settings, SIZE, SIZE, True)
    flat = layout.initial(*((number, "weights") for number in range(networks))).to(DEVICE)
    return Stack(settings, layout, kind(settings, True), flat)


def batch(shape: BatchShape, networks: int, seed: int) -> Batch:
    draw = np.random.default_rng(seed)
    tables = draw.integers(3, SIZE, (2, networks, shape.rows, shape.length))
    tables[..., -1] = 1
    tables[:, :, :2, shape.length // 2 :] = 0
    paths = np.zeros((networks, shape.rows), dtype=np.int64)
    factors = draw.uniform(0.5, 1.5, paths.shape).astype(np.float32)
    return Batch(shape, tables[0], tables[1], paths, paths - 1, factors, np.zeros_like(factors))


def losses(
    kind: type[Learner],
    precision: str,
    updates: int = 12,
    transformer: type[Transformer] = Transformer,
    **model: object,
) -> list[float]:
    networks = stack(3, transformer, **model)
    train = Train.model_validate({"precision": precision, "learning_rate": 1e-3, "warmup": 1})
    learner = kind(networks, train, 1, Processes())  # type: ignore[arg-type]
    found = []
    for number in range(updates):
        learner.update(batch((BatchShape(16, 12), BatchShape(8, 24))[number % 2], 3, number % 4), number + 1, 1e-3)
        found.append(float(learner.tally.loss.sum() / learner.tally.tokens.sum()))
        learner.tally.clear()
    return found


def test_captured_learning_equals_eager_learning() -> None:
    eager, captured = losses(Learner, "float32"), losses(CapturedLearner, "float32")
    np.testing.assert_allclose(captured, eager, rtol=1e-4)
    assert eager[-1] < eager[0]


def test_bfloat16_learns_similarly() -> None:
    np.testing.assert_allclose(losses(CapturedLearner, "bfloat16"), losses(Learner, "float32"), rtol=2e-2)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("bfloat16", 2e-2)])
def test_networks_with_kernels_learn_similarly(norm: str, precision: str, tolerance: float) -> None:
    accelerated = pytest.importorskip("loopmt.model.accelerated").Accelerated
    found = losses(CapturedLearner, precision, transformer=accelerated, norm=norm)
    np.testing.assert_allclose(found, losses(Learner, "float32", norm=norm), rtol=tolerance)


def test_dropout_of_kernels_differs_in_every_replay() -> None:
    accelerated = pytest.importorskip("loopmt.model.accelerated").Accelerated
    networks = stack(2, accelerated, dropout=0.3, activation_dropout=0.1)
    train = Train.model_validate({"learning_rate": 1e-9, "warmup": 1})
    learner = CapturedLearner(networks, train, 1, Processes())  # type: ignore[arg-type]
    found = set()
    for number in range(4):
        learner.update(batch(BatchShape(16, 12), 2, 1), number + 1, 0.0)
        found.add(float(learner.tally.loss.sum()))
        learner.tally.clear()
    assert len(found) == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("networks", "rows", "length"), [(1, 5, 7), (3, 4, 32), (2, 3, 100)])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_gradients_of_kernels(dtype: torch.dtype, networks: int, rows: int, length: int, activation: str) -> None:
    accelerated = pytest.importorskip("loopmt.model.accelerated").Accelerated
    gradients = []
    for kind, precision in ((Transformer, torch.float64), (Transformer, dtype), (accelerated, dtype)):
        models = stack(networks, kind, activation=activation)
        work = batch(BatchShape(rows, length), networks, 1)
        flat = models.live.to(precision).requires_grad_()
        source, target = (torch.from_numpy(table).to(DEVICE) for table in (work.source_NBL, work.target_NBL))
        weights = models.layout.unpack(flat)
        found, _ = losses_with(weights, models.transformer, source, target, 0.1, NO_DROPOUT)
        gradients.append(torch.autograd.grad(found.sum(), flat)[0].double())
    exact, eager, kernels = gradients
    noise = (eager - exact).norm() / exact.norm()
    assert (kernels - exact).norm() / exact.norm() < 1.5 * noise + 1e-5, "no further from the truth than eager"


@pytest.mark.parametrize("size", [500, 8000, 32_000])
def test_kernels_over_large_vocabularies(size: int) -> None:
    kernels = pytest.importorskip("loopmt.model.kernels.loss"), pytest.importorskip("loopmt.translate.kernels.sampling")
    logits = torch.randn(300, size, device=DEVICE, dtype=torch.bfloat16).requires_grad_()
    target = torch.randint(1, size, (300,), device=DEVICE)
    exact = cross_entropy(logits.float(), target, 0.1)
    slope = torch.autograd.grad(exact.sum(), logits)[0]
    found = kernels[0].cross_entropy(logits * 1, target, 0.1)
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), logits)[0], slope, rtol=1e-2, atol=1e-4)
    logit_mask = torch.where(torch.arange(size, device=DEVICE) < 3, -torch.inf, logits.detach())
    scores, tokens = kernels[1].likeliest(logit_mask, 10)
    torch.testing.assert_close(scores, beam_search.likeliest(logit_mask, 10)[0], rtol=1e-4, atol=1e-4)
    assert all(len(set(row)) == 10 for row in tokens.tolist())
    for how in (
        Generate(how="greedy"),
        Generate(how="sample", temperature=1.0, top_k=0),
        Generate(how="sample", temperature=1.0, top_k=5),
    ):
        picked, scored = kernels[1].pick(logit_mask, how, None)
        expected = logit_mask.float().log_softmax(-1).gather(1, picked[:, None])[:, 0]
        torch.testing.assert_close(scored, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"top_k": 4}])
def test_kernels_sample_with_the_right_frequencies(settings: dict[str, float]) -> None:
    choose = pytest.importorskip("loopmt.translate.kernels.sampling")
    how = Generate(how="sample", **{"temperature": 1.0, "top_k": 0} | settings)
    logits = torch.randn(1, 3000, device=DEVICE).mul(3).expand(200_000, -1).contiguous()
    counts = (
        torch.stack(
            [
                torch.bincount(choice(logits[start : start + 20_000], how, None)[0], minlength=3000)
                for choice in (choose.pick, beam_search.pick)
                for start in range(0, 200_000, 20_000)
            ]
        )
        .view(2, 10, -1)
        .sum(1)
    )
    often = counts.sum(0) > 20
    pearson = ((counts[0] - counts[1])[often] ** 2 / counts.sum(0)[often]).sum()
    degrees = int(often.sum())
    assert abs(float(pearson) - degrees) < 5 * (2 * degrees) ** 0.5 + 5, "two samples of one law"


@pytest.mark.parametrize("source", [26, 32, 100, 200])
def test_hypotheses_of_a_sentence_attend_to_the_source_in_one_call(source: int) -> None:
    accelerated = pytest.importorskip("loopmt.model.accelerated").Accelerated
    networks, draw = stack(1), torch.Generator(DEVICE).manual_seed(1)
    sizes = (16, networks.model.heads, source, networks.model.width // networks.model.heads)
    query, keys, values = (
        torch.randn(shape, device=DEVICE, generator=draw).bfloat16()
        for shape in ((1, 64, 1, networks.model.width), sizes, sizes)
    )
    mask = (torch.arange(source, device=DEVICE) <= torch.arange(16, device=DEVICE)[:, None] * 6)[:, None, None]
    with torch.no_grad():
        found = accelerated(networks.model, True).attend_cross(query, keys, values, mask, 0.0)
        every = [tensor.repeat_interleave(4, 0) for tensor in (keys, values, mask)]
        exact = Transformer(networks.model, True).attend_cross(
            query.float(), every[0].float(), every[1].float(), every[2], 0.0
        )
    torch.testing.assert_close(found.float(), exact, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("width", [2, 4, 5, 16])
def test_beams_are_extended_in_place(width: int) -> None:
    kernels, draw = pytest.importorskip("loopmt.translate.kernels.beam"), torch.Generator(DEVICE).manual_seed(1)
    beams = beam_search.start_search([96] * 300, Generate(how="beam", beam=width), DEVICE)
    assert isinstance(beams, beam_search.Beams)
    for number in range(80):
        fast = beam_search.subset(beams, torch.arange(300, device=DEVICE))
        fast.fuse = lambda function: getattr(kernels, function.__name__, function)
        logits = torch.randn(300 * width, 50, device=DEVICE, generator=draw) * 2
        position = torch.tensor(number, device=DEVICE)
        rows, expected = (one.advance(logits, position, None) for one in (fast, beams))
        assert torch.equal(fast.scores, beams.scores) and torch.equal(fast.finished_scores, beams.finished_scores)
        agree = (rows == expected) & (fast.prefixes == beams.prefixes).all(2)
        agree &= (fast.finished == beams.finished).all(2) | (beams.finished_scores == -torch.inf)
        assert float(agree.float().mean()) > 0.99, "but for equal scores"


@pytest.mark.parametrize("how", [Generate(how="greedy"), Generate(how="beam")])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_kernels_decode_similarly(how: Generate, norm: str) -> None:
    accelerated = pytest.importorskip("loopmt.model.accelerated").Accelerated
    networks = stack(1, norm=norm)
    logit_mask = torch.zeros(SIZE, device=DEVICE)
    logit_mask[0] = -torch.inf
    draw = np.random.default_rng(1)
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in draw.integers(1, 30, size=100)]
    said = []
    for kind in (Transformer, accelerated):
        captured = CapturedDecoder(kind(networks.model, True), networks.layout, torch.float32, DEVICE)
        decoder = Decoder(
            networks.transformer, networks.layout, networks.live * 2, logit_mask, torch.float32, captured=captured
        )
        said.append([output.ids for output in generate_each(decoder, sources, how, DecodeLimits(longest=40))])
    assert np.mean([one == other for one, other in zip(*said, strict=True)]) > 0.95  # ties are broken by rounding


@pytest.mark.parametrize("as_generated", [False, True])
def test_kernels_score_as_the_reference_does(as_generated: bool) -> None:
    accelerated = pytest.importorskip("loopmt.model.accelerated").Accelerated
    networks = stack(1)
    logit_mask = torch.zeros(SIZE, device=DEVICE)
    logit_mask[0] = -torch.inf
    draw = np.random.default_rng(1)
    sources, targets = (
        Ragged.of([draw.integers(3, SIZE, size=length) for length in draw.integers(1, 30, size=50)]) for _ in range(2)
    )
    found = []
    for kind in (Transformer, accelerated):
        transformer = kind(networks.model, True)
        decoder = Decoder(transformer, networks.layout, networks.live, logit_mask, torch.float32)
        found.append(negative_log_likelihood(decoder, sources, targets, as_generated)[0])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


@pytest.mark.parametrize("how", [Generate(how="greedy"), Generate(how="beam")])
def test_captured_decoding_equals_eager_decoding(how: Generate) -> None:
    networks = stack(1)
    logit_mask = torch.zeros(SIZE, device=DEVICE)
    logit_mask[0] = -torch.inf
    draw = np.random.default_rng(1)
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in draw.integers(1, 30, size=100)]
    decoder = Decoder(networks.transformer, networks.layout, networks.live * 2, logit_mask, torch.float64)
    captured = CapturedDecoder(networks.transformer, networks.layout, torch.float64, DEVICE)
    fast = dataclasses.replace(decoder, captured=captured)
    limits = DecodeLimits(longest=40)
    slowly = [output.ids for output in generate_each(decoder, sources, how, limits)]
    quickly = [output.ids for output in generate_each(fast, sources, how, limits)]
    assert np.mean([one == other for one, other in zip(slowly, quickly, strict=True)]) > 0.98


@pytest.mark.parametrize("how", [Generate(how="greedy"), Generate(how="beam")])
def test_networks_decode_together(how: Generate) -> None:
    accelerated = pytest.importorskip("loopmt.model.accelerated").Accelerated
    networks = stack(3, accelerated)
    masks = torch.zeros(3, SIZE, device=DEVICE)
    masks[:, 0] = -torch.inf
    draw = np.random.default_rng(1)
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in draw.integers(1, 30, size=300)]
    rows = draw.permutation(np.repeat([0, 1, 2], [180, 100, 20]))
    captured = CapturedDecoder(networks.transformer, networks.layout, torch.float32, DEVICE)
    together = Decoder(networks.transformer, networks.layout, networks.live * 2, masks, torch.float32, captured)
    limits = DecodeLimits(longest=40)
    found = generate_each(together, sources, how, limits, networks=rows)
    for network in range(3):
        flat = together.flat[network : network + 1]
        alone = Decoder(networks.transformer, networks.layout, flat, masks[network], torch.float32)
        own = np.flatnonzero(rows == network)
        expected = generate_each(alone, [sources[row] for row in own], how, limits)
        same = [found[row].ids == one.ids for row, one in zip(own, expected, strict=True)]
        assert np.mean(same) > 0.95  # ties are broken by rounding


def test_captured_updates_are_faster() -> None:
    times = {}
    for kind in (Learner, CapturedLearner):
        networks = stack(6, dropout=0.1)
        learner = kind(networks, Train(), 1, Processes())  # type: ignore[arg-type]
        work = batch(BatchShape(128, 32), 6, 1)
        for timed in (False, True):
            torch.cuda.synchronize()
            started = time.perf_counter()
            for number in range(20):
                learner.update(work, number + 1, 1e-3)
            torch.cuda.synchronize()
            if timed:
                times[kind.__name__] = (time.perf_counter() - started) / 20
    print({name: f"{seconds * 1000:.2f} ms" for name, seconds in times.items()})
    assert times["CapturedLearner"] < times["Learner"]


EXPERIMENT = """
languages = ["en", "fr"]
[data.world]
size = "tiny"
pairs = { "en-fr" = 400 }
mono = { en = 800, fr = 800 }
valid = 20
test = 20
[vocab]
size = 400
[model]
preset = "tiny"
width = 64
feed_forward = 128
[train]
tokens = 512
validate_every = 40
validate_sentences = 10
average = 2
[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 200
[[stage]]
name = "dual"
from = "vanilla"
mix = ["X>Y", { path = "X>Y>X", generate = { top_k = 10 } }]
updates = 200
"""


def test_a_run_that_is_stopped_again_and_again_ends_with_the_same_weights(tmp_path: Path) -> None:
    """On CUDA checkpoints are written in the background, and graphs are captured again after every stop."""
    file = tmp_path / "experiment.toml"
    file.write_text(EXPERIMENT)
    assert train(TrainOptions(file, tmp_path / "whole"), Silent())
    stops = 0
    while not train(TrainOptions(file, tmp_path / "cut", stop_after=2.0), Silent()):
        stops += 1
    assert stops
    for stage in ("vanilla", "dual"):
        found = [Run(tmp_path / name).stage(stage).result_digest() for name in ("whole", "cut")]
        assert found[0] == found[1], stage
