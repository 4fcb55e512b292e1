"""The server against its own description: whatever schemathesis sends, the answer is one that the description names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.serving import running, service_of
from loopmt.progress import Silent
from loopmt.workflow.serve import ServeOptions, load_engine

pytest.importorskip("schemathesis", reason="schemathesis is not installed")

# A path that fits the pattern of a string may still lead through a language that the run does not have: that is a 400.
_BEYOND_A_SCHEMA = "positive_data_acceptance"


def test_answers_are_as_described(tiny_run: Path, tmp_path: Path) -> None:
    engine = load_engine(ServeOptions(tiny_run, backend="loopmt"), tmp_path, Silent())
    with running(service_of(tiny_run, engine)) as client:
        words = [sys.executable, "-m", "schemathesis.cli", "run", str(client.base_url.join("/openapi.json"))]
        words += ["--max-examples", "20", "--generation-deterministic", "--exclude-checks", _BEYOND_A_SCHEMA]
        environment = {**os.environ, "NO_COLOR": "1", "no_proxy": "*"}
        told = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
        assert client.get("/health").json()["status"] == "ready"
    assert told.returncode == 0, told.stdout[-4000:]
    assert "Tested: 3" in told.stdout
