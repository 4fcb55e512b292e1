"""Links, pipes, devices and folders in place of the files of a run.

Whatever lies under a name that a verb opens, the verb ends at once with one line that names it, and nothing outside the
run changes. `docs/reliability-input.md` has the table.
"""

from __future__ import annotations

import os
import shutil
import socket
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from stress.checks import limited

from helpers.commands import Cli, Outcome, contents
from loopmt.progress import Silent
from loopmt.workflow.analyze import AnalyzeOptions, analyze
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.plan import PlanOptions, plan
from loopmt.workflow.report import ReportOptions, report

SOON = 20.0  # seconds; a verb that waits for a pipe never ends
VERBS = {
    "prepare": "prepare {file} --run {run}",
    "train": "train {file} --run {run}",
    "dry run": "train {file} --run {run} --dry-run",
    "show": "show {run}",
    "translate": "translate {run} en>fr --beam 1 --stage dual",
    "evaluate": "evaluate {run} --beam 1 --samples 10",
    "analyze": "analyze {run} --beam 1 --sentences 2",
    "plan": "plan {run} --beam 1 --sentences 2",
    "report": "report {run} --sentences 0",
    "generate": "generate {run} en>fr>en --out {run}/../out",
    "export": "export {run} --to ct2 --out {run}/../out",
    "serve": "serve {run} --port 0",
}
FILES = (  # what a run has or may have, and what a verb makes there
    ".lock",
    "analysis.json",
    "analysis/0123456789abcdef-beam4/en-fr.json",
    "experiment.json",
    "experiment.toml",
    "imported/en-fr/config.json",
    "manifest.json",
    "origin.json",
    "plan.json",
    "predicted.json",
    "report.html",
    "report.json",
    "scorecard.json",
    "stages/dual/.lock",
    "stages/dual/checkpoints/00000008/optimizer.safetensors",
    "stages/dual/metrics.jsonl",
    "stages/dual/result/state.json",
    "stages/dual/result/weights.safetensors",
    "stages/dual/scores.json",
    "stages/dual/stage.json",
    "stages/dual/translations/made.json",
    "stages/dual/translations/test/en-fr.txt",
    "store/en-fr.fr.offsets",
    "store/en.tokens",
    "store/set1.en.txt",
    "store/store.json",
    "vocab/joint.model",
    "vocab/vocab.json",
)
FOLDERS = (
    "analysis",
    "corpora",
    "imported",
    "prepare.tmp",
    "stages",
    "stages/dual",
    "stages/dual/checkpoints",
    "stages/dual/result",
    "stages/dual/translations",
    "store",
    "tensorboard",
    "vocab",
)


def _socket(path: Path, target: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        folder = os.open(path.parent, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")  # its own name may be too long for a socket
        os.close(folder)


UNUSUAL: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda path, target: path.symlink_to(target),
    "link to nothing": lambda path, target: path.symlink_to(target.with_name("nothing")),
    "link loop": lambda path, target: path.symlink_to(path.name),
    "link to a device": lambda path, target: path.symlink_to("/dev/zero"),
    "pipe": lambda path, target: os.mkfifo(path),
    "socket": _socket,
    "folder": lambda path, target: path.mkdir(),
}


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path / "run"))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside"


def move(path: Path, outside: Path, folder: bool = False) -> Path:
    """Move a file or folder of the run; a link to the new place would lead to valid content."""
    target = outside / path.name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(target)
    elif folder:
        target.mkdir()
        (target / "precious").write_bytes(b"precious")
    else:
        target.write_bytes(b"precious")
    return target


def assert_refused(call: Callable[[], Outcome], name: str, outside: Path) -> None:
    """The verb ends at once with one line that names the file, and changes nothing."""
    before = contents(outside)
    with limited(SOON):
        outcome = call()
    assert (outcome.code, outcome.out) == (2, ""), outcome
    (line,) = outcome.err.splitlines()
    assert line.startswith("loopmt: ") and name in line, outcome
    assert contents(outside) == before
    assert not (outside / "nothing").exists()


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in FILES for kind in UNUSUAL if kind != "folder" or "/" not in name]
)
@pytest.mark.parametrize("verb", ["show", "train"])
def test_in_place_of_a_file(
    cli: Cli, tiny_experiment_file: Path, run: Path, outside: Path, verb: str, name: str, kind: str
) -> None:
    UNUSUAL[kind](run / name, move(run / name, outside))
    words = VERBS[verb].format(file=tiny_experiment_file, run=run).split()
    assert_refused(lambda: cli(*words), str(run / name), outside)


OPENED_BY = {  # below the top, only who opens a file knows that it is no folder
    "stages/dual/metrics.jsonl": "show",
    "stages/dual/result/state.json": "show",
    "stages/dual/result/weights.safetensors": "translate",
    "stages/dual/scores.json": "evaluate",
    "stages/dual/stage.json": "train",
    "store/en.tokens": "evaluate",
    "store/set1.en.txt": "evaluate",
    "store/store.json": "evaluate",
    "vocab/joint.model": "translate",
    "vocab/vocab.json": "translate",
}


@pytest.mark.parametrize("name", OPENED_BY)
def test_a_folder_in_place_of_a_file(cli: Cli, tiny_experiment_file: Path, run: Path, outside: Path, name: str) -> None:
    UNUSUAL["folder"](run / name, move(run / name, outside))
    words = VERBS[OPENED_BY[name]].format(file=tiny_experiment_file, run=run).split()
    assert_refused(lambda: cli(*words), str(run / name), outside)


