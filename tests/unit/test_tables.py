"""Tables on a terminal of any width: nothing is cut, and every part says which row it is about."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from helpers.paths import ROOT
from loopmt.cli import app
from loopmt.cli.plan_tables import print_analysis
from loopmt.cli.score_tables import print_scorecard
from loopmt.cli.tables import console, number_table, print_table

PACKAGE = ROOT / "src" / "loopmt"


def shown(table: Table, width: int, names: int = 1) -> list[str]:
    out = io.StringIO()
    print_table(Console(file=out, width=width), table, names)
    return out.getvalue().splitlines()


def wide() -> Table:
    table = number_table("Loops", "direction", "loop", *(f"quantity {number}" for number in range(6)))
    table.add_row("en>fr", "en>fr>es>en", *(f"0.{number}00 (0.10 to 0.90)" for number in range(6)))
    return table


def test_a_table_that_fits_is_one() -> None:
    assert sum("Loops" in line for line in shown(wide(), 300)) == 1


def test_a_wide_table_comes_in_parts_with_the_names_in_each() -> None:
    lines = shown(wide(), 80, names=2)
    rows = [line for line in lines if line.startswith("│")]
    assert len(rows) == 3 and all("│ en>fr     │ en>fr>es>en │" in row for row in rows)
    assert all(f"0.{number}00 (0.10 to 0.90)" in "".join(rows) for number in range(6))
    assert max(map(len, lines)) <= 80


def test_a_heading_is_broken_after_a_hyphen_before_the_table_is() -> None:
    stages = ("vanilla", "vanilla-longer", "dual", "dual-longer", "uniform", "multi-step")
    table = number_table("BLEU", "direction", *stages)
    table.add_row("en>fr", *["45.1"] * 6)
    lines = shown(table, 80)
    assert sum("en>fr" in line for line in lines) == 1 and max(map(len, lines)) <= 80
    assert "vanilla-" in lines[2] and "longer" in lines[3] and "vanilla-longer" in shown(table, 90)[1]


TINY: dict[str, Any] = {"difference": -0.001, "low": -0.004, "high": -0.0, "p_value": 0.9, "of": -0.001, "against": 0.0}


def test_no_number_is_a_negative_zero(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = dict.fromkeys(("multi_bleu", "chrf"), TINY)
    scores = {"multi_bleu": -0.001, "chrf": -0.002, "sentences": 3}
    stage = {"sets": {"test": {"directions": {"en>fr": scores}, "mean": scores}}, "mean": scores}
    comparison: dict[str, Any] = {"of": "b", "against": "a", "joint": metrics, "sets": {"test": {"joint": metrics}}}
    comparison["sets"]["test"]["directions"] = {"en>fr": metrics}
    signatures = {metric: {"fr": "s"} for metric in metrics}
    card = {"stages": {"a": stage, "b": stage}, "comparisons": [comparison], "waiting": [], "signatures": signatures}
    print_scorecard({**card, "seeds": [1]})
    printed = capsys.readouterr().out
    assert "+0.00 (+0.00 to +0.00)" in printed and "-0.0" not in printed


def test_signed_numbers_of_every_table_have_no_negative_zero() -> None:
    files = [file for folder in ("cli", "planning", "report", "workflow") for file in (PACKAGE / folder).glob("*.py")]
    signed = {file.name: re.findall(r":\+\.\d[f%]", file.read_text(encoding="utf-8")) for file in files}
    assert len(files) > 50 and {name for name, found in signed.items() if found} == set(), "write :+z.2f"


def test_a_title_is_as_wide_as_the_terminal_and_says_what_goes_on() -> None:
    table = number_table("A title that is wider than its table", "stage", "BLEU")
    table.add_row("dual", "1.25")
    assert shown(table, 80)[0] == "A title that is wider than its table"
    titles = [line for line in shown(wide(), 80, names=2) if "Loops" in line]
    assert titles == ["Loops", "Loops (continued)", "Loops (continued)"]


@pytest.mark.parametrize("width", [24, 30, 50])
def test_what_is_wider_than_the_terminal_is_folded(width: int) -> None:
    table = number_table("Stages", "stage", "BLEU")
    table.add_row("a-stage-with-a-very-long-name-indeed", "1.25 (a-word-that-nobody-could-break)")
    lines = shown(table, width)
    text = "".join(line.split("│")[1].strip() for line in lines if line.startswith("│"))
    assert text == "a-stage-with-a-very-long-name-indeed"
    assert "…" not in "".join(lines) and max(map(len, lines)) <= width


def test_a_pipe_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console().width >= 500
    monkeypatch.setenv("COLUMNS", "80")
    assert console().width == 80


def test_the_laboratory_fits_eighty_columns(tmp_path: object) -> None:
    small = ["--meanings", "6", "--worlds", "1", "--steps", "2", "--no-pictures"]
    done = CliRunner().invoke(app, ["lab", "--out", str(tmp_path), *small], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    tables = [line for line in done.output.splitlines() if line.startswith(("│", "┃"))]
    assert tables and "…" not in done.output and max(map(len, tables)) <= 80
    assert all(name in done.output for name in ("dependence", "corrected", "on top of dual: Gamma' < (1-M3)(1-q12)"))


def test_a_control_needs_no_control_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {name: [0.5, 0.4, 0.6] for name in ("p", "p_d", "gain")}
    row = {"set": "test", "before": "vanilla", "loop": "en>fr>en", "rule": "BLEU > 10", "values": shares}
    none = {"control": None, "why": "no other stage differs from it only in the loops"}
    analysis = {
        "right": "BLEU > 10",
        "pairs": [{**row, "after": "loops"}, {**row, "after": "dual"}, {**row, "after": "other"}],
        "beyond_placebo": [{**row, "after": "loops", "control": "dual"}],
        "placebos": {"loops": {"control": "dual", "why": ""}, "dual": none, "other": none},
    }
    print_analysis(analysis)
    printed = capsys.readouterr().out
    assert "stage other has no control" in printed and "stage dual has no control" not in printed
