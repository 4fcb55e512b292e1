"""Verdicts on counts made by hand, pilots with a known effect, mixes that load, a plan of a real run."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.toy import EXPERIMENT
from loopmt.cli import app
from loopmt.cli.plan_tables import print_plan
from loopmt.config import Experiment, MixEntry, Stage, expansions, is_fair, loads, supervised_shares
from loopmt.errors import DataError, TheoryError
from loopmt.files.documents import read_checked
from loopmt.path import Hop, LanguagePath
from loopmt.planning.advice import HELPS, UNCLEAR, USELESS, TriedLoops
from loopmt.planning.analysis import before_training
from loopmt.planning.forecast import (
    VERDICTS,
    Pilot,
    decide,
    forecast_directions,
    forecast_loop,
    loop_of,
    rank_pivots,
    route_quality,
    score_pilot,
    too_weak,
    training_path,
)
from loopmt.planning.round_trips import Bools, Verdicts, loops_of
from loopmt.planning.suggest import LOOPS, as_toml, free_name, suggest_weights
from loopmt.progress import Silent
from loopmt.run import Run, write_json
from loopmt.workflow.analyze import AnalyzeOptions, analyze
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.plan import PlanInputs, PlanOptions, pilot_stages, plan, tried_loops

DUAL, LONGER = LanguagePath.parse("en>fr>en"), LanguagePath.parse("en>fr>es>en")
GOOD = (500, 20, 100, 380)  # right and home, wrong but home, right but lost, wrong and lost
CASES = ("11", "01", "10", "00")
WORDS = (HELPS, UNCLEAR, USELESS)


def column(patterns: tuple[str, ...], counts: tuple[int, ...], place: int) -> Bools:
    rows = [pattern for pattern, count in zip(patterns, counts, strict=True) for _ in range(count)]
    return np.array([row[place] == "1" for row in rows], dtype=np.bool_)


def verdicts(counts: tuple[int, ...], loop: LanguagePath = DUAL) -> Verdicts:
    right, home = (column(CASES, counts, place) for place in range(2))
    return Verdicts(loop, right, home, right)


def piloted(gain: float, low: float, high: float) -> Pilot:
    shares = {"alpha": [0.3, 0.2, 0.4], "kappa": [0.1, 0.0, 0.2]}
    return Pilot([gain, low, high], [gain, low, high], dict(shares), dict(shares))  # type: ignore[arg-type]


# -- the verdict -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "pilot", "verdict", "why"),
    [
        (GOOD, None, "may help", r"M 0.06.*21%.*38.0%"),
        (GOOD, piloted(0.05, 0.01, 0.09), "helps", r"pilot.*\+5.0%.*\+1.0% to \+9.0%"),
        (GOOD, piloted(0.02, -0.01, 0.05), "may help", "pilot"),
        (GOOD, piloted(-0.05, -0.09, -0.01), "likely harmful", "-5.0%.*40%"),
        ((250, 240, 250, 260), None, "no signal", "M 0.96"),
        ((250, 240, 250, 260), piloted(0.05, 0.01, 0.09), "helps", "pilot"),
        ((100, 400, 400, 100), None, "likely harmful", "M 4.00"),
        ((600, 395, 0, 5), None, "no signal", "0.5%"),
        ((600, 395, 0, 5), piloted(0.05, 0.01, 0.09), "no signal", "0.5%"),
        ((0, 0, 500, 500), None, "no signal", "M cannot"),
        ((0, 0, 0, 500), None, "no signal", "M cannot"),
        ((5, 1, 1, 5), None, "no signal", "interval"),  # a dozen sentences tell nothing
        ((40, 0, 10, 50), None, "may help", "M 0.00"),  # no blind sentence at all
    ],
)
def test_verdicts(counts: tuple[int, ...], pilot: Pilot | None, verdict: str, why: str) -> None:
    found = forecast_loop(verdicts(counts), pilot)
    assert found.verdict == verdict
    assert found.promising == (verdict in ("helps", "may help"))
    assert re.search(why, found.why)


@pytest.mark.parametrize(
    ("route", "verdict"),
    [([0.4, 0.35, 0.45], "may help"), ([0.02, 0.0, 0.03], "no signal"), ([None, 0.0, 1.0], "no signal")],
)
def test_a_translator_that_is_never_right_may_learn_from_a_better_route(
    route: list[float | None], verdict: str
) -> None:
    found = forecast_loop(verdicts((0, 0, 0, 500)), route=route)
    assert found.verdict == verdict
    assert ("(40%)" in found.why and "(0%)" in found.why) == (verdict == "may help")
    assert forecast_loop(verdicts((100, 400, 400, 100)), route=[0.9, 0.8, 1.0]).verdict == "likely harmful"


def test_a_star_is_told_to_go_through_its_hub() -> None:
    """fr>es is never right; the way es>en>fr is, the direct way es>fr is not."""
    never, good = np.zeros(200, dtype=np.bool_), np.arange(200) < 120

    def walk(loop: str, right: Bools, source: Bools) -> Verdicts:
        return Verdicts(LanguagePath.parse(loop), right, never, source)

    measured = [
        walk("fr>es>fr", never, never),
        walk("fr>es>en>fr", never, never),
        walk("es>fr>es", never, never),
        walk("es>en>fr>es", good, good),  # as a path it teaches fr>es
    ]
    outlook = forecast_directions(measured)[Hop("fr", "es")]
    assert {str(one.loop): one.verdict for one in outlook.prospects} == {
        "fr>es>fr": "no signal",
        "fr>es>en>fr": "may help",
    }
    (pivot,) = outlook.pivots
    assert pivot.promising and "(60%)" in pivot.why and "(0%)" in pivot.why


def test_worth_is_the_users() -> None:
    values = before_training(verdicts(GOOD))
    assert decide(values, worth=0.37)[0] == "may help"
    assert decide(values, worth=0.39)[0] == "no signal"


def test_predictions_of_a_loop() -> None:
    found = forecast_loop(verdicts(GOOD))
    shown = found.as_json()
    assert shown["bracket"] == [-0.1, 0.38] and shown["trained_as"] == "fr>en>fr" and shown["loop"] == "en>fr>en"
    p, s, c2 = 0.6, 500 / 520, 0.48
    by_gamma, by_alpha = ({point[0]: point[1] for point in curve} for curve in found.curves.values())
    assert by_gamma[0.0] == pytest.approx(s - p) and by_gamma[0.5] == pytest.approx(s * (1 - 0.5 * c2) - p)
    assert by_alpha[0.0] == pytest.approx(-0.1) and by_alpha[1.0] == pytest.approx(0.38)
    assert found.gamma_star is not None and s * (1 - found.gamma_star * c2) == pytest.approx(p)
    assert found.assumed["H at gamma = 0.43"][0] == pytest.approx(s * (1 - 0.43 * c2) - p)
    assert found.assumed["Theorem 1 at alpha = 0.30"][0] == pytest.approx(0.5 + 0.3 * c2 - p)


# -- pivots ----------------------------------------------------------------------------------------------------


def test_pivots_are_ranked_by_new_information() -> None:
    dual = verdicts((60, 20, 10, 30))
    blind, found = dual.home & ~dual.right, dual.home & dual.right
    sees = np.where(blind, False, dual.home)  # loses the whole blind spot and nothing else
    echoes = dual.home.copy()  # comes home when the dual loop does
    alarms = np.where(found, False, dual.home)  # loses what is right
    ways = {"a": alarms, "b": echoes, "c": sees}
    longer = [Verdicts(LanguagePath.parse(f"en>fr>{pivot}>en"), dual.right, home, None) for pivot, home in ways.items()]
    first, second, third = rank_pivots(dual, longer)
    assert [pivot.loop.languages[2] for pivot in (first, second, third)] == ["c", "b", "a"]
    assert first.new_information[0] == 0 and first.coverage[0] == 1 and first.false_alarms[0] == 0
    assert second.new_information[0] == 1 and second.verdict == "no signal"
    assert third.verdict == "likely harmful" and "M" in third.why
    assert (first.promising, second.promising, third.promising) == (True, False, False)
    (against,) = rank_pivots(dual, longer[2:], {longer[2].loop: piloted(-0.05, -0.09, -0.01)})
    assert against.verdict == "likely harmful" and not against.promising


def test_a_loop_is_trained_from_its_second_language() -> None:
    assert str(training_path(LONGER)) == "fr>es>en>fr" and training_path(LONGER).taught == Hop("en", "fr")
    hops = [Hop(one, other) for one, other in product(("en", "fr", "es", "de"), repeat=2) if one != other]
    for loop in loops_of(hops, 4):
        assert loop_of(training_path(loop)) == loop
        assert sorted(map(str, training_path(loop).hops)) == sorted(map(str, loop.hops))


def test_routes_are_worth_what_arrives() -> None:
    seen, unseen = (
        verdicts((3, 1, 2, 4), LanguagePath.parse("fr>en>fr")),
        verdicts((3, 1, 2, 4), LanguagePath.parse("fr>es>en>fr")),
    )
    quality = route_quality([seen, Verdicts(unseen.loop, unseen.right, unseen.home, None)])
    assert quality[Hop("en", "fr")][seen.loop][0] == 0.5
    assert quality[Hop("en", "fr")][unseen.loop][0] is None


# -- pilots ----------------------------------------------------------------------------------------------------


def test_a_pilot_predicts_its_other_half() -> None:
    generator = np.random.default_rng(1)
    before = verdicts((2000, 200, 600, 1200))
    shuffled = generator.permutation(len(before.right))
    before = Verdicts(DUAL, before.right[shuffled], before.home[shuffled], None)
    lost = ~before.home
    mended = before.right | (lost & (generator.random(len(lost)) < 0.3))  # lost ones become right in 30% of cases
    after = Verdicts(DUAL, mended, before.home | mended, None)
    pilot = score_pilot(before, after, before)
    truth = 0.3 * 0.3
    value, low, high = pilot.predicted
    assert value is not None and low is not None and high is not None
    assert low < truth < high and value == pytest.approx(truth, abs=0.02) and high - low < 0.04
    assert pilot.observed[0] == pytest.approx(truth, abs=0.02)
    assert pilot.trained["alpha"][0] == pytest.approx(1 / 3 + 0.3 * 2 / 3, abs=0.05)
    assert pilot.control["kappa"][0] == pytest.approx(1 / 3, abs=0.05), "do nothing: kappa is the break-even point"
    assert forecast_loop(before, pilot).verdict == "helps"
    assert forecast_loop(before, score_pilot(before, before, after)).verdict == "likely harmful"


def test_a_pilot_that_does_what_its_control_does_decides_nothing() -> None:
    before = verdicts(GOOD)
    after = verdicts((600, 0, 400, 0))
    pilot = score_pilot(before, after, after)
    assert pilot.predicted == [0.0, 0.0, 0.0]
    assert forecast_loop(before, pilot).verdict == "may help"


# -- suggestions -----------------------------------------------------------------------------------------------


def suggested(measured: list[Verdicts], experiment: Experiment) -> dict[LanguagePath, float]:
    supply = experiment.data.supply()
    return suggest_weights(
        forecast_directions(measured), route_quality(measured), lambda path: supply.lack(path) is None
    )


def test_a_suggested_mix_loads_where_it_is_pasted() -> None:
    experiment = loads(EXPERIMENT)
    loops = loops_of([Hop(one, other) for one, other in product(("en", "fr", "es"), repeat=2) if one != other])
    measured = [verdicts(GOOD, loop) for loop in loops]
    for number, one in enumerate(measured):  # the triangles see what dual loops do not
        if len(one.loop.hops) == 3:
            measured[number] = Verdicts(one.loop, one.right, one.home & one.right, one.right)
    weights = suggested(measured, experiment)
    assert set(weights) == set(loops)
    mix = as_toml(weights, "vanilla", 500, experiment)
    assert mix is not None
    pasted = loads(EXPERIMENT + "\n" + mix)
    stage = pasted.stage("loops")
    assert [one.name for one in pasted.stages[-2:]] == ["loops-control", "loops"], "the last stage is the default"
    paths = [path for _, expansion in expansions(pasted, stage) for path in expansion.paths]
    assert {path for path in paths if path.closed} == set(loops) and stage.from_ == "vanilla" and stage.updates == 500
    shares = supervised_shares(pasted, stage)
    assert set(shares.values()) == {1 / 3}
    assert (pasted.compare[-1].of, pasted.compare[-1].against) == ("loops", "loops-control")
    again = as_toml(weights, "vanilla", 500, pasted)
    assert again is not None and loads(EXPERIMENT + mix + again).stages[-1].name == "loops-2"


def test_what_does_not_promise_or_cannot_be_fed_is_not_suggested() -> None:
    experiment = loads(EXPERIMENT, ['data.mono = { fr = "mono" }'])
    nothing = verdicts((250, 240, 250, 260), DUAL)
    assert suggested([nothing], experiment) == {}
    assert as_toml({}, "vanilla", 500, experiment) is None
    good, unfed = verdicts(GOOD, DUAL), verdicts(GOOD, LanguagePath.parse("fr>en>fr"))
    assert suggested([good, unfed], experiment) == {LanguagePath.parse("fr>en>fr"): 2.0}
    echo = verdicts(GOOD, LONGER)  # comes home exactly when the dual loop does
    assert suggested([good, echo], experiment) == {LanguagePath.parse("fr>en>fr"): 2.0}


@pytest.mark.parametrize(("right", "shares"), [(250, [1.33, 0.67]), (240, [2.0])])
def test_loops_share_by_the_quality_of_what_is_learnt_from(right: int, shares: list[float]) -> None:
    experiment = loads(EXPERIMENT)
    good = verdicts(GOOD, DUAL)
    longer = Verdicts(LONGER, good.right, good.home & good.right, None)
    direct = verdicts((500, 0, 0, 500), LanguagePath.parse("fr>en>fr"))
    source = column(("1", "0"), (right, 1000 - right), 0)
    around = Verdicts(LanguagePath.parse("fr>es>en>fr"), good.right, good.right & False, source)
    weights = suggested([good, longer, direct, around], experiment)
    assert [weights[path] for path in (direct.loop, around.loop) if path in weights] == shares


def test_names_are_free() -> None:
    assert free_name("loops", []) == "loops"
    assert free_name("loops", ["loops", "loops-2"]) == "loops-3"


# -- a run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("plan") / "run"))


def test_a_run_is_planned_with_a_pilot_and_set_against_what_happened(run: Path) -> None:
    before = sorted(path.name for path in (run / "stages").iterdir())
    made = plan(run, PlanOptions(beam=1, sentences=20, pilot=8), Silent())
    assert json.loads((run / "plan.json").read_text()) == made
    assert sorted(path.name for path in (run / "stages").iterdir()) == before, "the pilots have a folder of their own"
    assert made["stage"] == "vanilla" and len(made["directions"]) == 6
    assert made["pilot_settings"] == {"updates": 8, "dropout": 0.0}
    for direction, outlook in made["directions"].items():
        assert [loop["loop"].count(">") for loop in outlook["loops"]] == [2, 3]
        assert all(loop["loop"].startswith(direction) and loop["verdict"] in VERDICTS for loop in outlook["loops"])
        assert all(one["pilot"]["predicted"][0] is not None for one in (*outlook["loops"], *outlook["pivots"]))
    loads(EXPERIMENT + (made["mix"] or ""))
    analysis = analyze(run, AnalyzeOptions(thresholds=(50.0,), beam=1, sentences=20, against_plan=True), Silent())
    rows = analysis["predicted"]["rows"]
    assert {row["direction"] for row in rows} == set(made["directions"])
    assert all(row["loop"].count(">") == 2 for row in rows), "the run tried dual loops only"
    assert json.loads((run / "predicted.json").read_text()) == analysis["predicted"]


def test_pilots_have_the_shares_of_a_suggested_mix(run: Path) -> None:
    stages = pilot_stages(PlanInputs.open(run, PlanOptions(sentences=4)), 8)
    assert sorted(stages) == [0, 2, 3]
    for length, stage in stages.items():
        assert isinstance(stage.mix, list)
        entries = [entry for entry in stage.mix if entry.path != "X>Y"]
        taught = [LanguagePath.parse(entry.path).taught for entry in entries]
        for hop in set(taught):
            total = sum(entry.weight for entry, other in zip(entries, taught, strict=True) if other == hop)
            assert total == pytest.approx(LOOPS), "two thirds, where bitext weighs 1"
        assert max((entry.path.count(">") for entry in entries), default=0) == length


def test_pilots_and_their_control_have_the_same_settings(run: Path, tmp_path: Path) -> None:
    """In preset tiny a stage with loops has dropout 0.2 where bitext alone has the model's."""
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    values = read_checked(copy / "experiment.json", "")
    write_json(copy / "experiment.json", values | {"model": values["model"] | {"dropout": 0.3}})
    inputs = PlanInputs.open(copy, PlanOptions(sentences=4))
    pilots = list(pilot_stages(inputs, 8).values())
    known = inputs.experiment.model_copy(update={"stages": [*inputs.experiment.stages, *pilots]})
    assert {known.training(stage).dropout for stage in pilots} == {0.2}
    assert all(is_fair(known, stage.name, pilots[0].name) for stage in pilots[1:])


