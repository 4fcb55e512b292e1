"""How the server shares its work: admission, fair turns, bounded batches, worker threads, and a bounded log."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest

from helpers.serving import SENTENCE, Slow
from loopmt.path import Hop
from loopmt.serve.batching import Batcher
from loopmt.serve.fair_queue import BatchKey, FairQueue
from loopmt.serve.limits import FairShare, RequestLimits, estimated_subwords
from loopmt.serve.log import RateLimitedLog
from loopmt.serve.threads import WorkerThread
from loopmt.text.vocab import Vocab


def test_a_client_may_hold_as_much_as_is_left() -> None:
    share = FairShare(100)
    assert share.largest == 50 and not share.take("a", 51)
    assert share.take("a", 50) and not share.take("a", 1)
    assert share.take("b", 25) and not share.take("b", 1), "a third of what was left, and as much is left"
    share.give_back("a", 50)
    assert share.used == 25 and share.take("c", 30)
    share.give_back("b", 25)
    share.give_back("c", 30)
    assert (share.used, share.take("a", 50)) == (0, True)


def order_of(puts: list[tuple[str, list[str]]], most: int) -> list[str]:
    """The texts in the order in which batches take them."""

    async def taken() -> list[str]:
        queue, found = FairQueue(), []
        for client, texts in puts:
            queue.put(client, BatchKey(Hop("en", "fr"), 1), texts)
        while queue:
            found += [one.text for one in queue.take(256, most)[1]]
        return found

    return asyncio.run(taken())


def test_clients_take_turns_by_subwords() -> None:
    """A small text waits for at most one large one, even if another client has filled the queue."""
    found = order_of([("greedy", ["x" * 500] * 20), ("a", ["small"]), ("b", ["small too"])], most=600)
    assert sorted(found[:2]) == ["small", "small too"] or sorted(found[1:3]) == ["small", "small too"]
    found = order_of([("many", ["x" * 50] * 100), ("few", ["y" * 500] * 10)], most=1_000)
    half = found[: len(found) // 2]
    assert 3 <= half.count("y" * 500) <= 7, "both get the same share, however it is cut"


def test_a_new_client_does_not_wait_for_many_equal_requests() -> None:
    """All their turns are equal; a request that arrives during the first one is next."""

    async def taken() -> list[str]:
        queue, key = FairQueue(), BatchKey(Hop("en", "fr"), 1)
        for number in range(20):
            queue.put(str(number), key, ["x" * 5_000])
        queue.take(256, 1)
        queue.put("newcomer", key, ["small"])
        return [one.text for one in queue.take(256, 1)[1]]

    assert asyncio.run(taken()) == ["small"]


def test_a_batch_is_bounded_in_subwords() -> None:
    """First by a fixed number, then by the number that takes half a second."""
    sizes: list[int] = []

    class Counting(Slow):
        def translate(self, texts, hop, n):  # type: ignore[no-untyped-def]
            sizes.append(sum(map(len, texts)))
            return super().translate(texts, hop, n)

    async def crowd(engine: Slow, clients: int) -> None:
        batcher = Batcher()
        work = asyncio.create_task(batcher.work(engine))
        asked = (batcher.translate(["x" * 1_000] * 10, engine.hops[0], client=str(one)) for one in range(clients))
        await asyncio.gather(*asked)
        work.cancel()
        assert batcher.close(1)

    asyncio.run(crowd(Counting(), 10))
    assert sum(sizes) == 100_000 and sizes[0] <= 4_096 and max(sizes) <= 65_536 and sizes[-2] > 4_096
    sizes.clear()
    asyncio.run(crowd(Counting(0.6), 1))
    assert max(sizes) <= 4_096


def test_a_failing_text_is_found_by_bisection() -> None:
    engine = Slow()

    async def crowd() -> list[object]:
        batcher = Batcher()
        work = asyncio.create_task(batcher.work(engine))
        texts = [*map(str, range(200)), "stumble"]
        found = await asyncio.gather(
            *(batcher.translate([text], engine.hops[0]) for text in texts), return_exceptions=True
        )
        work.cancel()
        assert batcher.close(1)
        return list(found)

    found = asyncio.run(crowd())
    assert [isinstance(one, ValueError) for one in found] == [False] * 200 + [True]
    assert len(engine.asked) < 20


def test_cancelled_work_leaves_the_queue() -> None:
    async def given_up() -> int:
        batcher, queue = Batcher(), FairQueue()
        batcher._queue = queue
        asking = [asyncio.create_task(batcher.translate(["x"] * 10, Hop("en", "fr"))) for _ in range(100)]
        await asyncio.sleep(0)
        assert queue
        for task in asking[1:]:
            task.cancel()
        await asyncio.gather(*asking[1:], return_exceptions=True)
        left = len(queue.take(10_000, 10**6)[1])
        asking[0].cancel()
        batcher.close(1)
        return left

    assert asyncio.run(given_up()) == 10


def test_a_worker_thread_does_not_block_the_exit() -> None:
    async def closed(seconds: float) -> tuple[bool, float]:
        thread = WorkerThread("test")
        done = [thread.submit(time.sleep, seconds) for _ in range(3)]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        ended = thread.close(0.3)
        del done
        return ended, time.monotonic() - began

    assert asyncio.run(closed(0.1))[0] is True, "what waited was dropped"
    ended, took = asyncio.run(closed(1.0))
    assert not ended and took < 0.5


def test_a_log_is_bounded() -> None:
    now = [0.0]
    limited = RateLimitedLog(lambda: now[0])

    def passes(message: str, *args: object) -> str | None:
        record = logging.LogRecord("test", logging.WARNING, "", 0, message, args, None)
        return record.getMessage() if limited.filter(record) else None

    first = [passes("bad request of %s", number) for number in range(100)]
    assert first[0] == "bad request of 0" and sum(one is not None for one in first) == 20
    assert passes("something else") == "something else"
    now[0] = 61.0
    assert passes("bad request of %s", 101) == "bad request of 101 (80 more such lines were dropped)"
    assert passes("bad request of %s", 102) is None
    assert sum(passes(f"kind {number}") is not None for number in range(1_000)) < 150


def test_the_defaults_admit_an_ordinary_request() -> None:
    """A page of 64 paragraphs in any script goes through one hop."""
    limits = RequestLimits()
    assert limits.texts * 1_300 * 3 <= FairShare(limits.subwords).largest
    assert limits.body < limits.bodies // 2


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        "Le petit enfant entend souvent le gentil chat.",
        "xqzj" * 50,
        "中文" * 100,
        "😀" * 50,
        "\U0001d160" * 50,
        "\ufdfa" * 50,
        "e\u0301" * 50,
        "\u2581" * 50,
        "İ" * 50,
        "!?" * 50,
        "a " * 50,
        "\x00" * 50,
        "",
    ],
)
def test_the_estimate_of_subwords_is_an_upper_bound(tiny_run: Path, text: str) -> None:
    """With a vocabulary of few words in three languages, which encodes other text in bytes."""
    vocab = Vocab.load(tiny_run / "vocab")
    assert len(vocab.encode([text], "en")[0]) <= estimated_subwords(text) * 4 / 3


def test_the_estimate_is_close_for_ordinary_text(tiny_run: Path) -> None:
    vocab = Vocab.load(tiny_run / "vocab")
    assert estimated_subwords(SENTENCE) <= 6 * len(vocab.encode([SENTENCE], "en")[0])
