"""Checksums that the user expects of downloads: the output of sha256sum or md5sum, or the record of another fetch."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopmt.errors import DataError
from loopmt.files.documents import parse_json
from loopmt.files.regular import has_given_file, read_given_text
from loopmt.text.download import local_name
from loopmt.text.recipes import Recipe, Remote

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LINE = re.compile(r"([0-9a-fA-F]{64}|[0-9a-fA-F]{32})\s+\*?(?:\./)?(\S+)")
_FORMS = "Give the output of sha256sum or md5sum in a folder of downloads, or the fetched.json of another fetch"


def with_expected(recipe: Recipe, file: Path) -> Recipe:
    """The recipe with the checksums of a file in place of its own."""
    expected = _read(file)
    known = {remote: _checksum(remote, expected) for remote in recipe.remotes()}
    if not any(known.values()):
        names = ", ".join(local_name(remote) for remote in known)
        raise DataError(f"{file} has no checksum of a file of {recipe.name}: {names}. {_FORMS}.")
    return recipe.with_remotes({remote: replace(remote, checksum=found) for remote, found in known.items() if found})


def _checksum(remote: Remote, expected: dict[str, str]) -> str | None:
    return expected.get(remote.address) or expected.get(local_name(remote))


def _read(file: Path) -> dict[str, str]:
    """Checksums by address or by the name in the folder of downloads."""
    if not has_given_file(file):
        raise DataError(f"{file}: there is no such file. {_FORMS}.")
    try:
        text = read_given_text(file)
        return _of_record(parse_json(text)) if text.lstrip().startswith("{") else _of_lines(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{file} does not hold checksums. {_FORMS}.") from None


def _of_record(record: Any) -> dict[str, str]:
    seen = {address: about["sha256"] for fetched in record.values() for address, about in fetched["files"].items()}
    if not all(_SHA256.fullmatch(checksum) for checksum in seen.values()):
        raise ValueError("not the record of a fetch")
    return {address: f"sha256:{checksum}" for address, checksum in seen.items()}


def _of_lines(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _LINE.fullmatch(line)
        if not match:
            raise ValueError(line)
        found[match[2]] = f"{'sha256' if len(match[1]) == 64 else 'md5'}:{match[1].lower()}"
    return found
