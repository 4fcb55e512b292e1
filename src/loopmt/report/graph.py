"""The graph of languages: positions of circles, arrows and loops. Edges are translators, coloured by quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from loopmt.path import LanguagePath
from loopmt.run import Json

WIDTH = 320.0
BANDS = 5
_NODE = 21.0
_RADIUS = 112.0
_BEND = 18.0  # of an arrow, to its left
_LABEL = 0.33  # of the way: in the middle, labels of arrows that cross would meet
_MOST_LOOPS = 12
Point = tuple[float, float]


def graph(stage: Json, languages: Sequence[str], quality: Mapping[str, float], limits: tuple[float, float]) -> Json:
    """One stage: its translators and the loops it follows."""
    places = circle(languages)
    loops = [LanguagePath.parse(loop) for loop in stage["loops"]]
    heights = [y for _, y in places.values()]
    top, bottom = min(heights) - _NODE - 14, max(heights) + _NODE + 14
    return {
        "box": f"0 {top:.0f} {WIDTH:.0f} {bottom - top:.0f}",
        "nodes": [{"name": name, "x": round(x, 1), "y": round(y, 1)} for name, (x, y) in places.items()],
        "edges": [
            {"hop": hop, "value": quality.get(hop), "band": band(quality.get(hop), limits), **_edge(hop, places)}
            for hop in dict.fromkeys((*stage["hops"], *quality))
        ],
        "loops": [
            {"path": str(loop), **_loop(loop, places, number)} for number, loop in enumerate(loops[:_MOST_LOOPS])
        ],
        "more_loops": max(0, len(loops) - _MOST_LOOPS),
    }


def circle(languages: Sequence[str]) -> dict[str, Point]:
    """Languages on a circle, the first at the top; two lie side by side."""
    turns = [2 * math.pi * number / len(languages) for number in range(len(languages))]
    first = math.pi if len(languages) == 2 else -math.pi / 2
    points = [(math.cos(first + turn), math.sin(first + turn)) for turn in turns]
    return {name: (WIDTH / 2 + 1.08 * _RADIUS * x, _RADIUS * y) for name, (x, y) in zip(languages, points, strict=True)}


def limits_of(qualities: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """From 0 or the lowest to the highest value, in round numbers."""
    values = [value for quality in qualities for value in quality.values()]
    if not values:
        return 0.0, 100.0
    step = 5.0 if max(values) - min(values) > 5 else 1.0
    low, high = math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step
    return low, max(high, low + step)


def band(value: float | None, limits: tuple[float, float]) -> int | None:
    if value is None:
        return None
    low, high = limits
    return min(BANDS - 1, max(0, int(BANDS * (value - low) / (high - low))))


def _edge(hop: str, places: Mapping[str, Point]) -> Json:
    """An arc from rim to rim with an arrowhead; the label is on the arc."""
    (x1, y1), (x2, y2) = (places[name] for name in hop.split(">"))
    length = math.hypot(x2 - x1, y2 - y1)
    aside = (y2 - y1) / length, -(x2 - x1) / length
    middle = ((x1 + x2) / 2, (y1 + y2) / 2)
    control = _move(middle, aside, 2 * _BEND)
    start, end = _towards((x1, y1), control, _NODE + 2), _towards((x2, y2), control, _NODE + 9)
    tip = _towards((x2, y2), control, _NODE + 2)
    label = _on_arc(start, control, end, _LABEL)
    return {
        "arc": f"M{_at(start)} Q{_at(control)} {_at(end)}",
        "head": _head(end, tip),
        "x": round(label[0], 1),
        "y": round(label[1], 1),
    }


def _loop(loop: LanguagePath, places: Mapping[str, Point], number: int) -> Json:
    """The loop of a pair is between its two arrows; a longer one is a rounded polygon inside the circle."""
    corners = [places[name] for name in loop.languages[:-1]]
    centre = sum(x for x, _ in corners) / len(corners), sum(y for _, y in corners) / len(corners)
    if len(corners) == 2:
        return _ellipse(*corners)
    inner = [_between(centre, corner, 0.43 - 0.13 * (number % 2)) for corner in corners]
    middles = [_between(one, other, 0.5) for one, other in zip(inner, [*inner[1:], inner[0]], strict=True)]
    curve = " ".join(f"Q{_at(inner[place])} {_at(middles[place])}" for place in [*range(1, len(inner)), 0])
    back = _between(inner[0], inner[1], 0.5 - 9 / math.dist(inner[0], inner[1]))
    return {"curve": f"M{_at(middles[0])} {curve}Z", "head": _head(back, middles[0], 3.6)}


def _ellipse(one: Point, other: Point) -> Json:
    (x1, y1), (x2, y2) = one, other
    angle, half = math.atan2(y2 - y1, x2 - x1), math.dist(one, other) / 2 - _NODE - 14
    middle = ((x1 + x2) / 2, (y1 + y2) / 2)
    left, right = (_move(middle, (math.cos(angle), math.sin(angle)), sign * half) for sign in (-1, 1))
    turn = f"A{half:.1f} 6 {math.degrees(angle):.1f} 0 1"
    top = _move(middle, (math.sin(angle), -math.cos(angle)), 6)
    heading = (math.cos(angle), math.sin(angle))
    return {
        "curve": f"M{_at(left)} {turn} {_at(right)} {turn} {_at(left)}Z",
        "head": _head(_move(top, heading, -4), _move(top, heading, 5), 3.6),
    }


def _head(back: Point, tip: Point, width: float = 4.4) -> str:
    length = math.dist(back, tip) or 1.0
    aside = (tip[1] - back[1]) / length, -(tip[0] - back[0]) / length
    return " ".join(_at(point) for point in (_move(back, aside, width), tip, _move(back, aside, -width)))


def _move(point: Point, direction: Point, by: float) -> Point:
    return point[0] + by * direction[0], point[1] + by * direction[1]


def _towards(start: Point, end: Point, by: float) -> Point:
    return _between(start, end, by / math.dist(start, end))


def _between(start: Point, end: Point, share: float) -> Point:
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _on_arc(start: Point, control: Point, end: Point, share: float) -> Point:
    return _between(_between(start, control, share), _between(control, end, share), share)


def _at(point: Point) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"
