"""Completion in a real shell: what a person sees after Tab, what it costs, and what is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not on this machine")
TAB = """
source completion.sh
read -ra COMP_WORDS <<< "$1"
[[ "$1" == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_loopmt_completion loopmt
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command on its own path and the script that the command shows."""
    folder = tmp_path_factory.mktemp("home")
    command = folder / "bin" / "loopmt"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m loopmt "$@"\n')
    command.chmod(0o755)
    for stage in ("dual", "dual-longer", "vanilla"):
        (folder / "run" / "stages" / stage).mkdir(parents=True)
    (folder / "experiment.toml").write_text('[[stage]]\nname = "start"\n[[stage]]\nname = "loops"\n')
    (folder / "broken.toml").write_text("stage = 3")
    (folder / "completion.sh").write_text(bash(folder, "loopmt --show-completion"))
    return folder


def bash(home: Path, script: str, *arguments: str) -> str:
    environment = {
        **os.environ,
        "HOME": str(home),
        "SHELL": "/bin/bash",
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
    }
    # A last command after the script: else bash becomes what it runs, and no shell is left to be recognised.
    command = [BASH or "", "--norc", "-c", f"set -e\n{script}\n:", "bash", *arguments]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("loopmt tr", ["train", "translate"]),
        ("loopmt export run --to ", ["hf", "ct2"]),
        ("loopmt translate run --stage ", ["dual", "dual-longer", "vanilla"]),
        ("loopmt evaluate run --stage v", ["vanilla"]),
        ("loopmt plan nowhere --stage ", [""]),
        ("loopmt report --sen", ["--sentences"]),
        ("loopmt train experiment.toml --until ", ["start", "loops"]),
        ("loopmt train experiment.toml --only start --only l", ["loops"]),
        ("loopmt train broken.toml --until ", [""]),
        ("loopmt train nowhere.toml --until ", [""]),
        ("loopmt fetch mul", ["multiun", "multi30k"]),
        ("loopmt translate r", [""]),  # bash itself completes names of files
    ],
)
def test_tab_in_bash(home: Path, line: str, offered: list[str]) -> None:
    assert bash(home, TAB, line).split("\n")[:-1] == offered


def test_zsh_is_told_the_same(home: Path) -> None:
    script = "_LOOPMT_COMPLETE=complete_zsh _TYPER_COMPLETE_ARGS='loopmt tr' loopmt"
    told = bash(home, script)
    assert '"train":' in told and '"translate":' in told
    assert "#compdef loopmt" in bash(home, "_LOOPMT_COMPLETE=source_zsh loopmt")


@pytest.mark.parametrize(
    ("line", "place", "offered"),
    [
        ("loopmt translate run --stage ", 4, "vanilla"),
        ("loopmt train experiment.toml --until ", 4, "loops"),
        ("loopmt fetch ", 2, "multi30k"),
    ],
)
def test_it_never_waits_for_torch(home: Path, line: str, place: int, offered: str) -> None:
    script = (
        f"COMP_WORDS='{line}' COMP_CWORD={place} _LOOPMT_COMPLETE=complete_bash "
        f"{sys.executable} -X importtime -m loopmt 2>&1"
    )
    told = bash(home, script)
    assert offered in told
    loaded = {line.rsplit("|", 1)[1].strip() for line in told.splitlines() if line.startswith("import time:")}
    assert "typer" in loaded and not loaded & {"torch", "numpy"}


def test_installing(home: Path) -> None:
    said = bash(home, "loopmt --install-completion")
    assert "restart the terminal" in said
    installed = next(home.glob(".bash_completions/*"))
    assert "_loopmt_completion" in installed.read_text() and str(installed) in (home / ".bashrc").read_text()
