"""Training: one update on the same full batch, compared with Marian of `transformers`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks import hugging_face, joey, ours
from benchmarks.machine import matrix_peak
from benchmarks.timing import Json, Measurement, Plan, Systems, Work, compare

from loopmt.config import Model
from loopmt.path import Hop
from loopmt.text.batch import Batch
from loopmt.translate.networks import NetworkStack

_HOP = Hop("en", "fr")


def training(plan: Plan, folder: Path) -> list[Measurement]:
    return [_measure("base", 32_000, plan.pick(512, 8, 4), plan.pick(32, 32, 8), plan, folder)]


def training_small(plan: Plan, folder: Path) -> list[Measurement]:
    """The network for training on a CPU."""
    return [_measure("small", 8_000, plan.pick(512, 64, 4), plan.pick(32, 32, 8), plan, folder)]


def _measure(preset: str, vocabulary: int, rows: int, length: int, plan: Plan, folder: Path) -> Measurement:
    updates = plan.pick(10, 1, 1)  # in a run, so that the device's queue is as full as in training
    translators = ours.Setting(preset, vocabulary).build(folder, plan, [_HOP])
    batch = ours.random_batch(translators.vocab, 1, rows, length)
    name = "training" if preset == "base" else f"training, preset {preset}"
    shape = f"preset {preset}, {translators.layout.target_size:,} subwords, {rows} x {length} tokens an update"
    measurement = Measurement(name, "target tokens/s", rows * length * updates, shape)
    plain = ours.Setting(preset, vocabulary).build(folder, plan, [_HOP], "no")
    compare(measurement, _systems(translators, plain, batch, updates, plan), plan)
    if plan.cuda or plan.tiny:
        measurement.extra["peak"] = _shares(measurement, flops(translators, rows, length) / (rows * length), plan)
    return measurement


def _systems(translators: NetworkStack, plain: NetworkStack, batch: Batch, updates: int, plan: Plan) -> Systems:
    def our_work(captured: bool) -> Work:
        learner, number = ours.learner(translators if captured else plain, plan, captured), count(1)
        return _again(lambda: learner.update(batch, next(number), 1e-4), updates)

    def their_work(compiled: bool, pure: bool) -> Work:
        return _again(hugging_face.training(translators, batch, plan, compiled, pure), updates)

    systems: dict[str, Callable[[], Work]] = {
        "loopmt": partial(our_work, plan.cuda),
        "HF eager": partial(their_work, False, False),
    }
    if plan.cuda:
        systems["loopmt eager"] = partial(our_work, False)
        systems["HF compiled"] = partial(their_work, True, False)
        systems["HF compiled, bfloat16 weights"] = partial(their_work, True, True)
    elif plan.joey:
        systems["JoeyNMT"] = partial(joey.training, translators, batch.shape, plan)
    return systems


def _again(work: Work, times: int) -> Work:
    def run() -> None:
        for _ in range(times):
            work()

    return run


def _shares(measurement: Measurement, flops_per_token: float, plan: Plan) -> Json:
    """The share of the measured matrix peak that each system's useful operations reach."""
    peak = matrix_peak(plan)
    rates = {name: system["rate"] for name, system in measurement.systems.items() if "rate" in system}
    shares = {name: rate * flops_per_token / peak["rate"] for name, rate in rates.items()}
    return {"flops_per_token": flops_per_token, "matrix": peak, "shares": shares}


def flops(translators: NetworkStack, rows: int, length: int) -> float:
    """Operations of the matrix products of one update; the backward pass has twice those of the forward pass."""
    model, tokens = translators.model, rows * length
    weights = sum(
        shape[0] * shape[1]
        for name, shape in translators.layout.shapes.items()
        if len(shape) == 2 and not name.endswith("embed")
    )
    output = model.width * translators.layout.target_size
    return 3 * tokens * (2 * (weights + output) + 4 * length * model.width * _attentions(model))


def _attentions(model: Model) -> int:
    return model.layers + 2 * model.num_decoder_layers
