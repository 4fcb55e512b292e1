"""Access to the server: host names, the token, and trusted proxies."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from loopmt.errors import ConfigError
from loopmt.serve.access import Access, chosen_token, client_key, host_name, is_loopback
from loopmt.serve.limits import RefusedError, default_rate

TOKEN = "a-token-of-thirty-characters-x"


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_loopback_addresses_are_recognized(host: str, own: bool) -> None:
    assert is_loopback(host) == own
    assert (default_rate(Access(host).local) == 0) == own


def test_behind_a_proxy_clients_are_remote() -> None:
    assert default_rate(Access("127.0.0.1", proxies=["127.0.0.1"]).local) > 0


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:99", "localhost"),
        ("[::1]:8000", "::1"),
        ("translate.example.org:443", "translate.example.org"),
        ("my_service:8000", "my_service"),
        ("localhost:@evil.example", None),
        ("localhost@evil.example", None),
        ("localhost:80:80", None),
        ("localhost/evil", None),
        ("localhost:", None),
        ("localhost:999999", None),
        ("[::1", None),
        ("::1", None),
        ("-localhost", None),
        ("local host", None),
        ("", None),
    ],
)
def test_a_host_header_is_read_strictly(header: str, name: str | None) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("host", "names", "header", "answered"),
    [
        ("127.0.0.1", [], "localhost", True),
        ("127.0.0.1", [], "evil.example", False),
        ("127.0.0.1", [], "localhost:@evil.example", False),
        ("127.0.0.1", [], "192.0.2.1", False),
        ("127.0.0.1", ["translate.example.org"], "Translate.Example.org", True),
        ("0.0.0.0", [], "192.0.2.1:8000", True),
        ("0.0.0.0", [], "[2001:db8::1]:8000", True),
        ("0.0.0.0", [], "localhost:8000", True),
        ("0.0.0.0", [], "evil.example", False),
        ("0.0.0.0", ["a.example", "b.example"], "b.example:8000", True),
    ],
)
def test_a_server_accepts_its_names(host: str, names: list[str], header: str, answered: bool) -> None:
    """A page of another site whose name resolves to this server sends that name (DNS rebinding)."""
    access = Access(host, names)
    if answered:
        access.check(Headers({"host": header}))
    else:
        with pytest.raises(RefusedError, match="--name") as refused:
            access.check(Headers({"host": header}))
        assert refused.value.status == 421


@pytest.mark.parametrize("name", ["https://a.example", "a.example:80", "a b", "*"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        Access("0.0.0.0", [name])
    assert f"--name {name}" in str(error.value) and "example.org" in str(error.value)


@pytest.mark.parametrize("token", ["", "short", "x" * 15, "sixteen letters and", "é" * 20])
def test_invalid_tokens(token: str) -> None:
    with pytest.raises(ConfigError) as error:
        Access("127.0.0.1", token=token)
    assert "16" in str(error.value) and "openssl rand" in str(error.value)
    assert not token or token not in str(error.value)


def test_a_token_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\nwhat follows is not read\n")
    assert chosen_token(None, file) == TOKEN
    assert chosen_token(TOKEN, None) == TOKEN
    assert chosen_token(None, None) is None
    with pytest.raises(ConfigError, match="both"):
        chosen_token(TOKEN, file)
    with pytest.raises(ConfigError, match="nowhere"):
        chosen_token(None, tmp_path / "nowhere")
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        chosen_token(None, file)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.7", "10.9.9.9", "192.0.2.7"),  # no proxy of ours
        ("127.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("127.0.0.1", "203.0.113.5, 192.0.2.7", "192.0.2.7"),  # what a client wrote itself comes first
        ("127.0.0.1", "203.0.113.5, 192.0.2.7, 10.0.0.3", "192.0.2.7"),  # two proxies of ours
        ("127.0.0.1", "192.0.2.7:4711", "192.0.2.7"),
        ("127.0.0.1", "[2001:db8::7]:4711", "2001:db8::/64"),
        ("127.0.0.1", "203.0.113.5, unknown", "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", ",".join(["10.0.0.1"] * 500), "10.0.0.1"),
    ],
)
def test_a_proxy_forwards_the_client_address(peer: str, forwarded: str, client: str) -> None:
    access = Access("127.0.0.1", proxies=["127.0.0.1", "10.0.0.0/8"])
    assert access.client(peer, Headers({"x-forwarded-for": forwarded})) == client
    assert Access("127.0.0.1").client(peer, Headers({"x-forwarded-for": forwarded})) == peer


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_a_client_is_an_address_or_an_ipv6_network(address: str, client: str) -> None:
    assert client_key(address) == client


@pytest.mark.parametrize("proxy", ["example.org", "10.0.0.1/8", "1.2.3.4.5"])
def test_invalid_proxies(proxy: str) -> None:
    with pytest.raises(ConfigError) as error:
        Access("127.0.0.1", proxies=[proxy])
    assert f"--trust-proxy {proxy}" in str(error.value) and "10.0.0.0/8" in str(error.value)


def test_starting_a_public_server_prints_warnings() -> None:
    assert list(Access("127.0.0.1").warnings()) == []
    without, plain = Access("0.0.0.0").warnings()
    assert "--token-file" in without and "LOOPMT_TOKEN" in without
    assert "TLS" in plain and "docs/serving.md" in plain
    assert list(Access("0.0.0.0", token=TOKEN).warnings()) == [plain]
