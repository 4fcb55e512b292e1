"""`loopmt serve` under load on loopback: 64 concurrent clients, one client at a time, and more than the queue holds.

    python benchmarks/serve.py [--run RUN] [--out docs/results/serve.json]

Without a run it trains a small one on the built-in languages in some seconds. Times depend on the machine and its load;
compare the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopmt.progress import Silent
from loopmt.text.store import Store
from loopmt.workflow.train import TrainOptions, train

CLIENTS, REQUESTS, ALONE = 64, 640, 100
SMALL_QUEUE = 16
EXPERIMENT = """
languages = ["en", "fr", "es"]
[data.world]
size = "tiny"
pairs = { "en-fr" = 500, "en-es" = 500, "fr-es" = 500 }
mono = { en = 100, fr = 100, es = 100 }
[vocab]
size = 500
[model]
preset = "tiny"
layers = 2
width = 64
feed_forward = 128
dropout = 0.0
[train]
tokens = 512
learning_rate = 3e-3
warmup = 50
validate_sentences = 8
[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 120
"""


def small_run(folder: Path) -> Path:
    (folder / "serve.toml").write_text(EXPERIMENT, encoding="utf-8")
    train(TrainOptions(folder / "serve.toml", folder / "run"), Silent())
    return folder / "run"


@contextmanager
def served(run: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Start a server process; yields its host and port."""
    command = [sys.executable, "-m", "loopmt", "serve", str(run), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "stop with Ctrl-C" in line)
        found = re.search(r"http://([\d.]+):(\d+)/", line)
        assert found, line
        try:
            yield found[1], int(found[2])
        finally:
            process.terminate()


@dataclass
class Load:
    """The results of some clients."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # of each request that was answered
    whole: float = 0.0

    def summary(self) -> dict[str, Any]:
        cuts = statistics.quantiles(self.seconds, n=100, method="inclusive")
        return {
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "answers_per_second": round(self.statuses[200] / self.whole, 1),
            "p50_ms": round(1000 * cuts[49], 1),
            "p99_ms": round(1000 * cuts[98], 1),
        }


async def client(place: tuple[str, int], bodies: Iterator[bytes], load: Load) -> None:
    """One connection that sends a request, waits for the response, and repeats."""
    reader, writer = await asyncio.open_connection(*place)
    for body in bodies:
        began = time.perf_counter()
        head = f"POST /translate HTTP/1.1\r\nhost: {place[0]}\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        status, _ = await read_answer(reader)
        load.statuses[status] += 1
        if status == 200:
            load.seconds.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length, head
    return int(head[9:12]), await reader.readexactly(int(length[1]))


async def crowd(place: tuple[str, int], texts: Sequence[str], clients: int, requests: int) -> Load:
    asked = [{"path": "en>fr", "texts": [texts[number % len(texts)]]} for number in range(requests)]
    bodies, load = iter([json.dumps(body).encode() for body in asked]), Load()
    began = time.perf_counter()
    await asyncio.gather(*(client(place, bodies, load) for _ in range(clients)))
    load.whole = time.perf_counter() - began
    return load


async def health(place: tuple[str, int]) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection(*place)
    writer.write(f"GET /health HTTP/1.1\r\nhost: {place[0]}\r\n\r\n".encode())
    found: dict[str, Any] = json.loads((await read_answer(reader))[1])
    writer.close()
    await writer.wait_closed()
    return found


async def measure(place: tuple[str, int], texts: Sequence[str]) -> dict[str, Any]:
    await crowd(place, texts, 8, 16)  # warm
    alone = await crowd(place, texts, 1, ALONE)
    before = await health(place)
    together = await crowd(place, texts, CLIENTS, REQUESTS)
    after = await health(place)
    one, many = alone.summary(), together.summary()
    return {
        "backend": after["backend"],
        "one_by_one": one,
        f"{CLIENTS}_clients": many,
        "throughput_ratio": round(many["answers_per_second"] / one["answers_per_second"], 1),
        "texts_per_batch": round(
            (after["translated"] - before["translated"]) / (after["batches"] - before["batches"]), 1
        ),
    }


def beyond(run: Path, texts: Sequence[str]) -> dict[str, Any]:
    """The same clients with a queue for a quarter of them; the others are refused with `retry-after`."""
    with served(run, "--max-queue", str(SMALL_QUEUE)) as place:
        load = asyncio.run(crowd(place, texts, CLIENTS, REQUESTS))
        left = asyncio.run(health(place))["waiting"]
    return {"queue": SMALL_QUEUE, "clients": CLIENTS, **load.summary(), "waiting_afterwards": left}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as aside:
        run = arguments.run or small_run(Path(aside))
        texts = Store.open(run / "store").texts("valid", "en")[:200]
        found = []
        for backend in ("loopmt", "ctranslate2"):
            with served(run, "--backend", backend) as place:
                found.append(asyncio.run(measure(place, texts)))
        result = {
            "machine": {
                "system": f"{platform.system()} {platform.machine()}",
                "cores": os.cpu_count(),
                "python": platform.python_version(),
            },
            "requests": REQUESTS,
            "load": found,
            "beyond_the_queue": beyond(run, texts),
        }
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
