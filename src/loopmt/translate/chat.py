"""A client of OpenAI-compatible endpoints: POST URL/chat/completions, with time limits, retries and backoff.

It needs only the standard library. It follows no redirects, which could send the key to another server. The key comes
from an environment variable and is written to no file and no message.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from threading import Event
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from loopmt.errors import ConfigError, ExternalError
from loopmt.files.documents import parse_json
from loopmt.rng import keyed_seed
from loopmt.translate.answers import Answer

KEY = "LOOPMT_API_KEY"
"""The environment variable with the key of the endpoint."""
_AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LARGEST = 2**22  # bytes of an answer
_PART = 2**16
_SHOWN = 300  # characters of an answer in an error
_LONGEST_WAIT = 60.0  # seconds
_LOCAL = {"localhost", "127.0.0.1", "::1"}


class _AgainError(Exception):
    """A temporary failure, after which the request is repeated."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait  # seconds to wait, as requested by the server


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


@dataclass(frozen=True)
class ChatClient:
    """Sends requests to one model of an endpoint."""

    url: str
    timeout: float = 120.0  # seconds for a whole answer
    retries: int = 6
    first_wait: float = 1.0  # seconds before the first retry; doubled for each further one
    stopping: Event = field(default_factory=Event, repr=False)
    """Set when a request has failed permanently; it ends the waiting of the others."""

    def ask(self, body: Mapping[str, Any]) -> Answer:
        """The model's answer."""
        for attempt in range(self.retries + 1):
            try:
                return _answer(self._post(body))
            except _AgainError as error:
                failure = error
            if attempt < self.retries and self.stopping.wait(self._wait(failure, attempt, body)):
                break
        raise ExternalError(
            f"{self.url}: no answer after {attempt + 1} attempts. The last one: {failure}. Is the server running? The "
            "answers so far are kept, and the same command continues from there. Failed attempts are repeated "
            "`retries` times, and each may take `timeout` seconds."
        )

    def _wait(self, failure: _AgainError, attempt: int, body: Mapping[str, Any]) -> float:
        """A wait that grows with each attempt, with random jitter so that requests do not arrive together."""
        share = keyed_seed("wait", attempt, json.dumps(body, sort_keys=True)) / 2**63
        wait = self.first_wait * 2**attempt * (0.5 + 0.5 * share)
        return float(min(max(wait, failure.wait or 0.0), _LONGEST_WAIT))

    def _post(self, body: Mapping[str, Any]) -> bytes:
        key = api_key(self.url)
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "loopmt"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        request = Request(f"{self.url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers)
        try:
            with _opener(self.url).open(request, timeout=self.timeout) as response:
                return _read(response, time.monotonic() + self.timeout)
        except HTTPError as error:
            with error:
                raise self._refused(error, key) from None
        except TimeoutError:
            raise _AgainError(f"it took longer than timeout = {self.timeout:g} seconds") from None
        except (URLError, HTTPException, OSError) as error:
            why = getattr(error, "reason", None) or f"{type(error).__name__} {error}".strip()
            raise _AgainError(f"it cannot be reached ({_without(key, str(why))})") from None

    def _refused(self, error: HTTPError, key: str | None) -> Exception:
        """The exception for an HTTP status other than success."""
        said = _without(key, _shown(error))
        status = f"HTTP {error.code}{f', {said}' if said else ''}"
        if error.code in _AGAIN:
            return _AgainError(status, _retry_after(error.headers.get("Retry-After")))
        fix = "Check `url`, `model` and `options` of this [[imported]] entry."
        if error.code in (401, 403):
            which = f"It refused the key in {KEY}" if key else f"It needs a key: set the environment variable {KEY}"
            fix = f"{which}."
        elif 300 <= error.code < 400:
            place = error.headers.get("Location", "another address")
            fix = f"It redirects to {place}: if that is right, set it as `url`."
        return ExternalError(f"{self.url}: {status}. {fix}")


def api_key(url: str) -> str | None:
    """The key for an endpoint, if the environment has one."""
    key = os.environ.get(KEY, "").strip() or None
    parts = urlsplit(url)
    if key and parts.scheme != "https" and parts.hostname not in _LOCAL:
        raise ConfigError(
            f"{url}: the key in {KEY} would be sent without encryption. Set url to an https address, or unset {KEY} if "
            "the server needs no key."
        )
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigError(f"the environment variable {KEY} contains characters that no key may have. Set it again.")
    return key


def _opener(url: str) -> OpenerDirector:
    """Requests to this machine do not go through a proxy."""
    local = [ProxyHandler({})] if urlsplit(url).hostname in _LOCAL else []
    return build_opener(_NoRedirects, *local)


def _read(response: HTTPResponse, deadline: float) -> bytes:
    """The whole body; the time limit also holds for a server that sends it in small parts."""
    parts = bytearray()
    while part := response.read1(_PART):
        parts += part
        if len(parts) > _LARGEST:
            raise _AgainError(f"its answer is larger than {_LARGEST >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(parts)


def _answer(body: bytes) -> Answer:
    """The first choice, as one line."""
    try:
        choice = parse_json(body)["choices"][0]
        text, finish = choice["message"].get("content"), choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _AgainError(f"its answer is no chat completion: {_one_line(body)!r}") from None
    if not isinstance(text, str):  # a refusal, or reasoning without an answer
        return Answer("", False)
    text = text.encode(errors="replace").decode()  # JSON can contain lone surrogates
    return Answer(" ".join(text.split()), finish in ("stop", None))


def _shown(error: HTTPError) -> str:
    try:
        return _one_line(error.read(_PART))
    except (OSError, HTTPException):
        return ""


def _one_line(body: bytes) -> str:
    return " ".join(body[: 4 * _SHOWN].decode(errors="replace").split())[:_SHOWN]


def _without(key: str | None, text: str) -> str:
    """The text without the key, because servers repeat a wrong key in their answers."""
    return text.replace(key, "***") if key else text


def _retry_after(value: str | None) -> float | None:
    """The seconds to wait, from a number or a date."""
    try:
        return float(value or "")
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(value or "").timestamp() - time.time()
    except (ValueError, TypeError):
        return None
