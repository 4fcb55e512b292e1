"""Kills, simultaneous trainings and missing memory on a CUDA device; loopmt need not be installed.

    PYTHONPATH=src:. python3 -m stress.cuda --out docs/results/stress/cuda.json

- `captured`: training by captured graphs, alone, twice at the same time, and killed by SIGKILL and resumed.
- `pretrained`: the same for a LoRA stage of a small Hugging Face checkpoint, made here.
- `refused`: a second training in the same folder.
- `memory`: other programs fill the device, so that a batch does not fit, nor its half, nor a batch of decoding.

Weights must be bit-identical, or, where two uninterrupted runs differ, as close as those. Without CUDA, everything but
`memory` runs on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from loopmt.synthetic import World, write_corpora
from stress.cuda_memory import memory
from stress.kills import Lane, drafts
from stress.small_checkpoint import write_checkpoint
from stress.training import training_process

Json = dict[str, Any]
# The phase to kill in, and how many validations to wait for before that. On a CPU nothing is captured.
AIMS = (("update", 1), ("capture", 0), ("generation", 2), ("validation", 0), ("update", 1), ("anywhere", 0))
_PACKAGES = ("torch", "triton", "transformers", "peft", "safetensors")

WORLD = """
languages = ["en", "fr"]
seed = 3
[data.world]
pairs = {{ "en-fr" = 400 }}
mono = {{ en = 800, fr = 800 }}
valid = 20
test = 8
"""
TRAIN = """
[train]
tokens = 512
max_length = 40
shapes = 2
round = 5
log_every = 10
validate_every = {every}
validate_sentences = 10
average = 2
continued = {{ learning_rate = 3e-4, warmup = 10 }}
"""
STAGES = """
[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = {updates}
[[stage]]
name = "dual"
from = "vanilla"
mix = ["X>Y", {{ path = "X>Y>X", generate = {{ how = "sample", top_k = 10 }} }}]
updates = {updates}
"""
CAPTURED = (
    WORLD
    + """
[vocab]
size = 400
[model]
preset = "tiny"
width = 64
feed_forward = 128
"""
    + TRAIN
    + STAGES
)
PRETRAINED = (
    WORLD
    + """
[model]
pretrained = {{ "en>fr" = "{folder}/en-fr", "fr>en" = "{folder}/fr-en" }}
adapt = "lora"
lora = {{ rank = 4 }}
"""
    + TRAIN
    + """
[[stage]]
name = "lora"
mix = ["X>Y", {{ path = "X>Y>X", generate = {{ how = "sample", top_k = 10 }} }}]
updates = {updates}
"""
)


# -- what two runs have in common ----------------------------------------------------------------------------------


def weights(run: Path) -> dict[str, torch.Tensor]:
    """The weights of every stage, by stage and tensor."""
    files = sorted((run / "stages").glob("*/result/weights.safetensors"))
    return {
        f"{file.parts[-3]}/{name}": tensor for file in files for name, tensor in sorted(load_file(str(file)).items())
    }


def distance(one: Path, other: Path) -> float:
    """The largest difference of two tensors, relative to the norm of one; 0 only for the same bits."""
    first, second = weights(one), weights(other)
    if first.keys() != second.keys() or not first:
        return float("inf")
    same = all(torch.equal(first[name], second[name]) for name in first)
    found = max(
        float((first[name].double() - second[name].double()).norm() / first[name].double().norm().clamp_min(1e-12))
        for name in first
    )
    return 0.0 if same else max(found, sys.float_info.min)


def log_of(run: Path) -> list[tuple[str, str, int]]:
    """Stage, kind and update of every log record."""
    files = sorted((run / "stages").glob("*/metrics.jsonl"))
    lines = ((file.parts[-2], json.loads(line)) for file in files for line in file.read_text("utf-8").splitlines())
    return [(stage, record["kind"], record["update"]) for stage, record in lines]


# -- kills and simultaneous trainings ------------------------------------------------------------------------------


class Repeated:
    """An experiment that is trained alone, twice at the same time, and with kills."""

    def __init__(self, scratch: Path, text: str, kills: int, seconds: float) -> None:
        scratch.mkdir(parents=True)
        self.scratch, self.kills, self.seconds = scratch, kills, seconds
        self.file = scratch / "experiment.toml"
        self.file.write_text(text, encoding="utf-8")
        self.lane = Lane(scratch / "lane", "1", self.file)
        self.lane.scratch.mkdir()

    def result(self) -> Json:
        began = time.monotonic()
        alone = self._trained("alone")
        seconds = time.monotonic() - began
        with ThreadPoolExecutor() as pool:
            pair = list(pool.map(self._trained, ("first", "second")))
        repeats = [distance(alone, run) for run in pair]
        killed, kills = self._killed(time.monotonic() + self.seconds)
        away = distance(alone, killed)
        alike = away <= 3 * max(repeats) and max(repeats) < 1e-2 and log_of(killed) == log_of(alone)
        return {
            "passed": alike and bool(kills) and not drafts(killed),
            "bit_identical": {"simultaneous": not any(repeats), "killed": not away},
            "distance": {"simultaneous": repeats, "killed": away},
            "kills": kills,
            "seconds_alone": round(seconds, 1),
        }

    def _trained(self, name: str) -> Path:
        scratch = self.scratch / name
        with training_process(scratch / "run", scratch / "stacks", experiment=self.file) as training:
            if code := training.finish():
                raise RuntimeError(f"training ended with {code}: {training.stderr[-2000:]}")
        return scratch / "run"

    def _killed(self, deadline: float) -> tuple[Path, list[str]]:
        """A run that was killed until the kills or the time are used up, and the phases that it was killed in."""
        run, phases = self.scratch / "lane/run", list[str]()
        aims = [aim for aim in AIMS if aim[0] != "capture" or torch.cuda.is_available()]
        for number in range(self.kills):
            if time.monotonic() > deadline or not (phase := self._kill(run, *aims[number % len(aims)])):
                break
            phases.append(phase)
        return self.lane.finished(run, 1), phases

    def _kill(self, run: Path, aim: str, validations: int) -> str | None:
        """Train on, and kill in the phase `aim` after some validations; None if training ends before."""
        with training_process(run, self.scratch / "lane/stacks", experiment=self.file) as training:
            wanted = _validations(run) + validations
            while training.alive():
                if _validations(run) >= wanted and (phase := self.lane.kill_in_phase(training, run, aim)):
                    return phase
                time.sleep(0.01)
        return None


def _validations(run: Path) -> int:
    return sum(file.read_text("utf-8").count('"valid"') for file in (run / "stages").glob("*/metrics.jsonl"))


def captured(scratch: Path, options: argparse.Namespace) -> Json:
    text = CAPTURED.format(updates=options.updates, every=max(10, options.updates // 4))
    return Repeated(scratch, text, options.kills, options.seconds).result()


def pretrained(scratch: Path, options: argparse.Namespace) -> Json:
    text = scratch.with_name("text")
    write_corpora(text, World("tiny", ("en", "fr")), 3, mono={"en": 800, "fr": 800}, valid=0, test=0)
    checkpoints = scratch.with_name("checkpoints")
    for one, other in (("en", "fr"), ("fr", "en")):
        write_checkpoint(checkpoints / f"{one}-{other}", text, one, other)
    updates = max(20, options.updates // 4)
    text_of = PRETRAINED.format(folder=checkpoints, updates=updates, every=max(10, updates // 4))
    return Repeated(scratch, text_of, max(1, options.kills // 2), options.seconds).result()


def refused(scratch: Path, options: argparse.Namespace) -> Json:
    """While one training runs, a second one in the same folder ends with exit code 2 and changes nothing."""
    scratch.mkdir(parents=True)
    file, run = scratch / "experiment.toml", scratch / "run"
    file.write_text(CAPTURED.format(updates=options.updates, every=50), encoding="utf-8")
    with training_process(run, scratch / "one/stacks", experiment=file) as first:
        while first.alive() and not any((run / "stages").glob("*/metrics.jsonl")):
            time.sleep(0.05)
        with training_process(run, scratch / "two/stacks", experiment=file) as second:
            codes, error = [second.finish()], second.stderr.strip()
        codes.append(first.finish())
    return {"passed": codes == [2, 0], "exit_codes": codes, "error": error[-500:]}


# -- all of them ---------------------------------------------------------------------------------------------------

CHECKS: dict[str, Callable[[Path, argparse.Namespace], Json]] = {
    "memory": memory,
    "captured": captured,
    "pretrained": pretrained,
    "refused": refused,
}


def check(name: str, scratch: Path, options: argparse.Namespace) -> Json:
    began = time.monotonic()
    try:
        found = CHECKS[name](scratch / name / "work", options)
    except Exception:  # the others still run
        found = {"passed": False, "error": traceback.format_exc()[-3000:]}
    return {**found, "seconds": round(time.monotonic() - began, 1)}


def run_all(names: Sequence[str], scratch: Path, options: argparse.Namespace) -> Iterator[tuple[str, Json]]:
    """`memory` alone, since it fills the device; then the others at the same time."""
    if "memory" in names:
        yield "memory", check("memory", scratch, options)
    with ThreadPoolExecutor() as pool:
        others = {pool.submit(check, name, scratch, options): name for name in names if name != "memory"}
        for done in as_completed(others):
            yield others[done], done.result()


def describe() -> Json:
    return {
        "command": " ".join(["python3 -m stress.cuda", *(Path(word).name for word in sys.argv[1:])]),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "cores": os.cpu_count(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "date": datetime.now(UTC).date().isoformat(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def table(found: dict[str, Json]) -> str:
    rows = [f"{'check':<12}{'passed':<8}{'seconds':<9}facts"]
    for name, one in found.items():
        facts = {key: value for key, value in one.items() if key not in ("passed", "seconds")}
        rows.append(f"{name:<12}{one['passed']!s:<8}{one['seconds']:<9}{json.dumps(facts)[:600]}")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [name for name in CHECKS if name != "memory" or torch.cuda.is_available()]
    parser.add_argument("--only", nargs="+", choices=known, default=known)
    parser.add_argument("--updates", type=int, default=400, help="of a stage")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=60, help="no new kills after this time of kills")
    parser.add_argument("--tokens", type=int, default=32768, help="of a batch that fills the memory")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began, checks = time.monotonic(), dict[str, Json]()
    with tempfile.TemporaryDirectory() as scratch:
        for name, one in run_all(options.only, Path(scratch), options):
            checks[name] = one
            result = {**describe(), "seconds": round(time.monotonic() - began, 1), "checks": checks}
            if options.out:
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            print(f"{name}: {'passed' if one['passed'] else 'FAILED'}", flush=True)
    print(table(checks), flush=True)
    sys.exit(not all(one["passed"] for one in checks.values()))


if __name__ == "__main__":
    main()
