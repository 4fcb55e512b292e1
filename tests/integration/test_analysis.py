"""Loops sent round and judged: counts made by hand, toy languages with an exact judge, a real run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from helpers.commands import Cli, contents
from helpers.facts import refused
from helpers.toy import EXPERIMENT, ORDERS, draw_meanings, say
from loopmt import theory
from loopmt.cli import app
from loopmt.config import Experiment, Generate, loads
from loopmt.errors import RunError, TheoryError
from loopmt.evaluation.metrics import sentence_bleu
from loopmt.files.documents import read_checked
from loopmt.path import Hop, LanguagePath
from loopmt.planning.analysis import (
    Values,
    beyond_placebo,
    identified,
    latent,
    likelihood,
    observed,
    paired,
    threshold_errors,
)
from loopmt.planning.paper import accuracy_table, parameter_table
from loopmt.planning.round_trips import (
    Bools,
    ExactRule,
    HeldOutText,
    RoundTrip,
    ThresholdRule,
    Verdicts,
    count_verdicts,
    held_out_text,
    loops_of,
    translate_round_trips,
)
from loopmt.progress import Silent
from loopmt.run import Run, write_json
from loopmt.text.moses import tokenize
from loopmt.text.ragged import Ints
from loopmt.text.store import Store
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences, Translations
from loopmt.workflow.analyze import AnalyzeOptions, analyze, control_of, placebo_of, stage_pairs
from loopmt.workflow.cached_translator import CachedTranslator

MEANINGS = draw_meanings(60)
READ = {language: {say(meaning, language): meaning for meaning in draw_meanings(1728)} for language in ORDERS}
ALL = [Hop(one, other) for one, other in product(ORDERS, ORDERS) if one != other]
DUAL = LanguagePath(("en", "fr", "en"))


def agree(source: str, language: str, text: str, other: str) -> bool:
    """The exact judge of the toy languages, in which every sentence has one meaning."""
    return source in READ[language] and READ[language][source] == READ[other].get(text)


def bits(*patterns: tuple[str, int]) -> list[Bools]:
    """Columns of verdicts with so many rows of each pattern."""
    rows = [pattern for pattern, count in patterns for _ in range(count)]
    return [np.array([row[place] == "1" for row in rows]) for place in range(len(patterns[0][0]))]


def dual(right: Bools, home: Bools) -> Verdicts:
    return Verdicts(DUAL, right, home, right)


# -- walking ---------------------------------------------------------------------------------------------------


def test_loops_are_closed_and_visit_no_language_twice() -> None:
    three = [str(loop) for loop in loops_of(ALL)]
    assert three[:4] == ["en>fr>en", "en>fr>es>en", "en>es>en", "en>es>fr>en"]
    assert len(three) == 12
    assert [str(loop) for loop in loops_of(ALL, 2)] == [f"{one}>{other}>{one}" for one, other in map(str_of, ALL)]
    assert loops_of([Hop("en", "fr"), Hop("fr", "es"), Hop("es", "en")]) == [
        LanguagePath.parse("en>fr>es>en"),
        LanguagePath.parse("fr>es>en>fr"),
        LanguagePath.parse("es>en>fr>es"),
    ]


def str_of(hop: Hop) -> tuple[str, str]:
    return hop.source, hop.target


class Perfect:
    """A translation model of the toy languages that is always right, and remembers what it was asked."""

    hops = ALL
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.asked: list[tuple[Hop, int]] = []

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        return [self._translate(one.hop, one.sources.texts) for one in inputs]

    def _translate(self, hop: Hop, texts: Sequence[str]) -> Translations:
        self.asked.append((hop, len(texts)))
        said = Sentences(None, hop.target, texts=[say(READ[hop.source][text], hop.target) for text in texts])
        return Translations(said, np.zeros(len(texts)), np.ones(len(texts), np.bool_), np.ones(len(texts), np.int64))

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        raise NotImplementedError


def start(hop: Hop, count: int = 20) -> HeldOutText:
    references = {language: [say(meaning, language) for meaning in MEANINGS[:count]] for language in ORDERS}
    return HeldOutText(hop, references[hop.source], references)


def test_every_text_is_asked_for_once_a_step() -> None:
    model = Perfect()
    once = CachedTranslator(lambda: (model, DecodeLimits()), Generate(how="greedy"))
    round_trips = translate_round_trips(once, once.how, [start(hop) for hop in ALL], loops_of(ALL))
    assert all(
        round_trip.texts[-1] == round_trip.start.sources and len(round_trip.texts) == len(round_trip.loop.languages)
        for round_trip in round_trips
    )
    assert sorted(model.asked) == [(hop, 20) for hop in sorted(ALL)]  # loops that need a hop share it


def test_a_perfect_loop_is_right_and_home() -> None:
    loops = [LanguagePath.parse("en>fr>es>en")]
    (round_trip,) = translate_round_trips(Perfect(), Generate(how="greedy"), [start(Hop("en", "fr"))], loops)
    for rule in (ExactRule(agree), ThresholdRule(90), ThresholdRule(99.9, smooth=False)):
        verdicts = rule.judge(round_trip)
        assert verdicts.right.all() and verdicts.home.all()
        assert verdicts.source is not None and verdicts.source.all()


# -- judging ---------------------------------------------------------------------------------------------------


def test_an_exact_judge_takes_each_hop_by_the_input_it_received() -> None:
    one, other = MEANINGS[0], MEANINGS[1]
    en, wrong, back = say(one, "en"), say(other, "fr"), say(other, "en")
    origin = HeldOutText(Hop("en", "fr"), [en] * 3, {"en": [en] * 3, "fr": [say(one, "fr")] * 3})
    round_trip = RoundTrip(DUAL, origin, [[en] * 3, [say(one, "fr"), wrong, wrong], [en, back, en]])
    verdicts = ExactRule(agree).judge(round_trip)
    assert verdicts.right.tolist() == [True, False, False]
    assert verdicts.home.tolist() == [True, False, True]
    assert verdicts.steps is not None
    assert [step.tolist() for step in verdicts.steps] == [[True, False, False], [True, True, False]]


def test_a_threshold_is_strict_on_moses_tokens_and_an_exact_match_always_counts() -> None:
    said, reference = "Le chat dort ici ce soir.", "Le chat dort là ce soir."
    score = float(sentence_bleu(["Le chat dort ici ce soir ."], ["Le chat dort là ce soir ."])[0])
    origin = HeldOutText(Hop("en", "fr"), ["x", "y"], {"en": ["x", "y"], "fr": [reference, "Oui."]})
    round_trip = RoundTrip(DUAL, origin, [["x", "y"], [said, "Oui."], ["x", "z"]])
    assert 0 < score < 100
    assert ThresholdRule(score).judge(round_trip).right.tolist() == [False, True]
    assert ThresholdRule(score - 1e-6).judge(round_trip).right.tolist() == [True, True]
    unsmoothed = ThresholdRule(10, smooth=False).judge(round_trip)  # "Oui." has no 4-gram at all
    assert unsmoothed.right.tolist() == [False, True] and unsmoothed.home.tolist() == [True, False]


@pytest.mark.parametrize("threshold", [-1.0, 100.0])
def test_a_threshold_lies_below_a_hundred(threshold: float) -> None:
    with refused(TheoryError, "0", "100"):
        ThresholdRule(threshold)


def test_a_set_by_pairs_knows_two_languages_and_a_multiway_set_all(tiny_run: Path) -> None:
    (first, *_) = held_out_text(Store.open(tiny_run / "store"), "test", ALL, 7, lowercase=True)
    assert first.hop == ALL[0] and len(first.sources) == 7
    assert set(first.references) == {"en", "fr", "es"}
    assert first.references["en"] == [text.lower() for text in first.sources] != first.sources
    round_trip = RoundTrip(
        LanguagePath.parse("en>fr>es>en"), HeldOutText(Hop("en", "fr"), ["a"], {"en": ["a"], "fr": ["b"]}), [["a"]] * 4
    )
    assert ThresholdRule(20).judge(round_trip).source is None


# -- estimating ------------------------------------------------------------------------------------------------


def test_parameters_of_counts_made_by_hand() -> None:
    columns = bits(
        ("1111", 40), ("1101", 2), ("1100", 3), ("0101", 5), ("0111", 4), ("1011", 6), ("1010", 2), ("1000", 1),
        ("0011", 8), ("0001", 7), ("0000", 20), ("0010", 2),
    )  # fmt: skip
    values = observed(dual(*columns[:2]), dual(*columns[2:]))
    n, lost = 100, 6 + 2 + 1 + 8 + 7 + 20 + 2
    assert lost == 46
    expected = {
        "p": 54 / n, "p_d": 62 / n, "c11": 45 / n, "c12": 9 / n, "c21": 9 / n, "c22": 37 / n, "D": 54 / n,
        "s": 45 / 54, "M": (9 / 46) / (45 / 54), "breakeven": 9 / lost, "alpha": 14 / lost, "beta": 7 / lost,
        "gamma": 25 / lost, "kappa": 4 / lost, "eta": 51 / 54, "u11": 5 / 45, "u12": 4 / 9, "gain": 8 / n,
        "thm1": (45 + 14) / n,
    }  # fmt: skip
    assert {name: values[name][0] for name in expected} == pytest.approx(expected)
    c11, c12, c2 = 0.45, 0.09, 0.46  # the exact formula holds on the very sample
    after = c11 * (1 - 5 / 45) + c12 * 4 / 9 + (14 + 4) / lost * c2
    assert after == pytest.approx(values["p_d"][0])


@given(st.lists(st.integers(0, 30), min_size=16, max_size=16).filter(any))
def test_shares_agree_with_the_theory_module(counts: list[int]) -> None:
    patterns = ["".join(row) for row in product("01", repeat=4)]
    columns = bits(*zip(patterns, counts, strict=True))
    values, out = observed(dual(*columns[:2]), dual(*columns[2:])), theory.estimate_observed(count_verdicts(*columns))
    for name in ("p", "p_d", "s", "alpha", "beta", "gamma", "eta", "kappa", "u11", "u12", "c11", "c12", "c21", "c22"):
        assert values[name][0] == pytest.approx(out[name])
        if f"{name}_ci" in out:
            assert values[name][1:] == pytest.approx(out[f"{name}_ci"])
    assert values["breakeven"][0] == pytest.approx(out["alpha_breakeven"])
    for name in ("p", "c11", "alpha", "u12", "M"):
        value, low, high = values[name]
        assert value is None or (low is not None and high is not None and low - 1e-12 <= value <= high + 1e-12)


@pytest.mark.parametrize(
    ("cells", "value", "tells"),
    [
        ((40, 5, 5, 50), (5 / 55) / (40 / 45), True),
        ((40, 0, 10, 50), 0.0, True),  # no blind sentence
        ((39, 1, 0, 0), 1.0, False),  # one wrong sentence tells nothing, though every log variance is zero
        ((0, 3, 5, 10), float("inf"), False),
        ((5, 0, 5, 1), 0.0, False),
    ],
)
def test_ratio_has_an_honest_interval(cells: tuple[int, ...], value: float, tells: bool) -> None:
    right, home = bits(*zip(("11", "01", "10", "00"), cells, strict=True))
    centre, low, high = likelihood(right, home)
    assert centre == pytest.approx(value)
    assert low is not None and high is not None and low <= value <= high and low < high
    assert (high < 1) == tells
    if all(cells):
        assert [low, high] == pytest.approx(theory.estimate_observed(count_verdicts(right, home, right, home))["M_ci"])


def test_a_placebo_that_does_the_same_leaves_nothing() -> None:
    columns = bits(("1111", 10), ("0011", 5), ("1000", 5), ("0001", 7))
    before, after = dual(*columns[:2]), dual(*columns[2:])
    for value, low, high in beyond_placebo(before, after, after).values():
        assert value in (0.0, None) and low is not None and high is not None and low == -high < 0


def test_beyond_the_placebo_is_the_difference_of_shares() -> None:
    generator = np.random.default_rng(3)
    columns = [generator.random(500) < rate for rate in (0.6, 0.6, 0.7, 0.7, 0.65, 0.6)]
    before, after, control = dual(*columns[:2]), dual(*columns[2:4]), dual(*columns[4:])
    trained, placebo = observed(before, after), observed(before, control)
    for name, (value, low, high) in beyond_placebo(before, after, control).items():
        one, other = trained[name][0], placebo[name][0]
        assert None not in (one, other, value, low, high)
        assert value == pytest.approx((one or 0.0) - (other or 0.0))
        assert (low or 0.0) < (value or 0.0) < (high or 0.0)


def test_paired_interval_covers_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        other = generator.random(200) < 0.5
        one = np.where(generator.random(200) < 0.3, generator.random(200) < 0.7, other)  # truth: 0.3 * (0.7 - 0.5)
        _, low, high = paired(one, other)
        assert low is not None and high is not None
        hits += low <= 0.06 <= high
    assert 0.92 <= hits / 400 <= 0.975


def test_latent_quantities_of_a_dual_loop_and_a_triangle() -> None:
    y, v, r = bits(("111", 30), ("100", 10), ("010", 12), ("000", 6), ("001", 2))
    values = latent(Verdicts(DUAL, y, r, y, (y, v)))
    assert values["q1"][0] == pytest.approx(40 / 60) and values["r"][0] == pytest.approx(42 / 60)
    assert values["lambda"][0] == pytest.approx(30 / 60 - 40 / 60 * 42 / 60)
    assert values["delta"][0] == pytest.approx(2 / 8)
    assert values["lost_without_error"][0] == 0 and values["home_with_one_error"][0] == 0
    assert values["error_odds"][0] == pytest.approx(18 / 42) and values["odds_limit"][0] == pytest.approx(4)
    steps = bits(("1111", 30), ("0110", 10), ("1010", 8), ("0001", 3), ("0000", 9), ("1100", 5))
    triangle = latent(Verdicts(LanguagePath.parse("en>fr>es>en"), steps[0], steps[3], None, tuple(steps[:3])))
    out = theory.estimate_triangle(count_verdicts(*steps))
    for name, key in {"q1": "q12", "q2": "q23", "q3": "q31", "lambda1": "lambda1", "lambda2": "lambda2"}.items():
        assert triangle[name][0] == pytest.approx(out[key])
    assert triangle["delta"][:1] == [pytest.approx(3 / 12)]


def test_without_a_judge_of_the_way_back_there_are_ranges() -> None:
    y, v, r = bits(("111", 30), ("100", 10), ("010", 12), ("000", 6), ("001", 2))
    ranges, exact = identified(dual(y, r)), latent(Verdicts(DUAL, y, r, y, (y, v)))
    for name in ("r", "lambda", "delta"):
        _, low, high = ranges[name]
        assert low - 1e-12 <= exact[name][0] <= high + 1e-12


def test_how_wrong_a_threshold_is() -> None:
    judged, truth = bits(("11", 6), ("10", 2), ("01", 3), ("00", 9))
    errors = threshold_errors(dual(judged, judged), dual(truth, truth))["right"]
    shown = {name: value[0] for name, value in errors.items()}
    assert shown == {
        "judged": 8 / 20,
        "exact": 9 / 20,
        "agreement": 15 / 20,
        "passed_though_wrong": 2 / 11,
        "failed_though_right": 3 / 9,
    }


def test_tables_in_the_shape_of_the_paper() -> None:
    values: Values = {name: [0.5, 0.4, 0.6] for name in ("p", "p_d", "eta", "alpha", "beta", "gamma")}
    loops = [LanguagePath.parse(text) for text in ("de>en>de", "en>de>en")]
    measured = {(loop, f"unsmoothed BLEU > {threshold}"): values for loop in loops for threshold in (10, 20)}
    accuracy = accuracy_table(measured, ["de", "en"])
    by_name = {row["quantity"]: row["paper"] for row in accuracy if row["pair"] == "de-en"}
    assert by_name == {"p12": [0.73, 0.65], "p21": [0.65, 0.54], "pd12": [0.77, 0.7], "pd21": [0.7, 0.6]}
    assert [row["pair"] for row in accuracy if row["ours"] is None] == ["en-fr"] * 4
    parameters = parameter_table(measured, ["de", "en"])
    assert [row["quantity"] for row in parameters] == ["eta", "alpha", "beta", "gamma"]
    assert parameters[0]["paper"] == [[0.968, 0.943], [0.964, 0.933]]


# -- a run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("analysis") / "run"))


def test_a_run_is_analysed_and_a_second_call_decodes_nothing(run: Path) -> None:
    options = AnalyzeOptions(thresholds=(10.0, 50.0), beam=1, sentences=12)
    first = analyze(run, options, Silent())
    assert {(row["before"], row["after"]) for row in first["pairs"]} == {
        ("vanilla", "vanilla-longer"),
        ("vanilla", "dual"),
    }
    assert {row["loop"] for row in first["pairs"]} == {str(loop) for loop in loops_of(ALL)}
    assert {row["control"] for row in first["beyond_placebo"]} == {"vanilla-longer"}
    assert len(first["pairs"]) == 2 * 12 * 4 and all(row["sentences"] == 12 for row in first["pairs"])
    assert json.loads((run / "analysis.json").read_text()) == first
    (run / "vocab").rename(run / "hidden")  # no translator speaks without it
    assert analyze(run, options, Silent()) == first
    (run / "hidden").rename(run / "vocab")


def test_the_numbers_are_those_of_the_translations(run: Path) -> None:
    translator = CachedTranslator.of(Run.open(run), "dual", 1)
    (origin,) = held_out_text(Store.open(run / "store"), "test", [Hop("en", "fr")], 12)
    (round_trip,) = translate_round_trips(translator, translator.how, [origin], [DUAL])
    said, wanted = ([tokenize(text, "fr") for text in side] for side in (round_trip.texts[1], origin.references["fr"]))
    there = (sentence_bleu(said, wanted) > 50).mean()
    analysis = analyze(run, AnalyzeOptions(thresholds=(50.0,), beam=1, sentences=12), Silent())
    (row,) = [
        row
        for row in analysis["pairs"]
        if (row["after"], row["loop"], row["rule"]) == ("dual", "en>fr>en", "BLEU > 50")
    ]
    assert row["values"]["p_d"][0] == pytest.approx(there)


def test_a_stage_brings_its_parents_and_its_control(run: Path) -> None:
    experiment = Run.open(run).experiment()
    assert control_of(experiment, "dual") == "vanilla-longer"
    lone = experiment.model_copy(update={"compare": []})
    assert control_of(lone, "dual") == "vanilla-longer", "a sibling that only trained longer"
    assert control_of(lone, "vanilla") is None
    assert stage_pairs(experiment, ["vanilla", "dual"]) == [("vanilla", "dual")]
    analysis = analyze(run, AnalyzeOptions(stages=["dual"], thresholds=(50.0,), beam=1, sentences=6), Silent())
    assert list(analysis["stages"]) == ["vanilla", "vanilla-longer", "dual"]


POOR = '[[stage]]\nname = "poor"\nfrom = "vanilla"\nmix = ["fr>es"]\nupdates = 10\n\n'


def lone(text: str) -> Experiment:
    """An experiment without [[compare]]."""
    return loads(text.partition("[[compare]]")[0])


def test_a_placebo_is_a_fair_control_or_none() -> None:
    """Its budget and its directions are those of the stage."""
    before = EXPERIMENT.replace('[[stage]]\nname = "vanilla-longer"', f'{POOR}[[stage]]\nname = "vanilla-longer"')
    assert placebo_of(lone(before), "dual").control == "vanilla-longer", "not the first sibling on bitext alone"
    shorter = lone(before.replace('mix = ["X>Y"]\nupdates = 16', 'mix = ["X>Y"]\nupdates = 15'))
    found = placebo_of(shorter, "dual")
    assert found.control is None and all(name in found.why for name in ("poor", "vanilla-longer", "unfair"))
    less = lone(EXPERIMENT.replace('mix = ["X>Y"]\nupdates = 16', 'mix = ["en>X"]\nupdates = 16'))
    assert placebo_of(less, "dual").control is None


def test_the_placebo_is_told_of_what_both_stages_train(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    experiment = read_checked(copy / "experiment.json", "")
    named = [{**experiment["compare"][0], "directions": ["en>fr", "fr>en"]}]
    write_json(copy / "experiment.json", experiment | {"compare": named})
    options = AnalyzeOptions(thresholds=(50.0,), beam=1, sentences=6)
    found = analyze(copy, options, Silent())
    assert {row["loop"][:5] for row in found["beyond_placebo"]} == {"en>fr", "fr>en"}
    assert found["placebos"]["dual"]["control"] == "vanilla-longer" and list(found["placebos"]) == ["dual"]


def test_a_stage_without_a_placebo_is_named(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    experiment = read_checked(copy / "experiment.json", "")
    stages = [{**one, "updates": 15} if one["name"] == "vanilla-longer" else one for one in experiment["stage"]]
    write_json(copy / "experiment.json", experiment | {"compare": [], "stage": stages})
    command = ["analyze", str(copy), "--beam", "1", "--sentences", "6", "--threshold", "50"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert (
        "dual has no control" in shown.stdout
        and "(vanilla-longer would be unfair)" in shown.stdout
        and "[[compare]]" in shown.stdout
    )
    assert json.loads((copy / "analysis.json").read_text())["beyond_placebo"] == []


def test_the_command_prints_tables_and_json(run: Path) -> None:
    command = ["analyze", str(run), "--beam", "1", "--sentences", "12", "--threshold", "50"]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.exception
    brief = done.stdout
    facts = ("vanilla to dual", "on test", "BLEU > 50", "gain over vanilla-longer", "--all")
    assert all(fact in brief for fact in facts)
    assert "vanilla to vanilla-longer" not in brief and len(brief.splitlines()) < 30
    shown = CliRunner().invoke(app, [*command, "--all"])
    assert shown.exit_code == 0, shown.output
    for words in ("Accuracy at thresholds", "Estimated parameters", "the control vanilla-longer", "0.77"):
        assert words in shown.stdout
    assert json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["rules"][0] == "BLEU > 50"
    alone = CliRunner().invoke(app, [*command, "--stage", "vanilla", "--all"]).stdout
    assert "right before and after" not in alone


def test_there_must_be_a_plan_to_set_against(run: Path) -> None:
    with pytest.raises(RunError, match="loopmt plan"):
        analyze(run, AnalyzeOptions(beam=1, sentences=6, against_plan=True), Silent())


def test_one_finished_stage_is_refused_before_anything_is_decoded(cli: Cli, tiny_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(tiny_run, tmp_path / "run", ignore=shutil.ignore_patterns("dual", "vanilla-longer"))
    before = contents(run)
    done = cli("analyze", run)
    assert (done.code, done.out) == (2, "") and contents(run) == before
    assert all(fact in done.err for fact in ("vanilla", 'from = "vanilla"', "--all", "--json"))
    done = cli("analyze", run, "--all", "--beam", 1, "--sentences", 4, "--longest", 2)
    assert done.code == 0 and (run / "analysis.json").is_file(), done.err
