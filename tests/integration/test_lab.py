"""The laboratory: starts with given accuracies, exact gradients, and the theory's identities."""

from __future__ import annotations

import importlib.util
import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from loopmt import theory
from loopmt.errors import MissingExtraError, TheoryError
from loopmt.lab import LabSettings, draw, run_lab
from loopmt.lab.experiments import (
    dual_record,
    length_curve,
    predict,
    rewards_finding,
    theorem1_finding,
    triangle_finding,
)
from loopmt.lab.languages import Array, LabStart, vanilla
from loopmt.lab.learning import DUAL, TRIANGLE, loops_of, softmax, train, train_every_hop
from loopmt.lab.measuring import LabRoundTrip, conditional_likelihood, decode, dual_truth, likelihood, tally
from loopmt.lab.rewards import DRAWS, RATES, Estimate, RewardRound, RewardWorld, estimates
from loopmt.model.policy_gradient import restricted

SMALL = LabSettings(meanings=12, sentences=2, worlds=2, steps=8)


def dual_round_trips(settings: LabSettings, start: LabStart, world: int) -> tuple[LabRoundTrip, LabRoundTrip]:
    translators = vanilla(settings, start, world)
    trained = train(translators, DUAL, settings)
    return decode(translators, (1, 2, 1), settings), decode(trained, (1, 2, 1), settings)


@pytest.mark.parametrize("accuracy", [0.0, 0.25, 0.5, 1.0])
def test_translators_start_at_the_given_accuracy(accuracy: float) -> None:
    start = LabStart(forward=accuracy, back=1 - accuracy, pivots=0.75)
    translators = vanilla(SMALL, start, 0)
    for hop, want in (((1, 2), accuracy), ((2, 1), 1 - accuracy), ((3, 1), 0.75)):
        assert decode(translators, hop, SMALL).right[0].mean() == want


def test_dependence_is_controlled() -> None:
    settings = LabSettings(meanings=40)

    def mean(name: str, start: LabStart) -> float:
        truths = [dual_truth(*dual_round_trips(settings, start, world)) for world in range(6)]
        return float(np.mean([truth[name] for truth in truths if truth[name] is not None]))

    assert mean("delta", LabStart(twins=1.0, languages=2)) == 1.0
    assert mean("delta", LabStart(twins=0.0, languages=2)) < 0.15
    shared, apart = (LabStart(forward=0.5, back=0.5, shared=share, twins=0.5, languages=2) for share in (0.9, 0.0))
    assert mean("lam", shared) > mean("lam", apart) + 0.05


@pytest.mark.parametrize("twins", [0.0, 0.5, 1.0])
def test_oracles_are_bijective_and_formulas_exact(twins: float) -> None:
    for world in range(4):
        before, after = dual_round_trips(SMALL, LabStart(twins=twins, languages=2), world)
        latent = theory.estimate_latent(tally(*before.right, before.returned))
        assert latent["violation_all_correct_not_reconstructed"] in (0, None)
        assert latent["violation_one_error_reconstructed"] in (0, None)
        truth = dual_truth(before, after)
        assert abs(predict(truth, truth)["exact"] - truth["p_d"]) < 1e-12
        closed = theory.theorem1(truth["p"], truth["r"], truth["lam"], truth["delta"] or 0.0, truth["alpha"] or 0.0)
        assert abs(closed["printed_p_d"] - predict(truth, truth)["theorem1"]) < 1e-12
        assert dual_record(before, after)["exact_error"] == pytest.approx(0, abs=1e-12)


def numeric_gradient(objective: object, table: Array) -> Array:
    """Central differences of a function of a table of logits."""
    assert callable(objective)
    slope = np.zeros_like(table)
    for place in np.ndindex(*table.shape):
        step = np.zeros_like(table)
        step[place] = 1e-5
        slope[place] = (objective(table + step) - objective(table - step)) / 2e-5
    return slope


TINY = LabSettings(meanings=4, sentences=1, steps=1, parallel=0.0)


