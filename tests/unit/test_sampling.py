"""Rows dealt into blocks: exact, disjoint, decided by the seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.facts import refused
from loopmt.errors import DataError
from loopmt.progress import Silent
from loopmt.text.corpus import Source
from loopmt.text.recipes import RecipePart, TextBlock
from loopmt.text.sampling import deal


def column(folder: Path, language: str, rows: int) -> Path:
    file = folder / f"in.{language}"
    file.write_text("".join(f"{language} {row}\n" for row in range(rows)))
    return file


def numbers(file: Path) -> list[int]:
    return [int(line.split()[-1]) for line in file.read_text().splitlines()]


@given(st.integers(0, 5), st.integers(1, 9), st.integers(1, 9), st.integers(0, 60))
def test_blocks_are_disjoint_exact_and_aligned(
    tmp_path_factory: pytest.TempPathFactory, seed: int, one: int, two: int, more: int
) -> None:
    folder = tmp_path_factory.mktemp("deal")
    total = one + two + 1 + more
    source = Source("s", "text", ("en", "fr"), (column(folder, "en", total), column(folder, "fr", total)))
    part = RecipePart("p", ("en", "fr"), (), (TextBlock("a", one), TextBlock("b", two, ("fr",)), TextBlock("c")))
    rows = deal(part, [source], folder, seed, 1.0, Silent())
    assert rows == {"a.en": one, "a.fr": one, "b.fr": two, "c.en": 1 + more, "c.fr": 1 + more}
    dealt = {name: numbers(folder / name) for name in rows}
    assert dealt["a.en"] == dealt["a.fr"] and dealt["c.en"] == dealt["c.fr"]
    assert sorted(dealt["a.fr"] + dealt["b.fr"] + dealt["c.fr"]) == list(range(total))


def test_the_seed_decides_and_chunks_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("s", "text", ("en",), (column(tmp_path, "en", 500),))
    part = RecipePart("p", ("en",), (), (TextBlock("a", 50),))
    drawn = []
    for seed, chunk in ((1, 2**16), (1, 7), (2, 7)):
        monkeypatch.setattr("loopmt.text.sampling._CHUNK", chunk)
        deal(part, [source], tmp_path, seed, 1.0, Silent())
        drawn.append(numbers(tmp_path / "a.en"))
    assert drawn[0] == drawn[1] != drawn[2]


def test_too_few_rows(tmp_path: Path) -> None:
    source = Source("s", "text", ("en",), (column(tmp_path, "en", 50),))
    part = RecipePart("p", ("en",), (), (TextBlock("a", 100),))
    with refused(DataError, "50 rows", "100", "--scale 0.45"):
        deal(part, [source], tmp_path, 1, 1.0, Silent())
    assert deal(part, [source], tmp_path, 1, 0.45, Silent()) == {"a.en": 45}
