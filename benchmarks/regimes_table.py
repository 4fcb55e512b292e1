"""What loops did in each regime: `python -m benchmarks.regimes_table DIR`.

Copies DIR/*.json to docs/results/regimes, writes table.md there, and the predictions of every run to
docs/results/plans/REGIME-SEED.json, where `python docs/predicted.py` finds them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.regime import REGIMES
from benchmarks.timing import Json

from loopmt.planning.predicted import hit_rate

DOCS = Path(__file__).parents[1] / "docs" / "results"
STAGES = ("vanilla", "vanilla-longer", "dual", "dual-longer", "uniform", "hand", "auto")
GAINS = (("dual", "vanilla-longer"), ("uniform", "dual-longer"), ("hand", "dual-longer"), ("auto", "dual-longer"))
AUTO = (("auto", "dual-longer"), ("auto", "uniform"), ("auto", "hand"))
LETTER = (
    *(("letter", "letter-control"), ("letter-half", "dual-longer"), ("uniform", "letter-half")),
    *(("auto", "letter-half"), ("uniform", "letter"), ("auto", "letter")),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS, help="default: docs/results")
    options = parser.parse_args(arguments)
    regimes, plans = options.docs / "regimes", options.docs / "plans"
    for folder in (regimes, plans):
        folder.mkdir(parents=True, exist_ok=True)
    runs, joint = collect(options.folder)
    for file in options.folder.glob("*.json"):
        shutil.copyfile(file, regimes / file.name)
    for name, run in runs.items():
        content = {"rate": hit_rate(run["predicted"]), "rows": run["predicted"]}
        (plans / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (regimes / "table.md").write_text(page(runs, joint), encoding="utf-8")
    print(f"{len(runs)} runs of {len({run['regime'] for run in runs.values()})} regimes in {regimes / 'table.md'}")


def collect(folder: Path) -> tuple[dict[str, Json], dict[str, Json]]:
    """Single runs by name, and what several seeds say together, by regime."""
    contents = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}
    runs = {name: content for name, content in contents.items() if "predicted" in content}
    return runs, {name: content for name, content in contents.items() if name not in runs}


def page(runs: dict[str, Json], joint: dict[str, Json]) -> str:
    names = [name for name in REGIMES if any(run["regime"] == name for run in runs.values())]
    shown = {name: joint.get(name) or _alone(name, runs) for name in names}
    lettered = {name: one for name, one in shown.items() if "letter" in one["stages"]}
    return "\n".join(
        [
            "# Loops over regimes of the built-in languages",
            "",
            "Written by `python -m benchmarks.regimes_table`; the raw figures lie beside it. Exact accuracy on the",
            "test set (the judge of the built-in languages), greedy decoding, mean over directions; gains with 95%",
            "intervals, a paired bootstrap joint over directions, and over seeds where there are several.",
            "",
            *_about(runs.values()),
            *_table("Accuracy", ("regime", "seeds", *STAGES), (_accuracies(name, one) for name, one in shown.items())),
            *_table(
                "Gain in accuracy over the control of the same budget",
                ("regime", *map(_against, GAINS)),
                (_gains(name, one, GAINS) for name, one in shown.items()),
            ),
            *_table(
                '`mix = "auto"` against every fixed mix',
                ("regime", *map(_against, AUTO), "beyond the interval"),
                ((*_gains(name, one, AUTO), _worse(one)) for name, one in shown.items()),
            ),
            *_table(
                "Algorithm 2 to the letter, on its two directions",
                ("regime", "direction", *map(_against, LETTER)),
                (row for name, one in lettered.items() for row in _letters(name, one)),
            ),
            *_table(
                "By direction: accuracy",
                ("regime", "direction", *STAGES),
                (row for name, one in shown.items() for row in _directions(name, one)),
            ),
        ]
    )


def _alone(name: str, runs: dict[str, Json]) -> Json:
    """A regime of which one seed is there, or not all yet: the first."""
    return next(run for run in runs.values() if run["regime"] == name)


def _about(runs: Iterable[Json]) -> list[str]:
    """The machines and the time it took, and what each regime is."""
    found = []
    for text in dict.fromkeys(_machine(run["machine"]) for run in runs):
        mine = [run for run in runs if _machine(run["machine"]) == text]
        seconds = fmean(sum(run["cpu_seconds"].values()) for run in mine)
        found.append(f"{len(mine)} runs on {text}; {seconds:.0f} CPU seconds each on average.")
    regimes = {run["regime"]: run for run in runs}
    found += ["", *(f"* **{name}**: {regimes[name]['what']}" for name in REGIMES if name in regimes), ""]
    collapsed = [f"* {run['regime']}, seed {run['seed']}: {run['collapsed']}" for run in runs if run["collapsed"]]
    return [*found, *(["Collapsed:", "", *collapsed, ""] if collapsed else [])]


def _machine(machine: Json) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['device']}, {machine['cores']} cores, one thread each, Python {machine['python']}, {packages}"


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"## {title}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines, ""] if lines else []


def _against(pair: tuple[str, str]) -> str:
    return f"{pair[0]} - {pair[1]}"


def _accuracies(name: str, one: Json) -> list[str]:
    stages = one["stages"]
    cells = [f"{stages[stage]['mean']['accuracy']:.3f}" if stage in stages else "-" for stage in STAGES]
    return [name, ", ".join(map(str, one["seeds"])), *cells]


def _gains(name: str, one: Json, pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [name, *(_difference(found["joint"] if (found := _compared(one, pair)) else None) for pair in pairs)]


def _compared(one: Json, pair: tuple[str, str]) -> Json | None:
    return next((row for row in one["comparisons"] if (row["of"], row["against"]) == pair), None)


def _difference(scores: Json | None) -> str:
    if scores is None:
        return "-"
    found = scores["accuracy"]
    return f"{found['difference']:+z.3f} ({found['low']:+z.3f} to {found['high']:+z.3f})"


def _worse(one: Json) -> str:
    """In which comparisons the interval lies on one side of zero."""
    found = [(pair, row["joint"]["accuracy"]) for pair in AUTO if (row := _compared(one, pair))]
    worse = [f"worse than {pair[1]}" for pair, gain in found if gain["high"] < 0]
    better = [f"better than {pair[1]}" for pair, gain in found if gain["low"] > 0]
    return "; ".join(worse + better) or "no difference"


def _letters(name: str, one: Json) -> list[list[str]]:
    letter = REGIMES[name].letter
    hops = [f"{letter[0]}>{letter[1]}", f"{letter[1]}>{letter[0]}"] if letter else []
    compared = [_compared(one, pair) for pair in LETTER]
    return [[name, hop, *(_difference(found and found["directions"].get(hop)) for found in compared)] for hop in hops]


def _directions(name: str, one: Json) -> list[list[str]]:
    stages = one["stages"]
    hops = dict.fromkeys(hop for stage in stages.values() for hop in stage["directions"])

    def cell(stage: str, hop: str) -> str:
        scores = stages.get(stage, {"directions": {}})["directions"].get(hop)
        return f"{scores['accuracy']:.3f}" if scores else "-"

    return [[name, hop, *(cell(stage, hop) for stage in STAGES)] for hop in hops]


if __name__ == "__main__":
    main()
