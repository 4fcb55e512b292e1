"""The measured tables and plots of the documentation are those of the raw files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.pages import plots
from benchmarks.pages.blocks import filled, names, pages
from benchmarks.pages.raw import RESULTS
from benchmarks.pages.tables import TABLES

from helpers.paths import DOCS

FILES = [file for file in RESULTS.rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    "page", [file for file in pages() if names(file.read_text("utf-8"))], ids=lambda file: file.stem
)
def test_the_tables_of_a_page_are_those_of_the_raw_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text, TABLES) == text, "run `python -m benchmarks.pages`"


def test_every_table_is_on_a_page() -> None:
    used = {name for page in pages() for name in names(page.read_text(encoding="utf-8"))}
    assert used == set(TABLES)


def words(picture: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", picture.read_text(encoding="utf-8"))


def test_the_plots_are_of_the_recorded_figures(tmp_path: Path) -> None:
    plots.draw(tmp_path)
    for made in tmp_path.iterdir():
        assert words(made) == words(DOCS / "images" / made.name), "run `python -m benchmarks.pages`"
    assert "33.9" in words(tmp_path / "gains.svg")


def test_the_raw_files_stay_small_and_every_page_says_where_its_own_are() -> None:
    assert sum(file.stat().st_size for file in FILES) < 5_000_000
    for page in DOCS.glob("experiments/*.md"):
        assert "results/" in page.read_text(encoding="utf-8"), page
