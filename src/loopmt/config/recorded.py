"""Compare the settings that a stage was begun with (`stage.json`) with its settings now.

A record holds the effective value of every key that affects the weights, so it stays complete when a default changes
later. It lacks the keys that were added later: `ADDED` has the value that describes training without them, unless this
is None (off).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopmt.errors import RunError

Json = dict[str, Any]

ADDED: dict[str, Any] = {
    "train.select_by": "sacrebleu",
    "guards.filters": ["empty", "runaway", "copy", "length", "language"],
    "guards.ratio": 3.0,
    "guards.slack": 10,
    "guards.margin": 0.5,
    "guards.fewest_subwords": 4,
    "guards.repetition": 0.2,
    "model.pretrained": None,
    "model.codes": None,
    "model.prompt": None,
    "model.adapt": "full",
    "model.lora": None,
    "stage.adapt": None,
    "stage.lora": None,
    "stage.mix.candidates": 1,
    "stage.mix.choose": "consensus",
    "stage.mix.keep_by": "dual",
    "stage.mix.noise": None,
    "stage.mix.credit": "last",
    "stage.mix.baseline": "leave-one-out",
    "stage.mix.ratio_clip": 0.2,
    "stage.mix.likelihood": 1.0,
    "stage.mix.generate.ensemble": "rows",
    "stage.auto.generate.ensemble": "rows",
    "stage.auto.teachers": [],
    "train.objectives": [],
    "train.track": [],
    "model.translator": None,
    "model.backend": "auto",
}
"""Keys added after version 1, such as "train.tokens" or "stage.mix.keep", and how stages were trained before."""

VERSION = 2 + len(ADDED)  # of the settings, growing with the table; a record without a version has version 1

# Keys that do not affect the weights beyond rounding and the draws of dropout, and keys about the record itself.
_NOT_COMPARED = {
    "version",
    "draws",
    *(f"train.{key}" for key in ("log_every", "track", "shard", "compile", "fuse", "accumulate")),
}
_BUDGET = {"stage.updates", "stage.until", "train.patience", "train.max_updates"}
_ABSENT = object()  # the value of a key that a record lacks
# Records of version 1 have these tables always. What the first and the last override is in `train`.
_MAY_BE_LEFT_OUT = {"stage.train", "stage.auto", "train.continued"}


@dataclass(frozen=True)
class SettingChange:
    """A key whose value differs. `added`: the key did not exist when the stage was begun."""

    key: str
    before: Any
    now: Any
    added: bool = False

    def __str__(self) -> str:
        before = f"did not exist, which equals {_short(self.before)}" if self.added else f"was {_short(self.before)}"
        return f"{self.key} {before}, now {_short(self.now)}"

    def undo(self, stage: str) -> str | None:
        """The argument of `--set` that restores the old value; None where a single argument cannot."""
        section, _, key = self.key.partition(".")
        places = {"train": f"stage.{stage}.train.{key}", "stage": f"stage.{stage}.{key}", "seed": "seed"}
        place = places.get(section, self.key if section in ("model", "guards") else "")
        if not place or "[" in place or not isinstance(self.before, str | int | float):
            return None
        return f"{place}={self.before if isinstance(self.before, str) else json.dumps(self.before)}"


def changes(before: Any, now: Any, key: str = "") -> list[SettingChange]:
    """Every difference that affects the weights."""
    place = re.sub(r"\[\d+\]", "", key)
    if place in _NOT_COMPARED or (now is None and place in _MAY_BE_LEFT_OUT):
        return []
    if before is _ABSENT and isinstance(now, dict):
        before = None
    if isinstance(before, dict | None) and isinstance(now, dict | None) and before != now:
        before, now = before or {}, now or {}
        inner = [(before.get(name, _ABSENT), now.get(name), f"{key}.{name}".lstrip(".")) for name in {**before, **now}]
    elif _are_tables(before) and _are_tables(now) and len(before) == len(now):
        inner = [(*pair, f"{key}[{number}]") for number, pair in enumerate(zip(before, now, strict=True), 1)]
    else:
        return _change(before, now, key, place)
    return [change for values in inner for change in changes(*values)]


@dataclass(frozen=True)
class ChangedStage:
    """What changed in a stage since it was begun."""

    name: str
    folder: Path
    finished: bool
    changes: Sequence[SettingChange]

    @property
    def refused(self) -> list[SettingChange]:
        """A finished stage keeps what it was trained with, so keys that were added since do not matter."""
        return [change for change in self.changes if not (change.added and self.finished)]


def refuse(stages: Sequence[ChangedStage]) -> None:
    """Raise an error if a stage would be trained with other settings than it was begun with."""
    changed = [stage for stage in stages if stage.refused]
    if not changed:
        return
    what = "; ".join(f'stage "{stage.name}": {"; ".join(map(str, stage.refused))}' for stage in changed)
    undo = [value for stage in changed for change in stage.refused if (value := change.undo(stage.name))]
    options = shlex.join(word for value in undo for word in ("--set", value))
    folders = " and ".join(str(stage.folder) for stage in changed)
    raise RunError(
        f"settings differ from those that training was begun with. {what}. "
        f"Restore them{f' ({options})' if options else ''}, give the stage another name, choose another --run, or "
        f"delete {folders}.{_advice(changed)}"
    )


def _advice(changed: Sequence[ChangedStage]) -> str:
    advice = ""
    longer = [stage.name for stage in changed if stage.finished and _BUDGET & {one.key for one in stage.refused}]
    if longer:
        advice += f' To train a finished stage on, add a stage with from = "{longer[0]}" and its own updates.'
    if any(change.key.startswith(("train.", "model.")) for stage in changed for change in stage.refused):
        advice += " A value that the experiment file does not set is a default of this version of loopmt."
    return advice


def _change(before: Any, now: Any, key: str, place: str) -> list[SettingChange]:
    added = before is _ABSENT
    change = SettingChange(key, ADDED.get(place) if added else before, now, added)
    return [] if change.before == now else [change]


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
