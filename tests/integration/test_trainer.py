"""The end of a stage and its result; random draws by round and process; rollbacks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import torch

from loopmt.distributed import Processes
from loopmt.evaluation.validation import ValidationScores
from loopmt.learn.learner import Learner
from loopmt.learn.trainer import Trainer
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.run import Json
from loopmt.text.batch import Batch, BatchShape
from loopmt.translate.networks import stack_of
from loopmt.translate.protocol import Sentences
from loopmt.translate.walker import HopRecord, Rollout
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, assemble
from loopmt.workflow.train import TrainOptions, prepare_run

ASK = Callable[..., TrainOptions]
STAGE = """
[[stage]]
name = "one"
from = "vanilla"
mix = ["en>fr", { path = "en>fr>en", generate = { how = "sample" } }]
"""
QUICK = "train = { tokens = 96, round = 2, validate_every = 2, log_every = 2, patience = 3, average = 2 }\n"


def assembled(ask_for: ASK, end: str = "updates = 4", *overrides: str) -> Trainer:
    run, _ = prepare_run(ask_for(f"{STAGE}{end}\n{QUICK}", *overrides), Silent())
    context = TrainingContext.open(run, torch.device("cpu"), Processes())
    return assemble(context, context.experiment.stage("one"), run.stage("one"), StopSignal(), lambda record: None)


# -- the end -------------------------------------------------------------------------------------------------------


def trained(trainer: Trainer, scores: Iterable[float]) -> tuple[list[torch.Tensor], Json]:
    """Train with these validation scores; return the resulting weights and the end of the stage."""
    judged, left = [], iter(scores)

    def validate() -> ValidationScores:
        judged.append(stack_of(trainer.translators).live.clone())
        return ValidationScores({"en>fr": 1.0}, {"en>fr": next(left)})

    trainer.hooks.validate = validate
    assert trainer.run()
    return judged, trainer.folder.records()[-1]


@pytest.mark.parametrize(
    ("scores", "best"),
    [([0, 0, 0, 0], 3), ([1, 2, 1, 1, 1], 1), ([1, 2, 1, 2, 1], 3), ([0, 1, 1, 1, 2, 1, 1, 1], 4)],
    ids=["nothing learnt yet", "a peak", "twice as good", "better after all"],
)
def test_patience_ends_a_stage_and_the_latest_of_equals_is_kept(ask_for: ASK, scores: list[float], best: int) -> None:
    trainer = assembled(ask_for, 'until = "patience"', "stage.one.train.average=1")
    judged, end = trained(trainer, scores)
    assert (end["stale"], end["chosen"], end["best_update"]) == (3, "best", end["validated"][best])
    assert len(judged) == len(scores) and torch.equal(stack_of(trainer.translators).live, judged[best])


def test_patience_has_a_limit_of_updates(ask_for: ASK) -> None:
    trainer = assembled(ask_for, 'until = "patience"', "stage.one.train.average=1", "stage.one.train.max_updates=10")
    assert trained(trainer, itertools.count())[1]["update"] == 10


@pytest.mark.parametrize(("score", "chosen"), [(3, "average"), (2, "best"), (1, "best")])
def test_the_average_is_taken_only_if_it_is_better(ask_for: ASK, score: float, chosen: str) -> None:
    trainer = assembled(ask_for)
    (first, second, average), end = trained(trainer, [1, 2, score])
    assert torch.allclose(average, (first + second) / 2)
    assert (end["chosen"], end["average_bleu"]) == (chosen, score)
    assert torch.equal(stack_of(trainer.translators).live, average if chosen == "average" else second)


# -- draws ---------------------------------------------------------------------------------------------------------


def said(trainer: Trainer, number: int, rank: int) -> list[list[int]]:
    """The output of a loop for the same rows in a given round of a given process."""
    gatherer = trainer.gatherer
    gatherer.processes = Processes(rank)
    (route,) = (route for route in trainer.routes if route.synthetic)
    text = gatherer.reader.read(route, {}, 40)
    start = Sentences(trainer.translators.vocab, route.path.languages[0], ids=text.starts)
    rollout = Rollout(route.path, route.settings, start)
    gatherer._generate({route.number: rollout}, {route.number: text.ends}, number)
    return [row.tolist() for row in rollout.text.ids.rows()]


def test_every_round_and_process_has_its_own_samples(ask_for: ASK) -> None:
    trainer = assembled(ask_for)
    first = said(trainer, 0, 0)
    assert said(trainer, 0, 0) == first
    assert said(trainer, 1, 0) != first
    assert said(trainer, 0, 1) != first


def test_every_update_and_process_has_its_own_dropout(ask_for: ASK) -> None:
    trainer = assembled(ask_for)
    batch = trainer._batches()[0]

    def seed(update: int, rank: int) -> int:
        trainer.processes = Processes(rank)
        trainer._learn(batch, update)
        return torch.initial_seed()

    assert seed(1, 0) == seed(1, 0)
    assert len({seed(1, 0), seed(2, 0), seed(1, 1)}) == 3


# -- loops ---------------------------------------------------------------------------------------------------------


def test_a_rollback_deletes_the_counts_of_the_collapsed_path(ask_for: ASK) -> None:
    """Otherwise the removed path would raise the same alarm and cause endless rollbacks."""
    trainer = assembled(ask_for)
    trainer._resume()
    trainer.guard.add([(1, HopRecord(Hop("en", "fr"), 100, {"empty": 100}, 100, 0, 100, 1, 0))])
    trainer._save()
    trainer._roll_back([1])
    trainer.guard.window()
    assert trainer.guard.alarms() == []


def test_loops_are_chosen_at_intervals_of_rounds(ask_for: ASK) -> None:
    trainer, asked = assembled(ask_for), []

    def choose(number: int) -> tuple[Mapping[int, float], dict[str, Any]]:
        asked.append(number)
        return {0: 1.0, 1: float(number)}, {}

    trainer._resume()
    trainer.hooks.choose, trainer.measure_every = choose, 2
    weights = []
    for trainer.progress.round in range(5):
        weights.append(trainer._weights()[1])
    assert (asked, weights) == ([0, 2, 4], [0, 0, 2, 2, 4])


# -- memory --------------------------------------------------------------------------------------------------------


def test_a_batch_that_was_split_for_memory_is_named_once(ask_for: ASK) -> None:
    """Batches of every shape do not fit; their halves do."""
    trainer, shown = assembled(ask_for, "updates = 4"), list[Json]()
    trainer.hooks.show = shown.append
    learner = trainer.learner
    assert isinstance(learner, Learner)
    failed, add = set[BatchShape](), learner.add

    def limited(batch: Batch) -> None:
        if batch.shape in trainer.shapes:
            failed.add(batch.shape)
            raise torch.OutOfMemoryError("CUDA out of memory.")
        add(batch)

    learner.add = limited  # type: ignore[method-assign]
    assert trainer.run()
    texts = [record["text"] for record in shown if record["kind"] == "notice" and "memory" in record["text"]]
    expected = {f"{shape.rows} rows of {shape.length} tokens" for shape in failed}
    assert failed and len(texts) == len(expected)
    assert all("train.accumulate = 2" in text and any(one in text for one in expected) for text in texts)
