"""Draw the pictures of docs/theory.md: `python docs/images/draw_theory.py [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse, FancyArrowPatch, FancyBboxPatch

INK, BLUE, ORANGE, GREEN, RED, GREY, PALE = (
    "#222222",
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#888888",
    "#f5f5f2",
)
STYLE: dict[Any, Any] = {"font.size": 10, "svg.hashsalt": "loopmt", "svg.fonttype": "none"}

LABEL = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A blank page measured in tenths of an inch."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width * 10)
    axes.set_ylim(0, height * 10)
    axes.axis("off")
    return figure, axes


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    bend: float = 0.0,
    dashed: bool = False,
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=12, linewidth=1.6,
            color=colour, linestyle="--" if dashed else "-", shrinkA=3, shrinkB=3,
        )
    )  # fmt: skip


def text(axes: Axes, x: float, y: float, words: str, colour: str = INK, size: float = 10, **more: Any) -> None:
    axes.text(x, y, words, color=colour, fontsize=size, **({"ha": "center", "va": "center"} | more))


def cluster(axes: Axes, x: float, y: float, name: str, colour: str) -> list[tuple[float, float]]:
    """A meaning: an ellipse with three sentences in it; returns where they are."""
    axes.add_patch(Ellipse((x, y), 11, 6.4, facecolor=colour, alpha=0.16, edgecolor=colour, linewidth=1.2))
    text(axes, x, y + 4.3, name, colour, 9)
    places = [(x - 3, y - 0.4), (x, y + 1.1), (x + 3, y - 0.6)]
    for place in places:
        axes.add_patch(Circle(place, 0.5, color=INK))
    return places


def language_spaces() -> Figure:
    """Two language spaces, their clusters, the oracle, one right and one wrong translation."""
    figure, axes = canvas(7.4, 4.2)
    for x, name in ((3, "S1"), (49, "S2")):
        axes.add_patch(
            FancyBboxPatch((x, 3), 22, 35, boxstyle="round,pad=0,rounding_size=3", facecolor=PALE, edgecolor=GREY)
        )
        text(axes, x + 11, 39.6, name, INK, 12, fontweight="bold")
    heights, colours = (31, 20, 9), (BLUE, GREEN, ORANGE)
    left = [cluster(axes, 14, y, f"meaning {i + 1}", c) for i, (y, c) in enumerate(zip(heights, colours, strict=True))]
    right = [cluster(axes, 60, y, f"meaning {i + 1}", c) for i, (y, c) in enumerate(zip(heights, colours, strict=True))]
    for y, colour in zip(heights, colours, strict=True):
        arrow(axes, (20, y), (54, y), colour, dashed=True)
    text(axes, 37, 32.6, "oracle: a bijection of meanings", GREY, 9, style="italic")
    arrow(axes, left[1][2], right[1][0], INK, bend=-0.22)
    text(axes, 37, 25.6, "T12 right: any sentence of it will do", INK, 9)
    arrow(axes, left[2][2], right[1][0], RED, bend=0.1)
    text(axes, 37, 6.6, "T12 wrong: another meaning", RED, 9)
    return figure


def node(axes: Axes, x: float, y: float, name: str, colour: str = INK) -> None:
    axes.add_patch(Circle((x, y), 3.2, facecolor="white", edgecolor=colour, linewidth=1.8, zorder=3))
    text(axes, x, y, name, colour, 11, fontweight="bold", zorder=4)


def loops() -> Figure:
    """The dual loop, the triangle and a longer loop; every hop but the last generates."""
    figure, axes = canvas(8.6, 3.6)
    titles = ((14, "dual learning, K = 2"), (43, "triangle, K = 3"), (72, "a loop of K steps"))
    for x, title in titles:
        text(axes, x, 33, title, INK, 11, fontweight="bold")
    _ring(axes, [(6, 17), (22, 17)], ["1", "2"], [("q1", 0, 3.9), ("q2", 0, -3.9)], bend=-0.45)
    _ring(
        axes,
        [(35, 11), (43, 25), (51, 11)],
        ["1", "2", "3"],
        [("q1", -3, 1.5), ("q2", 3, 1.5), ("q3", 0, -2.2)],
    )
    _ring(
        axes, [(61, 12), (64, 23), (75, 26), (81, 17), (72, 9.5)], ["1", "2", "3", "...", "K"],
        [("q1", -2.7, 0.6), ("q2", -0.8, 2.6), ("q3", 2.4, 1.8), ("", 0, 0), ("qK", -0.4, -2.6)],
    )  # fmt: skip
    text(axes, 14, 3.2, "informative if\n(1-q2)/q2 < 1/delta", GREY, 9)
    text(axes, 43, 3.2, "informative if\n(1-q2)/q2 + (1-q3)/q3 < 1/delta", GREY, 9)
    text(axes, 72, 3.2, "the helpers' error odds\nsum to less than 1/delta", GREY, 9)
    return figure


def _ring(
    axes: Axes,
    places: list[tuple[float, float]],
    names: list[str],
    labels: list[tuple[str, float, float]],
    bend: float = 0.0,
) -> None:
    """Nodes in a ring; the first hop is the translator of interest, the others help."""
    for i, (here, there) in enumerate(zip(places, places[1:] + places[:1], strict=True)):
        dx, dy = there[0] - here[0], there[1] - here[1]
        unit = (dx**2 + dy**2) ** 0.5
        start = (here[0] + 3.2 * dx / unit, here[1] + 3.2 * dy / unit)
        end = (there[0] - 3.2 * dx / unit, there[1] - 3.2 * dy / unit)
        colour = BLUE if i == 0 else INK
        arrow(axes, start, end, colour, bend=bend)
        name, x, y = labels[i]
        text(axes, (here[0] + there[0]) / 2 + x, (here[1] + there[1]) / 2 + y, name, colour, 10)
    for (x, y), name in zip(places, names, strict=True):
        node(axes, x, y, name)


def box(axes: Axes, x: float, y: float, width: float, words: str, colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            6,
            boxstyle="round,pad=0,rounding_size=1",
            facecolor=colour,
            alpha=0.16,
            edgecolor=colour,
        )
    )
    text(axes, x + width / 2, y + 3, words, INK, 9)


def cases() -> Figure:
    """The four cases before training, and where the parameters send them."""
    figure, axes = canvas(8.2, 4.0)
    text(axes, 14, 38, "before", INK, 11, fontweight="bold")
    text(axes, 67, 38, "after", INK, 11, fontweight="bold")
    left = ("c11: right, home", "c12: wrong, home (blind)", "c21: right, lost", "c22: wrong, lost")
    right = ("right, home", "wrong, home", "right, lost", "wrong, lost")
    for i, colour in enumerate((GREEN, RED, ORANGE, GREY)):
        box(axes, 2, 29 - 9 * i, 24, left[i], colour)
        box(axes, 56, 29 - 9 * i, 22, right[i], colour)
    for start, end, colour, bend in (
        ((26, 32), (56, 32), GREEN, 0.0),
        ((26, 30.5), (56, 23.6), RED, 0.0),
        ((26, 23), (56, 23), RED, 0.0),
        ((26, 24.5), (56, 30.6), GREEN, 0.0),
    ):
        arrow(axes, start, end, colour, bend, dashed=start[1] in (30.5, 24.5))
    text(axes, 32, 29.1, "u11", RED, 9, bbox=LABEL)
    text(axes, 32, 25.7, "u12", GREEN, 9, bbox=LABEL)
    axes.plot([27, 28.5, 28.5, 27], [17, 17, 2, 2], color=INK, linewidth=1.2)
    text(axes, 31.5, 9.5, "c2", INK, 11, fontweight="bold")
    for height, name, colour in (
        (30, "alpha", GREEN),
        (21.4, "beta", RED),
        (14, "kappa", ORANGE),
        (5, "gamma - kappa", GREY),
    ):
        arrow(axes, (34, 9.5), (56, height), colour)
        text(axes, 46, 9.5 + (height - 9.5) * 12 / 22, name, colour, 9, bbox=LABEL)
    return figure


PICTURES = {"language-spaces": language_spaces, "loops": loops, "cases": cases}


def main(folder: Path) -> None:
    with matplotlib.rc_context(STYLE):
        for name, draw in PICTURES.items():
            draw().savefig(folder / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
