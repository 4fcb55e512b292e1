"""A copy of the package with objectives of `data/objectives` added to it, as a developer would add them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import loopmt.errors
from helpers.digests import ONE_THREAD
from helpers.paths import DATA
from loopmt.workflow.train import TrainOptions

PACKAGE = Path(loopmt.errors.__file__).parent
ADDED = DATA / "objectives"
SCHEMA, REGISTRY = "config/schema.py", "learn/objectives.py"
KEYS = {  # the class of the schema that has the key, and the line that declares it
    "confidence": ("Train(Schedule)", "confidence: float | None = None"),
    "length_reward": ("MixEntry(Section)", "length_reward: float | None = None"),
}


def extended(folder: Path, *names: str) -> Path:
    """The folder to put on PYTHONPATH: each objective is a new module, a key of the schema and a line of the registry.

    Copied with times of its own, so that no bytecode of the original is taken for the copy's.
    """
    shutil.copytree(PACKAGE, folder / "loopmt", ignore=shutil.ignore_patterns("__pycache__"))
    for name in names:
        owner, line = KEYS[name]
        shutil.copyfile(ADDED / f"{name}.py", folder / "loopmt" / "learn" / f"{name}.py")
        insert(folder / "loopmt" / SCHEMA, f"class {owner}:\n", f"    {line}\n")
        key = ("train" if owner.startswith("Train") else "mix") + f".{name}"
        entry = f'    "{name}": Registered("{key}", "loopmt.learn.{name}:from_settings"),\n'
        insert(folder / "loopmt" / REGISTRY, "OBJECTIVES: Mapping[str, Registered] = {\n", entry)
    return folder


def insert(file: Path, after: str, text: str) -> None:
    before = file.read_text(encoding="utf-8")
    assert before.count(after) == 1, f"{file.name} no longer has the line {after!r}"
    file.write_text(before.replace(after, after + text), encoding="utf-8")


def changed(folder: Path) -> set[str]:
    """The files of the package that differ in the copy; new files are not counted."""
    files = (file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py"))
    return {str(file) for file in files if (PACKAGE / file).read_bytes() != (folder / "loopmt" / file).read_bytes()}


def train_with(package: Path, request: TrainOptions) -> None:
    """Train with the package in a folder, in a process of its own."""
    words = ["train", str(request.file), "--run", str(request.run)]
    words += [part for override in request.overrides for part in ("--set", override)]
    environment = {**ONE_THREAD, "PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, "-m", "loopmt", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
