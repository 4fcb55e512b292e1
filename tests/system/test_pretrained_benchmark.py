"""The benchmark of pretrained checkpoints runs on a CPU, and both systems compute the same losses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")


def test_it_runs_with_a_tiny_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks import pretrained

    pretrained.main(
        ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out.json"), "--tiny", "--stages", "full"]
    )
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found["loss_difference"] < 1e-4
    assert [one["name"] for one in found["timings"]] == ["generate, greedy", "generate, beam 4", "train"]
    for one in found["timings"]:
        assert {name: system.get("failed") for name, system in one["systems"].items()} == {
            "loopmt": None,
            "hugging face": None,
        }
    assert [(one["adapt"], one["backend"]) for one in found["stages"]] == [("full", "native")]
    assert "beam 4" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        pretrained.main(["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out.json")])
