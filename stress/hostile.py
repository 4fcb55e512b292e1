"""Hostile clients beside honest ones: `python -m stress.hostile --out docs/results/serve/hostile.json`.

A server of known cost (`stress.paced`) on one core, all clients on another, loopback only. Hostile connections are of
five kinds and come from many addresses; whoever is cut off comes again a second later. Honest clients send a sentence,
wait for the answer, and send the next one half a second later, on a connection of its own each time: anything but an
answer of 200 within 15 seconds is a failure, and nothing is tried again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import platform
import random
import re
import resource
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HOSTILE, HONEST, SECONDS = 2_000, 16, 300.0
PATIENCE = 15.0  # seconds that an honest client waits
THINKING = 0.5  # seconds between its requests
_ADDRESSES, _HONEST_ADDRESSES = 50, 4
_DRIP = 1.0  # seconds between two bytes
_SENTENCES = [f"The small child number {number} hears the kind cat often." for number in range(100)]


@dataclass(frozen=True)
class Place:
    """Where the server listens, and from which address a client comes."""

    port: int
    source: str

    async def connect(self, receive: int | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket()
        connection.setblocking(False)
        if receive:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        connection.bind((self.source, 0))
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self.port))
            return await asyncio.open_connection(sock=connection)
        except BaseException:
            connection.close()
            raise


def request(body: bytes, length: int | None = None, kind: str = "application/json") -> bytes:
    head = f"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n"
    return f"{head}content-length: {len(body) if length is None else length}\r\n\r\n".encode() + body


# -- hostile -----------------------------------------------------------------------------------------------------


async def slow_head(place: Place) -> None:
    _, writer = await place.connect()
    with contextlib.closing(writer):
        await _drip(writer, b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-more: ")


async def slow_body(place: Place) -> None:
    _, writer = await place.connect()
    with contextlib.closing(writer):
        await _drip(writer, request(b"{", 100_000))


async def drip_after_refusal(place: Place) -> None:
    _, writer = await place.connect()
    with contextlib.closing(writer):
        await _drip(writer, request(b"", 1_000_000, "text/plain"))


async def never_read(place: Place) -> None:
    _, writer = await place.connect(receive=4096)
    with contextlib.closing(writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /page.js HTTP/1.1\r\nhost: localhost\r\n\r\n" * 200)
        await _drip(writer, b"")


async def flood(place: Place) -> None:
    """As much work as one request may ask for, again and again."""
    texts = ["中文" * 900] * random.choice((1, 4, 16))
    body = json.dumps({"path": "en>fr>en", "texts": texts, "nbest": 8}, ensure_ascii=False).encode()
    reader, writer = await place.connect()
    with contextlib.closing(writer):
        while True:
            writer.write(request(body))
            await _answer(reader)


KINDS: dict[str, Callable[[Place], Awaitable[None]]] = {
    "slow head": slow_head,
    "slow body": slow_body,
    "drip after a refusal": drip_after_refusal,
    "never reads": never_read,
    "floods the queue": flood,
}


async def _drip(writer: asyncio.StreamWriter, start: bytes) -> None:
    writer.write(start)
    while not writer.is_closing():
        await asyncio.sleep(_DRIP)
        writer.write(b"x")
        if writer.transport.get_write_buffer_size() < 2**16:
            continue


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head[9:12])


async def attack(kind: str, place: Place, cut_off: Counter[str]) -> None:
    await asyncio.sleep(random.random())
    while True:
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
            await KINDS[kind](place)
        cut_off[kind] += 1
        await asyncio.sleep(random.uniform(0.5, 1.5))


# -- honest ------------------------------------------------------------------------------------------------------


@dataclass
class Served:
    """What the honest clients met."""

    results: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        asked = self.results.total()
        cuts = statistics.quantiles(self.seconds or [0.0, 0.0], n=100, method="inclusive")
        return {
            "requests": asked,
            "results": dict(sorted(self.results.items())),
            "succeeded": round(self.results["200"] / asked, 5),
            "p50_seconds": round(cuts[49], 3),
            "p99_seconds": round(cuts[98], 3),
            "slowest_seconds": round(max(self.seconds, default=0.0), 3),
        }


async def ask_on(place: Place, served: Served, end: float) -> None:
    await asyncio.sleep(random.random() * THINKING)
    while time.monotonic() < end:
        began = time.monotonic()
        body = json.dumps({"path": "en>fr", "texts": [random.choice(_SENTENCES)]}).encode()
        try:
            async with asyncio.timeout(PATIENCE):
                result = str(await _asked_once(place, body))
        except (OSError, EOFError, TimeoutError) as error:
            result = type(error).__name__
        served.results[result] += 1
        if result == "200":
            served.seconds.append(time.monotonic() - began)
        await asyncio.sleep(THINKING)


async def _asked_once(place: Place, body: bytes) -> int:
    reader, writer = await place.connect()
    with contextlib.closing(writer):
        writer.write(request(body))
        return await _answer(reader)


# -- measuring ---------------------------------------------------------------------------------------------------


@dataclass
class Usage:
    """What the server's process takes, looked at once a second."""

    process: int
    log: Path
    rows: list[tuple[float, int, int]] = field(default_factory=list)  # megabytes, files, bytes of log

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(1)

    def look(self) -> None:
        place = Path(f"/proc/{self.process}")
        memory = re.search(r"VmRSS:\s+(\d+)", (place / "status").read_text())
        files = sum(1 for _ in (place / "fd").iterdir())
        self.rows.append((int(memory[1]) / 1024 if memory else 0.0, files, self.log.stat().st_size))

    def summary(self) -> dict[str, Any]:
        memory, files, log = zip(*self.rows, strict=True)
        half = len(memory) // 2
        return {
            "memory_mb": {"start": memory[0], "first_half": max(memory[:half]), "second_half": max(memory[half:])},
            "files": {"start": files[0], "most": max(files)},
            "log_bytes": log[-1],  # before it is told to stop
        }


