"""What a server refuses, and how it says so: too long, too many, too often, too late."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_MOST_CLIENTS = 10_000  # whose pace is remembered
_ESCAPED = 12  # bytes of JSON that one character can take
_SPARE = 16_384
_FOREIGN_RATE = 20.0


@dataclass(frozen=True)
class RequestLimits:
    """Bounds on what one request may ask for, and on what may be under way at once."""

    characters: int = 2_000  # of a text
    texts: int = 64  # of a request
    looped: int = 8  # texts of a request that asks for loops
    hops: int = 8  # of a path
    queue: int = 2_048  # translations of one text by one hop, waiting or under way
    seconds: float = 60.0  # for an answer
    reading: float = 10.0  # seconds for a request to arrive
    rate: float = 0.0  # requests a second from one address; 0: any number

    @property
    def body(self) -> int:
        """Bytes of the largest request that can be within the limits."""
        return self.texts * self.characters * _ESCAPED + _SPARE

    def check(self, texts: Sequence[str], hops: int, loops: bool) -> None:
        most = self.looped if loops else self.texts
        if len(texts) > most:
            what = "texts whose loops are asked for" if loops else "texts"
            raise RefusedError(413, f"{len(texts)} {what}; at most {most} in one request. Send several requests.")
        for number, text in enumerate(texts, 1):
            if len(text) > self.characters:
                raise RefusedError(
                    413, f"text {number} has {len(text):,} characters; at most {self.characters:,}. Send it in parts."
                )
        if hops > self.hops:
            raise RefusedError(400, f"the path has {hops} hops; at most {self.hops}.")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def usual_rate(host: str) -> float:
    """Of requests, where the user says nothing: this machine may ask as it likes, others may not."""
    return 0.0 if is_loopback(host) else _FOREIGN_RATE


class RefusedError(Exception):
    """A request that is not answered, with the status that says why."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


@dataclass
class AdmissionControl:
    """Lets in what the queue can hold: a request that is in is answered, one that would wait too long is refused."""

    most: int
    inside: int = 0

    @contextlib.contextmanager
    def admit(self, work: int) -> Iterator[None]:
        if work > self.most:
            raise RefusedError(
                413, f"the request needs {work:,} translations; at most {self.most:,} at once. Send parts."
            )
        if self.inside + work > self.most:
            raise RefusedError(503, f"the queue is full ({self.inside:,} translations). Try again in a moment.", 1)
        self.inside += work
        try:
            yield
        finally:
            self.inside -= work


@dataclass
class RateLimit:
    """How often each address asks: a bucket that holds two seconds' worth and fills at the rate."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def check(self, address: str) -> None:
        if not self.rate:
            return
        now, full = self.clock(), max(1.0, 2 * self.rate)
        left, then = self._buckets.pop(address, (full, now))
        left = min(full, left + (now - then) * self.rate)
        self._buckets[address] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) / self.rate)
            raise RefusedError(429, f"too many requests: at most {self.rate:g} a second from one address.", wait)
