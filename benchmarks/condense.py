"""What is kept of recorded runs: scores at full precision, of each difference [difference, low, high].

A scorecard also holds per comparison what follows from the rest (both scores, the number of samples), and a plan its
curves. `docs/results/` keeps neither.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_STAGE = ("result", "update", "valid_bleu", "seconds", "spent")
_PLAN = ("experiment", "seed", "stage", "set", "sentences", "beam", "rule", "threshold", "pilot_updates")


def scorecard(card: Json) -> Json:
    """A scorecard as `loopmt evaluate` writes it, without what follows from the rest."""
    head: Json = {name: card[name] for name in ("experiment", "regime", "languages", "seeds", "beam") if name in card}
    return {
        **head,
        **({"signatures": card["signatures"]} if "signatures" in card else {}),
        "bootstrap": _bootstrap(card["comparisons"]),
        "stages": {name: _stage(one) for name, one in card["stages"].items()},
        "comparisons": [_comparison(one) for one in card["comparisons"]],
    }


def plan(found: Json) -> Json:
    """A plan: every loop's verdict and values, what its pilot saw, how much is right at every threshold."""
    return {
        **{name: found[name] for name in _PLAN},
        "directions": {hop: _outlook(one) for hop, one in found["directions"].items()},
        **{name: found[name] for name in ("zero_resource", "routes", "mix") if found.get(name)},
        "right": {loop: {one["rule"]: one["p"][0] for one in rows} for loop, rows in found["grid"].items()},
    }


def write(file: Path, content: Any, depth: int = 3) -> None:
    """JSON with a line for each entry down to `depth`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lines(content, depth) + "\n", encoding="utf-8")


def lines(content: Any, depth: int, indent: str = "\n") -> str:
    if not depth or not content or not isinstance(content, dict | list):
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    inner = indent + " "
    if isinstance(content, list):
        return f"[{inner}{f',{inner}'.join(lines(one, depth - 1, inner) for one in content)}{indent}]"
    entries = [f"{json.dumps(key)}: {lines(one, depth - 1, inner)}" for key, one in content.items()]
    return f"{{{inner}{f',{inner}'.join(entries)}{indent}}}"


def _bootstrap(comparisons: list[Json]) -> Json:
    """The samples and the level of all intervals."""
    found = [interval for one in comparisons for interval in one["joint"].values()]
    return {name: found[0][name] for name in ("samples", "level")} if found else {}


def _stage(one: Json) -> Json:
    about = {name: one[name] for name in _STAGE if name in one}
    if "sets" not in one:
        return {**about, **{name: one[name] for name in ("mean", "directions") if name in one}}
    return {**about, "sets": {name: _set(scores) for name, scores in one["sets"].items()}}


def _set(scores: Json) -> Json:
    """Scores of a test set; a pivot has its difference to the direct translator."""
    pivots = {
        path: {**found, **({"over_direct": _gains(found["over_direct"])} if found.get("over_direct") else {})}
        for path, found in scores.get("pivots", {}).items()
    }
    return {**scores, **({"pivots": pivots} if pivots else {})}


def _comparison(one: Json) -> Json:
    """Sets if the card has them: all sets together are of no use to a table."""
    about = {name: one[name] for name in ("of", "against", "tuned") if one.get(name)}
    if "sets" in one:
        return {**about, "sets": {name: _gains_of_set(found) for name, found in one["sets"].items()}}
    return {**about, **_gains_of_set(one)}


def _gains_of_set(found: Json) -> Json:
    directions = {hop: _gains(gains) for hop, gains in found["directions"].items()}
    return {"joint": _gains(found["joint"]), "directions": directions}


def _gains(gains: Json) -> Json:
    return {metric: [one[key] for key in ("difference", "low", "high")] for metric, one in gains.items()}


def _outlook(one: Json) -> Json:
    return {**{name: one[name] for name in one if name not in ("loops", "pivots")}, "loops": _loops(one["loops"])}


def _loops(loops: list[Json]) -> list[Json]:
    names = ("loop", "verdict", "reason", "values", "gamma_star", "pilot")
    return [{name: one[name] for name in names if one.get(name) is not None} for one in loops]
