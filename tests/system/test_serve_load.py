"""The server under load: batching, a bounded queue, and time limits for slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.serving import SMALL, Slow, ask, running, service_of
from loopmt.errors import ConfigError
from loopmt.progress import Silent
from loopmt.serve.batching import Batcher
from loopmt.serve.limits import AdmissionControl, RateLimit, RefusedError, RequestLimits
from loopmt.serve.server import listen
from loopmt.workflow.serve import ServeOptions, load_engine


def test_requests_are_batched_by_hop() -> None:
    engine = Slow()

    async def crowd() -> list[Any]:
        batcher = Batcher()
        work = asyncio.create_task(batcher.work(engine))
        asked = [batcher.translate([str(number)], engine.hops[number % 2]) for number in range(40)]
        found = await asyncio.gather(*asked)
        work.cancel()
        assert batcher.close(1)
        return found

    found = asyncio.run(crowd())
    assert engine.asked == [(engine.hops[0], 20), (engine.hops[1], 20)]
    assert [said[0][0].text for said in found[:3]] == ["fr:0", "en:1", "fr:2"]


def test_a_failing_text_fails_alone(tiny_run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running(service_of(tiny_run, Slow())) as client, ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda text: ask(client, texts=[text]), ["one", "stumble", "three"]))
    assert [answer.status_code for answer in answers] == [200, 500, 200]
    assert "server's log" in answers[1].json()["error"]
    assert "stumbled" not in answers[1].text
    capfd.readouterr()


def test_the_queue_is_bounded(tiny_run: Path) -> None:
    limits = replace(SMALL, queue=8)
    with running(service_of(tiny_run, Slow(0.3), limits)) as client, ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda number: ask(client, texts=[str(number)]), range(12)))
        assert client.get("/health").json()["waiting"] == 0
        too_much = ask(client, "en>fr>en", ["a", "b", "c"])
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 4
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert "4 of 8 translations" in refused.json()["error"]
    assert refused.headers["retry-after"] == "1"
    assert too_much.status_code == 413
    assert "6 translations; at most 4" in too_much.json()["error"]


def test_a_response_has_a_time_limit(tiny_run: Path) -> None:
    limits = replace(SMALL, seconds=0.2)
    with running(service_of(tiny_run, Slow(0.6), limits)) as client:
        late = ask(client)
        assert late.status_code == 503 and "within 0.2 seconds" in late.json()["error"]
        assert client.get("/health").json()["waiting"] == 0


def test_slow_clients_do_not_delay_others(tiny_run: Path) -> None:
    """Twenty clients that never end their request, and ten that send nothing."""
    head = (
        b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"
    )
    with running(service_of(tiny_run, Slow())) as client, contextlib.ExitStack() as stack:
        where = (client.base_url.host, client.base_url.port or 80)
        slow = [stack.enter_context(socket.create_connection(where, timeout=60)) for _ in range(30)]
        for one in slow[:20]:
            one.sendall(head)
        began = time.monotonic()
        assert ask(client).status_code == 200
        assert time.monotonic() - began < SMALL.reading
        told = b"".join(iter(lambda: slow[0].recv(4096), b""))
    assert told.startswith(b"HTTP/1.1 408")
    assert b"did not arrive within 3 seconds" in told


HEAD = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"


def drip(connection: socket.socket, pieces: bytes) -> float:
    """Send byte by byte until the other side closes; how long that took."""
    began = time.monotonic()
    connection.settimeout(0.05)
    for piece in pieces:
        try:
            connection.sendall(bytes([piece]))
            if not connection.recv(4096):
                break
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            break
    return time.monotonic() - began


def test_silent_connections_are_closed(tiny_run: Path) -> None:
    with running(service_of(tiny_run, Slow(), replace(SMALL, reading=0.3))) as client:
        assert client.get("/health").status_code == 200
        where = (client.base_url.host, client.base_url.port or 80)
        with (
            socket.create_connection(where, timeout=60) as silent,
            socket.create_connection(where, timeout=60) as half,
        ):
            half.sendall(b"GET / HTTP/1.1\r\nho")
            assert silent.recv(1) == half.recv(1) == b""
        assert client.get("/health").status_code == 200, "who has asked something may stay"


@pytest.mark.parametrize("asked_before", [False, True], ids=["fresh", "kept alive"])
def test_a_dripping_head_has_a_time_limit(tiny_run: Path, asked_before: bool) -> None:
    """Every byte in time is not a request in time, on a connection that has asked something before no less."""
    with running(service_of(tiny_run, Slow(), replace(SMALL, reading=0.5))) as client:
        where = (client.base_url.host, client.base_url.port or 80)
        with socket.create_connection(where, timeout=60) as slow:
            if asked_before:
                slow.sendall(HEAD + b"\r\n")
                assert slow.recv(4096).startswith(b"HTTP/1.1 200")
            assert drip(slow, HEAD + b"x-drop: " + b"a" * 300) < 8
        assert ask(client).status_code == 200


def test_a_dripping_body_has_a_time_limit(tiny_run: Path) -> None:
    head = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with running(service_of(tiny_run, Slow(), replace(SMALL, reading=0.5))) as client:
        where = (client.base_url.host, client.base_url.port or 80)
        with socket.create_connection(where, timeout=60) as slow:
            slow.sendall(HEAD + b"\r\n")
            assert slow.recv(4096).startswith(b"HTTP/1.1 200")
            slow.sendall(head + b"content-length: 900\r\n\r\n")
            assert drip(slow, b" " * 300) < 8
        assert ask(client).status_code == 200


def test_sixty_four_clients(tiny_run: Path, tmp_path: Path) -> None:
    engine = load_engine(ServeOptions(tiny_run, backend="loopmt"), tmp_path, Silent())
    with running(service_of(tiny_run, engine, replace(SMALL, queue=128))) as client, ThreadPoolExecutor(64) as threads:
        answers = list(threads.map(lambda number: ask(client, texts=[f"The {number} dogs."]), range(128)))
        told = client.get("/health").json()
    assert {answer.status_code for answer in answers} == {200}
    assert told["translated"] == 128
    assert told["batches"] < 64


def test_gate_and_pace() -> None:
    gate = AdmissionControl(RequestLimits(queue=5, subwords=1000))
    with gate.admit("a", 2, 10), pytest.raises(RefusedError, match="2 of 5 translations"), gate.admit("a", 2, 10):
        pass
    with gate.admit("a", 1, 400), pytest.raises(RefusedError, match="400 of 1,000 subwords"), gate.admit("a", 1, 200):
        pass
    assert gate.inside == 0
    now = [0.0]
    pace = RateLimit(2.0, lambda: now[0])
    for _ in range(4):
        pace.check("a")
    with pytest.raises(RefusedError, match="at most 2 per second") as refused:
        pace.check("a")
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    pace.check("b")
    now[0] = 0.6
    pace.check("a")


def test_rate_over_the_socket(tiny_run: Path) -> None:
    with running(service_of(tiny_run, Slow(), replace(SMALL, rate=2))) as client:
        statuses = [client.get("/health").status_code for _ in range(8)]
    assert statuses[:4] == [200] * 4
    assert 429 in statuses


def test_a_port_that_is_taken() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1, port {port}: .*Choose another --port"):
            listen("127.0.0.1", port)


def test_small_responses_are_sent_at_once() -> None:
    """Otherwise each would wait for the other side's acknowledgement, some 40 ms."""
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
