"""The page on serving: its options, tests and limits exist, its figures are those of the raw file, its unit is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from helpers.paths import ROOT
from loopmt.cli import app
from loopmt.serve.limits import RequestLimits, default_rate

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def rows_of(section: str) -> list[str]:
    """The second cells of the section's table, without its head."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [line.split("|")[2].strip() for line in text.splitlines() if line.startswith("|")][2:]


def test_the_options_exist() -> None:
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    known = {option for param in serve.params for option in param.opts}
    commands = re.findall(r"loopmt serve .*", PAGE)
    table = re.findall(r"`(--[\w-]+)", PAGE)
    assert len(commands) >= 3
    assert {*table, *re.findall(r"(?<!\S)--[\w-]+", " ".join(commands))} <= known


def test_the_tests_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    defined = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 30 and named <= defined


def test_the_limits_are_the_defaults() -> None:
    told = [re.sub(r"\D", "", value.split()[0]) for value in rows_of("Limits")]
    limits = RequestLimits()
    assert told == [
        str(one)
        for one in (
            limits.characters, limits.texts, limits.hops, limits.grown // limits.characters, limits.queue,
            limits.subwords, int(limits.seconds), int(default_rate(local=False)), limits.connections,
            limits.client_connections, int(limits.reading), int(limits.writing), limits.bodies // 2**20,
            limits.answers // 2**20,
        )
    ]  # fmt: skip


def test_the_command_of_the_raw_file_is_on_the_page() -> None:
    raw = json.loads((ROOT / "docs" / "results" / "serve" / "hostile.json").read_text(encoding="utf-8"))
    command = raw["command"].replace("torture.", "stress.")  # the name of the module when the file was recorded
    assert f"`{command}`" in PAGE
    assert raw["honest"]["succeeded"] >= 0.99


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    found = re.search(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    assert found
    unit = tmp_path / "loopmt.service"
    unit.write_text(found[1].replace("/srv/loopmt/venv/bin/loopmt", "/bin/true"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(found[1].replace("LoadCredential", "LoadKredential"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert done.stderr, "a mistake would be seen"
