"""Help: complete, whole, and quick."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import typer.main

from helpers.commands import Cli
from loopmt.cli import app


def commands() -> dict[str, Any]:
    found: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("verb", sorted(commands()))
def test_help_is_complete(cli: Cli, verb: str) -> None:
    done = cli(verb, "--help")
    assert done.code == 0 and f"Usage: loopmt {verb}" in done.out and "Example" in done.out
    undocumented = [param.name for param in commands()[verb].params if not getattr(param, "help", None)]
    assert undocumented == []


@pytest.mark.parametrize("verb", sorted(commands()))
def test_help_loses_no_word_and_flows(cli: Cli, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Brackets are no markup, and a paragraph is one line where the terminal is wide."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("TERMINAL_WIDTH", "1000")
    said = cli(verb, "--help").out
    found = commands()[verb]
    told = " ".join(said.replace("│", " ").split())
    for paragraph in (found.callback.__doc__ or "").split("\n\n"):
        assert " ".join(paragraph.split()) in [line.strip() for line in said.splitlines()]
    for param in found.params:
        assert " ".join(param.help.split()) in told


@pytest.mark.parametrize("verb", ["", *sorted(commands())])
def test_a_flag_shows_no_type(cli: Cli, verb: str) -> None:
    said = cli(*verb.split(), "--help").out
    assert "--help" in said and "<bool>" not in said and "BOOLEAN" not in said


def test_version(cli: Cli) -> None:
    done = cli("--version")
    assert (done.code, done.err) == (0, "") and re.fullmatch(r"loopmt \d+\.\d+\S*\n", done.out)


def test_help_loads_the_command_line_alone() -> None:
    code = f"""
import sys
from loopmt.cli import main
for words in [[], *([verb] for verb in {sorted(commands())})]:
    sys.argv = ["loopmt", *words, "--help"]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, words
    loaded = {{name for name in sys.modules if name.split(".")[0] == "loopmt" and name.split(".")[1:2] != ["cli"]}}
    assert loaded == {{"loopmt", "loopmt.errors", "loopmt.progress"}}, (words, loaded)
    slow = {{"torch", "numpy", *([] if words else ["pydantic", "importlib.metadata", "statistics"])}}
    assert not slow & set(sys.modules), (words, slow & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f" {verb} " in done.stdout for verb in commands())
