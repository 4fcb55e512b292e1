"""Fuzzing: a few cases of every kind, always the same ones; `make stress` runs ten thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
from stress.checks import CommandResult, attempt, run_verb, violation
from stress.fuzz import feed
from stress.inputs import toml
from stress.kinds import WORLD, Kind, kinds

from helpers.facts import missing

CASES = {
    "experiment files": 60,
    "overrides": 20,
    "patterns": 40,
    "corpora": 12,
    "odd corpora": 8,
    "compressed corpora": 8,
    "corpora of records": 30,
    "text to translate": 20,
    "files to score": 16,
    "theory cases": 40,
    "damaged runs": 6,
    "requests": 40,
    "processes": 1,
}


@pytest.fixture(scope="module")
def by_name(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    folder = tmp_path_factory.mktemp("fuzz")
    return {kind.name: kind for kind in kinds(folder, tiny_run)}


@pytest.mark.filterwarnings("default:Moses has no rules")  # for odd text as a language
@pytest.mark.parametrize("name", CASES)
def test_odd_input_violates_no_rule(name: str, by_name: dict[str, Kind]) -> None:
    kind = by_name[name]
    with kind.ready():
        count, failures = feed(kind, CASES[name], 1)
    assert not failures, "\n".join(failures)
    assert count == CASES[name]


def test_every_kind_is_tested(by_name: dict[str, Kind]) -> None:
    assert by_name.keys() == CASES.keys()
    assert sum(kind.share for kind in by_name.values()) >= 1, "at least as many cases as were asked for"


@pytest.mark.parametrize(
    ("end", "wrong"),
    [
        (CommandResult(0, b"fine\n", ""), None),
        (CommandResult(2, b"", "loopmt: no.\n"), None),
        (CommandResult(1, b"", "Traceback"), "exit code 1"),
        (CommandResult(2, b"half", "loopmt: no.\n"), "standard output on an error"),
        (CommandResult(2, b"", ""), "an error without a message"),
        (CommandResult(0, b"", "Traceback (most recent call last)"), "a traceback"),
        (CommandResult(0, b"\x1b[31m", ""), "control character '\\x1b'"),
        (CommandResult(2, b"", "no: \x07"), "control character '\\x07'"),
    ],
)
def test_violations_are_detected(end: CommandResult, wrong: str | None) -> None:
    found = violation(end)
    assert found is None if wrong is None else wrong in str(found)


def test_hangs_and_tracebacks_are_detected() -> None:
    def hang(case: None) -> None:
        while True:
            pass

    def stumble(case: None) -> None:
        raise KeyError("stumbled")

    assert attempt(hang, None, 0.1) == "no end within 0.1 seconds of processor time"
    assert "stumbled" in str(attempt(stumble, None))


# -- what was found ----------------------------------------------------------------------------------------------


def test_a_pattern_with_too_many_paths() -> None:
    """Twelve languages in nine places are 80 million paths."""
    end = run_verb(["paths", "A>B>C>D>E>F>G>H>I", "--languages", ",".join(f"l{number}" for number in range(12))])
    assert end.code == 2
    assert not missing(end.err, "A>B>C>D>E>F>G>H>I", "79,833,600 paths", "12 languages", "1,000,000")


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("v8(<=1", "unknown key 'v8(<'."),
        ("model.preset=[]", "model.preset: it should be 'tiny', 'small', 'base' or 'big'."),
        ("\x1b]0;title\x07=1", r"unknown key '\x1b]0;title\x07'."),
    ],
)
def test_odd_overrides(override: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "world.toml").write_text(toml(WORLD), encoding="utf-8")
    end = run_verb(["train", str(tmp_path / "world.toml"), "--dry-run", "--run", str(tmp_path), "--set", override])
    assert (end.code, end.out) == (2, b"")
    assert sentence in end.err


@pytest.mark.parametrize(("number", "printed"), [("Infinity", b'"inf"'), ("-1e999", b'"-inf"'), ("NaN", b"null")])
def test_unused_infinities_in_theory_documents(number: str, printed: bytes) -> None:
    """Where nothing reads it, it is printed as the answers' infinities are."""
    end = run_verb(["theory", "-"], f'{{"cases": [], "note": [{number}]}}'.encode())
    assert (end.code, printed in end.out) == (0, True)


def test_a_dry_run_that_fails_prints_nothing(tmp_path: Path) -> None:
    experiment = {**WORLD, "data": {"bitext": {"en-fr": "bi"}, "mono": {"en": "bi", "fr": "bi"}, "valid": "valid"}}
    (tmp_path / "exp.toml").write_text(toml(experiment), encoding="utf-8")
    end = run_verb(["train", str(tmp_path / "exp.toml"), "--dry-run", "--run", str(tmp_path / "run")])
    assert (end.code, end.out) == (2, b"")
    assert "there is no" in end.err
