"""Multi30k and Tatoeba."""

from __future__ import annotations

from statistics import fmean

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid, points
from benchmarks.pages.raw import content, records, score
from benchmarks.pages.scores import (
    POOR,
    Stage,
    StageColumn,
    direction,
    gain_of,
    gains,
    of,
    over,
    seconds,
    stages,
    updates,
)

from loopmt.planning.paper import printed

FLICKR, EN_DE = "test_2016_flickr", ("en>de", "de>en")
M30K = ("vanilla", "vanilla-longer", "back-translation", "dual")
TATOEBA = (
    *("vanilla", "vanilla-longer", "back-translation", "dual"),
    *("dual-longer", "dual-longer-two", "multi-step", "auto"),
)
TATOEBA_PAIRS = (
    *("back-translation/vanilla-longer", "dual/vanilla-longer", "dual/back-translation"),
    *("multi-step/dual-longer", "multi-step/dual-longer-two", "auto/dual-longer", "auto/multi-step"),
)


def _by_seed(hop: str) -> StageColumn:
    """The mean of three seeds, and each of them."""

    def cell(row: Stage) -> str:
        cards = [one["scorecard"]["stages"][row.name]["sets"][FLICKR]["directions"] for one in records(row.card)]
        found = [one[hop]["multi_bleu"] for one in cards]
        return f"{points(fmean(found))} ({', '.join(map(points, found))})"

    return f"{hop} (seeds)", cell


def _paper(hop: str) -> StageColumn:
    table = printed()["bleu_wmt14_multiun"]

    def cell(row: Stage) -> str:
        return points(table[row.name][table["columns"].index(hop)]) if row.name in table else ""

    return f"paper, WMT14: {hop}", cell


def _en_de() -> str:
    """Supervised training in one direction, three seeds."""
    cards = content("multi30k-en-de")["scorecards"]
    rows = [
        [seed, f"{stage['update']:,}", points(stage["valid_bleu"]), points(stage["sets"][FLICKR]["mean"]["multi_bleu"])]
        for seed, card in cards.items()
        for stage in [card["stages"]["vanilla"]]
    ]
    return grid(["seed", "updates", "valid, greedy", "test"], rows)


def _tatoeba_stages() -> str:
    rows = [
        [name, points(score("tatoeba/star", name, "tatoeba")), *_poor(name), points(_symmetric(name))]
        for name in TATOEBA
    ]
    return grid(["stage", "star", *(f"star: {hop}" for hop in POOR), "symmetric"], rows)


def _poor(name: str) -> list[str]:
    return [points(score("tatoeba/star", name, "tatoeba", hop), 1) for hop in POOR]


def _symmetric(name: str) -> float | None:
    return score("tatoeba/symmetric", name, "tatoeba")


TABLES: dict[str, Table] = {
    "multi30k-en-de": _en_de,
    "multi30k-stages": lambda: stages(
        [updates(), seconds(), *map(_by_seed, EN_DE), direction("mean", FLICKR, *EN_DE), *map(_paper, EN_DE)],
        of("multi30k-dual", *M30K),
    ),
    "multi30k-gains": lambda: gains(
        [*(gain_of(hop, FLICKR, hop) for hop in EN_DE), gain_of("mean", FLICKR)],
        over(
            "multi30k-dual",
            *("dual/vanilla-longer", "back-translation/vanilla-longer", "dual/back-translation"),
        ),
    ),
    "tatoeba-stages": _tatoeba_stages,
    "tatoeba-star-gains": lambda: gains(
        [gain_of("mean of six", "tatoeba"), *(gain_of(hop, "tatoeba", hop) for hop in POOR)],
        over("tatoeba/star", *TATOEBA_PAIRS),
    ),
    "tatoeba-symmetric-gains": lambda: gains(
        [gain_of("mean of six", "tatoeba")], over("tatoeba/symmetric", *TATOEBA_PAIRS)
    ),
}
