"""The page: the plain dicts of one or more runs as one HTML file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

from loopmt.evaluation.means import differ
from loopmt.progress import visible
from loopmt.report.graph import BANDS, graph, limits_of
from loopmt.report.measured import COLUMNS, GREEK
from loopmt.report.pictures import COLOURS, DASHES, Painter
from loopmt.report.training import MEAN
from loopmt.run import Json

LETTERS = {**dict(zip(GREEK, "αβγκη", strict=True)), "p_d": "pᵈ", "breakeven": "break-even"}


def page(runs: Sequence[Json]) -> str:
    """The page: draws every picture and escapes every text."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined, UndefinedError

    stages = list(dict.fromkeys(stage["name"] for run in runs for stage in run["stages"]))
    painter = Painter(stages)
    loader = FunctionLoader(_template)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_shown
    )
    environment.filters |= {
        "thousands": _thousands, "share": _share, "score": _score, "estimate": _estimate, "interval": _interval,
        "seconds": _seconds, "colour": lambda stage: painter.numbers[stage] % COLOURS,
        "dash": lambda stage: _DASH_ARRAYS[painter.numbers[stage] % len(DASHES)],
    }  # fmt: skip
    try:
        return environment.get_template("report.html").render(
            runs=[{**run, "pictures": _pictures(painter, run, limits)} for run, limits in _with_limits(runs)],
            several=len(runs) > 1,
            over_runs=_over_runs(runs),
            training=[run for run in runs if not run["finished"]],
            stages=stages,
            css=_trusted(_template("report.css")),
            letters=LETTERS,
            columns=COLUMNS,
            greek=GREEK,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )
    except UndefinedError as missing:
        raise KeyError(str(missing)) from missing


_DASH_ARRAYS = ("", "6 2", "2 2", "7 2 2 2")


