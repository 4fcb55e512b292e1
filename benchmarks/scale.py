"""Scaling with the size of the text: `loopmt prepare` and `loopmt train` on many lines and on few.

    python -m benchmarks.scale --lines 40000000 --out docs/results/scale.json --scratch DIR

It makes monolingual lines of two languages and a small bitext, prepares them while it measures the memory of all
processes, and trains a small network on pairs and dual loops on a CPU. It measures the seconds until the first update,
memory, and the cost of an update, in turns with the same run on fewer lines. Results are written after every part.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.scale_text import BYTES_PER_LINE, write_corpora
from benchmarks.watching import Watched, cpu_of, watch

from loopmt.config import Model
from loopmt.model.weights import Layout
from loopmt.run import Checkpoint, read_checkpoint, write_checkpoint
from loopmt.text.manifest import Manifest
from loopmt.text.store import Store, row_indices

Json = dict[str, Any]

LANGUAGES = ("en", "fr")
PHASES = ("cleaning", "learning the vocabulary", "encoding")
UPDATES, SKIPPED = 25, 5
EXPERIMENT = """languages = ["en", "fr"]
seed = 1
[data]
root = "text"
bitext = {{ "en-fr" = "bi" }}
mono = {{ en = "mono", fr = "mono" }}
valid = "valid"
[vocab]
size = 32_000
sample = 250_000
[model]
layers = 1
width = 32
feed_forward = 64
heads = 2
[train]
tokens = 128
max_length = 48
round = 1
log_every = 1
validate_every = 1000
validate_sentences = 4
average = 1
[[stage]]
name = "dual"
mix = ["X>Y", {{ path = "X>Y>X", generate = {{ how = "greedy" }} }}]
updates = {updates}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=40_000_000, help="total monolingual lines")
    parser.add_argument("--few", type=int, default=1_000_000, help="lines of the corpus to compare with")
    parser.add_argument("--repeats", type=int, default=3, help="training runs on each corpus, in turns")
    parser.add_argument("--out", type=Path, default=Path("docs/results/scale.json"))
    parser.add_argument("--scratch", type=Path, required=True, help="folder for text and runs; removed afterwards")
    options = parser.parse_args()
    check_free_space(options.scratch, options.lines + options.few)
    report = Report(options.out, {"machine": machine(), "command": command(options)})
    corpora = [ScaleCorpus(options.scratch / f"{lines}", lines) for lines in (options.few, options.lines)]
    try:
        for corpus in corpora:
            report.add("prepare", corpus.prepare())
        report.add("checkpoint", checkpoint(options.scratch))
        for _ in range(options.repeats):
            report.add("import_torch", import_torch())
            for corpus in corpora:
                report.add("train", corpus.train())
        report.summarise()
    finally:
        for corpus in corpora:
            shutil.rmtree(corpus.folder, ignore_errors=True)


