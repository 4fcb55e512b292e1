"""Four plots of the gain: against delta, r, the length of the loop, and the accuracy of the pivots."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loopmt.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Record = dict[str, Any]

INK, BLUE, ORANGE, GREEN, RED, GREY = "#222222", "#0072b2", "#e69f00", "#009e73", "#d55e00", "#888888"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
    "svg.hashsalt": "loopmt",
    "svg.fonttype": "none",
}


def require_matplotlib() -> None:
    """Raise an error before the work if matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError(
            'pictures need matplotlib, which is not installed. Install it: pip install "loopmt[report]", or use '
            "--no-pictures."
        )


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Draw all plots into the folder, as PNG and SVG."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    painters = {
        "gain-delta": _delta,
        "gain-r": _back,
        "gain-length": _length,
        "gain-pivots": _pivots,
    }
    paths = []
    with matplotlib.rc_context(STYLE):
        for name, paint in painters.items():
            figure = Figure(figsize=(6.4, 4.2), layout="constrained")
            paint(figure.subplots(), report)
            for path in (folder / f"{name}.png", folder / f"{name}.svg"):
                figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
                paths.append(path)
    return paths


def _delta(axes: Axes, report: dict[str, Any]) -> None:
    _formulas(axes, report["delta"], "delta")
    _label(axes, "Blind errors: dual learning against delta", "delta, the chance that two errors return")


def _back(axes: Axes, report: dict[str, Any]) -> None:
    _formulas(axes, report["r"], "r")
    _label(axes, "The way back: dual learning against r", "r, accuracy of the way back on machine output")


def _formulas(axes: Axes, finding: dict[str, Any], x: str) -> None:
    """The measured gain with its spread over worlds, and the predictions of the formulas for the same runs."""
    rows = sorted((row for row in finding["rows"] if row[x] is not None), key=lambda row: row[x])
    place = [row[x] for row in rows]
    groups = [[record for record in finding["records"] if record["value"] == row["value"]] for row in rows]
    _line(axes, place, groups, "gain", "measured", INK, "o")
    for name, title, colour, style in (
        ("theorem1_error", "Theorem 1, alpha measured", BLUE, "--"),
        ("hypothesis_h_error", "hypothesis H, gamma measured", ORANGE, "-."),
    ):
        axes.plot(place, [row["gain"] + row[name] for row in rows], style, color=colour, label=title)


def _length(axes: Axes, report: dict[str, Any]) -> None:
    records = report["length"]["records"]
    for pivots, colour, mark in zip(sorted({r["pivots"] for r in records}), (ORANGE, BLUE), "so", strict=True):
        lengths = sorted({r["length"] for r in records})
        groups = [[r for r in records if (r["pivots"], r["length"]) == (pivots, k)] for k in lengths]
        _line(axes, lengths, groups, "gain", f"measured, helpers at {pivots:g}", colour, mark)
        promised = [np.mean([record["hypothesis_h"] for record in group]) for group in groups]
        axes.plot(lengths, promised, "--", color=colour, alpha=0.7, label="predicted by hypothesis H")
    axes.set_xticks(lengths)
    _label(axes, "Length: one loop alone, from the same start", "K, steps in the loop")


def _pivots(axes: Axes, report: dict[str, Any]) -> None:
    records = [record for record in report["triangle"]["records"] if record["dependence"] == "some"]
    accuracies = sorted({record["pivots"] for record in records})
    groups = [[record for record in records if record["pivots"] == accuracy] for accuracy in accuracies]
    for name, title, colour, mark in (
        ("on_top", "triangle on top of dual", GREEN, "^"),
        ("together", "triangle together with dual", BLUE, "s"),
        ("instead", "triangle instead of dual", RED, "o"),
        ("dual", "dual", INK, "D"),
        ("dual_longer", "dual, twice as long", GREY, "v"),
    ):
        _line(axes, accuracies, groups, name, title, colour, mark)
    crossing = _crossing(accuracies, [np.mean([r["q23_q31"] - r["r"] for r in group]) for group in groups])
    if crossing is not None:
        axes.axvline(crossing, color=RED, linestyle=":", linewidth=1)
        axes.annotate(
            "q23 q31 = r", (crossing, 0.03), xycoords=("data", "axes fraction"), color=RED, ha="right",
            xytext=(-4, 0), textcoords="offset points",
        )  # fmt: skip
    _label(axes, "A third language: which loop, by the accuracy of the pivots", "accuracy of the pivots")


def _crossing(places: list[float], margins: Iterable[float]) -> float | None:
    """The place where a rising margin crosses zero, interpolated."""
    values = list(margins)
    for (a, u), (b, v) in zip(zip(places, values, strict=True), zip(places[1:], values[1:], strict=True), strict=False):
        if u <= 0 < v:
            return float(a + (b - a) * -u / (v - u))
    return None


def _line(
    axes: Axes, place: list[float], groups: list[list[Record]], name: str, title: str, colour: str, mark: str
) -> None:
    """The mean over worlds, with one standard error on each side."""
    table = [[record[name] for record in group] for group in groups]
    mean = np.array([np.mean(row) for row in table])
    error = np.array([np.std(row) / np.sqrt(len(row)) for row in table])
    axes.plot(place, mean, marker=mark, markersize=5, color=colour, label=title)
    axes.fill_between(place, mean - error, mean + error, color=colour, alpha=0.12, linewidth=0)


def _label(axes: Axes, title: str, x: str) -> None:
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel("gain in accuracy of 1>2")
    axes.legend(fontsize=9)
