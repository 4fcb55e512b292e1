"""What a recorded mix gave a direction: how much generated text came by a third language, and how good it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def patterns(stages: Iterable[Json]) -> dict[str, list[tuple[str, float]]]:
    """Paths or patterns with their weights, by stage."""
    listed = (one for one in stages if one["mix"] != "auto")
    return {one["name"]: [_entry(entry) for entry in one["mix"]] for one in listed}


def _entry(entry: Any) -> tuple[str, float]:
    return (entry, 1.0) if isinstance(entry, str) else (entry["path"], float(entry.get("weight", 1)))


def longer_share(
    hop: str, mix: Sequence[tuple[str, float]], rates: Mapping[str, float | None]
) -> dict[str, float] | None:
    """`share` of the generated text that comes by a third language, and by how much more of all of it is right.

    None where no text does, or where the plan did not measure a path.
    """
    source, target = hop.split(">")
    direct = f"{target}>{source}>{target}"
    weights = {path: sum(weight for pattern, weight in mix if matches(pattern, path)) for path in rates}
    used = {path: weight for path, weight in weights.items() if weight}
    known = {path: rate for path, rate in rates.items() if rate is not None}
    if direct not in known or not set(used) - {direct} or not set(used) <= set(known):
        return None
    total = sum(used.values())
    right = sum(weight * known[path] for path, weight in used.items()) / total
    share = 1 - used.get(direct, 0.0) / total
    return {"share": round(share, 4), "ahead": round(right - known[direct], 4)}


def matches(pattern: str, path: str) -> bool:
    """Whether a path is one of a pattern: capitals are languages, unlike one another and those that are named."""
    left, right = pattern.split(">"), path.split(">")
    bound: dict[str, str] = {}
    if len(left) != len(right):
        return False
    same = all(
        bound.setdefault(want, have) == have if want.isupper() else want == have
        for want, have in zip(left, right, strict=True)
    )
    fixed = {one for one in left if not one.isupper()}
    return same and len(set(bound.values())) == len(bound) and not fixed & set(bound.values())
