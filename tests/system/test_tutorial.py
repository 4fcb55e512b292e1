"""The tutorial's commands, as they stand, in small: it cannot rot."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from helpers.paths import DOCS
from loopmt.cli import main

TUTORIAL = DOCS / "tutorial.md"
SMALLER = {  # what makes it quick; everything else is run as printed
    "=900": "=60",
    "fr-es=60": "fr-es=40",
    "--mono 6000": "--mono 60 --valid 10 --test 12",
    "size = 700": "size = 480",
    "layers = 2": "layers = 1",
    "width = 64": "width = 16",
    "feed_forward = 128": "feed_forward = 16",
    "tokens = 512": "tokens = 128\nround = 4\nmax_length = 32\nvalidate_sentences = 4",
    "validate_every = 200": "validate_every = 4",
    "updates = 700": "updates = 8",
    "updates = 400": "updates = 4",
    "--to ct2 --out": "--sentences 4 --to ct2 --out",
}


@pytest.fixture(scope="module")
def tutorial() -> str:
    text = TUTORIAL.read_text(encoding="utf-8")
    for usual, small in SMALLER.items():
        assert usual in text, f"{usual} is no longer in the tutorial"
        text = text.replace(usual, small)
    return text


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def test_every_command_runs(
    tutorial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    monkeypatch.chdir(tmp_path)
    (experiment,) = blocks(tutorial, "toml")
    Path("experiment.toml").write_text(experiment, encoding="utf-8")
    lines = [line for block in blocks(tutorial, "sh") for line in block.splitlines()]
    assert len(lines) > 12
    for line in lines:
        said = typed(line, monkeypatch, capfd)
        if line.startswith("loopmt world"):
            assert said.strip() in experiment, "the section that it prints is the one that is shown"
        if line.startswith("loopmt show"):
            assert re.search("loops .*control.* mean of 6 directions", said)
    assert "<html" in Path("runs/experiment/report.html").read_text(encoding="utf-8")
    assert len(Path("translated.es").read_text(encoding="utf-8").splitlines()) == 12
    assert {"en-fr", "es-fr"} <= {one.name for one in Path("exported").iterdir()}


def typed(line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """A line as a shell reads it, in this process; it may be `echo TEXT | loopmt ...` or `loopmt ... > FILE`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    words = list(lexer)
    stdin, words = (words[1], words[3:]) if words[0] == "echo" else ("", words)
    words, out = (words[:-2], Path(words[-1])) if words[-2] == ">" else (words, None)
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{stdin}\n".encode())))
    with pytest.raises(SystemExit) as stop:
        main()
    said = capfd.readouterr()
    assert stop.value.code in (0, None), f"{line}\n{said.err}"
    if out:
        out.write_text(said.out, encoding="utf-8")
    return said.out
