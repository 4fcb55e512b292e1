"""Resumable downloads: HTTP ranges are written to NAME.part, which is verified and renamed to NAME."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopmt.errors import DataError
from loopmt.files.regular import appending, creating, file_size, has_file, read_bytes, reading_given
from loopmt.progress import Advance, Progress
from loopmt.text.recipes import Remote

_CHUNK = 2**18
_NEW_VERSION = "If the publisher has changed the file, name a file with the new checksum with --checksums."
_LONGEST_TAG = 2**12
_BROKEN = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class RetryPolicy:
    """Seconds without a byte, tries without progress, and the first wait between two tries (it doubles)."""

    timeout: float = 60.0
    tries: int = 5
    wait: float = 1.0


PATIENT = RetryPolicy()


class UnreachableError(DataError):
    """There is no network or no route to the server, so other downloads will fail, too."""


class _BrokenOffError(Exception):
    """The connection ended; what arrived is in the .part file."""


def mirrored(remote: Remote, mirror: str | None) -> str:
    """The address, or the same path under a mirror: MIRROR/host/path."""
    if mirror is None:
        return remote.address
    if not mirror.startswith(("http://", "https://")):
        raise DataError(f"mirror '{mirror}': write an address that begins with http:// or https://.")
    return f"{mirror.rstrip('/')}/{remote.address.partition('://')[2]}"


def local_name(remote: Remote) -> str:
    """A unique name for each remote: `wmt12/test.tgz` and `wmt13/test.tgz` are different files."""
    return urllib.parse.urlsplit(remote.address).path.strip("/").replace("/", "_")


def download(
    remote: Remote,
    folder: Path,
    progress: Progress,
    mirror: str | None = None,
    patience: RetryPolicy = PATIENT,
) -> Path:
    """Download the file completely and verify it, unless it exists."""
    target = folder / local_name(remote)
    if target.exists():
        if wrong := _wrong_checksum(remote, target):
            raise DataError(f"{target}: {wrong}. Move it away, and the same command fetches it. {_NEW_VERSION}")
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    _patiently(mirrored(remote, mirror), part, progress, patience)
    _tag_file(part).unlink(missing_ok=True)
    if wrong := _wrong_checksum(remote, part):
        raise DataError(f"{remote.address}: {wrong}. {_set_aside(part, target)} {_NEW_VERSION}")
    part.replace(target)
    return target


def _set_aside(part: Path, target: Path) -> str:
    """Keep a file with a wrong checksum under a name that is not read, so that the download is not lost."""
    refused = target.with_name(f"{target.name}.refused")
    part.replace(refused)
    return f"It is kept as {refused}; the same command fetches it again."


def _patiently(address: str, part: Path, progress: Progress, patience: RetryPolicy) -> None:
    """Retry while the network fails; a try that received bytes resets the count."""
    failed = 0
    while True:
        before = _size(part)
        try:
            return _continue(address, part, progress, patience.timeout)
        except (_BrokenOffError, *_BROKEN) as error:
            failed = 1 if _size(part) > before else failed + 1
            if failed >= patience.tries:
                raise UnreachableError(_unreachable(address, part, error)) from None
            wait = patience.wait * 2 ** (failed - 1)
            progress.say(f"{address}: {_reason(error)}; trying again in {wait:.0f} s")
            time.sleep(wait)


def _continue(address: str, part: Path, progress: Progress, timeout: float) -> None:
    request = urllib.request.Request(address, headers={"User-Agent": "loopmt", **_range(part)})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            _receive(answer, address, part, progress)
    except urllib.error.HTTPError as error:
        with error:
            _refused(error, address, part)


def _range(part: Path) -> dict[str, str]:
    """Request the missing part of the same file; if the file has changed, the server sends all of it."""
    size, tag = _size(part), _tag_file(part)
    if not size:
        return {}
    condition = {"If-Range": read_bytes(tag, _LONGEST_TAG).decode("latin-1")} if has_file(tag) else {}
    return {"Range": f"bytes={size}-", **condition}


def _receive(answer: Any, address: str, part: Path, progress: Progress) -> None:
    start = _size(part) if _continues(answer, part) else 0
    length = answer.headers.get("Content-Length")
    missing = int(length) if length and length.isdigit() else None
    _check_space(address, part, missing or 0)
    if not start:
        _remember_tag(answer, part)
    with appending(part) if start else creating(part) as file, progress.track(part.stem, missing) as advance:
        came = _copy(answer.read1, file.write, missing, advance)
    if missing is not None and came < missing:
        raise _BrokenOffError(f"broke off after {start + came:,} of {start + missing:,} bytes")


def _continues(answer: Any, part: Path) -> bool:
    start: str = answer.headers.get("Content-Range", "").partition("-")[0]
    return answer.status == 206 and start == f"bytes {_size(part)}"


def _copy(read: Callable[[int], bytes], write: Callable[[bytes], object], most: int | None, advance: Advance) -> int:
    """Write every chunk at once: a reader that waits for a full buffer loses it when the connection ends."""
    total = 0
    while total != most and (data := read(_CHUNK)):
        write(data)
        advance(len(data))
        total += len(data)
    return total


def _remember_tag(answer: Any, part: Path) -> None:
    """Keep the ETag, unless it is weak: a weak one may stand for other bytes."""
    tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
    if tag and not tag.startswith("W/"):
        with creating(_tag_file(part)) as file:
            file.write(tag.encode("latin-1", "replace"))
    else:
        _tag_file(part).unlink(missing_ok=True)


def _refused(error: urllib.error.HTTPError, address: str, part: Path) -> None:
    if error.code == 416:
        whole = error.headers.get("Content-Range", "").rpartition("/")[2]
        if whole == str(_size(part)):
            return
        part.unlink(missing_ok=True)
        raise _BrokenOffError(f"what is in {part.name} is longer than the file")
    if error.code in _PASSING:
        raise _BrokenOffError(f"the server answers {error.code} {error.reason}")
    raise DataError(
        f"{address}: the server answers {error.code} {error.reason}. The file may have moved: "
        f"put it at {part.with_suffix('')} yourself, or name a server that has it with --mirror."
    )


def _wrong_checksum(remote: Remote, file: Path) -> str | None:
    if remote.checksum is None:
        return None
    kind, _, expected = remote.checksum.partition(":")
    with reading_given(file) as stream:
        found = hashlib.file_digest(stream, kind).hexdigest()
    return f"the {kind} is {found}, not {expected}: damaged, or another file" if found != expected else None


def _check_space(address: str, part: Path, missing: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if missing > free:
        raise DataError(
            f"{address} needs {missing / 1e9:.1f} GB and {part.parent} has {free / 1e9:.1f} GB left. "
            "Make room, or name another folder with --out."
        )


def _unreachable(address: str, part: Path, error: Exception) -> str:
    host = urllib.parse.urlsplit(address).hostname
    kept = f" {_size(part):,} bytes are kept, and the same command goes on from there." if _size(part) else ""
    return (
        f"{address} cannot be fetched: {_reason(error)}.{kept} Is there a network, and does it reach {host}? "
        f"Otherwise put the file at {part.with_suffix('')} yourself, or name a server that has it with --mirror."
    )


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return getattr(cause, "strerror", None) or str(cause)


def _size(part: Path) -> int:
    return file_size(part) if has_file(part) else 0


def _tag_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.tag")
