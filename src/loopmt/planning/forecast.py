"""Forecast whether loops will help, and which ones, from round trips of held-out sentences before loop training.

Round trips show whether a loop tells right translations from wrong ones (M), how many sentences training can correct
(c22) or spoil (c21), and what share of the sentences that do not return must become right for training to pay (the
break-even point). The effect of training is known only under an assumption or after a pilot, so the verdict `helps`
needs a pilot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopmt.evaluation.bootstrap import FloatArray
from loopmt.path import Hop, LanguagePath
from loopmt.planning.analysis import (
    AFTER,
    Estimate,
    Values,
    before_training,
    latent,
    likelihood,
    paired,
    share_of,
    shares,
)
from loopmt.planning.paper import printed
from loopmt.planning.round_trips import Verdicts, count_verdicts
from loopmt.rng import numpy_generator
from loopmt.theory.estimate import VerdictCounts
from loopmt.theory.partition import Partition

VERDICTS = ("helps", "may help", "no signal", "likely harmful")
"""Best first."""
WORTH = 0.01
"""The smallest gain worth having, as a share of sentences."""
WEAK = 0.4
"""Verdicts are unreliable if fewer translations are right at the lowest threshold. A rule of thumb."""
_STEPS = [Fraction(step, 10) for step in range(11)]


@dataclass(frozen=True)
class LoopForecast:
    """The forecast of one loop for the translator of its first hop."""

    loop: LanguagePath
    values: Values
    gamma_star: float | None
    """Under hypothesis H training gains if and only if gamma is below this value."""
    curves: dict[str, list[list[float]]]
    """Predicted gains: under H by gamma, by Theorem 1 by alpha."""
    assumed: dict[str, Estimate]
    """The same at the paper's average gamma and alpha."""
    latent: dict[str, Any] | None
    pilot: Pilot | None
    verdict: str
    why: str

    @property
    def direction(self) -> Hop:
        return self.loop.hops[0]

    @property
    def promising(self) -> bool:
        return self.verdict in VERDICTS[:2]

    def as_json(self) -> dict[str, Any]:
        risk, headroom = self.values["c21"][0] or 0.0, self.values["c22"][0] or 0.0
        head = {"loop": str(self.loop), "trained_as": str(training_path(self.loop)), "bracket": [-risk, headroom]}
        return {**asdict(self), **head}


def forecast_loop(
    verdicts: Verdicts, pilot: Pilot | None = None, worth: float = WORTH, route: Estimate | None = None
) -> LoopForecast:
    """Signal, headroom, bracket, break-even point and predicted gains of one loop, and the verdict on it.

    `route` is the quality of the sources that its translator would learn from.
    """
    values = before_training(verdicts)
    cases = _partition(verdicts)
    seen = printed()["estimated_parameters_en-de"]
    gamma, alpha = (Fraction(fmean(chain(*seen[name]))) for name in ("gamma", "alpha"))
    return LoopForecast(
        verdicts.loop,
        values,
        None if cases.gamma_star is None else float(cases.gamma_star),
        {
            "H by gamma": [[float(step), _gain_h(cases, step)] for step in _STEPS],
            "Theorem 1 by alpha": [[float(step), _gain_theorem1(cases, step)] for step in _STEPS],
        },
        {
            f"H at gamma = {float(gamma):.2f}": [_gain_h(cases, gamma), None, None],
            f"Theorem 1 at alpha = {float(alpha):.2f}": [_gain_theorem1(cases, alpha), None, None],
        },
        latent(verdicts) if verdicts.steps is not None else None,
        pilot,
        *decide(values, pilot, worth, is_ahead(route, values["p"]) if route else None),
    )


def _partition(verdicts: Verdicts) -> Partition:
    right, home, count = verdicts.right, verdicts.home, len(verdicts.right)
    blind, found = int((home & ~right).sum()), int((home & right).sum())
    return Partition.of(Fraction(int(right.sum()), count), Fraction(found, count), Fraction(blind, count))


def _gain_h(cases: Partition, gamma: Fraction) -> float:
    """s (1 - gamma c2) - p; if nothing returns, s is undefined and the gain is c11 - p."""
    after = cases.proportional(gamma)
    return float((cases.c11 if after is None else after) - cases.accuracy)


