"""The benchmark of two versions: both run in turns, each with its own modules."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from benchmarks import before_after

ROOT = Path(__file__).parents[2]


def test_two_checkouts_run_in_turns(tmp_path: Path) -> None:
    for part in ("src", "benchmarks"):
        shutil.copytree(ROOT / part, tmp_path / "old" / part, ignore=shutil.ignore_patterns("__pycache__"))
    training = tmp_path / "old" / "benchmarks" / "training.py"
    training.write_text(training.read_text().replace('f"training, preset {preset}"', '"the old one"'))
    sizes = ["--only", "training-small", "--repeats", "2", "--tiny", "--scratch", str(tmp_path / "scratch")]
    before_after.main([str(tmp_path / "old"), str(ROOT), "--out", str(tmp_path / "out.json"), *sizes])
    (found,) = json.loads((tmp_path / "out.json").read_text())["measurements"]
    assert (found["old"]["name"], found["new"]["name"]) == ("the old one", "training, preset small")
    assert {which: len(times) for which, times in found["seconds"].items()} == {"old": 2, "new": 2}
    assert found["new_over_old"] > 0


@pytest.mark.parametrize(
    ("old", "only", "says"),
    [
        (ROOT / "docs", "greedy", "docs is no checkout of loopmt: it has no benchmarks/speed.py"),
        (ROOT, "gredy", "'gredy' is no measurement of .* There are: .*greedy"),
    ],
)
def test_wrong_words(tmp_path: Path, capfd: pytest.CaptureFixture[str], old: Path, only: str, says: str) -> None:
    places = ["--scratch", str(tmp_path / "scratch"), "--out", str(tmp_path / "out.json")]
    with pytest.raises(SystemExit):
        before_after.main([str(old), str(ROOT), "--only", only, "--tiny", *places])
    said = capfd.readouterr().err
    assert re.search(says, said) and "Traceback" not in said
