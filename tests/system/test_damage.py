"""Truncated, changed or deleted files, and full or read-only disks: a clear error or a safe continuation, and no loss.

The table says which verbs must refuse a run with a damaged file; all others must work, because they do not need it
or can make it again. Afterwards every other file is as it was.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from helpers.commands import Cli, Outcome
from helpers.facts import missing
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.workflow.train import TrainOptions, train

ASK = Callable[..., TrainOptions]
VERBS = {
    "prepare": "prepare {file} --run {run}",
    "train": "train {file} --run {run}",
    "translate": "translate {run} en>fr --beam 1 --stage dual",
    "show": "show {run}",
    "evaluate": "evaluate {run} --beam 1 --samples 10",
    "report": "report {run} --sentences 0",
}
READERS = {"translate", "show", "evaluate", "report"}
REFUSED_BY = {  # of a finished run
    "experiment.json": READERS,
    "manifest.json": {"prepare", "train", "evaluate", "report"},
    "vocab/vocab.json": {"translate"},
    "vocab/joint.model": {"translate"},
    "store/store.json": {"evaluate"},
    "store/en.tokens": {"evaluate"},
    "store/en-fr.fr.offsets": {"evaluate"},
    "store/set1.en.txt": {"evaluate"},
    "stages/dual/stage.json": {"prepare", "train"},
    "stages/dual/metrics.jsonl": set[str](),
    "stages/dual/result/state.json": READERS,
    "stages/dual/result/weights.safetensors": {"translate"},
    "stages/vanilla/result/state.json": {*READERS, "prepare", "train"} - {"translate"},
}
MADE_AGAIN = {
    "manifest.json": {"prepare", "train", "report"},
    "stages/dual/stage.json": {"prepare", "train"},
}  # if deleted
UNSEEN = {"store/en.tokens": {"evaluate"}, "store/en-fr.fr.offsets": {"evaluate"}}  # if a bit flips: it is not read
WRITTEN = {"report.html", "scorecard.json", ".lock"}


Verb = Callable[[str, Path, Path], Outcome]


@pytest.fixture
def cli(cli: Cli) -> Verb:
    def call(verb: str, file: Path, run: Path) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            words = VERBS[verb].format(file=file, run=run).split()
            return cli(*words, stdin="The small child hears the kind cat.\n")

    return call


@pytest.fixture(scope="module")
def judged_run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was also evaluated, so that judging it again decodes nothing."""
    from loopmt.workflow.evaluate import EvaluateOptions, evaluate

    folder = Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("damage") / "run"))
    evaluate([folder], EvaluateOptions(beam=1, samples=10), Silent())
    return folder


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    if how == "delete":
        file.unlink()
    elif how == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        file.write_bytes(b"")
    else:
        chance = random.Random(f"{file.name} {how}")
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        file.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])


def contents(run: Path) -> dict[str, bytes]:
    files = (file for file in run.rglob("*") if file.is_file() and file.name not in WRITTEN)
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def unharmed(damaged: bytes, original: bytes) -> bool:
    """1e-3 may have become 1E-3, or the checksum another name."""
    try:
        before, after = json.loads(original), json.loads(damaged)
    except ValueError:
        return False
    unsealed = "check" not in after and all(after.get(key) == before[key] for key in before if key != "check")
    return bool(before == after or unsealed)


def check(cli: Verb, tiny: Path, run: Path, name: str, how: str, verb: str) -> None:
    """Damage a file, run the verb, check the result, and restore the file."""
    before, original = contents(run), (run / name).read_bytes()
    damage(run / name, how)
    if name.endswith(".json") and how.startswith("flip") and unharmed((run / name).read_bytes(), original):
        (run / name).write_bytes(original)
        return
    broken = contents(run)
    try:
        outcome = cli(verb, tiny, run)
        after = contents(run)
    finally:
        (run / name).write_bytes(original)
    spared = MADE_AGAIN if how == "delete" else UNSEEN if how.startswith("flip") else {}
    refused = verb in REFUSED_BY[name] - spared.get(name, set())
    case = f"{name}, {how}, {verb}: {outcome}"
    if refused:
        assert outcome.code == 2 and outcome.out == "", case
        said = [line for line in outcome.err.splitlines() if not line.startswith("loopmt: warning: ")]
        assert len(said) == 1 and said[0].startswith("loopmt: "), case
        assert str(run / name.partition("/")[0]) in said[0] or "is not a run folder" in said[0], case
        assert after == broken, case
    else:
        assert outcome.code == 0, case
        assert all(after.get(file) == content for file, content in before.items() if file != name), case
        assert after.get(name) in (original, broken.get(name)), f"made again as it was, or left alone: {case}"


@pytest.mark.parametrize("name", REFUSED_BY)
def test_damaged_files(cli: Verb, tiny_experiment_file: Path, judged_run: Path, name: str) -> None:
    for how in ("delete", "cut", "flip"):
        for verb in VERBS if how == "cut" else ("prepare", "train", "translate", "show"):
            check(cli, tiny_experiment_file, judged_run, name, how, verb)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", REFUSED_BY)
