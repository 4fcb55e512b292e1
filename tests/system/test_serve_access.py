"""Access to the server over sockets: host names, the token, and trusted proxies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from stress.checks import limited

from helpers.commands import Cli
from helpers.serving import SMALL, Slow, ask, running, service_of
from loopmt.serve.access import Access

TOKEN = "a-token-of-thirty-characters-x"


# -- names -------------------------------------------------------------------------------------------------------


def test_names_over_the_socket(tiny_run: Path) -> None:
    access = Access("0.0.0.0", ["translate.example.org"])
    with running(service_of(tiny_run, Slow()), access) as client:
        for host, status in (
            ("translate.example.org", 200),
            ("192.0.2.1:80", 200),
            ("rebound.example", 421),
            ("localhost:@evil.example", 421),
        ):
            answer = client.get("/health", headers={"host": host})
            assert answer.status_code == status, host
        old = httpx.Request("GET", client.base_url, headers={"host": ""})
        assert client.send(old).status_code == 421


# -- token -------------------------------------------------------------------------------------------------------


def test_a_token_is_needed(tiny_run: Path) -> None:
    with running(service_of(tiny_run, Slow()), Access("127.0.0.1", token=TOKEN)) as client:
        for place in ("/watch", "/nothing"):
            assert client.get(place).status_code == 401
        refused = ask(client)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert "authorization: Bearer" in refused.json()["error"]
        for wrong in (f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer é"):
            assert ask_with(client, wrong).status_code == 401, wrong
        twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer x")]
        assert client.get("/watch", headers=twice).status_code == 401
        assert ask_with(client, f"Bearer {TOKEN}").status_code == 200
        assert ask_with(client, f"bearer {TOKEN}").status_code == 200


def ask_with(client: httpx.Client, authorization: str) -> httpx.Response:
    headers = [(b"authorization", authorization.encode())]
    return client.post("/translate", json={"path": "en>fr", "texts": ["a"]}, headers=headers)


def test_public_pages_reveal_nothing_of_the_run(tiny_run: Path) -> None:
    with running(service_of(tiny_run, Slow()), Access("127.0.0.1", token=TOKEN)) as client:
        assert client.get("/health").json() == {"status": "ready"}
        assert client.get("/health", headers={"authorization": "Bearer x"}).status_code == 401
        whole = client.get("/health", headers={"authorization": f"Bearer {TOKEN}"}).json()
        assert whole["run"] == "tiny" and whole["directions"]
        for place in ("/", "/page.js", "/docs", "/openapi.json"):
            answer = client.get(place)
            assert answer.status_code == 200
            assert "tiny" not in answer.text


# -- proxies -----------------------------------------------------------------------------------------------------


def test_a_client_cannot_choose_its_address(tiny_run: Path) -> None:
    """Requests with different X-Forwarded-For are one client, unless the proxy is trusted."""
    for proxies, refused in (([], True), (["127.0.0.1"], False)):
        access = Access("127.0.0.1", proxies=proxies)
        with running(service_of(tiny_run, Slow(), replace(SMALL, rate=2)), access) as client:
            headers = [{"x-forwarded-for": f"192.0.2.{number}"} for number in range(12)]
            statuses = [client.get("/health", headers=one).status_code for one in headers]
        assert (429 in statuses) == refused


# -- as typed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--token", "short"], "16"),
        (["--token", TOKEN, "--token-file", "token"], "--token-file"),
        (["--token-file", "nowhere"], "nowhere"),
        (["--name", "https://a.example"], "--name"),
        (["--trust-proxy", "everybody"], "--trust-proxy"),
        (["--max-connections", "0"], "--max-connections"),
    ],
)
def test_refused_at_the_start(cli: Cli, tiny_run: Path, options: list[str], told: str) -> None:
    done = cli("serve", str(tiny_run), "--port", "0", *options)
    assert done.code == 2 and done.out == ""
    assert told in done.err and "Traceback" not in done.err


def _huge(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(2**40)  # sparse: it takes no room


UNUSUAL: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda file: file.symlink_to("/dev/zero"),
    "link loop": lambda file: file.symlink_to(file.name),
    "not UTF-8": lambda file: file.write_bytes(b"\xff" * 40),
    "huge": _huge,
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_an_unusual_token_file_is_refused_at_once(cli: Cli, tiny_run: Path, tmp_path: Path, kind: str) -> None:
    UNUSUAL[kind](tmp_path / "token")
    with limited(20):
        done = cli("serve", str(tiny_run), "--port", "0", "--token-file", str(tmp_path / "token"))
    (line,) = done.err.splitlines()
    assert (done.code, done.out) == (2, "") and str(tmp_path / "token") in line


def test_a_public_server_started_by_the_command(tiny_run: Path) -> None:
    """It warns, takes the token from the environment, does not show it to `ps`, and writes nothing into the run."""
    before = files_of(tiny_run)
    command = [sys.executable, "-m", "loopmt", "serve", str(tiny_run), "--port", "0", "--host", "0.0.0.0"]
    environment = {**os.environ, "LOOPMT_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*command, "--backend", "loopmt"], stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    with process, process.stderr:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "stop with Ctrl-C" in line:
                break
        port = lines[-1].rpartition("http://0.0.0.0:")[2].partition("/")[0]
        assert any(line.startswith("warning: ") and "encrypted" in line for line in lines)
        assert not any("--token-file" in line for line in lines)
        assert TOKEN not in Path(f"/proc/{process.pid}/cmdline").read_text()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            assert client.get("/watch").status_code == 401
            assert ask_with(client, f"Bearer {TOKEN}").status_code == 200
            assert client.get("/watch", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
            assert client.get("/health", headers={"host": "rebound.example"}).status_code == 421
        process.terminate()
        assert process.wait(20) == 0
    assert files_of(tiny_run) == before


def files_of(run: Path) -> dict[Path, tuple[int, int]]:
    return {file: (file.stat().st_size, file.stat().st_mtime_ns) for file in run.rglob("*")}
