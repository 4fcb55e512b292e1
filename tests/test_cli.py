"""Every verb as typed: what it prints, what it refuses, and how."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from loopmt.__main__ import main as command
from loopmt.cli import app, main
from loopmt.learn.gather import Gatherer
from loopmt.learn.learner import Learner
from loopmt.progress import Lines
from loopmt.run import Run
from loopmt.workflow import dry_run, show
from loopmt.workflow.train import Request
from loopmt.world import World

SENTENCE = "The small child hears the kind cat often."


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """The command line in this process: loading torch anew for each call would take seconds."""

    def call(*words: object, stdin: str | bytes = "") -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["loopmt", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capfd.readouterr()
        return Outcome(stop.value.code if isinstance(stop.value.code, int) else 0, captured.out, captured.err)

    return call


@pytest.fixture
def copied(tiny_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path / "run"))


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def shell(*words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "loopmt", *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, env={**os.environ, **_ENVIRONMENT})


_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "LC_ALL": "C", "PYTHONWARNINGS": "error"}


# -- translate -------------------------------------------------------------------------------------------------


def test_translate_in_a_shell_whose_locale_is_plain(tiny_run: Path) -> None:
    done = shell("translate", tiny_run, "en>es", stdin=f"{SENTENCE}\r\n\nThe bird.".encode())
    lines = done.stdout.decode().split("\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(lines) == 4 and lines[0] and lines[1] == "" and lines[2] and lines[3] == ""


def test_errors_in_a_shell_are_one_sentence(tmp_path: Path) -> None:
    done = shell("translate", tmp_path, "en>es")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"loopmt: {tmp_path} is no run:") and done.stderr.count(b"\n") == 1


def test_translate_files(cli: Cli, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "one").write_text(f"{SENTENCE}\n\n")
    (tmp_path / "two.gz").write_bytes(gzip.compress(SENTENCE.encode()))
    done = cli("translate", tiny_run, "en>fr>es", tmp_path / "one", tmp_path / "two.gz", "--stage", "vanilla")
    first, second, third = done.out.splitlines()
    assert done.code == 0 and first == third and first and not second


def test_many_lines_come_out_one_for_one(cli: Cli, tiny_run: Path) -> None:
    lines = [SENTENCE if number % 3 else "" for number in range(100)]
    done = cli("translate", tiny_run, "en>fr", "--beam", 1, stdin="\n".join(lines) + "\n")
    found = done.out.split("\n")
    assert len(found) == 101 and [not line for line in found[:100]] == [not line for line in lines]
    assert len(set(found)) == 2


def test_translate_by_ctranslate2(cli: Cli, tiny_run: Path) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    given = f"{SENTENCE}\n\n{SENTENCE}\n"
    ours = cli("translate", tiny_run, "en>fr>es", stdin=given)
    options = ("--backend", "ctranslate2", "--type", "float32")
    theirs = cli("translate", tiny_run, "en>fr>es", *options, stdin=given)
    assert (theirs.code, theirs.out) == (0, ours.out)
    refused = cli("translate", tiny_run, "en>fr", *options, "--sample", stdin=given)
    assert refused.code == 2 and "Sample with --backend loopmt" in refused.err


def test_nbest_and_sampling(cli: Cli, tiny_run: Path) -> None:
    done = cli("translate", tiny_run, "en>fr", "--nbest", 3, stdin=f"{SENTENCE}\n\n{SENTENCE}")
    cells = [line.split("\t") for line in done.out.splitlines()]
    assert [number for number, _, _ in cells] == ["1"] * 3 + ["2"] + ["3"] * 3
    assert cells[:3] == [["1", *rest] for _, *rest in cells[4:]] and cells[3] == ["2", "0.0000", ""]
    options = ("--sample", "--temperature", 1.5, "--top-k", 50, "--top-p", 0.95)
    once, twice, other = (
        cli("translate", tiny_run, "en>fr", *options, "--seed", seed, stdin=f"{SENTENCE}\n" * 3).out
        for seed in (1, 1, 2)
    )
    assert once == twice != other


class Interrupting(io.RawIOBase):
    """Whoever waits for a line here is interrupted."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
        return 0


def test_ctrl_c_is_a_sentence(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["loopmt", "translate", str(tiny_run), "en>fr"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Interrupting())))
    with pytest.raises(SystemExit) as stop:
        command()
    assert stop.value.code == 130 and capfd.readouterr().err.endswith("loopmt: interrupted.\n")


