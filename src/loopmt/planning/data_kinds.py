"""One recommendation for each kind of data. `plan` prints those for a run; docs/mixes.md lists all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

POOR = 0.25
"""A language pair with less than this share of the richest pair's bitext is a poor pair."""
MUCH = 10
"""Monolingual text is plentiful if it has at least this many times as many sentences as the bitext."""


@dataclass(frozen=True)
class DataKind:
    """A kind of data, what to try first, and the gain that was measured."""

    name: str
    data: str
    first: str
    brought: str


DATA_KINDS = {
    kind.name: kind
    for kind in (
        DataKind(
            "equal bitext",
            "all pairs have about as much bitext",
            'dual loops, `{ path = "X>Y>X", weight = 2 }`',
            "+2.5 BLEU over longer training with 48,000 pairs (three seeds), +1.8 with 100,000; a third language added "
            "nothing with 48,000 and 100,000",
        ),
        DataKind(
            "little monolingual text",
            "less monolingual text than bitext",
            'dual loops, `{ path = "X>Y>X", weight = 2 }`',
            "+1.3 with 100,000 pairs; back-translation reached the same, except on news",
        ),
        DataKind(
            "little bitext",
            f"little bitext, at least {MUCH} times as much monolingual text",
            'dual loops, `{ path = "X>Y>X", weight = 2 }`, with `vocab.size` for all the text, not for the bitext',
            "+8.4 with 5,000 pairs, +4.4 with 20,000; with 5,000, 2,000 subwords end 2.1 below 8,000, and 4,000 end "
            "0.4 below (validation, one seed)",
        ),
        DataKind(
            "poor pair",
            f"a poor pair among rich ones (a star): less than {POOR:.0%} of the bitext of the richest pair",
            '`model.sharing = "all"` and dual loops; if the pairs with the hub must stay at their best, a network for '
            "each direction, dual loops, then a stage for the poor pair alone with loops through the hub (`poor` in "
            "`examples/europarl-star.toml`)",
            "shared: 33 on the poor pair (13 with a network each and no loops), three above decoding through the hub, "
            "1.5 below networks of their own on the pairs with the hub (one seed); with the stage of its own: 31 on "
            "the poor pair, about as good as decoding through the hub (one seed)",
        ),
        DataKind(
            "no bitext",
            "a pair without any bitext",
            'loops through the hub, `{ path = "X>en>Y>X", weight = 2 }`, in a stage for the pair alone',
            "32.0 and 33.1; decoding through the hub 30.1 and 32.3 (two seeds)",
        ),
    )
}
"""The kinds by name, in the order of the table."""


def kinds_of_pairs(
    languages: Sequence[str], pairs: Mapping[frozenset[str], int], mono: Mapping[str, int]
) -> dict[str, list[str]]:
    """The pairs of languages of each kind, as `en-fr`; pairs without monolingual text have no loops and no kind."""
    richest = max(pairs.values(), default=0)
    found: dict[str, list[str]] = {}
    for one, other in combinations(languages, 2):
        text = min(mono.get(one, 0), mono.get(other, 0))
        if text and (count := pairs.get(frozenset((one, other)), 0)):
            found.setdefault(_kind(count, richest, text), []).append(f"{one}-{other}")
        elif text and any(_linked(one, other, hub, pairs) for hub in languages):
            found.setdefault("no bitext", []).append(f"{one}-{other}")
    return {name: found[name] for name in DATA_KINDS if name in found}


def _linked(one: str, other: str, hub: str, pairs: Mapping[frozenset[str], int]) -> bool:
    """Whether both languages have bitext with a third one."""
    return bool(pairs.get(frozenset((one, hub)), 0) and pairs.get(frozenset((other, hub)), 0))


def _kind(count: int, richest: int, text: int) -> str:
    if count < POOR * richest:
        return "poor pair"
    if text >= MUCH * count:
        return "little bitext"
    return "equal bitext" if text >= count else "little monolingual text"


def recommendations(found: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """What to try first for the pairs of each kind."""
    return [
        {"kind": name, "data": DATA_KINDS[name].data, "pairs": list(pairs), "first": DATA_KINDS[name].first}
        for name, pairs in found.items()
    ]