def _template(name: str) -> str:
    return (resources.files("loopmt.report") / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Spell out control characters of text that was not cleaned."""
    return visible(value) if type(value) is str else value


def _trusted(text: str) -> Any:
    """Our own markup, never text of a corpus."""
    from markupsafe import Markup

    return Markup(text)


# -- pictures --------------------------------------------------------------------------------------------------


def _with_limits(runs: Sequence[Json]) -> list[tuple[Json, tuple[float, float]]]:
    """Runs with the same metric share their colour scale."""
    kinds = {run["quality"]["what"] for run in runs}
    groups = {
        kind: [one for run in runs if run["quality"]["what"] == kind for one in run["quality"]["stages"].values()]
        for kind in kinds
    }
    return [(run, limits_of(groups[run["quality"]["what"]])) for run in runs]


def _pictures(painter: Painter, run: Json, limits: tuple[float, float]) -> Json:
    curves = run["curves"]
    return {
        "graphs": _graphs(run, limits),
        "bands": _bands(limits),
        "training": _drawn(painter, [
            ("Validation BLEU", curves["bleu"][MEAN], {"bottom": 0}),
            ("Exactly right", curves["accuracy"][MEAN], {"bottom": 0, "top": 1}),
            ("Validation loss", curves["loss"][MEAN], {}),
            ("Training loss", curves["train_loss"], {}),
        ]),
        "directions": _by_direction(painter, run),
        "time": _drawn(painter, [
            ("Target tokens per second", curves["tokens_per_second"], {"bottom": 0}),
            ("Share of the time spent generating", curves["generate_share"], {"bottom": 0, "top": 1}),
        ]),
        "thresholds": [
            (one["set"], one["direction"], _trusted(painter.thresholds(one["lines"], one["exact"])))
            for one in run["thresholds"]
            if one["lines"]
        ],
        "theorem": _theorem(painter, run),
        "predicted": _predicted(painter, run),
    }  # fmt: skip


def _drawn(painter: Painter, wanted: Sequence[tuple[str, Any, Json]]) -> list[tuple[str, Any]]:
    return [(title, _trusted(painter.curves(lines, **options))) for title, lines, options in wanted if lines]


def _by_direction(painter: Painter, run: Json) -> list[tuple[str, Any]]:
    """All on one scale, so that directions can be compared."""
    bleu = {hop: lines for hop, lines in run["curves"]["bleu"].items() if hop != MEAN and lines}
    best = max((y for lines in bleu.values() for points in lines.values() for _, y in points), default=0.0)
    return _drawn(painter, [(hop, lines, {"bottom": 0, "top": best * 1.08 or 1}) for hop, lines in bleu.items()])


def _graphs(run: Json, limits: tuple[float, float]) -> list[Json]:
    """One for each stage that has begun; the first stage if none has."""
    begun = [stage for stage in run["stages"] if stage["state"] != "not begun"] or run["stages"][:1]
    quality = run["quality"]["stages"]
    return [
        {"stage": stage["name"], **graph(stage, run["languages"], quality.get(stage["name"], {}), limits)}
        for stage in begun
    ]


def _bands(limits: tuple[float, float]) -> list[tuple[int, str]]:
    low, high = limits
    edges = [low + (high - low) * place / BANDS for place in range(BANDS + 1)]
    return [(number, f"{one:g}–{other:g}") for number, (one, other) in enumerate(pairwise(edges))]


def _theorem(painter: Painter, run: Json) -> Any:
    """Theorem 1 at the measured alpha against the gain on the same sentences."""
    points = [
        {"stage": step["after"], "predicted": [row["values"]["thm1"][0] - row["values"]["p"][0], None, None],
         "observed": row["values"]["gain"]}
        for step in run["parameters"]
        for row in step["rows"]
        if row["values"]["thm1"][0] is not None
    ]  # fmt: skip
    return _trusted(painter.scatter(points)) if points else None


def _predicted(painter: Painter, run: Json) -> Any:
    rows = run["predicted"]["rows"] if run["predicted"] else []
    points = [
        {"stage": row["of"], "predicted": row["predicted"], "observed": row["observed"]}
        for row in rows
        if row["predicted"][0] is not None and row["observed"][0] is not None
    ]
    return _trusted(painter.scatter(points)) if points else None


# -- several runs ----------------------------------------------------------------------------------------------


def _over_runs(runs: Sequence[Json]) -> list[Json]:
    """The runs side by side for each stage; if only the seed differs, with mean and deviation."""
    found, first = [], runs[0]["first"]
    everything = [stage for run in runs for stage in run["stages"]]
    unlike = {key: differ(stage[key] for stage in everything) for key in ("valid_hops", "test_hops")}
    for name in dict.fromkeys(stage["name"] for run in runs for stage in run["stages"]):
        mine = [next((stage for stage in run["stages"] if stage["name"] == name), None) for run in runs]
        tests = [stage and (stage["scores"] or {}).get(first.name) for stage in mine]
        for what, digits, key, values in (
            ("validation BLEU", 2, "valid_hops", [stage and stage["best_valid_bleu"] for stage in mine]),
            (f"test {first.heading}", first.digits, "test_hops", tests),
        ):
            if any(value is not None for value in values):
                counts = [len(stage[key]) if stage and unlike[key] else 0 for stage in mine]
                row = {"stage": name, "what": what, "digits": digits, "values": values, "counts": counts}
                found.append({**row, **_spread(values, runs)})
    return found


def _spread(values: Sequence[float | None], runs: Sequence[Json]) -> Json:
    known = [value for value in values if value is not None]
    whole = len(known) == len(values) and _differ_in_seed(runs)
    return {"mean": fmean(known) if whole else None, "deviation": stdev(known) if whole else None}


def _differ_in_seed(runs: Sequence[Json]) -> bool:
    settings = [{**json.loads(run["again"]["resolved"]), "seed": 0, "name": "", "evaluate": {}} for run in runs]
    return len({run["seed"] for run in runs}) == len(runs) > 1 and all(one == settings[0] for one in settings)


# -- numbers ---------------------------------------------------------------------------------------------------


def _thousands(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


def _score(value: float | None, digits: int = 2, sign: bool = False) -> str:
    return "–" if value is None else _rounded(value, digits, sign)


def _estimate(estimate: Sequence[Any] | None, sign: bool = False) -> str:
    if not estimate or estimate[0] is None:
        return "–"
    return _rounded(float(estimate[0]), 3, sign)


def _interval(estimate: Sequence[Any] | None) -> str:
    if not estimate or estimate[0] is None or estimate[1] is None:
        return ""
    low, high = (_rounded(float(end), 2).replace("inf", "∞") for end in estimate[1:])
    return f"{low} to {high}" if "−" in low else f"{low}–{high}"


def _rounded(value: float, digits: int, sign: bool = False) -> str:
    """With a proper minus sign, but none before a zero."""
    return f"{round(value, digits) + 0.0:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def _seconds(value: float) -> str:
    if value < 100:
        return f"{value:.1f} s"
    return f"{value / 60:,.0f} min" if value < 6000 else f"{value / 3600:,.1f} h"
