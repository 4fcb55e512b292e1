"""The recorded figures under docs/results, as `benchmarks.condense` writes them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]
DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results"


class Gain(NamedTuple):
    """A difference with its 95% interval."""

    difference: float
    low: float
    high: float

    def reversed(self) -> Gain:
        return Gain(-self.difference, -self.high, -self.low)


@cache
def content(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def lines(name: str) -> list[Json]:
    text = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def card(name: str) -> Json:
    """The scorecard of a folder (all its seeds) or of one seed's file."""
    if (RESULTS / name).is_dir():
        name += "/scores" if (RESULTS / name / "scores.json").is_file() else "/seed-1"
    found: Json = content(name)
    scores: Json = found.get("scorecard", found)
    return scores


def records(name: str) -> list[Json]:
    """What is recorded of every seed of a scorecard: seconds, validation, the loops chosen."""
    folder = name.partition("/")[0]
    return [content(f"{folder}/seed-{seed}") for seed in card(name)["seeds"]]


def scores_of(name: str, stage: str, test: str) -> Json:
    found: Json = card(name)["stages"][stage]["sets"][test]
    return found


def score(name: str, stage: str, test: str, path: str | None = None, metric: str = "multi_bleu") -> float | None:
    """Of a direction or a way through others, or the mean of all directions; None where nothing was scored."""
    found = scores_of(name, stage, test)
    if path is None:
        return float(found["mean"][metric])
    one = (found["directions"] | found.get("pivots", {})).get(path)
    return float(one[metric]) if one else None


def gain(
    name: str, of: str, against: str, test: str, path: str | None = None, metric: str = "multi_bleu"
) -> Gain | None:
    """Of a comparison, in a direction or in the mean of all."""
    pairs = [one for one in card(name)["comparisons"] if (one["of"], one["against"]) == (of, against)]
    if not pairs:
        return None
    found = pairs[0]["sets"][test]
    scores = found["joint"] if path is None else found["directions"].get(path)
    return Gain(*scores[metric]) if scores else None


def over_pivot(name: str, stage: str, test: str, way: str, metric: str = "multi_bleu") -> Gain | None:
    """The direct translator of a stage over decoding through another language with the same stage."""
    found = scores_of(name, stage, test).get("pivots", {}).get(way, {}).get("over_direct")
    return Gain(*found[metric]).reversed() if found else None
