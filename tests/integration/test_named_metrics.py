"""Metrics by name: which are computed, which is shown first, and which way is better; programs as metrics."""

from __future__ import annotations

import json
import math
import pickle
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.commands import Cli
from helpers.experiments import BASE, stage
from helpers.facts import refused
from helpers.kept import kept_files
from loopmt.config import Evaluate, MetricEntry, loads
from loopmt.errors import ConfigError, ExternalError, RunError
from loopmt.evaluation.bootstrap import mean_statistics
from loopmt.evaluation.choice import chosen_metrics, facts_of, first_metric
from loopmt.evaluation.metric import MetricFacts, MetricInput
from loopmt.evaluation.metrics import METRICS, multi_bleu_statistics
from loopmt.files.documents import read_checked, with_checksum
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.run import Json, read_json, write_json
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.report import write_report
from loopmt.workflow.scorecard import setbacks
from loopmt.workflow.scorer import Scorer, measured

QUICK = EvaluateOptions(beam=1, samples=20)
TEXTS = MetricInput(["a b", "c"], ["a b", "d"], sources=["x", "y"], hop=Hop("en", "fr"))
LENGTH_ERROR = """
from loopmt.evaluation.metric import MetricInput, metric

@metric("length-error", label="length error", higher_is_better=False, digits=1)
def length_error(texts: MetricInput) -> list[float]:
    pairs = zip(texts.hypotheses, texts.references, strict=True)
    return [abs(len(hypothesis) - len(reference)) for hypothesis, reference in pairs]

def plain(texts):
    return [len(text) for text in texts.hypotheses]
"""
EXPERIMENT = loads(BASE + stage("vanilla"))
PROGRAM = """#!{python}
import os, sys
direction = os.environ["LOOPMT_SOURCE"] + os.environ["LOOPMT_TARGET"]
assert direction in ("enfr", "enes", "fren", "fres", "esen", "esfr")
for line in sys.stdin:
    source, hypothesis, reference = line.rstrip("\\n").split("\\t")
    assert source and reference
    print(len(hypothesis) / len(reference))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with a module of metrics, which is forgotten after the test."""
    (tmp_path / "own_metrics.py").write_text(LENGTH_ERROR, encoding="utf-8")
    (tmp_path / "ratio.py").write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    (tmp_path / "ratio.py").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(METRICS, "_known", dict(METRICS._known))
    places = list(sys.path)
    yield tmp_path
    sys.path[:] = places
    sys.modules.pop("own_metrics", None)


@pytest.fixture(scope="module")
def judged(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metrics") / "run"
    shutil.copytree(tiny_run, folder)
    evaluate([folder], QUICK, Silent())
    return folder


@pytest.fixture
def copied(judged: Path, here: Path) -> Path:
    return Path(shutil.copytree(judged, here / "run"))


def choose(run: Path, **settings: object) -> None:
    """Write [evaluate] into a run's experiment."""
    file = run / "experiment.json"
    write_json(file, with_checksum({**read_checked(file, ""), "evaluate": settings}))


# -- choosing --------------------------------------------------------------------------------------------------


def test_default_metrics_and_their_order() -> None:
    assert [one.name for one in chosen_metrics(Evaluate())] == ["multi_bleu", "sacrebleu", "chrf", "accuracy"]
    assert [one.name for one in Scorer.of(EXPERIMENT).metrics] == ["multi_bleu", "sacrebleu", "chrf"], "no judge"


def test_an_entry_overrides_the_facts_of_a_metric() -> None:
    entry = MetricEntry(use="chrf", name="mine", label="characters", better="lower", digits=0)
    (found,) = chosen_metrics(Evaluate(metrics=[entry]))
    expected = MetricFacts("mine", "characters", "characters", higher_is_better=False, digits=0)
    assert found.facts == expected and found.measure(TEXTS).score() == METRICS.find("chrf").measure(TEXTS).score()
    assert [one.name for one in chosen_metrics(Evaluate(), ["chrf", "comet"])][-2:] == ["accuracy", "comet"]
    with pytest.raises(ConfigError, match="chrf occurs twice"):
        chosen_metrics(Evaluate(metrics=["chrf", "chrf"]))


def test_accuracy_is_left_out_without_a_judge(here: Path) -> None:
    with refused(ConfigError, "evaluate.metrics", "accuracy", "built-in languages"):
        Scorer.of(EXPERIMENT.model_copy(update={"evaluate": Evaluate(metrics=["accuracy"])}))


def test_missing_inputs_of_metrics_are_named() -> None:
    with pytest.raises(ConfigError, match=r'"accuracy".*--sources'):
        METRICS.find("accuracy").measure(replace(TEXTS, sources=None))
    with pytest.raises(ConfigError, match=r'"accuracy" needs the exact judge'):
        METRICS.find("accuracy").measure(TEXTS)
    with pytest.raises(ConfigError, match=r'"comet" needs a checkpoint.*--comet.*evaluate\.comet'):
        METRICS.find("comet").measure(TEXTS)


def test_functions_return_numbers_or_statistics(here: Path) -> None:
    found = METRICS.find("own_metrics:plain")
    assert (found.name, found.facts.label) == ("own_metrics:plain", "plain")
    assert (found.measure(TEXTS).score(), found.measure(TEXTS).signature) == (2.0, "own_metrics:plain|mean")
    right = replace(found, function=lambda texts: mean_statistics([1, 0], "own"))
    assert right.measure(TEXTS).summary().signature == "own"


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        ([1.0], "1 numbers for 2 sentences"),
        ([1.0, math.nan], "finite"),
        ([[1.0], [2.0]], "finite number for each"),
        (["a", "b"], "list"),
        (None, "finite|NoneType"),
        (mean_statistics([1, 0, 1]), "3 numbers for 2 sentences"),
    ],
)
def test_functions_that_return_invalid_values(returned: object, what: str) -> None:
    wrong = replace(METRICS.find("chrf"), function=lambda texts: returned)  # type: ignore[arg-type, return-value]
    with pytest.raises(ExternalError, match=rf'"chrf" returned .*({what})'):
        wrong.measure(TEXTS)


