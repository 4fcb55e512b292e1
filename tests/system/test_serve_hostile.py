"""The server with hostile clients: slow, greedy, or disconnected. They neither delay others nor exhaust memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from stress.hostile import AttackSize, measure

from helpers.serving import SMALL, Slow, ask, running, service_of
from loopmt.serve.access import Access

_TCP_CLOSE = 7  # a state of Linux's TCP
LARGE = replace(SMALL, characters=2_000, texts=8, queue=1_000, subwords=10**6)


def connect(client: httpx.Client, source: str = "127.0.0.1", receive: int | None = None) -> socket.socket:
    connection = socket.socket()
    if receive:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    connection.bind((source, 0))
    connection.settimeout(30)
    connection.connect((client.base_url.host, client.base_url.port or 80))
    return connection


@contextlib.contextmanager
def connected(client: httpx.Client, count: int, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(client, source)) for _ in range(count)]


def asked(body: bytes, length: int | None = None, kind: str = "application/json", more: str = "") -> bytes:
    head = f"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n{more}"
    return f"{head}content-length: {len(body) if length is None else length}\r\n\r\n".encode() + body


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(2**16) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def wait_until(arrived: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not arrived():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


# -- slow --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (asked(b"", 1_000_000, "text/plain"), 415),
        (asked(b"", 1_000_000).replace(b"localhost", b"evil.example"), 421),
        (asked(b"", 1_000_000, more="authorization: Bearer wrong\r\n"), 401),
        (asked(b"", 1_000_000).replace(b"content-length: 1000000", b"transfer-encoding: chunked"), 411),
        (asked(b"", 1_000_000, "text/plain", "expect: 100-continue\r\n"), 415),
    ],
    ids=["type", "host", "token", "chunks", "continue"],
)
def test_a_drip_after_a_refusal_is_closed(tiny_run: Path, request_head: bytes, status: int) -> None:
    """The connection is closed as the response says, even if the client continues to send."""
    access = Access("127.0.0.1", token="x" * 16)
    if status != 401:
        request_head = request_head.replace(b"host:", b"authorization: Bearer " + b"x" * 16 + b"\r\nhost:")
    with running(service_of(tiny_run, Slow()), access) as client, connect(client) as drip:
        drip.sendall(request_head)
        answer = drip.recv(4096)
        assert answer.startswith(b"HTTP/1.1 %d " % status) and b"connection: close" in answer
        with contextlib.suppress(OSError):
            for _ in range(100):
                drip.sendall(b"x")
                time.sleep(0.05)
            pytest.fail("it is still open")


def test_a_refused_client_reads_the_reason(tiny_run: Path) -> None:
    """It sends all of its body first, as most clients do."""
    with running(service_of(tiny_run, Slow())) as client:
        for _ in range(20):
            headers = {"content-type": "text/plain"}
            answer = client.post("/translate", content=b"x" * 200_000, headers=headers)
            assert answer.status_code == 415
            assert "connection" not in answer.headers, "the body was read: the connection may stay"


def test_a_client_that_never_reads_is_closed(tiny_run: Path) -> None:
    limits = replace(SMALL, writing=0.5)
    with running(service_of(tiny_run, Slow(), limits)) as client, connect(client, receive=4096) as deaf:
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                deaf.send(b"GET /page.js HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100)
        time.sleep(1.5)
        deaf.settimeout(5)
        with pytest.raises(ConnectionResetError):
            while deaf.recv(2**16):
                pass


def test_a_client_that_reads_slowly_gets_its_answer(tiny_run: Path) -> None:
    with running(service_of(tiny_run, Slow(), LARGE)) as client, connect(client, receive=4096) as slow:
        slow.sendall(asked(b'{"path": "en>fr>en", "texts": %s}' % str(["a" * 2_000] * 8).replace("'", '"').encode()))
        found = b""
        while b'"translations"' not in found or not found.endswith(b"}]}"):
            found += slow.recv(1_000)
        assert found.count(b"a" * 2_000) > 8


# -- many --------------------------------------------------------------------------------------------------------


def test_connections_of_a_client_are_bounded(tiny_run: Path) -> None:
    limits = replace(SMALL, connections=20, client_connections=4)
    with running(service_of(tiny_run, Slow(), limits)) as client, connected(client, 30, "127.0.0.2") as silent:
        refused = [one.recv(4096) for one in silent[4:]]
        assert all(answer.startswith(b"HTTP/1.1 503") and b"too many connections" in answer for answer in refused)
        assert all(is_open(one) for one in silent[:4])
        assert client.get("/health").status_code == 200


def test_the_client_with_most_connections_loses_one(tiny_run: Path) -> None:
    limits = replace(SMALL, connections=6, client_connections=5)
    with (
        running(service_of(tiny_run, Slow(), limits)) as client,
        connected(client, 4, "127.0.0.2") as greedy,
        connected(client, 2, "127.0.0.3") as modest,
    ):
        assert client.get("/health").status_code == 200
        assert [is_open(one) for one in greedy] == [False, True, True, True], "the oldest"
        assert all(is_open(one) for one in modest)
        with connect(client, "127.0.0.2") as another:
            assert another.recv(4096).startswith(b"HTTP/1.1 503"), "who has most displaces nobody"


def test_a_running_request_keeps_its_connection(tiny_run: Path) -> None:
    limits = replace(SMALL, connections=3, client_connections=3)
    with running(service_of(tiny_run, Slow(1.0), limits)) as client, connected(client, 3, "127.0.0.2") as busy:
        for one in busy:
            one.sendall(asked(b'{"path": "en>fr", "texts": ["a"]}'))
        time.sleep(0.3)
        began = time.monotonic()
        assert client.get("/health").status_code == 503
        assert time.monotonic() - began < 0.5, "refused at once"
        assert all(b"200 OK" in one.recv(4096) for one in busy)


def test_connections_of_a_proxy_count_separately(tiny_run: Path) -> None:
    limits = replace(SMALL, connections=20, client_connections=2)
    access = Access("127.0.0.1", proxies=["127.0.0.2"])
    with running(service_of(tiny_run, Slow(), limits), access) as client, connected(client, 12, "127.0.0.2") as many:
        assert client.get("/health").status_code == 200
        assert all(is_open(one) for one in many)


def test_open_files_limit_connections() -> None:
    """In a process of its own: a limit that is lowered cannot be raised again."""
    code = """
