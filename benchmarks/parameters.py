"""The theory's parameters over all directions and seeds, beside a placebo: what loops did, not what training does.

    python -m benchmarks.parameters runs/48k-1 runs/48k-2 runs/48k-3 --sentences 300 --out docs/results/europarl-48k

For each comparison of the experiment, test set and threshold of the paper, sentences of all dual loops and seeds are
counted together: each share after the stage, after its control (the placebo), and the difference. Intervals are
bootstrapped over rows: a row's translations in all directions and of all seeds stay together.

parameters.json    all rows, also printed
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks import condense
from rich.console import Console
from rich.table import Table

from loopmt.errors import RunError
from loopmt.planning.analysis import AFTER, matches
from loopmt.planning.round_trips import Bools
from loopmt.progress import Silent
from loopmt.workflow.analyze import AnalyzeOptions, Judged, RunAnalysis

SHARES = {"p": ("1...", "...."), **AFTER}
"""Accuracy before training too, though a stage and its placebo have the same."""
Json = dict[str, Any]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Comparison:
    """A stage, what it descends from, and the placebo that descends from the same."""

    before: str
    after: str
    control: str


def parameters(runs: Sequence[Path], settings: AnalyzeOptions, samples: int) -> list[Json]:
    """A row for each comparison, test set and rule."""
    inquiries = [RunAnalysis.open(run, settings) for run in runs]
    seeds = [wanted.judged(Silent()) for wanted in inquiries]
    common = set.intersection(*(set(wanted.stages) for wanted in inquiries))
    return [
        {**vars(comparison), "set": name, "rule": rule.name, **_measured(seeds, comparison, (name, rule.name), samples)}
        for comparison in _comparisons(inquiries[0], common)
        for name in inquiries[0].store.tests
        for rule in inquiries[0].rules
    ]


def _comparisons(wanted: RunAnalysis, stages: set[str]) -> Iterator[Comparison]:
    for compare in wanted.experiment.compare:
        parents = [wanted.experiment.ancestors(name)[:1] for name in (compare.of, compare.against)]
        if parents[0] == parents[1] != [] and {compare.of, compare.against, *parents[0]} <= stages:
            yield Comparison(parents[0][0], compare.of, compare.against)


def _measured(seeds: Sequence[Judged], comparison: Comparison, where: tuple[str, str], samples: int) -> Json:
    """All directions and seeds together."""
    bits = [_bits(seeds, comparison.before, after, where) for after in (comparison.after, comparison.control)]
    found = {name: [_counts(one, *patterns) for one in bits] for name, patterns in SHARES.items()}
    rows = bits[0].shape[-1]
    draws = np.random.default_rng(1).multinomial(rows, np.full(rows, 1 / rows), samples)
    return {
        "rows": rows,
        "among": {name: int(counts[0][1].sum()) for name, counts in found.items()},
        "values": {name: _estimates(counts, draws) for name, counts in found.items()},
    }


def _bits(seeds: Sequence[Judged], before: str, after: str, where: tuple[str, str]) -> Bools:
    """Right and home, before and after; of each direction and seed; of each row."""
    pairs = [
        (start, judged[after, *key[1:]])
        for judged in seeds
        for key, start in judged.items()
        if key[0] == before and (key[1], key[3]) == where
    ]
    if len({len(start.right) for start, _ in pairs}) != 1:
        raise RunError(
            f"test set {where[0]}: directions differ in their rows, so rows cannot be drawn for all of them."
        )
    return np.array([[start.right, start.home, end.right, end.home] for start, end in pairs]).swapaxes(0, 1)


def _counts(bits: Bools, part: str, whole: str) -> tuple[Counts, Counts]:
    """By row, in how many directions and seeds a share's part is met, and its whole."""
    met, among = (matches(pattern, list(bits)).sum(axis=0, dtype=np.int64) for pattern in (part, whole))
    return met, among


def _estimates(counts: Sequence[tuple[Counts, Counts]], draws: Counts) -> dict[str, list[float]]:
    once = np.ones((1, draws.shape[1]), np.int64)
    shares, drawn = ([_ratio(weights, *one) for one in counts] for weights in (once, draws))
    values = {"after": (shares[0], drawn[0]), "control": (shares[1], drawn[1])}
    values["beyond"] = (shares[0] - shares[1], drawn[0] - drawn[1])
    return {
        name: [float(value[0]), *map(float, np.nanpercentile(sampled, [2.5, 97.5]))]
        for name, (value, sampled) in values.items()
    }


def _ratio(weights: Counts, part: Counts, whole: Counts) -> npt.NDArray[np.float64]:
    total = (weights @ whole).astype(np.float64)
    return np.where(total > 0, (weights @ part) / np.maximum(total, 1), np.nan)


def show(rows: Sequence[Json]) -> None:
    for row in rows:
        title = f"{row['before']} to {row['after']}, placebo {row['control']}; {row['set']}, {row['rule']}"
        table = Table("", row["after"], row["control"], "difference", title=title, title_justify="left")
        for name, value in row["values"].items():
            cells = [f"{value[which][0]:.3f} ({value[which][1]:.3f} to {value[which][2]:.3f})" for which in value]
            table.add_row(name, *cells)
        Console().print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--sentences", type=int, help="of each test set")
    parser.add_argument("--samples", type=int, default=1000, help="of the bootstrap")
    parser.add_argument("--beam", type=int, default=4)
    options = parser.parse_args(arguments)
    settings = AnalyzeOptions(thresholds=(), beam=options.beam, sentences=options.sentences, longest=2)
    rows = parameters(options.runs, settings, options.samples)
    condense.write(options.out / "parameters.json", rows, 1)
    show(rows)


if __name__ == "__main__":
    main()
