"""Groups of directions: with the hub, with bitext, without bitext."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any


@dataclass(frozen=True)
class Groups:
    """All directions, and those without bitext."""

    hops: Sequence[str]
    without: Collection[str]

    @classmethod
    def of(cls, stages: Mapping[str, Any]) -> Groups:
        """The directions of a scorecard, which scores routes for directions without bitext."""
        hops = [hop for stage in stages.values() for one in stage["sets"].values() for hop in one["directions"]]
        return cls(list(dict.fromkeys(hops)), {hop for stage in stages.values() for hop in stage.get("routes", {})})

    @classmethod
    def with_bitext(cls, hops: Iterable[str], bitext: Collection[object]) -> Groups:
        """`bitext` has the directions with bitext in the data."""
        known, taught = list(dict.fromkeys(hops)), set(map(str, bitext))
        return cls(known, {hop for hop in known if hop not in taught})

    def named(self) -> Iterator[tuple[str, list[str]]]:
        """Names and directions of the groups: first all directions, then the groups that are smaller."""
        taught = [hop for hop in self.hops if hop not in self.without]
        yield "all", list(self.hops)
        if not self.without or not taught:
            return
        hub = self._hub(taught)
        hubs = [hop for hop in taught if hub in hop.split(">")] if hub else []
        if hubs and len(hubs) < len(taught):
            yield f"with {hub}", hubs
        yield "with bitext", taught
        yield "without bitext", [hop for hop in self.hops if hop in self.without]

    def parts(self) -> list[tuple[str, list[str]]]:
        """The groups without that of all directions."""
        return [(name, hops) for name, hops in self.named() if name != "all"]

    @staticmethod
    def _hub(taught: Sequence[str]) -> str | None:
        """The language of the most directions with bitext; None if two languages have equally many."""
        counts = Counter(language for hop in taught for language in hop.split(">")).most_common(2)
        return counts[0][0] if len(counts) < 2 or counts[0][1] > counts[1][1] else None


def mean_of_group(scores: Mapping[str, float], hops: Iterable[str]) -> tuple[float | None, int]:
    """The mean over the directions that have a score, and their number."""
    found = [scores[hop] for hop in hops if hop in scores]
    return (fmean(found) if found else None), len(found)