import resource
from loopmt.errors import ConfigError
from loopmt.serve.server import possible_connections
for soft, hard in ((256, 4096), (600, 600), (128, 128)):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        print(possible_connections(512), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    except ConfigError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    raised, few, none = done.stdout.splitlines()
    assert raised.split()[0] == "512" and int(raised.split()[1]) > 512
    assert 16 <= int(few.split()[0]) < 512 and few.split()[1] == "600"
    assert "128 files" in none and "ulimit -n" in none and "LimitNOFILE" in none


def test_unfinished_bodies_are_bounded(tiny_run: Path) -> None:
    """In all, and for one client: others can still send theirs."""
    limits = replace(LARGE, bodies=400_000, reading=3)
    body = b" " * 100_000
    with running(service_of(tiny_run, Slow(), limits)) as client, connected(client, 12, "127.0.0.2") as greedy:
        for one in greedy:
            one.sendall(asked(body, limits.body - 1))
        time.sleep(1.7)  # what they send is read for a second, so that they read why
        answers = [one.recv(4096) for one in greedy if not is_waiting(one)]
        assert 9 <= len(answers) <= 11
        assert all(answer.startswith(b"HTTP/1.1 503") and b"connection: close" in answer for answer in answers)
        assert ask(client, texts=["a" * 2_000] * 8).status_code == 200
        late = [one.recv(4096) for one in greedy if is_waiting(one)]
        assert all(answer.startswith(b"HTTP/1.1 408") for answer in late)


def test_unread_responses_are_bounded(tiny_run: Path) -> None:
    """In total: the largest are aborted, the others are kept for slow readers."""
    limits = replace(LARGE, answers=300_000)
    body = json.dumps({"path": "en>fr>en>fr", "texts": ["a" * 2_000] * 8}).encode()
    with (
        running(service_of(tiny_run, Slow(), limits)) as client,
        contextlib.ExitStack() as stack,
    ):
        deaf = [stack.enter_context(connect(client, "127.0.0.2", receive=4096)) for _ in range(10)]
        for one in deaf:
            one.sendall(asked(body) * 8)  # the kernel keeps the first answers
        wait_until(lambda: sum(map(was_reset, deaf)) >= 5)
        assert ask(client).status_code == 200
        assert sum(map(was_reset, deaf)) < 10


def was_reset(connection: socket.socket) -> bool:
    """Whether the other side has reset the connection, though data may remain to be read."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == bytes([_TCP_CLOSE])


def is_waiting(connection: socket.socket) -> bool:
    """Whether nothing has come and the other side has not closed."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        connection.settimeout(30)
    return False


# -- greedy ------------------------------------------------------------------------------------------------------


def test_one_client_does_not_starve_another(tiny_run: Path) -> None:
    """Six connections send as much as they may; each of their texts takes 40 ms."""

    class PerText(Slow):
        def translate(self, texts, hop, n):  # type: ignore[no-untyped-def]
            time.sleep(sum(map(len, texts)) * 2e-5)
            return super().translate(texts, hop, n)

    limits = replace(LARGE, queue=256, seconds=20)
    stop = threading.Event()

    def flood(client: httpx.Client) -> None:
        greedy = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=client.base_url, transport=greedy, timeout=60, trust_env=False) as other:
            while not stop.is_set():
                ask(other, "en>fr>en>fr", ["x" * 2_000] * 8, nbest=8)

    with running(service_of(tiny_run, PerText(), limits)) as client, ThreadPoolExecutor(6) as threads:
        for _ in range(6):
            threads.submit(flood, client)
        wait_until(lambda: client.get("/health").json()["waiting"] > 24)
        began = time.monotonic()
        answers = [ask(client) for _ in range(5)]
        took = time.monotonic() - began
        stop.set()
    assert {answer.status_code for answer in answers} == {200}
    assert took < 5


