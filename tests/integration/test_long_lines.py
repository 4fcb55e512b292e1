"""Lines that are longer than the training text: `translate` names one, and `--split` translates each sentence."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stress.checks import limited

from helpers.commands import Cli
from loopmt.translate.long_text import join_pieces, sentences
from loopmt.workflow.translate import by_sentence, load

ONE, TWO = "The cat sees the old dog.", "The king never likes a fish!"
LONG = " ".join([ONE, TWO] * 8)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"{ONE} {TWO}", [ONE, TWO]),
        ('He said: "Stop." Then he left.', ['He said: "Stop."', "Then he left."]),
        ("Dr. Smith met J. R. Tolkien. They ate.", ["Dr. Smith met J. R. Tolkien.", "They ate."]),
        ("It costs 3.50. 4 is more", ["It costs 3.50.", "4 is more"]),
        ("Wait... ¿Qué? «Sí.» bien", ["Wait...", "¿Qué?", "«Sí.» bien"]),
        ("and so on, z. B. this, ca. that", ["and so on, z. B. this, ca. that"]),
        ("你好。再见！好", ["你好。", "再见！", "好"]),
        ("one", ["one"]),
        ("  ", []),
    ],
)
def test_sentences(text: str, parts: Sequence[str]) -> None:
    assert sentences(text) == parts


@given(st.text("aZ .!?。\"'\n5"))
def test_sentences_lose_nothing_but_spaces(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["." * 10**5, "a" * 10**5, '." ' * 10**5, "a. " * 10**5, "。" * 10**5])
def test_sentences_of_rubbish_take_no_time(text: str) -> None:
    with limited(5):
        sentences(text)


@pytest.mark.parametrize("path", ["en>fr", "en>fr>es"])
def test_each_sentence_is_translated_by_itself(tiny_run: Path, path: str) -> None:
    translator = load(tiny_run)
    one, two = translator.translate([ONE, TWO], path)
    split = by_sentence(translator)
    assert split.translate([LONG, ONE, "", f"{TWO} {ONE}"], path) == [
        join_pieces([one, two] * 8), one, "", join_pieces([two, one]),
    ]  # fmt: skip
    assert [best.text for best, *_ in split.nbest([f"{ONE} {TWO}"], path, 3)] == [join_pieces([one, two])]


def test_a_long_line_is_named_once(tiny_run: Path, cli: Cli) -> None:
    told = cli("translate", tiny_run, "en>fr", stdin=f"{ONE}\n{LONG}\n{LONG}\n")
    (warning,) = [line for line in told.err.splitlines() if "warning" in line]
    assert "line 2 " in warning and "en" in warning and "--split" in warning
    subwords, usual = map(int, re.findall(r"(\d+) (?:subwords|a line)", warning))
    assert subwords > 2 * usual > 10
    assert told.code == 0 and len(told.out.splitlines()) == 3


def test_no_line_is_named(tiny_run: Path, cli: Cli, tmp_path: Path) -> None:
    assert "warning" not in cli("translate", tiny_run, "en>fr", stdin=f"{ONE}\n{TWO}\n").err
    without = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    (without / "manifest.json").unlink()
    told = cli("translate", without, "en>fr", stdin=f"{LONG}\n")
    assert (told.code, "warning" in told.err) == (0, False), "a run that does not know how long its text was"


@pytest.mark.parametrize("options", [[], ["--nbest", "2"], ["--mbr", "2"]])
def test_split_keeps_the_number_of_lines(tiny_run: Path, cli: Cli, options: Sequence[str]) -> None:
    lines = [LONG, "", ONE, f"{ONE} {TWO}"]
    told = cli("translate", tiny_run, "en>fr", "--split", *options, stdin="".join(f"{line}\n" for line in lines))
    assert (told.code, "warning" in told.err) == (0, False)
    printed = told.out.splitlines()
    numbers = [int(line.split("\t")[0]) for line in printed] if "--nbest" in options else [*range(1, len(printed) + 1)]
    assert sorted(set(numbers)) == [1, 2, 3, 4]
