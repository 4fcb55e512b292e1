"""A GPU session in small: it trains and judges in calls, and what it brings home is light and can be judged again."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from benchmarks import condense
from benchmarks.bundle import unpack
from benchmarks.gpu_session import GpuSession, main, parse
from benchmarks.gpu_sessions import main as run_together
from benchmarks.records import keep

from helpers.experiments import WORLD
from helpers.facts import refused
from helpers.paths import ROOT
from loopmt.errors import ConfigError
from loopmt.progress import Silent
from loopmt.run import Run, read_json
from loopmt.workflow.analyze import AnalyzeOptions, analyze
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.plan import PlanOptions, plan
from loopmt.workflow.report import ReportOptions, report


def arguments(folder: Path, *more: str) -> list[str]:
    places = ["--run", str(folder / "run"), "--out", str(folder / "out")]
    return [str(folder / "world.toml"), *places, "--judge", "decode", "evaluate", "--beam", "1", *more]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "world.toml").write_text(WORLD, encoding="utf-8")
    return tmp_path


def test_a_session_in_calls(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(arguments(folder, "--until", "vanilla", "--call-minutes", "0"))
    assert capsys.readouterr().out == "{}\nunfinished: run the same command again\n"
    whole = arguments(folder, "--until", "dual", "--seed", "7", "--sentences", "4")
    main(whole)
    assert capsys.readouterr().out.endswith("\nfinished\n")
    costs = read_json(folder / "out/costs.json")
    assert list(costs["steps"]) == ["prepare", "train-dual", "decode", "evaluate"]
    assert list(costs["stages"]) == ["vanilla", "dual"] and costs["stages"]["dual"]["updates"] == 2
    assert "exact accuracy" in (folder / "out/evaluate.txt").read_text(encoding="utf-8")
    shutil.rmtree(folder / "out")
    main(whole)
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {
        name: step["seconds"] for name, step in costs["steps"].items()
    }, "nothing is done twice"
    assert read_json(folder / "out/costs.json") == costs, "everything comes home again"
    judged_at_home(folder)


def judged_at_home(folder: Path) -> None:
    """Without weights and training text, from what was said on the machine alone."""
    home = folder / "home"
    unpack(home, [folder / "out/run.tar.xz", folder / "out/loops.tar.xz"])
    assert not list(home.rglob("*.safetensors"))
    card = read_json(home / "scorecard.json")
    assert card["seeds"] == [7]
    assert evaluate([home], EvaluateOptions(beam=1), Silent()) == card
    assert plan(home, PlanOptions(beam=1), Silent())["stage"] == "vanilla"
    analyze(home, AnalyzeOptions(beam=1, sentences=4, against_plan=True), Silent())
    assert keep([home], folder / "kept", EvaluateOptions(beam=1)) == card
    assert not (folder / "kept/scores.json").exists(), "one seed: its own file has its scores"
    kept = read_json(folder / "kept/seed-7.json")
    assert kept["scorecard"] == condense.scorecard(card) and list(kept["steps"])[:2] == ["prepare", "train-dual"]
    assert kept["stages"]["dual"]["seconds"] > 0 and kept["stages"]["dual"]["validation"][-1]["update"] == 2
    assert read_json(folder / "kept/plan-7.json") == condense.plan(read_json(home / "plan.json"))
    assert read_json(folder / "kept/experiment-7.json") == read_json(home / "experiment.json")
    page, _ = report([home], ReportOptions(sentences=4, beam=1), Silent())
    assert page == home / "report.html"


def session_of(seed: int, options: list[str]) -> str:
    words = json.dumps(["--seed", str(seed), *options])
    return f'[[session]]\nexperiment = "world.toml"\nname = "world-{seed}"\noptions = {words}\n'


def test_several_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The second call is the last: what the first has trained is decoded beside the training of the rest."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(folder)
    for seeds, stage, judges, last in (([2], "vanilla", [], []), ([1, 2], "dual", ["decode"], ["--last"])):
        words = ["--until", stage, "--judge", *judges, "--judging", "1", "--sentences", "4", "--beam", "1"]
        (folder / "sessions.toml").write_text("".join(session_of(seed, words) for seed in seeds), encoding="utf-8")
        run_together(["sessions.toml", "--seconds", "600", "--out", "out", "--part", "0.005", *last])
        said = capsys.readouterr().out.split("== world-")[1:]
        assert len(said) == len(seeds) and all(text.endswith("\nfinished\n\n") for text in said)
    (early,) = folder.glob("runs/*.early.log")
    assert early.name == "world-2.early.log" and "Error" not in early.read_text(encoding="utf-8")
    parts = sorted(folder.glob("out/world-2.run.tar.xz*"))
    assert len(parts) > 1
    (folder / "joined.tar.xz").write_bytes(b"".join(part.read_bytes() for part in parts))
    unpack(folder / "home", [folder / "joined.tar.xz", folder / "out/world-2.loops.tar.xz"])
    assert evaluate([folder / "home"], EvaluateOptions(beam=1), Silent())["seeds"] == [2]
    with tarfile.open(folder / "out/logs.tar.gz") as packed:
        assert {"world-1.log", "home/world-2/costs.json"} <= set(packed.getnames())


def test_training_stops_in_time_to_judge(tiny_run: Path, tiny_experiment_file: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    options = [str(tiny_experiment_file), "--run", str(run), "--out", str(tmp_path / "out"), "--until", "dual"]
    shutil.rmtree(run / "stages/dual")
    late = [*options, "--call-minutes", "5", "--judging", "5", "--judge"]
    assert GpuSession(parse(late)).go() == "finished", "kept for judging in the last call alone"
    shutil.rmtree(run / "stages/dual")
    assert GpuSession(parse([*late, "--last"])).go() == "finished: the stages trained in time are evaluated"
    assert "dual" not in Run(run).finished()
    spent = [*options, "--call-minutes", "0", "--judging", "0", "--last"]
    assert GpuSession(parse(spent)).go() == "unfinished: run the same command again"


def test_a_stage_that_overtook_another_does_not_end_training(
    tiny_run: Path, tiny_experiment_file: Path, tmp_path: Path
) -> None:
    """Side by side, the last stage of the file may be finished before one that stands above it."""
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    options = [str(tiny_experiment_file), "--run", str(run), "--out", str(tmp_path / "out"), "--until", "dual"]
    session = GpuSession(parse([*options, "--jobs", "2"]))
    (step,) = session.training()
    assert session.done(step)
    shutil.rmtree(run / "stages/vanilla-longer")
    assert not session.done(step) and "dual" in session.finished
    (step,) = GpuSession(parse([*options[:-2], "--only", "dual"])).training()
    assert step.name == "train-dual" and step.command[-4:-2] == ("--only", "dual") and session.done(step)


def test_a_mistake_is_seen_before_anything_is_done(folder: Path) -> None:
    with refused(ConfigError, "'duel'", "vanilla, dual"):
        main(arguments(folder, "--until", "duel"))
    assert not (folder / "run").exists()


def test_a_step_that_fails_ends_the_session(folder: Path) -> None:
    head, stages = WORLD.split("[data.world]")[0], WORLD[WORLD.index("[[stage]]") :]
    text = '[data]\nbitext = { "en-fr" = "nowhere" }\nmono = { en = "nowhere", fr = "nowhere" }\nvalid = "nowhere"\n'
    (folder / "world.toml").write_text(head + text + stages, encoding="utf-8")
    with refused(SystemExit, "prepare", "exit code 2", "prepare.txt"):
        main(arguments(folder, "--until", "vanilla"))
    assert "nowhere.en" in (folder / "out/prepare.txt").read_text(encoding="utf-8")
