"""The tables of docs/results.md say what the raw files say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
SETS = ("test", "test-long", "newstest2011", "flores-dev")
ALIASES = {"multi-step, uniform": "multi-step", "dual-longer-two, two sources a sentence": "dual-longer-two"}


def tables() -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Tables by test set: the folder of the section's raw files, the head, and the rows."""
    for section in (DOCS / "results.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        folders = re.findall(r"docs/results/([\w-]+)|\(`results/(europarl-shared)`", section)
        for table in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE) if folders else []:
            head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
            if "test" in head:
                yield "".join(folders[0]), head, rows


def cells(head: list[str], row: list[str]) -> dict[str, str]:
    return {name: cell.strip("*") for name, cell in zip(head, row, strict=True) if name in SETS and cell}


def raw(folder: str, row: str) -> dict[str, str]:
    """What a row should say of each test set: a stage's mean, or a difference with its interval."""
    if row.startswith("*a later sitting:* "):
        return raw(f"{folder}-uniform", row.removeprefix("*a later sitting:* "))
    card = json.loads((DOCS / "results" / folder / "scores.json").read_text(encoding="utf-8"))
    of, _, against = re.sub(r" \(.*\)|^\*\*|\*\*$", "", row).replace(", over", " over").partition(" over ")
    of = ALIASES.get(of, of)
    if not against:
        found = card["stages"].get(of, {"sets": {}})["sets"]
        return {name: f"{one['mean']['multi_bleu']:.2f}" for name, one in found.items()}
    for one in card["comparisons"]:
        if (one["of"], one["against"]) == (of, against):
            return {name: difference(found["joint"]["multi_bleu"]) for name, found in one["sets"].items()}
    return {}


def difference(one: dict[str, Any]) -> str:
    return f"{one['difference']:+.2f} ({one['low']:+.2f} to {one['high']:+.2f})"


def test_scores_and_gains_are_those_of_the_raw_files() -> None:
    checked, wrong = 0, []
    for folder, head, rows in tables():
        for label, *row in rows:
            known = raw(folder, label)
            for name, cell in cells(head[1:], row).items():
                checked += name in known
                if known.get(name, cell) not in (cell, cell.replace("+0.00", "-0.00")):
                    wrong.append(f"{folder}, {label}, {name}: {cell}, raw {known[name]}")
    assert wrong == []
    assert checked > 300
