"""Settings tried on validation text before test scores were looked at."""

from __future__ import annotations

from statistics import fmean

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import NOTHING, grid, points
from benchmarks.pages.raw import Json, content
from benchmarks.pages.scores import POOR


def _variants(name: str) -> dict[str, Json]:
    return {one["stage"]: one for one in content(f"explore/{name}")["variants"]}


def _tried(name: str) -> str:
    """Validation BLEU of every variant, the best first."""
    return _ranked([_variant(one) for one in _variants(name).values()])


def _second() -> str:
    """With the stages of the first recipe that the variants are held against."""
    first = content("europarl-48k-first/seed-1")["stages"]
    known = [
        (max(one["bleu"] for one in first[stage]["validation"]), [f"first recipe: {stage}", mix, "7,000"])
        for stage, mix in (
            ("dual", "dropout 0.3, rate 3e-4, half bitext"),
            ("vanilla-longer", "dropout 0.3, rate 3e-4"),
        )
    ]
    return _ranked([*known, *map(_variant, _variants("europarl-48k-1-second").values())])


def _variant(one: Json) -> tuple[float, list[str]]:
    mix = " ".join(str(one["mix"]).split())
    return one["best"], [one["stage"], f"`{mix}`", f"{one['update']:,}"]


def _ranked(rows: list[tuple[float, list[str]]]) -> str:
    ranked = sorted(rows, key=lambda row: -row[0])
    return grid(
        ["variant", "mix and settings", "updates", "validation BLEU"], [[*row, points(best)] for best, row in ranked]
    )


def _star() -> str:
    start = content("explore/europarl-star-1")["start"]
    found = [*start, *sorted(_variants("europarl-star-1").values(), key=lambda one: -one["best"])]
    rows = [[one["stage"], f"{one['update']:,}", points(one["best"]), _poor(one)] for one in found]
    return grid(["stage or variant", "updates", "mean of six", "mean of fr>es, es>fr at its end"], rows)


def _poor(one: Json) -> str:
    return points(fmean(one["bleu"][hop] for hop in POOR))


def _multi30k() -> str:
    """Dual learning by its share of bitext, bitext alone by its dropout; by the peak of the rate."""
    found = _variants("multi30k-dual-1-second")
    loops = {"half bitext": "top-k-10", "a third": "bitext-1-3", "a fifth": "bitext-1-5"}
    rows = [
        *([f"dual learning, {label}", *_by_rate(found, name)] for label, name in loops.items()),
        ["bitext alone, dropout 0.3", *_by_rate(found, "control-dropout-0.3")],
        ["bitext alone, dropout 0.2", *_by_rate(found, "control")],
    ]
    return grid(["", "3e-4", "1e-3", "2e-3"], rows)


def _by_rate(found: dict[str, Json], name: str) -> list[str]:
    def cell(rate: str) -> str:
        stages = [name] if rate == "1e-3" else [f"lr-{rate}-{name}", f"{name}-lr-{rate}"]
        if name == "top-k-10" and rate != "1e-3":
            stages = [f"lr-{rate}"]
        return next((points(found[stage]["best"]) for stage in stages if stage in found), NOTHING)

    return [cell(rate) for rate in ("3e-4", "1e-3", "2e-3")]


def _dropout() -> str:
    """The demo's languages: loops with the default dropout and with that of the model."""
    runs = content("explore/dropout-of-loops")["runs"]
    rows = [
        [str(one["seed"]), str(one["dropout of stage dual"]), points(one["dual, best validation BLEU"], 1)]
        for one in runs
    ]
    return grid(["seed", "dropout of stage dual", "validation BLEU"], rows)


TABLES: dict[str, Table] = {
    "explored-first": lambda: _tried("europarl-48k-1"),
    "explored-second": _second,
    "explored-star": _star,
    "explored-multi30k": _multi30k,
    "explored-multi30k-first": lambda: _tried("multi30k-dual-1"),
    "explored-dropout": _dropout,
}
