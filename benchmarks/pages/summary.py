"""The front page: where loops gained over a control of equal budget, and where they did not."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid, interval, points, signed
from benchmarks.pages.raw import Gain, card, gain, over_pivot, score


@dataclass(frozen=True)
class Line:
    """A comparison of a scorecard, told on a page; against `pivot`: decoding through English."""

    data: str
    stage: str
    control: str
    file: str
    page: str
    of: str
    against: str
    test: str = "test"
    paths: tuple[str, ...] = ()

    def gain(self, path: str | None = None, test: str | None = None) -> Gain | None:
        """In a direction, or in the mean of all."""
        if self.against != "pivot":
            return gain(self.file, self.of, self.against, test or self.test, path)
        return over_pivot(self.file, self.of, test or self.test, (path or "").replace(">", ">en>"))

    def cells(self) -> list[str]:
        data = f"[{self.data}](experiments/{self.page})"
        seeds = str(len(card(self.file)["seeds"]))
        long = self.gains(LONG) if self.test == "test" else "–"
        return [data, f"{self.stage} over {self.control}", self.gains(self.test), long, seeds]

    def gains(self, test: str) -> str:
        """On a test set, in each direction of the line."""
        found = {path: self.gain(path or None, test) for path in self.paths or ("",)}
        if None in found.values():
            return "–"
        return "; ".join(f"{path} {interval(one)}".strip() for path, one in found.items())


LONG = "test-long"
DUAL = ("dual loops", "longer training")
LONGER = ("dual", "vanilla-longer")
BITEXT, EQUAL, POOR, SHARED, OTHER = (
    f"{name}.md" for name in ("how-much-bitext", "equal-bitext", "poor-pair", "shared-network", "other-corpora")
)
STAR = "star: 5,000 pairs fr-es"
NO_PAIR = "star: no pair fr-es"
THROUGH = ("loops through English", "decoding through English", "europarl-star-none")
DUAL_LONGER = ("auto", "dual-longer")
UNIFORM = ("multi-step", "dual-longer")
CHOSEN, EVERY = "chosen three-language loops", "uniform three-language loops"
LOOPS, BACK, FLICKR = "more dual loops", ("dual loops", "back-translation"), "test_2016_flickr"


def poor(data: str, stage: str, control: str, *recorded: str) -> Line:
    """A comparison in both directions of the poor pair."""
    file, page, of, against = recorded
    return Line(data, stage, control, file, page, of, against, paths=("fr>es", "es>fr"))


GAINED = [
    Line("5,000 pairs", *DUAL, "europarl-5000", BITEXT, *LONGER),
    Line("20,000 pairs", *DUAL, "europarl-20000", BITEXT, *LONGER),
    Line("48,000 pairs", *DUAL, "europarl-48k", EQUAL, *LONGER),
    Line("100,000 pairs", *DUAL, "europarl-100k", EQUAL, *LONGER),
    Line("100,000 pairs, little text", *DUAL, "europarl-100k-50k", EQUAL, *LONGER),
    Line("48,000 pairs, one shared network", *DUAL, "europarl-shared", SHARED, *LONGER),
    poor(STAR, "loops through English", "dual loops", "europarl-star", POOR, *DUAL_LONGER),
    poor(f"{NO_PAIR}, seed 1", *THROUGH, POOR, "poor", "pivot"),
    poor(f"{NO_PAIR}, seed 2", *THROUGH[:2], f"{THROUGH[2]}/seed-2", POOR, "poor", "pivot"),
    poor(f"{NO_PAIR}, shared", "dual loops", THROUGH[1], f"{THROUGH[2]}-shared", SHARED, "dual", "pivot"),
    Line("Multi30k", *DUAL, "multi30k-dual", OTHER, *LONGER, FLICKR, ("de>en",)),
    Line("Tatoeba, 4,000 pairs", *DUAL, "tatoeba/symmetric", OTHER, *LONGER, "tatoeba"),
]
NOT = [
    Line("48,000 pairs", CHOSEN, LOOPS, "europarl-48k", EQUAL, *DUAL_LONGER),
    Line("100,000 pairs", CHOSEN, LOOPS, "europarl-100k", EQUAL, *DUAL_LONGER),
    Line("100,000 pairs, little text", CHOSEN, LOOPS, "europarl-100k-50k", EQUAL, *DUAL_LONGER),
    Line("48,000 pairs, one shared network", CHOSEN, LOOPS, "europarl-shared", SHARED, *DUAL_LONGER),
    Line("48,000 pairs", EVERY, LOOPS, "europarl-48k-uniform", EQUAL, *UNIFORM),
    Line("48,000 pairs, news", EVERY, LOOPS, "europarl-48k-uniform", EQUAL, *UNIFORM, "newstest2011"),
    poor(f"{STAR}, one shared network", EVERY, LOOPS, "europarl-star-shared", SHARED, *UNIFORM),
    poor(STAR, "loops through English (3,500 updates of all)", THROUGH[1], "europarl-star", POOR, "auto", "pivot"),
    Line("48,000 pairs", *BACK, "europarl-48k-uniform", EQUAL, "dual", BACK[1]),
    Line("Multi30k", *DUAL, "multi30k-dual", OTHER, *LONGER, FLICKR, ("en>de",)),
    Line("Multi30k", *BACK, "multi30k-dual", OTHER, "dual", BACK[1], FLICKR),
]
HEAD = ("data", "what over what", "BLEU gain (95% interval)", "on `test-long`", "seeds")


def _expect() -> str:
    """What the README says of each kind of data."""
    through = _poor("europarl-star-none", "poor", ("fr>en>es", "es>en>fr"))
    rows = [
        ("5,000 to 100,000 sentence pairs", "dual loops, `X>Y>X`", _range(GAINED[:4]), BITEXT),
        (
            *("a pair without bitext, both languages with bitext to a third", "loops through the third, `X>en>Y>X`"),
            f"{_poor('europarl-star-none', 'poor')} BLEU; decoding through English {through}",
            POOR,
        ),
        (
            *("a poor pair among rich ones", "one shared network and dual loops"),
            f"{_poor(SHARED_STAR, 'dual')} BLEU; without loops {_poor(SHARED_STAR, 'vanilla-longer')}",
            SHARED,
        ),
        ("as much bitext for all pairs", "dual loops; a third language adds nothing", _range(NOT[:4]), EQUAL),
        ("you do not know", "`loopmt plan` on the first stage", "how often it was right", "predictions.md"),
    ]
    lines = [[data, use, f"[{gained}](docs/experiments/{page})"] for data, use, gained, page in rows]
    return grid(["your data", "what to use", "what it gained"], lines)


def _range(lines: list[Line]) -> str:
    """The gains of several comparisons, from the first to the last in size."""
    values = [found.difference for line in lines if (found := line.gain())]
    ordered = sorted(values, reverse=values[0] > values[-1])
    return " to ".join(signed(value, 1) for value in (ordered[0], ordered[-1]))


def _poor(file: str, stage: str, paths: tuple[str, str] = ("fr>es", "es>fr")) -> str:
    return " and ".join(points(score(file, stage, "test", path), 1) for path in paths)


SHARED_STAR = "europarl-star-shared"
TABLES: dict[str, Table] = {
    "gained": lambda: grid(HEAD, [line.cells() for line in GAINED]),
    "expect": _expect,
    "not-gained": lambda: grid(HEAD, [line.cells() for line in NOT]),
}
