"""Lines of a stage's log are records only if they have the fields of their kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.paths import DATA
from loopmt.files.log import log_line, parse_record

LINES = [line for file in sorted(DATA.rglob("metrics.jsonl")) for line in file.read_bytes().splitlines()]
RECORDS: dict[str, dict[str, Any]] = {record["kind"]: record for record in map(json.loads, LINES)}
NEEDED = {
    "train": ("update", "loss", "seconds", "tokens_per_second", "generate_share", "generated_tokens"),
    "valid": ("update", "mean_bleu", "bleu", "loss", "accuracy"),
    "end": ("update", "seconds"),
}


def test_lines_of_an_older_version() -> None:
    assert len(LINES) > 10 and RECORDS.keys() == NEEDED.keys()
    assert all(parse_record(line) for line in LINES)


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, keys in NEEDED.items() for key in keys])
@pytest.mark.parametrize("value", [None, "text", ["list"], {"a": "b"}, True])
def test_a_record_without_what_it_needs_is_damaged(kind: str, key: str, value: object) -> None:
    record = {name: value for name, value in RECORDS[kind].items() if name != "check"}
    assert parse_record(json.dumps(record).encode()) == record
    assert parse_record(json.dumps({**record, key: value}).encode()) is None
    del record[key]
    assert parse_record(log_line(record).encode()) is None


@pytest.mark.parametrize("line", [b"", b"3", b"[]", b"{}", b'{"kind": []}', b'{"kind": "train"', b"\xff", b"[" * 9999])
def test_invalid_records(line: bytes) -> None:
    assert parse_record(line) is None


def test_other_kinds_are_records() -> None:
    record = {"kind": "threads", "text": "é\u2028"}
    line = log_line(record).encode()
    assert parse_record(line) == record
    assert parse_record(line.replace("é".encode(), b"e")) is None, "its checksum does not match"
