"""Records of a stage's log: lines of JSON with a checksum. Damaged or incomplete lines are skipped."""

from __future__ import annotations

import json
import zlib
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from loopmt.files.documents import json_text, parse_json

Json = dict[str, Any]


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True)


class _Update(_Fields):
    update: int


class _Guard(_Fields):
    path: str
    hop: str
    place: int
    offered: int
    copies: int
    dropped: dict[str, int]


class _Train(_Update):
    loss: dict[str, float]
    seconds: float
    tokens_per_second: float
    generate_share: float
    generated_tokens: float
    guards: list[_Guard] = []
    first_update: float | None = None
    learnt_per_second: float = 0.0
    source_padding: float = 0.0
    padding: float = 0.0
    updates_per_round: float = 0.0


class _Valid(_Update):
    mean_bleu: float
    mean_accuracy: float | None = None
    bleu: dict[str, float]
    loss: dict[str, float]
    accuracy: dict[str, float]
    untaught: list[str] = []


class _Alarm(_Update):
    path: str
    hop: str
    what: str


class _RouteShare(_Fields):
    share: float


class _Choice(_Update):
    worth: dict[str, _RouteShare]


class _Seconds(_Fields):
    generate: float
    train: float
    validate_: float = Field(alias="validate")


class _End(_Update):
    seconds: _Seconds


_KINDS: dict[str, type[BaseModel]] = {
    "train": _Train,
    "valid": _Valid,
    "alarm": _Alarm,
    "choice": _Choice,
    "end": _End,
}


def log_line(record: Json) -> str:
    line = json_text(record)
    return f'{line[:-1]}, "check": "{_checksum(line)}"}}\n'


def parse_record(line: bytes) -> Json | None:
    """The record of a line; None if it is invalid, such as the half-written last line of a killed process."""
    try:
        record = parse_json(line)
        claimed = record.pop("check", None)
        _KINDS.get(record["kind"], _Fields).model_validate(record)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return record if claimed in (None, _checksum(json.dumps(record, ensure_ascii=False))) else None


def _checksum(line: str) -> str:
    return f"{zlib.crc32(line.encode()):08x}"
