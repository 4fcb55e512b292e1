"""Run folders: atomic checkpoints, damaged files, locks, and no pickles."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from helpers.facts import lacks, missing, refused
from loopmt.errors import DamagedError, LockedError, RunError
from loopmt.learn.resume import CheckpointWriter
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import ImportOptions
from loopmt.progress import Silent
from loopmt.run import Checkpoint, Run, StageFolder, read_json, write_checkpoint, write_json
from loopmt.workflow.demo import demo
from loopmt.workflow.importing import import_translator
from loopmt.workflow.train import TrainOptions, prepare_run, train

HOLD = """
import sys, time
from pathlib import Path
from loopmt.run import Run
with Run(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def checkpoint(update: int, value: float = 1.0) -> Checkpoint:
    weights = {"en>fr/embed": torch.full((3, 2), value), "steps": torch.tensor(update)}
    return Checkpoint(update, {"weights": weights, "optimizer": {"first": torch.full((4,), value)}}, {"round": update})


def filled(folder: Path, updates: int = 2) -> StageFolder:
    stage = StageFolder(folder / "stages" / "vanilla")
    stage.begin({"seed": 1})
    for update in range(10, 10 * updates + 1, 10):
        stage.save(checkpoint(update, float(update)), keep={update})
    return stage


# -- checkpoints ---------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    stage = filled(tmp_path)
    stage.log({"kind": "train"})
    stage.save(stage.stamped(checkpoint(30, 3.5)), keep={30})
    newest = stage.newest()
    assert newest is not None
    assert newest.update == 30
    assert newest.state == {"round": 30, "metrics_bytes": stage.metrics.stat().st_size}
    assert torch.equal(newest.tensors["weights"]["en>fr/embed"], torch.full((3, 2), 3.5))
    assert torch.equal(newest.tensors["optimizer"]["first"], torch.full((4,), 3.5))


def test_a_stage_without_a_checkpoint(tmp_path: Path) -> None:
    assert StageFolder(tmp_path).newest() is None


def test_only_necessary_checkpoints_are_kept(tmp_path: Path) -> None:
    stage = StageFolder(tmp_path / "stage")
    stage.begin({})
    for update in (10, 20, 30, 40, 50):
        stage.save(checkpoint(update), keep={20, 50})
    assert stage.updates() == [20, 40, 50], "the best, and two to resume from"
    assert not (stage.place(20) / "optimizer.safetensors").exists()
    assert (stage.place(40) / "optimizer.safetensors").exists()
    assert stage.weights(20)["steps"] == 20
    stage.save(checkpoint(60), keep={20}, whole=40)
    assert stage.updates() == [20, 40, 50, 60], "and one to go back to"
    assert stage.at(40).update == 40


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    if how == "delete":
        file.unlink()
    elif how == "truncate":
        file.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        file.write_bytes(b"")
    else:
        place = len(content) - 3
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


@pytest.mark.parametrize("how", ["delete", "truncate", "empty", "flip a bit"])
@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_skipped(tmp_path: Path, name: str, how: str) -> None:
    stage = filled(tmp_path)
    damage(stage.place(20) / name, how)
    with pytest.warns(UserWarning, match=rf"{name}.*previous checkpoint is used"):
        newest = stage.newest()
    assert newest is not None
    assert newest.update == 10


@pytest.mark.parametrize("value", ["[]", "3", "{}", '{"update": 20}'])
def test_an_invalid_state_is_damage(tmp_path: Path, value: str) -> None:
    stage = filled(tmp_path)
    (stage.place(20) / "state.json").write_text(value, encoding="utf-8")
    with pytest.warns(UserWarning, match="previous checkpoint is used"):
        newest = stage.newest()
    assert newest is not None
    assert newest.update == 10


def test_two_damaged_checkpoints_are_an_error(tmp_path: Path) -> None:
    stage = filled(tmp_path)
    for update in (10, 20):
        damage(stage.place(update) / "weights.safetensors", "truncate")
    with pytest.warns(UserWarning, match="is damaged"), pytest.raises(DamagedError) as caught:
        stage.newest()
    assert not missing(caught.value, f"no checkpoint in {stage.checkpoints}", f"Delete {stage.folder} ")


def test_damaged_later_checkpoints_are_deleted(tmp_path: Path) -> None:
    """After going back to 10, a new 15 is newer than the damaged 20."""
    stage = filled(tmp_path)
    damage(stage.place(20) / "weights.safetensors", "truncate")
    stage.save(checkpoint(15), keep={10, 15})
    assert stage.updates() == [10, 15]
    newest = stage.newest()
    assert newest is not None
    assert newest.update == 15


def test_half_written_checkpoints_are_ignored(tmp_path: Path) -> None:
    stage = filled(tmp_path)
    draft = stage.checkpoints / ".00000030.draft"
    draft.mkdir()
    (draft / "weights.safetensors").write_bytes(b"half")
    assert stage.updates() == [10, 20]
    stage.save(checkpoint(30), keep={30})
    assert sorted(entry.name for entry in stage.checkpoints.iterdir()) == ["00000020", "00000030"]


@pytest.fixture
def no_room() -> Iterator[None]:
    """No file may grow beyond 100 bytes, to simulate a full disk."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    stage = filled(tmp_path)
    request.getfixturevalue("no_room")
    with refused(RunError, "00000020", "unchanged", "same command"):
        stage.save(checkpoint(20, 7.0), keep={20})
    newest = stage.newest()
    assert newest is not None
    assert torch.equal(newest.tensors["weights"]["en>fr/embed"], torch.full((3, 2), 20.0))
    assert sorted(entry.name for entry in stage.checkpoints.iterdir()) == ["00000010", "00000020"]


def test_a_text_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    file = tmp_path / "value.json"
    write_json(file, {"old": 1})
    request.getfixturevalue("no_room")
    with refused(RunError, "value.json", "unchanged", "same command"):
        write_json(file, {"new": "x" * 500})
    assert read_json(file) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


def test_a_result_replaces_checkpoints(tmp_path: Path) -> None:
    stage = filled(tmp_path)
    assert not stage.finished
    with pytest.raises(RunError, match='stage "vanilla" is not finished'):
        stage.result()
    stage.finish(checkpoint(20, 2.0))
    assert stage.finished
    assert stage.updates() == []
    assert torch.equal(stage.result().tensors["weights"]["en>fr/embed"], torch.full((3, 2), 2.0))
    assert len(stage.result_digest()) == 64


def test_checkpoints_beside_a_result_are_deleted(tmp_path: Path) -> None:
    stage = filled(tmp_path)
    write_checkpoint(stage.folder / "result", checkpoint(20, 2.0))  # as far as `finish` came before it was killed
    with pytest.raises(RunError, match="seed was 1, now 2"):
        stage.begin({"seed": 2})
    assert stage.updates() == [10, 20]
    stage.begin({"seed": 1})
    assert not stage.checkpoints.exists()


def test_a_checkpoint_can_be_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    for value in (1.0, 2.0):
        write_checkpoint(folder, checkpoint(5, value))
    assert torch.equal(_weights(folder)["en>fr/embed"], torch.full((3, 2), 2.0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]


def _weights(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "weights.safetensors")


def test_files_hold_tensors_and_json_and_nothing_else(tiny_run: Path) -> None:
    """Nothing in a run's folder can carry code."""
    kinds = {file.suffix for file in tiny_run.rglob("*") if file.is_file() and file.name != ".lock"}
    assert kinds <= {".safetensors", ".json", ".jsonl", ".toml", ".model", ".tokens", ".offsets", ".txt", ".html"}
    for file in tiny_run.rglob("*.safetensors"):
        header = file.read_bytes()[8:400]
        assert header.startswith(b"{"), "safetensors begin with JSON"


# -- settings, logs, locks -----------------------------------------------------------------------------------------


def test_a_changed_stage_is_refused(tmp_path: Path) -> None:
    stage = StageFolder(tmp_path / "dual")
    settings = {"seed": 1, "train": {"tokens": 512, "clip": 1.0, "log_every": 5}, "stage": {"mix": ["X>Y"]}}
    stage.begin(settings)
    stage.begin(settings)
    stage.begin({**settings, "train": {"tokens": 512, "clip": 1.0, "log_every": 50}})
    with pytest.raises(RunError) as caught:
        stage.begin({"seed": 2, "train": {"tokens": 1024, "clip": 1.0}, "stage": {"mix": ["X>Y", "X>Y>X"]}})
    message = str(caught.value)
    changed = ("seed was 1, now 2", "train.tokens was 512, now 1024", 'stage.mix was ["X>Y"], now ["X>Y", "X>Y>X"]')
    assert all(fact in message for fact in ('stage "dual"', *changed, str(stage.folder), "another name", "--run"))
    assert "--set seed=1 --set stage.dual.train.tokens=512" in message and "log_every" not in message


def test_the_log_can_be_cut_and_read(tmp_path: Path) -> None:
    stage = StageFolder(tmp_path)
    assert stage.records() == []
    stage.log({"kind": "threads", "update": 1})
    size = stage.metrics.stat().st_size
    stage.log({"kind": "threads", "update": 2})
    with stage.metrics.open("a", encoding="utf-8") as file:
        file.write('{"kind": "threads", "update": 3, "lo')
    assert [record["update"] for record in stage.records()] == [1, 2], "a half-written line is no record"
    stage.cut_log(size)
    assert [record["update"] for record in stage.records()] == [1]


def test_a_log_that_lost_records_is_continued_on_a_line_of_its_own(tmp_path: Path) -> None:
    stage = StageFolder(tmp_path)
    for update in (1, 2):
        stage.log({"kind": "threads", "update": update})
    size = stage.metrics.stat().st_size
    os.truncate(stage.metrics, size - 5)
    with pytest.warns(UserWarning, match=r"metrics\.jsonl is damaged: records before the checkpoint are missing"):
        stage.cut_log(size)
    stage.log({"kind": "threads", "update": 3})
    assert [record["update"] for record in stage.records()] == [1, 3]
    more = b'[]\n{"no": "kind"}\n\xff\n{"kind": "threads", "update": 4}\n'  # the last one has no checksum
    stage.metrics.write_bytes(stage.metrics.read_bytes().replace(b'"update": 1', b'"update": 9') + more)
    assert [record["update"] for record in stage.records()] == [3, 4]
    assert stage.records()[0] == {"kind": "threads", "update": 3}


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(LockedError) as caught, Run(tmp_path).locked():
                pytest.fail("two hold the run")
            assert not lacks(
                str(caught.value),
                f"{tmp_path} is in use by another process (pid {other.pid}). "
                "Wait for it, stop it, or choose another --run.",
            )
        finally:
            other.kill()
    with Run(tmp_path).locked():
        assert (tmp_path / ".lock").read_text() == str(os.getpid()), "a killed process holds nothing"


def test_asking_for_the_owner_does_not_block_a_lock(tmp_path: Path) -> None:
    asking = (tmp_path / ".lock").open("a+")
    fcntl.flock(asking, fcntl.LOCK_SH)
    threading.Timer(0.01, asking.close).start()
    with Run(tmp_path).locked():
        assert Run(tmp_path).owner() == str(os.getpid())
    assert Run(tmp_path).owner() is None


def test_a_folder_without_an_experiment_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        Run.open(tmp_path)
    assert not missing(caught.value, f"{tmp_path} is not a run", f"`loopmt train EXPERIMENT --run {tmp_path}`")
    (tmp_path / "experiment.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DamagedError, match=r"experiment\.json is damaged"):
        Run.open(tmp_path).experiment()
    (tmp_path / "experiment.json").write_text("{", encoding="utf-8")
    with pytest.raises(DamagedError, match=r"experiment\.json cannot be read"):
        Run.open(tmp_path).experiment()


def test_a_folder_that_holds_runs_names_them(tmp_path: Path) -> None:
    for name in ("two", "one"):
        write_json(_made(tmp_path / name) / "experiment.json", {})
    with pytest.raises(RunError) as caught:
        Run.open(tmp_path)
    assert not missing(caught.value, f"{tmp_path} is not a run", f"{tmp_path / 'one'}, {tmp_path / 'two'}")


def test_a_mistyped_run_names_its_neighbour(tmp_path: Path) -> None:
    write_json(_made(tmp_path / "experiment") / "experiment.json", {})
    with pytest.raises(RunError, match=rf"Did you mean {tmp_path}/experiment\?$"):
        Run.open(tmp_path / "experimnt")


def test_a_folder_with_other_files_is_not_offered_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunError, match=f"`loopmt train EXPERIMENT --run {tmp_path}/run`"):
        Run.open(tmp_path)


# -- folders with unknown files ----------------------------------------------------------------------------------


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _contents(folder: Path) -> dict[str, str | None]:
    return {str(one): one.read_text(encoding="utf-8") if one.is_file() else None for one in folder.rglob("*")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with file names that a run has, too."""
    for name in ("corpora/mine.en", "vocab/words.txt", "store/inventory.csv", "experiment.toml", "manifest.json"):
        _made((tmp_path / "project" / name).parent)
        (tmp_path / "project" / name).write_text('{"mine": 1}', encoding="utf-8")
    return tmp_path / "project"


WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "demo": lambda file, folder: demo(folder, (), Silent()),
    "prepare": lambda file, folder: prepare_run(TrainOptions(file, folder), Silent()),
    "train": lambda file, folder: train(TrainOptions(file, folder), Silent()),
    "import": lambda file, folder: import_translator(file.parent, folder, ImportOptions(Hop("en", "fr"))),
}


@pytest.mark.parametrize("verb", WRITERS)
def test_unknown_files_are_not_changed(verb: str, project: Path, tiny_experiment_file: Path) -> None:
    before = _contents(project)
    with pytest.raises(RunError) as caught:
        WRITERS[verb](tiny_experiment_file, project)
    unknown = "corpora, experiment.toml, manifest.json, store, vocab"
    assert not missing(caught.value, f"{project} is not a run", unknown, "--run", str(project / "run"))
    assert _contents(project) == before


@pytest.mark.parametrize("left", [(".lock",), (".lock", "prepare.tmp/text", "corpora", "vocab"), ("imported/en-fr",)])
def test_an_interrupted_preparation_or_an_import_can_be_continued(
    left: Sequence[str], tmp_path: Path, tiny_experiment_file: Path
) -> None:
    for name in left:
        if name == ".lock":
            (tmp_path / name).write_text("4711", encoding="utf-8")
        else:
            _made(tmp_path / name)
    prepare_run(TrainOptions(tiny_experiment_file, tmp_path), Silent())
    assert (tmp_path / "experiment.json").is_file()


@pytest.mark.parametrize("lock", [None, "the lock of another program"])
def test_a_folder_of_corpora_is_not_a_run(lock: str | None, tmp_path: Path) -> None:
    _made(tmp_path / "corpora")
    if lock is not None:
        (tmp_path / ".lock").write_text(lock, encoding="utf-8")
    with pytest.raises(RunError, match=r"it holds .*corpora\."):
        Run(tmp_path).refuse_unknown_files()


def test_a_run_with_a_damaged_experiment_is_still_a_run(tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", {"check": "damaged"})
    (tmp_path / "experiment.json").write_text("{", encoding="utf-8")
    (tmp_path / "notes.txt").touch()
    Run(tmp_path).refuse_unknown_files()


def test_json_is_written_atomically(tmp_path: Path) -> None:
    file = tmp_path / "value.json"
    write_json(file, {"text": "é"})
    assert json.loads(file.read_text(encoding="utf-8")) == {"text": "é"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


def test_checkpoints_are_written_in_the_background_as_they_were(tmp_path: Path) -> None:
    stage = StageFolder(tmp_path / "stage")
    stage.begin({"seed": 1})
    saver, weights = CheckpointWriter(stage, background=True), torch.zeros(3)
    for update in (10, 20):
        saver.save(
            Checkpoint(update, {"weights": {"w": weights}, "optimizer": {"first": weights}}, {"at": update}),
            {update},
            0,
        )
        weights += 1  # training goes on
        stage.log({"kind": "train", "update": update})
    saver.wait()
    assert [float(stage.at(update).tensors["weights"]["w"][0]) for update in (10, 20)] == [0.0, 1.0]
    assert stage.at(10).state["metrics_bytes"] == 0 < stage.at(20).state["metrics_bytes"]


def test_errors_in_the_background_are_raised(tmp_path: Path) -> None:
    stage = StageFolder(tmp_path / "stage")
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage" / "checkpoints").write_text("in the way")
    saver = CheckpointWriter(stage, background=True)
    saver.save(Checkpoint(10, {"weights": {}}, {}), {10}, 0)
    with pytest.raises((RunError, OSError)):
        saver.wait()
    saver.wait()  # once
