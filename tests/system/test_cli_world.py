"""Text of the built-in languages, as typed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import Cli
from loopmt.progress import Lines
from loopmt.synthetic import World


def test_world_writes_text_to_practise_on(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "corpora"
    done = cli("world", folder, "--pair", "en-fr=20", "--pair", "fr-es=5", "--mono", 30, "--valid", 4, "--test", 6)
    assert (done.code, done.err) == (0, "")
    lines = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in folder.iterdir()}
    assert lines == {
        **{f"bi.en-fr.{code}": 20 for code in ("en", "fr")},
        **{f"bi.fr-es.{code}": 5 for code in ("fr", "es")},
        **{f"{name}.{code}": n for code in ("en", "fr", "es") for name, n in (("mono", 30), ("valid", 4), ("test", 6))},
    }
    section = tomllib.loads(done.out)["data"]
    assert section["root"] == str(folder)
    assert section["bitext"] == {"en-fr": "bi.en-fr", "fr-es": "bi.fr-es"}
    assert section["mono"] == dict.fromkeys(("en", "fr", "es"), "mono")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pair", "en-fr"], "--pair en-fr: write L1-L2=N, such as en-fr=900."),
        (["--pair", "en-it=3"], 'the world cannot write text for "en-it". Its languages are en, fr, es'),
        (["--pair", "en-fr=9999999"], "the tiny world has fewer than 8,313,040 meanings. Request fewer lines"),
        (["--languages", "en,it"], 'the world has no language "it"; its languages are en, fr, es, de.'),
    ],
)
def test_world_refuses(cli: Cli, tmp_path: Path, words: list[str], said: str) -> None:
    done = cli("world", tmp_path / "corpora", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err and not (tmp_path / "corpora").exists()


def test_world_overwrites_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "test.en").write_text("mine")
    done = cli("world", tmp_path)
    assert done.code == 2 and "overwritten" in done.err
    assert (tmp_path / "test.en").read_text() == "mine"


def test_world_interrupted_leaves_nothing_that_blocks_a_repeat(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "corpora"
    words = ("world", folder, "--pair", "en-fr=20", "--mono", 5, "--valid", 4, "--test", 6)
    say, said = World.sentence, []

    def interrupted(*arguments: Any) -> str:
        said.append(arguments)
        if len(said) > 30:
            raise KeyboardInterrupt
        return say(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(World, "sentence", interrupted)
        cli(*words)
    assert list(folder.iterdir()) == []
    (folder / ".draft-killed").mkdir()
    done = cli(*words)
    assert done.code == 0 and len((folder / "bi.en-fr.fr").read_text(encoding="utf-8").splitlines()) == 20


@pytest.mark.parametrize(
    "words",
    [
        ("world", "corpora", "--pair", "en-fr=4", "--mono", 2, "--valid", 1, "--test", 1),
        ("lab", "--out", "lab", "--meanings", 6, "--worlds", 1, "--steps", 2, "--no-pictures"),
    ],
)
def test_what_takes_long_says_how_far_it_is(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("loopmt.progress.standard", lambda: Lines(interval=0))
    done = cli(*words)
    assert done.code == 0 and "100% after" in done.err and "done in" in done.err
