"""Types of the fixtures that type commands, and what a folder contains."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loopmt.workflow.train import TrainOptions


class AskFor(Protocol):
    def __call__(self, stages: str, *overrides: str, parent: bool = True) -> TrainOptions:
        """A request to train `stages`, TOML; with `parent`, after the stage vanilla, which is there already."""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
