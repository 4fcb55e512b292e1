"""The theory's parameters on recorded runs, beside the placebo: what the control did to the same sentences."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid, share
from benchmarks.pages.equal_bitext import SIZES
from benchmarks.pages.raw import Json, content
from benchmarks.pages.scores import SETS

from loopmt.planning.paper import printed

MEANING = {
    "p_d": "accuracy after",
    "alpha": "α: of the lost, now home and right",
    "beta": "β: of the lost, now home and wrong",
    "gamma": "γ: of the lost, still lost",
    "kappa": "κ: of the lost, still lost and right",
    "eta": "η: of those home before, still home",
    "u11": "of the right and home, now wrong",
    "u12": "of the wrong and home, now right",
}
LOST = ("alpha", "beta", "gamma")


def _row(folder: str, test: str, threshold: int, after: str = "dual", control: str = "vanilla-longer") -> Json:
    rows: list[Json] = content(f"{folder}/parameters")
    wanted = (after, control, test, f"unsmoothed BLEU > {threshold}")
    return next(row for row in rows if (row["after"], row["control"], row["set"], row["rule"]) == wanted)


def _beside_placebo(folder: str, test: str, names: Sequence[str], after: str = "dual") -> str:
    values = _row(folder, test, 20, after)["values"]
    rows = [[MEANING[name], *_three(values[name]), _paper(name)] for name in names]
    return grid(["", after, "placebo", "difference", "paper, en-de"], rows)


def _three(value: Json) -> list[str]:
    return [share(value["after"]), share(value["control"]), share(value["beyond"], plus=True)]


def _paper(name: str) -> str:
    """The paper's two directions of en-de at threshold 20."""
    found = printed()["estimated_parameters_en-de"].get(name)
    return ", ".join(f"{one:g}".removeprefix("0") for one in found[1]) if found else ""


def _short(value: float, plus: bool = False, digits: int = 3) -> str:
    return f"{value:{'+' if plus else ''}z.{digits}f}".replace("0.", ".", 1)


def _sets() -> str:
    rows = [
        [
            f"{test}, {threshold}",
            *map(_with_difference, (found[name] for name in ("p_d", "alpha", "beta", "gamma", "eta"))),
        ]
        for test in SETS
        for threshold in (10, 20)
        for found in [_row("europarl-48k", test, threshold)["values"]]
    ]
    return grid(["set, threshold", "accuracy after", "α", "β", "γ", "η"], rows)


def _with_difference(value: Json) -> str:
    return f"{_short(value['after'][0])} ({_short(value['beyond'][0], plus=True)})"


def _by_bitext() -> str:
    found = {size: _row(name, "test", 20) for size, name in SIZES.items()}
    rows = [
        ["lost before", *(_short(row["among"]["alpha"] / row["among"]["p_d"], digits=2) for row in found.values())],
        ["accuracy beyond the placebo", *(share(row["values"]["p_d"]["beyond"], plus=True) for row in found.values())],
        *([MEANING[name], *(_short(row["values"][name]["after"][0]) for row in found.values())] for name in LOST),
        *(
            [f"{MEANING[name]}; beyond the placebo", *(_beyond(row, name) for row in found.values())]
            for name in ("alpha", "u12")
        ),
    ]
    return grid(["`test`, threshold 20", *(f"{size:,} pairs" for size in found)], rows)


def _beyond(row: Json, name: str) -> str:
    return _short(row["values"][name]["beyond"][0], plus=True)


FOLDERS = {
    "100,000 pairs, 50,000 sentences": "europarl-100k-50k",
    "48,000 pairs, one shared network": "europarl-shared",
    "star": "europarl-star",
    "star, one shared network": "europarl-star-shared",
    "no pair fr-es, one shared network": "europarl-star-none-shared",
}


def _elsewhere() -> str:
    names = ("p_d", "alpha", "beta", "gamma", "eta")
    rows = [
        [label, *(_with_difference(_row(folder, "test", 20)["values"][name]) for name in names)]
        for label, folder in FOLDERS.items()
    ]
    return grid(["`test`, threshold 20", "accuracy after", "α", "β", "γ", "η"], rows)


def _tatoeba() -> str:
    """Means over six directions, as theory.md has them: each stage beside vanilla."""
    names = ("p", "p_d", "M", "alpha", "beta", "gamma", "kappa", "eta", "thm1")
    rows = [
        [text, after, *(_short(_mean(f"tatoeba/{text}-analysis", after, name), digits=_digits(name)) for name in names)]
        for text in ("symmetric", "star")
        for after in ("vanilla-longer", "back-translation", "dual")
    ]
    return grid(["text", "after", *(HEADS.get(name, name) for name in names)], rows)


HEADS = {"thm1": "Theorem 1 at this alpha"}


def _digits(name: str) -> int:
    return 2 if name == "M" else 3


def _mean(file: str, after: str, name: str) -> float:
    pairs = [one for one in content(file)["pairs"] if one["after"] == after]
    return fmean(one["values"][name][0] for one in pairs)


TABLES: dict[str, Table] = {
    "parameters-48k": lambda: _beside_placebo("europarl-48k", "test", list(MEANING)),
    "parameters-sets": _sets,
    "parameters-by-bitext": _by_bitext,
    "parameters-elsewhere": _elsewhere,
    "parameters-multi30k": lambda: _beside_placebo(
        "multi30k-dual", "test_2016_flickr", ["p_d", "alpha", "beta", "gamma", "eta"]
    ),
    "parameters-tatoeba": _tatoeba,
}
