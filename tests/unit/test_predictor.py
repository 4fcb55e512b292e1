"""Predicted gains: the shipped coefficients, their bounds, candidates, and recommendations by kind of data."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from benchmarks.predictor import evaluate, fit
from benchmarks.predictor.mixes import longer_share, matches
from rich.console import Console

from loopmt.cli.predicted_table import print_predicted
from loopmt.path import Hop, LanguagePath
from loopmt.planning.advice import TriedLoops
from loopmt.planning.candidates import KnownAmounts, Quality, as_json, loop_candidates, untaught_candidates
from loopmt.planning.data_kinds import DATA_KINDS, kinds_of_pairs, recommendations
from loopmt.planning.predictor import GAIN, LONGER, LOSS, NO_GAIN, formulas, predict_gain
from loopmt.planning.zero_resource import zero_resource

LANGUAGES = ("en", "fr", "es")
HOPS = [Hop(one, other) for one in LANGUAGES for other in LANGUAGES if one != other]
EUROPARL: dict[str, Any] = {"pairs": 20_000, "mono": 239_049, "epochs": 80.0, "bleu_back": 22.0}


def paths(*texts: str) -> list[LanguagePath]:
    return [LanguagePath.parse(text) for text in texts]


# -- the fit ---------------------------------------------------------------------------------------------------


def test_the_shipped_coefficients_are_those_of_the_recorded_rows() -> None:
    assert fit.made() == fit.FILE.read_text(encoding="utf-8"), "run `python -m benchmarks.predictor.fit`"


def test_the_recorded_evaluation_is_that_of_runs_left_out() -> None:
    found = evaluate.left_out(fit.rows(), fit.rows(), fit.group, evaluate.by_fit)
    recorded = json.loads(evaluate.EVALUATION.read_text(encoding="utf-8"))["runs"]["all"]
    now = evaluate.by_kind(found, 2)["all"]
    for figure in ("balanced_accuracy", "theory", "below_constant", "coverage"):
        assert now[figure][0] == pytest.approx(recorded[figure][0], abs=1e-3), (
            "`python -m benchmarks.predictor.evaluate`"
        )
    assert recorded["runs_that_lost"] >= 12


def test_a_run_is_never_predicted_from_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[set[str], set[str]]] = []

    def note(formula: str, known: Any, targets: Any) -> list[Any]:
        seen.append(({fit.group(row) for row in known}, {fit.group(row) for row in targets}))
        return []

    evaluate.left_out(fit.rows(), fit.rows(), fit.group, note)
    assert len(seen) > 50 and not any(known & targets for known, targets in seen)
    assert fit.group({"run": "europarl-48k-uniform-1"}) == fit.group({"run": "europarl-48k-1"}), "one first stage"


def test_balanced_accuracy_weighs_gains_and_losses_alike() -> None:
    gained, lost = {"bleu_gain": [2, 1, 3], "right": True}, {"bleu_gain": [-2, -3, -1], "right": True}
    rows = [gained, gained, gained, lost, {"bleu_gain": [0, -1, 1], "right": False}]
    assert evaluate.balanced(rows, lambda row: True) == 0.5
    assert evaluate.balanced(rows, lambda row: row is not lost) == 1
    assert evaluate.balanced(rows[:3], lambda row: True) is None


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("X>Y>X", "fr>en>fr", True),
        ("X>Y>X", "fr>es>en>fr", False),
        ("X>en>Y>X", "fr>en>es>fr", True),
        ("X>en>Y>X", "fr>es>en>fr", False),
        ("X>en>X", "en>fr>en", False),
        ("X>Y>Z>X", "fr>fr>es>fr", False),
    ],
)
def test_paths_of_recorded_patterns(pattern: str, path: str, fits: bool) -> None:
    assert matches(pattern, path) == fits


def test_what_comes_by_a_third_language() -> None:
    rates = {"es>fr>es": 0.2, "es>en>fr>es": 0.6}
    mix = [("X>Y", 2.0), ("X>Y>X", 1.0), ("X>Y>Z>X", 3.0)]
    assert longer_share("fr>es", mix, rates) == pytest.approx({"share": 0.75, "ahead": 0.3})
    assert longer_share("fr>es", mix[:2], rates) is None, "nothing comes by a third language"
    assert longer_share("fr>es", mix, rates | {"es>en>fr>es": None}) is None, "not measured"


# -- predictions -----------------------------------------------------------------------------------------------


def test_a_prediction_has_an_interval_and_a_verdict() -> None:
    found = predict_gain("dual", EUROPARL, "bitext")
    value, low, high = found.bleu
    assert 2 < value < 6 and 0 < low < value < high and found.verdict == GAIN and not found.unlike
    assert found.chrf[0] == pytest.approx(value * formulas()["dual"].chrf)
    assert found.as_json(LONGER)["verdict"] == LONGER


def test_more_text_and_better_sources_predict_more() -> None:
    dual = [predict_gain("dual", EUROPARL | {"pairs": pairs}, "").bleu[0] for pairs in (100_000, 20_000, 5_000)]
    assert dual == sorted(dual)
    ahead = [{"pairs": 500, "mono": 6_000, "route": 0.3, "ahead": ahead} for ahead in (-0.2, 0.0, 0.3)]
    verdicts = [predict_gain("longer", one, "").verdict for one in ahead]
    assert verdicts == [LOSS, NO_GAIN, GAIN]
    tokens = [predict_gain("untaught", {"tokens": 10**power, "shared": 0.0}, "").bleu[0] for power in (6, 7)]
    assert tokens[0] < tokens[1]


def test_inputs_unlike_the_recorded_ones_are_named_and_widen_the_interval() -> None:
    large = EUROPARL | {"pairs": 2_000_000, "mono": 20_000_000}
    found, known = predict_gain("dual", large, ""), predict_gain("dual", EUROPARL, "")
    assert {"sentence pairs", "monolingual sentences"} == set(found.unlike)
    assert found.unlike["sentence pairs"][0] == 2_000_000
    assert found.bleu[2] / found.bleu[0] > known.bleu[2] / known.bleu[0]


def test_no_prediction_goes_beyond_the_recorded_gains() -> None:
    rows = fit.rows()
    for formula in formulas():
        gains = [row["bleu_gain"][0] for row in fit.of_formula(rows, formula)]
        for extreme in (1e-3, 1e9):
            known = dict.fromkeys(("pairs", "epochs", "bleu_back", "route", "tokens", "shared"), 1.0)
            value = predict_gain(formula, known | {"mono": extreme, "ahead": extreme, "tokens": extreme}, "").bleu[0]
            assert min(gains) - 0.01 <= value <= max(gains) + 0.01


# -- candidates ------------------------------------------------------------------------------------------------


def amounts(poor: int = 500, shared: bool = False) -> KnownAmounts:
    pairs = {frozenset(("en", "fr")): 20_000, frozenset(("en", "es")): 20_000, frozenset(("fr", "es")): poor}
    mono = dict.fromkeys(LANGUAGES, 100_000)
    rows = dict.fromkeys(HOPS, 1_000_000.0)
    return KnownAmounts(pairs, mono, dict.fromkeys(HOPS, 20.0), rows, 4_000_000, shared)


def test_a_poor_pair_gains_by_its_hub_and_the_rich_ones_do_not_gain_by_it() -> None:
    way, dual, rich, worse = paths("es>en>fr>es", "es>fr>es", "fr>en>fr", "fr>es>en>fr")
    quality: Quality = {
        Hop("fr", "es"): {dual: [0.1, 0.0, 0.2], way: [0.5, 0.4, 0.6]},
        Hop("en", "fr"): {rich: [0.5, 0.4, 0.6], worse: [0.1, 0.0, 0.2]},
    }
    found = loop_candidates(amounts(), quality, lambda path: True)
    assert {path: one.gain.over for path, one in found.items()} == {
        dual: "bitext", rich: "bitext", way: "dual loops", worse: "dual loops",
    }  # fmt: skip
    assert found[way].gain.verdict == GAIN and not found[way].discouraged
    assert found[worse].gain.bleu[0] < 0 and found[worse].discouraged
    assert not found[rich].discouraged
    assert set(loop_candidates(amounts(), quality, lambda path: path != way)) == {dual, rich, worse}


def test_a_direction_without_bitext_is_held_against_its_hub() -> None:
    hops = [hop for hop in HOPS if "en" in (hop.source, hop.target)]
    one = zero_resource(Hop("fr", "es"), hops, {})
    few, many = (untaught_candidates(amounts(shared=shared), [one], lambda path: True) for shared in (False, True))
    (path,) = few
    assert str(path) == "es>en>fr>es" and few[path].gain.over == "fr>en>es"
    assert few[path].gain.bleu[0] < many[path].gain.bleu[0]


@pytest.mark.parametrize(("gain", "word"), [(1, GAIN), (0, NO_GAIN), (-1, LOSS)])
def test_what_a_comparison_measured_replaces_the_verdict(gain: int, word: str) -> None:
    (path,) = paths("es>fr>es")
    quality: Quality = {path.taught: {path: [0.5, 0.4, 0.6]}}
    known = loop_candidates(amounts(), quality, lambda path: True)[path]
    tried = TriedLoops("dual", "longer", frozenset({path}), gain, "+1 BLEU")
    measured = as_json(known, [tried], True)
    assert measured["verdict"] == word and "dual" in measured["measured"]
    assert as_json(known, [], True)["verdict"] == LONGER and as_json(known, [], True)["measured"] is None


# -- kinds of data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "mono", "kinds"),
    [
        ({"en-fr": 900, "en-es": 900, "fr-es": 900}, 4000, {"equal bitext": 3}),
        ({"en-fr": 900, "en-es": 900, "fr-es": 900}, 300, {"little monolingual text": 3}),
        ({"en-fr": 5000, "en-es": 5000, "fr-es": 5000}, 239_049, {"little bitext": 3}),
        ({"en-fr": 1200, "en-es": 1200, "fr-es": 60}, 4000, {"equal bitext": 2, "poor pair": 1}),
        ({"en-fr": 1200, "en-es": 1200}, 4000, {"equal bitext": 2, "no bitext": 1}),
        ({"en-fr": 1200}, 0, {}),
        ({"en-fr": 1200}, 4000, {"equal bitext": 1}),
    ],
)
def test_every_pair_has_one_kind(pairs: dict[str, int], mono: int, kinds: dict[str, int]) -> None:
    counted = {frozenset(pair.split("-")): count for pair, count in pairs.items()}
    found = kinds_of_pairs(LANGUAGES, counted, dict.fromkeys(LANGUAGES, mono))
    assert {name: len(mine) for name, mine in found.items()} == kinds
    assert [one["first"] for one in recommendations(found)] == [DATA_KINDS[name].first for name in kinds]


# -- the table -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("languages", [3, 7])
def test_the_table_fits_a_narrow_terminal(languages: int) -> None:
    codes = ("en", "de", "es", "fr", "it", "nl", "pt")[:languages]
    gain = predict_gain("dual", EUROPARL | {"pairs": 2_000_000}, "dual loops").as_json(LONGER) | {"measured": None}
    predicted = {
        f"{one}>{other}": {f"{other}>{third}>{one}>{other}": gain for third in codes if third not in (one, other)}
        for one in codes
        for other in codes
        if one != other
    }
    out = Console(file=io.StringIO(), width=80)
    print_predicted(out, predicted)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) < 30
    assert "2,000,000" in text and "100,000" in text
