"""The benchmarks of scale with tiny sizes: the made-up text, the check of disk space, and the costs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from benchmarks import scale, scale_paper, scale_text
from benchmarks.languages import measure
from benchmarks.watching import watch

from helpers.facts import refused
from loopmt.config import load


def test_made_up_text_has_the_stated_length_and_repetitions() -> None:
    table = scale_text._by_zipf(scale_text.lexicon("en"))
    lines = b"".join(scale_text._chunks(table, 3000, "test")).decode().splitlines()
    assert len(lines) == 3000
    assert sum(len(line.split()) for line in lines) / 3000 == pytest.approx(scale_text.MEAN_WORDS, rel=0.05)
    assert 0.003 < 1 - len(set(lines)) / 3000 < 0.02


def test_too_little_disk_space_is_refused(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with refused(SystemExit, " GB", "free", "--scratch"):
        scale.check_free_space(tmp_path, 2 * free // scale_text.BYTES_PER_LINE)


def test_memory_of_a_process_tree_is_measured() -> None:
    child = "import sys, time; held = bytearray(60_000_000); time.sleep(2)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    watched = watch([sys.executable, "-c", parent])
    assert 60e6 < watched.anonymous["whole"] < 200e6
    assert watched.seconds > 2


def test_costs_follow_the_rates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    measured = {"name": "training", "systems": {"loopmt": {"rate": 1e6}}}
    content = {"machine": {"cuda": "12", "device": "a GPU"}, "measurements": [measured]}
    (tmp_path / "bench" / "gpu.json").write_text(json.dumps(content), encoding="utf-8")
    for name, other in {"agreement": {"machine": {"cuda": "12"}, "rows": []}, "kernels": {"rows": []}}.items():
        (tmp_path / "bench" / f"{name}.json").write_text(json.dumps(other), encoding="utf-8")
    monkeypatch.setattr(scale_paper, "RESULTS", tmp_path)
    rates = scale_paper.rates({"sampling_base": 2e6})
    assert rates["training_base"] == scale_paper.Rate(1e6, "bench/gpu.json, a GPU")
    cost = scale_paper.Cost(load("examples/paper-wmt14.toml"), rates, 8)
    learnt, generated, learning, generating = cost.stage("dual", 1000)
    assert learnt == 1000 * 2 * 524_288 and generated == pytest.approx(0.54 * learnt)
    assert learning == pytest.approx(learnt / cost.big("training_base") / 8 / 3600)
    assert generating == pytest.approx(0.27 * learning)
    assert cost.stage("vanilla", 1000)[1] == 0
    assert any("bench/gpu.json" in line for line in scale_paper.report(cost))


def test_many_languages_in_small(tmp_path: Path) -> None:
    found = measure(4, "X>Y>Z>X", tmp_path)
    assert found["directions"] == 12 and found["routes"] == 6 + 12 + 24
