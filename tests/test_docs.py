"""The documentation says what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from loopmt.config import load

ROOT = Path(__file__).parent.parent


def test_the_reference_is_made_from_the_code() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["reference"]()
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == made, "run `python docs/make_reference.py`"


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.stem)
def test_every_example_is_a_valid_experiment(file: Path) -> None:
    assert load(file).stages


@pytest.mark.parametrize(
    "file", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]), ids=lambda file: file.stem
)
def test_links_lead_somewhere(file: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", file.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (file.parent / link).exists()] == []
