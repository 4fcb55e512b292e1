"""Marked blocks of a page, filled with generated tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.pages.raw import DOCS

Table = Callable[[], str]
_BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Every page that may quote measured tables."""
    return [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("experiments/*.md"))]


def fill(page: Path, tables: Mapping[str, Table]) -> bool:
    """Replace the blocks of a page; whether that changed it."""
    before = page.read_text(encoding="utf-8")
    after = filled(before, tables)
    page.write_text(after, encoding="utf-8")
    return after != before


def filled(text: str, tables: Mapping[str, Table]) -> str:
    return _BLOCK.sub(lambda found: f"{found[1]}\n{_table(found[2], tables)}\n\n{found[3]}", text)


def names(text: str) -> list[str]:
    return [found[2] for found in _BLOCK.finditer(text)]


def _table(name: str, tables: Mapping[str, Table]) -> str:
    if name not in tables:
        raise SystemExit(f"No table is called {name}. Known tables: {', '.join(sorted(tables))}.")
    return tables[name]().strip()
