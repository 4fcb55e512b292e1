"""What stages with loops cost beside their control: seconds, generated tokens, memory, and a profile of rounds.

    python -m benchmarks.loop_stages corpora/europarl --run runs/loop-stages --out loop-stages.json [--profile dual]

The folder holds `bi.en-fr`, `bi.en-es`, `bi.fr-es`, `mono` and `valid` for English, French and Spanish, or other
`--languages`; with `--star` there is bitext with the first one only. A short vanilla stage is the parent of all others;
every stage has as many updates as its control, and nothing else should run on the machine. `--profile` traces nine more
rounds of a stage afterwards, so a stage needs that many, and times validation and a checkpoint.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from benchmarks.machine import describe
from benchmarks.timing import Json, Plan

from loopmt.distributed import Processes, device_of_this_process, synchronize
from loopmt.errors import LoopmtError
from loopmt.learn.memory import StageMemory
from loopmt.progress import Silent
from loopmt.run import Run, write_json, write_text
from loopmt.translate.networks import stack_of
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, assemble, setup_of
from loopmt.workflow.train import TrainOptions, train

EXPERIMENT = """
languages = {languages}
seed = 1

[data]
root = {root}
bitext = {{ {bitext} }}
mono = {{ {text} }}
valid = "valid"

[guards]
{filters}

[vocab]
size = {vocabulary}

[model]
preset = "{preset}"
sharing = "{sharing}"

[train]
tokens = {tokens}
shapes = 12
round = {round}
validate_every = 100_000