def test_last_hop_follows_the_exact_gradient() -> None:
    """One step raises the expected log-probability of returning, with fixed generators."""
    translators = vanilla(TINY, LabStart(), 0)
    for walks, hop in ((DUAL, (2, 1)), (TRIANGLE, (1, 2))):
        walk = next(walk for walk in walks if walk[-2:] == hop)
        route = np.eye(TINY.size)
        for generator in pairwise(walk[:-1]):
            route = route @ softmax(translators[generator])

        def objective(table: Array, route: Array = route) -> float:
            return float((route * np.log(softmax(table)).T).sum())

        step = train(translators, walks, TINY)[hop] - translators[hop]
        assert np.allclose(step, numeric_gradient(objective, translators[hop]), atol=1e-6)


def test_every_hop_follows_the_exact_gradient() -> None:
    translators = vanilla(TINY, LabStart(languages=2), 1)
    there, back = translators[1, 2], translators[2, 1]

    def objective(forward: Array, backward: Array) -> float:
        closed = softmax(forward) * softmax(backward).T
        return float(np.log(closed.sum(axis=1)).sum() + np.log(closed.sum(axis=0)).sum()) / 2

    trained = train_every_hop(translators, TINY)
    slope = numeric_gradient(lambda table: objective(table, back), there)
    assert np.allclose(trained[1, 2] - there, slope, atol=1e-6)
    slope = numeric_gradient(lambda table: objective(there, table), back)
    assert np.allclose(trained[2, 1] - back, slope, atol=1e-6)


def test_samples_agree_with_the_expectation() -> None:
    translators = vanilla(TINY, LabStart(), 2)
    rng = np.random.default_rng(0)
    for walks in (DUAL, TRIANGLE):
        exact, sampled = train(translators, walks, TINY), train(translators, walks, TINY, batch=200_000, rng=rng)
        assert np.allclose(exact[1, 2], sampled[1, 2], atol=0.02)


def test_helpers_stay_fixed() -> None:
    translators = vanilla(SMALL, LabStart(), 0)
    trained = train(translators, TRIANGLE, SMALL)
    changed = {hop for hop in translators if not np.array_equal(translators[hop], trained[hop])}
    assert changed == {(1, 2), (2, 1)}


def test_paths_of_any_length_teach_the_pair() -> None:
    assert loops_of(2) == DUAL
    assert loops_of(3) == TRIANGLE
    assert loops_of(5) == ((1, 5, 4, 3, 2, 1), (2, 3, 4, 5, 1, 2))


def test_ratios() -> None:
    right = np.array([True, True, False, False])
    short = LabRoundTrip((right,), np.array([True, True, True, False]))
    long = LabRoundTrip((right,), np.array([True, True, False, False]))
    assert likelihood(short) == 0.5 and likelihood(long) == 0.0
    assert conditional_likelihood(short, long) == 0.0
    assert likelihood(LabRoundTrip((np.array([True]),), np.array([True]))) is None


def test_theorem1_underestimates_and_hypothesis_h_overestimates() -> None:
    rows = theorem1_finding(LabSettings(worlds=3)).rows
    assert max(abs(row["exact_error"]) for row in rows) < 1e-12
    assert all(row["hypothesis_h_error"] > 0 for row in rows)
    much = [row for row in rows if row["dependence"] == "much"]
    assert all(row["hypothesis_h_error"] > 0.05 and row["theorem1_error"] > 0.01 for row in much)


def test_the_triangle_wins_by_its_way_back() -> None:
    rows = triangle_finding(LabSettings(worlds=3), pivots=(0.5, 0.97)).rows
    for poor, good in zip(rows[0::2], rows[1::2], strict=True):
        assert poor["q23_q31"] < poor["r"] and poor["instead"] < poor["dual"]
        assert good["q23_q31"] > good["r"] and good["instead"] > good["dual"]
        assert good["on_top"] > good["dual_longer"]


