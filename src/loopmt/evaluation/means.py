"""Means over directions. Means over different directions are not comparable, so callers label them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

MANY_LANGUAGES = 5  # with at least this many, directions are shown as matrices and groups instead of lists
Key = TypeVar("Key")
Scores = Mapping[str, Any]


def mean_scores(scores: Sequence[Scores], skip: Collection[str] = ()) -> dict[str, float]:
    """The mean of each metric; keys in `skip` are not metrics."""
    metrics = [metric for metric in scores[0] if metric not in skip] if scores else []
    return {metric: fmean(one[metric] for one in scores) for metric in metrics}


def shared(judged: Sequence[Mapping[Key, Scores]]) -> list[Key] | None:
    """The directions on which all stages were scored; None if all stages have the same directions."""
    some = [one for one in judged if one]
    common = [key for key in some[0] if all(key in one for one in some)] if some else []
    return None if all(len(one) == len(common) for one in some) else common


def mean_over(scores: Mapping[Key, Scores], keys: Sequence[Key]) -> dict[str, float]:
    """A stage's mean over the shared directions; empty if it was not scored on them."""
    return mean_scores([scores[key] for key in keys if key in scores], skip=("sentences",))


def differ(directions: Iterable[Collection[str]]) -> bool:
    """Whether these means are of different directions; empty ones are ignored."""
    return len({frozenset(one) for one in directions if one}) > 1


def validated(record: Scores) -> list[str]:
    """The directions in a validation mean, without those on which a shared network was not trained."""
    hops, untaught = list(record["bleu"]), record.get("untaught", ())
    return [hop for hop in hops if hop not in untaught] or hops