def _gain_theorem1(cases: Partition, alpha: Fraction) -> float:
    return float(cases.printed(alpha) - cases.accuracy)


# -- the verdict -----------------------------------------------------------------------------------------------


def decide(
    values: Values, pilot: Pilot | None = None, worth: float = WORTH, better_read: str | None = None
) -> tuple[str, str]:
    """One of VERDICTS and the reason, by the first of these rules that applies:

    1. c22 is smaller than a gain worth having: no signal;
    2. the interval of the pilot's predicted gain over its control excludes zero: helps or likely harmful;
    3. the interval of M is above 1, so wrong translations return more often: likely harmful;
    4. the interval of M is not below 1: no signal, or may help if `better_read` says that the translator would learn
       from better sources (a translator that is hardly ever right has no M, but can still learn);
    5. otherwise: may help.
    """
    (ratio, low, high), headroom = values["M"], values["c22"][0] or 0.0
    assert low is not None and high is not None
    if headroom < worth:
        return (
            "no signal",
            f"too little to gain: only {headroom:.1%} of the sentences are translated wrongly and do not return.",
        )
    if pilot and (decided := _pilot_verdict(pilot, values)):
        return decided
    if low > 1:
        return (
            "likely harmful",
            f"wrong translations return more often than right ones (M {ratio:.2f}, interval above 1).",
        )
    if (ratio is None or high >= 1) and better_read:
        return (
            "may help",
            f"the loop cannot tell right translations from wrong ones ({_ratio(values['M'])}), but {better_read}.",
        )
    if ratio is None or high >= 1:
        return (
            "no signal",
            f"no evidence that the loop tells right translations from wrong ones ({_ratio(values['M'])}).",
        )
    return "may help", _conditions(values, pilot)


def is_ahead(route: Estimate, other: Estimate, whose: str = "the translator itself") -> str | None:
    """Text saying that a route's sources are right more often than `other`; None if the intervals overlap."""
    (rate, low, _), (bar, _, high) = route, other
    if rate is None or bar is None or low is None or high is None or low <= high:
        return None
    return f"the generated sources it would learn from are right more often ({rate:.0%}) than {whose} ({bar:.0%})"


def _pilot_verdict(pilot: Pilot, values: Values) -> tuple[str, str] | None:
    gain, low, high = pilot.predicted
    if gain is None or low is None or high is None or low <= 0 <= high:
        return None
    right = sum(pilot.trained[name][0] or 0.0 for name in ("alpha", "kappa"))
    without = sum(pilot.control[name][0] or 0.0 for name in ("alpha", "kappa"))
    what = (
        f"the pilot predicts {gain:+z.1%} right translations over its control ({low:+z.1%} to {high:+z.1%}). Of the "
        f"sentences that did not return, {right:.0%} are right after it, {without:.0%} after the control, "
        f"{_break_even(values)} before."
    )
    return ("helps" if low > 0 else "likely harmful"), what


def _conditions(values: Values, pilot: Pilot | None) -> str:
    tried = "the pilot is inconclusive; " if pilot else ""
    return (
        f"{tried}the loop tells right translations from wrong ones ({_ratio(values['M'])}). Of the sentences "
        f"that do not return, {_break_even(values)} are right now. Training helps if this share grows; the gain is at "
        f"most {values['c22'][0]:.1%} of all sentences."
    )


def _break_even(values: Values) -> str:
    share = values["breakeven"][0]
    return "0%" if share is None else f"{share:.0%}"


def _ratio(estimate: Estimate) -> str:
    ratio, low, high = estimate
    return "M cannot be measured" if ratio is None else f"M {ratio:.2f}, interval {low:.2f} to {high:.2f}"


def too_weak(grid: Mapping[str, Sequence[Mapping[str, Any]]]) -> str | None:
    """A warning if few translations are right even at the lowest threshold, which the verdicts do not consider.

    `grid`: the plan's values of each loop at every threshold, lowest first.
    """
    right = fmean(rows[0]["p"][0] or 0.0 for rows in grid.values())
    if right >= WEAK:
        return None
    return (
        f"These translators are rarely right: only {right:.0%} of their translations have "
        f"{next(iter(grid.values()))[0]['rule']}. Loops would train them mostly on errors: train them longer or on "
        "more text first."
    )


