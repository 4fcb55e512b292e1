"""What users build on: a change here is a change for them, and belongs in README.md too."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest
import typer.main

import loopmt
from loopmt.cli import app
from loopmt.config import Experiment, Generate

NAMES = {"Candidate", "Generate", "LoopmtError", "Translator", "__version__", "load"}
METHODS = {"directions", "languages", "nbest", "score", "trace", "translate", "walk"}
VERBS = {
    "demo",
    "fetch",
    "prepare",
    "train",
    "translate",
    "evaluate",
    "show",
    "generate",
    "analyze",
    "plan",
    "report",
    "serve",
    "export",
    "import",
    "score",
    "paths",
    "world",
    "theory",
    "lab",
    "doctor",
}
KEYS = {"name", "languages", "seed", "data", "vocab", "model", "train", "imported", "stage", "compare"}


def test_public_names() -> None:
    assert set(loopmt.__all__) == NAMES
    assert all(getattr(loopmt, name) is not None for name in NAMES)
    assert {name for name in vars(loopmt.Translator) if not name.startswith("_")} == METHODS
    assert loopmt.__version__ == version("loopmt")


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Translater'; it has Candidate, Generate,"):
        loopmt.__getattr__("Translater")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"how": "sampel"},
            r"loopmt\.Generate: how = 'sampel': it should be 'sample', 'greedy' or 'beam'\. There are by, how,",
        ),
        ({"beams": 4}, r"loopmt\.Generate: there is no 'beams'\. There are by, how, temperature, top_k, top_p, beam,"),
        ({"how": "beam", "beam": 0}, "beam = 0: it should be greater than or equal to 1"),
        ({"top_p": 2, "warm": 1}, r"top_p = 2: it should be less than or equal to 1\. there is no 'warm'\."),
    ],
)
def test_ways_to_generate_that_are_none(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(loopmt.LoopmtError, match=message):
        loopmt.Generate(**asked)


def test_a_way_to_generate_is_that_of_an_experiment_file() -> None:
    asked = loopmt.Generate(how="beam", beam=8)
    assert isinstance(asked, Generate)
    assert asked.model_dump() == Generate(how="beam", beam=8).model_dump()


def test_verbs() -> None:
    assert set(typer.main.get_command(app).commands) == VERBS  # type: ignore[attr-defined]


def test_experiment_keys() -> None:
    assert {field.alias or name for name, field in Experiment.model_fields.items()} == KEYS


def test_import_is_light() -> None:
    code = "import sys, loopmt; print([name for name in ('torch', 'pydantic', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"
