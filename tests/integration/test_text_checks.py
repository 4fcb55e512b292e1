"""Wrong training text is named when it is prepared: its language, swapped sides, lines that are not aligned."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.commands import Cli
from loopmt.config import Data, VocabConfig
from loopmt.errors import DataError
from loopmt.synthetic import World, write_corpora
from loopmt.text.manifest import Finding, Manifest
from loopmt.text.prepare import prepare

LANGUAGES = ["en", "fr", "de"]
ROWS = 300
Damage = Callable[[Path], None]
EXPERIMENT = """
languages = ["en", "fr"]
[data]
bitext = { "en-fr" = "bi.en-fr" }
mono = { en = "mono", fr = "mono" }
valid = "valid"
[vocab]
size = 400
[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 1
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    pairs, mono = {"en-fr": ROWS, "en-de": ROWS}, dict.fromkeys(LANGUAGES, ROWS)
    write_corpora(folder, World("small", LANGUAGES), 1, pairs, mono, valid=100, test=60)
    return folder


@pytest.fixture
def text(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "text"))


def data(strict: bool = False) -> Data:
    bitext = {pair: [f"bi.{pair}"] for pair in ("en-fr", "en-de")}
    mono = {language: ["mono"] for language in LANGUAGES}
    return Data(root="text", bitext=bitext, mono=mono, valid="valid", test="test", strict=strict)


def prepared(folder: Path, strict: bool = False) -> Manifest:
    run = folder / "run"
    run.mkdir(exist_ok=True)
    return prepare(data(strict), VocabConfig(size=400), LANGUAGES, 1, folder, run)


def exchange(one: str, other: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / one).rename(folder / "between")
        (folder / other).rename(folder / one)
        (folder / "between").rename(folder / other)

    return damage


def shifted(name: str, by: int, start: int = 0) -> Damage:
    """Lines are missing from `start` on, and others are added at the end."""

    def damage(folder: Path) -> None:
        rows = (folder / name).read_text(encoding="utf-8").splitlines()
        moved = [*rows[:start], *rows[start + by :], *rows[start : start + by]]
        (folder / name).write_text("".join(f"{row}\n" for row in moved), encoding="utf-8")

    return damage


def copied(source: str, target: str, share: float = 1.0) -> Damage:
    """Lines of another file in place of the first ones."""

    def damage(folder: Path) -> None:
        theirs, rows = ((folder / name).read_text(encoding="utf-8").splitlines() for name in (source, target))
        count = int(share * len(rows))
        (folder / target).write_text("".join(f"{row}\n" for row in [*theirs[:count], *rows[count:]]), encoding="utf-8")

    return damage


def unaligned(name: str) -> Damage:
    """Every line is one of another sentence."""

    def damage(folder: Path) -> None:
        rows = (folder / name).read_text(encoding="utf-8").splitlines()
        (folder / name).write_text("".join(f"{row}\n" for row in rows[::-1]), encoding="utf-8")

    return damage


def test_good_text_has_no_findings(text: Path) -> None:
    assert prepared(text.parent).findings == []


@pytest.mark.parametrize("rows", [3, 10, 39])
def test_tiny_corpora_have_none(text: Path, rows: int) -> None:
    for file in text.iterdir():
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(lines[:rows]), encoding="utf-8")
    assert prepared(text.parent).findings == []


