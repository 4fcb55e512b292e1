"""What stages with loops cost, in all settings, in one call of a GPU that is borrowed for ten minutes.

    python -m benchmarks.loop_session EUROPARL EUROPARL7 --out DIR [--minutes 9]

EUROPARL holds the files of `benchmarks.loop_stages`; EUROPARL7 holds bitext of English with six languages, and `mono`
and `valid` of all seven. Every setting is a process of its own, so that memory is measured apart, and what is over time
is left out. DIR has the record of each setting and `session.json`, which holds all of them, a table and the goals; the
table is also printed last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopmt.run import write_json

Json = dict[str, Any]
SEVEN = ("en", "de", "es", "fr", "it", "nl", "pt")
_LEAST = 20.0  # seconds in which no setting is worth starting


@dataclass(frozen=True)
class Setting:
    """The words of `benchmarks.loop_stages` for one setting."""

    words: str
    seven: bool = False  # of the corpora with seven languages


def _star(count: int) -> str:
    """A shared network of so many languages, with bitext with English only; untaught directions count, too."""
    return f"--shared --star --no-filters --languages {' '.join(SEVEN[:count])} --pairs 20000 --mono 60000"


SETTINGS: Mapping[str, Setting] = {
    "six": Setting("--vanilla 600 --updates 640 --profile dual"),
    "shared-6": Setting(f"{_star(3)} --stages control dual --vanilla 200 --updates 320", seven=True),
    "shared-12": Setting(f"{_star(4)} --vanilla 200 --updates 320", seven=True),
    "shared-42": Setting(f"{_star(7)} --stages control dual --vanilla 96 --updates 128", seven=True),
    "base": Setting("--preset base --vocabulary 16000 --stages control dual --vanilla 96 --updates 192"),
}
TINY = "--preset tiny --tokens 256 --round 1 --vanilla 2 --updates 12 --vocabulary 300 --pairs 100 --mono 100"


def measure(name: str, options: argparse.Namespace, seconds: float) -> str:
    """Run a setting. Return how it ended."""
    setting, out = SETTINGS[name], options.out
    command = [
        *(sys.executable, "-m", "benchmarks.loop_stages", str(options.seven if setting.seven else options.three)),
        *("--run", str(out / "runs" / name), "--out", str(out / f"{name}.json")),
        *setting.words.split(),
        *(TINY.split() if options.tiny else []),
    ]
    with (out / f"{name}.txt").open("w", encoding="utf-8") as log:
        try:
            code = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, timeout=seconds, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return f"stopped after {seconds:.0f} s"
    return "done" if code == 0 else f"failed with status {code}: see {name}.txt"


# -- the table -----------------------------------------------------------------------------------------------------


def rows(found: Mapping[str, Json]) -> Iterator[Json]:
    """A row for each stage that was measured."""
    for name, record in found.items():
        stages = {stage["stage"]: stage for stage in record["stages"]}
        control = stages.get("control")
        for stage in stages.values():
            yield {
                "setting": name,
                "of_control": stage["seconds"] / control["seconds"] if control else None,
                "tokens_of_control": stage["tokens_per_second"] / control["tokens_per_second"] if control else None,
                "microseconds_per_token": 1e6 * stage["seconds"] / max(stage["target_tokens"], 1),
                **{key: stage[key] for key in _KEYS},
            }


_KEYS = (
    *("stage", "ms_per_update", "generate_share", "generated_per_second", "tokens_per_second"),
    *("peak_gib", "predicted_gib"),
)


def line(row: Json) -> str:
    def number(key: str, form: str, factor: float = 1.0) -> str:
        return format(row[key] * factor, form) if row[key] is not None else "-"

    return (
        f"{row['setting']:10} {row['stage']:8} {number('ms_per_update', '8.1f')} ms {number('of_control', '5.2f')} "
        f"{number('generate_share', '5.0%')} {number('generated_per_second', '6.2f', 1e-6)}M "
        f"{number('tokens_per_second', '6.2f', 1e-6)}M "
        f"{number('peak_gib', '6.2f')} {number('predicted_gib', '6.2f')} GiB"
    )


HEAD = "setting    stage     an update    of control, generating, generated/s, learnt/s, peak, predicted"


# -- the goals -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """A figure of a row, and what it should be."""

    setting: str
    stage: str
    key: str
    limit: float
    least: bool = False  # else it is the most

    def met(self, table: Sequence[Json]) -> Json | None:
        """None where the stage was not measured."""
        row = next((row for row in table if (row["setting"], row["stage"]) == (self.setting, self.stage)), None)
        if row is None or row[self.key] is None:
            return None
        value = row[self.key]
        good = value >= self.limit if self.least else value <= self.limit
        return {"goal": f"{self.setting}, {self.stage}: {self.key}", "value": value, "limit": self.limit, "met": good}


GOALS = (
    Goal("six", "dual", "of_control", 1.6),
    Goal("six", "dual", "generate_share", 0.36),
    Goal("six", "dual", "generated_per_second", 3.3e6, least=True),
    Goal("six", "chosen", "of_control", 2.2),
    Goal("shared-12", "chosen", "of_control", 2.2),
    Goal("base", "dual", "tokens_of_control", 0.78, least=True),
    Goal("six", "dual", "peak_gib", 6e9 / 2**30),
    Goal("six", "chosen", "peak_gib", 6e9 / 2**30),
)


def goals(table: Sequence[Json], found: Mapping[str, Json]) -> list[Json]:
    """The goals that could be measured."""
    single = [one for goal in GOALS if (one := goal.met(table)) is not None]
    return [*single, *_memory(table), *_directions(table), *_validation(found)]


def _memory(table: Sequence[Json]) -> Iterator[Json]:
    """The prediction of a stage after vanilla, whose validation comes after its updates."""
    for row in table:
        if row["peak_gib"] and row["stage"] != "vanilla":
            ratio = row["predicted_gib"] / row["peak_gib"]
            what = f"{row['setting']}, {row['stage']}: predicted of peak"
            yield {"goal": what, "value": ratio, "limit": 1.15, "met": 0.85 <= ratio <= 1.15}


def _directions(table: Sequence[Json]) -> Iterator[Json]:
    by_stage = {(row["setting"], row["stage"]): row["microseconds_per_token"] for row in table}
    for stage in ("control", "dual"):
        if ("shared-42", stage) in by_stage and ("shared-6", stage) in by_stage:
            ratio = by_stage["shared-42", stage] / by_stage["shared-6", stage]
            what = f"{stage}: seconds per token with 42 directions of those with 6"
            yield {"goal": what, "value": ratio, "limit": 1.15, "met": ratio <= 1.15}


def _validation(found: Mapping[str, Json]) -> Iterator[Json]:
    """Validation and a checkpoint every 500 updates, as a share of a stage."""
    for name, record in found.items():
        if "profile" in record:
            rounds = record["profile"]["rounds"]
            own = record["profile"]["validations"][-1] + record["profile"]["checkpoints"][-1]
            share = own / (own + 500 / record["round"] * sum(rounds) / len(rounds))
            yield {"goal": f"{name}: share of validation", "value": share, "limit": 0.05, "met": share <= 0.05}


# -- command line --------------------------------------------------------------------------------------------------


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("three", type=Path, metavar="EUROPARL")
    parser.add_argument("seven", type=Path, metavar="EUROPARL7")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--only", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to check that everything runs")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
    options = parse(words)
    until = clock() + 60 * options.minutes
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    ended: dict[str, str] = {}
    for name in options.only:
        left = until - clock()
        ended[name] = measure(name, options, left) if left > _LEAST else "no time left"
        table, checked = _written(options, ended)
    print(HEAD, *map(line, table), sep="\n")
    for one in checked:
        print(f"{'met' if one['met'] else 'NOT MET':8} {one['goal']} = {one['value']:.4g} (goal {one['limit']:.4g})")
    print(*(f"{name}: {how}" for name, how in ended.items()), sep="\n")


def _written(options: argparse.Namespace, ended: Mapping[str, str]) -> tuple[list[Json], list[Json]]:
    """Write all that is known so far, in case that the call is cut off."""
    files = {name: options.out / f"{name}.json" for name in ended}
    found = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.is_file()}
    table = list(rows(found))
    checked = goals(table, found)
    record = {"ended": dict(ended), "table": table, "goals": checked, "settings": found}
    write_json(options.out / "session.json", record)
    return table, checked


if __name__ == "__main__":
    main()