def test_ctrl_c_is_a_sentence_while_the_verbs_are_loaded() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "loopmt", "theory"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "loopmt.cli." in line)  # the verbs are being loaded
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130 and said.endswith("loopmt: interrupted.\n") and "Traceback" not in said


def refusals() -> Iterator[tuple[tuple[str, ...], bytes, str]]:
    yield ("translate", "RUN", "en>de"), b"x", "the run has no language 'de', but en, fr, es"
    yield ("translate", "RUN", "en"), b"x", "path 'en' has no hop"
    for words in (
        ("translate", "RUN", "en"),
        ("generate", "RUN", "en", "--out", "o"),
        ("evaluate", "RUN", "--path", "en"),
        ("paths", "X", "--languages", "en,fr"),
        ("import", "nowhere", "--run", "r", "--direction", "en"),
    ):
        yield words, b"", "Did you forget the quotes? To a shell > is a redirection"
    yield ("translate", "RUN", "en>fr", "--sample", "--beam", "3"), b"x", "--sample and --beam 3: give one of them"
    yield ("translate", "RUN", "en>fr", "--top-k", "5", "--seed", "2"), b"x", "--top-k, --seed: only sampling"
    yield ("translate", "FILE", "en>fr"), b"x", "It is a file: name the folder of a run"
    yield ("export", "RUN", "--to", "hf", "--out", "o", "--type", "int8"), b"", "--type int8 is for --to ct2"
    yield ("translate", "RUN", "en>fr", "--stage", "x"), b"x", "there is no stage 'x'; there are vanilla,"
    yield ("translate", "RUN", "en>fr", "--nbest", "9"), b"x", "9 best translations need a beam of 9"
    yield ("translate", "RUN", "en>fr"), b"ok\n\xff", "standard input, line 2 is not UTF-8 (byte 0xff)"
    yield ("translate", "RUN", "en>fr", "missing.txt"), b"", "missing.txt cannot be read: No such file"
    yield ("translate", "nowhere", "en>fr"), b"x", "nowhere is no run: it has no experiment.json"
    yield ("evaluate", "nowhere"), b"", "nowhere is no run"
    yield ("evaluate", "RUN", "--stage", "x"), b"", "there is no stage 'x'"
    yield ("evaluate", "RUN", "RUN"), b"", "both have seed 1: runs judged together are of one experiment"
    yield ("show", "nowhere"), b"", "nowhere is no run"
    yield ("generate", "RUN", "en>fr", "--out", "o"), b"", "path en>fr generates nothing"
    yield ("generate", "RUN", "en>fr>en", "--out", "o", "--shard", "3/2"), b"", "--shard 3/2: write I/N"
    yield ("train", "missing.toml"), b"", "missing.toml: there is no such experiment file"
    yield ("train", "FILE", "--dry-run", "--until", "x"), b"", "there is no stage 'x'"
    yield ("train", "FILE", "--dry-run", "--only", "x"), b"", "there is no stage 'x'; there are vanilla,"
    yield ("train", "FILE", "--until", "dual", "--only", "dual"), b"", "--until and --only: give one of them"
    yield ("train", "FILE", "--set", "train.token=1"), b"", " --set train.token=1: unknown key 'token' in train."
    yield ("train", "FILE", "--stop-after", "soon"), b"", "--stop-after soon: write a time"
    yield ("prepare", "FILE", "--set", "data.mono.en=nope"), b"", "there is no"
    yield ("paths", "X>Y", "--languages", "en,fr,en"), b"", "--languages en,fr,en: en is named twice. Name every"
    yield ("paths", "X>Y>en>X", "--languages", "en,fr"), b"", "needs 3 languages; the experiment has 2"
    yield ("score", "a", "b"), b"", "b cannot be read: No such file"
    yield ("theory",), b"", "--p and --r missing"