def test_the_error_of_a_large_request_names_the_limit(tiny_run: Path) -> None:
    limits = replace(LARGE, subwords=10_000)
    with running(service_of(tiny_run, Slow(), limits)) as client:
        refused = ask(client, "en>fr>en", ["中" * 2_000])
        assert refused.status_code == 413
        assert "12,004 subwords" in refused.json()["error"] and "5,000" in refused.json()["error"]
        assert ask(client, "en>fr", ["中" * 1_000]).status_code == 200


def test_a_translation_that_grows_is_not_translated_further(tiny_run: Path) -> None:
    class Growing(Slow):
        def translate(self, texts, hop, n):  # type: ignore[no-untyped-def]
            return super().translate([text * 9 for text in texts], hop, n)

    with running(service_of(tiny_run, Growing())) as client:
        refused = ask(client, "en>fr>en", ["a" * 60])
        assert refused.status_code == 413
        assert "into fr" in refused.json()["error"] and "480" in refused.json()["error"]
        assert ask(client, "en>fr", ["a" * 60]).status_code == 200


# -- gone --------------------------------------------------------------------------------------------------------


def test_work_of_a_disconnected_client_is_dropped(tiny_run: Path) -> None:
    engine = Slow(0.3)
    with running(service_of(tiny_run, engine, LARGE)) as client:
        with connect(client) as leaving:
            leaving.sendall(asked(b'{"path": "en>fr>en>fr", "texts": ["a", "b"]}'))
            wait_until(lambda: len(engine.asked) == 1)
        wait_until(lambda: client.get("/health").json()["waiting"] == 0, seconds=0.2)
        time.sleep(1)
        assert len(engine.asked) == 1


def test_the_server_stops_in_time_during_a_batch(tiny_run: Path, tmp_path: Path) -> None:
    """One text that takes a minute, as typed: the exit is clean and nothing is left behind."""
    command = [sys.executable, "-m", "loopmt", "serve", str(tiny_run), "--port", "0", "--backend", "loopmt"]
    command += ["--max-length", "2000000", "--max-subwords", "100000000"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    with process, process.stderr:
        line = next(line for line in process.stderr if "stop with Ctrl-C" in line)
        found = re.search(r"(http://127\.0\.0\.1:\d+)/", line)
        assert found, line
        with ThreadPoolExecutor(1) as thread:
            body = {"path": "en>fr", "texts": ["the small dog " * 100_000]}
            asking = thread.submit(httpx.post, f"{found[1]}/translate", json=body, timeout=60, trust_env=False)
            wait_until(lambda: httpx.get(f"{found[1]}/health", trust_env=False).json()["waiting"] == 1)
            time.sleep(0.5)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert time.monotonic() - began < 10
            answer = asking.result()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        told = process.stderr.read()
    assert "Traceback" not in told and told.splitlines()[-1] == "stopped"
    assert list(tmp_path.iterdir()) == []


# -- the log -----------------------------------------------------------------------------------------------------


BROKEN = [
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    asked(b"").replace(b"content-length: 0", b"transfer-encoding: chunked") + b"zz\r\n",
    asked(b"{}") + b"GARBAGE\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 100_000,
]


def test_invalid_http_does_not_fill_the_log(tiny_run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running(service_of(tiny_run, Slow())) as client:
        for _ in range(40):
            for content in BROKEN:
                with connect(client) as broken, contextlib.suppress(OSError):
                    broken.sendall(content)
                    broken.recv(4096)
        assert client.get("/health").status_code == 200
    told = capfd.readouterr().err
    assert "Traceback" not in told
    assert len(told.splitlines()) < 70


# -- all at once -------------------------------------------------------------------------------------------------


def test_honest_clients_are_served_beside_hostile_ones() -> None:
    """The short form of `python -m stress.hostile`."""
    found = measure(AttackSize(hostile=250, honest=8, seconds=10, microseconds=20), pinned=False)
    assert found["honest"]["requests"] > 8
    assert found["honest"]["succeeded"] >= 0.99, found
    assert all(found["cut_off"].get(kind) for kind in ("slow head", "slow body", "drip after a refusal"))
    memory = found["server"]["memory_mb"]
    assert memory["second_half"] - memory["start"] < 150
    assert found["server"]["files"]["most"] < 512 + 2 * 256 + 128
    assert found["server"]["log_bytes"] < 10_000 and found["log"]["tracebacks"] == 0
    assert found["server"]["exit_code"] == 0 and found["server"]["seconds_to_stop"] < 10
