"""Names and generated text are escaped on a terminal and on a page."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from loopmt.cli.tables import number_table
from loopmt.progress import Lines, visible, visible_message

EVIL = "[/] \x1b[31m\x1b]0;title\x07 \x9b2J \u202e"
SHOWN = r"\x1b[31m\x1b]0;title\x07 \x9b2J \u202e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Le chat dort, שלום 🐈\n\ttab", "Le chat dort, שלום 🐈\n\ttab"),
        (EVIL, f"[/] {SHOWN}"),
        ("\r\x00\x7f\x85\u2066", r"\r\x00\x7f\x85\u2066"),
        ("\udcff\ud800", r"\udcff\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_name_begins_a_message_of_its_own() -> None:
    forged = "run\nloopmt: all is well\n\tloopmt: indeed"
    assert visible_message(f"loopmt: {forged}") == r"loopmt: run\nloopmt: all is well\n" + "\tloopmt: indeed"
    assert visible_message("missing:\n  one\n  two") == "missing:\n  one\n  two"
    out = io.StringIO()
    Lines(out).say(forged)
    assert len(out.getvalue().splitlines()) == 1


def test_a_test_set_may_have_any_name() -> None:
    """Its name is neither markup nor a control sequence in a table."""
    out = io.StringIO()
    Console(file=out, width=200).print(number_table(f"BLEU on {EVIL}", "direction", EVIL))
    assert out.getvalue().count(SHOWN) == 2
    assert "\x1b" not in out.getvalue() and "\x9b" not in out.getvalue()


def test_lines_of_progress() -> None:
    out = io.StringIO()
    Lines(out).say(EVIL)
    assert out.getvalue() == f"[/] {SHOWN}\n"
