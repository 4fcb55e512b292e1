"""Means over directions. Those of different directions are no comparison, so they say which ones they are of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

Key = TypeVar("Key")
Scores = Mapping[str, Any]


def mean_scores(scores: Sequence[Scores], skip: Collection[str] = ()) -> dict[str, float]:
    """By metric; `skip` is no metric."""
    metrics = [metric for metric in scores[0] if metric not in skip] if scores else []
    return {metric: fmean(one[metric] for one in scores) for metric in metrics}


def shared(judged: Sequence[Mapping[Key, Scores]]) -> list[Key] | None:
    """What all stages were judged on; None where that is all there is, and their means can stand side by side."""
    some = [one for one in judged if one]
    common = [key for key in some[0] if all(key in one for one in some)] if some else []
    return None if all(len(one) == len(common) for one in some) else common


def mean_over(scores: Mapping[Key, Scores], keys: Sequence[Key]) -> dict[str, float]:
    """A stage's mean over what it shares with others; empty where it was not judged on that."""
    return mean_scores([scores[key] for key in keys if key in scores], skip=("sentences",))


def differ(directions: Iterable[Collection[str]]) -> bool:
    """Are these means of different directions? One of none has nothing to say."""
    return len({frozenset(one) for one in directions if one}) > 1


def validated(record: Scores) -> list[str]:
    """The directions that the mean of a validation is of: those that a shared network was not taught are left out."""
    hops, untaught = list(record["bleu"]), record.get("untaught", ())
    return [hop for hop in hops if hop not in untaught] or hops
