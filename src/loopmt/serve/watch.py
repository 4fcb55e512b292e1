"""Watching a training run: its log from an offset, and sample translations of its newest weights."""

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

Sampler = Callable[[str], Json | None]  # stage -> its update and sample translations

_MOST_BYTES = 2**20  # of the log in one response
_MOST_LOOKS = 32  # concurrent requests
_LONGEST_RECORD = 2**24  # bytes; longer lines are invalid
_FIELDS = {
    "train": ("update", "loss", "learning_rate", "seconds", "tokens_per_second", "generate_share"),
    "valid": ("update", "mean_bleu", "bleu", "loss", "accuracy", "untaught"),
    "alarm": ("update", "path", "hop", "what"),
    "end": ("update", "best_update", "best_bleu", "chosen"),
}


class Watcher:
    """Reads a run's stages; another thread samples translations, so that requests are not delayed."""

    def __init__(self, run: Run, sampler: Sampler) -> None:
        self._run = run
        self._sampler = sampler
        self._samples: dict[str, Json] = {}
        self._asking: asyncio.Future[Json | None] | None = None
        self._sampling = WorkerThread("samples")
        self._reading = WorkerThread("logs")
        self._looks = FairShare(_MOST_LOOKS)

    def close(self, seconds: float) -> bool:
        """Stop both threads. Return whether each ended within these seconds."""
        return all([self._sampling.close(seconds), self._reading.close(seconds)])

    async def look(self, stage: str | None, offset: int, client: str = "") -> bytes:
        """The state of all stages and new records of one, as JSON: by default the running stage, else the last one."""
        if not self._looks.take(client, 1):
            raise RefusedError(503, "too many clients are watching at the moment. Try again.", 1)
        try:
            return await self._look(stage, offset)
        finally:
            self._looks.give_back(client, 1)

    async def _look(self, stage: str | None, offset: int) -> bytes:
        stages = await self._reading.submit(self._stages)
        names = [one["name"] for one in stages]
        if stage is None:
            begun = [one["name"] for one in stages if one["state"] != "not begun"]
            running = [one["name"] for one in stages if one["state"] == "begun"]
            stage = [*names[:1], *begun, *running][-1]
        if stage not in names:
            raise RefusedError(404, f"there is no such stage. The stages are {', '.join(names)}.")
        self._ask(stage)
        state = {"stages": stages, "stage": stage, "samples": self._samples.get(stage)}
        return await self._reading.submit(_answer, state, self._run.stage(stage), offset)

    def _stages(self) -> list[Json]:
        found = []
        for stage in self._run.experiment().all_stages:
            folder = self._run.stage(stage.name)
            state = "finished" if folder.finished else "begun" if folder.begun else "not begun"
            found.append({"name": stage.name, "from": stage.from_, "state": state, "updates": stage.updates})
        return found

    def _ask(self, stage: str) -> None:
        """Request samples, for one stage at a time; a later response contains them."""
        if self._asking is not None and not self._asking.done():
            return

        def store(asked: asyncio.Future[Json | None]) -> None:
            if not asked.cancelled() and asked.exception() is None and (samples := asked.result()):
                self._samples[stage] = samples

        self._asking = self._sampling.submit(self._sampler, stage)
        self._asking.add_done_callback(store)


def _answer(state: Json, folder: StageFolder, offset: int) -> bytes:
    return json.dumps({**state, **new_records(folder, offset)}, allow_nan=False).encode()


def new_records(folder: StageFolder, offset: int) -> Json:
    """Complete lines of the log from `offset` on, or from 0 if the log was truncated because training resumed."""
    try:
        with reading(folder.metrics) as file:
            size = file.seek(0, 2)
            start = offset if 0 <= offset <= size else 0
            file.seek(start)
            lines = _complete_lines(file)
    except FileNotFoundError:
        return {"offset": 0, "restarted": offset > 0, "more": False, "records": []}
    except OSError as error:
        raise DamagedError(f"the log of stage {folder.name} cannot be read: {error.strerror}.") from None
    end = start + len(lines)
    records = [record for line in lines.splitlines() if (record := _displayed(line))]
    return {"offset": end, "restarted": start != offset, "more": bool(lines) and end < size, "records": records}


def _complete_lines(file: BinaryIO) -> bytes:
    """About as many lines as one response may hold, but at least one, which may be longer."""
    raw = file.read(_MOST_BYTES)
    if len(raw) == _MOST_BYTES and b"\n" not in raw:
        raw += file.readline(_LONGEST_RECORD)
    return raw[: raw.rfind(b"\n") + 1] if len(raw) < _LONGEST_RECORD else raw


def _displayed(line: bytes) -> Json | None:
    """The fields of a record that the page shows; None for invalid lines and other kinds of records."""
    try:
        record = parse_json(line, not_finite=lambda _: None)
    except ValueError:
        return None
    if not isinstance(record, dict) or str(record.get("kind")) not in _FIELDS:
        return None
    shown = {"kind": record["kind"], **{key: record[key] for key in _FIELDS[record["kind"]] if key in record}}
    return None if None in shown.values() else shown  # null is valid only within tables of directions
