"""Plots of recorded figures, in colours that can be read on light and on dark pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
from benchmarks.pages.equal_bitext import SIZES
from benchmarks.pages.predictions import OUTCOMES, in_bleu, of_kind
from benchmarks.pages.raw import gain, score
from benchmarks.pages.scores import POOR
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopmt.planning.forecast import VERDICTS

BLUE, ORANGE, GREEN, INK = "#2f81c7", "#d5662a", "#1a9a75", "#7d7d7d"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "svg.hashsalt": "loopmt",
    "svg.fonttype": "none",
    "savefig.transparent": True,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}
STAR = {  # the label of a bar: its scorecard and stage
    "bitext alone": ("europarl-star", "vanilla-longer"),
    "back-translation": ("europarl-star", "back-translation"),
    "dual loops": ("europarl-star", "dual-longer"),
    "three languages, uniform": ("europarl-star", "multi-step"),
    "three languages, chosen": ("europarl-star", "auto"),
    "… on the poor pair alone*": ("europarl-star/seed-3", "poor"),
    "one shared network, dual*": ("europarl-star-shared", "dual"),
}
THIRD = {  # gain of loops over three languages over more dual loops: scorecard, stage, direction
    "48,000 pairs, chosen": ("europarl-48k", "auto", None),
    "48,000 pairs, uniform": ("europarl-48k-uniform", "multi-step", None),
    "100,000 pairs, chosen": ("europarl-100k", "auto", None),
    "100,000 pairs, uniform": ("europarl-100k-uniform", "multi-step", None),
    "100,000 pairs, little text, chosen": ("europarl-100k-50k", "auto", None),
    "48,000 pairs, shared network, chosen": ("europarl-shared", "auto", None),
    "star, fr>es, chosen": ("europarl-star", "auto", "fr>es"),
    "star, es>fr, chosen": ("europarl-star", "auto", "es>fr"),
    "star, fr>es, uniform": ("europarl-star", "multi-step", "fr>es"),
    "star, es>fr, uniform": ("europarl-star", "multi-step", "es>fr"),
    "star, shared network, fr>es, uniform": ("europarl-star-shared", "multi-step", "fr>es"),
    "star, shared network, es>fr, uniform": ("europarl-star-shared", "multi-step", "es>fr"),
}


def draw(folder: Path) -> None:
    with matplotlib.rc_context(STYLE):
        for name, make in PLOTS.items():
            make().savefig(folder / f"{name}.svg", metadata={"Date": None})


def _gains() -> Figure:
    """BLEU by how much bitext there is, and on the poor pair of a star."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    for axes, panel in ((left, _curve), (right, _star)):
        axes.spines[["top", "right"]].set_visible(False)
        panel(axes)
    return figure


def _curve(axes: Axes) -> None:
    for stage, label, colour in (("dual", "dual loops", BLUE), ("vanilla-longer", "as much training without", INK)):
        axes.plot(list(SIZES), [_bleu(name, stage) for name in SIZES.values()], "o-", color=colour, label=label)
    axes.set_xscale("log")
    axes.set_xticks(list(SIZES), [f"{size:,}" for size in SIZES])
    axes.minorticks_off()
    axes.set_ylim(0, 36)
    axes.set_xlabel("sentence pairs of each language pair")
    axes.set_ylabel("BLEU, mean of six directions")
    axes.set_title("The less bitext, the more loops bring", loc="left", fontsize=10)
    axes.legend(frameon=False, loc="lower right")


def _bleu(name: str, stage: str, path: str | None = None) -> float:
    found = score(name, stage, "test", path)
    assert found is not None, (name, stage, path)
    return found


def _star(axes: Axes) -> None:
    """A bar for each way to teach the poor pair; the lines are decoding through English."""
    for row, (name, stage) in enumerate(STAR.values()):
        for place, (hop, colour) in enumerate(zip(POOR, (GREEN, ORANGE), strict=True)):
            _bar(axes, row + 0.36 * place - 0.18, _bleu(name, stage, hop), colour, hop if row == 0 else None)
    for way, colour in (("fr>en>es", GREEN), ("es>en>fr", ORANGE)):
        bleu = _bleu("europarl-star", "auto", way)
        axes.axvline(bleu, color=colour, linestyle="--", linewidth=1, label=f"decoding {way}")
    axes.set_yticks(range(len(STAR)), list(STAR))
    axes.set_ylim(len(STAR) - 0.5, -1.7)
    axes.set_xlim(0, 36)
    axes.set_xlabel("BLEU; 5,000 pairs of fr-es, 100,000 with English; * one seed")
    axes.set_title("Where a pair is poor, a third language helps", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=7, labelspacing=0.3, loc="upper left", bbox_to_anchor=(0.4, 1.03))


def _bar(axes: Axes, place: float, bleu: float, colour: str, label: str | None) -> None:
    axes.barh(place, bleu, 0.34, color=colour, label=label)
    axes.text(bleu - 0.4, place, f"{bleu:.1f}", va="center", ha="right", fontsize=7, color="white")


def _third_language() -> Figure:
    """What a third language adds to dual loops, with 95% intervals."""
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.axvline(0, color=INK, linewidth=0.8)
    for row, (name, stage, hop) in enumerate(THIRD.values()):
        found = gain(name, stage, "dual-longer", "test", hop)
        assert found is not None, name
        spread = [[found.difference - found.low], [found.high - found.difference]]
        axes.errorbar(found.difference, row, xerr=spread, fmt="o", ms=4, color=BLUE if stage == "auto" else ORANGE)
    axes.set_yticks(range(len(THIRD)), list(THIRD))
    axes.set_ylim(len(THIRD) - 0.5, -0.5)
    axes.set_xlabel("BLEU gain over as many updates of dual loops")
    axes.set_title("A third language helps where a pair is poor", loc="left", fontsize=10)
    return figure


def _predicted() -> Figure:
    """How the plan's verdicts ended in BLEU."""
    found = in_bleu(of_kind("vanilla"))
    figure = Figure(figsize=(7, 1.8), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    shown = [verdict for verdict in VERDICTS if any(row["verdict"] == verdict for row in found)]
    for row, verdict in enumerate(shown):
        _outcomes(axes, row, [one["outcome"] for one in found if one["verdict"] == verdict])
    counts = [sum(one["verdict"] == verdict for one in found) for verdict in shown]
    labels = [f"{verdict} ({count})" for verdict, count in zip(shown, counts, strict=True)]
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel("share of predictions, plans on vanilla, outcome in BLEU")
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def _outcomes(axes: Axes, row: int, ended: list[str]) -> None:
    left = 0.0
    for outcome, colour in zip(OUTCOMES, (GREEN, INK, ORANGE), strict=True):
        share = ended.count(outcome) / len(ended)
        axes.barh(row, share, 0.6, left=left, color=colour, label=outcome if row == 0 else None)
        left += share


PLOTS: Mapping[str, Callable[[], Figure]] = {
    "gains": _gains,
    "third-language": _third_language,
    "predicted": _predicted,
}
