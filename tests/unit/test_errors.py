"""The exceptions of users: their class hierarchy, and messages that say what is wrong, where, and how to fix it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import loopmt.errors
from helpers.facts import missing
from loopmt.config import loads
from loopmt.errors import (
    CollapseError,
    ConfigError,
    DamagedError,
    DivergedError,
    LockedError,
    LoopmtError,
    PathError,
    RunError,
)
from loopmt.path import LanguagePath
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.workflow.train import TrainOptions, train

ALL = [kind for _, kind in inspect.getmembers(loopmt.errors, inspect.isclass) if kind.__module__ == "loopmt.errors"]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_the_hierarchy(kind: type[LoopmtError]) -> None:
    assert issubclass(kind, LoopmtError)
    assert kind.__doc__
    assert kind.__name__.endswith("Error")
    assert kind.exit_code == (3 if kind in (DivergedError, CollapseError) else 2)


def test_specific_errors_are_general_ones_too() -> None:
    assert issubclass(LockedError, RunError)
    assert issubclass(DamagedError, RunError)
    assert not issubclass(PathError, ConfigError)


def loading(text: str, *overrides: str) -> Callable[[Path], object]:
    return lambda folder: loads(text, overrides, where="exp.toml")


def training(text: str | None, until: str | None = None) -> Callable[[Path], object]:
    def work(folder: Path) -> object:
        if text is not None:
            (folder / "exp.toml").write_text(text, encoding="utf-8")
        return train(TrainOptions(folder / "exp.toml", folder / "run", until=until), Silent())

    return work


DATA = 'languages = ["en", "fr"]\n[data]\nbitext = { "en-fr" = "bi" }\nvalid = "valid"\n'
STAGE = '[[stage]]\nname = "multi-step"\nmix = ["X>Y"]\nupdates = 1\n'

CASES: dict[str, tuple[Callable[[Path], object], type[LoopmtError], list[str]]] = {
    "a loop without monolingual text": (
        loading(DATA + STAGE.replace('"X>Y"', '"X>Y", "en>fr>en"')),
        ConfigError,
        ["exp.toml", '"multi-step"', "path en>fr>en", "monolingual text of en", "has none", "data.mono.en"],
    ),
    "an open path without bitext": (
        loading(DATA.replace('"fr"]', '"fr", "es"]') + STAGE.replace("X>Y", "en>fr>es")),
        ConfigError,
        ["exp.toml", '"multi-step"', "path en>fr>es", "has en-fr", "en>fr>es>en", "data.bitext.en-es"],
    ),
    "a pattern instead of a path": (
        lambda folder: LanguagePath.parse("X>en"),
        PathError,
        ["'X>en' is a pattern", "en>fr>es>en"],
    ),
    "no experiment": (
        training(None),
        ConfigError,
        ["{folder}/exp.toml", "no such experiment file"],
    ),
    "no stage of that name": (
        training(DATA + STAGE, until="dual"),
        ConfigError,
        ["no stage", "dual", "multi-step"],
    ),
    "no run": (
        lambda folder: Run.open(folder / "run"),
        RunError,
        ["{folder}/run is not a run", "experiment.json", "`loopmt train EXPERIMENT --run {folder}/run`"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_messages_state_the_facts(case: str, tmp_path: Path) -> None:
    work, kind, facts = CASES[case]
    with pytest.raises(LoopmtError) as caught:
        work(tmp_path)
    assert type(caught.value) is kind
    assert not missing(caught.value, *(fact.format(folder=tmp_path) for fact in facts))


@pytest.mark.parametrize(
    ("reader", "folder"), [(Vocab.load, "vocab"), (Store.open, "store")], ids=["vocabulary", "store"]
)
def test_the_error_of_a_missing_folder_names_the_command_that_makes_it(
    reader: Callable[[Path], object], folder: str, tmp_path: Path
) -> None:
    with pytest.raises(DamagedError, match="loopmt prepare"):
        reader(tmp_path / folder)
