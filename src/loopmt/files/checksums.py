"""JSON files that notice damage: under `check` lies a checksum of all the rest. And checksums of other files."""

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


def read_checked(file: Path, way_out: str) -> Json:
    """The object in a file as it was sealed; one that was written without a seal is taken as it is."""
    body = read_json_object(file, way_out)
    claimed = body.pop("check", None)
    if claimed is not None and claimed != _check(body):
        raise DamagedError(f"{file} is damaged: its checksum does not fit. {way_out}".rstrip())
    return body


def read_json_object(file: Path, way_out: str) -> Json:
    try:
        value = parse_json(read_bytes(file))
    except FileNotFoundError:
        raise DamagedError(f"{file} is missing. {way_out}".rstrip()) from None
    except (OSError, ValueError) as error:
        raise DamagedError(f"{file} cannot be read: {error}. {way_out}".rstrip()) from None
    if not isinstance(value, dict):
        raise DamagedError(f"{file} is damaged: it holds no JSON object. {way_out}".rstrip())
    return value


@contextmanager
def content_of(*files: Path) -> Iterator[None]:
    """While the content of such JSON files is used: it may be another than loopmt writes, and they have no checksum."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        there = [str(file) for file in files if file.exists()]
        if not there:
            raise
        which = there[0] if len(there) == 1 else f"one of {', '.join(there)}"
        raise DamagedError(
            f"{which} does not hold what loopmt writes ({type(error).__name__}: {error}). "
            "Delete it and run the command that writes it."
        ) from error


def file_digest(file: Path, kind: str = "sha256") -> str:
    """The checksum of any file, however large."""
    with reading(file) as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _check(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
