"""Exploration of settings that affect the gains of loops: many short stages from one start, compared by validation.

    python -m benchmarks.explore examples/europarl-48k.toml --base runs/48k --out runs/explore --workers 4
    python -m benchmarks.explore examples/europarl-star.toml --base runs/star --out runs/longer --start dual \
        --only longer longer-auto longer-uniform

The run of `--base` has the finished stage to start from (the first, or `--start`); otherwise it is trained. Every
variant is a separate run that shares text and start with the base, so failures are independent, and several train at
once. The same command resumes; it prints the table and writes it as DIR/explore.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from benchmarks.commands import GRACE, execute, pause
from benchmarks.machine import describe
from benchmarks.timing import Plan

from loopmt.config import load
from loopmt.errors import LoopmtError
from loopmt.run import Run, StageFolder, write_json

Json = dict[str, Any]
_TOP = "top_k = 10, temperature = 0.7"
_HOW = f"generate = {{ {_TOP} }}"
_LOOP = f'{{ path = "X>Y>X", {_HOW} }}'
_GREEDY_FIRST = f'{{ path = "X>Y>Z>X", generate = [{{ how = "greedy" }}, {{ {_TOP} }}] }}'
_AGREEMENT = '{ path = "X>Z<Y", generate = { how = "greedy" } }'


def _loop(how: str = "", more: str = "", weight: int = 1, bitext: int = 1, train: str = "") -> str:
    generate = f", generate = {{ {how} }}" if how else ""
    entries = f'{{ path = "X>Y", weight = {bitext} }}, {{ path = "X>Y>X", weight = {weight}{generate}{more} }}'
    return f"mix = [{entries}]" + _trained(train)


def _and(*entries: str) -> str:
    """Dual learning and another path; half of the tokens are bitext."""
    return f'mix = [{{ path = "X>Y", weight = 2 }}, {", ".join(entries)}]'


def _dual(train: str = "") -> str:
    return f'mix = ["X>Y", {_LOOP}]' + _trained(train)


def _plain(train: str = "") -> str:
    return 'mix = ["X>Y"]' + _trained(train)


def _trained(train: str) -> str:
    return f"\ntrain = {{ {train} }}" if train else ""


def _three(loop: str = '"X>Y>X"', longer: str = '"X>Y>Z>X"') -> str:
    """A third of the tokens each: bitext, dual loops, and loops over a third language."""
    return f'mix = ["X>Y", {loop}, {longer}]'


def _auto(*settings: str, train: str = "", keep: float = 1.0) -> str:
    return f'mix = "auto"\nauto = {{ {", ".join([f"keep = {keep}", *settings])} }}' + _trained(train)


def _same(path: str) -> str:
    return f'{{ path = "{path}", same_rows = true, {_HOW} }}'


VARIANTS = {  # most important first, as time may run out
    "control": _plain(),
    "top-k-10": _dual(),
    "frozen": _loop(f'by = "frozen", {_TOP}'),
    "greedy": _loop('how = "greedy"'),
    "sample-all": _loop("temperature = 1.0, top_k = 0"),
    "beam-tag": _loop('how = "beam", beam = 4', ", tag = true"),
    "bitext-1-3": _loop(_TOP, weight=2),
    "bitext-1-5": _loop(_TOP, weight=4),
    "bitext-2-3": _loop(_TOP, bitext=2),
    "keep-0.7": _loop(_TOP, ", keep = 0.7"),
    "keep-0.5": _loop(_TOP, ", keep = 0.5"),
    "three": _and(_LOOP, f'{{ path = "X>Y>Z>X", {_HOW} }}'),
    "three-same-rows": _and(_same("X>Y>X"), _same("X>Z>Y>X")),
    "three-greedy-first": _and(_LOOP, _GREEDY_FIRST),
    "agreement": _and(_LOOP, _AGREEMENT),
    "auto": _auto("supervised = 0.5"),
    "auto-keep-0.7": _auto("supervised = 0.5", keep=0.7),
    "self-training": _and(_LOOP, '{ path = "X>Y<X", generate = { how = "greedy" } }'),
    "beam": _loop('how = "beam", beam = 4'),
    "ema": _loop(f'by = "ema", {_TOP}'),
    "top-k-5": _loop("top_k = 5, temperature = 0.7"),
    "two-samples": _loop(_TOP, ", samples = 2"),
    "two-logmeanexp": _loop(_TOP, ', samples = 2, combine = "logmeanexp"'),
    "round-4": _dual("round = 4"),
    "round-64": _dual("round = 64"),
    "no-smoothing": _dual("label_smoothing = 0.0"),
}
_TRAININGS = {  # dual learning with other training settings, each with a control with the same settings
    "lr-1e-4": "learning_rate = 1e-4",
    "lr-3e-4": "learning_rate = 3e-4",
    "lr-6e-4": "learning_rate = 6e-4",
    "lr-1e-3": "learning_rate = 1e-3",
    "lr-2e-3": "learning_rate = 2e-3",
    "linear": 'schedule = "linear"',
    "subword-dropout": "subword_dropout = 0.1",
    "tokens-8192": "tokens = 8192",
    "dropout-0.1": "dropout = 0.1",
    "dropout-0.2": "dropout = 0.2",
    "dropout-0.3": "dropout = 0.3",
    "dropout-0.3-lr-3e-4": "dropout = 0.3, learning_rate = 3e-4",
    "dropout-0.3-lr-2e-3": "dropout = 0.3, learning_rate = 2e-3",
    "dropout-0.1-lr-6e-4": "dropout = 0.1, learning_rate = 6e-4",
    "dropout-0.1-lr-1e-3": "dropout = 0.1, learning_rate = 1e-3",
    "dropout-0.1-lr-2e-3": "dropout = 0.1, learning_rate = 2e-3",
    "dropout-0-lr-1e-3": "dropout = 0.0, learning_rate = 1e-3",
}
for _name, _train in _TRAININGS.items():
    VARIANTS |= {_name: _dual(_train), f"control-{_name}": _plain(_train)}
_ALSO_SHARED_OTHERWISE = ("lr-3e-4", "lr-2e-3", "dropout-0.1", "dropout-0.1-lr-1e-3")
for _name in _ALSO_SHARED_OTHERWISE:
    VARIANTS |= {
        f"{_name}-bitext-1-3": _loop(_TOP, weight=2, train=_TRAININGS[_name]),
        f"{_name}-bitext-1-5": _loop(_TOP, weight=4, train=_TRAININGS[_name]),
        f"{_name}-greedy": _loop('how = "greedy"', train=_TRAININGS[_name]),
    }


VARIANTS |= {  # after dual learning: loops over three languages, a third of bitext, against more of the same
    "longer": _loop(weight=2),
    "longer-auto": _auto(),
    "longer-uniform": _three(),
    "longer-same-rows": _three(_same("X>Y>X"), _same("X>Z>Y>X")),
    "longer-greedy-first": _three(longer=_GREEDY_FIRST),
    "longer-auto-half": _auto("supervised = 0.5"),
    "longer-auto-fifth": _auto("supervised = 0.2"),
    "longer-auto-greedy": _auto('generate = { how = "greedy" }'),
    "longer-auto-ema": _auto('generate = { by = "ema" }'),
    "longer-auto-frozen": _auto('generate = { by = "frozen" }'),
    "longer-auto-keep-0.7": _auto(keep=0.7),
    "longer-auto-round-8": _auto(train="round = 8"),
    "longer-auto-round-128": _auto(train="round = 128"),
    "longer-auto-no-smoothing": _auto(train="label_smoothing = 0.0"),
    "longer-two-samples": _loop(weight=2, more=", samples = 2"),
    "longer-agreement": _three(longer=_AGREEMENT),
}
_WIDE = max(map(len, VARIANTS))
_ABOUT = 1.03  # tolerance for "as many updates", because a validation waits for the end of its round
COOLED = ("control", "top-k-10")  # each followed by a fifth as many updates on bitext alone


def control_of(stage: str) -> str:
    """The control of a stage: more bitext with the same settings, or after dual learning more of that."""
    if stage.startswith("longer"):
        return "longer"
    if stage.endswith("-cooled"):
        return "control-cooled"
    alike = [name for name in _TRAININGS if stage == name or stage.startswith(f"{name}-")]
    return f"control-{max(alike, key=len)}" if alike else "control"


@dataclass
class Exploration:
    """Trains the variants within a time limit."""

    options: argparse.Namespace
    began: float = field(default_factory=time.monotonic)
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return self.options.only or list(VARIANTS)

    @property
    def start(self) -> str:
        return self.chain[-1]

    @cached_property
    def chain(self) -> list[str]:
        """The stage that variants start from, after its ancestors."""
        experiment = load(self.options.experiment, self.options.set)
        start = self.options.start or experiment.stages[0].name
        return [*reversed(experiment.ancestors(start)), start]

    def left(self) -> float:
        return float(self.options.seconds - (time.monotonic() - self.began))

    def go(self) -> None:
        self.options.out.mkdir(parents=True, exist_ok=True)
        if self._base():
            with ThreadPoolExecutor(self.options.workers) as pool:
                list(pool.map(self._explore, self.names))
        rows = list(self.rows())
        about = describe(Plan(torch.device("cuda" if torch.cuda.is_available() else "cpu")), "benchmarks.explore")
        found = {"machine": about, "start": list(self.start_rows()), "variants": rows}
        write_json(self.options.out / "explore.json", found)
        print(_table(rows, self.notes, self.names))

    # -- training --------------------------------------------------------------------------------------------

    def _base(self) -> bool:
        """Whether the stage to start from is finished."""
        folder = Run(self.options.base).stage(self.start)
        if not folder.finished:
            more = ["--until", self.start, "--jobs", str(self.options.workers)]
            self._train(self.options.experiment, self.options.base, "base", *more)
        return folder.finished

    def _explore(self, name: str) -> None:
        file = self._write(name)
        try:
            stages = load(file, self.options.set).stages
        except LoopmtError as error:
            self.notes[name] = f"refused: {error}"
            return
        run = Run(self.options.base).shadow(self.options.out / name, self.chain)
        if all(run.stage(stage.name).finished for stage in stages):
            return
        if self.left() < 2 * GRACE:
            self.notes[name] = "no time left"
        elif code := self._train(file, run.folder, name):
            self.notes[name] = f"exit code {code}: see {self.options.out / name}.log"

    def _train(self, file: Path, run: Path, name: str, *more: str) -> int | None:
        """The exit code; None if the command was killed after the time limit."""
        overrides = [word for value in self.options.set for word in ("--set", value)]
        words = ["train", str(file), "--run", str(run), *overrides, *pause(self.left()), *more]
        return execute("loopmt", words, self.options.out / f"{name}.log", self.left())

    def _write(self, name: str) -> Path:
        """Write an experiment file with the head, the stages to start from, and the variant."""
        text = self.options.experiment.read_text(encoding="utf-8").split("[[compare]]")[0]
        head, *known = text.split("[[stage]]")
        before = [one for one in known if any(f'name = "{stage}"' in one for stage in self.chain)]
        updates = self.options.updates
        stages = [f'name = "{name}"\nfrom = "{self.start}"\nupdates = {updates}\n{VARIANTS[name]}']
        if name in COOLED:
            cool = f'updates = {max(1, updates // 5)}\nmix = ["X>Y"]\ntrain = {{ learning_rate = 1e-4 }}'
            stages.append(f'name = "{name}-cooled"\nfrom = "{name}"\n{cool}')
        file: Path = self.options.out / f"{name}.toml"
        file.write_text("[[stage]]".join([head, *before, *(f"\n{stage}\n" for stage in stages)]), encoding="utf-8")
        return file

    # -- results ---------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[Json]:
        """Every stage that was validated, with its gain over its control."""
        found = {stage: row for name in self.names for stage, row in self._stages(name)}
        for stage, row in found.items():
            yield {"stage": stage, **row, "gain": gain_over(row, found.get(control_of(stage), row))}

    def _stages(self, name: str) -> Iterator[tuple[str, Json]]:
        for stage in (name, f"{name}-cooled")[: 1 + (name in COOLED)]:
            if row := _validated(Run(self.options.out / name).stage(stage)):
                yield stage, {"mix": VARIANTS[name], **row}

    def start_rows(self) -> Iterator[Json]:
        """The rows of the stages that the variants start from."""
        for stage in self.chain:
            yield {"stage": stage, **_validated(Run(self.options.base).stage(stage))}


def _validated(folder: StageFolder) -> Json:
    """The validation records; empty before the first validation."""
    valid = [record for record in folder.records() if record["kind"] == "valid"]
    if not valid:
        return {}
    best = max(valid, key=lambda record: record["mean_bleu"])
    return {
        "update": valid[-1]["update"],
        "best": round(best["mean_bleu"], 2),
        "last": round(valid[-1]["mean_bleu"], 2),
        "bleu": best["bleu"],
        "accuracy": best["accuracy"],
        "validation": [[record["update"], round(record["mean_bleu"], 2)] for record in valid],
        "seconds": _seconds(folder),
    }


def gain_over(row: Json, control: Json) -> float | None:
    """The difference of the best validations after the same number of updates, as either may be unfinished."""
    if row is control:
        return None
    until = _ABOUT * min(row["update"], control["update"])
    ours, theirs = ([bleu for at, bleu in one["validation"] if at <= until] for one in (row, control))
    return round(max(ours) - max(theirs), 2) if ours and theirs else None


def _seconds(folder: StageFolder) -> Json | None:
    """The seconds of a finished stage by activity."""
    return folder.result_state()["seconds"] if folder.finished else None


def _table(rows: Sequence[Json], notes: dict[str, str], names: Sequence[str]) -> str:
    lines = [f"{'stage':{_WIDE}}   best   last   gain update   validation BLEU, mean of directions"]
    for row in rows:
        gain = "" if row["gain"] is None else f"{row['gain']:+z.2f}"
        took = "under way" if row["seconds"] is None else f"{sum(row['seconds'].values()):.0f} s"
        bleu = f"{row['best']:6.2f} {row['last']:6.2f} {gain:>6}"
        lines.append(f"{row['stage']:{_WIDE}} {bleu} {row['update']:6}   {took}")
    known = {row["stage"] for row in rows}
    lines += [f"{name:{_WIDE}} {notes.get(name, 'not begun')}" for name in names if name not in known or name in notes]
    return "\n".join(lines)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--base", type=Path, required=True, metavar="RUN")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, metavar="VARIANT")
    parser.add_argument("--start", metavar="STAGE", help="that variants start from; default: the first")
    parser.add_argument("--updates", type=int, default=2500, help="of each variant")
    parser.add_argument("--workers", type=int, default=1, help="variants trained at once")
    parser.add_argument("--seconds", type=float, default=86_400, help="of this call")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    Exploration(parse(arguments)).go()


if __name__ == "__main__":
    main()
