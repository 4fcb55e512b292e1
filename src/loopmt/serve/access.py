"""Checks of a request's head: host name, token, and client address."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from starlette.datastructures import Headers

from loopmt.errors import ConfigError
from loopmt.files.regular import read_given_text
from loopmt.serve.limits import RefusedError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_HOST = re.compile(rf"(?:\[([0-9A-Fa-f:.]+)\]|({_NAME.pattern}))(?::[0-9]{{1,5}})?")
_MOST_FORWARDED = 16  # entries of X-Forwarded-For that are read, the nearest ones
_SHORTEST = 16  # characters of a token
_LARGEST_TOKEN_FILE = 2**20  # bytes
_CLIENT_BITS = 64  # the prefix length of an IPv6 client's network


class Access:
    """The host names that a server accepts, its token, and its trusted proxies."""

    def __init__(
        self, host: str, names: Sequence[str] = (), token: str | None = None, proxies: Sequence[str] = ()
    ) -> None:
        self.local = is_loopback(host) and not proxies  # only this machine can connect
        self._host = host
        self._public = not is_loopback(host)
        self._names = {*_LOOPBACK, host.lower(), *map(_checked_name, names)}
        self._token = None if token is None else _digest(checked_token(token))
        self._proxies = [_network(proxy) for proxy in proxies]

    def warnings(self) -> Iterator[str]:
        """Warnings for the person who starts the server."""
        if self._public and self._token is None:
            yield (
                f"anyone who can reach {self._host} can use this server: it has no token. Set one with --token-file "
                "FILE or the environment variable LOOPMT_TOKEN."
            )
        if self._public:
            yield (
                "requests and responses are not encrypted. Put a TLS proxy in front, and listen on 127.0.0.1 with "
                "--trust-proxy 127.0.0.1: docs/serving.md."
            )

    def check(self, headers: Headers) -> None:
        """Raise RefusedError for an unknown host name."""
        name = host_name(headers.get("host", ""))
        if name in self._names or (self._public and name and _address(name)):
            return
        raise RefusedError(
            421,
            "this server does not accept that host name. Use the address that it printed, or start it with "
            "--name NAME for each of its other names.",
        )

    def authorized(self, headers: Headers) -> bool:
        """Whether the request has the token, or none is needed; raises RefusedError for a wrong one."""
        if self._token is None:
            return True
        given = headers.getlist("authorization")
        if not given:
            return False
        scheme, _, token = given[0].partition(" ")
        if len(given) == 1 and scheme.lower() == "bearer" and hmac.compare_digest(_digest(token.strip()), self._token):
            return True
        raise RefusedError(401, "the token is wrong. Send the header authorization: Bearer TOKEN.")

    def is_proxy(self, peer: str) -> bool:
        address = _address(peer)
        return address is not None and any(address in network for network in self._proxies)

    def client(self, peer: str, headers: Headers) -> str:
        """The client to which limits apply: the nearest address that is not a trusted proxy."""
        nearest = peer
        entries = ",".join(headers.getlist("x-forwarded-for")).rsplit(",", _MOST_FORWARDED)
        for entry in reversed(entries[-_MOST_FORWARDED:]):
            address = _forwarded(entry) if self.is_proxy(nearest) else None
            if address is None:
                break
            nearest = str(address)
        return client_key(nearest)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def host_name(host: str) -> str | None:
    """The name in a Host header, without port; None if it is malformed, as in `localhost:@example.org`."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else None


def client_key(address: str) -> str:
    """The key of a client: an IPv4 address, or the network of an IPv6 address."""
    found = _address(address)
    if not isinstance(found, ipaddress.IPv6Address):
        return address
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found), _CLIENT_BITS), strict=False))


def chosen_token(token: str | None, file: Path | None) -> str | None:
    """The given token, or the first line of the file."""
    if token is not None and file is not None:
        raise ConfigError("--token-file and --token (or LOOPMT_TOKEN) are both given. Keep one of them.")
    if file is None:
        return token
    try:
        return read_given_text(file, _LARGEST_TOKEN_FILE).partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"--token-file {file} cannot be read: {reason}.") from None


def checked_token(token: str) -> str:
    if len(token) < _SHORTEST or not re.fullmatch(r"[!-~]+", token):
        raise ConfigError(
            f"the token has {len(token)} characters; it needs at least {_SHORTEST} printable ASCII characters without "
            "spaces. Create one: openssl rand -hex 32"
        )
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _checked_name(name: str) -> str:
    found = host_name(name)
    if found is None or found != name.lower().strip("[]"):
        raise ConfigError(f"--name {name}: write a host name without scheme and port, such as translate.example.org.")
    return found


def _network(proxy: str) -> Network:
    try:
        return ipaddress.ip_network(proxy)
    except ValueError as error:
        raise ConfigError(
            f"--trust-proxy {proxy}: {error}. Write an address or a network: 127.0.0.1, 10.0.0.0/8, ::1."
        ) from None


def _address(text: str) -> Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(text)
    return None


def _forwarded(entry: str) -> Address | None:
    """An entry of X-Forwarded-For; some proxies add the port."""
    entry = entry.strip()
    return _address(entry) or _address(host_name(entry) or "")
