"""Every verb as typed: what it prints, what it refuses, and how."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers.commands import Cli, contents
from helpers.facts import lacks, missing
from helpers.kept import kept_files, replace_translations
from loopmt import progress
from loopmt.__main__ import main as command
from loopmt.cli import app, inspect, text
from loopmt.config import Generate
from loopmt.rng import keyed_seed
from loopmt.run import Run
from loopmt.workflow.translate import load

SENTENCE = "The small child hears the kind cat often."


@pytest.fixture
def copied(tiny_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path / "run"))


def shell(*words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "loopmt", *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, env={**os.environ, **_ENVIRONMENT})


_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "LC_ALL": "C", "PYTHONWARNINGS": "error"}


# -- translate -------------------------------------------------------------------------------------------------


def test_translate_in_a_shell_whose_locale_is_plain(tiny_run: Path) -> None:
    done = shell("translate", tiny_run, "en>es", stdin=f"{SENTENCE}\r\n\nThe bird.".encode())
    lines = done.stdout.decode().split("\n")
    assert (done.returncode, done.stderr) == (0, b"loopmt: stage dual\n")
    assert len(lines) == 4 and lines[0] and lines[1] == "" and lines[2] and lines[3] == ""


def test_errors_in_a_shell_are_one_sentence(tmp_path: Path) -> None:
    done = shell("translate", tmp_path, "en>es")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"loopmt: {tmp_path} is not a run folder:") and done.stderr.count(b"\n") == 1


def test_translate_files(cli: Cli, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "one").write_text(f"{SENTENCE}\n\n")
    (tmp_path / "two.gz").write_bytes(gzip.compress(SENTENCE.encode()))
    done = cli("translate", tiny_run, "en>fr>es", tmp_path / "one", tmp_path / "two.gz", "--stage", "vanilla")
    first, second, third = done.out.splitlines()
    assert done.code == 0 and first == third and first and not second


def test_translate_shows_how_far_it_is(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where standard output is no terminal: translations that are seen need no bar."""
    text = tmp_path / "text.en"
    text.write_text("The cat sees the dog.\n" * 50, encoding="utf-8")
    monkeypatch.setattr(progress, "standard", lambda: progress.Lines(interval=0))
    done = CliRunner().invoke(app, ["translate", str(tiny_run), "en>fr", str(text), "--beam", "1"])
    assert done.exit_code == 0 and len(done.stdout.splitlines()) == 50
    assert "translating: 64% after" in done.stderr and "translating: 100% after" in done.stderr


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
    assert refused.code == 2 and "--backend loopmt" in refused.err


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


