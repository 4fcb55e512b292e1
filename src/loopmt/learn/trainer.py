"""The training loop: gather a round and learn from it, then log, validate and save.

Stages differ only in their routes. The trainer owns the training state and writes it to the stage folder; validation
and the choice of loops are hooks.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch

from loopmt.distributed import synchronize
from loopmt.errors import CollapseError, DivergedError
from loopmt.evaluation.validation import ValidationScores
from loopmt.learn import ledger
from loopmt.learn.alarms import Alarm, AlarmMonitor, validation_alarms
from loopmt.learn.averaging import average_checkpoints
from loopmt.learn.gather import GatheredRound, Gatherer
from loopmt.learn.learner import StageLearner
from loopmt.learn.objectives import measures_of
from loopmt.learn.reading import ReadPosition
from loopmt.learn.resume import CheckpointWriter, LogWindow, TrainingState, carried_rows, carried_tensors
from loopmt.learn.routes import StageSetup
from loopmt.learn.schedule import learning_rate
from loopmt.rng import keyed_seed
from loopmt.run import Checkpoint, Json, StageFolder
from loopmt.text.batch import Batch, Rows
from loopmt.text.packing import pack


@dataclass
class TrainerHooks:
    """Functions of other packages that the trainer calls."""

    validate: Callable[[], ValidationScores]
    choose: Callable[[int], tuple[Mapping[int, float], Json]] | None = None  # round -> weights of routes, and reasons
    stop: Callable[[], bool] = lambda: False
    show: Callable[[Json], None] = lambda record: None
    begin: Callable[[Trainer, bool], None] = lambda trainer, resumed: None  # before the first update


class Trainer:
    """Trains one stage from its current state to its end."""

    def __init__(
        self, setup: StageSetup, gatherer: Gatherer, learner: StageLearner, folder: StageFolder, hooks: TrainerHooks
    ) -> None:
        self.routes = setup.routes
        self.measures = measures_of(setup.objectives)
        self.gatherer = gatherer
        self.learner = learner
        self.translators = learner.translators
        self.folder = folder
        self.train = setup.train
        self.shapes = setup.shapes
        self.processes = setup.processes
        self.hooks = hooks
        self.budget = setup.updates
        self.measure_every = setup.measure_every
        self.key = setup.key
        self.progress = TrainingState()
        self.carried: list[Rows] = []  # gathered rows that were not used yet
        self.guards = setup.guards
        self.guard = AlarmMonitor(setup.routes, guards=setup.guards)
        self._window = LogWindow()
        self.saver = CheckpointWriter(folder, background=self.translators.device.type == "cuda")

    # -- the loop --------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Train to the end of the stage. Return False if it was stopped before."""
        try:
            return self._run()
        finally:
            self.saver.wait()

    def _run(self) -> bool:
        began = time.perf_counter()
        self._resume()
        while not self._ended():
            started = self.progress.update
            for number, batch in enumerate(self._batches(), 1):
                self._learn(batch, started + number)
                if self.progress.first_update is None:
                    synchronize(self.translators.device)
                    self.progress.first_update = time.perf_counter() - began
            self.learner.publish()
            self.progress.round += 1
            self._after_round(started)
            if any(self.processes.all_gather(self.hooks.stop())):
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
        weights = self._weights()
        streams = {int(route): ReadPosition(**stream) for route, stream in progress.streams.items()}
        last = self.budget if self.budget is not None else self.train.max_updates
        updates = min(self.train.round, last - progress.update)
        gathered = self.gatherer.round(number, weights, streams, updates, self.carried)
        packed = pack(gathered.networks, self.shapes, updates, *self.key, "pack", number)
        if not packed.batches:
            raise self._starved(weights, gathered)
        self.carried = packed.left
        self._account(gathered, packed.batches)
        return packed.batches

    def _starved(self, weights: Mapping[int, float], gathered: GatheredRound) -> CollapseError:
        paths = ", ".join(str(route) for route in self.routes if weights.get(route.number)) or "none"
        reasons = sum((Counter(record.dropped) for _, record in gathered.records), Counter[str]())
        why = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()) or "none"
        return CollapseError(
            f'stage "{self.folder.name}", update {self.progress.update}: no rows to learn from. Paths: {paths}; '
            f"rows dropped by filters: {why}. Start from better translators, change how the paths generate, or add "
            "real pairs."
        )

    def _weights(self) -> dict[int, float]:
        """The weights of the routes in this round."""
        progress = self.progress
        if self.hooks.choose and progress.round % self.measure_every == 0:
            self._choose(self.hooks.choose)
        weights = {
            route.number: route.entry.weight for route in self.routes if route.entry.from_update <= progress.update
        }
        if self.hooks.choose:
            weights = {int(route): weight for route, weight in progress.weights.items()}
        return {route: weight for route, weight in weights.items() if route not in progress.dropped}

    def _choose(self, choose: Callable[[int], tuple[Mapping[int, float], Json]]) -> None:
        """Choose the weights of the next rounds. Log the reasons and the time that it took."""
        progress, started = self.progress, time.perf_counter()
        weights, why = self.processes.broadcast(choose(progress.round) if self.processes.is_main else None)
        progress.weights = {str(route): weight for route, weight in weights.items()}
        seconds = time.perf_counter() - started
        self._window.choose_seconds += seconds
        progress.seconds["choose"] = progress.seconds.get("choose", 0.0) + seconds
        share = progress.seconds["choose"] / (sum(progress.seconds.values()) + self._window.unlogged())
        place = {"kind": "choice", "update": progress.update, "round": progress.round}
        self.write({**place, **why, "seconds": seconds, "time_share": share})

    def _learn(self, batch: Batch, update: int) -> None:
        torch.manual_seed(keyed_seed(*self.key, "dropout", update, self.processes.rank))
        split_shapes = len(self.learner.splitting.halved)
        self.learner.update(batch, update, learning_rate(self.train, update, self.budget))
        self.progress.update = update
        if len(self.learner.splitting.halved) > split_shapes:
            self.notice(
                f"a batch of {batch.shape.rows} rows of {batch.shape.length} tokens did not fit into memory; batches "
                f"of this shape are computed in halves. train.accumulate = {2 * self.train.accumulate} does so from "
                "the start."
            )
        self._show_progress("update")

    def notice(self, text: str) -> None:
        """Show a line without logging it."""
        if self.processes.is_main:
            self.hooks.show({"kind": "notice", "update": self.progress.update, "text": text})

    def _show_progress(self, kind: str) -> None:
        """Show an event without logging it."""
        if self.processes.is_main:
            self.hooks.show({"kind": kind, "update": self.progress.update})

    # -- between rounds --------------------------------------------------------------------------------------

    def _after_round(self, started: int) -> None:
        if self._due(self.train.log_every, started) or self._ended():
            self._log()
        if alarms := self.guard.alarms():
            self._handle(alarms)  # before saving, so that a killed run repeats it
        if self._due(self.train.validate_every, started) or self._ended():
            alarms = self._validate()
            self._save()
            self._stop_at(alarms)

    def _due(self, every: int, started: int) -> bool:
        return self.progress.update // every > started // every

    def _account(self, gathered: GatheredRound, batches: Sequence[Batch]) -> None:
        """Add a round to the ledger, the log window and the alarm monitor."""
        self.progress.seconds["generate"] += gathered.generate_seconds
        self._window.add(gathered, batches)
        self.guard.add(gathered.records)
        self.progress.streams |= {str(number): asdict(stream) for number, stream in gathered.streams.items()}
        ledger.enter(self.progress.spent, self.routes, gathered, batches)

    def _log(self) -> None:
        self._check_finite()
        tally = self.learner.tally
        # measured after reading the tally, which waits for the GPU
        summary = self._window.summary()
        self.progress.seconds["train"] += self._window.learning(summary["seconds"])
        record = {
            "kind": "train",
            "update": self.progress.update,
            "round": self.progress.round,
            "learning_rate": learning_rate(self.train, self.progress.update, self.budget),
            **self._losses(),
            "norm": dict(
                zip(self.translators.names(), (tally.norms / tally.updates.clamp_min(1)).tolist(), strict=True)
            ),
            **summary,
            **self._measured(),
            "first_update": self.progress.first_update,
            "guards": [asdict(record) for record in self.guard.window()],
            "weights": self.progress.weights,
        }
        tally.clear()
        self._window = LogWindow()
        self.write(record)

    def _losses(self) -> Json:
        tally = self._tally_tensors()
        loss, tokens = (tally[name].sum(0).tolist() for name in ("tally.loss", "tally.tokens"))
        sums: dict[str, list[float]] = {}  # a path may be in the mix twice, with different settings
        for route in self.routes:
            own = sums.setdefault(str(route), [0.0, 0])
            own[0], own[1] = own[0] + loss[route.number], own[1] + tokens[route.number]
        return {
            "loss": {path: own[0] / own[1] for path, own in sums.items() if own[1]},
            "tokens": {path: int(own[1]) for path, own in sums.items() if own[1]},
        }

    def _measured(self) -> Json:
        """Means over rows, by measure and route, of rewards and of the measures of objectives."""
        sums = {measure: dict(own) for measure, own in self._window.measured.items()}
        tally = self._tally_tensors() if self.measures else {}
        for number, measure in enumerate(self.measures):
            totals, rows = (tally[f"tally.{name}"][number].sum(0).tolist() for name in ("measured", "measured_rows"))
            for route in self.routes:
                old = sums.setdefault(measure, {}).get(str(route), (0.0, 0))
                sums[measure][str(route)] = [old[0] + totals[route.number], old[1] + rows[route.number]]
        means = {name: {path: one[0] / one[1] for path, one in own.items() if one[1]} for name, own in sums.items()}
        return {"measured": means} if means else {}

    def _check_finite(self) -> None:
        bad = self.learner.tally.bad_update.tolist()
        if max(bad) < 0:
            return
        network = next(number for number, update in enumerate(bad) if update >= 0)
        broken = ~self._tally_tensors()["tally.loss"][network].isfinite()
        paths = [str(self.routes[number]) for number in broken.nonzero()[:, 0].tolist()] or ["(gradient only)"]
        raise DivergedError(
            f'stage "{self.folder.name}": the gradient of {self.translators.names()[network]} was not finite at update '
            f"{bad[network]}, path {', '.join(paths)}. The weights were not changed by it. "
            f"In the stage's `train`, which overrides [train] and train.continued, lower learning_rate (now "
            f'{self.train.learning_rate:g}), increase warmup (now {self.train.warmup}) or set precision = "float32", '
            "and rename the stage."
        )

    def _validate(self) -> list[Alarm]:
        """Score the current weights. Log and return the alarms of their outputs."""
        started = time.perf_counter()
        validation = self.processes.broadcast(self.hooks.validate() if self.processes.is_main else None)
        seconds = time.perf_counter() - started
        self.progress.seconds["validate"] += seconds
        self._window.validate_seconds += seconds
        self.progress.enter(validation)
        means = {name: getattr(validation, name) for name in ("mean_bleu", "mean_accuracy", "mean_selected")}
        self.write({"kind": "valid", "update": self.progress.update, **means, **asdict(validation)})
        taught = {hop: one for hop, one in validation.outputs.items() if hop not in validation.untaught}
        alarms = validation_alarms(taught, self.guards)
        for alarm in alarms:
            self.write({"kind": "alarm", "update": self.progress.update, **alarm.as_json()})
        return alarms

    def write(self, record: Json) -> None:
        """Log and show a record."""
        if self.processes.is_main:
            self.folder.log(record)
            self.hooks.show(record)

    def _handle(self, alarms: Sequence[Alarm]) -> None:
        """Log alarms and act according to `on_collapse`."""
        records = [{"kind": "alarm", "update": self.progress.update, **alarm.as_json()} for alarm in alarms]
        if self.train.on_collapse == "rollback":
            self._roll_back([alarm.route for alarm in alarms])
        for record in records:
            self.write(record)
        if self.train.on_collapse != "warn":
            self._save()
        self._stop_at(alarms)

    def _stop_at(self, alarms: Sequence[Alarm]) -> None:
        if alarms and self.train.on_collapse == "stop":
            raise CollapseError(
                f'stage "{self.folder.name}", update {self.progress.update}: {alarms[0]}. Training stopped because '
                'of train.on_collapse = "stop". Change how the path generates or its weight, or start from better '
                "translators."
            )

    def _roll_back(self, routes: Sequence[int]) -> None:
        """Restore the last validated state, without the routes that collapsed."""
        self._wait_until_saved()
        dropped = sorted({*self.progress.dropped, *routes})
        self._restore(self.folder.at(self._safe_update()))
        self.progress.dropped = dropped
        self.guard.remove(routes)

    def _safe_update(self) -> int:
        """The last validated update, to which a rollback returns. Checkpoints saved at a pause do not count."""
        return self.progress.validated[-1] if self.progress.validated else 0

    # -- saving ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._check_finite()
        self.progress.guards = self.guard.state()
        self.progress.window = self._window.state()
        optimizer = {**self.learner.tensors(), **self._tally_tensors(), **carried_tensors(self.carried)}
        if self.processes.is_main:
            tensors = {"weights": self.translators.named(), "optimizer": optimizer}
            keep = {*self.progress.validated[-self.train.average :], self.progress.best_update}
            checkpoint = Checkpoint(self.progress.update, tensors, asdict(self.progress))
            self.saver.save(checkpoint, keep, self._safe_update())
        self.processes.barrier()

    def _wait_until_saved(self) -> None:
        """Wait for the main process, which may write in the background, before any process reads."""
        self.saver.wait()
        self.processes.barrier()

    def _tally_tensors(self) -> dict[str, torch.Tensor]:
        """The sums of all processes since the last log record."""
        tally = self.learner.tally
        sums = {f"tally.{name}": self.processes.all_reduce(tensor.clone()) for name, tensor in tally.summed.items()}
        return {**sums, "tally.norms": tally.norms, "tally.updates": tally.updates}

    def _resume(self) -> None:
        checkpoint = self.folder.newest()
        if checkpoint is None:
            if self.processes.is_main:
                self.folder.cut_log(0)
            self.hooks.begin(self, False)
            self._window = LogWindow()
            self._save()
            return
        self._restore(checkpoint)
        self.hooks.begin(self, True)
        if self.progress.update:
            self._show_progress("resumed")

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = dict(checkpoint.state)
        if self.processes.is_main:
            self.folder.cut_log(state.pop("metrics_bytes", 0))
        state.pop("metrics_bytes", None)
        self.progress = TrainingState(**state)
        self.translators.load(checkpoint.tensors["weights"])
        self.learner.load(checkpoint.tensors["optimizer"])
        self.carried = carried_rows(checkpoint.tensors["optimizer"])
        self.learner.tally.clear()
        for name, tensor in checkpoint.tensors["optimizer"].items():
            if name in ("tally.norms", "tally.updates") or (name.startswith("tally.") and self.processes.is_main):
                getattr(self.learner.tally, name.removeprefix("tally.")).copy_(tensor)
        self._window = LogWindow.resumed(self.progress.window)
        self.guard = AlarmMonitor(self.routes, self.progress.guards, self.guards)

    def _finish(self) -> bool:
        """Write the result: the best checkpoint, or the average of the last ones if it validates better."""
        if self.progress.update not in self.progress.validated:
            self._validate()
            self._save()
        self._wait_until_saved()
        best = self.progress.best_update
        averaged = average_checkpoints(self.folder, self.progress.validated[-self.train.average :])
        scores = None
        if averaged is not None:
            self.translators.load(averaged)
            scores = self.processes.broadcast(self.hooks.validate() if self.processes.is_main else None)
        chosen = "average" if scores is not None and scores.quality > self.progress.best else "best"
        if chosen == "best" and best is not None:
            self.translators.load(self.folder.weights(best))
        summary = {**asdict(self.progress), "chosen": chosen, "average_bleu": scores and scores.mean_bleu}
        share = ledger.SyntheticShare.of(self.progress.spent)
        if share.missed:
            self.notice(share.warning())
        self.processes.barrier()  # other processes may still read the checkpoints, which are deleted next
        if self.processes.is_main:
            self.folder.log({"kind": "end", **summary})
            self.folder.finish(Checkpoint(self.progress.update, {"weights": self.translators.named()}, summary))
        self.processes.barrier()
        return True
