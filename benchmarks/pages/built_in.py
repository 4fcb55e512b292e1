"""The built-in languages, whose judge is exact: the demo, regimes of data, a pair without bitext."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import NOTHING, grid, interval, points, signed
from benchmarks.pages.raw import RESULTS, Gain, Json, card, content
from benchmarks.pages.scores import POOR
from benchmarks.regime import REGIMES
from benchmarks.table import wrapped

STAGES = ("vanilla", "vanilla-longer", "dual", "dual-longer", "uniform", "hand", "auto")
PAIRS = (
    "dual/vanilla-longer",
    "uniform/dual-longer",
    "hand/dual-longer",
    "auto/dual-longer",
    "auto/uniform",
    "auto/hand",
)
LETTER = (
    *("letter/letter-control", "letter-half/dual-longer", "uniform/letter-half"),
    *("auto/letter-half", "uniform/letter", "auto/letter"),
)
DEMO = ("vanilla", "longer", "dual", "loops")
DEMO_SHORT = ("vanilla", "longer", "loops")
T_OF_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t for an interval of 95%, by the number of seeds."""


def regimes(folder: Path) -> dict[str, Json]:
    """Of every regime its seeds together, or its only seed."""
    contents = {file.stem: content(f"{folder.name}/{file.stem}") for file in sorted(folder.glob("*.json"))}
    single = {one["regime"]: one for one in reversed(contents.values()) if "what" in one}
    return {name: contents.get(name, single[name]) for name in REGIMES if name in single}


def _of_regimes(folder: str) -> dict[str, Json]:
    return regimes(RESULTS / folder)


def _accuracies(folder: str) -> str:
    rows = [
        [name, _seeds(one), *(_accuracy(one, stage) for stage in STAGES)] for name, one in _of_regimes(folder).items()
    ]
    return grid(["regime", "seeds", *STAGES], rows)


def _seeds(one: Json) -> str:
    return ", ".join(map(str, one["seeds"]))


def _accuracy(one: Json, stage: str, hop: str | None = None) -> str:
    if stage not in one["stages"]:
        return NOTHING
    found = one["stages"][stage]
    scores = found["mean"] if hop is None else found["directions"].get(hop)
    return points(scores["accuracy"] if scores else None, 3)


def _gains(folder: str, pairs: Sequence[str]) -> str:
    rows = [[name, *(_gain(one, pair) for pair in pairs)] for name, one in _of_regimes(folder).items()]
    return grid(["regime", *(pair.replace("/", " over ") for pair in pairs)], rows)


def _gain(one: Json, pair: str, hop: str | None = None) -> str:
    of, _, against = pair.partition("/")
    for found in one["comparisons"]:
        if (found["of"], found["against"]) == (of, against):
            scores = found["joint"] if hop is None else found["directions"].get(hop)
            return interval(Gain(*scores["accuracy"]) if scores else None, 3)
    return NOTHING


def _letters() -> str:
    """Algorithm 2 to the letter, on the two directions that it trains."""
    rows = []
    for name, one in _of_regimes("regimes-short").items():
        first, second = REGIMES[name].letter or ("", "")
        hops = [f"{first}>{second}", f"{second}>{first}"] if first else []
        rows += [[name, hop, *(_gain(one, pair, hop) for pair in LETTER)] for hop in hops]
    return grid(["regime", "direction", *(pair.replace("/", " over ") for pair in LETTER)], rows)


def _poor_pair(folder: str) -> str:
    found = [(name, one) for name, one in _of_regimes(folder).items() if "star" in name]
    rows = [[name, hop, *(_accuracy(one, stage, hop) for stage in STAGES)] for name, one in found for hop in POOR]
    return grid(["regime", "direction", *STAGES], rows)


def _about(folder: str) -> str:
    """What each regime is, and the machine."""
    lines = [f"- **{name}**: {_what(folder, name)}." for name in _of_regimes(folder)]
    return "\n".join([*lines, "", *_machines(folder)])


def _what(folder: str, name: str) -> str:
    files = sorted((RESULTS / folder).glob(f"{name}-[0-9].json"))
    return str(content(f"{folder}/{files[0].stem}")["what"])


def _machines(folder: str) -> Iterable[str]:
    runs = [content(f"{folder}/{file.stem}") for file in sorted((RESULTS / folder).glob("*-[0-9].json"))]
    for text in dict.fromkeys(map(_machine, runs)):
        mine = [run for run in runs if _machine(run) == text]
        seconds = fmean(sum(run["cpu_seconds"].values()) for run in mine)
        yield wrapped(f"{len(mine)} runs on {text}; {seconds:.0f} CPU seconds each on average.")


def _machine(run: Json) -> str:
    machine = run["machine"]
    return (
        f"{machine['device']}, {machine['cores']} shared cores, one thread each, "
        f"Python {machine['python']}, torch {machine['versions']['torch']}"
    )


