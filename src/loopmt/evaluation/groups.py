"""Groups of directions by the text that they have: with the hub, with bitext, without bitext."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any


@dataclass(frozen=True)
class Groups:
    """Directions, and those of them that no bitext teaches."""

    hops: Sequence[str]
    without: Collection[str]

    @classmethod
    def of(cls, stages: Mapping[str, Any]) -> Groups:
        """Those of a scorecard: routes are scored for directions without bitext."""
        hops = [hop for stage in stages.values() for one in stage["sets"].values() for hop in one["directions"]]
        return cls(list(dict.fromkeys(hops)), {hop for stage in stages.values() for hop in stage.get("routes", {})})

    @classmethod
    def with_bitext(cls, hops: Iterable[str], bitext: Collection[object]) -> Groups:
        """`bitext`: the directions that pairs of the data teach."""
        known, taught = list(dict.fromkeys(hops)), set(map(str, bitext))
        return cls(known, {hop for hop in known if hop not in taught})

    def named(self) -> Iterator[tuple[str, list[str]]]:
        """Names and directions of the groups that are not all directions again."""
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
        """The groups beside all directions."""
        return [(name, hops) for name, hops in self.named() if name != "all"]

    @staticmethod
    def _hub(taught: Sequence[str]) -> str | None:
        """The language that more directions with bitext have than any other."""
        counts = Counter(language for hop in taught for language in hop.split(">")).most_common(2)
        return counts[0][0] if len(counts) < 2 or counts[0][1] > counts[1][1] else None


def mean_of_group(scores: Mapping[str, float], hops: Iterable[str]) -> tuple[float | None, int]:
    """The mean over those of the directions that have a score, and how many they are."""
    found = [scores[hop] for hop in hops if hop in scores]
    return (fmean(found) if found else None), len(found)
