"""`loopmt generate`: writes the rows of a path: generated sources, real targets.

OUT/generate.json           what is generated from what; a second call with other settings is refused
OUT/chunks/NNNNNN.json      finished chunks, which a second call skips; any process may make any of them
OUT/synthetic.{fr,en,scores.tsv}    the joined chunks, once all exist
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from loopmt.config import Generate, Stage, Train
from loopmt.distributed import Processes, device_of_this_process
from loopmt.errors import DamagedError, LockedError, PathError, RunError, listed
from loopmt.files.regular import creating, has_file, make_subfolder, refuse_unsafe
from loopmt.path import LanguagePath
from loopmt.progress import Progress
from loopmt.run import Json, Run, read_json, write_json
from loopmt.text.store import Side
from loopmt.translate.filters import SyntheticTextFilter
from loopmt.translate.long_text import one_line
from loopmt.translate.protocol import DecodeLimits, Sentences, TrainableModel
from loopmt.translate.walker import Rollout, Translators, generate_along, recorder
from loopmt.workflow.models import result_of
from loopmt.workflow.permission import require_permission
from loopmt.workflow.settings import FILTERING
from loopmt.workflow.stage_choice import choose_stage
from loopmt.workflow.stages import TrainingContext, text_filter_of

_NAME = "synthetic"


@dataclass(frozen=True)
class GenerateOptions:
    """What the user asked for."""

    run: Path
    path: str
    out: Path
    stage: str | None = None
    how: Generate = field(default_factory=Generate)
    limit: int | None = None
    shard: tuple[int, int] = (0, 1)  # this process's number, counted from 0, and how many there are
    chunk: int = 2000
    seed: int = 1


@dataclass(frozen=True)
class GenerationResult:
    """The rows that all processes have generated so far."""

    chunks_done: int
    chunks: int
    rows: int
    kept: int
    dropped: dict[str, int]
    files: list[Path]  # empty until every chunk is there


def generate(options: GenerateOptions, progress: Progress) -> GenerationResult | None:
    """Make this process's chunks; the process that finds all chunks finished joins them. The first one reports."""
    device = device_of_this_process()
    processes = Processes.join(device)
    try:
        job = GenerationJob.open(options, device)
        if processes.is_main:
            job.set_up()
        processes.barrier()
        number, count = options.shard
        job.make(number * processes.size + processes.rank, count * processes.size, progress)
        processes.barrier()
        if processes.is_main:
            job.assemble()
        return job.result() if processes.is_main else None
    finally:
        processes.leave()


