"""The closed forms against the shared vectors, exact enumeration, edge values and simulation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.facts import lacks, refused
from helpers.paths import DATA
from loopmt import theory
from loopmt.errors import TheoryError

VECTORS = json.loads((DATA / "vectors.json").read_text("utf-8"))


def same(got: Any, want: Any) -> bool:
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(same(got[k], want[k]) for k in want)
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, bool | str | None):
        return type(got) is type(want) and got == want
    return not isinstance(got, bool) and math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-11)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{case['id']}-{case['kind']}")
def test_vectors(case: dict[str, Any]) -> None:
    asked = {key: value for key, value in case.items() if key != "out"}
    filled = theory.fill_case(asked)
    assert same(filled["out"], case["out"])
    assert {key: filled[key] for key in asked} == asked


def test_fill_keeps_the_rest_of_the_document() -> None:
    filled = theory.fill(VECTORS)
    assert filled["schema"] == VECTORS["schema"]
    assert [case["id"] for case in filled["cases"]] == [case["id"] for case in VECTORS["cases"]]


# --- errata: the points that docs/theory.md quotes ---------------------------------------------------


def test_theorem1_fails_when_both_maps_swap() -> None:
    """Assumption 1 holds, Theorem 1 says 1, the truth is 0."""
    out = theory.world2([0.5, 0.5], [0, 1], [0, 1], [1, 0], [1, 0])
    assert (out["assumption1_holds"], out["printed_p_d"], out["p_d_true"]) == (True, 1.0, 0.0)


def test_theorem1_fails_when_nothing_is_trained() -> None:
    p, r = 0.65, 0.73
    c21, c2 = p * (1 - r), theory.theorem1(p, r, 0, 0, 0)["c2"]
    out = theory.exact_accuracy(p, r, 0, 0, 0, c21 / c2, 0, 0)
    assert same(out["printed_p_d"], 0.4745) and same(out["p_d_exact"], 0.65)


def test_printed_gain_can_have_the_wrong_sign() -> None:
    out = theory.proportional(0.6, 0.5, -0.15, 0.4, 0)
    assert same(round(out["printed_gain"], 3), -0.141) and same(round(out["gain"], 3), 0.282)


@pytest.mark.parametrize(
    ("numbers", "accuracy"),
    [((0.95, 0.26, 0.013, 0.3, 0), 0.9455), ((0.3, 0.4, -0.12, 0.3, 0), 0.0), ((0.65, 0.73, 0, 0.3, 0.8), 0.568)],
)
def test_printed_condition_is_not_enough(numbers: tuple[float, ...], accuracy: float) -> None:
    out = theory.proportional(*numbers)
    assert out["printed_condition_r_gt"] and not out["better"] and abs(out["p_d"] - accuracy) < 5e-4


def test_sufficient_condition_is_not_necessary() -> None:
    out = theory.triangle_ratio(0.7, 0.9, 0.25, 0.3, 0, 0.7)
    assert out["M_lt_1"] and not out["printed_sufficient"]


def test_longer_loops_are_weaker() -> None:
    ratios = [theory.loop([0.7] + [0.9] * helpers, 0.2, 0)["M"] for helpers in range(1, 8)]
    assert ratios == sorted(ratios) and ratios[0] < ratios[-1]


def test_printed_jensen_step_reverses_the_inequality() -> None:
    out = theory.jensen([1.0], [[0.5, 0.5]], [0.8, 0.4])
    assert out["printed_sum_of_logs"] < out["jensen_bound"] < out["log_exact"]
    assert same(round(out["log_exact"], 3), -0.511) and same(round(out["printed_sum_of_logs"], 3), -2.526)


def test_printed_estimators_sum_to_one_over_c2() -> None:
    counts = {f"{i:04b}": 5 + i for i in range(16)}
    out = theory.estimate_observed(counts)
    printed = out["printed_alpha"] + out["printed_beta"] + out["printed_gamma"]
    assert same(printed, 1 / out["c2"]) and same(out["alpha"] + out["beta"] + out["gamma"], 1.0)


TABLES = json.loads((Path(theory.__file__).parents[1] / "planning/paper_tables.json").read_text("utf-8"))


def paper_cells() -> list[dict[str, float]]:
    """The four cells of the paper's two tables for en-de, the other direction's accuracy standing in for r."""
    accuracy, estimated = TABLES["accuracy_at_threshold"]["en-de"], TABLES["estimated_parameters_en-de"]
    cells = []
    for row in (0, 1):
        for column, (there, back) in enumerate((("12", "21"), ("21", "12"))):
            cell = {name: estimated[name][row][column] for name in ("alpha", "beta", "gamma")}
            after = accuracy[f"pd{there}"][row]
            cells.append({"p": accuracy[f"p{there}"][row], "r": accuracy[f"p{back}"][row], "after": after} | cell)
    return cells


def test_average_gains_of_the_paper() -> None:
    """1.485 over the six directions, printed as 1.45."""
    rows = [row for row in TABLES["multiun_0.2M"].items() if ">" in row[0]]
    assert same(round(float(np.mean([row[2] - row[1] for _, row in rows])), 4), 1.485)
    assert same(round(float(np.mean([row[1] - row[0] for _, row in rows])), 4), 1.9333)


def test_paper_estimates_contradict_hypothesis_h() -> None:
    """Under H no accuracy exceeds alpha / (alpha + beta), which is below where the translators began."""
    limits = [round(cell["alpha"] / (cell["alpha"] + cell["beta"]), 3) for cell in paper_cells()]
    assert limits == [0.517, 0.574, 0.458, 0.571]
    assert all(limit < cell["p"] < cell["after"] for limit, cell in zip(limits, paper_cells(), strict=True))


def test_paper_estimates_need_dependence_or_kappa() -> None:
    """With independent steps Theorem 1 stays below the accuracy before training, whatever delta."""
    best = [theory.theorem1(cell["p"], cell["r"], 0, 0, cell["alpha"])["printed_p_d"] for cell in paper_cells()]
    assert [round(value, 3) for value in best] == [0.632, 0.637, 0.526, 0.559]
    assert all(value < cell["p"] for value, cell in zip(best, paper_cells(), strict=True))


# --- edges -------------------------------------------------------------------------------------------

UNIT = [0.0, 1.0]


@pytest.mark.parametrize("p", UNIT)
@pytest.mark.parametrize("r", UNIT)
@pytest.mark.parametrize("delta", UNIT)
@pytest.mark.parametrize("rate", UNIT)
def test_corners_of_the_dual_loop(p: float, r: float, delta: float, rate: float) -> None:
    assert theory.joint2(p, r, 0)["phi"] is None
    assert sum(theory.theorem1(p, r, 0, delta, rate)[c] for c in ("c11", "c12", "c21", "c22")) == 1
    out = theory.proportional(p, r, 0, delta, rate)
    assert out["M"] is None
    assert (out["s"] is None) == (out["c11"] + out["c12"] == 0)
    assert (out["printed_gain_numerator"] is None) == (p == 0)


CORNERS: list[tuple[dict[str, float], str, Any]] = [
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0.3}, "M", math.inf),
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0.3}, "M_lt_1", False),
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0.3}, "q_m", 0.0),
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0}, "M", None),
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0}, "printed_polynomial", None),
    ({"q12": 0.5, "q23": 1, "q31": 1, "delta": 1}, "M", 0.0),
    ({"q12": 1, "q23": 0, "q31": 1, "delta": 0.3}, "s3", None),
    ({"q12": 0, "q23": 0.5, "q31": 0.5, "delta": 0.3}, "s3", 0.0),
]


@pytest.mark.parametrize(("numbers", "name", "want"), CORNERS)
def test_corners_of_the_triangle(numbers: dict[str, float], name: str, want: Any) -> None:
    assert same(theory.triangle_ratio(**numbers, gamma=0, r=0.5)[name], want)


def test_values_too_large_for_a_float_are_infinite() -> None:
    assert theory.triangle_ratio(0.5, 0.5, 0.5, 0.3, 0, 1e-320)["M2"] == math.inf


def test_reading_decimals_keeps_bounds_exact() -> None:
    """0.07 * 0.12 is not 0.0084 in floating point; the law at that bound has an empty cell all the same."""
    assert theory.joint2(0.07, 0.12, -0.0084)["P11"] == 0
    assert theory.proportional(0.07, 0.12, -0.0084, 0.5, 0)["M"] == math.inf
    assert theory.joint2(0.3, 0.4, 0.1 + 0.2 - 0.12)["feasible"]


def test_only_joint_kinds_accept_an_infeasible_law() -> None:
    assert theory.joint2(0.5, 0.5, 0.3)["feasible"] is False
    assert theory.joint3(0.5, 0.5, 0.5, 0.4, 0)["feasible"] is False
    with refused(TheoryError, "lambda = 0.3", "[-0.25, 0.25]"):
        theory.theorem1(0.5, 0.5, 0.3, 0.1, 0.1)


def test_jensen_with_empty_routes() -> None:
    out = theory.jensen([1, 0], [[1, 0], [0, 1]], [0.5, 0])
    assert same(out["jensen_bound"], math.log(0.5)) and out["printed_sum_of_logs"] == -math.inf
    assert theory.jensen([1], [[1]], [0])["log_exact"] == -math.inf


def test_estimates_without_sentences() -> None:
    for estimate in (theory.estimate_observed, theory.estimate_latent, theory.estimate_triangle):
        out = estimate({})
        assert out["n"] == 0
        assert all(value == [0.0, 1.0] or value is None for key, value in out.items() if key != "n")


def test_estimates_with_empty_cases() -> None:
    out = theory.estimate_observed({"1111": 8, "0111": 2})
    assert out["alpha"] is None and out["alpha_ci"] == [0.0, 1.0] and out["thm1"] == 0.8 and out["rho"] is None
    out = theory.estimate_observed({"0100": 3, "1000": 4})
    assert out["M"] == math.inf and out["M_ci"] is None and out["u11"] is None
    assert theory.estimate_triangle({"1111": 5})["pairwise_equality_chi2_df2"] is None


# --- what a user reads when something is wrong -------------------------------------------------------

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("joint2", {"p": 1.2, "r": 0.5, "lambda": 0}, "p = 1.2 is not a probability: it must lie in [0, 1]"),
    ("joint2", {"p": True, "r": 0.5, "lambda": 0}, "p is True, which is not a number"),
    ("joint2", {"p": "0.5", "r": 0.5, "lambda": 0}, "p is '0.5', which is not a number"),
    ("joint2", {"p": None, "r": 0.5, "lambda": 0}, "p is None, which is not a number"),
    ("joint2", {"p": math.nan, "r": 0.5, "lambda": 0}, "p is nan; it must be a finite number"),
    ("joint2", {"p": 0.5, "r": 0.5, "lambda": math.inf}, "lambda is inf; it must be a finite number"),
    ("joint2", {"p": 0.5, "r": 0.5, "lambda": 10**400}, "1e100"),
    ("joint2", {"p": 0.5, "r": 0.5}, "kind joint2 needs lambda; its fields are p, r, lambda"),
    ("joint2", {"p": 0.5, "r": 0.5, "lam": 0, "lambda": 0}, "no field 'lam' (did you mean 'lambda'?)"),
    ("thm1", {"p": 0.5, "r": 0.5, "lambda": 0, "delta": -0.1, "alpha": 0}, "delta = -0.1 is not a probability"),
    (
        "exact_accuracy",
        {"p": 0.5, "r": 0.5, "lambda": 0, "delta": 0, "alpha": 0.7, "kappa": 0.4, "u11": 0, "u12": 0},
        "alpha + kappa = 1.1 exceeds 1",
    ),
    (
        "thm2",
        {"q12": 0.5, "q23": 0.5, "q31": 0.5, "lambda1": 0.1, "lambda2": 0, "delta": 0.1, "alpha": 0.1},
        "lambda2 = 0 is impossible with q12 = 0.5, q23 = 0.5, q31 = 0.5 and lambda1 = 0.1: the range is [0.075,",
    ),
    ("loopK", {"q": [0.5], "delta": 0.1, "gamma": 0}, "q has one entry"),
    ("loopK", {"q": 0.5, "delta": 0.1, "gamma": 0}, "q is 0.5; it must be a list of numbers"),
    ("loopK", {"q": [], "delta": 0.1, "gamma": 0}, "q is empty"),
    (
        "loopK_joint",
        {"K": 2, "table": {"11": 0.5}, "delta_by_errors": {"2": 0.5}, "alpha": 0, "kappa": 0},
        "table sums to 0.5; the probabilities must sum to 1",
    ),
    (
        "loopK_joint",
        {"K": 2, "table": {"111": 1}, "delta_by_errors": {"2": 0.5}, "alpha": 0, "kappa": 0},
        "table has the key '111'; a key is a string of 2 zeros and ones",
    ),
    (
        "loopK_joint",
        {"K": 3, "table": {"000": 1}, "delta_by_errors": {"2": 0.5}, "alpha": 0, "kappa": 0},
        "delta_by_errors has no entry for 3 errors, which table[000] needs",
    ),
    (
        "loopK_joint",
        {"K": 2, "table": {"11": 1}, "delta_by_errors": {"1": 0.5}, "alpha": 0, "kappa": 0},
        "delta_by_errors has the key '1'; its keys are 2 to 2",
    ),
    ("loopK_joint", {"K": 2.5, "table": {}, "delta_by_errors": {}, "alpha": 0, "kappa": 0}, "K = 2.5 must be a whole"),
    ("uniform_confusion", {"N": 1, "errors": 2}, "N = 1"),
    ("uniform_confusion", {"N": 4, "errors": -1}, "errors = -1 must be a whole number from 0"),
    (
        "jensen",
        {"p_k_given_2": [0.5, 0.5], "p_1_given_k": [[1]], "p_2_given_1": [1]},
        "p_1_given_k has 1 rows, p_k_given_2 2 entries",
    ),
    ("jensen", {"p_k_given_2": [1], "p_1_given_k": [[0.5, 0.5]], "p_2_given_1": [1]}, "p_1_given_k[0] has 2 entries"),
    ("jensen", {"p_k_given_2": [0.9], "p_1_given_k": [[1]], "p_2_given_1": [1]}, "p_k_given_2 sums to 0.9"),
    ("identified_set", {"p": 0.6, "c11": 0.7, "c12": 0, "r": 0.7}, "c11 = 0.7 is impossible"),
    ("identified_set", {"p": 0.6, "c11": 0.5, "c12": 0.1, "r": 0.9}, "r = 0.9 is impossible with p = 0.6"),
    ("estimate_latent", {"counts": {"000": -1}}, "counts[000] = -1 must be a whole number"),
    ("estimate_latent", {"counts": {"00": 1}}, "counts has the key '00'"),
    ("estimate_observed", {"counts": [1, 2]}, "counts is [1, 2]; it must be an object keyed by strings of 4 bits"),
    ("world2", {"mu": [1], "T12": [1], "T21": [0], "Td12": [0], "Td21": [0]}, "T12 maps to 1; the meanings are"),
    ("world2", {"mu": [1], "T12": [0, 0], "T21": [0], "Td12": [0], "Td21": [0]}, "T12 has 2 entries for the 1"),
    ("thm9", {}, "kind 'thm9' is unknown"),
]


@pytest.mark.parametrize(("kind", "given_", "sentence"), BAD)
def test_errors_name_the_case_and_the_problem(kind: str, given_: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TheoryError) as error:
        theory.fill({"cases": [{"id": "bad-one", "kind": kind, "in": given_}]})
    assert str(error.value).startswith("case bad-one: ") and not lacks(str(error.value), sentence)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({}, 'a list under "cases"'),
        ({"cases": {}}, 'a list under "cases"'),
        ({"cases": [3]}, "case number 0"),
        ({"cases": [{"kind": "joint2"}]}, 'a text under "id"'),
        ({"cases": [{"id": "x", "kind": "joint2"}]}, 'case x: "in" is None'),
    ],
)
def test_malformed_documents(document: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TheoryError, match=sentence):
        theory.fill(document)