@contextlib.contextmanager
def serving(log: Path, microseconds: float, core: int | None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "stress.paced", "--microseconds", str(microseconds)]
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            yield server, int(server.stdout.readline().rstrip("/\n").rpartition(":")[2])
        finally:
            if server.poll() is None:
                server.kill()


async def siege(server: subprocess.Popen[str], port: int, log: Path, size: Size) -> dict[str, Any]:
    """Honest clients begin when the hostile ones are there; these are still there when the server is to stop."""
    served, usage, cut_off = Served(), Usage(server.pid, log), Counter[str]()
    usage.look()
    tasks = [asyncio.create_task(usage.watch())]
    for number, kind in zip(range(size.hostile), itertools.cycle(KINDS), strict=False):
        place = Place(port, f"127.0.1.{1 + number * _ADDRESSES // size.hostile}")
        tasks.append(asyncio.create_task(attack(kind, place, cut_off)))
    await asyncio.sleep(min(5.0, size.seconds / 5))
    end = time.monotonic() + size.seconds
    places = [Place(port, f"127.0.2.{1 + number % _HONEST_ADDRESSES}") for number in range(size.honest)]
    await asyncio.gather(*(ask_on(place, served, end) for place in places))
    tasks[0].cancel()
    began = time.monotonic()
    server.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(server.wait, 60)
    stop = {"seconds_to_stop": round(time.monotonic() - began, 2), "exit_code": code}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"honest": served.summary(), "cut_off": dict(cut_off), "server": {**usage.summary(), **stop}}


@dataclass(frozen=True)
class Size:
    """How large a siege is."""

    hostile: int = HOSTILE
    honest: int = HONEST
    seconds: float = SECONDS
    microseconds: float = 50.0


def measure(size: Size, pinned: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with serving(log, size.microseconds, 0 if pinned else None) as (server, port):
            if pinned:
                os.sched_setaffinity(0, {1})
            found = asyncio.run(siege(server, port, log, size))
        text = log.read_text(encoding="utf-8", errors="replace")
    return {**found, "log": {"bytes": len(text), "tracebacks": text.count("Traceback"), "begins": text[:1000]}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hostile", type=int, default=HOSTILE)
    parser.add_argument("--honest", type=int, default=HONEST)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--microseconds", type=float, default=50, help="of a processor, for each byte of text")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    size = Size(arguments.hostile, arguments.honest, arguments.seconds, arguments.microseconds)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * size.hostile + 1_000)), hard))
    result = {
        "command": shlex.join(["python", "-m", "stress.hostile", *sys.argv[1:]]),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "load_before": round(os.getloadavg()[0], 1),
        },
        "size": asdict(size),
        **measure(size, pinned=True),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