def test_a_program_reads_source_hypothesis_and_reference(here: Path) -> None:
    found = METRICS.find("command:./ratio.py")
    assert found.facts.label == "ratio" and found.measure(TEXTS).score() == 1.0
    shown = METRICS.find("command:sed 's/[^\t]//g; s/\t\t/7/'")
    assert shown.measure(replace(TEXTS, sources=None, hop=None)).score() == 7.0, "always three columns"


# -- which way is better ---------------------------------------------------------------------------------------


def compared(low: float, high: float, higher_is_better: bool) -> Json:
    facts = {"name": "ter", "label": "TER", "title": "TER", "higher_is_better": higher_is_better, "digits": 1}
    joint = {"ter": {"difference": (low + high) / 2, "low": low, "high": high, "p_value": 0.01}}
    return {"metrics": [facts], "comparisons": [{"of": "dual", "against": "control", "joint": joint}]}


@pytest.mark.parametrize(
    ("low", "high", "higher", "worse"),
    [(-2, -1, True, True), (1, 2, True, False), (-2, -1, False, False), (1, 2, False, True), (-1, 1, False, False)],
)
def test_a_loss_is_a_significant_change_for_the_worse(low: float, high: float, higher: bool, worse: bool) -> None:
    assert setbacks(compared(low, high, higher)) == ({"dual": "control"} if worse else {})


def test_numbers_are_printed_with_the_digits_of_the_metric() -> None:
    (facts,) = facts_of(compared(-2, -1, False))
    assert (facts.heading, facts.number(None), facts.number(1.25, sign=True)) == ("TER ↓", "-", "+1.2")
    assert facts.interval({"difference": -1.5, "low": -2, "high": -1}) == "-1.5 (-2.0 to -1.0)"


def test_a_scorecard_of_an_older_version_has_registered_metrics() -> None:
    assert [one.name for one in facts_of({"signatures": {"chrf": {}, "multi_bleu": {}}})] == ["multi_bleu", "chrf"]
    assert first_metric({}).name == "multi_bleu"
    newer = compared(-2, -1, False)
    newer["metrics"][0]["colour"] = "red"
    assert first_metric(newer).label == "TER", "what a newer version adds is not read"


# -- as typed --------------------------------------------------------------------------------------------------


def test_evaluate_adds_metrics_of_the_command_line(copied: Path, cli: Cli) -> None:
    done = cli(
        "evaluate", copied, "--beam", 1, "--metric", "own_metrics:length_error", "--metric", "command:./ratio.py"
    )
    assert done.code == 0, done.err
    card = read_json(copied / "scorecard.json")
    assert [one["name"] for one in card["metrics"]] == [
        "multi_bleu",
        "sacrebleu",
        "chrf",
        "length-error",
        "command:./ratio.py",
    ]
    errors = [one["length-error"] for one in card["stages"]["dual"]["sets"]["test"]["directions"].values()]
    assert card["stages"]["dual"]["mean"]["length-error"] == pytest.approx(sum(errors) / len(errors))
    assert card["comparisons"][0]["joint"]["command:./ratio.py"]["samples"] == 1000
    assert "length error ↓" in done.out and "(lower is better)" in done.out and "ratio" in done.out
    assert "length-error|mean" in done.out, "its signature"


