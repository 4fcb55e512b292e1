"""Two verbs at the same time on one run: results and files are those of one after the other.

A few pairs here; `python -m stress.together` runs every pair.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT

sys.path.insert(0, str(ROOT))
from stress.together import VERBS, Ended, Sequences, explained, facts_of, together


@pytest.fixture(scope="module")
def sequences(tiny_experiment_file: Path, tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Sequences:
    """A run in which the stage dual is still to be trained."""
    scratch = tmp_path_factory.mktemp("together")
    run = Path(shutil.copytree(tiny_run, scratch / "run", ignore=shutil.ignore_patterns("dual", "report.html")))
    return Sequences(tiny_experiment_file, run, scratch)


@pytest.mark.parametrize(
    "pair",
    [
        *(("train", "evaluate"), ("analyze", "report")),
        *(("train", "train"), ("generate", "generate")),
    ],
    ids=" and ".join,
)
def test_a_pair(sequences: Sequences, pair: tuple[str, str], tmp_path: Path) -> None:
    found = together(sequences, *pair, tmp_path)
    assert not found.problems
    assert found.refused == (pair == ("train", "train"))


def test_every_verb_that_works_on_a_run_is_there() -> None:
    asked = "train evaluate analyze plan report show generate export serve translate"
    assert list(VERBS) == asked.split()


def test_differences_are_noticed(tmp_path: Path) -> None:
    """The checks themselves can fail."""
    before, after = {"scores": 1, "stage": {"a": 1}}, {"scores": 2, "stage": {"a": 1}}
    assert explained(before, [before, after]) and not explained({**before, "scores": 3}, [before, after])
    assert not explained("other", ["one", "two"]) and not explained({"new": 1}, [before, after])
    (tmp_path / "scores.json").write_text(json.dumps({"seconds": 1.5, "bleu": 20.0}))
    (tmp_path / ".draft").write_text("left behind")
    assert facts_of(tmp_path)["scores.json"] == {"bleu": 20.0} and ".draft" in facts_of(tmp_path)


@pytest.mark.parametrize(
    ("code", "err", "refused"),
    [
        (2, "loopmt: RUN is in use by another process (pid 12). Wait for it.\n", True),
        (2, "one: written\nloopmt: OUT exists already. Choose another.\n", True),
        (2, "loopmt: RUN is damaged.\n", False),
        (2, "Traceback\nloopmt: RUN is in use by another process (pid 12).\n", False),
    ],
)
def test_what_counts_as_refused(code: int, err: str, refused: bool) -> None:
    assert Ended(code, "", err).refused == refused