def _zero_resource() -> str:
    """Two tiny networks that learn from loops through English alone."""
    return _exact({"six networks": "zero-resource/scores", "one shared network": "zero-resource/shared-scores"})


def _exact(files: dict[str, str]) -> str:
    rows = [
        [label, stage, *(_exactly(file, stage, path) for path in (*POOR, "fr>en>es", "es>en>fr"))]
        for label, file in files.items()
        for stage in card(file)["stages"]
    ]
    return grid(["networks", "stage", *POOR, "fr>en>es", "es>en>fr"], rows)


def _exactly(file: str, stage: str, path: str) -> str:
    found = card(file)["stages"][stage]["sets"]["test"]
    one = (found["directions"] | found.get("pivots", {})).get(path)
    return f"{one['accuracy']:.1%}, {points(one['multi_bleu'], 1)}" if one else NOTHING


def demo(folder: Path | None = None) -> str:
    """Exactly right after each stage, by seed and direction, and what loops gain in the mean of the seeds."""
    found = sorted((folder or RESULTS / "demo").glob("seed-*.json"))
    if not found:
        return "Not measured yet: `docs/results/demo` has no raw files."
    cards = {file.stem.removeprefix("seed-"): card_of(file) for file in found}
    hops = dict.fromkeys(hop for one in cards.values() for hop in _directions(one, "loops"))
    names = [name for name in DEMO if all(name in one["stages"] for one in cards.values())]
    rows = [["mean", hop, *_means(list(cards.values()), names, [hop])] for hop in hops]
    rows += [
        [seed, hop, *(f"{_right(one, name, hop):.1%}" for name in names), ""]
        for seed, one in cards.items()
        for hop in hops
    ]
    return grid(["seed", "direction", *names, "loops over longer, points"], rows)


def demo_means(folder: Path | None = None) -> str:
    """The means over the seeds: the two directions without a pair, and all that have pairs together."""
    cards = [card_of(file) for file in sorted((folder or RESULTS / "demo").glob("seed-*.json"))]
    without = ["fr>es", "es>fr"]
    taught = [hop for hop in _directions(cards[0], "loops") if hop not in without]
    rows = [[hop, *_means(cards, DEMO_SHORT, [hop])] for hop in without]
    rows.append([f"mean of the {len(taught)} with pairs", *_means(cards, DEMO_SHORT, taught)])
    return grid(["direction", "vanilla", "longer (control)", "loops", "loops over control, points"], rows)


def card_of(file: Path) -> Json:
    """A scorecard as `loopmt evaluate` writes it, or within what `benchmarks.records` keeps."""
    found: Json = json.loads(file.read_text(encoding="utf-8"))
    scores: Json = found.get("scorecard", found)
    return scores


def _directions(one: Json, stage: str) -> Json:
    scores: Json = one["stages"][stage]["sets"]["test"]["directions"]
    return scores


def _right(one: Json, stage: str, hop: str) -> float:
    """0 where a stage does not speak the direction."""
    return float(_directions(one, stage).get(hop, {"accuracy": 0.0})["accuracy"])


def _means(cards: Sequence[Json], names: Sequence[str], hops: Sequence[str]) -> list[str]:
    """Of the seeds, over these directions together."""
    table = {name: [fmean(_right(one, name, hop) for hop in hops) for one in cards] for name in names}
    gains = [loops - longer for loops, longer in zip(table["loops"], table["longer"], strict=True)]
    return [*(f"{fmean(table[name]):.1%}" for name in names), _spread(gains)]


def _spread(differences: Sequence[float]) -> str:
    """The mean difference of the seeds with Student's interval of 95%."""
    centre = 100 * fmean(differences)
    if len(differences) not in T_OF_95:
        return signed(centre, 1)
    reach = 100 * T_OF_95[len(differences)] * stdev(differences) / len(differences) ** 0.5
    return interval(Gain(centre, centre - reach, centre + reach), 1)


TABLES: dict[str, Table] = {
    "demo": demo,
    "demo-means": demo_means,
    "regimes": lambda: _accuracies("regimes"),
    "regimes-gains": lambda: _gains("regimes", PAIRS[:4]),
    "regimes-auto": lambda: _gains("regimes", PAIRS[3:]),
    "regimes-poor-pair": lambda: _poor_pair("regimes"),
    "regimes-about": lambda: _about("regimes"),
    "regimes-short": lambda: _accuracies("regimes-short"),
    "regimes-short-gains": lambda: _gains("regimes-short", PAIRS[:4]),
    "regimes-short-auto": lambda: _gains("regimes-short", PAIRS[3:]),
    "regimes-short-about": lambda: _about("regimes-short"),
    "letter": _letters,
    "zero-resource": _zero_resource,
}
