"""`loopmt theory` and `loopmt lab` as typed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from helpers.facts import lacks, refused
from helpers.paths import DATA, DOCS, ROOT
from loopmt.cli.lab import lab
from loopmt.cli.theory import theory
from loopmt.errors import LoopmtError

VECTORS = DATA / "vectors.json"

app = typer.Typer()
app.command()(theory)
app.command()(lab)


def run(*arguments: str, text: str | None = None) -> str:
    """What is printed on standard output; raises what the command raises."""
    result = CliRunner().invoke(app, list(arguments), input=text)
    if isinstance(result.exception, LoopmtError):
        assert result.stdout == ""
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_document_gains_an_out() -> None:
    filled = json.loads(run("theory", str(VECTORS)))
    assert len(filled["cases"]) == 70 and all("out" in case for case in filled["cases"])
    assert json.loads(run("theory", "-", text=VECTORS.read_text("utf-8"))) == filled
    assert "NaN" not in json.dumps(filled) and "Infinity" not in json.dumps(filled)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "standard input is not valid JSON"),
        ("[]", 'a list under "cases"'),
        ('{"cases": [{"id": "a7", "kind": "joint2", "in": {"p": 2, "r": 0, "lambda": 0}}]}', "case a7: p = 2 is not"),
        ('{"cases": [{"id": "a8", "kind": "joint2", "in": {"p": NaN, "r": 0, "lambda": 0}}]}', "case a8: p is nan"),
    ],
)
def test_bad_documents_print_nothing(text: str, sentence: str) -> None:
    with pytest.raises(LoopmtError) as error:
        run("theory", "-", text=text)
    assert not lacks(str(error.value), sentence) and error.value.exit_code == 2


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with refused(LoopmtError, "nowhere.json", "No such file"):
        run("theory", str(tmp_path / "nowhere.json"))
    (tmp_path / "latin").write_bytes(b'{"cases": "\xe9"}')
    with pytest.raises(LoopmtError, match="it is not UTF-8 text"):
        run("theory", str(tmp_path / "latin"))


def test_standard_input_without_an_end() -> None:
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            [sys.executable, "-m", "loopmt", "theory", "-"], stdin=endless, capture_output=True, text=True, timeout=60
        )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "standard input" in line and "256 MiB" in line


TABLES: list[tuple[str, list[str]]] = [
    (
        "--p .65 --r .73 --lambda .1 --delta .3 --alpha .3 --beta .28 --kappa .1",
        ["0.684645", "0.72136", "erratum 9", "0.117813", "0.179439", "rho", "-0.0945 to 0.1755", "0.816047"],
    ),
    ("--p .6 --r .5 --lambda -.15 --delta .4", ["0.282353", "-0.141176", "erratum 6"]),
    (
        "--q12 .7 --q23 .75 --q31 .75 --lambda1 .05 --lambda2 .11 --delta .3 --alpha .3 --r .73",
        ["0.519875", "0.549875", "0.057375", "0.044775", "0.6467", "0.67148", "-0.33", "erratum 23"],
    ),
    ("--q .7 --q .8 --q .8 --q .9 --delta .2", ["0.576", "0.611111", "must stay below 5", "0.942013"]),
    ("--p 0 --r 0", ["undefined", "no"]),
]


@pytest.mark.parametrize(("numbers", "shown"), TABLES)
def test_numbers_make_a_table(numbers: str, shown: list[str]) -> None:
    table = run("theory", *numbers.split())
    assert [text for text in shown if text not in table] == []


def test_numbers_as_json() -> None:
    answers = json.loads(run("theory", "--p", ".07", "--r", ".12", "--lambda", "-.0084", "--delta", ".5", "--json"))
    assert answers["accdual"]["M"] == "inf" and answers["joint2"]["P11"] == 0


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ("", "--p and --r missing"),
        ("--q12 .5", "--q23 and --q31 missing"),
        ("--p .65 --r .73 --lambda .65", r"lambda = 0.65 is impossible .* \[-0.0945, 0.1755\]"),
        ("--p .5 --r .5 --alpha .5 --beta .4 --gamma .3", "alpha \\+ beta \\+ gamma must be 1"),
        ("--p .5 --r .5 --alpha .5 --beta .6", "alpha \\+ beta = 1.1 exceeds 1"),
        ("--p .5 --r .5 --gamma .1 --kappa .2", "kappa = 0.2 exceeds gamma = 0.1"),
        ("--q .5 --q .6 --alpha .2", "--alpha cannot be used with --q"),
        ("--q12 .5 --q23 .5 --q31 .5 --u11 .1", "--u11 cannot be used with --q12"),
        ("cases.json --p .5", "not both"),
    ],
)
def test_numbers_that_do_not_fit(numbers: str, sentence: str) -> None:
    with pytest.raises(LoopmtError, match=sentence):
        run("theory", *numbers.split())


def test_help_shows_an_example_and_needs_no_torch() -> None:
    assert "loopmt theory --p .65" in run("theory", "--help")
    assert "loopmt lab --out" in run("lab", "--help")
    code = (
        "import sys, loopmt.cli.lab, loopmt.cli.theory_tables; "
        "sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


SIZES = ["--meanings", "10", "--sentences", "2", "--worlds", "1", "--steps", "4"]


def test_lab_prints_tables_and_writes_everything(tmp_path: Path) -> None:
    out = tmp_path / "lab"
    printed = run("lab", "--out", str(out), *SIZES)
    assert "Theorem 2 and the truth" in printed and "lab.json" in printed
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["lab.json", *(f"gain-{x}.{kind}" for x in ("delta", "length", "pivots", "r") for kind in ("png", "svg"))]
    )
    assert json.loads((out / "lab.json").read_text("utf-8"))["settings"]["meanings"] == 10


def test_lab_as_json(tmp_path: Path) -> None:
    rows = json.loads(run("lab", "--out", str(tmp_path), "--no-pictures", "--json", *SIZES))
    assert {row["dependence"] for row in rows["theorem1"]} == {"none", "some", "much"}
    assert [path.name for path in tmp_path.iterdir()] == ["lab.json"]


def test_lab_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LoopmtError, match="Cannot make the folder"):
        run("lab", "--out", str(tmp_path / "file"), "--no-pictures", *SIZES)
    with pytest.raises(LoopmtError, match="worlds is 0"):
        run("lab", "--out", str(tmp_path), "--worlds", "0")


DOCUMENT = DOCS / "theory.md"


def test_every_command_and_test_named_in_the_document_exists() -> None:
    text = DOCUMENT.read_text("utf-8")
    commands = {line.split("#")[0].strip() for line in re.findall(r"loopmt (theory --[^`\n]*)", text)}
    assert len(commands) >= 10
    refused = [command for command in commands if _is_refused(command)]
    assert refused == ["theory --p .65 --r .73 --lambda .65"]
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests] == []


def _is_refused(command: str) -> bool:
    try:
        return not run(*command.split())
    except LoopmtError:
        return True
