"""Small SVG pictures to inline. Their colours are CSS variables, so that they follow the dark mode of the page.

matplotlib cannot write CSS variables: it draws placeholder colours, which are replaced afterwards.
"""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from loopmt.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = 8
"""Stages have so many colours, then they come again."""
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_INK, _MUTED, _GRID = "#020001", "#020002", "#020003"
_VARIABLES = {_INK: "--ink", _MUTED: "--muted", _GRID: "--rule"}
_VARIABLES |= {f"#0100{number:02x}": f"--s{number}" for number in range(COLOURS)}
_STYLE: dict[Any, Any] = {
    "font.size": 10.5,
    "text.color": _MUTED,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "lines.linewidth": 1.7,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "loopmt",
    "axes.formatter.limits": (-3, 6),
}
Lines = Mapping[str, Sequence[Sequence[float]]]
"""Points [x, y] or [x, y, low, high] by stage."""


def require_extra() -> None:
    missing = [name for name in ("matplotlib", "jinja2") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f'A report needs {" and ".join(missing)}: pip install "loopmt[report]".')


class Painter:
    """Draws the pictures of a page. A stage has the same colour in all of them, and ids are unique."""

    def __init__(self, stages: Sequence[str]) -> None:
        require_extra()
        self.numbers = {stage: number for number, stage in enumerate(stages)}
        self._pictures = count(1)

    def curves(self, lines: Lines, top: float | None = None, bottom: float | None = None) -> str:
        """Lines over updates."""
        with self._canvas("updates") as (axes, svg):
            for stage, points in lines.items():
                x, y = ([point[place] for point in points] for place in (0, 1))
                mark = "o" if len(points) < 40 else None
                axes.plot(x, y, **self._look(stage), marker=mark, markersize=3.2)
            axes.set_ylim(bottom=bottom, top=top)
            axes.set_xlim(left=0)
            axes.locator_params(axis="x", nbins=5, integer=True)
        return svg[0]

    def thresholds(self, lines: Lines, exact: Mapping[str, float | None]) -> str:
        """Accuracy over sentence BLEU with its interval; exact accuracy is a mark at the right edge."""
        with self._canvas("sentence BLEU above") as (axes, svg):
            for stage, points in lines.items():
                x, y, low, high = ([point[place] for point in points] for place in range(4))
                look = self._look(stage)
                axes.plot(x, y, **look)
                axes.fill_between(x, low, high, color=look["color"], alpha=0.14, linewidth=0)
            for stage, level in exact.items():
                if level is not None:
                    axes.plot([92, 99], [level, level], color=self._colour(stage), linewidth=3, solid_capstyle="butt")
            axes.set_xlim(8, 100)
            axes.set_ylim(0, 1)
            axes.set_xticks([10, 30, 50, 70, 90])
        return svg[0]

    def scatter(self, points: Sequence[Mapping[str, Any]]) -> str:
        """Predicted (x) against observed (y), each [value, low, high]; the line marks agreement."""
        with self._canvas("predicted gain", size=(340, 300)) as (axes, svg):
            axes.axline((0, 0), slope=1, color=_MUTED, linewidth=1, linestyle=(0, (4, 3)))
            for level in (axes.axhline, axes.axvline):
                level(0, color=_GRID, linewidth=1)
            for point in points:
                colour = self._colour(point["stage"])
                _cross(axes, point["predicted"], point["observed"], colour)
            axes.set_ylabel("observed gain", labelpad=2)
            axes.grid(visible=True, axis="both")
        return svg[0]

    def _colour(self, stage: str) -> str:
        return f"#0100{self.numbers[stage] % COLOURS:02x}"

    def _look(self, stage: str) -> dict[str, Any]:
        return {"color": self._colour(stage), "linestyle": DASHES[self.numbers[stage] % len(DASHES)]}

    @contextmanager
    def _canvas(self, label: str, size: tuple[int, int] = (300, 185)) -> Iterator[tuple[Axes, list[str]]]:
        """Axes to draw on; at the end of the block the picture joins the list."""
        import matplotlib
        from matplotlib.figure import Figure

        svg: list[str] = []
        with matplotlib.rc_context(_STYLE):
            figure = Figure(figsize=(size[0] / 72, size[1] / 72))
            width, height = size
            left = 52 if width > 300 else 42
            axes = figure.add_axes((left / width, 34 / height, (width - left - 12) / width, (height - 44) / height))
            axes.set_xlabel(label, labelpad=2)
            yield axes, svg
            svg.append(self._inlined(figure))

    def _inlined(self, figure: Figure) -> str:
        """The drawing without the XML prolog, with unique ids and the page's colours and fonts."""
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        text = file.getvalue()
        text = text[text.index("<svg") :]
        head, body = text.split(">", 1)
        body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
        own = f"p{next(self._pictures)}-"
        body = re.sub(r'(\bid=")', rf"\1{own}", body)
        body = re.sub(r'(url\(|xlink:href=")#', rf"\1#{own}", body).replace("xlink:href", "href")
        body = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px var(--sans)", body)
        body = re.sub(r"#0[12]00[0-9a-f]{2}", lambda found: f"var({_VARIABLES[found[0]]})", body)
        box = re.search(r'viewBox="[^"]*"', head)
        assert box is not None
        return f'<svg {box[0]} aria-hidden="true">{body}'


def _cross(axes: Axes, predicted: Sequence[Any], observed: Sequence[Any], colour: str) -> None:
    x, y = float(predicted[0]), float(observed[0])
    for (_, low, high), across in ((predicted, True), (observed, False)):
        if low is not None and high is not None:
            ends = [float(low), float(high)]
            axes.plot(ends if across else [x, x], [y, y] if across else ends, color=colour, linewidth=0.9, alpha=0.55)
    axes.plot([x], [y], marker="o", markersize=5, color=colour, linestyle="none")
