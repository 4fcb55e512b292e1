"""JSON files that notice damage: under `check` lies a checksum of all the rest. And checksums of other files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from loopmt.errors import DamagedError

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
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedError(f"{file} is missing. {way_out}".rstrip()) from None
    except (OSError, ValueError) as error:
        raise DamagedError(f"{file} cannot be read: {error}. {way_out}".rstrip()) from None
    if not isinstance(value, dict):
        raise DamagedError(f"{file} is damaged: it holds no JSON object. {way_out}".rstrip())
    return value


def file_digest(file: Path, kind: str = "sha256") -> str:
    """The checksum of any file, however large."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _check(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
