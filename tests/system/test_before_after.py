"""The benchmark of two versions: both run in turns, each with its own modules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks import before_after

ROOT = Path(__file__).parents[2]


def test_two_checkouts_run_in_turns(tmp_path: Path) -> None:
    for part in ("src", "benchmarks"):
        shutil.copytree(ROOT / part, tmp_path / "old" / part, ignore=shutil.ignore_patterns("__pycache__"))
    speed = tmp_path / "old" / "benchmarks" / "training.py"
    speed.write_text(speed.read_text().replace('f"training, preset {preset}"', '"the old one"'))
    sizes = ["--only", "training-small", "--repeats", "2", "--tiny", "--scratch", str(tmp_path / "scratch")]
    before_after.main([str(tmp_path / "old"), str(ROOT), "--out", str(tmp_path / "out.json"), *sizes])
    (found,) = json.loads((tmp_path / "out.json").read_text())["measurements"]
    assert (found["old"]["name"], found["new"]["name"]) == ("the old one", "training, preset small")
    assert {which: len(times) for which, times in found["seconds"].items()} == {"old": 2, "new": 2}
    assert found["new_over_old"] > 0