def test_a_plan_says_what_its_pilots_share(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = plan(run, PlanOptions(beam=1, sentences=20), Silent())
    assert made["pilot_settings"] is None
    print_plan({**made, "pilot_settings": {"updates": 1000, "dropout": 0.2}})
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "pilot and its control" in line]
    assert "1,000 updates" in line and "dropout 0.2" in line


def asked(run: Path, *more: str) -> str:
    shown = CliRunner().invoke(app, ["plan", str(run), "--beam", "1", "--sentences", "20", "--threshold", "60", *more])
    assert shown.exit_code == 0, shown.output
    assert "BLEU > 60" in shown.stdout and "Will loops help?" in shown.stdout
    assert "[[stage]]" in shown.stdout or "No further loop" in shown.stdout
    assert not re.search(r"│\s+pilot", shown.stdout), "none was trained"
    rows = [[cell.strip() for cell in line.split("│")] for line in shown.stdout.splitlines() if "│" in line]
    assert any(row[2:4] == ["en>fr>es>en", "fr>es>en>fr"] and row[4] in WORDS for row in rows), "what trains it"
    return shown.stdout


def test_the_command_says_what_to_do_and_with_all_what_it_rests_on(run: Path) -> None:
    rest = ("95% intervals", "can lose", "break-even", "errors found", "from BLEU > 10 to BLEU > 90")
    said = asked(run)
    assert not [words for words in rest if words in said] and "--all" in said
    said = asked(run, "--all")
    assert [words for words in rest if words in said] == list(rest) and "--all" not in said


