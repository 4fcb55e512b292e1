"""How well the predictor of gains does on what it has not seen, and the recommendations by kind of data."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import NOTHING, grid, points, signed
from benchmarks.pages.raw import Json, content

from loopmt.planning.data_kinds import DATA_KINDS
from loopmt.planning.predictor import GAIN, LOSS, NO_GAIN, formulas

_KINDS = {
    "all": "all",
    "dual": "dual loops over bitext",
    "uniform": "a third language in all directions, over dual loops",
    "chosen": "a third language where it was chosen, over dual loops",
    "untaught": "no bitext: direct over translating through the hub",
}
_QUANTITIES = {
    "readable text": "log10(1 + monolingual sentences / pairs) x min(1, BLEU of the reverse direction / 15)",
    "epochs": "log10(1 + epochs over the bitext)",
    "better sources": "by how much a larger share of the generated sources is right than in the dual loop; 0 if less",
    "worse sources": "log10(1 + monolingual sentences / pairs) x by how much a smaller share is right (negative), "
    "relative to the dual loop's share + 0.05",
    "tokens": "log10 of the target tokens that loops give the direction",
    "shared": "1 for one network for all directions, else 0",
}


def _checks() -> str:
    rows = [[name, *_check(found["all"])] for name, found in content("predictor/evaluation").items()]
    return grid(["left out", *_HEAD], rows)


def _by_kind() -> str:
    found = content("predictor/evaluation")["runs"]
    return grid(["comparison", *_HEAD], [[_KINDS[name], *_check(one)] for name, one in found.items()])


_HEAD = ("rows", "runs (with losses)", "sign, balanced", "by M below 1", "error below constant", "in 80% interval")


def _check(one: Json) -> list[str]:
    rates = (_percent(one[key]) for key in ("balanced_accuracy", "theory", "below_constant", "coverage"))
    return [str(one["rows"]), f"{one['runs']} ({one['runs_that_lost']})", *rates]


def _percent(estimate: Sequence[float | None]) -> str:
    value, low, high = estimate
    return NOTHING if value is None else f"{value:z.0%} ({low:z.0%} to {high:z.0%})"


def _fixed() -> str:
    """Plain accuracy and mean error, beside fixed answers."""
    found = content("predictor/evaluation")["runs"]
    rows = [
        [_KINDS[name], *(_share(one[key][0]) for key in ("accuracy", "always_gain")), *_errors(one)]
        for name, one in found.items()
    ]
    head = ("comparison", "sign right", 'always "gain"', "mean error", "of a constant")
    return grid([*head, "chrF: mean error", "of a constant", "in 80% interval"], rows)


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0%}"


def _errors(one: Json) -> tuple[str, ...]:
    errors = ("error", "constant", "chrf_error", "chrf_constant")
    return *(points(one[key][0]) for key in errors), _share(one["chrf_coverage"][0])


def _verdicts() -> str:
    found = content("predictor/evaluation")["runs"]
    rows = [
        [_KINDS[name], word, *map(str, one["ended"][word])]
        for name, one in found.items()
        for word in (GAIN, NO_GAIN, LOSS)
        if sum(one["ended"][word])
    ]
    return grid(["comparison", "verdict", "gained", "no difference", "lost"], rows)


def _coefficients() -> str:
    rows = [
        [formula, _QUANTITIES[name], signed(weight, 3), " to ".join(f"{value:.2f}" for value in one.bounds[name])]
        for formula, one in formulas().items()
        for name, weight in one.weights.items()
    ]
    return grid(["formula", "quantity", "weight", "recorded"], rows)


def _mixes() -> str:
    rows = [[kind.data, kind.first, kind.brought] for kind in DATA_KINDS.values()]
    return grid(["your data", "try first", "what it brought on Europarl"], rows)


TABLES: dict[str, Table] = {
    "predictor": _checks,
    "predictor-kinds": _by_kind,
    "predictor-fixed": _fixed,
    "predictor-verdicts": _verdicts,
    "predictor-coefficients": _coefficients,
    "mixes-by-data": _mixes,
}