def check_free_space(folder: Path, lines: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = lines * BYTES_PER_LINE, shutil.disk_usage(folder).free
    if needed > free:
        raise SystemExit(
            f"{lines:,} lines need about {needed / 1e9:.1f} GB under {folder}, where {free / 1e9:.1f} GB are free. "
            "Give another --scratch or fewer --lines."
        )


def machine() -> str:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{len(os.sched_getaffinity(0))} shared cores (load {load} at the start), Python {platform.python_version()}"


def command(options: argparse.Namespace) -> str:
    return f"python -m benchmarks.scale --lines {options.lines} --few {options.few} --repeats {options.repeats}"


@dataclass(frozen=True)
class Report:
    file: Path
    content: Json = field(default_factory=dict)

    def add(self, part: str, record: Json) -> None:
        self.content.setdefault(part, []).append(record)
        self.write()
        print(part, json.dumps(record), file=sys.stderr)

    def write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")

    def summarise(self) -> None:
        """Compare each large run with the small one before it."""
        runs = self.content["train"]
        pairs = list(zip(runs[::2], runs[1::2], strict=True))
        keys = ("cpu_seconds_per_update", "seconds_per_update", "first_update_cpu_seconds", "first_update_seconds")
        ratios = {key: [round(many[key] / few[key], 3) for few, many in pairs] for key in keys}
        self.content["ratio_many_to_few"] = {
            key: {"median": statistics.median(values), "all": values} for key, values in ratios.items()
        }
        self.write()


@dataclass(frozen=True)
class ScaleCorpus:
    """Text of one size and its run."""

    folder: Path
    lines: int

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def loopmt(self, verb: str) -> list[str]:
        return [sys.executable, "-m", "loopmt", verb, str(self.folder / "scale.toml"), "--run", str(self.run)]

    def prepare(self) -> Json:
        shutil.rmtree(self.folder, ignore_errors=True)
        began = time.perf_counter()
        write_corpora(self.folder / "text", LANGUAGES, self.lines)
        made = time.perf_counter() - began
        (self.folder / "scale.toml").write_text(EXPERIMENT.format(updates=UPDATES), encoding="utf-8")
        watched = watch(self.loopmt("prepare"), PHASES)
        text = sum(path.stat().st_size for path in (self.folder / "text").iterdir())
        manifest = Manifest.load(self.run / "manifest.json")
        read = sum(corpus.rows * len(corpus.languages) for corpus in manifest.corpora)
        return {
            "monolingual_lines": self.lines,
            "lines_read": read,
            "making_the_text_seconds": round(made, 1),
            "text_megabytes": round(text / 1e6, 1),
            "seconds": round(watched.seconds, 1),
            "cpu_seconds": round(watched.cpu_seconds, 1),
            "lines_per_second": round(read / watched.seconds),
            "lines_per_cpu_second": round(read / watched.cpu_seconds),
            **memory(watched),
            **store_size(self.run, manifest),
            **reading(self.run),
        }

    def train(self) -> Json:
        """Train from fresh weights; the time of each log record is noted when it is written."""
        shutil.rmtree(self.run / "stages", ignore_errors=True)
        clock = _Clock(self.run / "stages" / "dual" / "metrics.jsonl")
        watched = watch(self.loopmt("train"), tick=clock.look)
        (first, first_cpu), (skipped, skipped_cpu), (last, last_cpu) = (clock.seen[n] for n in (0, SKIPPED, -1))
        updates = len(clock.seen) - 1 - SKIPPED
        return {
            "monolingual_lines": self.lines,
            "first_update_seconds": round(first, 2),
            "first_update_cpu_seconds": round(first_cpu, 2),
            "seconds_per_update": round((last - skipped) / updates, 4),
            "cpu_seconds_per_update": round((last_cpu - skipped_cpu) / updates, 4),
            **memory(watched),
        }


@dataclass
class _Clock:
    """The times at which a training process wrote its log records, in seconds and CPU-seconds since its start."""

    log: Path
    began: float = field(default_factory=time.perf_counter)
    seen: list[tuple[float, float]] = field(default_factory=list)

    def look(self, pid: int) -> None:
        if not self.log.exists():
            return
        for _ in range(self.log.read_bytes().count(b'{"kind": "train"') - len(self.seen)):
            self.seen.append((time.perf_counter() - self.began, cpu_of(pid)))


def import_torch() -> Json:
    watched = watch([sys.executable, "-c", "import torch"])
    return {"seconds": round(watched.seconds, 2), "cpu_seconds": round(watched.cpu_seconds, 2)}


def checkpoint(folder: Path, repeats: int = 3) -> Json:
    """Seconds to write and to read a checkpoint of one shared network of preset base, including checksums."""
    layout = Layout(Model(preset="base"), 32_000, 32_000, True)
    rows = [torch.randn(1, layout.num_places) for _ in range(3)]
    weights = {name: view[0] for name, view in layout.unpack(rows[0]).items()}
    point = Checkpoint(1, {"weights": weights, "optimizer": {"first": rows[1], "second": rows[2]}}, {})
    size = 12 * layout.num_places / 1e6
    took = []
    for _ in range(repeats):
        began, cpu = time.perf_counter(), time.process_time()
        write_checkpoint(folder / "checkpoint", point)
        written, written_cpu = time.perf_counter(), time.process_time()
        read_checkpoint(folder / "checkpoint", ("weights", "optimizer"))
        took.append((written - began, written_cpu - cpu, time.perf_counter() - written))
    shutil.rmtree(folder / "checkpoint")
    write, write_cpu, read = np.median(np.array(took), axis=0)
    return {
        "megabytes": round(size),
        "write_seconds": [round(one[0], 2) for one in took],
        "write_cpu_seconds": round(float(write_cpu), 2),
        "write_megabytes_per_second": round(size / write),
        "read_megabytes_per_second": round(size / read),
    }


def memory(watched: Watched) -> Json:
    return {
        f"peak_{name}_megabytes": {phase: round(size / 1e6) for phase, size in sizes.items()}
        for name, sizes in (("resident", watched.resident), ("anonymous", watched.anonymous))
    }


def store_size(run: Path, manifest: Manifest) -> Json:
    """The size of the store, compared with the design: two bytes per token and eight per row."""
    tokens = sum(sum(corpus.tokens.values()) for corpus in manifest.corpora)
    rows = sum(corpus.kept * len(corpus.languages) for corpus in manifest.corpora)
    size = sum(path.stat().st_size for path in (run / "store").iterdir())
    words = sum(sum(corpus.words.values()) for corpus in manifest.corpora)
    return {
        "rows_kept": rows,
        "words": words,
        "tokens": tokens,
        "store_bytes": size,
        "store_bytes_by_design": 2 * tokens + 8 * rows,
        "store_bytes_per_token": round(size / tokens, 3),
    }


def reading(run: Path, rows: int = 1000, rounds: int = 50) -> Json:
    """Median microseconds to find and to fetch a thousand random rows of monolingual text."""
    side = Store.open(run / "store").mono("en")
    took = []
    for number in range(rounds):
        began = time.perf_counter()
        indices = row_indices(len(side), number * rows, rows, 1, "scale")
        found = time.perf_counter()
        side.take(indices)
        took.append((found - began, time.perf_counter() - found))
    order, fetch = np.median(np.array(took), axis=0) * 1e6
    return {"thousand_rows": {"order_microseconds": round(order), "fetch_microseconds": round(fetch)}}


if __name__ == "__main__":
    main()
