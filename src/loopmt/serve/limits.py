"""Limits of the server on size, number and rate of requests, and the errors for those that exceed them."""

from __future__ import annotations

import contextlib
import math
import time
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_MOST_CLIENTS = 10_000  # clients whose rate is stored
_ESCAPED = 12  # bytes of JSON, at most, for one character
_SPARE = 16_384
_FOREIGN_RATE = 20.0
_ENDS = 2  # subwords added to a text: a tag and EOS


@dataclass(frozen=True)
class RequestLimits:
    """Bounds on one request, on one client, and on all of them together.

    A client is an IPv4 address or an IPv6 network of 64 bits.
    """

    characters: int = 2_000  # of a text
    texts: int = 64  # of a request
    looped: int = 8  # texts of a request with `loops`
    hops: int = 8  # of a path
    queue: int = 2_048  # translations (one text, one hop), waiting or running
    subwords: int = 524_288  # of these translations, as `estimated_subwords` counts them
    seconds: float = 60.0  # for a response
    reading: float = 10.0  # seconds for the head of a request to arrive, and again for its body
    writing: float = 30.0  # seconds for the client to read the response
    rate: float = 0.0  # requests per second from one client; 0: unlimited
    connections: int = 512  # open at once
    client_connections: int = 128  # of one client
    bodies: int = 2**25  # bytes of all request bodies in memory
    answers: int = 2**26  # bytes of all responses that clients have not read

    @property
    def body(self) -> int:
        """The most bytes of a valid request."""
        return self.texts * self.characters * _ESCAPED + _SPARE

    @property
    def grown(self) -> int:
        """The most characters of an intermediate translation, as networks may repeat themselves endlessly."""
        return 8 * self.characters

    def check(self, texts: Sequence[str], hops: int, loops: bool) -> None:
        most = self.looped if loops else self.texts
        if len(texts) > most:
            what = "texts with loops" if loops else "texts"
            raise RefusedError(413, f"{len(texts)} {what}; at most {most} in one request. Send several requests.")
        for number, text in enumerate(texts, 1):
            if len(text) > self.characters:
                raise RefusedError(
                    413, f"text {number} has {len(text):,} characters; at most {self.characters:,}. Send it in parts."
                )
        if hops > self.hops:
            raise RefusedError(400, f"the path has {hops} hops; at most {self.hops}. Shorten it.")


def estimated_subwords(text: str) -> int:
    """An upper estimate of a text's subwords in any vocabulary: its bytes in UTF-8.

    In every script, ordinary text has a third to a fifth as many subwords as bytes, so clients are compared fairly.
    Text outside the vocabulary is encoded as bytes and has one subword per byte.
    """
    return len(unicodedata.normalize("NFC", text).encode("utf-8", "replace")) + _ENDS


def default_rate(local: bool) -> float:
    """The default limit of requests per second: none for this machine."""
    return 0.0 if local else _FOREIGN_RATE


class RefusedError(Exception):
    """A refused request, with its HTTP status."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


@dataclass
class FairShare:
    """A resource that clients share: each may hold as much as it leaves free.

    One client can hold one half, two clients one third each, and some is always left for the next client.
    """

    most: int
    used: int = 0
    _held: Counter[str] = field(default_factory=Counter)

    @property
    def largest(self) -> int:
        """The most that a client can hold."""
        return self.most // 2

    def take(self, client: str, amount: int) -> bool:
        if self._held[client] + amount > self.most - self.used - amount:
            return False
        self.used += amount
        self._held[client] += amount
        return True

    def give_back(self, client: str, amount: int) -> None:
        self.used -= amount
        self._held[client] -= amount
        if not self._held[client]:
            del self._held[client]


class AdmissionControl:
    """Admits requests that fit into the queue, and refuses others at once."""

    def __init__(self, limits: RequestLimits) -> None:
        self._stocks = {"translations": FairShare(limits.queue), "subwords": FairShare(limits.subwords)}

    @property
    def inside(self) -> int:
        """Translations waiting or running."""
        return self._stocks["translations"].used

    @contextlib.contextmanager
    def admit(self, client: str, translations: int, subwords: int) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            for (what, stock), amount in zip(self._stocks.items(), (translations, subwords), strict=True):
                _take(stock, client, amount, what)
                held.callback(stock.give_back, client, amount)
            yield


def _take(stock: FairShare, client: str, amount: int, what: str) -> None:
    if amount > stock.largest:
        raise RefusedError(
            413, f"the request needs {amount:,} {what}; at most {stock.largest:,} in one request. Send it in parts."
        )
    if not stock.take(client, amount):
        raise RefusedError(
            503, f"the queue is full: {stock.used:,} of {stock.most:,} {what} are taken. Try again in a moment.", 1
        )


@dataclass
class RateLimit:
    """A token bucket for each client; it holds the requests of two seconds."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def check(self, client: str) -> None:
        if not self.rate:
            return
        now, full = self.clock(), max(1.0, 2 * self.rate)
        left, then = self._buckets.pop(client, (full, now))
        left = min(full, left + (now - then) * self.rate)
        self._buckets[client] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) / self.rate)
            raise RefusedError(429, f"too many requests: at most {self.rate:g} per second from one address.", wait)
