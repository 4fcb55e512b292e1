"""One session on a machine that is borrowed for minutes: train, evaluate, and collect the small results.

    python -m benchmarks.gpu_session examples/europarl-48k.toml --run runs/48k --until dual auto --out results

A call that runs out of time prints "unfinished" and exits with 0; the same command resumes. With
`--last` training ends `--judging` minutes before the call does, and what is finished by then is judged. `--judge
decode` does only the work for a GPU, since scoring on a CPU takes longer than decoding. RUN.session keeps the
account and what each step printed, and so does RUN/session once a stage is finished. At the end DIR holds all there is
to bring home, whatever was in it before:

    costs.json     seconds of each step, and of each stage by what it did
    STEP.txt       what each step printed: the tables of evaluate, plan, analyze and report
    run.tar.xz     the run without training text and weights, and what its translators said on loops: `python -m
    loops.tar.xz   benchmarks.bundle` makes a run of them that can be judged elsewhere, several seeds together
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bundle import pack
from benchmarks.commands import execute, pause

from loopmt.config import load
from loopmt.run import Run, read_json, result_bleu, write_json

Json = dict[str, Any]
JUDGES = ("decode", "evaluate", "plan", "analyze", "report")
_LEAST = 30.0  # seconds in which nothing is worth starting


@dataclass(frozen=True)
class Step:
    """One command of loopmt in a session."""

    name: str
    command: tuple[str, ...]
    stages: tuple[str, ...] = ()  # that it trains; side by side, the last one may be finished first


@dataclass
class GpuSession:
    """Runs the steps within a time limit."""

    options: argparse.Namespace
    began: float = field(default_factory=time.monotonic)

    @property
    def run(self) -> Run:
        return Run(self.options.run)

    @property
    def finished(self) -> list[str]:
        return self.run.finished() if (self.run.folder / "experiment.json").is_file() else []

    @property
    def records(self) -> Path:
        """Beside the run: what is not yet a run must hold nothing else."""
        return self.run.folder.with_name(f"{self.run.folder.name}.session")

    @property
    def overrides(self) -> list[str]:
        seed = [] if self.options.seed is None else [f"seed={self.options.seed}"]
        return [*self.options.set, *seed]

    def go(self) -> str:
        """Train and evaluate. Return a message about the end."""
        self.training()  # checks the names of stages first
        try:
            return self._go()
        finally:
            self.collect_results()

    def _go(self) -> str:
        kept = self.options.judging * 60 if self.options.last else 0.0
        trained = all(self._each([self.preparing(), *self.training()], kept))
        over = self.options.last and bool(self.finished)
        if (trained or over) and all(self._each(self.judging(), 0.0)):
            return "finished" if trained else "finished: the stages trained in time are evaluated"
        return "unfinished: run the same command again"

    def _each(self, steps: Sequence[Step], kept: float) -> Iterator[bool]:
        """Run the steps in order until one does not finish."""
        for step in steps:
            done = self.done(step) or self.take(step, kept)
            yield done
            if not done:
                return

    # -- steps -----------------------------------------------------------------------------------------------

    def preparing(self) -> Step:
        return Step("prepare", ("prepare", *self._experiment()))

    def training(self) -> list[Step]:
        """One step for each `--until`, or one for all of `--only`."""
        options = self.options
        if options.only:
            only = [word for stage in options.only for word in ("--only", stage)]
            return [self._train("+".join(options.only), None, only)]
        return [self._train(stage, stage, ["--until", stage]) for stage in options.until]

    def _train(self, name: str, until: str | None, words: Sequence[str]) -> Step:
        asked = load(self.options.experiment, self.overrides).asked_for(until, self.options.only)
        command = ("train", *self._experiment(), *words, "--jobs", str(self.options.jobs))
        return Step(f"train-{name}", command, tuple(stage.name for stage in asked))

    def judging(self) -> list[Step]:
        """The steps of evaluation on all finished stages; the plan is for the first stage."""
        options = self.options
        paths = [word for path in options.path for word in ("--path", path)]
        sentences = ["--sentences", str(options.sentences)]
        more = {
            "decode": [*paths, *sentences],
            "evaluate": [*paths, "--samples", str(options.samples)],
            "analyze": [*sentences, *["--against-plan"] * ("plan" in options.judge)],
        }
        common = (str(options.run), "--beam", str(options.beam))
        return [Step(judge, (judge, *common, *more.get(judge, []))) for judge in JUDGES if judge in options.judge]

    def _experiment(self) -> tuple[str, ...]:
        overrides = [word for override in self.overrides for word in ("--set", override)]
        return (str(self.options.experiment), "--run", str(self.options.run), *overrides)

    # -- running steps ---------------------------------------------------------------------------------------

    def done(self, step: Step) -> bool:
        if step.stages:
            return set(step.stages) <= set(self.finished)
        entry = self.account().get(step.name, {"done": False})
        return bool(entry["done"]) and (step.name == "prepare" or entry["stages"] == self.finished)

    def take(self, step: Step, kept: float) -> bool:
        """Run a step in the remaining time except the `kept` seconds. Return whether it is done."""
        seconds = self._left(kept)
        if seconds < _LEAST:
            return False
        print(f"{step.name}: {seconds:.0f} s left", flush=True)
        began = time.monotonic()
        code = self._execute(step, seconds)
        done = code == 0 and set(step.stages) <= set(self.finished)
        self._enter(step, time.monotonic() - began, done)
        if code:
            sys.exit(f"{step.name} failed with exit code {code}; see {self.options.out / step.name}.txt")
        return done

    def _execute(self, step: Step, seconds: float) -> int | None:
        """The exit code; None if the command was killed after the time limit."""
        self.records.mkdir(parents=True, exist_ok=True)
        until = pause(seconds) if step.stages else ()
        name, *words = step.command
        log = self.records / f"{step.name}.txt"
        if name == "decode":
            return execute("benchmarks.decoding", words, log, seconds)
        return execute("loopmt", [name, *words, *until], log, seconds)

    # -- the account -----------------------------------------------------------------------------------------

    def account(self) -> Json:
        file = self.records / "account.json"
        return read_json(file) if file.is_file() else {}

    def _enter(self, step: Step, seconds: float, done: bool) -> None:
        account = self.account()
        before = account.get(step.name, {"seconds": 0.0, "calls": 0})
        account[step.name] = {
            "seconds": round(before["seconds"] + seconds, 1),
            "calls": before["calls"] + 1,
            "done": done,
            "stages": self.finished,
        }
        write_json(self.records / "account.json", account)

    def _left(self, kept: float) -> float:
        return float(self.options.call_minutes * 60 - (time.monotonic() - self.began) - kept)

    # -- results ---------------------------------------------------------------------------------------------

    def collect_results(self) -> None:
        out, folder = self.options.out, self.run.folder
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "costs.json", {"steps": self.account(), "stages": dict(self._costs())})
        for file in self.records.glob("*.txt"):
            shutil.copy(file, out)
        if self.finished:
            shutil.copytree(self.records, folder / "session", dirs_exist_ok=True)
        pack(folder, out)

    def _costs(self) -> Iterator[tuple[str, Json]]:
        for name in self.finished:
            state = read_json(self.run.stage(name).folder / "result/state.json")["state"]
            yield name, {"updates": state["update"], "valid_bleu": result_bleu(state), "seconds": state["seconds"]}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--until", nargs="+", metavar="STAGE", help="trained with all stages before it")
    which.add_argument("--only", nargs="+", default=[], metavar="STAGE", help="trained with those they come from")
    parser.add_argument("--call-minutes", type=float, default=9.3, help="duration of one call")
    parser.add_argument("--last", action="store_true", help="evaluate in this call, even if training is unfinished")
    parser.add_argument("--judging", type=float, default=6.0, help="minutes reserved for evaluation")
    parser.add_argument("--judge", nargs="*", default=JUDGES, choices=JUDGES)
    parser.add_argument(
        "--path", action="append", default=[], help='also decode along a pivot path, such as "fr>en>es"'
    )
    parser.add_argument("--samples", type=int, default=1000, help="bootstrap samples; later there can be more")
    parser.add_argument("--sentences", type=int, default=300, help="rows of each test set for the analysis of loops")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1, help="stages trained in parallel")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    session = GpuSession(parse(arguments))
    ending = session.go()
    print(json.dumps({name: entry["seconds"] for name, entry in session.account().items()}))
    print(ending)


if __name__ == "__main__":
    main()