def test_the_first_metric_is_shown_first(copied: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPMT_ALLOW_CODE", "1")
    choose(copied, metrics=[{"use": "own_metrics:length_error", "label": "off"}, "chrf"])
    done = cli("evaluate", copied, "--beam", 1)
    assert done.code == 0 and "p (off)" in done.out and "BLEU" not in done.out, done.err
    shown = cli("show", copied).out
    assert "test off ↓" in shown and "test chrF2" in shown and "test BLEU" not in shown
    joint = json.loads(cli("show", copied, "--json").out)["comparisons"][0]["length-error"]
    assert f"dual less vanilla-longer: {joint['difference']:+.1f} off ↓" in shown
    write_report(copied)
    page = (copied / "report.html").read_text(encoding="utf-8")
    assert "off ↓ on test" in page and "p (off)" in page and "test chrF2" in page, "colours say that more is better"


def test_a_gain_is_coloured_as_one(copied: Path) -> None:
    for higher, colour in ((True, "down"), (False, "up")):
        card = read_json(copied / "scorecard.json")
        card["metrics"][0]["higher_is_better"] = higher
        card["comparisons"][0]["joint"]["multi_bleu"] |= {"difference": -2.0, "low": -3.0, "high": -1.0}
        write_json(copied / "scorecard.json", card)
        write_report(copied)
        assert f'<b class="{colour}">−2.00 BLEU' in (copied / "report.html").read_text(encoding="utf-8")


def test_metrics_that_cannot_be_computed_are_refused_before_work(copied: Path, cli: Cli) -> None:
    shutil.rmtree(copied / "stages/dual/translations")
    for name, facts in {
        "blue": ('"blue"', "multi_bleu", "sacrebleu", "chrf", "comet", "module:function"),
        "own_metrics:none": ("own_metrics.py", "length_error"),
        "command:./no-such": ("./no-such",),
    }.items():
        done = cli("evaluate", copied, "--metric", name)
        assert done.code == 2 and done.out == "" and all(fact in done.err for fact in facts), done.err
    assert not (copied / "stages/dual/translations").exists()


def test_a_failing_metric_names_itself_and_keeps_the_translations(copied: Path, cli: Cli) -> None:
    (copied.parent / "own_metrics.py").write_text("def worst(texts):\n    return texts.nothing\n", encoding="utf-8")
    done = cli("evaluate", copied, "--beam", 1, "--metric", "own_metrics:worst")
    assert done.code == 2 and "own_metrics:worst" in done.err and "AttributeError" in done.err and "line 2" in done.err
    assert kept_files(copied, "dual")


def test_code_named_by_a_run_needs_permission(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = copied.parent / "mark"
    choose(copied, metrics=["chrf", f"command:touch {mark}"])
    with pytest.raises(RunError, match=r"experiment\.json.*command:touch .*LOOPMT_ALLOW_CODE=1"):
        evaluate([copied], QUICK, Silent())
    assert not mark.exists()
    monkeypatch.setenv("LOOPMT_ALLOW_CODE", "1")
    with pytest.raises(ExternalError, match="0 lines for 40 rows"):
        evaluate([copied], QUICK, Silent())
    assert mark.exists()


def test_runs_with_different_metrics_are_evaluated_together(copied: Path, here: Path) -> None:
    other = Path(shutil.copytree(copied, here / "other"))
    write_json(other / "experiment.json", with_checksum({**read_checked(other / "experiment.json", ""), "seed": 2}))
    choose(copied, metrics=["chrf"])
    card = evaluate([copied, other], QUICK, Silent())
    assert card["seeds"] == [1, 2] and list(card["stages"]["dual"]["mean"]) == ["chrf"], "those of the first"


def test_score_adds_metrics(here: Path, cli: Cli) -> None:
    for name, text in {"hyp": "a b\nc\n", "ref": "a b\nd e\n", "src": "x\ny\n"}.items():
        (here / name).write_text(text, encoding="utf-8")
    words = ("score", "hyp", "ref", "--metric", "own_metrics:length_error", "--json")
    scored = json.loads(cli(*words).out)
    assert list(scored) == ["multi_bleu", "sacrebleu", "chrf", "length-error"]
    assert scored["length-error"] == {"score": 1.0, "signature": "length-error|mean"}
    printed = cli("score", "hyp", "ref", "--against", "ref", "--metric", "own_metrics:length_error").out
    assert "length error ↓" in printed and "+1.0" in printed
    done = cli("score", "hyp", "ref", "--metric", "comet")
    assert done.code == 2 and "--sources" in done.err
    done = cli("score", "hyp", "ref", "--sources", "src", "--metric", "comet")
    assert done.code == 2 and "--comet" in done.err
    text = "command:awk -F '\\t' '{ print $1 == \"x\" }'"
    assert (
        json.loads(cli("score", "hyp", "ref", "--sources", "src", "--metric", text, "--json").out)[text]["score"] == 0.5
    )


def test_surface_metrics_run_in_other_processes(here: Path) -> None:
    found = [METRICS.find(name) for name in ("multi_bleu", "sacrebleu", "chrf")]
    assert all(one.runs_anywhere for one in found)
    travelled = pickle.loads(pickle.dumps(found))
    assert (
        measured(travelled, TEXTS)["multi_bleu"].score()
        == multi_bleu_statistics(TEXTS.hypotheses, TEXTS.references).score()
    )
    assert not METRICS.find("own_metrics:length_error").runs_anywhere
