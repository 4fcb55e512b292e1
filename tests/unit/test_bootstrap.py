"""The bootstrap against closed forms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest

from helpers.facts import refused
from helpers.noisy import corpus, corrupted
from loopmt.errors import DataError
from loopmt.evaluation.bootstrap import Statistics, bootstrap_difference, mean_statistics
from loopmt.evaluation.metrics import bleu, chrf_statistics, multi_bleu_statistics, sacre_bleu_statistics


def statistics_of(seed: int, error: float, size: int = 200) -> tuple[Statistics, Statistics]:
    """Multi-bleu statistics of a system and of one with twice as many errors, on the same references."""
    rng = np.random.default_rng(seed)
    good, references = corpus(rng, size, error)
    bad = [corrupted(rng, reference, 2 * error) for reference in references]
    return multi_bleu_statistics(good, references), multi_bleu_statistics(bad, references)


@pytest.mark.parametrize("metric", [multi_bleu_statistics, sacre_bleu_statistics, chrf_statistics])
def test_weights_repeat_sentences(metric: Callable[..., Statistics]) -> None:
    hypotheses, references = corpus(np.random.default_rng(11), 8, 0.3)
    weights = np.array([2.0, 0, 1, 3, 1, 0, 1, 0])
    again = np.repeat(np.arange(8), weights.astype(int))
    repeated = metric([hypotheses[i] for i in again], [references[i] for i in again])
    assert metric(hypotheses, references).score(weights) == pytest.approx(repeated.score())


def test_equal_systems_have_no_difference() -> None:
    system, _ = statistics_of(1, 0.2)
    interval = bootstrap_difference([system, system], [system, system], samples=50)
    assert (interval.difference, interval.low, interval.high, interval.p_value) == (0, 0, 0, 1)


def test_equally_good_systems_cover_zero_and_better_ones_do_not() -> None:
    rng = np.random.default_rng(2)
    first, references = corpus(rng, 300, 0.2)
    second = multi_bleu_statistics([corrupted(rng, r, 0.2) for r in references], references)
    even = bootstrap_difference([multi_bleu_statistics(first, references)], [second], samples=300)
    assert even.low < 0 < even.high
    assert even.p_value > 0.05
    good, bad = statistics_of(2, 0.2)
    ahead = bootstrap_difference([good], [bad], samples=300)
    assert ahead.low > 0
    assert ahead.p_value == pytest.approx(1 / 301)
    behind = bootstrap_difference([bad], [good], samples=300)
    assert (behind.difference, behind.low) == pytest.approx((-ahead.difference, -ahead.high))


def test_interval_of_a_mean_is_the_normal_one() -> None:
    rng = np.random.default_rng(4)
    ours, theirs = rng.normal(0.3, 1, 900), rng.normal(0, 1, 900)
    interval = bootstrap_difference([mean_statistics(ours)], [mean_statistics(theirs)], samples=4000)
    standard_error = (ours - theirs).std() / 30
    assert interval.difference == pytest.approx((ours - theirs).mean())
    assert interval.low == pytest.approx(interval.difference - 1.96 * standard_error, abs=0.1 * standard_error)
    assert interval.high == pytest.approx(interval.difference + 1.96 * standard_error, abs=0.1 * standard_error)


def test_intervals_have_their_nominal_coverage() -> None:
    rng = np.random.default_rng(6)
    covered = 0
    for trial in range(300):
        ours, theirs = rng.random(150) < 0.7, rng.random(150) < 0.6
        interval = bootstrap_difference([mean_statistics(ours)], [mean_statistics(theirs)], samples=200, key=(trial,))
        covered += interval.low <= 0.1 <= interval.high
    assert 0.90 <= covered / 300 <= 0.98


def test_draws_depend_on_the_key() -> None:
    good, bad = statistics_of(3, 0.1)
    first, again, other = (
        bootstrap_difference([good], [bad], samples=100, key=key) for key in [(1, "a"), (1, "a"), (2, "a")]
    )
    assert first == again
    assert first.difference == other.difference
    assert first.low != other.low


def test_directions_of_one_test_set_share_their_rows() -> None:
    """Two directions that win and lose on the same rows cancel exactly, unless drawn independently."""
    ups = np.random.default_rng(9).random(400)
    systems = [mean_statistics(ups), mean_statistics(-ups)]
    controls = [mean_statistics(np.zeros(400))] * 2
    joint = bootstrap_difference(systems, controls, samples=200)
    assert (joint.low, joint.high) == pytest.approx((0, 0), abs=1e-12)
    apart = bootstrap_difference(systems, controls, samples=200, groups=["news", "europarl"])
    assert apart.high - apart.low > 0.02


def test_a_joint_interval_is_that_of_the_average() -> None:
    values = np.random.default_rng(10).random((3, 250))
    zero = mean_statistics(np.zeros(250))
    joint = bootstrap_difference([mean_statistics(v) for v in values], [zero] * 3, samples=100)
    average = bootstrap_difference([mean_statistics(values.mean(axis=0))], [zero], samples=100)
    assert (joint.low, joint.high) == pytest.approx((average.low, average.high))


def test_test_sets_may_differ_in_length_when_in_different_groups() -> None:
    values = [np.arange(30) % 2, np.arange(40) % 2]
    systems, controls = [mean_statistics(v) for v in values], [mean_statistics(0 * v) for v in values]
    assert bootstrap_difference(systems, controls, samples=20, groups=["a", "b"]).difference == 0.5
    with refused(DataError, '"test"', "30", "40"):
        bootstrap_difference(systems, controls, samples=20)


def test_seeds_are_resampled() -> None:
    """Without variance between sentences, only the variance between seeds remains."""
    systems = [mean_statistics(np.full(50, gain)) for gain in (0.0, 0.0, 1.0, 1.0)]
    controls = [mean_statistics(np.zeros(50))] * 4
    fixed = bootstrap_difference(systems, controls, samples=2000)
    drawn = bootstrap_difference(systems, controls, samples=2000, seeds=[1, 1, 2, 2])
    assert (fixed.low, fixed.high) == (0.5, 0.5)
    assert (drawn.difference, drawn.low, drawn.high) == (0.5, 0, 1)
    assert drawn.p_value == pytest.approx(0.5, abs=0.05)  # both draws equal: half of the time


@pytest.mark.parametrize(
    ("systems", "controls", "samples", "message"),
    [
        (0, 0, 10, "0 systems and 10 samples"),
        (1, 1, 0, "1 systems and 0 samples"),
        (2, 1, 10, "2 systems, 1 controls, 2 groups and 2 seeds"),
    ],
)
def test_invalid_arguments_of_the_bootstrap(systems: int, controls: int, samples: int, message: str) -> None:
    one = mean_statistics([1.0])
    with pytest.raises(DataError, match=message):
        bootstrap_difference([one] * systems, [one] * controls, samples=samples)


def test_six_directions_take_about_a_second() -> None:
    rows = np.random.default_rng(12).integers(1, 20, size=(2000, 10)).astype(np.float64)
    systems = [Statistics(rows, bleu, "")] * 6
    start = time.process_time()
    bootstrap_difference(systems, systems, samples=2000)
    assert time.process_time() - start < 5


def test_many_samples_of_a_long_test_set_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopmt.evaluation.bootstrap.CELLS", 1000)
    values = np.random.default_rng(13).random(300)
    interval = bootstrap_difference([mean_statistics(values)], [mean_statistics(np.zeros(300))], samples=1000)
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(300), rel=0.1)
