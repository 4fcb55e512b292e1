"""JSON files with a checksum of their content under the key `check`, and checksums of other files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopmt.errors import DamagedError
from loopmt.files.documents import parse_json
from loopmt.files.regular import read_bytes, reading

Json = dict[str, Any]


def with_checksum(body: Json) -> Json:
    return {**body, "check": _check(body)}


def read_checked(file: Path, fix: str) -> Json:
    """The JSON object in a file, verified; a file without a checksum is accepted."""
    body = read_json_object(file, fix)
    claimed = body.pop("check", None)
    if claimed is not None and claimed != _check(body):
        raise DamagedError(f"{file} is damaged: its checksum does not match. {fix}".rstrip())
    return body


def read_json_object(file: Path, fix: str) -> Json:
    try:
        value = parse_json(read_bytes(file))
    except FileNotFoundError:
        raise DamagedError(f"{file} is missing. {fix}".rstrip()) from None
    except (OSError, ValueError) as error:
        raise DamagedError(f"{file} cannot be read: {error}. {fix}".rstrip()) from None
    if not isinstance(value, dict):
        raise DamagedError(f"{file} is damaged: it holds no JSON object. {fix}".rstrip())
    return value


@contextmanager
def content_of(*files: Path) -> Iterator[None]:
    """Turn errors from unexpected content of these JSON files, which have no checksum, into a `DamagedError`."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        there = [str(file) for file in files if file.exists()]
        if not there:
            raise
        which = there[0] if len(there) == 1 else f"one of {', '.join(there)}"
        raise DamagedError(
            f"{which} has unexpected content ({type(error).__name__}: {error}). "
            "Delete it and run the command that writes it."
        ) from error


def file_digest(file: Path, kind: str = "sha256") -> str:
    """The checksum of a file of any size."""
    with reading(file) as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _check(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