def test_sampling_is_the_same_from_the_command_line_and_from_python(cli: Cli, tiny_run: Path) -> None:
    lines = [SENTENCE] * 20
    done = cli("translate", tiny_run, "en>fr", "--sample", stdin="".join(f"{line}\n" for line in lines))
    sampled = load(tiny_run).translate(lines, "en>fr", how=Generate(how="sample"), seed=keyed_seed(1, 0))
    assert done.out.splitlines() == sampled and len(set(sampled)) > 1
    for verb in (text.translate, inspect.generate):
        defaults = {name: one.default for name, one in signature(verb).parameters.items()}
        usual = Generate().model_dump(include={"temperature", "top_k", "top_p", "length_penalty"})
        assert {name: defaults[name] for name in usual} == usual


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
    yield ("translate", "RUN", "en>de"), b"x", "'de': en, fr, es"
    yield ("translate", "RUN", "en"), b"x", "path 'en' has no hop"
    for words in (
        ("translate", "RUN", "en"),
        ("generate", "RUN", "en", "--out", "o"),
        ("evaluate", "RUN", "--path", "en"),
        ("paths", "X", "--languages", "en,fr"),
        ("import", "nowhere", "--run", "r", "--direction", "en"),
    ):
        yield words, b"", 'write "en>fr"'
    yield ("translate", "RUN", "en>fr", "--sample", "--beam", "3"), b"x", "--sample and --beam 3: give one of them"
    yield ("translate", "RUN", "en>fr", "--top-k", "5", "--seed", "2"), b"x", "--top-k, --seed: only sampling"
    yield ("translate", "FILE", "en>fr"), b"x", "It is a file. Name a run folder"
    yield ("export", "RUN", "--to", "hf", "--out", "o", "--type", "int8"), b"", "--type int8 is for --to ct2"
    yield ("translate", "RUN", "en>fr", "--stage", "x"), b"x", "there is no stage 'x'; there are vanilla,"
    yield ("translate", "RUN", "en>fr", "--nbest", "9"), b"x", "9 best translations need a beam of 9"
    yield ("translate", "RUN", "en>fr"), b"ok\n\xff", "standard input, line 2 is not UTF-8 (byte 0xff)"
    yield ("translate", "RUN", "en>fr", "missing.txt"), b"", "missing.txt cannot be read: No such file"
    yield ("translate", "nowhere", "en>fr"), b"x", "nowhere is not a run folder: it has no experiment.json"
    yield ("evaluate", "nowhere"), b"", "nowhere is not a run folder"
    yield ("evaluate", "RUN", "--stage", "x"), b"", "there is no stage 'x'"
    yield ("evaluate", "RUN", "RUN"), b"", "both have seed 1: runs judged together are of one experiment"
    yield ("show", "nowhere"), b"", "nowhere is not a run folder"
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
    assert done.err.startswith("loopmt: ") and not lacks(done.err, message) and "Traceback" not in done.err


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
    assert done.code == 0 and "vanilla-longer, dual" in done.out and done.out.endswith(f"next: loopmt plan {run}\n")
    before = contents(run)
    assert cli(*words).code == 0 and contents(run) == before
    (run / "stages" / "vanilla" / "stage.json").unlink()
    assert cli(*words).code == 0 and contents(run) == before, "what a stage is, is written down again"
    done = cli("train", tiny_experiment_file, "--run", run)
    assert (done.code, done.out) == (2, "") and 'stage "vanilla": stage.updates was 8, now 120' in done.err
    shown = json.loads(cli("show", run, "--json").out)
    assert [stage["state"] for stage in shown["stages"]] == ["finished", "not begun", "not begun"]
    assert shown["next"] == f"loopmt plan {run}"
    (run / "plan.json").write_text("{}")
    assert json.loads(cli("show", run, "--json").out)["next"] == again
    (run / "origin.json").write_text("{")
    assert f"next: loopmt train EXPERIMENT --run {run} --set stage.vanilla.updates=8\n" in cli("show", run).out


def test_prepared_with_other_settings(cli: Cli, tiny_experiment_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = cli("prepare", tiny_experiment_file, "--run", run, "--set", "vocab.size=330")
    again = f"loopmt train {tiny_experiment_file} --run {run} --set vocab.size=330"
    assert done.out == f"prepared in {run}; next: {again}\n" and "was prepared otherwise" not in done.err
    done = cli("prepare", tiny_experiment_file, "--run", run, "--set", "vocab.size=340")
    assert not missing(done.err, str(run), "vocab.size was 330 and is 340", "prepared again")


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
    assert done.code == 0 and "dual less vanilla-longer" in done.out and "en>fr" in done.out
    assert f"{card['stages']['dual']['mean']['multi_bleu']:.2f}" in done.out
    assert json.loads(cli("evaluate", copied, "--beam", 1, "--samples", 20, "--json").out) == card
    shown = json.loads(cli("show", copied, "--json").out)
    assert [stage["scores"] for stage in shown["stages"]] == [stage["mean"] for stage in card["stages"].values()]
    assert f'next: loopmt translate {copied} "en>fr"' in cli("show", copied).out


def test_a_stage_below_its_control_is_not_what_to_translate_with(cli: Cli, copied: Path) -> None:
    """Its translations are made worse than they were; verbs take the last stage unless they are told."""
    words = ("evaluate", copied, "--beam", 1, "--samples", 20)
    cli(*words)
    for file in kept_files(copied, "dual"):
        direction = file.name.partition(".")[0].replace("-", ">")
        replace_translations(copied, "dual", direction, ["no"] * len(file.read_text(encoding="utf-8").splitlines()))
    warning = "dual scores below its control vanilla-longer in BLEU"
    assert warning in cli(*words).out
    shown = cli("show", copied).out
    assert warning in shown and f'next: loopmt translate {copied} "en>fr"\n' in shown
    told = cli("translate", copied, "en>fr", stdin=SENTENCE).err
    assert "stage vanilla-longer" in told and "dual is worse" in told
    shutil.rmtree(copied / "stages/dual")  # to train it otherwise
    again = cli("show", copied).out
    assert warning not in again and "dual less vanilla-longer" not in again, "that was another dual"


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
    assert set(found["extras"]) == {"report", "serve", "export", "lora", "tensorboard", "track", "zstd", "parquet"}
    assert found["disk_free_bytes"] > 0 and found["cpu"]["step_seconds"]["1"] > 0
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
    assert (f"--language {language}" in done.err) == warned