@dataclass(frozen=True)
class GenerationJob:
    """Rows of one path, chunk by chunk."""

    options: GenerateOptions
    path: LanguagePath
    context: TrainingContext
    stage: Stage
    networks: TrainableModel
    sides: tuple[Side, Side]

    @classmethod
    def open(cls, options: GenerateOptions, device: torch.device) -> GenerationJob:
        path = LanguagePath.parse(options.path)
        if not path.generating:
            raise PathError(
                f"path {path} generates nothing: its last hop learns. "
                f"Close it ({path}>{path.languages[0]}), or translate text with `loopmt translate`."
            )
        context = TrainingContext.open(Run.open(options.run), device, Processes())
        require_permission(context.run, context.experiment.guards.filters)
        stage = choose_stage(context.run, context.experiment, options.stage)
        networks = result_of(context.run, context.experiment, stage, device)
        for hop in path.generating:
            networks.network(hop)
        return cls(options, path, context, stage, networks, context.store.ends(*path.ends))

    @property
    def train(self) -> Train:
        return self.context.experiment.training(self.stage)

    @property
    def rows(self) -> int:
        return min(len(self.sides[0]), self.options.limit or len(self.sides[0]))

    @property
    def chunks(self) -> int:
        return -(-self.rows // self.options.chunk)

    def file(self, chunk: int) -> Path:
        return self.options.out / "chunks" / f"{chunk:06d}.json"

    @property
    def files(self) -> list[Path]:
        names = [self.path.taught.source, self.path.taught.target, "scores.tsv"]
        return [self.options.out / f"{_NAME}.{name}" for name in names]

    # -- making ----------------------------------------------------------------------------------------------

    def settings(self) -> Json:
        return {
            "path": str(self.path),
            "stage": self.stage.name,
            "result": self.context.run.stage(self.stage.name).result_digest(),
            "how": self.options.how.model_dump(mode="json"),
            "rows": self.rows,
            "chunk": self.options.chunk,
            "seed": self.options.seed,
            "guards": self.context.experiment.guards.model_dump(include=FILTERING, exclude_defaults=True) or None,
        }

    def set_up(self) -> None:
        file = self.options.out / "generate.json"
        refuse_unsafe(self.options.out, [".lock", "generate.json", *(one.name for one in self.files)], ["chunks"])
        if has_file(file):
            self._check_same(read_json(file)["settings"])
            return
        self._refuse_unknown_files(file)
        try:
            make_subfolder(self.options.out, "chunks")
        except OSError as error:
            raise RunError(f"{self.options.out} cannot be made: {error.strerror}. Choose another --out.") from None
        write_json(file, {"settings": self.settings(), "finished": None})

    def _refuse_unknown_files(self, begun: Path) -> None:
        """Refuse a folder with other files. Another shard may create ours at the same time."""
        out = self.options.out
        found = [*out.iterdir(), *out.glob("chunks/*")] if out.is_dir() else []
        strange = sorted(
            one.name for one in found if one.name != "chunks" and not one.name.startswith(f".{begun.name}")
        )
        if strange and not begun.is_file():
            raise RunError(
                f"{out} is there already, and `loopmt generate` did not begin it: it holds {listed(strange)}. "
                "Nothing in it was touched. Choose another --out."
            )

    def _check_same(self, before: Json) -> None:
        now = self.settings()
        before = {**before, "how": {**Generate().model_dump(mode="json"), **before.get("how", {})}}  # keys added since
        changed = [f"{key} was {before.get(key)}, now {now[key]}" for key in now if before.get(key) != now[key]]
        if changed:
            was = "; ".join(changed)
            raise RunError(f"{self.options.out} was begun with other settings: {was}. Choose another --out.")

    def make(self, number: int, count: int, progress: Progress) -> None:
        if self._finished():
            return
        mine = [chunk for chunk in range(number, self.chunks, count) if not has_file(self.file(chunk))]
        text_filter = text_filter_of(self.context, self.train)
        with progress.track(f"generating {self.path}", len(mine)) as advance:
            for chunk in mine:
                write_json(self.file(chunk), self._chunk(chunk, text_filter))
                advance(1)

    def _chunk(self, number: int, text_filter: SyntheticTextFilter) -> Json:
        """A chunk depends only on the settings and its number, not on the process that makes it."""
        numbers = np.arange(number * self.options.chunk, min((number + 1) * self.options.chunk, self.rows))
        starts, ends = (side.take(numbers) for side in self.sides)
        fit = np.flatnonzero(np.maximum(starts.lengths, ends.lengths) <= self.train.max_length)  # as in training
        vocab, (start, end) = self.context.vocab, self.path.ends
        how = [self.options.how] * len(self.path.generating)
        rollout = Rollout(self.path, how, Sentences(vocab, start, ids=starts.take(fit)))
        key = (self.options.seed, "generate", str(self.path), number)
        limits = DecodeLimits.on(self.context.device, self.train.max_length)
        generate_along(Translators(self.networks), [rollout], limits, key, observe=recorder(text_filter))
        dropped: Counter[str] = Counter(long=len(numbers) - len(fit))
        for record in rollout.records:
            dropped.update(record.dropped)
        kept = np.flatnonzero(rollout.keep)
        targets = Sentences(vocab, end, ids=ends.take(fit).take(kept))
        return {
            "rows": len(numbers),
            "dropped": dict(dropped),
            "sources": list(map(one_line, rollout.text.take(kept).texts)),
            "targets": list(map(one_line, targets.texts)),
            "scores": [f"{self.path}\t{score:z.4f}" for score in rollout.scores[kept]],
        }

    # -- putting together ------------------------------------------------------------------------------------

    def _finished(self) -> Json | None:
        finished: Json | None = read_json(self.options.out / "generate.json")["finished"]
        return finished

    def _done(self) -> list[int]:
        return [chunk for chunk in range(self.chunks) if has_file(self.file(chunk))]

    def assemble(self) -> None:
        """Join the chunks if all exist, unless another process is doing so."""
        if len(self._done()) < self.chunks:  # asked before the lock: whoever holds it has found them all
            return
        with contextlib.suppress(LockedError), Run(self.options.out).locked():
            if self._finished():
                return
            for file, column in zip(self.files, ("sources", "targets", "scores"), strict=True):
                self._write(file, column)
            body = {"settings": self.settings(), "finished": self._counts(self._done())}
            write_json(self.options.out / "generate.json", body)
            shutil.rmtree(self.options.out / "chunks")

    def _write(self, file: Path, column: str) -> None:
        draft = file.with_name(f".{file.name}")
        with creating(draft) as stream:
            for chunk in range(self.chunks):
                stream.writelines(f"{line}\n".encode() for line in read_json(self.file(chunk))[column])
        draft.replace(file)

    def _counts(self, chunks: list[int]) -> Json:
        rows = kept = 0
        dropped: Counter[str] = Counter()
        for number in chunks:
            chunk = read_json(self.file(number))
            rows, kept = rows + chunk["rows"], kept + len(chunk["sources"])
            dropped.update(chunk["dropped"])
        return {"rows": rows, "kept": kept, "dropped": dict(dropped)}

    def result(self) -> GenerationResult:
        """Count the rows. Another process may join and remove the chunks meanwhile."""
        done = self._done()
        try:
            counted = GenerationResult(len(done), self.chunks, **self._counts(done), files=[])
            return self._whole() or counted
        except DamagedError:
            if whole := self._whole():
                return whole
            raise

    def _whole(self) -> GenerationResult | None:
        finished = self._finished()
        return GenerationResult(self.chunks, self.chunks, **finished, files=self.files) if finished else None
