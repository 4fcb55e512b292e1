"""The closed forms against exact enumeration in fractions, and the intervals against simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopmt import theory

hundredths = st.integers(0, 100).map(lambda k: Fraction(k, 100))
weights = st.integers(0, 20)


def close(got: float | None, want: Fraction | float | None) -> bool:
    if want is None or got is None:
        return want is None and got is None
    return math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-11)


def ask(function: Callable[..., dict[str, Any]], *numbers: Fraction | float) -> dict[str, Any]:
    return function(*map(float, numbers))


def share(part: Fraction, whole: Fraction) -> Fraction | None:
    return part / whole if whole else None


@st.composite
def laws(draw: st.DrawFn, bits: int) -> dict[str, Fraction]:
    """A random joint law of `bits` indicators, some cells often empty."""
    patterns = ["".join(z) for z in itertools.product("10", repeat=bits)]
    masses = draw(st.lists(weights, min_size=2**bits, max_size=2**bits).filter(any))
    return {z: Fraction(mass, sum(masses)) for z, mass in zip(patterns, masses, strict=True)}


def pr(law: Mapping[str, Fraction], holds: Callable[[str], bool]) -> Fraction:
    return sum((mass for z, mass in law.items() if holds(z)), Fraction(0))


def with_return(law: Mapping[str, Fraction], delta: Callable[[int], Fraction]) -> dict[str, Fraction]:
    """The law of (Z, R) by definition: no error returns, one does not, more return with chance delta."""
    back = {z: [Fraction(1), Fraction(0)][z.count("0")] if z.count("0") < 2 else delta(z.count("0")) for z in law}
    return {
        **{z + "1": mass * back[z] for z, mass in law.items()},
        **{z + "0": mass * (1 - back[z]) for z, mass in law.items()},
    }


def four_cases(law: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {
        "c11": pr(law, lambda z: z[0] == "1" and z[-1] == "1"),
        "c12": pr(law, lambda z: z[0] == "0" and z[-1] == "1"),
        "c21": pr(law, lambda z: z[0] == "1" and z[-1] == "0"),
        "c22": pr(law, lambda z: z[0] == "0" and z[-1] == "0"),
    }


def trained(c: Mapping[str, Fraction], alpha: Fraction, kappa: Fraction, u11: Fraction, u12: Fraction) -> Fraction:
    """Pr(Yd = 1), adding up what becomes of every case."""
    lost = c["c21"] + c["c22"]
    return c["c11"] * (1 - u11) + c["c12"] * u12 + lost * alpha + lost * kappa


def dual_numbers(law: Mapping[str, Fraction]) -> tuple[Fraction, Fraction, Fraction]:
    p, r = pr(law, lambda z: z[0] == "1"), pr(law, lambda z: z[1] == "1")
    return p, r, law["11"] - p * r


@settings(max_examples=150, deadline=None)
@given(laws(2))
def test_joint2_rebuilds_any_law(law: dict[str, Fraction]) -> None:
    p, r, lam = dual_numbers(law)
    out = ask(theory.joint2, p, r, lam)
    assert out["feasible"] and all(close(out[f"P{z}"], mass) for z, mass in law.items())
    assert out["lambda_lo"] <= float(lam) + 1e-12 and float(lam) - 1e-12 <= out["lambda_hi"]
    for bound, step in ((out["lambda_lo"], -1e-6), (out["lambda_hi"], 1e-6)):
        assert ask(theory.joint2, p, r, bound)["feasible"]
        assert not ask(theory.joint2, p, r, bound + step)["feasible"]


@settings(max_examples=150, deadline=None)
@given(laws(2), hundredths, hundredths, hundredths, hundredths, hundredths)
def test_theorem1_and_exact_accuracy(
    law: dict[str, Fraction], delta: Fraction, a: Fraction, k: Fraction, u11: Fraction, u12: Fraction
) -> None:
    kappa = k * (1 - a)
    cases = four_cases(with_return(law, lambda errors: delta))
    numbers = (*dual_numbers(law), delta)
    first = ask(theory.theorem1, *numbers, a)
    assert all(close(first[name], value) for name, value in cases.items())
    assert close(first["p_d_lower"], cases["c11"] + a * (cases["c21"] + cases["c22"]))
    assert close(first["alpha_breakeven"], share(cases["c21"], cases["c21"] + cases["c22"]))
    full = ask(theory.exact_accuracy, *numbers, a, kappa, u11, u12)
    assert close(full["p_d_exact"], trained(cases, a, kappa, u11, u12))


@example({"11": Fraction(0), "10": Fraction(1, 6), "01": Fraction(5, 6), "00": Fraction(0)}, Fraction(0), Fraction(0))
@settings(max_examples=150, deadline=None)
@given(laws(2), hundredths, hundredths)
def test_proportional_redistribution(law: dict[str, Fraction], delta: Fraction, gamma: Fraction) -> None:
    c = four_cases(with_return(law, lambda errors: delta))
    p, r, lam = dual_numbers(law)
    out = ask(theory.proportional, p, r, lam, delta, gamma)
    back, lost = c["c11"] + c["c12"], c["c21"] + c["c22"]
    s = share(c["c11"], back)
    assert close(out["s"], s)
    if s is None:
        assert out["p_d"] is out["better"] is out["gain"] is None
        return
    accuracy = trained(c, (1 - gamma) * s, Fraction(0), Fraction(0), Fraction(0))
    assert close(out["p_d"], accuracy)
    assert out["better"] == (accuracy - p > Fraction(1, 10**12))
    if p:
        assert math.isclose(out["gain_corrected_line3"], accuracy - p, rel_tol=1e-9, abs_tol=1e-11)
    if out["gamma_star"] is not None:
        assert out["better"] == (out["gamma_star"] - float(gamma) > 1e-12 / float(lost * s))


def cell_by_inclusion(q: tuple[Fraction, ...], lam1: Fraction, lam2: Fraction, z: str) -> Fraction:
    """Pr(exactly this pattern) from the probabilities that sets of steps are right."""
    all_right = {0: Fraction(0), 1: Fraction(0), 2: lam1, 3: lam2}
    right = [i for i in range(3) if z[i] == "1"]
    others = [i for i in range(3) if z[i] == "0"]
    total = Fraction(0)
    for size in range(len(others) + 1):
        for extra in itertools.combinations(others, size):
            steps = [*right, *extra]
            total += (-1) ** size * (math.prod((q[i] for i in steps), start=Fraction(1)) + all_right[len(steps)])
    return total


@st.composite
def triangles(draw: st.DrawFn) -> tuple[tuple[Fraction, ...], Fraction, Fraction, dict[str, Fraction]]:
    """q, lambda1, lambda2 and the cells; inside the range or on its bounds."""
    q = tuple(draw(hundredths) for _ in range(3))
    edge = ask(theory.joint3, *q, 0, 0)
    place = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1)])

    def between(low: float, high: float) -> Fraction:
        a, b = (Fraction(bound).limit_denominator(10**9) for bound in (low, high))
        return a + draw(place) * (b - a)

    lam1 = between(edge["lambda1_lo"], edge["lambda1_hi"])
    edge = ask(theory.joint3, *q, lam1, 0)
    lam2 = between(edge["lambda2_lo"], edge["lambda2_hi"])
    patterns = ["".join(z) for z in itertools.product("10", repeat=3)]
    return q, lam1, lam2, {z: cell_by_inclusion(q, lam1, lam2, z) for z in patterns}


@settings(max_examples=150, deadline=None)
@given(triangles(), hundredths, hundredths)
def test_triangle_law_and_theorem2(
    triangle: tuple[tuple[Fraction, ...], Fraction, Fraction, dict[str, Fraction]], delta: Fraction, a: Fraction
) -> None:
    q, lam1, lam2, cells = triangle
    law = ask(theory.joint3, *q, lam1, lam2)
    assert law["feasible"] and min(cells.values()) > -Fraction(1, 10**8)
    assert all(math.isclose(law[f"P{z}"], mass, abs_tol=1e-8) for z, mass in cells.items())
    for key, step in (("lambda2_lo", -1e-6), ("lambda2_hi", 1e-6)):
        assert not ask(theory.joint3, *q, lam1, law[key] + step)["feasible"]
    assert not ask(theory.joint3, *q, law["lambda1_hi"] + 1e-6, lam2)["feasible"]
    assert not ask(theory.joint3, *q, law["lambda1_lo"] - 1e-6, lam2)["feasible"]
    c = four_cases(with_return(cells, lambda errors: delta))
    out = ask(theory.theorem2, *q, lam1, lam2, delta, a)
    assert all(math.isclose(out[name], value, abs_tol=1e-8) for name, value in c.items())
    assert math.isclose(out["q_m_lower"], c["c11"] + a * (c["c21"] + c["c22"]), abs_tol=1e-8)
    slope = a * (lam2 - lam1) * q[0] + 2 * (1 - a) * lam1
    assert math.isclose(out["printed_minus_corrected"], delta * slope, abs_tol=1e-8)


@settings(max_examples=100, deadline=None)
@given(st.lists(hundredths, min_size=2, max_size=6), hundredths, hundredths)
def test_loop_of_independent_steps(q: list[Fraction], delta: Fraction, gamma: Fraction) -> None:
    law = {
        "".join(z): math.prod((x if bit == "1" else 1 - x for x, bit in zip(q, z, strict=True)), start=Fraction(1))
        for z in itertools.product("10", repeat=len(q))
    }
    c = four_cases(with_return(law, lambda errors: delta))
    out = theory.loop([float(x) for x in q], float(delta), float(gamma))
    back, lost = c["c11"] + c["c12"], c["c21"] + c["c22"]
    s = share(c["c11"], back)
    assert close(out["c11"], c["c11"]) and close(out["c12"], c["c12"]) and close(out["s"], s)
    assert close(out["acc_proportional"], None if s is None else s * (1 - gamma * lost))
    assert (out["error_odds_sum"] < math.inf) == all(q[1:])
    if 0 < q[0] < 1:
        assert out["informative"] == (c["c11"] - q[0] * back > 0)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 4).flatmap(laws), st.lists(hundredths, min_size=4, max_size=4), hundredths, hundredths)
def test_loop_of_any_law(law: dict[str, Fraction], deltas: list[Fraction], a: Fraction, k: Fraction) -> None:
    steps, kappa = len(next(iter(law))), k * (1 - a)
    c = four_cases(with_return(law, lambda errors: deltas[errors - 2]))
    table = {z: float(mass) for z, mass in law.items()}
    by_errors = {str(errors): float(deltas[errors - 2]) for errors in range(2, steps + 1)}
    out = theory.loop_joint(steps, table, by_errors, float(a), float(kappa))
    q1, back, lost = c["c11"] + c["c21"], c["c11"] + c["c12"], c["c21"] + c["c22"]
    assert close(out["q1"], q1) and all(close(out[name], value) for name, value in c.items())
    assert close(out["acc_lower"], c["c11"] + a * lost)
    assert close(out["acc_exact"], trained(c, a, kappa, Fraction(0), Fraction(0)))
    assert close(out["cov_Z1_R"], c["c11"] - q1 * back)


def test_uniform_confusion_is_a_walk_on_the_complete_graph() -> None:
    for meanings in range(2, 7):
        home, step = Fraction(1), Fraction(1, meanings - 1)
        for errors in range(9):
            assert close(theory.uniform_confusion(meanings, errors)["return_probability"], home)
            home = (1 - home) * step


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    size = draw(st.integers(1, 6))
    counts = draw(st.lists(weights, min_size=size, max_size=size).filter(any))
    images = st.lists(st.integers(0, size - 1), min_size=size, max_size=size)
    return counts, [draw(images) for _ in range(4)]


@settings(max_examples=200, deadline=None)
@given(worlds())
def test_world2_agrees_with_counting(world: tuple[list[int], list[list[int]]]) -> None:
    """The quantities of a world are the estimates from a sample that shows every sentence as often as mu."""
    counts, (t12, t21, d12, d21) = world
    observed: dict[str, int] = {}
    latent: dict[str, int] = {}
    for x, count in enumerate(counts):
        y, yd = t12[x], d12[x]
        verdicts = [y == x, t21[y] == x, yd == x, d21[yd] == x]
        steps = [y == x, t21[y] == y, t21[y] == x]
        for table, bits in ((observed, verdicts), (latent, steps)):
            key = "".join(str(int(bit)) for bit in bits)
            table[key] = table.get(key, 0) + count
    out = theory.world2([count / sum(counts) for count in counts], t12, t21, d12, d21)
    seen, hidden = theory.estimate_observed(observed), theory.estimate_latent(latent)
    names = ("p", "c11", "c12", "c2", "alpha", "beta", "gamma", "kappa", "u11", "u12", "eta")
    assert all(close(out[name], seen[name]) for name in names)
    assert all(close(out[name], hidden[name]) for name in ("r", "lam", "delta"))
    assert close(out["p_d_true"], seen["p_d"]) and close(out["printed_p_d"], seen["thm1"])
    assert hidden["violation_one_error_reconstructed"] in (0, None)
    assert out["assumption1_holds"] == (out["eta"] in (1, None))


# --- coverage of the intervals -----------------------------------------------------------------------

REPETITIONS = 1200


def coverage(
    estimate: Callable[[dict[str, int]], dict[str, Any]], law: dict[str, float], names: list[str], n: int
) -> None:
    """Intervals of samples of size n cover the value that the law itself has, 93 to 97 times in 100."""
    truth = estimate({key: round(mass * 10**6) for key, mass in law.items()})
    draws = np.random.default_rng(7).multinomial(n, list(law.values()), size=REPETITIONS)
    hits = dict.fromkeys(names, 0)
    for row in draws.tolist():
        out = estimate(dict(zip(law, row, strict=True)))
        for name in names:
            low, high = _interval(out, name)
            hits[name] += low <= truth[name] <= high
    assert {name: 0.93 <= hit / REPETITIONS <= 0.97 for name, hit in hits.items()} == dict.fromkeys(names, True)


def _interval(out: dict[str, Any], name: str) -> tuple[float, float]:
    if f"{name}_ci" in out:
        return out[f"{name}_ci"][0], out[f"{name}_ci"][1]
    return out[name] - 1.96 * out[f"{name}_se"], out[name] + 1.96 * out[f"{name}_se"]


def random_law(bits: int, seed: int) -> dict[str, float]:
    masses = np.random.default_rng(seed).dirichlet(np.full(2**bits, 4.0)).round(6)
    masses[0] += 1 - masses.sum()
    return {f"{i:0{bits}b}": float(mass) for i, mass in enumerate(masses)}


def test_coverage_observed() -> None:
    coverage(
        theory.estimate_observed, random_law(4, 1), ["p", "p_d", "gain", "s", "M", "alpha", "gamma", "eta", "rho"], 600
    )


def test_coverage_latent() -> None:
    coverage(theory.estimate_latent, random_law(3, 2), ["p", "r", "lam", "delta"], 500)


def test_coverage_triangle() -> None:
    coverage(theory.estimate_triangle, random_law(4, 3), ["lambda1", "lambda2", "delta"], 500)