def test_a_plan_of_weak_translators_warns(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = plan(run, PlanOptions(beam=1, sentences=20), Silent())
    print_plan(made)
    assert "rarely right" not in capsys.readouterr().out
    weak = too_weak({loop: rows[-1:] for loop, rows in made["grid"].items()})
    print_plan({**made, "advice": {**made["advice"], "weak": weak, "longer": "[[stage]]\nname = 'on'\n"}})
    printed = capsys.readouterr().out
    assert "rarely right" in printed and "BLEU > 90" in printed and "name = 'on'" in printed


@pytest.mark.parametrize(("right", "weak"), [((0.2, 0.5), True), ((0.3, 0.5), False)])
def test_translators_that_are_rarely_right_are_told(right: tuple[float, float], weak: bool) -> None:
    grid = {
        loop: [{"rule": "BLEU > 10", "p": [share, 0.0, 1.0]}, {"rule": "BLEU > 20", "p": [0.0, 0.0, 1.0]}]
        for loop, share in zip(("en>fr>en", "fr>en>fr"), right, strict=True)
    }
    said = too_weak(grid)
    assert (said is not None) == weak
    assert not said or all(fact in said for fact in ("35%", "BLEU > 10", "train them longer"))


def test_what_was_tried_is_not_proposed_again(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    options = PlanOptions(beam=1, sentences=20)
    before = plan(copy, options, Silent())
    tried = {f"{one}>{other}>{one}" for one, other in product(("en", "fr", "es"), repeat=2) if one != other}
    assert tried & proposed(before) and before["advice"]["tried"] == []
    (one,) = evaluate([copy], EvaluateOptions(beam=1, samples=20), Silent())["comparisons"]
    after = plan(copy, options, Silent())
    assert not tried & proposed(after)
    (known,) = after["advice"]["tried"]
    assert (known["stage"], known["control"]) == ("dual", "vanilla-longer") and set(known["paths"]) == tried
    measured = {path: one["measured"] for paths in after["predicted"].values() for path, one in paths.items()}
    assert {path for path, sentence in measured.items() if sentence} == tried & set(measured)
    shown = CliRunner().invoke(app, ["plan", str(copy), "--beam", "1", "--sentences", "20"])
    assert "loopmt: stage vanilla\n" in shown.stderr
    known_later = tried_later(copy)
    assert [(one.stage, one.gain, set(one.paths) & tried) for one in known_later[1:]] == [("multi", -1, set())]
    assert len(known_later[1].paths) == 6, "the loops that multi has and its control lacks"
    assert "dual" in shown.stdout and f"{one['joint']['multi_bleu']['difference']:+.2f}" in shown.stdout


def tried_later(folder: Path) -> list[TriedLoops]:
    """What a plan on the first stage knows, after a stage that started from dual loops lost with a third language."""
    card = read_checked(folder / "scorecard.json", "")
    lost = {"difference": -1.0, "low": -2.0, "high": -0.5}
    later = {"of": "multi", "against": "again", "joint": dict.fromkeys(card["comparisons"][0]["joint"], lost)}
    scored = dict.fromkeys(("again", "multi"), card["stages"]["dual"])
    card |= {"comparisons": [*card["comparisons"], later], "stages": card["stages"] | scored}
    for name in scored:
        shutil.copytree(Run.open(folder).stage("dual").folder, Run.open(folder).stage(name).folder)
    write_json(folder / "scorecard.json", card)
    inputs = PlanInputs.open(folder, PlanOptions(beam=1, sentences=20))
    mixes = {"again": ["X>Y", "X>Y>X"], "multi": ["X>Y", "X>Y>X", "X>Y>Z>X"]}
    stages = [
        Stage(name=name, from_="dual", updates=1, mix=[MixEntry(path=path) for path in mix])
        for name, mix in mixes.items()
    ]
    experiment = inputs.experiment.model_copy(update={"stages": [*inputs.experiment.stages, *stages]})
    return list(tried_loops(replace(inputs, experiment=experiment)))


def proposed(made: dict[str, Any]) -> set[str]:
    """The paths of the stages to paste."""
    stages = tomllib.loads(made["mix"] or "").get("stage", [])
    return {entry["path"] for stage in stages for entry in stage["mix"] if isinstance(entry, dict)}


def test_the_plan_goes_on_from_a_stage_that_trained_longer(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    experiment = read_checked(copy / "experiment.json", "")
    assert PlanInputs.open(copy, PlanOptions()).stage.name == "vanilla", "vanilla-longer is a control"
    write_json(copy / "experiment.json", experiment | {"compare": []})
    assert PlanInputs.open(copy, PlanOptions()).stage.name == "vanilla-longer"


def test_analyze_calls_right_what_the_plan_does(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    options = AnalyzeOptions(beam=1, sentences=8, longest=2)
    nearest = analyze(copy, options, Silent())
    rates = {row["rule"]: row["values"]["p"][0] for row in nearest["pairs"] if row["loop"] == "en>fr>en"}
    assert nearest["right"] in rates
    for threshold in (35.0, 70.0):
        plan(copy, PlanOptions(beam=1, sentences=8, threshold=threshold), Silent())
        found = analyze(copy, options, Silent())
        assert found["right"] == f"BLEU > {threshold:g}" and found["right"] in found["rules"]
    asked_for = AnalyzeOptions(thresholds=(50.0,), beam=1, sentences=8, longest=2)
    assert analyze(copy, asked_for, Silent())["right"] == "BLEU > 50", "what the user asks for comes first"


def test_a_bad_threshold_is_refused_at_once() -> None:
    with pytest.raises(TheoryError, match="threshold 120"):
        PlanOptions(threshold=120)


def test_an_unknown_set_is_named(run: Path) -> None:
    with pytest.raises(DataError, match="there is no set 'news'"):
        plan(run, PlanOptions(set="news"), Silent())
