"""Training that is killed by SIGKILL at any point and resumed ends like an uninterrupted run.

Five kills here; `make stress` makes a hundred, some of them in one of two processes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import loopmt.errors
from helpers.paths import ROOT

sys.path.insert(0, str(ROOT))
from stress.kills import KilledRun, stress
from stress.training import PHASES, phase_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc says when a process has stopped")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[KilledRun]:
    return stress(5, torchrun=0, seed=1, scratch=tmp_path_factory.mktemp("stress"))


def test_every_killed_run_ends_as_the_uninterrupted_one(runs: list[KilledRun]) -> None:
    assert sum(len(run.kills) for run in runs) == 5
    assert all(run.identical for run in runs), runs


def test_kills_hit_their_phase(runs: list[KilledRun]) -> None:
    kills = [kill for run in runs for kill in run.kills]
    assert {"generation", "checkpoint write", "update"} <= {kill.phase for kill in kills}
    assert all(kill.aim in ("anywhere", kill.phase) for kill in kills)


@pytest.mark.parametrize("name", PHASES)
def test_phases_name_existing_functions(name: str) -> None:
    """Otherwise the test would wait for a phase forever."""
    package = Path(loopmt.errors.__file__).parent
    assert any(re.search(rf"\bdef {name}\(", file.read_text(encoding="utf-8")) for file in package.rglob("*.py"))


@pytest.mark.parametrize(
    ("stack", "phase"),
    [
        ("", "start-up"),
        ('  File "/lib/torch/__init__.py", line 1 in run', "start-up"),
        (
            '  File "/src/loopmt/run.py", line 9 in write_checkpoint\n  File "/src/loopmt/t.py", line 1 in _learn',
            "checkpoint write",
        ),
        ('  File "/lib/torch/x.py", line 9 in matmul\n  File "/src/loopmt/learn/t.py", line 1 in _learn', "update"),
    ],
)
def test_a_stack_determines_the_phase(stack: str, phase: str) -> None:
    assert phase_of(stack) == phase
