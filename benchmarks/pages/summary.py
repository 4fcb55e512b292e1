"""The front page: where loops gained over a control of equal budget, and where they did not."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid, interval, points, signed
from benchmarks.pages.raw import Gain, card, gain, over_pivot, score


@dataclass(frozen=True)
class Line:
    """A comparison of a scorecard and where it is told; against `pivot`: decoding through English."""

    data: str
    stage: str
    control: str
    file: str
    page: str
    of: str
    against: str
    test: str = "test"
    path: str | None = None

    def gain(self) -> Gain | None:
        if self.against != "pivot":
            return gain(self.file, self.of, self.against, self.test, self.path)
        return over_pivot(self.file, self.of, self.test, (self.path or "").replace(">", ">en>"))

    def cells(self) -> list[str]:
        data = f"[{self.data}](experiments/{self.page})"
        seeds = str(len(card(self.file)["seeds"]))
        path = self.path or "mean of all"
        return [data, self.stage, self.control, path, interval(self.gain()), seeds]


DUAL = ("dual loops", "longer training")
LONGER = ("dual", "vanilla-longer")
BITEXT, EQUAL, POOR, SHARED, OTHER = (
    f"{name}.md" for name in ("how-much-bitext", "equal-bitext", "poor-pair", "shared-network", "other-corpora")
)
STAR = "star: 5,000 pairs fr-es"
NO_PAIR = "star: no pair fr-es"
GAINED = [
    Line("5,000 pairs", *DUAL, "europarl-5000", BITEXT, *LONGER),
    Line("20,000 pairs", *DUAL, "europarl-20000", BITEXT, *LONGER),
    Line("48,000 pairs", *DUAL, "europarl-48k", EQUAL, *LONGER),
    Line("100,000 pairs", *DUAL, "europarl-100k", EQUAL, *LONGER),
    Line("100,000 pairs, little text", *DUAL, "europarl-100k-50k", EQUAL, *LONGER),
    Line("48,000 pairs, one shared network", *DUAL, "europarl-shared", SHARED, *LONGER),
    *(
        Line(STAR, "loops through English", "dual loops", "europarl-star", POOR, "auto", "dual-longer", path=path)
        for path in ("fr>es", "es>fr")
    ),
    *(
        Line(f"{NO_PAIR}, {seed}", "loops through English", "decoding through English", file, POOR, "poor", "pivot", path=path)
        for seed, file in (("seed 1", "europarl-star-none"), ("seed 2", "europarl-star-none/seed-2"))
        for path in ("fr>es", "es>fr")
    ),
    *(
        Line(f"{NO_PAIR}, shared", "dual loops", "decoding through English", "europarl-star-none-shared", SHARED, "dual", "pivot", path=path)
        for path in ("fr>es", "es>fr")
    ),
    *(
        Line("Multi30k", *DUAL, "multi30k-dual", OTHER, *LONGER, test="test_2016_flickr", path=path)
        for path in ("en>de", "de>en")
    ),
    Line("Tatoeba, 4,000 pairs", *DUAL, "tatoeba/symmetric", OTHER, *LONGER, test="tatoeba"),
]  # fmt: skip
DUAL_LONGER = ("auto", "dual-longer")
UNIFORM = ("multi-step", "dual-longer")
THIRD, EVERY, LOOPS = "loops over three languages, chosen", "loops over three languages, uniform", "more dual loops"
NOT = [
    Line("48,000 pairs", THIRD, LOOPS, "europarl-48k", EQUAL, *DUAL_LONGER),
    Line("100,000 pairs", THIRD, LOOPS, "europarl-100k", EQUAL, *DUAL_LONGER),
    Line("100,000 pairs, little text", THIRD, LOOPS, "europarl-100k-50k", EQUAL, *DUAL_LONGER),
    Line("48,000 pairs, one shared network", THIRD, LOOPS, "europarl-shared", SHARED, *DUAL_LONGER),
    Line("48,000 pairs", EVERY, LOOPS, "europarl-48k-uniform", EQUAL, *UNIFORM),
    Line("48,000 pairs, news", EVERY, LOOPS, "europarl-48k-uniform", EQUAL, *UNIFORM, test="newstest2011"),
    *(
        Line(f"{STAR}, one shared network", EVERY, LOOPS, "europarl-star-shared", SHARED, *UNIFORM, path=path)
        for path in ("fr>es", "es>fr")
    ),
    *(
        Line(STAR, "loops through English, 3,500 updates of all directions", "decoding through English", "europarl-star", POOR, "auto", "pivot", path=path)
        for path in ("fr>es", "es>fr")
    ),
    Line("48,000 pairs", "dual loops", "back-translation", "europarl-48k-uniform", EQUAL, "dual", "back-translation"),
    Line("Multi30k", "dual loops", "back-translation", "multi30k-dual", OTHER, "dual", "back-translation", test="test_2016_flickr"),
]  # fmt: skip
HEAD = ("data", "what", "against", "direction", "BLEU gain (95% interval)", "seeds")


def _expect() -> str:
    """What the README says of each kind of data."""
    curve = [one.gain() for one in GAINED[:4]]
    equal = [one.gain() for one in NOT[:4]]
    rows = [
        ("a pair with 5,000 to 100,000 sentence pairs", "dual loops, `X>Y>X`", _range(curve), BITEXT),
        (
            *("a pair without any bitext, both languages with bitext to a third", "loops through the third, `X>en>Y>X`"),
            f"{_poor('europarl-star-none', 'poor')} BLEU; decoding through English {_poor('europarl-star-none', 'poor', WAYS)}",
            POOR,
        ),
        (
            *("a poor pair among rich ones", "one shared network and dual loops"),
            f"{_poor('europarl-star-shared', 'dual')} BLEU; without loops {_poor('europarl-star-shared', 'vanilla-longer')}",
            SHARED,
        ),
        ("as much bitext for all pairs", "dual loops; a third language adds nothing", _range(equal), EQUAL),
    ]
    lines = [[data, use, f"[{gained}](docs/experiments/{page})"] for data, use, gained, page in rows]
    lines.append(["you do not know", "`loopmt plan` on the first stage", "[how often it was right](docs/experiments/predictions.md)"])
    return grid(["your data", "what to use", "what it gained"], lines)


def _range(found: list[Gain | None]) -> str:
    values = [one.difference for one in found if one]
    ends = (max(values), min(values)) if values[0] > values[-1] else (min(values), max(values))
    return " to ".join(signed(value, 1) for value in ends)


def _poor(file: str, stage: str, paths: tuple[str, str] = ("fr>es", "es>fr")) -> str:
    return " and ".join(points(score(file, stage, "test", path), 1) for path in paths)


WAYS = ("fr>en>es", "es>en>fr")
TABLES: dict[str, Table] = {
    "gained": lambda: grid(HEAD, [line.cells() for line in GAINED]),
    "expect": _expect,
    "not-gained": lambda: grid(HEAD, [line.cells() for line in NOT]),
}