@pytest.mark.parametrize("kind", ["link", "link to nothing", "link loop", "pipe"])
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("verb", ["show", "train"])
def test_in_place_of_a_folder(
    cli: Cli, tiny_experiment_file: Path, run: Path, outside: Path, verb: str, name: str, kind: str
) -> None:
    UNUSUAL[kind](run / name, move(run / name, outside, folder=True))
    words = VERBS[verb].format(file=tiny_experiment_file, run=run).split()
    assert_refused(lambda: cli(*words), str(run / name), outside)


@pytest.mark.parametrize("kind", [kind for kind in UNUSUAL if kind != "folder"])
@pytest.mark.parametrize("name", [".lock", "experiment.json"])
def test_unusual_files_in_a_new_run_folder(
    cli: Cli, tiny_experiment_file: Path, outside: Path, tmp_path: Path, name: str, kind: str
) -> None:
    UNUSUAL[kind](tmp_path / "new" / name, move(tmp_path / "new" / name, outside))
    words = VERBS["train"].format(file=tiny_experiment_file, run=tmp_path / "new").split()
    assert_refused(lambda: cli(*words), str(tmp_path / "new" / name), outside)


@pytest.mark.parametrize("name", ["plan.json", "stages/dual/metrics.jsonl", "stages/dual/translations", "vocab"])
@pytest.mark.parametrize("verb", VERBS)
def test_whatever_the_verb(
    cli: Cli, tiny_experiment_file: Path, run: Path, outside: Path, verb: str, name: str
) -> None:
    UNUSUAL["link"](run / name, move(run / name, outside, folder="." not in name))
    words = VERBS[verb].format(file=tiny_experiment_file, run=run).split()
    assert_refused(lambda: cli(*words), str(run / name), outside)
    assert not (run.parent / "out").exists()


# -- what is in a file -------------------------------------------------------------------------------------------


def _huge(file: Path) -> None:
    with file.open("ab") as stream:
        stream.truncate(2**40)  # sparse: it takes no room


CONTENTS: dict[str, Callable[[Path], object]] = {
    "huge": _huge,
    "nested": lambda file: file.write_bytes(b'{"a":' + b"[" * 200_000),
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "not UTF-8": lambda file: file.write_bytes(bytes(range(256)) * 8),
}
READ_BY = {
    "analysis.json": "report",
    "analysis/*-beam1/en-fr.json": "analyze",
    "experiment.json": "show",
    "experiment.toml": "report",
    "manifest.json": "report",
    "origin.json": "report",
    "plan.json": "report",
    "report.json": "report",
    "scorecard.json": "show",
    "stages/dual/metrics.jsonl": "show",
    "stages/dual/result/state.json": "show",
    "stages/dual/result/weights.safetensors": "translate",
    "stages/dual/stage.json": "train",
    "stages/dual/translations/*/test/en-fr.*.txt": "evaluate",
    "store/en.tokens": "evaluate",
    "store/set1.en.txt": "evaluate",
    "store/store.json": "evaluate",
    "vocab/joint.model": "translate",
    "vocab/vocab.json": "translate",
}
MADE_AGAIN = {  # or done without, unless it is huge
    "analysis/*-beam1/en-fr.json",
    "origin.json",
    "report.json",
    "stages/dual/metrics.jsonl",
    "stages/dual/translations/*/test/en-fr.*.txt",
}


SHOWN_AS_IT_IS = {("experiment.toml", "nested"), ("experiment.toml", "truncated")}


@pytest.fixture(scope="module")
def judged(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything that verbs leave in it."""
    folder = Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("unusual") / "run"))
    evaluate([folder], EvaluateOptions(beam=1, samples=10), Silent())
    analyze(folder, AnalyzeOptions(beam=1, sentences=2), Silent())
    plan(folder, PlanOptions(beam=1, sentences=2), Silent())
    report([folder], ReportOptions(sentences=1, beam=1), Silent())
    return folder


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("name", READ_BY)
def test_what_is_in_a_file(
    cli: Cli, tiny_experiment_file: Path, judged: Path, tmp_path: Path, name: str, kind: str
) -> None:
    run = Path(shutil.copytree(judged, tmp_path / "run"))
    file = next(run.glob(name))
    CONTENTS[kind](file)
    words = VERBS[READ_BY[name]].format(file=tiny_experiment_file, run=run).split()
    with limited(SOON), warnings.catch_warnings():
        warnings.simplefilter("always")
        outcome = cli(*words, stdin="The cat sees the dog.\n")
    lines = dict.fromkeys(outcome.err.splitlines())  # as a shell shows warnings: once
    told = [line for line in lines if str(file) in line or str(file.parent) in line]
    if (name in MADE_AGAIN and kind != "huge") or (name, kind) in SHOWN_AS_IT_IS:
        assert outcome.code == 0, outcome
        assert len(told) <= 1 and all(line.startswith("loopmt: warning: ") for line in told), outcome
    else:
        assert (outcome.code, outcome.out, len(told)) == (2, "", 1), outcome
        assert outcome.err.splitlines()[-1] == told[0] and told[0].startswith("loopmt: "), outcome
