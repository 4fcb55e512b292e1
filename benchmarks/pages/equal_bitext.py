"""Europarl with as much bitext for every pair: how much of it, with which settings, and what a third language adds."""

from __future__ import annotations

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid, interval, points, signed
from benchmarks.pages.raw import card, content, gain, lines, score
from benchmarks.pages.scores import SETS, gain_means, gains, means, of, over, seconds, stages, updates

from loopmt.planning.paper import printed

SIZES = {5_000: "europarl-5000", 20_000: "europarl-20000", 48_000: "europarl-48k", 100_000: "europarl-100k"}
CONTROLLED = ("dual", "vanilla-longer")
REGISTERED: dict[
    str, tuple[str, str, str, str | None]
] = {  # what was registered: where it is, and in which direction (None: the mean of six)
    "1. 48,000 pairs, dual over vanilla-longer": ("europarl-48k", *CONTROLLED, None),
    "2. 48,000 pairs, auto over dual-longer": ("europarl-48k", "auto", "dual-longer", None),
    "3. star, auto over dual-longer, fr>es": ("europarl-star", "auto", "dual-longer", "fr>es"),
    "3. star, auto over dual-longer, es>fr": ("europarl-star", "auto", "dual-longer", "es>fr"),
}
METRICS = {"multi-bleu": "multi_bleu", "sacreBLEU": "sacrebleu", "chrF": "chrf"}
BASICS = ("dual/vanilla-longer", "back-translation/vanilla-longer", "dual/back-translation")

NINE = (
    *("vanilla", "vanilla-longer", "back-translation", "dual", "dual-longer", "dual-longer-two"),
    *("dual-longer-filtered", "multi-step", "auto"),
)
EIGHT = (
    *BASICS,
    *("multi-step/dual-longer", "multi-step/dual-longer-two"),
    *("auto/dual-longer", "auto/dual-longer-filtered", "auto/multi-step"),
)


def _registered() -> str:
    rows = [
        [f"{label}: {name}", *(interval(gain(file, of, against, test, path, metric)) for test in SETS)]
        for label, (file, of, against, path) in REGISTERED.items()
        for name, metric in METRICS.items()
    ]
    return grid(["gain", *SETS], rows)


def _curve() -> str:
    stages = ("vanilla", "vanilla-longer", "dual")
    rows = [
        [
            f"{size:,}",
            *(points(score(name, stage, "test")) for stage in stages),
            interval(gain(name, *CONTROLLED, "test")),
        ]
        for size, name in SIZES.items()
    ]
    return grid(["pairs", *stages, "dual over vanilla-longer"], rows)


def _curve_gains() -> str:
    rows = [[f"{size:,}", *(interval(gain(name, *CONTROLLED, test)) for test in SETS)] for size, name in SIZES.items()]
    return grid(["pairs", *SETS], rows)


def _beside_the_paper() -> str:
    """As `loopmt report` prints it; our multi-step chooses its loops."""
    paper = printed()["multiun_0.2M"]
    names = ("vanilla", "dual", "auto")
    rows = [
        [
            hop,
            *(points(score("europarl-48k", name, "test", hop)) for name in names),
            *(points(one) for one in paper[hop]),
        ]
        for hop in card("europarl-48k")["stages"]["dual"]["sets"]["test"]["directions"]
    ]
    ours = [score("europarl-48k", name, "test") or 0.0 for name in names]
    theirs = paper["average_gain"]
    steps = [signed(ours[1] - ours[0]), signed(ours[2] - ours[1])]
    rows.append(["mean gain", "", *steps, "", signed(theirs["dual"]), signed(theirs["multi-step over dual"])])
    over_control = [interval(gain("europarl-48k", *pair, "test")) for pair in (CONTROLLED, ("auto", "dual-longer"))]
    rows.append(["over its control", "", *over_control, "", "not reported", "not reported"])
    heads = ["vanilla", "dual", "multi-step"]
    return grid(["direction", *heads, *(f"paper: {head}" for head in heads)], rows)


