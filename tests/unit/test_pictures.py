"""Pictures of recorded figures say what the raw files say today."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from helpers.paths import DOCS

IMAGES = DOCS / "images"


def words(picture: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", picture.read_text(encoding="utf-8"))


def test_the_drawing_of_gains_is_of_the_recorded_figures(tmp_path: Path) -> None:
    runpy.run_path(str(IMAGES / "draw_results.py"))["main"](tmp_path)
    assert "33.9" in words(tmp_path / "gains.svg")
    assert words(tmp_path / "gains.svg") == words(IMAGES / "gains.svg")
