"""Training and decoding while another process leaves too little memory on the CUDA device."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from loopmt.synthetic import World, write_corpora

Json = dict[str, Any]
_LINES = 6000
_TIMEOUT = 120.0  # seconds of a command
_EXPERIMENT = """
languages = ["en", "fr"]
seed = 5
[data.world]
size = "small"
pairs = {{ "en-fr" = {pairs} }}
valid = 8
test = 8
[vocab]
size = 2000
[model]
layers = 6
width = 512
feed_forward = 2048
heads = 8
dropout = 0.0
sharing = "all"
[train]
tokens = {tokens}
max_length = 40
shapes = 1
round = 2
precision = "float32"
learning_rate = 1e-3
warmup = 1
adam = [0.9, 0.98, 1e-3]
validate_every = 2
validate_sentences = 4
average = 1
[[stage]]
name = "one"
mix = ["X>Y"]
updates = 4
"""


@dataclass
class Ended:
    """Exit code, standard error and standard output of a command, and the most memory it took, in bytes."""

    code: int
    err: str
    out: str
    peak: int


class Commands:
    """Commands of loopmt beside which this process may fill the device."""

    def __init__(self, scratch: Path, tokens: int) -> None:
        scratch.mkdir(parents=True)
        self.file, self.scratch = scratch / "experiment.toml", scratch
        pairs = max(2000, tokens // 8)
        self.file.write_text(_EXPERIMENT.format(tokens=tokens, pairs=pairs), encoding="utf-8")
        torch.zeros(1, device="cuda")  # from here on, this process takes no more
        write_corpora(scratch / "text", World("small", ("en", "fr")), 5, mono={"en": _LINES}, valid=0, test=0)
        _checked(self.run("prepare", str(self.file), "--run", str(scratch / "prepared")))

    def train(self, name: str, *sets: str) -> Ended:
        if not (self.scratch / name).exists():
            shutil.copytree(self.scratch / "prepared", self.scratch / name)
        words = [part for one in sets for part in ("--set", one)]
        return self.run("train", str(self.file), "--run", str(self.scratch / name), *words)

    def translate(self, name: str, lines: Sequence[str]) -> Ended:
        text = "".join(f"{line}\n" for line in lines)
        return self.run("translate", str(self.scratch / name), "en>fr", "--beam", "8", text=text)

    def run(self, *words: str, text: str = "") -> Ended:
        before = torch.cuda.mem_get_info()[0]
        with lowest_free_memory() as lowest:
            command = [sys.executable, "-m", "loopmt", *words]
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_TIMEOUT)
        return Ended(done.returncode, done.stderr, done.stdout, before - lowest[0])

    def weights(self, name: str) -> torch.Tensor:
        file = self.scratch / name / "stages/one/result/weights.safetensors"
        return torch.cat([tensor.double().flatten() for _, tensor in sorted(load_file(str(file)).items())])

    def away(self, name: str) -> float:
        """The difference of the weights to those that had all memory, relative to their norm."""
        free = self.weights("free")
        return float((self.weights(name) - free).norm() / free.norm())


@contextmanager
def lowest_free_memory() -> Iterator[list[int]]:
    """The least free memory of the device in this block, in bytes."""
    lowest, over = [torch.cuda.mem_get_info()[0]], threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            lowest[0] = min(lowest[0], torch.cuda.mem_get_info()[0])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lowest
    finally:
        over.set()
        thread.join()


@contextmanager
def leaving(amount: int) -> Iterator[None]:
    """Fill the device but for `amount` bytes."""
    ballast = torch.empty(torch.cuda.mem_get_info()[0] - amount, dtype=torch.uint8, device="cuda")
    try:
        yield
    finally:
        del ballast
        torch.cuda.empty_cache()


def memory(scratch: Path, options: argparse.Namespace) -> Json:
    commands = Commands(scratch, options.tokens)
    whole, half, quarter = (
        _checked(commands.train(name, f"train.accumulate={parts}"))
        for name, parts in (("free", 1), ("halves", 2), ("quarters", 4))
    )
    peaks = [ended.peak for ended in (whole, half, quarter)]
    found = {
        "update": _halved(commands, (peaks[0] + peaks[1]) // 2),
        "update_too_large": _too_large(commands, (peaks[1] + peaks[2]) // 2),
        "decoding": _decoding(commands),
    }
    passed = all(one["passed"] for one in found.values())
    return {"passed": passed, "peak_gib": [round(peak / 2**30, 2) for peak in peaks], **found}


def _checked(ended: Ended) -> Ended:
    if ended.code:
        raise RuntimeError(f"exit code {ended.code}: {ended.err[-2000:]}")
    return ended


def _halved(commands: Commands, amount: int) -> Json:
    """A batch does not fit, its halves do."""
    with leaving(amount):
        ended = commands.train("tight")
    notice = [line for line in ended.err.splitlines() if "in halves" in line]
    away = None if ended.code else commands.away("tight")
    return {
        "passed": away is not None and away < 1e-3 and bool(notice),
        "exit_code": ended.code,
        "left_gib": round(amount / 2**30, 2),
        "distance": away,
        "notice": notice[:1] or ended.err[-1500:],
    }


def _too_large(commands: Commands, amount: int) -> Json:
    """The halves do not fit either: an error names the setting with which the same command resumes."""
    with leaving(amount):
        ended = commands.train("tighter")
        resumed = commands.train("tighter", "train.accumulate=4")
    away = None if resumed.code else commands.away("tighter")
    return {
        "passed": ended.code == 2 and "train.accumulate = 4" in ended.err and away is not None and away < 1e-3,
        "exit_codes": [ended.code, resumed.code],
        "left_gib": round(amount / 2**30, 2),
        "distance": away,
        "error": ended.err.strip().splitlines()[-1:],
        **({"error_of_resumed": resumed.err[-1500:]} if resumed.code else {}),
    }


def _decoding(commands: Commands) -> Json:
    """A batch of sentences does not fit: it is decoded in parts, with the same translations."""
    lines = (commands.scratch / "text/mono.en").read_text(encoding="utf-8").splitlines()
    few, free = (_checked(commands.translate("free", some)) for some in (lines[:8], lines))
    amount = (few.peak + free.peak) // 2
    with leaving(amount):
        tight = commands.translate("free", lines)
    same = [one == other for one, other in zip(free.out.splitlines(), tight.out.splitlines(), strict=False)]
    return {
        "passed": not tight.code and len(same) == len(lines) and sum(same) >= 0.98 * len(same),
        "exit_code": tight.code,
        "peak_gib": [round(ended.peak / 2**30, 2) for ended in (few, free, tight)],
        "left_gib": round(amount / 2**30, 2),
        "lines": len(lines),
        "same_lines": sum(same),
        **({"error": tight.err[-1500:]} if tight.code else {}),
    }
