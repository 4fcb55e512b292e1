"""Curves of a stage in TensorBoard, Weights & Biases and functions of others; none of them stops training."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from helpers.digests import ONE_THREAD
from helpers.stages import ASK, folder_of, stage
from loopmt.errors import LoopmtError, MissingExtraError
from loopmt.progress import Silent
from loopmt.workflow.trackers import TRACKERS, Tracker
from loopmt.workflow.train import TrainOptions, train

MODULE = """
import json
from contextlib import contextmanager
from pathlib import Path

FILE = Path(__file__).with_name("tracked")

def write(*values):
    with FILE.open("a") as file:
        file.write(json.dumps(values) + chr(10))

@contextmanager
def good(stage):
    write("begun", stage.name, stage.identity(), stage.resumed_at)
    yield lambda values, update: write(update, sorted(values))
    write("ended")

@contextmanager
def unwilling(stage):
    raise RuntimeError("no server")
    yield

@contextmanager
def tired(stage):
    def log(values, update):
        raise ValueError(f"no more at {update}")
    yield log

@contextmanager
def clinging(stage):
    yield lambda values, update: None
    raise OSError("cannot close")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "their_trackers.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("their_trackers", None)
    return "their_trackers"


def tracked(tmp_path: Path) -> list[list[Any]]:
    file = tmp_path / "tracked"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def ask(ask_for: ASK, track: list[str], updates: int = 8) -> TrainOptions:
    request: TrainOptions = ask_for(stage('["X>Y"]', updates=updates, tokens=64), f"train.track={json.dumps(track)}")
    return request


def test_a_stage_is_tracked_from_its_first_update_and_not_again(ask_for: ASK, module: str, tmp_path: Path) -> None:
    request = ask(ask_for, [f"{module}:good"])
    assert train(request, Silent())
    (_, name, identity, resumed), *logged, ended = tracked(tmp_path)
    assert (name, resumed, ended) == ("loops", None, ["ended"]) and identity
    assert [update for update, _ in logged] == [4, 8, 8], "two lines of the log and a validation"
    assert "loss/en>fr" in logged[0][1] and "valid/mean_bleu" in logged[2][1]
    assert train(request, Silent())
    assert len(tracked(tmp_path)) == 5, "a finished stage has nothing to track"


def test_a_resumed_stage_is_the_same_tracked_run(ask_for: ASK, module: str, tmp_path: Path) -> None:
    request = ask(ask_for, [f"{module}:good"], updates=16)
    paused = TrainOptions(request.file, request.run, request.overrides, stop_after=0)
    assert not train(paused, Silent())
    assert 0 < folder_of(request).updates()[-1] < 16
    assert train(request, Silent())
    begun = [row for row in tracked(tmp_path) if row[0] == "begun"]
    assert len(begun) == 2 and begun[0][2] == begun[1][2] and begun[1][3] > 0
    other = ask(ask_for, [f"{module}:good"])
    assert train(other, Silent())
    assert tracked(tmp_path)[-5][2] != begun[0][2], "another stage is another run"


@pytest.mark.parametrize(
    ("name", "facts"),
    [("unwilling", "RuntimeError: no server"), ("tired", "no more at 4"), ("clinging", "OSError: cannot close")],
)
def test_a_tracker_that_fails_gives_one_warning(ask_for: ASK, module: str, name: str, facts: str) -> None:
    with pytest.warns(UserWarning) as caught:
        assert train(ask(ask_for, [f"{module}:{name}"]), Silent())
    (message,) = [str(one.message) for one in caught if "tracker" in str(one.message)]
    assert f"{module}:{name}" in message and facts in message


def test_trackers_that_cannot_be_had_are_refused_before_any_work(ask_for: ASK) -> None:
    for name, facts in (("wandbb", ["wandb", "tensorboard", "module:function"]), ("no_module:log", ["no_module"])):
        request = ask(ask_for, [name])
        with pytest.raises(LoopmtError) as error:
            train(request, Silent())
        assert all(fact in str(error.value) for fact in [name, *facts]) and not folder_of(request).begun
    with pytest.raises(MissingExtraError, match=r"loopmt\[track\]"):
        Tracker("x", TRACKERS.find("wandb").function, needs="no_such_package").check()


def test_tensorboard(ask_for: ASK, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    request = ask(ask_for, [])
    assert train(TrainOptions(request.file, request.run, request.overrides, tensorboard=True), Silent())
    assert request.run is not None
    events = EventAccumulator(str(request.run / "tensorboard" / "loops"))
    events.Reload()
    assert [point.step for point in events.Scalars("loss/en>fr")] == [4, 8]
    assert [point.step for point in events.Scalars("valid/mean_bleu")] == [8]


@pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb: make test EXTRAS=dev,export,lora,track")
def test_weights_and_biases_offline(ask_for: ASK, tmp_path: Path) -> None:
    """The real package, without a server, in a process of its own; a resumed stage has the same id."""
    request = ask(ask_for, ["wandb"], updates=16)
    words = [sys.executable, "-m", "loopmt", "train", str(request.file), "--run", str(request.run)]
    words += [part for override in request.overrides for part in ("--set", override)]
    environment = {**ONE_THREAD, "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    for more in (["--stop-after", "0s"], []):
        done = subprocess.run([*words, *more], env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 and "tracker" not in done.stderr, done.stderr
    files = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(files) == 2 and files[0].name == files[1].name
    assert b"valid/mean_bleu" in files[1].read_bytes()
