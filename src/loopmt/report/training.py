"""Reads metrics.jsonl of a stage: curves, time by activity, counts of filters and alarms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from loopmt.evaluation.means import differ, validated
from loopmt.run import Json

MEAN = "mean"
_MOST_POINTS = 400  # of one line
Series = dict[str, list[list[float]]]
"""Points [x, y] by stage."""


def curves(
    records: Mapping[str, Sequence[Json]], starts: Mapping[str, int], parents: Mapping[str, str | None]
) -> dict[str, Any]:
    """By quantity, then by direction where it has one, then by stage; x counts updates along the tree."""
    valid = {name: [row for row in rows if row["kind"] == "valid"] for name, rows in records.items()}
    train = {name: [row for row in rows if row["kind"] == "train"] for name, rows in records.items()}
    hops = dict.fromkeys(hop for rows in valid.values() for row in rows for hop in row["bleu"])
    quantities = ("bleu", "accuracy", "loss")

    def by_hop(quantity: str, hop: str | None) -> Series:
        found = _series(valid, starts, lambda row: row[quantity].get(hop) if hop else _heard(row, quantity))
        return {
            name: [*_last(found, parents[name] if hop or joined(name) else None), *points]
            for name, points in found.items()
        }

    def joined(name: str) -> bool:
        """A mean goes on from its parent's only if both are of the same directions: else it seems to fall or rise."""
        parent = parents[name]
        return parent is not None and not differ(validated(rows[-1]) for rows in (valid[name], valid[parent]) if rows)

    return {
        **{quantity: {hop or MEAN: by_hop(quantity, hop) for hop in (None, *hops)} for quantity in quantities},
        "train_loss": _series(train, starts, lambda row: _mean(row["loss"])),
        "tokens_per_second": _series(train, starts, lambda row: row["tokens_per_second"]),
        "generate_share": _series(train, starts, lambda row: row["generate_share"]),
    }


def _series(records: Mapping[str, Sequence[Json]], starts: Mapping[str, int], value: Any) -> Series:
    found: Series = {}
    for name, rows in records.items():
        points = [[starts[name] + row["update"], y] for row in rows if (y := value(row)) is not None]
        if points:
            found[name] = thinned(points)
    return found


def _last(series: Series, parent: str | None) -> list[list[float]]:
    """The last value of the parent, from which the curve of a stage starts."""
    return series[parent][-1:] if parent in series else []


def thinned(points: list[list[float]]) -> list[list[float]]:
    """Means of neighbouring points where there are more than a picture can show."""
    size = -(-len(points) // _MOST_POINTS)
    parts = (points[start : start + size] for start in range(0, len(points), size))
    return [[fmean(column) for column in zip(*part, strict=True)] for part in parts]


def _heard(row: Json, quantity: str) -> float | None:
    """The mean of a validation as in the log, without directions that a shared network was not taught."""
    if (own := row.get(f"mean_{quantity}")) is not None:
        return float(own)
    return _mean({hop: row[quantity][hop] for hop in validated(row) if hop in row[quantity]})  # of a loss it has none


def _mean(values: Mapping[str, float]) -> float | None:
    return fmean(values.values()) if values else None


# -- time ------------------------------------------------------------------------------------------------------


def spending(name: str, records: Sequence[Json]) -> Json:
    """Seconds and tokens of one stage. For an unfinished one so far, with validation counted as learning."""
    train = [row for row in records if row["kind"] == "train"]
    end = next((row for row in records if row["kind"] == "end"), None)
    watched = sum(row["seconds"] for row in train)
    generated = sum(row["seconds"] * row["generate_share"] for row in train)
    seconds = end["seconds"] if end else {"generate": generated, "train": watched - generated, "validate": 0.0}
    total, target = sum(seconds.values()), sum(row["seconds"] * row["tokens_per_second"] for row in train)
    said = sum(row["generated_tokens"] for row in train)
    return {
        "stage": name,
        "finished": end is not None,
        "seconds": seconds,
        "total": total,
        "shares": {part: spent / total if total else 0.0 for part, spent in seconds.items()},
        "target_tokens": target,
        "tokens_per_second": target / watched if watched else None,
        "generated_per_second": said / seconds["generate"] if said and seconds["generate"] else None,
        **{
            what: _middle(train, what)
            for what in ("learnt_per_second", "source_padding", "padding", "updates_per_round")
        },
        "first_update": next((row["first_update"] for row in train if row.get("first_update")), None),
    }


def _middle(rows: Sequence[Json], what: str) -> float | None:
    """The mean over the log lines that have the value."""
    found = [row[what] for row in rows if what in row]
    return fmean(found) if found else None


# -- guards ----------------------------------------------------------------------------------------------------


def guards(name: str, records: Iterable[Json]) -> list[Json]:
    """For every generating hop of every path: the outputs of the whole stage, and why some of them were dropped."""
    found: dict[tuple[str, str, int], Json] = {}
    for row in records:
        for watch in row.get("guards", ()) if row["kind"] == "train" else ():
            key = watch["path"], watch["hop"], watch["place"]
            head = {"stage": name, "path": key[0], "hop": key[1], "offered": 0, "dropped": {}, "copies": 0}
            total = found.setdefault(key, head)
            total["offered"] += watch["offered"]
            total["copies"] += watch["copies"]
            for reason, count in watch["dropped"].items():
                total["dropped"][reason] = total["dropped"].get(reason, 0) + count
    return [_guard(total) for total in found.values() if total["offered"]]


def _guard(total: Json) -> Json:
    dropped = sum(total["dropped"].values())
    shares = {reason: count / total["offered"] for reason, count in total["dropped"].items()}
    return {**total, "dropped": shares, "kept": 1 - dropped / total["offered"]}


def alarms(name: str, records: Iterable[Json]) -> list[Json]:
    """The alarms of one hop of one path together: number, first and last update, and the last message."""
    found: dict[tuple[str, str], Json] = {}
    for row in records:
        if row["kind"] == "alarm":
            key = row["path"], row["hop"]
            first = {"stage": name, "path": key[0], "hop": key[1], "times": 0, "first": row["update"]}
            one = found.setdefault(key, first)
            one.update(times=one["times"] + 1, last=row["update"], what=row["what"])
    return sorted(found.values(), key=lambda one: -one["times"])


def choices(name: str, records: Iterable[Json]) -> list[Json]:
    """With `mix = "auto"`: the share of each path in the first and in the last choice."""
    chosen = [row for row in records if row["kind"] == "choice"]
    if not chosen:
        return []
    first, last = chosen[0]["worth"], chosen[-1]["worth"]
    return [
        {"stage": name, "path": path, "first": first.get(path, {}).get("share", 0.0), **worth, "times": len(chosen)}
        for path, worth in last.items()
    ]