def test_longer_loops_gain_less() -> None:
    rows = length_curve(LabSettings(worlds=3), lengths=(2, 5)).rows
    assert all(short["gain"] > long["gain"] for short, long in zip(rows[0::2], rows[1::2], strict=True))


def test_run_lab_is_json_and_repeats_itself(tmp_path: Path) -> None:
    report = run_lab(SMALL)
    assert json.loads(json.dumps(report, allow_nan=False)) == run_lab(SMALL)
    assert report["settings"]["seed"] == 1
    paths = draw(report, tmp_path)
    assert len(paths) == 8 and all(path.stat().st_size > 1000 for path in paths)
    assert paths[0].read_bytes().startswith(b"\x89PNG") and "<svg" in paths[1].read_text("utf-8")


def test_pictures_without_matplotlib_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "loopmt\[report\]".*--no-pictures'):
        draw({}, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"meanings": 3}, "meanings is 3; the laboratory needs at least 4"), ({"parallel": 2.0}, "parallel must lie in")],
)
def test_invalid_sizes_are_refused(wrong: dict[str, int], sentence: str) -> None:
    with pytest.raises(TheoryError, match=sentence):
        LabSettings(**wrong)


# -- rewards -------------------------------------------------------------------------------------------------------

EXACT = ("no baseline", "leave-one-out", "leave-one-out, KL")


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("world", range(2))
def test_the_policy_gradient_is_unbiased_in_all_updates_of_a_round(draws: str, world: int) -> None:
    """By enumeration of all groups of samples; with truncation, as long as it is that of the samples."""
    how, drawn = DRAWS[draws], RewardWorld.draw(LabSettings(meanings=4, sentences=2), world)
    for rate in RATES.values():
        updates = RewardRound(drawn, how, rate)
        inside = [restricted(logits, how) > -math.inf for logits in updates.logits]
        assert len(inside) == 16
        for logits, mask in zip(updates.logits, inside, strict=True):
            same = bool((mask == inside[0]).all())
            for name in EXACT:
                bias = estimates(how)[name].bias(drawn, logits, drawn.start_SV)
                assert (bias < 1e-10) or not same, (draws, rate, name)
        if how.top_k == 0 and how.top_p == 1:
            assert not updates.moved and updates.logits[-1].ne(updates.logits[0]).any()


def test_the_bias_of_clipping_and_of_groups_is_reported() -> None:
    found = {(row["draws"], row["updates"], row["estimate"]): row for row in rewards_finding(SMALL).rows}
    exact, clipped, group = (
        found["T 0.7", "fast", name] for name in ("leave-one-out", "leave-one-out, clipped", "group")
    )
    assert exact["last"] < 1e-10 and clipped["first"] < 1e-10 < 0.1 < clipped["last"] and group["first"] > 0.1
    assert found["T 0.7, top-k 3", "fast", "leave-one-out"]["last"] > 0.01, "where truncations change"


def test_the_estimate_is_the_mean_of_samples() -> None:
    """The enumeration against many draws."""
    how, drawn = DRAWS["T 0.7, top-k 3"], RewardWorld.draw(LabSettings(meanings=4, sentences=2), 0)
    estimate = Estimate(how, kl=0.5)
    logits = drawn.start_SV.clone().requires_grad_()
    log_q = restricted(logits, how).log_softmax(1)
    picks = torch.multinomial(log_q.detach().exp(), 60_000, True, generator=torch.Generator().manual_seed(1))
    chosen = log_q.gather(1, picks)
    start = (drawn.start_SV / how.temperature).log_softmax(1).gather(1, picks)
    rewards = drawn.rewards_SV.gather(1, picks) - 0.5 * (chosen.detach() - start)
    pairs = rewards.view(len(picks), -1, 2)
    advantage = (pairs - pairs.flip(-1)).flatten(1)  # of two samples, relative to the other
    (sampled,) = torch.autograd.grad((chosen * advantage).mean(1).sum(), logits)
    torch.testing.assert_close(sampled, estimate.expected(drawn, drawn.start_SV, drawn.start_SV), atol=0.05, rtol=0)