# -- which pivot -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PivotRoute:
    """What a longer loop adds to the dual loop of its direction."""

    loop: LanguagePath
    new_information: Estimate
    """M among sentences that return in the dual loop; below 1 the longer loop adds evidence."""
    coverage: Estimate
    """Of the wrong sentences that return in the dual loop, the share that does not return in the longer one."""
    false_alarms: Estimate
    """Of the right sentences that return in the dual loop, the share that does not return in the longer one."""
    M: Estimate
    dual_M: Estimate
    pilot: Pilot | None
    """A pilot with both loops; its control has the dual one alone."""
    verdict: str
    """The verdict on adding the longer loop to the dual one."""
    why: str

    @property
    def promising(self) -> bool:
        """Whether the verdict is positive, or M is below 1 and the loop is not likely harmful."""
        ratio = self.new_information[0]
        return self.verdict in VERDICTS[:2] or (ratio is not None and ratio < 1 and self.verdict != "likely harmful")


def rank_pivots(
    dual: Verdicts,
    longer: Sequence[Verdicts],
    pilots: Mapping[LanguagePath, Pilot] | None = None,
    worth: float = WORTH,
    routes: Mapping[LanguagePath, Estimate] | None = None,
) -> list[PivotRoute]:
    """Best first: by new information, then by coverage minus false alarms."""
    pivots = (_pivot(dual, one, (pilots or {}).get(one.loop), worth, routes or {}) for one in longer)
    return sorted(pivots, key=_order)


def _pivot(
    dual: Verdicts, longer: Verdicts, pilot: Pilot | None, worth: float, routes: Mapping[LanguagePath, Estimate]
) -> PivotRoute:
    way, direct = (routes.get(training_path(one.loop)) for one in (longer, dual))
    better = is_ahead(way, direct, "those of the direct way back") if way and direct else None
    blind, found = dual.home & ~dual.right, dual.home & dual.right
    new = likelihood(dual.right[dual.home], longer.home[dual.home])
    return PivotRoute(
        longer.loop,
        new,
        share_of(~longer.home[blind]),
        share_of(~longer.home[found]),
        likelihood(longer.right, longer.home),
        likelihood(dual.right, dual.home),
        pilot,
        *decide({**before_training(longer), "M": new}, pilot, worth, better),
    )


def _order(pivot: PivotRoute) -> tuple[float, float]:
    ratio = pivot.new_information[0]
    return (float("inf") if ratio is None else ratio, (pivot.false_alarms[0] or 0.0) - (pivot.coverage[0] or 0.0))


# -- by direction ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DirectionForecast:
    """All loops of one direction."""

    direction: Hop
    prospects: list[LoopForecast]
    pivots: list[PivotRoute]

    @property
    def best(self) -> LoopForecast:
        return min(self.prospects, key=lambda one: VERDICTS.index(one.verdict))

    @property
    def helped(self) -> list[LoopForecast]:
        """Loops whose pilot gained."""
        return [one for one in self.prospects if one.verdict == VERDICTS[0]]

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.best.verdict,
            "best": str(self.best.loop),
            "loops": [one.as_json() for one in self.prospects],
            "pivots": [{**asdict(one), "loop": str(one.loop)} for one in self.pivots],
        }


def forecast_directions(
    measured: Sequence[Verdicts],
    pilots: Mapping[LanguagePath, Pilot] | None = None,
    beside: Mapping[LanguagePath, Pilot] | None = None,
    worth: float = WORTH,
) -> dict[Hop, DirectionForecast]:
    """Forecasts of all loops of every direction; `beside` are pilots of longer loops added to the dual one."""
    found = {}
    quality = route_quality(measured)
    for direction in dict.fromkeys(verdicts.loop.hops[0] for verdicts in measured):
        mine = [verdicts for verdicts in measured if verdicts.loop.hops[0] == direction]
        routes = quality.get(direction, {})
        prospects = [
            forecast_loop(verdicts, (pilots or {}).get(verdicts.loop), worth, routes.get(training_path(verdicts.loop)))
            for verdicts in mine
        ]
        dual = next((verdicts for verdicts in mine if len(verdicts.loop.hops) == 2), None)
        longer = [verdicts for verdicts in mine if len(verdicts.loop.hops) > 2]
        pivots = rank_pivots(dual, longer, beside, worth, routes) if dual else []
        found[direction] = DirectionForecast(direction, prospects, pivots)
    return found


