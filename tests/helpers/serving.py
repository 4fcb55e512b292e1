"""A server on a real socket, for the tests that ask it something."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from loopmt.path import Hop, LanguagePath
from loopmt.run import Run
from loopmt.serve.access import Access
from loopmt.serve.app import Service
from loopmt.serve.limits import RequestLimits
from loopmt.serve.server import address, listen, make_server
from loopmt.serve.watch import Watcher
from loopmt.workflow.samples import Samples
from loopmt.workflow.translate import Candidate

SENTENCE = "The small child hears the kind cat often."
SMALL = RequestLimits(characters=60, texts=4, looped=2, hops=3, queue=40, seconds=20, reading=3)


@contextlib.contextmanager
def running(service: Service, access: Access | None = None) -> Iterator[httpx.Client]:
    """The server in a thread of this process, and a client of it."""
    listening = listen("127.0.0.1", 0)
    server = make_server(service, access or Access("127.0.0.1"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    where = address(listening)
    thread.start()
    try:
        with httpx.Client(base_url=where, timeout=120, trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "it does not stop"


def service_of(run: Path, engine: Any, limits: RequestLimits = SMALL) -> Service:
    return Service("tiny", ["en", "fr", "es"], engine, lambda: None, Watcher(Run(run), Samples(Run(run))), limits)


def ask(client: httpx.Client, path: str = "en>fr", texts: Sequence[str] = (SENTENCE,), **more: Any) -> httpx.Response:
    return client.post("/translate", json={"path": path, "texts": list(texts), **more})


@dataclass
class Slow:
    """Translators that take their time, remember what they were asked, and stumble over one word."""

    seconds: float = 0.0
    asked: list[tuple[Hop, int]] = field(default_factory=list)
    backend: str = "slow"
    stage: str = "none"
    hops: Sequence[Hop] = (Hop("en", "fr"), Hop("fr", "en"))

    def parse_path(self, path: str) -> LanguagePath:
        return LanguagePath.parse(path)

    def translate(self, texts: Sequence[str], hop: Hop, n: int) -> list[list[Candidate]]:
        self.asked.append((hop, len(texts)))
        time.sleep(self.seconds)
        if "stumble" in texts:
            raise ValueError("stumbled")
        return [[Candidate(f"{hop.target}:{text}", -1.0)] for text in texts]