def _vocabulary() -> str:
    """Validation BLEU with 5,000 pairs, by the size of the vocabulary."""
    looks = {size: _looks(size) for size in (2_000, 4_000, 8_000)}
    updates = [one["update"] for one in looks[2_000][1]]
    rows = []
    for size, (vanilla, dual) in looks.items():
        best = max(vanilla, key=lambda one: one["bleu"])
        bleu = {one["update"]: one["bleu"] for one in dual}
        first = f"{points(best['bleu'])} ({best['update']:,})"
        rows.append([f"{size:,}", first, *(points(bleu[update]) for update in updates)])
    return grid(["subwords", "vanilla: best (update)", *(f"dual: {update:,}" for update in updates)], rows)


def _looks(size: int) -> list[list[dict[str, float]]]:
    stages = content("europarl-5000/seed-1")["stages"]
    if size == 8_000:
        return [stages[name]["validation"] for name in ("vanilla", "dual")]
    found = [lines(f"explore/vocabulary/{size}-{name}") for name in ("vanilla", "dual")]
    return [
        [{"update": one["update"], "bleu": one["mean_bleu"]} for one in stage if one["kind"] == "valid"]
        for stage in found
    ]


TABLES: dict[str, Table] = {
    "registered": _registered,
    "bitext-curve": _curve,
    "bitext-gains": _curve_gains,
    "vocabulary": _vocabulary,
    "48k-stages": lambda: stages(
        [updates(), seconds(), *means()],
        of("europarl-48k", "vanilla", "vanilla-longer", "dual", "dual-longer", "auto"),
    ),
    "48k-gains": lambda: gains(gain_means(), over("europarl-48k", "dual/vanilla-longer", "auto/dual-longer")),
    "48k-uniform": lambda: stages(
        [updates(), seconds(), *means()],
        of(
            "europarl-48k-uniform", "vanilla", "vanilla-longer", "back-translation", "dual", "dual-longer", "multi-step"
        ),
    ),
    "48k-more-gains": lambda: gains(
        gain_means(),
        [
            *over("europarl-48k-uniform", *BASICS, "multi-step/dual-longer", note="seeds 1 and 3"),
            *over("europarl-48k/seed-2", *BASICS[1:], "multi-step/dual-longer", "auto/multi-step", note="seed 2"),
        ],
    ),
    "48k-paper": _beside_the_paper,
    "48k-first-stages": lambda: stages(
        [updates(), seconds(), *means()],
        of("europarl-48k-first", "vanilla", "vanilla-longer", "dual", "dual-longer", "auto", "multi-step"),
    ),
    "48k-first-gains": lambda: gains(
        gain_means(),
        over(
            "europarl-48k-first",
            *("dual/vanilla-longer", "auto/dual-longer", "multi-step/dual-longer", "auto/multi-step"),
        ),
    ),
    "100k-stages": lambda: stages(
        [updates(), seconds(), *means()],
        [
            *of("europarl-100k", "vanilla", "vanilla-longer", "back-translation", "dual", "dual-longer"),
            *of("europarl-100k", "dual-longer-filtered", "auto"),
            *of("europarl-100k-uniform", "dual", "dual-longer", "multi-step", note="later session"),
        ],
    ),
    "100k-gains": lambda: gains(
        gain_means(),
        [
            *over("europarl-100k", *BASICS, "auto/dual-longer", "auto/dual-longer-filtered"),
            *over("europarl-100k", "dual-longer-filtered/dual-longer"),
            *over("europarl-100k-uniform", "multi-step/dual-longer", note="later session"),
        ],
    ),
    "100k-50k-stages": lambda: stages([updates(), seconds(), *means()], of("europarl-100k-50k", *NINE)),
    "100k-50k-gains": lambda: gains(gain_means(), over("europarl-100k-50k", *EIGHT)),
    "shared-stages": lambda: stages([updates(), seconds(), *means()], of("europarl-shared", *NINE)),
    "shared-gains": lambda: gains(gain_means(), over("europarl-shared", *EIGHT)),
}
