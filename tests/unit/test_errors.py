"""What a user meets: one tree of exceptions, and sentences that say what is wrong, where, and the way out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import loopmt.errors
from helpers.facts import lacks
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
def test_the_tree(kind: type[LoopmtError]) -> None:
    assert issubclass(kind, LoopmtError)
    assert kind.__doc__
    assert kind.__name__.endswith("Error")
    assert kind.exit_code == (3 if kind in (DivergedError, CollapseError) else 2)


def test_narrow_errors_are_wide_ones_too() -> None:
    assert issubclass(LockedError, RunError)
    assert issubclass(DamagedError, RunError)
    assert not issubclass(PathError, ConfigError)


def asked(text: str, *overrides: str) -> Callable[[Path], object]:
    return lambda folder: loads(text, overrides, where="exp.toml")


def training(text: str | None, until: str | None = None) -> Callable[[Path], object]:
    def work(folder: Path) -> object:
        if text is not None:
            (folder / "exp.toml").write_text(text, encoding="utf-8")
        return train(TrainOptions(folder / "exp.toml", folder / "run", until=until), Silent())

    return work


DATA = 'languages = ["en", "fr"]\n[data]\nbitext = { "en-fr" = "bi" }\nvalid = "valid"\n'
STAGE = '[[stage]]\nname = "multi-step"\nmix = ["X>Y"]\nupdates = 1\n'

CASES: dict[str, tuple[Callable[[Path], object], type[LoopmtError], str]] = {
    "a loop without monolingual text": (
        asked(DATA + STAGE.replace('"X>Y"', '"X>Y", "en>fr>en"')),
        ConfigError,
        'exp.toml: stage "multi-step": path en>fr>en needs monolingual text of en; the data has none. '
        "Add data.mono.en.",
    ),
    "an open path without bitext": (
        asked(DATA.replace('"fr"]', '"fr", "es"]') + STAGE.replace("X>Y", "en>fr>es")),
        ConfigError,
        'exp.toml: stage "multi-step": path en>fr>es needs bitext en-es; the data has en-fr. '
        "Add data.bitext.en-es, or write a path that returns to en, such as en>fr>es>en.",
    ),
    "a pattern where a path is wanted": (
        lambda folder: LanguagePath.parse("X>en"),
        PathError,
        "'X>en' is a pattern, not a path: X is not a language. Write languages joined by '>', such as en>fr or "
        "en>fr>es>en; capitals stand for any language, as in X>Y>X.",
    ),
    "no experiment": (
        training(None),
        ConfigError,
        "{folder}/exp.toml: there is no such experiment file.",
    ),
    "no stage of that name": (
        training(DATA + STAGE, until="dual"),
        ConfigError,
        "there is no stage 'dual'; there are multi-step.",
    ),
    "no run": (
        lambda folder: Run.open(folder / "run"),
        RunError,
        "{folder}/run is no run: it has no experiment.json. Make one: `loopmt train EXPERIMENT --run {folder}/run`.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sentences(case: str, tmp_path: Path) -> None:
    work, kind, sentence = CASES[case]
    with pytest.raises(LoopmtError) as caught:
        work(tmp_path)
    assert type(caught.value) is kind
    assert not lacks(str(caught.value), sentence.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("reader", "folder"), [(Vocab.load, "vocab"), (Store.open, "store")], ids=["vocabulary", "store"]
)
def test_a_missing_part_of_a_run_says_how_to_make_it(
    reader: Callable[[Path], object], folder: str, tmp_path: Path
) -> None:
    with pytest.raises(DamagedError, match="loopmt prepare"):
        reader(tmp_path / folder)
