"""Speed and memory of `prepare` on made-up text, and the time to fetch rows from its store.

    python benchmarks/prepare.py [--lines 1000000 4000000] [--out docs/results/prepare.json]

Half of the lines are bitext (two lines per pair), a quarter is monolingual text of each of two languages. Each size is
prepared in a separate process, so that its peak memory is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from loopmt.config import Data, VocabConfig
from loopmt.progress import Lines
from loopmt.rng import numpy_generator
from loopmt.text.prepare import prepare
from loopmt.text.store import Store, row_indices

LANGUAGES = ("en", "fr")
SAMPLE = 100_000
VOCABULARY = 16_000
CHUNK = 50_000


def lexicon(language: str, size: int = 40_000) -> list[str]:
    """Words of two to twelve letters; the frequent ones are short."""
    generator = numpy_generator("benchmark", "lexicon", language)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz" if language == "en" else "esaitnrulodcmpévqfbghjàxyz"))
    lengths = np.clip(2 + np.log2(np.arange(1, size + 1)) * generator.uniform(0.2, 0.9, size), 2, 12).astype(int)
    drawn = letters[np.minimum(generator.geometric(0.12, int(lengths.sum())) - 1, len(letters) - 1)]
    ends = accumulate(lengths.tolist(), initial=0)
    return ["".join(drawn[start:end]) for start, end in pairwise(ends)]


def write_lines(path: Path, words: list[str], count: int) -> None:
    """Sentences of 5 to 30 words, drawn by Zipf's law."""
    generator = numpy_generator("benchmark", path.name)
    weights = np.cumsum(1 / np.arange(1, len(words) + 1))
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, CHUNK):
            lengths = generator.integers(5, 31, min(CHUNK, count - start)).tolist()
            ranks = np.searchsorted(weights, generator.random(sum(lengths)) * weights[-1]).tolist()
            places = pairwise(accumulate(lengths, initial=0))
            file.writelines(" ".join([words[rank] for rank in ranks[a:b]]) + ".\n" for a, b in places)


def write_corpora(folder: Path, lines: int) -> None:
    for language in LANGUAGES:
        words = lexicon(language)
        for name, count in (("bi", lines // 4), ("mono", lines // 4), ("valid", 500)):
            write_lines(folder / f"{name}.{language}", words, count)


def measure(folder: Path, jobs: int) -> dict[str, Any]:
    """Run `prepare` once; call it in a new process."""
    data = Data(bitext={"en-fr": ["bi"]}, mono={"en": ["mono"], "fr": ["mono"]}, valid="valid")
    vocab = VocabConfig(size=VOCABULARY, sample=SAMPLE)
    began = time.perf_counter()
    manifest = prepare(data, vocab, LANGUAGES, 1, folder, folder / f"run{jobs}", Lines(), jobs)
    seconds = time.perf_counter() - began
    lines = sum(corpus.rows * len(corpus.languages) for corpus in manifest.corpora)
    return {
        "lines": lines,
        "jobs": jobs,
        "text_megabytes": round(sum(record.size for record in manifest.files) / 1e6, 1),
        "seconds": round(seconds, 1),
        "lines_per_second": round(lines / seconds),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def fetching(folder: Path, directions: int = 6, tokens: int = 4096) -> dict[str, Any]:
    """The time to fetch both sides of the rows of one update of six directions."""
    store = Store.open(folder / "store")
    source, target = store.bitext("en", "fr")
    rows = directions * round(tokens / target.lengths().mean())
    took: list[tuple[float, float]] = []
    for update in range(50):
        began = time.perf_counter()
        indices = row_indices(len(target), update * rows, rows, 1, "benchmark")
        drawn = time.perf_counter()
        source.rows(indices), target.rows(indices)
        took.append((drawn - began, time.perf_counter() - drawn))
    order, fetch = (sorted(part)[len(part) // 2] * 1e6 for part in zip(*took, strict=True))
    return {"rows": rows, "order_microseconds": round(order), "fetch_microseconds": round(fetch)}


def in_process(folder: Path, jobs: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", str(folder), "--jobs", str(jobs)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 16))
    parser.add_argument("--out", type=Path, default=Path("docs/results/prepare.json"))
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.jobs)))
        return
    report(options.lines, options.jobs, options.out)


def report(sizes: list[int], jobs: int, out: Path) -> None:
    results = []
    with tempfile.TemporaryDirectory() as name:
        for size in sizes:
            folder = Path(name) / str(size)
            folder.mkdir()
            write_corpora(folder, size)
            results += [in_process(folder, count) for count in sorted({1, jobs})]
            print(*results[-2:], sep="\n", file=sys.stderr)
        rows = fetching(folder / "run1")
    alone = [result["peak_megabytes"] for result in results if result["jobs"] == 1]
    content = {
        "machine": f"{os.cpu_count()} shared cores, Python {platform.python_version()}",
        "vocabulary": {"size": VOCABULARY, "sampled_lines_per_language": SAMPLE},
        "memory": "peak_megabytes is that of the main process; with jobs = 1 there is no other",
        "prepare": results,
        "memory_growth_percent": round(100 * (alone[-1] / alone[0] - 1), 1),
        "fetch": rows,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
