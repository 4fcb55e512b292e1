"""Draw what loops bring, from the raw files in docs/results: `python docs/images/draw_results.py [FOLDER]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, RED, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#888888"
STYLE: dict[Any, Any] = {"font.size": 9, "svg.hashsalt": "loopmt", "svg.fonttype": "none"}
RESULTS = Path(__file__).parents[1] / "results"
SIZES = {5_000: "europarl-5000", 20_000: "europarl-20000", 48_000: "europarl-48k", 100_000: "europarl-100k"}
POOR = ("fr>es", "es>fr")
STAR = {  # what a bar says: where its figures are, and of which stage
    "bitext alone": ("europarl-star/scores", "vanilla-longer"),
    "back-translation": ("europarl-star/scores", "back-translation"),
    "dual loops": ("europarl-star/scores", "dual-longer"),
    "three languages, uniform": ("europarl-star/scores", "multi-step"),
    "three languages, chosen": ("europarl-star/scores", "auto"),
    "… on the poor pair alone*": ("europarl-star/seed-3", "poor"),
    "one shared network, dual*": ("europarl-star-shared/scores", "dual"),
}


def test_of(name: str, stage: str) -> dict[str, Any]:
    """What a recorded stage reached on `test`."""
    card = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    sets: dict[str, dict[str, Any]] = card.get("scorecard", card)["stages"][stage]["sets"]
    return sets["test"]


def curve(axes: Axes) -> None:
    """BLEU by how much bitext there is, with loops and without."""
    for stage, words, colour in (("dual", "dual loops", BLUE), ("vanilla-longer", "as much training without", GREY)):
        bleu = [test_of(f"{folder}/scores", stage)["mean"]["multi_bleu"] for folder in SIZES.values()]
        axes.plot(list(SIZES), bleu, "o-", color=colour, label=words)
    axes.set_xscale("log")
    axes.set_xticks(list(SIZES), [f"{size:,}" for size in SIZES])
    axes.minorticks_off()
    axes.set_ylim(0, 36)
    axes.set_xlabel("pairs of sentences for each pair of languages")
    axes.set_ylabel("BLEU, mean of six directions")
    axes.set_title("The less bitext, the more loops bring", loc="left", fontsize=10)
    axes.legend(frameon=False, loc="lower right")


def star(axes: Axes) -> None:
    """The poor pair of a star, by what it was taught with; the line is decoding through English."""
    for row, (name, stage) in enumerate(STAR.values()):
        directions = test_of(name, stage)["directions"]
        for place, (direction, colour) in enumerate(zip(POOR, (GREEN, RED), strict=True)):
            bleu = directions[direction]["multi_bleu"]
            label = direction if row == 0 else None
            axes.barh(row + 0.36 * place - 0.18, bleu, 0.34, color=colour, label=label)
            axes.text(
                bleu - 0.4, row + 0.36 * place - 0.18, f"{bleu:.1f}", va="center", ha="right", fontsize=7, color="white"
            )
    pivots = test_of("europarl-star/scores", "auto")["pivots"]
    for way, colour in (("fr>en>es", GREEN), ("es>en>fr", RED)):
        axes.axvline(pivots[way]["multi_bleu"], color=colour, linestyle="--", linewidth=1, label=f"decoding {way}")
    axes.set_yticks(range(len(STAR)), list(STAR))
    axes.set_ylim(len(STAR) - 0.5, -0.9)
    axes.set_xlim(0, 36)
    axes.set_xlabel("BLEU; 5,000 pairs of fr-es, 100,000 with English; * one seed")
    axes.set_title("Where a pair is poor, a third language helps", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=7, labelspacing=0.3, loc="upper left", bbox_to_anchor=(0.4, 1.0))


def gains() -> Figure:
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    for axes, draw in ((left, curve), (right, star)):
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
    return figure


def main(folder: Path) -> None:
    with matplotlib.rc_context(STYLE):
        gains().savefig(folder / "gains.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
