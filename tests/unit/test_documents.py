"""Untrusted JSON and TOML: only documents that would exhaust a parser are refused before parsing."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stress.checks import limited

from helpers.facts import refused
from loopmt.config import load
from loopmt.errors import ConfigError, DamagedError, LoopmtError
from loopmt.files.documents import NESTING, json_text, parse_json, parse_toml, read_json_object
from loopmt.files.log import log_line, parse_record

SOON = 10.0  # seconds


@pytest.mark.parametrize("text", ['[{"a":' * 200_000, '{"a":' * (NESTING + 1) + "0" + "}" * (NESTING + 1)])
def test_deep_json(text: str) -> None:
    with limited(SOON), pytest.raises(ValueError, match=f"nested more than {NESTING} deep"):
        parse_json(text)


NOT_FINITE = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 400, "1" * 5_000]


@pytest.mark.parametrize("number", NOT_FINITE)
def test_numbers_that_are_not_finite(tmp_path: Path, number: str) -> None:
    text = f'{{"kind": "choice", "update": 1, "worth": {{}}, "scores": [1.5, {number}]}}'
    with pytest.raises(ValueError, match="not finite"):
        parse_json(text)
    assert parse_json(text, not_finite=lambda _: None)["scores"] == [1.5, None]
    assert parse_record(text.encode()) is None
    file = tmp_path / "scorecard.json"
    file.write_text(text)
    with pytest.raises(DamagedError, match=rf"scorecard\.json.*{number[:20]}.*Delete it"):
        read_json_object(file, "Delete it.")


def test_numbers_of_any_finite_size() -> None:
    text = "[1e308, -1e308, 1000000000000000019884624838656, 5e-324, 0]"  # the third is in tokenizers' settings
    assert json_text(parse_json(text)) == "[1e+308, -1e+308, 1000000000000000019884624838656, 5e-324, 0]"


def test_written_numbers_are_valid_json() -> None:
    value = {"rows": [float("nan"), 1.0, {"high": float("inf")}], "pair": (float("-inf"), 2)}
    assert json.loads(json_text(value)) == {"rows": [None, 1.0, {"high": None}], "pair": [None, 2]}
    line = log_line({"kind": "choice", "update": 1, "worth": {}, "score": float("nan")})
    assert parse_record(line.encode()) == {"kind": "choice", "update": 1, "worth": {}, "score": None}


def test_brackets_in_strings_do_not_count_as_nesting() -> None:
    value = [{"text": '[{"\\' * 500, "more": ["{" * 500]}] * 200
    assert parse_json(json.dumps(value)) == value
    assert parse_toml('a = "' + "[" * 500 + '"') == {"a": "[" * 500}
    assert parse_toml("# " + "a." * 500 + "[" * 500 + "\na.b = 'c.d'") == {"a": {"b": "c.d"}}


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a = " * 100_000,
        "a." * 50_000 + "a = 1",
        "a . " * 50_000 + "a = 1",
        '"=".' * 50_000 + "a = 1",
        "[" + "a." * 50_000 + "a]",
        't = { x = """a"b""", ' + "a." * 50_000 + "a = 1 }",
        't = { x = """a"""", ' + "a." * 50_000 + "a = 1 }",
        "t = { x = '''a'b''', " + "a." * 50_000 + "a = 1 }",
        "a = {" + ("a." * 20 + "a = {") * 20,
    ],
)
def test_deep_toml(text: str) -> None:
    with limited(SOON), pytest.raises(ValueError, match=f"nested more than {NESTING} deep"):
        parse_toml(text)


@pytest.mark.parametrize("number", ["1" * 5_000, "0x" + "f" * 5_000])
def test_numbers_that_cannot_be_printed(number: str) -> None:
    with refused(ValueError, "200 characters", "line 2"):
        parse_toml(f"a = 1\nb = {number}")


@given(st.text("ab.[]{}=\"'#\n, \\1", max_size=40))
def test_valid_documents_are_parsed(text: str) -> None:
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(tomllib.TOMLDecodeError):
            parse_toml(text)
    else:
        assert parse_toml(text) == expected


@pytest.mark.parametrize("text", ["a." * 50_000 + "a = 1", "stage = " + "[" * 100_000, "seed = " + "1" * 5_000])
def test_experiment_files(tmp_path: Path, text: str) -> None:
    file = tmp_path / "deep.toml"
    file.write_text(text)
    with limited(SOON), refused(ConfigError, "deep.toml", "TOML", "line 1"):
        load(file)
    file.write_text('languages = ["en", "fr"]')
    key, _, value = text.partition(" = ")
    with limited(SOON), pytest.raises(ConfigError, match=r"deep\.toml --set"):
        load(file, [f"{key}={value}"])


def test_an_experiment_file_has_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    with file.open("wb") as stream:
        stream.truncate(2**40)
    with limited(SOON), refused(LoopmtError, "large.toml", "1 MiB"):
        load(file)
