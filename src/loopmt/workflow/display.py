"""What a person sees of a stage in training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from loopmt.config import Stage, Train
from loopmt.progress import Advance, Progress
from loopmt.run import Json


class Display:
    """Turns the trainer's records into a bar and lines."""

    def __init__(self, stage: Stage, train: Train, progress: Progress, number: str = "", begun: int = 0) -> None:
        self.stage = stage
        self.total = stage.updates or train.max_updates
        self.progress = progress
        self.title = f"{number}training {stage.name}"
        self.update = begun
        self._began = False
        self._advance: Advance = lambda steps: None

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self.progress.track(self.title, self.total, self.update) as self._advance:
            yield

    def show(self, record: Json) -> None:
        if record["kind"] in ("update", "resumed", "train"):
            self._advance(record["update"] - self.update)
            self.update = record["update"]
        if record["kind"] == "train":
            self.progress.say(self._training(record))
        elif record["kind"] == "resumed":
            self.progress.say(f"{self.stage.name}: resuming at update {self.update:,} of {self._last()}")
        elif record["kind"] == "pausing":
            self.progress.say(self._pausing(record))
        elif record["kind"] == "valid":
            self.progress.say(self._validation(record))
        elif record["kind"] == "choice":
            chosen = [f"{path} {worth['share']:.2f}" for path, worth in record["worth"].items() if worth["share"] > 0]
            self.progress.say(f"{self._place(record)}  loops chosen: {'  '.join(chosen) or 'none'}")
        elif record["kind"] == "alarm":
            self.progress.say(
                f"{self._place(record)}  ALARM  path {record['path']}, hop {record['hop']}: {record['what']}"
            )

    def _place(self, record: Json) -> str:
        return f"{self.stage.name} {record['update']:>7,} of {self._last()}"

    def _last(self) -> str:
        return f"{self.total:,}" if self.stage.updates else f"at most {self.total:,}"

    def _pausing(self, record: Json) -> str:
        return (
            f"{self.stage.name}: {record['reason']}; pausing after this round of up to {record['round']:,} updates, "
            "saved (only whole rounds resume exactly). Ctrl-C again stops at once and loses what was learnt since the "
            "last checkpoint."
        )

    def _training(self, record: Json) -> str:
        loss = sum(record["loss"].values()) / max(len(record["loss"]), 1)
        parts = [f"loss {loss:.3f}", f"{record['tokens_per_second']:,.0f} tokens/s"]
        if record["generated_tokens"]:
            share, speed = record["generate_share"], record["generated_per_second"]
            parts.append(f"generating {share:.0%} of the time, {speed:,.0f} tokens/s")
        if not self._began:
            self._began = True
            parts.append(f"first update after {record['first_update']:.1f} s")
        return f"{self._place(record)}  {'  '.join(parts)}"

    def _validation(self, record: Json) -> str:
        parts = [f"valid BLEU {record['mean_bleu']:.2f}"]
        if record["mean_accuracy"] is not None:
            parts.append(f"exact {record['mean_accuracy']:.3f}")
        by_hop = "  ".join(f"{hop} {bleu:.1f}" for hop, bleu in record["bleu"].items())
        return f"{self._place(record)}  {', '.join(parts)}  ({by_hop})"
