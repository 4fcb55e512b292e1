"""Cost of many languages: one shared network, bitext with English only, loops of two and three hops.

    python -m benchmarks.languages --languages 20 100 --out docs/results/languages.json --scratch DIR

All languages have the same text: the benchmark measures bookkeeping, not learning. For each number of languages and
each length of loops it measures in a separate process the CPU-seconds to read and check the experiment, to set up the
stage and of one round, the memory, and the bytes written.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from benchmarks.scale_text import lexicon

from loopmt.config import load
from loopmt.distributed import Processes
from loopmt.run import Run
from loopmt.text.prepare import prepare
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, assemble, routes_of

Json = dict[str, Any]

DUAL = '{ path = "X>Y>X", generate = { how = "greedy" } }'
MIXES = {"X>Y>X": DUAL, "X>Y>Z>X": DUAL + ', { path = "X>Y>Z>X", generate = { how = "greedy" }, per_round = 1 }'}
EXPERIMENT = """languages = [{languages}]
[data]
bitext = {{ {bitext} }}
mono = {{ {mono} }}
valid = {{ "en-l01" = "bi.l01" }}
clean = {{ overlap = false }}
[vocab]
size = 2000
[model]
layers = 1
width = 16
feed_forward = 32
heads = 2
sharing = "all"
[train]
tokens = 8
max_length = 24
round = 1
validate_sentences = 4
[[stage]]
name = "loops"
mix = ["X>Y", {loops}]
updates = 1
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--loops", nargs="+", choices=list(MIXES), default=list(MIXES))
    parser.add_argument("--out", type=Path, default=Path("docs/results/languages.json"))
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.languages[0], options.loops[0], options.scratch)))
        return
    results = []
    for number in options.languages:
        for loops in options.loops:
            results.append(in_process(number, loops, options.scratch))
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            print(results[-1], file=sys.stderr)


def in_process(number: int, loops: str, scratch: Path) -> Json:
    command = [sys.executable, "-m", "benchmarks.languages", "--measure", "--languages", str(number), "--loops", loops]
    done = subprocess.run([*command, "--scratch", str(scratch)], check=True, stdout=subprocess.PIPE, text=True)
    result: Json = json.loads(done.stdout.splitlines()[-1])
    return result


def write_experiment(folder: Path, number: int, loops: str) -> Path:
    """English and other languages, which are copies of each other."""
    folder.mkdir(parents=True)
    codes = ["en", *(f"l{code:02d}" for code in range(1, number))]
    for name, language in (("english", "en"), ("other", "fr")):
        words = lexicon(language)[:1000]
        lines = (" ".join(words[start : start + 5]) + ".\n" for start in range(0, len(words), 5))
        (folder / name).write_text("".join(lines), encoding="utf-8")
    for code in codes:
        shutil.copy(folder / ("english" if code == "en" else "other"), folder / f"mono.{code}")
    for code in codes[1:]:
        shutil.copy(folder / "english", folder / f"bi.{code}.en")
        shutil.copy(folder / "other", folder / f"bi.{code}.{code}")
    file = folder / "languages.toml"
    text = EXPERIMENT.format(
        languages=", ".join(f'"{code}"' for code in codes),
        bitext=", ".join(f'"en-{code}" = "bi.{code}"' for code in codes[1:]),
        mono=", ".join(f'{code} = "mono"' for code in codes),
        loops=MIXES[loops],
    )
    file.write_text(text, encoding="utf-8")
    return file


class Watch:
    """CPU-seconds by part, which depend less on other load than wall-clock time."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._last = time.process_time()

    def lap(self, name: str) -> None:
        now = time.process_time()
        self.parts[name] = round(now - self._last, 2)
        self._last = now


def measure(number: int, loops: str, scratch: Path) -> Json:
    """Run everything that `loopmt train` does for a stage of one update; call it in a new process."""
    torch.set_num_threads(1)
    folder = scratch / f"{number}-{len(loops)}"
    shutil.rmtree(folder, ignore_errors=True)
    file, watch = write_experiment(folder, number, loops), Watch()
    experiment, run = load(file), Run(folder / "run")
    watch.lap("load and check the experiment")
    prepare(experiment.data, experiment.vocab, experiment.languages, 1, folder, run.folder, jobs=1)
    run.set_up(experiment)
    watch.lap("prepare")
    context, stage, kept = (
        TrainingContext.open(run, torch.device("cpu"), Processes()),
        experiment.stages[0],
        run.stage("loops"),
    )
    routes = routes_of(experiment, stage)
    watch.lap("expand the paths")
    kept.begin({})
    trainer = assemble(context, stage, kept, StopSignal(), lambda record: None)
    watch.lap("set up the stage")
    trainer.run()
    watch.lap("one round, one update, validation, checkpoints")
    return {
        "languages": number,
        "loops": loops,
        "directions": len(context.networks(stage).hops),
        "routes": len(routes),
        "cpu_seconds": watch.parts,
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "rounds": trainer.progress.round,
        "seconds": {part: round(value, 2) for part, value in trainer.progress.seconds.items()},
        "log_bytes": kept.metrics.stat().st_size,
        "state_bytes": (kept.folder / "result" / "state.json").stat().st_size,
    }


if __name__ == "__main__":
    main()