@pytest.mark.parametrize(("words", "stdin", "message"), list(refusals()))
def test_refusals(
    cli: Cli,
    tiny_run: Path,
    tiny_experiment_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    stdin: bytes,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"RUN": str(tiny_run), "FILE": str(tiny_experiment_file)}
    done = cli(*(places.get(word, word) for word in words), stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("loopmt: ") and message in done.err and "Traceback" not in done.err


def test_typing_mistakes_show_the_usage(cli: Cli) -> None:
    for words in (["translat"], ["translate"], ["translate", "run", "en>fr", "--beam", "0"]):
        done = cli(*words)
        assert (done.code, done.out) == (2, "") and "Usage: loopmt" in done.err


# -- the other verbs -------------------------------------------------------------------------------------------


def test_prepare_and_train(cli: Cli, tiny_experiment_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = cli("prepare", tiny_experiment_file, "--run", run)
    assert done.code == 0 and (done.out + done.err).count("bitext en-fr: 240 of 240 rows kept") == 1
    words = ("train", tiny_experiment_file, "--run", run, "--until", "vanilla", "--set", "stage.vanilla.updates=8")
    done = cli(*words)
    again = f"loopmt train {tiny_experiment_file} --run {run} --set stage.vanilla.updates=8"
    said = f"finished what was asked for; still to train: vanilla-longer, dual; next: {again}\n"
    assert (done.code, done.out) == (0, said)
    before = contents(run)
    assert cli(*words).code == 0 and contents(run) == before
    (run / "stages" / "vanilla" / "stage.json").unlink()
    assert cli(*words).code == 0 and contents(run) == before, "what a stage is, is written down again"
    done = cli("train", tiny_experiment_file, "--run", run)
    assert (done.code, done.out) == (2, "") and 'stage "vanilla" was begun with other settings' in done.err
    shown = json.loads(cli("show", run, "--json").out)
    assert [stage["state"] for stage in shown["stages"]] == ["finished", "not begun", "not begun"]
    assert shown["next"] == again
    (run / "origin.json").write_text("{")
    assert f"next: loopmt train EXPERIMENT --run {run} --set stage.vanilla.updates=8\n" in cli("show", run).out


def test_prepared_with_other_settings(cli: Cli, tiny_experiment_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = cli("prepare", tiny_experiment_file, "--run", run, "--set", "vocab.size=330")
    again = f"loopmt train {tiny_experiment_file} --run {run} --set vocab.size=330"
    assert done.out == f"prepared in {run}; next: {again}\n" and "was prepared otherwise" not in done.err
    done = cli("prepare", tiny_experiment_file, "--run", run, "--set", "vocab.size=340")
    assert f"{run} was prepared otherwise: vocab.size was 330 and is 340. It is prepared again.\n" in done.err


def test_the_next_command_can_be_given(cli: Cli, tiny_experiment_file: Path, tmp_path: Path) -> None:
    """A star of bitext, no test set, a name that is not the file's: only what there is is recommended."""
    file, run = tmp_path / "star file.toml", tmp_path / "run"
    head, vanilla, *_ = tiny_experiment_file.read_text(encoding="utf-8").split("[[stage]]")
    file.write_text(f"{head}[[stage]]{vanilla}", encoding="utf-8")
    star = ["name=my-star", 'languages=["fr","es","en"]', 'data.bitext={"en-fr"="bi.en-fr","en-es"="bi.en-es"}']
    few = [f"data.root={tiny_experiment_file.parent / 'text'}", "data.test={}", "stage.vanilla.updates=2"]
    sets = [word for one in (*star, *few) for word in ("--set", one)]
    done = cli("prepare", file, "--run", run, *sets)
    again = shlex.split(done.out.partition("next: loopmt ")[2])
    assert again == ["train", str(file), "--run", str(run), *sets]
    done = cli(*again)
    assert (done.code, done.out) == (0, f'finished; next: loopmt translate {run} "fr>en"\n')
    assert f'next: loopmt translate {run} "fr>en"' in cli("show", run).out
    assert cli("translate", run, "fr>en", stdin="x\n").code == 0


def test_show_says_who_is_training(cli: Cli, copied: Path) -> None:
    with Run(copied).locked():
        said = cli("show", copied).out
        assert said.endswith(f"training now (pid {os.getpid()})\n") and "next:" not in said
    assert "next:" in cli("show", copied).out


def test_dry_run_changes_nothing(cli: Cli, tiny_experiment_file: Path, copied: Path) -> None:
    shutil.rmtree(copied / "stages" / "dual")
    shutil.rmtree(copied / "stages" / "vanilla-longer" / "result")
    outlived = copied / "stages" / "vanilla" / "checkpoints"  # as after a kill while the stage finished
    shutil.copytree(copied / "stages" / "vanilla" / "result", outlived / "00000120")
    before = contents(copied)
    done = cli("train", tiny_experiment_file, "--run", copied, "--dry-run")
    assert done.code == 0 and contents(copied) == before
    assert "bitext en-fr: 240 rows" in done.out and "6 networks, one per direction: 33,256 parameters each" in done.out
    assert "X>Y>X, weight 1: en>fr>en, en>es>en, fr>en>fr, fr>es>fr, es>en>es, es>fr>es; generated by live greedy" in (
        done.out
    )
    assert done.out.count("ms an update") == 2 and done.out.count("finished") == 1
    assert "Left to train: about" in done.out


def test_dry_run_before_anything_is_there(cli: Cli, tiny_experiment_file: Path, tmp_path: Path) -> None:
    done = cli("train", tiny_experiment_file, "--run", tmp_path / "run", "--dry-run", "--until", "vanilla")
    assert done.code == 0 and not (tmp_path / "run").exists()
    assert "not prepared yet" in done.out and f"loopmt prepare {tiny_experiment_file}" in done.out
    assert "stage dual" not in done.out
    words = ("--set", 'data.bitext={"en-fr"="bi.en-fr","en-es"="bi.en-es"}')
    star = cli("train", tiny_experiment_file, "--run", tmp_path / "run", "--dry-run", *words)
    assert "left out: fr>es is open, so it needs bitext fr-es; the data has en-es, en-fr" in star.out
    assert star.out.endswith(f"--run {tmp_path / 'run'} {shlex.join(words)}\n")
    chosen = cli("train", tiny_experiment_file, "--run", tmp_path / "run", "--dry-run", "--set", "stage.dual.mix=auto")
    assert chosen.out.count('mix = "auto": these are candidates') == 1


def test_dry_run_of_loops_alone_before_their_start_is_trained(
    cli: Cli, tiny_experiment_file: Path, copied: Path
) -> None:
    """The sieve drops all that untrained translators say here: there is no batch to time."""
    shutil.rmtree(copied / "stages")
    words = ("--only", "dual", "--set", 'stage.dual.mix=["X>Y>X"]')
    done = cli("train", tiny_experiment_file, "--run", copied, "--dry-run", *words)
    assert done.code == 0 and done.out.count("ms an update") == 1
    assert "of what untrained translators say; ask again once vanilla is trained" in done.out
    assert "neither validation nor untimed stages counted." in done.out


def test_dry_run_times_what_training_learns_with(cli: Cli, tiny_experiment_file: Path, copied: Path) -> None:
    """Groups of three rows lie in shapes of multiples of three; a sharded network is timed by one process."""
    shutil.rmtree(copied / "stages" / "dual")
    combined = '{path="X>Y>X",samples=3,combine="logmeanexp",generate={how="sample"}}'
    words = ("--only", "dual", "--set", f"stage.dual.mix=[{combined}]")
    done = cli("train", tiny_experiment_file, "--run", copied, "--dry-run", *words)
    rows = [int(found) for found in re.findall(r"(\d+) x \d+[, ]", done.out)]
    assert done.code == 0 and "ms an update" in done.out and rows and all(count % 24 == 0 for count in rows)
    shutil.rmtree(copied / "stages")
    sharded = ("--until", "vanilla", "--set", "model.sharing=all", "--set", "train.shard=true")
    assert "ms an update" in cli("train", tiny_experiment_file, "--run", copied, "--dry-run", *sharded).out


def test_dry_run_of_a_slow_machine_times_a_part_and_one_update(
    cli: Cli, tiny_experiment_file: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(copied / "stages" / "dual")
    words = ("train", tiny_experiment_file, "--run", copied, "--dry-run", "--only", "dual")
    tokens, updates = list[int](), list[int]()
    gather, learn = Gatherer.round, Learner.update

    def gathering(gatherer: Gatherer, *given: Any) -> Any:
        tokens.append(gatherer.train.tokens)
        return gather(gatherer, *given)

    def learning(learner: Learner, batch: Any, update: int, *given: Any) -> None:
        updates.append(update)
        learn(learner, batch, update, *given)

    monkeypatch.setattr(Gatherer, "round", gathering)
    monkeypatch.setattr(Learner, "update", learning)
    assert "ms an update" in cli(*words).out
    assert len(tokens) == 2 and tokens[0] == tokens[1] // 16 and len(updates) > 1
    monkeypatch.setattr(dry_run, "_ENOUGH", 0.0)
    assert "ms an update" in cli(*words).out
    assert tokens[2:] == tokens[:1] and updates[-1] == 1 and updates.count(1) == 3


def test_dry_run_of_a_stage_that_patience_ends_is_a_bound(cli: Cli, ask_for: Callable[[str], Request]) -> None:
    request = ask_for('[[stage]]\nname = "open"\nfrom = "vanilla"\nmix = ["X>Y"]\nuntil = "patience"\n')
    done = cli("train", request.file, "--run", request.run, "--dry-run")
    assert re.search(r"; at most [\d,]+ updates left: at most about \d", done.out)
    assert "\nLeft to train: at most about " in done.out
    assert request.run is not None
    shutil.rmtree(request.run / "stages")
    untrained = cli("train", request.file, "--run", request.run, "--dry-run").out
    assert re.search(r"untrained translators speak at length, so at most: about \d", untrained)


@pytest.mark.parametrize(
    ("seconds", "moment", "clock"),
    [(0.234, "234 ms", "0 seconds"), (23.394, "23.4 s", "23 seconds"), (105.8, "105.8 s", "106 seconds")],
)
def test_moments(seconds: float, moment: str, clock: str) -> None:
    assert (dry_run._moment(seconds), dry_run._clock(seconds)) == (moment, clock)


def test_long_training_is_told_in_days() -> None:
    assert dry_run._clock(47 * 3600) == "47.0 hours" and dry_run._clock(1102.6 * 3600) == "45.9 days"


def test_dry_run_says_what_is_too_long(cli: Cli, tiny_experiment_file: Path, copied: Path) -> None:
    shutil.rmtree(copied / "stages")
    words = ("train", tiny_experiment_file, "--run", copied, "--dry-run", "--until", "vanilla", "--set")
    assert "not learnt from" not in cli(*words, "train.max_length=128").out
    short = cli(*words, "train.max_length=20").out
    assert re.search(r"\d+\.\d% of the pairs of en-fr are not learnt from: longer than train.max_length = 20", short)


def test_only_a_stage_and_what_it_comes_from(cli: Cli, tiny_experiment_file: Path, tmp_path: Path) -> None:
    few = (f"stage.{stage}.updates=2" for stage in ("vanilla", "vanilla-longer", "dual"))
    words = ("--only", "dual", *(word for key in few for word in ("--set", key)))
    told = cli("train", tiny_experiment_file, "--run", tmp_path / "run", *words, "--dry-run").out
    assert "stage vanilla:" in told and "stage dual:" in told and "stage vanilla-longer:" not in told
    assert cli("train", tiny_experiment_file, "--run", tmp_path / "run", *words).code == 0
    shown = json.loads(cli("show", tmp_path / "run", "--json").out)
    assert {stage["name"]: stage["state"] for stage in shown["stages"]} == {
        "vanilla": "finished",
        "vanilla-longer": "not begun",
        "dual": "finished",
    }


def test_evaluate_and_show(cli: Cli, copied: Path) -> None:
    assert f"next: loopmt evaluate {copied}" in cli("show", copied).out
    done = cli("evaluate", copied, "--beam", 1, "--samples", 20)
    card = json.loads((copied / "scorecard.json").read_text())
    assert done.code == 0 and "dual against vanilla-longer" in done.out and "en>fr" in done.out
    assert f"{card['stages']['dual']['mean']['multi_bleu']:.2f}" in done.out
    assert json.loads(cli("evaluate", copied, "--beam", 1, "--samples", 20, "--json").out) == card
    shown = json.loads(cli("show", copied, "--json").out)
    assert [stage["scores"] for stage in shown["stages"]] == [stage["mean"] for stage in card["stages"].values()]
    assert f'next: loopmt translate {copied} "en>fr"' in cli("show", copied).out


def test_a_stage_below_its_control_is_not_what_to_translate_with(cli: Cli, copied: Path) -> None:
    """Its translations are made worse than they were; verbs take the last stage unless they are told."""
    words = ("evaluate", copied, "--beam", 1, "--samples", 20)
    cli(*words)
    for file in (copied / "stages/dual/translations/test").iterdir():
        file.write_text("".join("no\n" for _ in file.read_text(encoding="utf-8").splitlines()), encoding="utf-8")
    sentence = "dual is below its control in BLEU: --stage vanilla-longer translates with that"
    assert sentence in cli(*words).out
    shown = cli("show", copied).out
    assert sentence in shown and f'next: loopmt translate {copied} "en>fr" --stage vanilla-longer' in shown
    shutil.rmtree(copied / "stages/dual")  # to train it otherwise
    again = cli("show", copied).out
    assert sentence not in again and "dual against vanilla-longer" not in again, "that was another dual"


def test_nor_is_a_control_that_is_below_its_own(tiny_run: Path) -> None:
    run = Run.open(tiny_run)
    below = {"dual": "vanilla-longer", "vanilla-longer": "vanilla"}
    advice = show._next(run, run.experiment(), left=False, scored=True, below=below)
    assert advice == f'loopmt translate {tiny_run} "en>fr" --stage vanilla'


class Typed(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_a_person_who_types_is_told_how_to_end(cli: Cli, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "type sentences, one a line; Ctrl-D ends"
    words = ("translate", tiny_run, "en>fr", "--beam", 1)
    assert hint not in cli(*words, stdin="a\n").err
    monkeypatch.setattr(io, "BytesIO", Typed)
    assert hint in cli(*words, stdin="a\n").err


def test_show_a_stage_under_way(cli: Cli, copied: Path) -> None:
    stage = copied / "stages" / "dual"
    shutil.rmtree(stage / "result")
    assert "at update 16 of 16" in cli("show", copied).out


def test_generate(cli: Cli, tiny_run: Path, tmp_path: Path) -> None:
    words = ("generate", tiny_run, "en>fr>en", "--out", tmp_path / "out", "--how", "beam", "--beam", 2, "--limit", 12)
    done = cli(*words)
    assert done.code == 0 and "of 12 rows kept (dropped: " in done.out and "synthetic.fr" in done.out
    found = json.loads(cli(*words, "--json").out)
    assert found["rows"] == 12 and [Path(file).is_file() for file in found["files"]] == [True] * 3


def test_doctor(cli: Cli) -> None:
    found = json.loads(cli("doctor", "--json").out)
    assert found["packages"]["torch"] and "float32" in found["precision"]["cpu"]
    assert set(found["extras"]) == {"report", "serve", "export", "tensorboard", "zstd"}
    assert found["disk_free_bytes"] > 0
    text = cli("doctor").out
    assert all(word in text for word in ("python", "precision", "disk"))


def test_paths_score_theory_and_lab(cli: Cli, tmp_path: Path) -> None:
    paths = json.loads(cli("paths", "X>Y>Z>X", "--languages", "en,fr,es,de", "--json").out)
    assert len(paths["paths"]) == 24 and paths["left_out"] == []
    (tmp_path / "said").write_text("a b c d e\n")
    assert json.loads(cli("score", tmp_path / "said", tmp_path / "said", "--json").out)["chrf"]["score"] == 100
    assert json.loads(cli("theory", "--p", 0.65, "--r", 0.73, "--json").out)
    lab = ("lab", "--out", tmp_path / "lab", "--meanings", 6, "--worlds", 1, "--steps", 2, "--no-pictures", "--json")
    assert json.loads(cli(*lab).out) and (tmp_path / "lab" / "lab.json").is_file()


@pytest.mark.filterwarnings("default:Moses has no rules")
@pytest.mark.parametrize(("language", "warned"), [("klingon", True), ("fr", False), ("pt_BR", False), ("ja", False)])
def test_score_says_where_moses_has_no_rules(cli: Cli, tmp_path: Path, language: str, warned: bool) -> None:
    (tmp_path / "said").write_text("a b c d e\n")
    done = cli("score", tmp_path / "said", tmp_path / "said", "--language", language)
    assert done.code == 0
    assert (f"warning: Moses has no rules for --language {language} and" in done.err) == warned


# -- help ------------------------------------------------------------------------------------------------------


def commands() -> dict[str, Any]:
    found: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("verb", sorted(commands()))
def test_help_is_complete(cli: Cli, verb: str) -> None:
    done = cli(verb, "--help")
    assert done.code == 0 and f"Usage: loopmt {verb}" in done.out and "Example" in done.out
    undocumented = [param.name for param in commands()[verb].params if not getattr(param, "help", None)]
    assert undocumented == []


@pytest.mark.parametrize("verb", sorted(commands()))
def test_help_loses_no_word_and_flows(cli: Cli, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Brackets are no markup, and a paragraph is one line where the terminal is wide."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("TERMINAL_WIDTH", "1000")
    said = cli(verb, "--help").out
    found = commands()[verb]
    told = " ".join(said.replace("│", " ").split())
    for paragraph in (found.callback.__doc__ or "").split("\n\n"):
        assert " ".join(paragraph.split()) in [line.strip() for line in said.splitlines()]
    for param in found.params:
        assert " ".join(param.help.split()) in told


def test_version(cli: Cli) -> None:
    done = cli("--version")
    assert (done.code, done.err) == (0, "") and re.fullmatch(r"loopmt \d+\.\d+\S*\n", done.out)


def test_help_never_loads_torch() -> None:
    code = f"""
import sys
from loopmt.cli import main
for words in [[], *([verb] for verb in {sorted(commands())})]:
    sys.argv = ["loopmt", *words, "--help"]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, words
    assert "torch" not in sys.modules, words
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f" {verb} " in done.stdout for verb in commands())


# -- world -----------------------------------------------------------------------------------------------------


def test_world_writes_text_to_practise_on(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "corpora"
    done = cli("world", folder, "--pair", "en-fr=20", "--pair", "fr-es=5", "--mono", 30, "--valid", 4, "--test", 6)
    assert (done.code, done.err) == (0, "")
    lines = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in folder.iterdir()}
    assert lines == {
        **{f"bi.en-fr.{code}": 20 for code in ("en", "fr")},
        **{f"bi.fr-es.{code}": 5 for code in ("fr", "es")},
        **{f"{name}.{code}": n for code in ("en", "fr", "es") for name, n in (("mono", 30), ("valid", 4), ("test", 6))},
    }
    section = tomllib.loads(done.out)["data"]
    assert section["root"] == str(folder)
    assert section["bitext"] == {"en-fr": "bi.en-fr", "fr-es": "bi.fr-es"}
    assert section["mono"] == dict.fromkeys(("en", "fr", "es"), "mono")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pair", "en-fr"], "--pair en-fr: write L1-L2=N, such as en-fr=900."),
        (["--pair", "en-it=3"], 'the world cannot write text for "en-it"; it speaks en, fr, es'),
        (["--pair", "en-fr=9999999"], "the tiny world has fewer than 8,313,040 meanings. Ask for fewer lines"),
        (["--languages", "en,it"], 'the world does not speak "it"; it speaks en, fr, es, de.'),
    ],
)
def test_world_refuses(cli: Cli, tmp_path: Path, words: list[str], said: str) -> None:
    done = cli("world", tmp_path / "corpora", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err and not (tmp_path / "corpora").exists()


def test_world_overwrites_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "test.en").write_text("mine")
    done = cli("world", tmp_path)
    assert done.code == 2 and "nothing in it is overwritten: name a new folder." in done.err
    assert (tmp_path / "test.en").read_text() == "mine"


def test_world_interrupted_leaves_nothing_that_blocks_a_repeat(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "corpora"
    words = ("world", folder, "--pair", "en-fr=20", "--mono", 5, "--valid", 4, "--test", 6)
    say, said = World.sentence, []

    def interrupted(*arguments: Any) -> str:
        said.append(arguments)
        if len(said) > 30:
            raise KeyboardInterrupt
        return say(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(World, "sentence", interrupted)
        cli(*words)
    assert list(folder.iterdir()) == []
    (folder / ".draft-killed").mkdir()
    done = cli(*words)
    assert done.code == 0 and len((folder / "bi.en-fr.fr").read_text(encoding="utf-8").splitlines()) == 20


@pytest.mark.parametrize(
    "words",
    [
        ("world", "corpora", "--pair", "en-fr=4", "--mono", 2, "--valid", 1, "--test", 1),
        ("lab", "--out", "lab", "--meanings", 6, "--worlds", 1, "--steps", 2, "--no-pictures"),
    ],
)
def test_what_takes_long_says_how_far_it_is(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("loopmt.progress.standard", lambda: Lines(interval=0))
    done = cli(*words)
    assert done.code == 0 and "100% after" in done.err and "done in" in done.err
