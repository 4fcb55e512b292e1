"""The tables of docs/results.md say what the raw files say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from helpers.paths import ROOT

SETS = ("test", "test-long", "newstest2011", "flores-dev")
POOR, THROUGH_ENGLISH = ("fr>es", "es>fr"), ("fr>en>es", "es>en>fr")
WITH_ENGLISH = ("en>fr", "en>es", "fr>en", "es>en")
FILES = {  # by what a label says of seeds; all others are of the folder's scores.json
    ("europarl-48k", "seeds 1 and 3"): "europarl-48k-uniform/scores.json",
    ("europarl-48k", "seed 2"): "europarl-48k/seed-2.json",
    ("europarl-100k", "a later session"): "europarl-100k-uniform/scores.json",
    ("europarl-star", "seeds 1 and 3"): "europarl-star/scores-1-3.json",
    ("europarl-star", "seed 3"): "europarl-star/seed-3.json",
    ("europarl-star-none", "seed 2"): "europarl-star-none/seed-2.json",
}
STARS = {"star: ": "europarl-star-shared", "without fr-es: ": "europarl-star-none-shared"}
DECORATION = r" \(.*\)|, uniform|, two sources a sentence|, trained again"

Json = dict[str, Any]


def card(file: str) -> Json:
    found: Json = json.loads((ROOT / "docs" / "results" / file).read_text(encoding="utf-8"))
    scores: Json = found.get("scorecard", found)
    return scores


@dataclass(frozen=True)
class Row:
    """What a label names: a stage, or a difference between two, and whose seeds they are."""

    folder: str
    seeds: str = ""
    label: str = ""

    def after(self, label: str) -> Row:
        """The row of a label below this one; seeds alone go on with its stages, and a star is named once."""
        star = next((star for star in STARS if label.startswith(star)), "")
        told = re.search("seeds? [123]( and 3)?|a later session", label)
        seeds = told[0] if told else ""
        rest = re.sub(DECORATION, "", label.removeprefix(star).replace(seeds, "")).strip(": ")
        return Row(STARS.get(star, self.folder), seeds, rest.replace(", over", " over") or self.label)

    def cell(self, test: str, paths: Iterable[str] | None) -> str:
        """A mean or difference over all directions of a set, or that of each path."""
        scores = card(FILES.get((self.folder, self.seeds), f"{self.folder}/scores.json"))
        if turned := re.fullmatch(r"through English over direct, stage (.*)|(.*), direct over going .*", self.label):
            found = scores["stages"][turned[1] or turned[2]]["sets"][test]["pivots"]
            ways = [found[way]["over_direct"]["multi_bleu"] for way in ways_of(paths or POOR)]
            return ", ".join(difference(way, -1 if turned[2] else 1) for way in ways)
        of, over, against = self.label.partition(" over ")
        if not over:
            return stage_cell(scores["stages"][of]["sets"][test], paths)
        (pair,) = (one for one in scores["comparisons"] if (one["of"], one["against"]) == (of, against))
        found = pair["sets"][test]
        chosen = [found["directions"][path] for path in paths] if paths else [found["joint"]]
        return ", ".join(difference(one["multi_bleu"]) for one in chosen)


def ways_of(paths: Iterable[str]) -> list[str]:
    return [path.replace(">", ">en>") for path in paths]


def stage_cell(found: Json, paths: Iterable[str] | None) -> str:
    if paths is None:
        return f"{found['mean']['multi_bleu']:.2f}"
    if paths == WITH_ENGLISH:
        return f"{fmean(found['directions'][path]['multi_bleu'] for path in paths):.2f}"
    both = found["directions"] | found.get("pivots", {})
    return ", ".join(f"{both[path]['multi_bleu']:.2f}" for path in paths)


def difference(one: Json, sign: int = 1) -> str:
    low, high = sorted(sign * one[end] for end in ("low", "high"))
    return f"{sign * one['difference']:+z.2f} ({low:+z.2f} to {high:+z.2f})"


def column(head: str, text: str) -> tuple[str, tuple[str, ...] | None] | None:
    """Which test set and paths the cells under a head are of; two values are those of the poor pair."""
    name = head.partition(":")[0]
    test = name if name in SETS else "test"
    if head == "through English":
        return test, THROUGH_ENGLISH
    if "with English" in head:
        return test, WITH_ENGLISH
    if head in POOR:
        return test, (head,)
    if head == "fr>es, es>fr" or (name in SETS and text.count(".") % 2 == 0 and ", " in text):
        return test, POOR
    return (test, None) if name in (*SETS, "mean of six") else None


def sections() -> Iterator[tuple[str, str]]:
    """Every section of Europarl: the folder of its raw files, and its text."""
    for section in (ROOT / "docs" / "results.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        folders = re.findall(r"--out docs/results/(europarl-[\w-]+)|\(`results/(europarl-shared)`", section)
        if folders and section.startswith("Europarl"):
            yield "".join(folders[0]), section


def grids(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = table.replace("*", "").splitlines()
        head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)
        yield head, rows


def claims() -> Iterator[tuple[Row, str, str, str]]:
    """Every cell of scores and gains of Europarl: its row, and what should be there beside what is."""
    for folder, text in sections():
        for head, rows in grids(text):
            if not head[0].startswith(("stage", "gain")):
                continue
            row = Row(folder)
            for label, *cells in rows:
                row = row.after(label)
                yield from checked(row, label, head[1:], cells)


def checked(row: Row, label: str, head: list[str], cells: list[str]) -> Iterator[tuple[Row, str, str, str]]:
    for name, text in zip(head, cells, strict=True):
        if name.startswith("star without fr-es"):
            row = replace(row, folder="europarl-star-none-shared")
        what = column(name, text)
        if what is None or text in ("", "none", "as dual") or label.startswith("six networks"):
            continue
        if (row.seeds, row.label, name) == ("seeds 1 and 3", "pivot", "through English"):
            continue  # the mean of two files, as the section says
        yield row, name, text, row.cell(*what)


def alike(one: str, other: str) -> bool:
    return one.replace("-0.00", "+0.00") == other.replace("-0.00", "+0.00")


def test_scores_and_gains_are_those_of_the_raw_files() -> None:
    found = list(claims())
    assert [one for one in found if not alike(one[2], one[3])] == []
    assert len(found) > 550


def comparison(folder: str, of: str, against: str) -> Json:
    pairs = card(f"{folder}/scores.json")["comparisons"]
    found: Json = next(one["sets"] for one in pairs if (one["of"], one["against"]) == (of, against))
    return found


def table(page: str, head: str) -> list[list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return next(rows for heads, rows in grids(text) if heads[0] == head)


def test_the_registered_comparisons_in_every_metric() -> None:
    (rows,) = (
        rows for head, rows in grids((ROOT / "docs/results.md").read_text(encoding="utf-8")) if head == ["", *SETS]
    )
    for label, *cells in rows:
        folder = "europarl-star" if "star" in label else "europarl-48k"
        of, against, path, metric = re.findall(r"(\S+) over ([\w-]+)(?:, (\S+))?: (\S+)", label)[0]
        sets = comparison(folder, of, against)
        found = [sets[test]["directions"][path] if path else sets[test]["joint"] for test in SETS]
        raw = [difference(one[metric.lower().replace("-", "_")]) for one in found]
        assert all(map(alike, cells, raw)), (label, cells, raw)
    assert len(rows) == 12


def test_the_curve_is_that_of_the_raw_files() -> None:
    folders = {
        "5,000": "europarl-5000",
        "20,000": "europarl-20000",
        "48,000": "europarl-48k",
        "100,000": "europarl-100k",
    }
    rows = table("docs/results.md", "pairs for each pair of languages")
    for pairs, *cells in rows:
        stages = card(f"{folders[pairs]}/scores.json")["stages"]
        scores = [stage_cell(stages[name]["sets"]["test"], None) for name in ("vanilla", "vanilla-longer", "dual")]
        gains = comparison(folders[pairs], "dual", "vanilla-longer")
        test, *others = (difference(gains[name]["joint"]["multi_bleu"]) for name in SETS)
        assert cells == [*scores, test, *(gain.split()[0] for gain in others)]
    assert [row[0] for row in rows] == list(folders)


def test_multi30k_is_that_of_the_raw_files() -> None:
    seeds = [card(f"multi30k-dual/seed-{seed}.json")["stages"] for seed in (1, 2, 3)]
    text = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    (rows,) = (rows for head, rows in grids(text) if "en>de (seeds)" in head)
    for label, *cells in rows:
        name = label.partition(" (")[0]
        for hop, cell in zip(("en>de", "de>en"), cells, strict=False):
            scores = [one[name]["sets"]["test_2016_flickr"]["directions"][hop]["multi_bleu"] for one in seeds]
            assert re.findall(r"[\d.]+", cell) in (
                [f"{fmean(scores):.2f}"],
                [f"{fmean(scores):.2f}", *(f"{one:.2f}" for one in scores)],
            )


def test_the_readme_has_the_main_table_of_the_raw_files() -> None:
    stages = card("europarl-48k/scores.json")["stages"]
    names = ("vanilla", "dual", "auto")
    sets = [stages[name]["sets"]["test"] for name in names]
    *directions, gains, controlled = table("docs/results.md", "direction, beside the paper's")
    for hop, *cells in directions:
        assert cells[:3] == [f"{one['directions'][hop]['multi_bleu']:.2f}" for one in sets]
    vanilla, dual, auto = (one["mean"]["multi_bleu"] for one in sets)
    assert gains[1:4] == ["", f"{dual - vanilla:+z.2f}", f"{auto - dual:+z.2f}"]
    over = (
        comparison("europarl-48k", *pair)["test"]["joint"]
        for pair in (("dual", "vanilla-longer"), ("auto", "dual-longer"))
    )
    assert controlled[2:4] == [difference(one["multi_bleu"]) for one in over]
