"""Every kind of stage ends with the recorded weights: a change without an effect on arithmetic moves none of them.

`PYTHONPATH=src:tests python tests/system/test_digests.py` records them again. Digests hold on the CPU that they were
recorded on; on any other the test compares training losses.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from helpers.digests import ONE_THREAD, loopmt, signature, weights_digest
from helpers.paths import DATA

RECORD = DATA / "digests.json"
TOLERANCE = 0.02  # of a loss, where another CPU rounds differently
LAST_LINES = 2  # of the log, over which a loss is averaged
TWO = "two-processes"

EXPERIMENT = """
languages = ["en", "fr", "es"]
seed = 1

[data]
root = "text"
bitext = { "en-fr" = "bi.en-fr", "en-es" = "bi.en-es", "fr-es" = "bi.fr-es" }
mono = { en = "mono", fr = "mono", es = "mono" }
valid = "valid"

[vocab]
size = 400

[model]
preset = "tiny"
layers = 1
width = 32
feed_forward = 64
heads = 2
dropout = 0.1

[train]
tokens = 192
max_length = 40
shapes = 2
round = 4
learning_rate = 0.01
warmup = 10
precision = "float32"
validate_every = 20
validate_sentences = 4
log_every = 5
ema = 0.9
continued = { learning_rate = 2e-3, warmup = 4, dropout = 0.2 }

[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 120
train = { tokens = 512, dropout = 0.0, validate_every = 120, log_every = 60 }
"""
WORLD = """
[data.world]
pairs = { "en-fr" = 200, "en-es" = 200, "fr-es" = 200 }
mono = { en = 200, fr = 200, es = 200 }
valid = 10
test = 1
"""
STAGES = {  # the mix of each, and what else it says
    "supervised": '["X>Y"]',
    "dual": '["X>Y", "X>Y>X"]',
    "pivot": '["X>Y", "X>Z>Y"]',
    "agreement": '["X>Y", "X>Z<Y"]',
    "keep": '["X>Y", { path = "X>Y>X", keep = 0.7 }]',
    "candidates": '["X>Y", { path = "X>Y>X", candidates = 3, choose = "consensus", noise = {} }]',
    "samples": '["X>Y", { path = "X>Y>X", samples = 3, combine = "logmeanexp" }]',
    "ema": '["X>Y", { path = "X>Y>X", generate = { by = "ema" } }]',
    "frozen": '["X>Y", { path = "X>Y>X", generate = { by = "frozen" } }]',
    "auto": '"auto"\nauto = { measure_every = 2, sentences = 40 }',
    "same-rows": '["X>Y", { path = "X>Y>X", same_rows = true }, { path = "X>Y>Z>X", same_rows = true }]',
    "tag": '["X>Y", { path = "X>Y>X", tag = true }]\ntrain = { subword_dropout = 0.2 }',
    TWO: '["X>Y", "X>Y>X"]',
}
SHARED = {"shared": '["X>Y", "X>Y>X", "X>Y>Z>X"]'}


def experiment_with(stages: dict[str, str]) -> str:
    tables = (
        f'\n[[stage]]\nname = "{name}"\nfrom = "vanilla"\nupdates = 20\nmix = {rest}\n' for name, rest in stages.items()
    )
    return EXPERIMENT + "".join(tables)


def shared_experiment() -> str:
    """One network for all directions, on text of the built-in languages."""
    head, _, rest = experiment_with(SHARED).partition("[data]")
    _, _, tail = rest.partition("[vocab]")
    return f"{head}{WORLD}\n[vocab]{tail}".replace("[model]", '[model]\nsharing = "all"')


# -- training --------------------------------------------------------------------------------------------------


def train_all(folder: Path) -> dict[str, Path]:
    """Train every case. Return the folder of its stage."""
    many, shared = folder / "many.toml", folder / "shared.toml"
    many.write_text(experiment_with(STAGES), encoding="utf-8")
    shared.write_text(shared_experiment(), encoding="utf-8")
    pairs = [word for pair in ("en-fr", "en-es", "fr-es") for word in ("--pair", f"{pair}=200")]
    loopmt("world", folder / "text", *pairs, "--mono", 200, "--valid", 40, "--test", 1)
    loopmt("train", many, "--run", folder / "many", "--until", list(STAGES)[-2])
    train_in_two_processes(many, folder / "many")
    loopmt("train", shared, "--run", folder / "shared")
    runs = {**dict.fromkeys(STAGES, "many"), **dict.fromkeys(SHARED, "shared")}
    return {name: folder / run / "stages" / name for name, run in runs.items()}


def train_in_two_processes(file: Path, run: Path) -> None:
    """Train the rest of an experiment in two processes, as torchrun does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "loopmt", "train", str(file), "--run", str(run)]
    group = {**ONE_THREAD, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        subprocess.Popen(
            command,
            env={**group, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], errors
    finally:
        for process in processes:
            process.kill()
            process.wait()


# -- comparing -------------------------------------------------------------------------------------------------


def loss_of(stage: Path) -> float:
    """Training loss, averaged over paths and over the last lines of the log."""
    lines = (stage / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [record for line in lines if (record := json.loads(line))["kind"] == "train"]
    losses: list[float] = [loss for record in records[-LAST_LINES:] for loss in record["loss"].values()]
    return sum(losses) / len(losses)


def found_in(folder: Path) -> dict[str, Any]:
    """The records of all cases."""
    stages = train_all(folder)
    cases = {name: {"sha256": weights_digest(stage), "loss": loss_of(stage)} for name, stage in stages.items()}
    return {"machine": signature(), "cases": cases}


def moved(now: dict[str, Any], before: dict[str, Any], exact: bool) -> bool:
    if exact:
        return bool(now["sha256"] != before["sha256"])
    return bool(now["loss"] != pytest.approx(before["loss"], rel=TOLERANCE))


def test_every_kind_of_stage_ends_with_the_recorded_weights(tmp_path: Path) -> None:
    recorded, found = json.loads(RECORD.read_text(encoding="utf-8")), found_in(tmp_path)
    before, exact = recorded["cases"], found["machine"] == recorded["machine"]
    assert found["cases"].keys() == before.keys()
    cases = [
        f"{name} (loss {now['loss']:.6f}, was {before[name]['loss']:.6f})"
        for name, now in found["cases"].items()
        if moved(now, before[name], exact)
    ]
    what = "final weights" if exact else f"training losses (by more than {TOLERANCE:.0%})"
    assert not cases, f"{what} differ in {len(cases)} of {len(before)} cases: {', '.join(cases)}"


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = found_in(Path(folder))
    RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
