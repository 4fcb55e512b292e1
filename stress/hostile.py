"""Hostile clients beside honest ones: `python -m stress.hostile --out docs/results/serve/hostile.json`.

A server with a known cost of translation (`stress.paced`) runs on one core, all clients on another, over loopback.
Hostile connections are of five kinds and come from many addresses; a closed one is opened again a second later. Honest
clients send a sentence, wait for the response, and send the next one half a second later on a new connection. Anything
but a response of 200 within 15 seconds is a failure; nothing is retried.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HOSTILE, HONEST, SECONDS = 2_000, 16, 300.0
TIMEOUT = 15.0  # seconds that an honest client waits
PAUSE = 0.5  # seconds between its requests
_ADDRESSES, _HONEST_ADDRESSES = 50, 4
_DRIP = 1.0  # seconds between two bytes
_SENTENCES = [f"The small child number {number} hears the kind cat often." for number in range(100)]


@dataclass(frozen=True)
class ClientAddress:
    """The server's port and a client's address."""

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


async def slow_head(address: ClientAddress) -> None:
    _, writer = await address.connect()
    with contextlib.closing(writer):
        await _drip(writer, b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-more: ")


async def slow_body(address: ClientAddress) -> None:
    _, writer = await address.connect()
    with contextlib.closing(writer):
        await _drip(writer, request(b"{", 100_000))


async def drip_after_refusal(address: ClientAddress) -> None:
    _, writer = await address.connect()
    with contextlib.closing(writer):
        await _drip(writer, request(b"", 1_000_000, "text/plain"))


async def never_read(address: ClientAddress) -> None:
    _, writer = await address.connect(receive=4096)
    with contextlib.closing(writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /page.js HTTP/1.1\r\nhost: localhost\r\n\r\n" * 200)
        await _drip(writer, b"")


async def flood(address: ClientAddress) -> None:
    """Send the largest allowed requests, one after another."""
    texts = ["中文" * 900] * random.choice((1, 4, 16))
    body = json.dumps({"path": "en>fr>en", "texts": texts, "nbest": 8}, ensure_ascii=False).encode()
    reader, writer = await address.connect()
    with contextlib.closing(writer):
        while True:
            writer.write(request(body))
            await _answer(reader)


KINDS: dict[str, Callable[[ClientAddress], Awaitable[None]]] = {
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


async def attack(kind: str, address: ClientAddress, cut_off: Counter[str]) -> None:
    await asyncio.sleep(random.random())
    while True:
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
            await KINDS[kind](address)
        cut_off[kind] += 1
        await asyncio.sleep(random.uniform(0.5, 1.5))


# -- honest ------------------------------------------------------------------------------------------------------


@dataclass
class Served:
    """The results of honest clients."""

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


async def ask_on(address: ClientAddress, served: Served, end: float) -> None:
    await asyncio.sleep(random.random() * PAUSE)
    while time.monotonic() < end:
        began = time.monotonic()
        body = json.dumps({"path": "en>fr", "texts": [random.choice(_SENTENCES)]}).encode()
        try:
            async with asyncio.timeout(TIMEOUT):
                result = str(await _ask(address, body))
        except (OSError, EOFError, TimeoutError) as error:
            result = type(error).__name__
        served.results[result] += 1
        if result == "200":
            served.seconds.append(time.monotonic() - began)
        await asyncio.sleep(PAUSE)


async def _ask(address: ClientAddress, body: bytes) -> int:
    reader, writer = await address.connect()
    with contextlib.closing(writer):
        writer.write(request(body))
        return await _answer(reader)


# -- measuring ---------------------------------------------------------------------------------------------------


@dataclass
class Usage:
    """Resources of the server process, measured once per second."""

    process: int
    log: Path
    rows: list[tuple[float, int, int]] = field(default_factory=list)  # megabytes, files, bytes of log

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(1)

    def look(self) -> None:
        folder = Path(f"/proc/{self.process}")
        memory = re.search(r"VmRSS:\s+(\d+)", (folder / "status").read_text())
        files = sum(1 for _ in (folder / "fd").iterdir())
        self.rows.append((int(memory[1]) / 1024 if memory else 0.0, files, self.log.stat().st_size))

    def summary(self) -> dict[str, Any]:
        memory, files, log = zip(*self.rows, strict=True)
        half = len(memory) // 2
        return {
            "memory_mb": {"start": memory[0], "first_half": max(memory[:half]), "second_half": max(memory[half:])},
            "files": {"start": files[0], "most": max(files)},
            "log_bytes": log[-1],  # before the stop
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


async def attack_server(server: subprocess.Popen[str], port: int, log: Path, size: AttackSize) -> dict[str, Any]:
    """Start hostile clients, then honest ones; stop the server while hostile clients are connected."""
    served, usage, cut_off = Served(), Usage(server.pid, log), Counter[str]()
    usage.look()
    tasks = [asyncio.create_task(usage.watch())]
    for number, kind in zip(range(size.hostile), itertools.cycle(KINDS), strict=False):
        address = ClientAddress(port, f"127.0.1.{1 + number * _ADDRESSES // size.hostile}")
        tasks.append(asyncio.create_task(attack(kind, address, cut_off)))
    await asyncio.sleep(min(5.0, size.seconds / 5))
    end = time.monotonic() + size.seconds
    honest = [ClientAddress(port, f"127.0.2.{1 + number % _HONEST_ADDRESSES}") for number in range(size.honest)]
    await asyncio.gather(*(ask_on(address, served, end) for address in honest))
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
class AttackSize:
    """The size and duration of an attack."""

    hostile: int = HOSTILE
    honest: int = HONEST
    seconds: float = SECONDS
    microseconds: float = 50.0


def measure(size: AttackSize, pinned: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with serving(log, size.microseconds, 0 if pinned else None) as (server, port):
            if pinned:
                os.sched_setaffinity(0, {1})
            found = asyncio.run(attack_server(server, port, log, size))
        text = log.read_text(encoding="utf-8", errors="replace")
    return {**found, "log": {"bytes": len(text), "tracebacks": text.count("Traceback"), "begins": text[:1000]}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hostile", type=int, default=HOSTILE)
    parser.add_argument("--honest", type=int, default=HONEST)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--microseconds", type=float, default=50, help="of processor time for each byte of text")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    size = AttackSize(arguments.hostile, arguments.honest, arguments.seconds, arguments.microseconds)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * size.hostile + 1_000)), hard))
    before = round(os.getloadavg()[0], 1)  # of other programs
    found = measure(size, pinned=True)
    result = {
        "command": shlex.join(["python", "-m", "stress.hostile", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load_before": before,
            "load_at_the_end": round(os.getloadavg()[0], 1),
        },
        "size": asdict(size),
        **found,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
