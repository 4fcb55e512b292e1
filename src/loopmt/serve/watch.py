"""A training run from outside: its log since an offset, and what its newest weights say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import BinaryIO

from loopmt.errors import DamagedError
from loopmt.files.documents import parse_json
from loopmt.files.regular import reading
from loopmt.run import Json, Run, StageFolder
from loopmt.serve.limits import FairShare, RefusedError
from loopmt.serve.threads import WorkerThread

Sampler = Callable[[str], Json | None]  # stage -> its update and what its translators say then

_MOST_BYTES = 2**20  # of the log, in one answer
_MOST_LOOKS = 32  # at once
_LONGEST_RECORD = 2**24  # bytes; what is longer is no record
_TOLD = {
    "train": ("update", "loss", "learning_rate", "seconds", "tokens_per_second", "generate_share"),
    "valid": ("update", "mean_bleu", "bleu", "loss", "accuracy", "untaught"),
    "alarm": ("update", "path", "hop", "what"),
    "end": ("update", "best_update", "best_bleu", "chosen"),
}


class Watcher:
    """Looks at a run's stages; a thread of its own asks the newest weights, so that translating goes on."""

    def __init__(self, run: Run, sampler: Sampler) -> None:
        self._run = run
        self._sampler = sampler
        self._samples: dict[str, Json] = {}
        self._asking: asyncio.Future[Json | None] | None = None
        self._sampling = WorkerThread("samples")
        self._reading = WorkerThread("logs")
        self._looks = FairShare(_MOST_LOOKS)

    def close(self, seconds: float) -> bool:
        """Whether both threads ended, each within these seconds."""
        return all([self._sampling.close(seconds), self._reading.close(seconds)])

    async def look(self, stage: str | None, offset: int, client: str = "") -> bytes:
        """As JSON: where the stages stand, and what is new of one: the one under way by default, else the last."""
        if not self._looks.take(client, 1):
            raise RefusedError(503, "too many are watching at this moment. Try again.", 1)
        try:
            return await self._look(stage, offset)
        finally:
            self._looks.give_back(client, 1)

    async def _look(self, stage: str | None, offset: int) -> bytes:
        stages = await self._reading.submit(self._stages)
        names = [one["name"] for one in stages]
        if stage is None:
            begun = [one["name"] for one in stages if one["state"] != "not begun"]
            under_way = [one["name"] for one in stages if one["state"] == "begun"]
            stage = [*names[:1], *begun, *under_way][-1]
        if stage not in names:
            raise RefusedError(404, f"there is no such stage; there are {', '.join(names)}.")
        self._ask(stage)
        told = {"stages": stages, "stage": stage, "samples": self._samples.get(stage)}
        return await self._reading.submit(_answer, told, self._run.stage(stage), offset)

    def _stages(self) -> list[Json]:
        found = []
        for stage in self._run.experiment().all_stages:
            folder = self._run.stage(stage.name)
            state = "finished" if folder.finished else "begun" if folder.begun else "not begun"
            found.append({"name": stage.name, "from": stage.from_, "state": state, "updates": stage.updates})
        return found

    def _ask(self, stage: str) -> None:
        """Ask for samples, one stage at a time; the answer is told with a later look."""
        if self._asking is not None and not self._asking.done():
            return

        def remember(asked: asyncio.Future[Json | None]) -> None:
            if not asked.cancelled() and asked.exception() is None and (samples := asked.result()):
                self._samples[stage] = samples

        self._asking = self._sampling.submit(self._sampler, stage)
        self._asking.add_done_callback(remember)


def _answer(told: Json, folder: StageFolder, offset: int) -> bytes:
    return json.dumps({**told, **new_records(folder, offset)}, allow_nan=False).encode()


def new_records(folder: StageFolder, offset: int) -> Json:
    """Whole lines of the log from `offset` on. A log that was cut, when training resumed, starts again from 0."""
    try:
        with reading(folder.metrics) as file:
            size = file.seek(0, 2)
            start = offset if 0 <= offset <= size else 0
            file.seek(start)
            whole = _whole_lines(file)
    except FileNotFoundError:
        return {"offset": 0, "restarted": offset > 0, "more": False, "records": []}
    except OSError as error:
        raise DamagedError(f"the log of stage {folder.name} cannot be read: {error.strerror}.") from None
    end = start + len(whole)
    records = [record for line in whole.splitlines() if (record := _told(line))]
    return {"offset": end, "restarted": start != offset, "more": bool(whole) and end < size, "records": records}


def _whole_lines(file: BinaryIO) -> bytes:
    """About as many as one answer may hold, but one at least: a line may be longer than that."""
    raw = file.read(_MOST_BYTES)
    if len(raw) == _MOST_BYTES and b"\n" not in raw:
        raw += file.readline(_LONGEST_RECORD)
    return raw[: raw.rfind(b"\n") + 1] if len(raw) < _LONGEST_RECORD else raw


def _told(line: bytes) -> Json | None:
    """What the page shows of a record; a line that is no record, or of a kind it does not show, is passed over."""
    try:
        record = parse_json(line, not_finite=lambda _: None)
    except ValueError:
        return None
    if not isinstance(record, dict) or str(record.get("kind")) not in _TOLD:
        return None
    told = {"kind": record["kind"], **{key: record[key] for key in _TOLD[record["kind"]] if key in record}}
    return None if None in told.values() else told  # in a table of directions null is a gap, elsewhere it is damage
