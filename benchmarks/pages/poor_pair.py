"""Europarl as a star: much bitext with English, little or none between French and Spanish."""

from __future__ import annotations

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid
from benchmarks.pages.scores import (
    POOR,
    SETS,
    WITH_ENGLISH,
    StageColumn,
    direction,
    gain_of,
    gains,
    mean,
    of,
    over,
    poor_gains,
    seconds,
    stages,
    updates,
)

STAR, NONE = "europarl-star", "europarl-star-none"
WAYS = ("fr>en>es", "es>en>fr")
LONG = tuple((f"{hop}, long", "test-long", hop) for hop in POOR)
SHARED = {"star": "europarl-star-shared", "no pair": "europarl-star-none-shared"}
OF_SHARED = ("vanilla", "vanilla-longer", "dual", "dual-longer", "dual-longer-filtered", "multi-step", "auto")


def _both(test: str) -> list[StageColumn]:
    """Both directions of the poor pair, and decoding through English, on a test set."""
    return [direction(path, test, path) for path in (*POOR, *WAYS)]


def _long() -> list[StageColumn]:
    """The same directions on longer sentences."""
    return [direction(*cell) for cell in LONG]


def _shared() -> str:
    rows = [
        [name, stage, *(cell(one) for _, cell in [_with_english(), *_both("test"), *_long()])]
        for name, folder in SHARED.items()
        for stage in OF_SHARED
        for one in of(folder, stage)
    ]
    rows += [
        [f"{name}, six networks", label, *(cell(one) for _, cell in [_with_english(), *_both("test"), *_long()])]
        for name, folder, label, stage in SIX
        for one in of(folder, stage)
    ]
    return grid(["data", "stage", "with English", *POOR, *WAYS, *(head for head, *_ in LONG)], rows)


def _with_english() -> StageColumn:
    return direction("with English", "test", *WITH_ENGLISH)


SIX = (
    *(("star", f"{STAR}/seed-1", "dual", "dual"), ("star", f"{STAR}/seed-1", "auto", "auto")),
    ("star", f"{STAR}/seed-3", "poor (seed 3)", "poor"),
    *(("no pair", NONE, stage, stage) for stage in ("dual", "auto")),
)
STAR_STAGES = [
    *of(STAR, "vanilla", "vanilla-longer", "back-translation", "dual", "dual-longer", "dual-longer-filtered"),
    *of(STAR, "multi-step", "auto"),
    *of(f"{STAR}/seed-1", "pivot", note="seed 1"),
    *of(f"{STAR}/seed-3", "pivot", note="seed 3"),
    *of(f"{STAR}/seed-3", "poor-dual", "poor", note="seed 3"),
]
STAR_GAINS = [
    *over(STAR, "dual/vanilla-longer", "dual/back-translation", "multi-step/dual-longer", "auto/dual-longer"),
    *over(STAR, "auto/dual-longer-filtered", "dual-longer-filtered/dual-longer", "auto/multi-step"),
    *over(f"{STAR}/scores-1-3", "auto/pivot", "pivot/dual-longer-filtered", note="seeds 1 and 3"),
    *over(f"{STAR}/seed-3", "poor/poor-dual", note="seed 3"),
]
DIRECT = [*over(STAR, "auto/pivot-decoding"), *over(f"{STAR}/seed-3", "poor/pivot-decoding", note="seed 3")]
NONE_STAGES = [
    *of(
        NONE, "vanilla", "vanilla-longer", "dual", "dual-longer", "dual-longer-filtered", "pivot", "multi-step", "auto"
    ),
    *of(NONE, "poor-pivot", "poor"),
    *of(f"{NONE}/seed-2", "vanilla", "dual", "poor-pivot", "poor", note="seed 2"),
]
NONE_GAINS = [
    *over(NONE, "poor/pivot-decoding"),
    *over(f"{NONE}/seed-2", "poor/pivot-decoding", note="seed 2"),
    *over(NONE, "poor/poor-pivot"),
    *over(f"{NONE}/seed-2", "poor/poor-pivot", note="seed 2"),
    *over(NONE, "multi-step/pivot", "poor-pivot/pivot-decoding"),
    *over(f"{NONE}/seed-2", "poor-pivot/pivot-decoding", note="seed 2"),
    *over(NONE, "auto/pivot-decoding"),
]
OVER = ("dual/vanilla-longer", "dual/pivot-decoding", "multi-step/dual-longer")
SHARED_GAINS = {
    "star": over(SHARED["star"], *OVER, "auto/dual-longer-filtered"),
    "no pair": over(SHARED["no pair"], *OVER),
}


def _no_bitext() -> str:
    """As docs/pair-without-bitext.md has it."""
    label = "Europarl, 100,000 pairs with English, "
    found = (
        (f"{label}a network for each direction", NONE, "poor", "experiments/poor-pair.md"),
        (f"{label}one shared network, dual loops alone", SHARED["no pair"], "dual", "experiments/shared-network.md"),
    )
    rows = [
        [data, *(cell(one) for _, cell in _both("test")), f"[results]({page})"]
        for data, folder, stage, page in found
        for one in of(folder, stage)
    ]
    return grid(["data; test BLEU", *POOR, *WAYS, "details"], rows)


TABLES: dict[str, Table] = {
    "no-bitext": _no_bitext,
    "star-stages": lambda: stages([updates(), seconds(), mean("test"), *_both("test"), *_long()], STAR_STAGES),
    "star-other-sets": lambda: stages([mean(test) for test in SETS], STAR_STAGES),
    "star-gains": lambda: gains(
        [gain_of(*cell) for cell in (("mean of six", "test"), *((hop, "test", hop) for hop in POOR), *LONG)], STAR_GAINS
    ),
    "star-direct": lambda: poor_gains(DIRECT),
    "star-direct-chrf": lambda: poor_gains(DIRECT[1:], "chrf"),
    "star-none-stages": lambda: stages([updates(), seconds(), _with_english(), *_both("test"), *_long()], NONE_STAGES),
    "star-none-other-sets": lambda: stages(
        [direction(f"{test}: {hop}", test, hop) for test in SETS[1:] for hop in POOR],
        [one for one in NONE_STAGES if one.name in ("pivot", "multi-step", "auto", "poor-pivot", "poor")],
    ),
    "star-none-gains": lambda: poor_gains(NONE_GAINS),
    "shared-star-stages": _shared,
    "shared-star-gains": lambda: poor_gains(SHARED_GAINS["star"]),
    "shared-none-gains": lambda: poor_gains(SHARED_GAINS["no pair"]),
}