def test_damaged_files_at_length(cli: Verb, tiny_experiment_file: Path, judged_run: Path, name: str, verb: str) -> None:
    for how in ("delete", "cut", "empty", *(f"flip {number}" for number in range(20))):
        check(cli, tiny_experiment_file, judged_run, name, how, verb)


# -- in the middle of training -------------------------------------------------------------------------------

STAGE = """
[[stage]]
name = "loops"
from = "vanilla"
mix = ["X>Y", { path = "X>Y>X", generate = { how = "sample", top_k = 5 } }]
updates = 8
train = { tokens = 96, round = 2, validate_every = 4, validate_sentences = 2, log_every = 2, dropout = 0.1 }
"""


def weights(request: TrainOptions) -> dict[str, torch.Tensor]:
    assert request.run is not None
    return dict(Run(request.run).stage("loops").result().tensors["weights"])


def assert_same_weights(request: TrainOptions, other: TrainOptions) -> None:
    ours, theirs = weights(request), weights(other)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("stages/loops/metrics.jsonl", "records before the checkpoint are missing"),
        ("store/en-fr.en.tokens", "does not have the content it was written with"),
        ("vocab/joint.model", "is not the file that was written"),
    ],
)
def test_damage_during_training_costs_only_time(ask_for: ASK, reference: TrainOptions, name: str, warning: str) -> None:
    request = ask_for(STAGE)
    assert request.run is not None
    for _ in range(2):
        assert not train(TrainOptions(request.file, request.run, stop_after=1e-6), Silent())
    damage(request.run / name, "cut" if name.endswith("jsonl") else "flip")
    with pytest.warns(UserWarning, match=warning):
        assert train(request, Silent())
    assert_same_weights(request, reference)


def test_one_process_at_a_time(cli: Verb, tiny_experiment_file: Path, judged_run: Path) -> None:
    with Run(judged_run).locked():
        for verb in ("prepare", "train"):
            outcome = cli(verb, tiny_experiment_file, judged_run)
            assert (outcome.code, outcome.out) == (2, "")
            assert outcome.err.startswith(f"loopmt: {judged_run} is in use by another process (pid {os.getpid()}).")
        for verb in ("translate", "show"):
            assert cli(verb, tiny_experiment_file, judged_run).code == 0


# -- disks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Disk:
    """A small file system of its own in memory."""

    folder: Path

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a full or read-only disk needs the right to mount one")
    yield Disk(folder)
    subprocess.run(["umount", "--lazy", folder], check=True)  # its store may still be mapped


def used(folder: Path) -> int:
    state = os.statvfs(folder)
    return (state.f_blocks - state.f_bfree) * state.f_frsize


@pytest.mark.parametrize("room", [4, 60, 250, 600], ids=lambda room: f"{room} KiB")
def test_a_disk_that_fills_up_while_training(
    ask_for: ASK, reference: TrainOptions, disk: Disk, cli: Verb, room: int
) -> None:
    """In the log, in the first checkpoint or in a later one, as the room goes."""
    request = ask_for(STAGE)
    assert request.run is not None
    run = Path(shutil.copytree(request.run, disk.folder / "run"))
    disk.remount(f"size={used(disk.folder) + room * 1024}")
    outcome = cli("train", request.file, run)
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert "loopmt: " in outcome.err and "No space left on device" in outcome.err
    assert "same command" in outcome.err
    disk.remount("size=64m")
    assert cli("train", request.file, run).code == 0
    assert_same_weights(TrainOptions(request.file, run), reference)
    assert not [entry for entry in run.rglob("*") if entry.name.endswith((".draft", ".old", ".tmp"))]


def test_a_disk_that_fills_up_while_preparing(
    tiny_experiment_file: Path, tiny_run: Path, disk: Disk, cli: Verb
) -> None:
    run = disk.folder / "run"
    disk.remount("size=40k")
    outcome = cli("prepare", tiny_experiment_file, run)
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert not missing(outcome.err, "no room left", str(run))
    assert [entry.name for entry in run.iterdir()] == [".lock"]
    disk.remount("size=64m")
    assert cli("prepare", tiny_experiment_file, run).code == 0
    for folder in ("vocab", "store"):
        assert contents(run / folder) == contents(tiny_run / folder)


def test_a_read_only_disk(tiny_experiment_file: Path, judged_run: Path, disk: Disk, cli: Verb) -> None:
    """Verbs that only read work; verbs that must write report an error."""
    run = Path(shutil.copytree(judged_run, disk.folder / "run"))
    before = contents(run)
    disk.remount("ro")
    for verb in ("translate", "show"):
        assert cli(verb, tiny_experiment_file, run).code == 0
    for verb in ("prepare", "train", "evaluate", "report"):
        outcome = cli(verb, tiny_experiment_file, run)
        assert (outcome.code, outcome.out) == (2, ""), (verb, outcome)
        kept = verb in ("evaluate", "report")
        reason = "is not writable" if kept else "Read-only file system"
        assert reason in outcome.err and outcome.err.startswith("loopmt: ")
    disk.remount("rw")
    assert contents(run) == before
    assert cli("train", tiny_experiment_file, run).code == 0
