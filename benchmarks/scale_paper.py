"""An estimate of the cost of the paper's WMT14 run, from measured rates if available, else from assumed ones.

    python -m benchmarks.scale_paper [--gpus 8] [--set training_base=551000 ...]

It prints tables in Markdown. A measured rate comes from docs/results/bench/*.json of a CUDA device or from
docs/results/scale.json, otherwise it is an assumed figure; the column `from` tells which.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopmt.config import Experiment, Model, load
from loopmt.model.weights import Layout

Json = dict[str, Any]

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PAIRS, MONO = 4_500_000, 40_000_000  # rows of the bitext; monolingual rows of each language
UPDATES = {"vanilla": 100_000, "vanilla-longer": 30_000, "back-translation": 30_000, "dual": 30_000}
_SURPLUS = 1.08  # factor of rows that a round draws beyond its need


@dataclass(frozen=True)
class Rate:
    value: float
    source: str


STATED = {
    "training_base": Rate(551_000, "stated: a sketch of the same network, one H200, bf16, compiled"),
    "sampling_base": Rate(689_000, "stated: the same sketch, 4,096 sentences at once"),
    "tokens_per_row": Rate(30.0, "stated"),
    "lines_per_cpu_second": Rate(20_000, "stated"),
    "checkpoint_megabytes_per_second": Rate(500, "stated"),
}


def rates(overrides: dict[str, float]) -> dict[str, Rate]:
    found = {**STATED, **_measured_speed(), **_measured_scale()}
    return found | {name: Rate(value, "given") for name, value in overrides.items()}


def _measured_speed() -> dict[str, Rate]:
    """Rates of the benchmarks on a CUDA device: training of base, and its largest batch of sampling."""
    found: dict[str, Rate] = {}
    for file in sorted((RESULTS / "bench").glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        cuda = content.get("machine", {}).get("cuda")
        for one in content.get("measurements", ()) if cuda else ():
            rate = one["systems"].get("loopmt", {}).get("rate")
            name = {"training": "training_base"}.get(one["name"])
            name = "sampling_base" if one["name"].startswith("sampling, ") else name
            if name and rate and (name not in found or rate > found[name].value):
                found[name] = Rate(rate, f"bench/{file.name}, {content['machine']['device']}")
    return found


def _measured_scale() -> dict[str, Rate]:
    file = RESULTS / "scale.json"
    if not file.exists():
        return {}
    content = json.loads(file.read_text(encoding="utf-8"))
    largest = content["prepare"][-1]
    found = {
        "tokens_per_row": Rate(largest["tokens"] / largest["rows_kept"], "scale.json (made-up text)"),
        "lines_per_cpu_second": Rate(largest["lines_per_cpu_second"], "scale.json"),
    }
    if "checkpoint" in content:
        found["checkpoint_megabytes_per_second"] = Rate(
            content["checkpoint"][-1]["write_megabytes_per_second"], "scale.json"
        )
    return found


@dataclass(frozen=True)
class Cost:
    """The numbers of the experiment file times the rates."""

    experiment: Experiment
    rates: dict[str, Rate]
    gpus: int

    def big(self, name: str) -> float:
        """A rate of base on one GPU, scaled by the number of weights."""
        base, own = (_layout(Model(preset=preset), self.experiment) for preset in ("base", "big"))
        return self.rates[name].value * base.num_parameters / own.num_parameters

    def stage(self, name: str, updates: int) -> tuple[float, float, float, float]:
        """Target tokens learned and generated, and the hours of both."""
        loops = any(entry.path.count(">") > 1 for entry in self.experiment.stage(name).entries())
        learnt = updates * self.experiment.train.tokens * 2  # both directions
        generated = learnt / 2 * _SURPLUS if loops else 0.0
        speed = self.gpus * 3600
        return (
            learnt,
            generated,
            learnt / self.big("training_base") / speed,
            generated / self.big("sampling_base") / speed,
        )

    def epochs(self, updates: int) -> float:
        """How many times a stage with loops reads the monolingual text of one language."""
        return updates * self.experiment.train.tokens / 2 / self.rates["tokens_per_row"].value / MONO


def _layout(model: Model, experiment: Experiment) -> Layout:
    return Layout(model, experiment.vocab.size, experiment.vocab.size, True)


def memory(experiment: Experiment, gpus: int, networks: int) -> tuple[float, float]:
    """Bytes on one GPU: weights with optimizer state (as in the dry run), and activations of one part of a batch."""
    model, train = experiment.model, experiment.train
    weights = networks * _layout(model, experiment).num_parameters * 4 * 8
    place = 2 * model.layers * (32 * model.width + 4 * model.feed_forward) + experiment.vocab.size * 10
    return weights, networks * train.tokens / gpus / train.accumulate * place


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def report(cost: Cost) -> list[str]:
    experiment, found = cost.experiment, cost.rates
    rows = 2 * MONO + 2 * PAIRS
    lines = ["| parameter | value | from |", "|---|---|---|"]
    lines += [f"| `{name}` | {_shown(rate.value)} | {rate.source} |" for name, rate in found.items()]
    lines += [f"| big on one GPU, by weights | {cost.big('training_base'):,.0f} tokens/s learnt, "]
    lines[-1] += f"{cost.big('sampling_base'):,.0f} sampled | from the two rates of base |"
    lines += ["", f"| stage | updates | tokens learnt | generated | hours on {cost.gpus} GPUs | of them generating |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, updates in UPDATES.items():
        learnt, generated, learning, generating = cost.stage(name, updates)
        hours = f"{learning + generating:,.0f} | {generating:,.0f}"
        lines.append(f"| {name} | {updates:,} | {learnt / 1e9:,.1f}G | {generated / 1e9:,.1f}G | {hours} |")
    weights, activations = memory(experiment, cost.gpus, 2)
    size = rows * (2 * found["tokens_per_row"].value + 8)
    parameters = _layout(experiment.model, experiment).num_parameters
    point = 12 * parameters
    seconds = point / 1e6 / found["checkpoint_megabytes_per_second"].value
    return [
        *lines,
        "",
        f"- 30,000 updates with loops read each language's 40M sentences {cost.epochs(30_000):.1f} times.",
        f"- Memory of a GPU, two networks of {parameters / 1e6:.0f}M weights: {weights / 1e9:.1f} GB for weights "
        f"and\n  moments, and {activations / 1e9:.1f} GB of activations.",
        f"- Store: {rows / 1e6:.0f}M rows, {size / 1e9:.1f} GB.",
        f"- Preparing: {rows / found['lines_per_cpu_second'].value / 3600:.1f} CPU-hours before Moses tokenisation.",
        f"- Checkpoint: {point / 1e9:.2f} GB a network, written in {seconds:.0f} s; two in {2 * seconds:.0f} s.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="use another rate")
    options = parser.parse_args()
    overrides = {name: float(value) for name, _, value in (one.partition("=") for one in options.set)}
    if unknown := sorted(overrides.keys() - STATED.keys()):
        parser.error(f"there is no rate {unknown[0]}. The rates are {', '.join(STATED)}.")
    experiment = load(RESULTS.parents[1] / "examples" / "paper-wmt14.toml")
    print("\n".join(report(Cost(experiment, rates(overrides), options.gpus))))


if __name__ == "__main__":
    main()