@pytest.mark.parametrize(
    ("damage", "kind", "corpus", "files"),
    [
        (exchange("bi.en-fr.en", "bi.en-fr.fr"), "swapped", "bitext en-fr", ["bi.en-fr.en", "bi.en-fr.fr"]),
        (exchange("valid.de", "valid.fr"), "swapped", "valid", ["valid.fr", "valid.de"]),
        (copied("mono.de", "mono.fr"), "language", "mono fr", ["mono.fr"]),
        (copied("mono.de", "mono.fr", 0.5), "language", "mono fr", ["mono.fr"]),
        (copied("mono.de", "bi.en-fr.fr"), "language", "bitext en-fr", ["bi.en-fr.fr"]),
        (copied("test.en", "test.de"), "language", "test", ["test.de"]),
        (shifted("bi.en-de.de", 1), "shifted", "bitext en-de", ["bi.en-de.en", "bi.en-de.de"]),
        (shifted("bi.en-de.en", 3), "shifted", "bitext en-de", ["bi.en-de.en", "bi.en-de.de"]),
        (shifted("bi.en-fr.fr", 2, ROWS // 2), "shifted", "bitext en-fr", ["bi.en-fr.en", "bi.en-fr.fr"]),
        (shifted("valid.fr", 1), "shifted", "valid", ["valid.en", "valid.fr"]),
        (unaligned("bi.en-fr.en"), "unrelated", "bitext en-fr", ["bi.en-fr.en", "bi.en-fr.fr"]),
    ],
)  # fmt: skip
def test_wrong_text_is_named(text: Path, damage: Damage, kind: str, corpus: str, files: list[str]) -> None:
    damage(text)
    manifest = prepared(text.parent)
    (finding,) = manifest.findings
    assert (finding.kind, finding.corpus, [Path(file).name for file in finding.files]) == (kind, corpus, files)
    assert all(str(text / file) in finding.message for file in files)
    assert Manifest.load(text.parent / "run" / "manifest.json") == manifest
    _check_example(finding)


def _check_example(finding: Finding) -> None:
    """The line that is shown stands where the message says, in the first file."""
    found = re.search(r'Line ([\d,]+) is "(.*?)(?:\.\.\.)?"', finding.message)
    assert found is not None
    lines = Path(finding.files[0]).read_text(encoding="utf-8").splitlines()
    assert lines[int(found[1].replace(",", "")) - 1].startswith(found[2])


def test_a_shift_says_where_it_begins_and_what_to_do(text: Path) -> None:
    shifted("bi.en-fr.fr", 2, ROWS // 2)(text)
    (finding,) = prepared(text.parent).findings
    first = re.search(r"about lines (\d+) to (\d+)", finding.message)
    assert first is not None
    assert abs(int(first[1]) - ROWS // 2) < 12 and int(first[2]) > ROWS - 12
    assert finding.figures["offset"] == -2 and finding.figures["share"] > 0.7
    assert finding.figures["offset -2"] > 0 and finding.figures["offset 0"] > finding.figures["offset +3"]
    assert f"add 2 lines that {text / 'bi.en-fr.fr'} lacks" in finding.message


def test_a_language_that_no_other_file_has(text: Path) -> None:
    copied("mono.de", "mono.fr")(text)
    languages = ["en", "fr"]
    mono = {language: ["mono"] for language in languages}
    two = Data(root="text", bitext={"en-fr": ["bi.en-fr"]}, mono=mono, valid="valid")
    (text.parent / "run").mkdir()
    (finding,) = prepare(two, VocabConfig(size=400), languages, 1, text.parent, text.parent / "run").findings
    assert (finding.kind, finding.corpus) == ("language", "mono fr")


def test_one_file_with_both_languages(text: Path) -> None:
    sides = [(text / f"bi.en-fr.{language}").read_text(encoding="utf-8").splitlines() for language in ("fr", "en")]
    (text / "bi.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in zip(*sides, strict=True)))
    mono = {language: ["mono"] for language in ("en", "fr")}
    one = Data(root="text", bitext={"en-fr": ["bi.tsv"]}, mono=mono)
    (text.parent / "run").mkdir()
    (finding,) = prepare(one, VocabConfig(size=400), ["en", "fr"], 1, text.parent, text.parent / "run").findings
    assert (finding.kind, finding.files) == ("swapped", [f"{text / 'bi.tsv'} ({one})" for one in ("en", "fr")])
    assert "columns" in finding.message


def test_strict_refuses_before_anything_is_written(text: Path) -> None:
    exchange("bi.en-fr.en", "bi.en-fr.fr")(text)
    shifted("bi.en-de.de", 1)(text)
    with pytest.raises(DataError, match=r"(?s)strict.*bi\.en-fr\.en.*bi\.en-de\.de"):
        prepared(text.parent, strict=True)
    assert [*(text.parent / "run").iterdir()] == []
    assert len(prepared(text.parent).findings) == 2
    with pytest.raises(DataError, match="strict"):
        prepared(text.parent, strict=True)


def test_strict_is_no_other_data(text: Path) -> None:
    before = prepared(text.parent)
    assert prepared(text.parent, strict=True) == before
    assert "strict" not in before.settings["data"]


def test_verbs_say_it(text: Path, cli: Cli) -> None:
    exchange("bi.en-fr.en", "bi.en-fr.fr")(text)
    (text / "x.toml").write_text(EXPERIMENT, encoding="utf-8")
    for _ in range(2):
        told = cli("prepare", text / "x.toml", "--run", text / "run")
        assert told.code == 0
        assert re.search(r"^warning: bitext en-fr: .*bi\.en-fr\.en.*swapped", told.err, re.MULTILINE)
    assert re.search(r"^warning: bitext en-fr: .*swapped", cli("show", text / "run").out, re.MULTILINE)
