"""The training state of a stage for exact resume, sums since the last log record, and writing checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopmt.evaluation.validation import ValidationScores
from loopmt.learn.gather import GatheredRound
from loopmt.run import Checkpoint, Json, StageFolder
from loopmt.text.batch import Batch, Rows
from loopmt.text.ragged import Ints, Ragged

PARTS = ("generate", "train", "validate", "choose")  # of a stage's time
_NAME = "carried"  # the prefix of the tensors' names


# -- rows that a round gathered and did not use --------------------------------------------------------------------


def carried_tensors(networks: Sequence[Rows]) -> dict[str, Tensor]:
    """The rows of every network as tensors of a checkpoint."""
    rows = Rows.join(networks)
    columns = {
        "sources": rows.sources.flat,
        "source_lengths": rows.sources.lengths,
        "targets": rows.targets.flat,
        "target_lengths": rows.targets.lengths,
        "paths": rows.paths,
    }
    tensors = {f"{_NAME}.{name}": torch.from_numpy(table.astype(np.int32)) for name, table in columns.items()}
    tensors[f"{_NAME}.groups"] = torch.from_numpy(rows.groups.copy())  # 64 bits
    tensors[f"{_NAME}.factors"] = torch.from_numpy(rows.factors.copy())
    tensors[f"{_NAME}.scores"] = torch.from_numpy(rows.scores.copy())
    return tensors


def carried_rows(tensors: Mapping[str, Tensor]) -> list[Rows]:
    """The rows of all networks in one table; empty for checkpoints of older versions, which have none."""
    if f"{_NAME}.paths" not in tensors:
        return []

    def table(name: str) -> Ints:
        return tensors[f"{_NAME}.{name}"].numpy().astype(np.int64)

    sources, targets = (_ragged(table(f"{side}s"), table(f"{side}_lengths")) for side in ("source", "target"))
    factors = tensors[f"{_NAME}.factors"]
    scores = tensors.get(f"{_NAME}.scores", torch.zeros_like(factors))  # older versions had no rewards
    return [Rows(sources, targets, table("paths"), table("groups"), factors.numpy(), scores.numpy())]


def _ragged(flat: Ints, lengths: Ints) -> Ragged:
    return Ragged(flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


# -- the state of training -----------------------------------------------------------------------------------------


@dataclass
class TrainingState:
    """The state of a stage that checkpoints hold beside tensors."""

    update: int = 0
    round: int = 0
    best_update: int | None = None
    best_bleu: float = -1.0  # score of the best update
    best_quality: float | None = None  # by the selection metric; older checkpoints used BLEU
    stale: int = 0  # validations since the best one
    validated: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)  # routes that collapsed
    weights: dict[str, float] = field(default_factory=dict)  # of routes, for `mix = "auto"`
    spent: dict[str, dict[str, float]] = field(default_factory=dict)  # by path: the ledger of token budgets
    streams: dict[str, Json] = field(default_factory=dict)  # by route: its read position
    guards: dict[str, list[Json]] = field(default_factory=dict)  # counts of the alarm monitor
    window: Json = field(default_factory=dict)  # sums since the last log record
    threads: int | None = None  # CPU threads at the beginning of the stage; a resumed stage uses the same number
    first_update: float | None = None  # seconds until the first update was done, including graph capture
    seconds: dict[str, float] = field(
        default_factory=lambda: {"generate": 0.0, "train": 0.0, "validate": 0.0, "choose": 0.0}
    )

    @property
    def best(self) -> float:
        if self.best_quality is not None:
            return self.best_quality
        return self.best_bleu if self.validated else -math.inf

    def enter(self, validation: ValidationScores) -> None:
        """Record a validation; of equal ones, the later is the best."""
        self.stale = 0 if validation.quality > self.best else self.stale + 1
        if validation.quality >= self.best:
            self.best_quality, self.best_bleu = validation.quality, validation.mean_bleu
            self.best_update = self.update
        self.validated.append(self.update)


@dataclass
class LogWindow:
    """Sums since the last log record."""

    started: float = field(default_factory=time.perf_counter)
    generate_seconds: float = 0.0
    generated_tokens: float = 0
    validate_seconds: float = 0.0
    choose_seconds: float = 0.0
    source_tokens: float = 0
    target_tokens: float = 0
    places: float = 0
    updates: float = 0
    rounds: float = 0
    measured: dict[str, dict[str, Sequence[float]]] = field(default_factory=dict)  # by measure and route: sum and rows

    def add(self, gathered: GatheredRound, batches: Sequence[Batch]) -> None:
        self.generate_seconds += gathered.generate_seconds
        self.generated_tokens += gathered.generated_tokens
        self.source_tokens += sum(batch.source_tokens for batch in batches)
        self.target_tokens += sum(int(batch.target_tokens.sum()) for batch in batches)
        self.places += sum(batch.target_NBL.size for batch in batches)
        self.updates += len(batches)
        self.rounds += 1
        for measure, sums in gathered.measured.items():
            before = self.measured.setdefault(measure, {})
            for name, (total, rows) in sums.items():
                old = before.get(name, (0.0, 0))
                before[name] = [old[0] + total, old[1] + rows]

    @classmethod
    def resumed(cls, state: Mapping[str, Any]) -> LogWindow:
        return cls(**{**state, "started": time.perf_counter() - state["started"]})

    def state(self) -> Json:
        """The sums, for a checkpoint; the start time is stored as elapsed seconds."""
        return {**asdict(self), "started": time.perf_counter() - self.started}

    def learning(self, seconds: float) -> float:
        """The part of `seconds` spent on neither generation, validation nor the choice of loops."""
        return seconds - self.generate_seconds - self.validate_seconds - self.choose_seconds

    def unlogged(self) -> float:
        """Seconds of learning since the last log record."""
        return self.learning(time.perf_counter() - self.started)

    def summary(self) -> dict[str, Any]:
        seconds = time.perf_counter() - self.started
        return {
            "seconds": seconds,
            "tokens_per_second": self.target_tokens / max(seconds, 1e-9),
            "learnt_per_second": self.target_tokens / max(self.learning(seconds), 1e-9),
            "generated_tokens": self.generated_tokens,
            "generated_per_second": self.generated_tokens / max(self.generate_seconds, 1e-9),
            "generate_share": self.generate_seconds / max(seconds, 1e-9),
            "source_padding": 1 - self.source_tokens / max(self.places, 1),
            "padding": 1 - self.target_tokens / max(self.places, 1),
            "updates_per_round": self.updates / max(self.rounds, 1),  # the generators' staleness
        }


class CheckpointWriter:
    """Writes the checkpoints of a stage in order, in a background thread if wanted."""

    def __init__(self, folder: StageFolder, background: bool) -> None:
        self.folder = folder
        self._writer = ThreadPoolExecutor(1, "checkpoint") if background else None
        self._pending: Future[None] | None = None

    def save(self, checkpoint: Checkpoint, keep: Collection[int | None], whole: int) -> None:
        self.wait()
        checkpoint = self.folder.stamped(checkpoint)
        if self._writer is None:
            self.folder.save(checkpoint, keep, whole)
        else:
            self._pending = self._writer.submit(self.folder.save, _copied(checkpoint), frozenset(keep), whole)

    def wait(self) -> None:
        """Wait for the background writer and raise its errors."""
        pending, self._pending = self._pending, None
        if pending:
            pending.result()


def _copied(checkpoint: Checkpoint) -> Checkpoint:
    tensors = {
        name: {key: tensor.detach().to("cpu", copy=True) for key, tensor in group.items()}
        for name, group in checkpoint.tensors.items()
    }
    return Checkpoint(checkpoint.update, tensors, checkpoint.state)