# -- from loops to training ------------------------------------------------------------------------------------


def training_path(loop: LanguagePath) -> LanguagePath:
    """The path that teaches the loop's first hop: the same translators, starting one hop later."""
    return LanguagePath((*loop.languages[1:], loop.languages[1]))


def loop_of(path: LanguagePath) -> LanguagePath:
    """The loop whose first hop a closed path teaches."""
    return LanguagePath((path.languages[-2], *path.languages[:-1]))


def route_quality(measured: Sequence[Verdicts]) -> dict[Hop, dict[LanguagePath, Estimate]]:
    """For each taught direction and closed path that ends with it: how often the source it learns from is right.

    A path's learner reads the output of the hops before it; the quality is None without a reference.
    """
    found: dict[Hop, dict[LanguagePath, Estimate]] = {}
    for verdicts in measured:
        quality = [None, 0.0, 1.0] if verdicts.source is None else share_of(verdicts.source)
        found.setdefault(verdicts.loop.taught, {})[verdicts.loop] = quality
    return found


SAMPLES = 2000
_CASES = 3


@dataclass(frozen=True)
class Pilot:
    """Gains over the control on the second half of the sentences: predicted from the first half, and observed."""

    predicted: Estimate
    observed: Estimate
    trained: Values
    """alpha, beta, gamma, kappa, eta, u11, u12 on the first half."""
    control: Values


def score_pilot(before: Verdicts, trained: Verdicts, control: Verdicts) -> Pilot:
    """Score a pilot on the odd rows, with a prediction from the even rows."""
    first, second = slice(0, None, 2), slice(1, None, 2)
    return Pilot(
        _predict(before.only(first), trained.only(first), control.only(first), before.only(second)),
        paired(trained.right[second], control.right[second]),
        _parameters(before.only(first), trained.only(first)),
        _parameters(before.only(first), control.only(first)),
    )


def _parameters(before: Verdicts, after: Verdicts) -> Values:
    return shares(VerdictCounts(count_verdicts(before.right, before.home, after.right, after.home)), AFTER)


def _cases(verdicts: Verdicts) -> NDArray[np.int64]:
    """0: right and returns, 1: wrong but returns, 2: does not return."""
    return np.where(verdicts.home, np.where(verdicts.right, 0, 1), 2)


def _predict(before: Verdicts, trained: Verdicts, control: Verdicts, elsewhere: Verdicts) -> Estimate:
    cells = _cases(before) * 4 + trained.right * 2 + control.right
    outcome = np.bincount(cells, minlength=_CASES * 4)
    sizes = np.bincount(_cases(elsewhere), minlength=_CASES)
    if not outcome.sum() or not sizes.sum():
        return [None, -1.0, 1.0]
    generator = numpy_generator("pilot", str(before.loop))
    resampled = _gain(*(_draw(generator, counts) for counts in (outcome, sizes)))
    low, high = np.quantile(resampled, [0.025, 0.975])
    return [float(_gain(outcome[None], sizes[None])[0]), float(low), float(high)]


def _draw(generator: np.random.Generator, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return generator.multinomial(counts.sum(), counts / counts.sum(), size=SAMPLES)


def _gain(outcome: NDArray[np.int64], sizes: NDArray[np.int64]) -> FloatArray:
    """The sum over cases of size times (right after training - right in the control); an unseen case adds nothing."""
    by_case = outcome.reshape(-1, _CASES, 2, 2)  # case, trained is right, control is right
    ahead = by_case[:, :, 1, 0] - by_case[:, :, 0, 1]
    rates = ahead / np.maximum(by_case.sum(axis=(2, 3)), 1)
    gains: FloatArray = (rates * sizes / sizes.sum(axis=1, keepdims=True)).sum(axis=1)
    return gains