[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = {vanilla}
"""
STAGE = """
[[stage]]
name = "{name}"
from = "vanilla"
mix = {mix}
updates = {updates}
"""
MIXES = {
    "control": '["X>Y"]',
    "dual": '["X>Y", { path = "X>Y>X", weight = 2 }]',
    "chosen": '"auto"',
}
WARM, ROUNDS = 2, 3
PROFILED = WARM + 2 * ROUNDS + 1  # timed rounds, then as many with the host's profile, then one with the device's


def experiment(options: argparse.Namespace) -> str:
    root = json.dumps(str(options.corpora.absolute()))
    pairs = [f"{one}-{other}" for one, other in combinations(options.languages, 2)]
    pairs = [pair for pair in pairs if not options.star or pair.startswith(f"{options.languages[0]}-")]
    text = {
        "languages": json.dumps(options.languages),
        "bitext": ", ".join(f'{pair} = "bi.{pair}[:{options.pairs}]"' for pair in pairs),
        "text": ", ".join(f'{one} = "mono[:{options.mono}]"' for one in options.languages),
        "filters": "filters = []" if options.no_filters else "",
        "sharing": "all" if options.shared else "none",
    }
    head = EXPERIMENT.format(**vars(options) | text, root=root)
    return head + "".join(STAGE.format(name=name, mix=MIXES[name], updates=options.updates) for name in options.stages)


def measure(file: Path, run: Path, stage: str) -> Json:
    """Train a stage, and sum its log."""
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    train(TrainOptions(file, run, only=[stage]), Silent())
    wall = time.perf_counter() - began
    records = [json.loads(line) for line in (run / "stages" / stage / "metrics.jsonl").read_text().splitlines()]
    return {
        "stage": stage,
        "wall": wall,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        "predicted_gib": predicted(run, stage),
        **summed(records),
    }


def predicted(run: Path, stage: str) -> float:
    """The memory that a dry run on CUDA predicts for a stage."""
    context = TrainingContext.open(Run(run), device_of_this_process(), Processes())
    chosen = context.experiment.stage(stage)
    networks = stack_of(context.networks(chosen))
    return StageMemory.of(setup_of(context, chosen, networks), networks, context.store).peak / 2**30


def summed(records: Sequence[Json]) -> Json:
    """Seconds after the first log record, which holds captures and compilation, and the rates of that time."""
    rows = [record for record in records if record["kind"] == "train"]
    end = next(record for record in records if record["kind"] == "end")
    choices = [record for record in records if record["kind"] == "choice"]
    steady = rows[1:] or rows
    seconds = sum(row["seconds"] for row in steady)
    generating = sum(row["seconds"] * row["generate_share"] for row in steady)
    generated = sum(row["generated_tokens"] for row in steady)
    learnt = sum(row["tokens_per_second"] * row["seconds"] for row in steady)
    updates = steady[-1]["update"] - (rows[0]["update"] if rows[1:] else 0)
    return {
        "updates": updates,
        "seconds": seconds,
        "seconds_with_start": sum(row["seconds"] for row in rows),
        "first_update": rows[0]["first_update"],
        "ms_per_update": 1000 * seconds / max(updates, 1),
        "generating": generating,
        "generate_share": generating / max(seconds, 1e-9),
        "generated_tokens": generated,
        "generated_per_second": generated / max(generating, 1e-9),
        "target_tokens": learnt,
        "tokens_per_second": learnt / max(seconds, 1e-9),
        "choices": len(choices),
        "valid_bleu": end["best_bleu"],
    }


# -- profile -----------------------------------------------------------------------------------------------------


@contextmanager
def _host_profile(found: Json) -> Any:
    profile = cProfile.Profile()
    profile.enable()
    yield
    profile.disable()
    text = StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(45)
    found["host_by_own_time"] = text.getvalue()
    text = StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("cumulative").print_stats(60)
    found["host_by_cumulative_time"] = text.getvalue()


def profile(run: Path, stage: str) -> Json:
    """Rounds of a stage, traced on the host and, on CUDA, on the device."""
    device = device_of_this_process()
    context = TrainingContext.open(Run(run), device, Processes())
    chosen = context.experiment.stage(stage)
    folder = context.run.stage(f"{stage}-profile")
    trainer = assemble(context, chosen, folder, StopSignal(None), lambda record: None)

    def one_round() -> float:
        began = time.perf_counter()
        for batch in trainer._batches():
            trainer._learn(batch, trainer.progress.update + 1)
        trainer.progress.round += 1
        synchronize(device)
        return time.perf_counter() - began

    found: Json = {"stage": stage, "warm": [one_round() for _ in range(WARM)]}
    before = dict(trainer.progress.seconds)
    found["rounds"] = [one_round() for _ in range(ROUNDS)]
    found["generating"] = trainer.progress.seconds["generate"] - before["generate"]
    with _host_profile(found):
        found["rounds_with_host_profile"] = [one_round() for _ in range(ROUNDS)]
    if device.type == "cuda":
        found |= _device_profile(one_round)
    for name, work in (("validations", trainer.hooks.validate), ("checkpoints", trainer._save)):
        found[name] = [_seconds(work) for _ in range(2 if device.type == "cuda" else 1)]  # the first one captures
    return found


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _device_profile(one_round: Any) -> Json:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as trace

    with trace(activities=[ProfilerActivity.CUDA]) as traced:
        seconds = one_round()
    times: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for event in traced.events() or []:
        if event.device_type.name == "CUDA":
            times[event.name][0] += 1
            times[event.name][1] += event.device_time
    rows = sorted(times.items(), key=lambda item: -item[1][1])
    return {
        "device_round_seconds": seconds,
        "device_busy_seconds": sum(row[1][1] for row in rows) / 1e6,
        "launches": sum(row[1][0] for row in rows),
        "kernels": [{"name": name[:110], "count": count, "ms": time / 1000} for name, (count, time) in rows[:60]],
    }


# -- command line ------------------------------------------------------------------------------------------------


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stages", nargs="+", choices=list(MIXES), default=list(MIXES))
    parser.add_argument("--languages", nargs="+", default=["en", "fr", "es"])
    parser.add_argument("--star", action="store_true", help="bitext with the first language only")
    parser.add_argument("--no-filters", action="store_true", help="train on all that is generated")
    parser.add_argument("--shared", action="store_true", help="one shared network")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--tokens", type=int, default=4096, help="target tokens of an update, per direction")
    parser.add_argument("--round", type=int, default=32, help="updates of a round")
    parser.add_argument("--pairs", type=int, default=48_000, help="sentence pairs of each two languages")
    parser.add_argument("--mono", type=int, default=239_049, help="sentences of each language")
    parser.add_argument("--vocabulary", type=int, default=8000, help="subwords")
    parser.add_argument("--vanilla", type=int, default=1500, help="updates of the parent")
    parser.add_argument("--updates", type=int, default=1500, help="updates of each stage")
    parser.add_argument("--profile", choices=["control", "dual"], help="trace rounds of this stage afterwards")
    options = parser.parse_args(words)
    if options.run.exists():
        parser.error(f"{options.run} exists, and a stage that has ended is not trained again. Name another folder.")
    if options.profile and options.profile not in options.stages:
        parser.error(f"--profile {options.profile}: --stages names {', '.join(options.stages)} only.")
    if options.profile and options.updates < PROFILED * options.round:
        parser.error(f"--profile needs {PROFILED} rounds: raise --updates to {PROFILED * options.round}.")
    return options


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    plan = Plan(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    file = options.run.with_suffix(".toml")
    write_text(file, experiment(options))
    found: Json = {"machine": describe(plan, "benchmarks.loop_stages"), "round": options.round, "stages": []}
    for stage in ("vanilla", *options.stages):
        found["stages"].append(row := measure(file, options.run, stage))
        print(_line(row, found["stages"]), flush=True)
        write_json(options.out, found)
    if options.profile:
        found["profile"] = profile(options.run, options.profile)
        write_json(options.out, found)
        shown = ("rounds", "generating", "device_round_seconds", "device_busy_seconds", "launches")
        print({name: found["profile"].get(name) for name in shown})


def _line(row: Json, rows: Sequence[Json]) -> str:
    control = next((one for one in rows if one["stage"] == "control"), None)
    times = f"{row['seconds'] / control['seconds']:5.2f}x control" if control else ""
    memory = f"{row['peak_gib']:5.1f} GiB" if row["peak_gib"] is not None else ""
    return (
        f"{row['stage']:10} {row['seconds']:7.1f} s {times} {100 * row['generate_share']:5.1f}% generating "
        f"{row['generated_per_second'] / 1e6:6.3f}M tokens/s generated {row['tokens_per_second'] / 1e6:6.3f}M learnt "
        f"{memory} wall {row['wall']:.1f} BLEU {row['valid_bleu']}"
    )


if __name__ == "__main__":
    try:
        main()
    except LoopmtError as error:
        raise SystemExit(str(error)) from None
