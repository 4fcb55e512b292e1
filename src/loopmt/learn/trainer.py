"""The loop: gather a round, learn from it; log, validate and save between rounds.

Every stage of every regime runs here: what differs is the routes. The trainer owns the progress of a stage and
writes it to the stage's folder; how to validate and how to choose loops is handed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from loopmt.config import Train
from loopmt.errors import CollapseError, DivergedError
from loopmt.learn.gather import Gathered, Gatherer, Route
from loopmt.learn.guards import Alarm, Guard
from loopmt.learn.learner import Learner, learning_rate
from loopmt.model.translators import Translators
from loopmt.processes import Processes
from loopmt.rng import keyed_seed
from loopmt.run import Checkpoint, Json, StageFolder
from loopmt.text.batch import Batch, Shape, pack


@dataclass(frozen=True)
class Validation:
    """Scores on the validation set by direction; `bleu` on average chooses the best checkpoint."""

    loss: Mapping[str, float]
    bleu: Mapping[str, float]
    accuracy: Mapping[str, float] = field(default_factory=dict)  # exact, where a judge exists

    @property
    def mean_bleu(self) -> float:
        return sum(self.bleu.values()) / len(self.bleu)


@dataclass
class Progress:
    """Where a stage stands: all that a checkpoint must say beside tensors."""

    update: int = 0
    round: int = 0
    best_update: int | None = None
    best_bleu: float = -1.0
    stale: int = 0  # validations since the best
    validated: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)  # routes that collapsed
    weights: dict[str, float] = field(default_factory=dict)  # of routes, where they are chosen by measuring
    spent: dict[str, dict[str, float]] = field(default_factory=dict)  # by route: the ledger of equal budgets
    guards: list[Json] = field(default_factory=list)  # what the guard saw since the last line of the log
    seconds: dict[str, float] = field(default_factory=lambda: {"generate": 0.0, "train": 0.0, "validate": 0.0})


@dataclass
class Hooks:
    """What other rooms do for the trainer."""

    validate: Callable[[], Validation]
    choose: Callable[[int], tuple[Mapping[int, float], Json]] | None = None  # round -> weights of routes, and why
    stop: Callable[[], bool] = lambda: False
    show: Callable[[Json], None] = lambda record: None


class Trainer:
    """Takes one stage from where it stands to its end."""

    def __init__(
        self,
        routes: Sequence[Route],
        gatherer: Gatherer,
        learner: Learner,
        translators: Translators,
        folder: StageFolder,
        train: Train,
        shapes: Sequence[Shape],
        processes: Processes,
        hooks: Hooks,
        budget: int | None,
        measure_every: int,
        key: tuple[str | int, ...],
    ) -> None:
        self.routes = routes
        self.gatherer = gatherer
        self.learner = learner
        self.translators = translators
        self.folder = folder
        self.train = train
        self.shapes = shapes
        self.processes = processes
        self.hooks = hooks
        self.budget = budget
        self.measure_every = measure_every
        self.key = key
        self.progress = Progress()
        self.guard = Guard(routes)
        self._window = _Window()

    # -- the loop --------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Train to the end of the stage; False if it was asked to stop before."""
        self._resume()
        while not self._ended():
            started = self.progress.update
            for number, batch in enumerate(self._batches(), 1):
                self._learn(batch, started + number)
            self.progress.round += 1
            self._after_round(started)
            if self.processes.tell(self.hooks.stop()):
                self._save()
                return self._ended() and self._finish()
        return self._finish()

    def _ended(self) -> bool:
        if self.budget is not None:
            return self.progress.update >= self.budget
        return self.progress.stale >= self.train.patience or self.progress.update >= self.train.max_updates

    def _batches(self) -> list[Batch]:
        """The batches of the next round."""
        number, progress = self.progress.round, self.progress
        gathered = self.gatherer.round(number, self._weights())
        last = self.budget if self.budget is not None else self.train.max_updates
        updates = min(self.train.round, last - progress.update)
        batches = pack(gathered.networks, self.shapes, updates, *self.key, "pack", number)[:updates]
        self._account(gathered, batches)
        return batches

    def _weights(self) -> dict[int, float]:
        """Weights of the routes in this round."""
        progress = self.progress
        if self.hooks.choose and progress.round % self.measure_every == 0:
            weights, why = self.processes.tell(self.hooks.choose(progress.round) if self.processes.first else None)
            progress.weights = {str(route): weight for route, weight in weights.items()}
            self._write({"kind": "choice", "update": progress.update, "round": progress.round, "worth": why})
        weights = {
            route.number: route.entry.weight for route in self.routes if route.entry.from_update <= progress.update
        }
        if self.hooks.choose:
            weights = {int(route): weight for route, weight in progress.weights.items()}
        return {route: weight for route, weight in weights.items() if route not in progress.dropped}

    def _learn(self, batch: Batch, update: int) -> None:
        started = time.perf_counter()
        torch.manual_seed(keyed_seed(*self.key, "dropout", update, self.processes.rank))
        self.learner.update(batch, update, learning_rate(self.train, update))
        self.progress.update = update
        self.progress.seconds["train"] += time.perf_counter() - started

    # -- between rounds --------------------------------------------------------------------------------------

    def _after_round(self, started: int) -> None:
        if self._due(self.train.log_every, started) or self._ended():
            self._log()
        alarms = self.guard.alarms()
        if self._due(self.train.validate_every, started) or self._ended():
            self._validate()
            self._save()
        if alarms:
            self._sound(alarms)

    def _due(self, every: int, started: int) -> bool:
        return self.progress.update // every > started // every

    def _account(self, gathered: Gathered, batches: Sequence[Batch]) -> None:
        """Enter a round into the ledger of equal budgets."""
        self.progress.seconds["generate"] += gathered.seconds
        self._window.add(gathered, batches)
        self.guard.add(gathered.records)
        for route in self.routes:
            entry = self.progress.spent.setdefault(str(route.path), {"rows": 0, "target_tokens": 0, "real_rows": 0})
            entry["real_rows"] += gathered.read.get(route.number, 0)
            for batch in batches:
                mine = batch.paths_NB == route.number
                entry["rows"] += int(mine.sum())
                entry["target_tokens"] += int((batch.target_NBL[mine] != 0).sum())

    def _log(self) -> None:
        self._check_finite()
        tally = self.learner.tally
        record = {
            "kind": "train",
            "update": self.progress.update,
            "round": self.progress.round,
            "learning_rate": learning_rate(self.train, self.progress.update),
            **self._losses(),
            "norm": dict(
                zip(self.translators.names(), (tally.norms / tally.updates.clamp_min(1)).tolist(), strict=True)
            ),
            **self._window.summary(),
            "guards": [asdict(record) for record in self.guard.window()],
            "weights": self.progress.weights,
        }
        tally.clear()
        self._window = _Window()
        self._write(record)

    def _losses(self) -> Json:
        sums = [self.processes.sum(tensor.clone()) for tensor in (self.learner.tally.loss, self.learner.tally.tokens)]
        loss, tokens = (tensor.sum(0).tolist() for tensor in sums)
        return {
            "loss": {
                str(route.path): loss[route.number] / max(tokens[route.number], 1)
                for route in self.routes
                if tokens[route.number]
            },
            "tokens": {str(route.path): int(tokens[route.number]) for route in self.routes if tokens[route.number]},
        }

    def _check_finite(self) -> None:
        bad = self.learner.tally.bad_update.tolist()
        if max(bad) < 0:
            return
        network = next(number for number, update in enumerate(bad) if update >= 0)
        broken = ~self.learner.tally.loss[network].isfinite()
        paths = [str(self.routes[number].path) for number in broken.nonzero()[:, 0].tolist()] or ["(gradient only)"]
        raise DivergedError(
            f'stage "{self.folder.name}": the gradient of {self.translators.names()[network]} was not finite at update '
            f"{bad[network]}, path {', '.join(paths)}. The weights were not touched by it. "
            'Lower train.learning_rate, lengthen train.warmup or set train.precision = "float32"; '
            "the same command resumes from the last checkpoint."
        )

    def _validate(self) -> None:
        started = time.perf_counter()
        validation = self.processes.tell(self.hooks.validate() if self.processes.first else None)
        self.progress.seconds["validate"] += time.perf_counter() - started
        progress, bleu = self.progress, validation.mean_bleu
        if bleu > progress.best_bleu:
            progress.best_bleu, progress.best_update, progress.stale = bleu, progress.update, 0
        else:
            progress.stale += 1
        progress.validated.append(progress.update)
        self._write({"kind": "valid", "update": progress.update, "mean_bleu": bleu, **asdict(validation)})

    def _write(self, record: Json) -> None:
        if self.processes.first:
            self.folder.log(record)
            self.hooks.show(record)

    def _sound(self, alarms: Sequence[Alarm]) -> None:
        """A generator collapsed: say so, and do what the experiment asked for."""
        for alarm in alarms:
            self._write({"kind": "alarm", "update": self.progress.update, **alarm.as_json()})
        if self.train.on_collapse == "stop":
            self._save()
            raise CollapseError(
                f'stage "{self.folder.name}", update {self.progress.update}: {alarms[0]}. It stopped because of '
                'train.on_collapse = "stop"; change the path\'s `generate`, its weight, or start from better translators.'
            )
        if self.train.on_collapse == "rollback":
            self._roll_back([alarm.route for alarm in alarms])

    def _roll_back(self, routes: Sequence[int]) -> None:
        """Back to the newest checkpoint, without the routes that collapsed."""
        checkpoint = self.folder.newest()
        dropped = sorted({*self.progress.dropped, *routes})
        if checkpoint is not None:
            self._restore(checkpoint)
        self.progress.dropped = dropped
        self.guard.forget(routes)
        self._save()

    # -- saving ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._check_finite()
        self.progress.guards = self.guard.state()
        if self.processes.first:
            tensors = {"weights": self.translators.named(), "optimizer": self.learner.tensors()}
            keep = {*self.progress.validated[-self.train.average :], self.progress.best_update}
            self.folder.save(Checkpoint(self.progress.update, tensors, asdict(self.progress)), keep)
        self.processes.wait()

    def _resume(self) -> None:
        checkpoint = self.folder.newest()
        if checkpoint is None:
            if self.processes.first:
                self.folder.cut_log(0)
            self._save()
            return
        self._restore(checkpoint)

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = dict(checkpoint.state)
        if self.processes.first:
            self.folder.cut_log(state.pop("metrics_bytes", 0))
        state.pop("metrics_bytes", None)
        self.progress = Progress(**state)
        self.translators.load(checkpoint.tensors["weights"])
        self.learner.load(checkpoint.tensors["optimizer"])
        self.learner.tally.clear()
        self._window = _Window()
        self.guard = Guard(self.routes, self.progress.guards)

    def _finish(self) -> bool:
        """The stage's result: the best checkpoint, or the average of the last if validation says it is better."""
        if self.progress.update not in self.progress.validated:
            self._validate()
            self._save()
        best = self.progress.best_update
        averaged, bleu = self._average(), None
        if averaged is not None:
            self.translators.load(averaged)
            bleu = self.processes.tell(self.hooks.validate().mean_bleu if self.processes.first else None)
        chosen = "average" if bleu is not None and bleu > self.progress.best_bleu else "best"
        if chosen == "best" and best is not None:
            self.translators.load(self.folder.weights(best))
        summary = {**asdict(self.progress), "chosen": chosen, "average_bleu": bleu}
        if self.processes.first:
            self.folder.log({"kind": "end", **summary})
            self.folder.finish(Checkpoint(self.progress.update, {"weights": self.translators.named()}, summary))
        self.processes.wait()
        return True

    def _average(self) -> dict[str, torch.Tensor] | None:
        updates = self.progress.validated[-self.train.average :]
        if len(updates) < 2:
            return None
        total = {name: tensor.clone() for name, tensor in self.folder.weights(updates[0]).items()}
        for update in updates[1:]:
            for name, tensor in self.folder.weights(update).items():
                total[name] += tensor
        return {name: tensor / len(updates) for name, tensor in total.items()}


@dataclass
class _Window:
    """Sums since the last line of the log."""

    started: float = field(default_factory=time.perf_counter)
    generate_seconds: float = 0.0
    generated_tokens: int = 0
    target_tokens: int = 0
    places: int = 0

    def add(self, gathered: Gathered, batches: Sequence[Batch]) -> None:
        self.generate_seconds += gathered.seconds
        self.generated_tokens += gathered.generated_tokens
        self.target_tokens += int(sum(int(batch.target_tokens.sum()) for batch in batches))
        self.places += int(sum(np.prod(batch.target_NBL.shape) for batch in batches))

    def summary(self) -> dict[str, Any]:
        seconds = time.perf_counter() - self.started
        return {
            "seconds": seconds,
            "tokens_per_second": self.target_tokens / max(seconds, 1e-9),
            "generated_tokens": self.generated_tokens,
            "generate_share": self.generate_seconds / max(seconds, 1e-9),
            "padding": 1 - self.target_tokens / max(self.places, 1),
        }
