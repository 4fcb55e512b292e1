"""JSON and TOML from files that may be damaged or hostile: checksums, and parsers of bounded depth.

Nesting that would exhaust time or the stack is rejected before parsing.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopmt.errors import DamagedError
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


NESTING = 100
"""The limit for nested brackets and for the parts of a dotted TOML key."""
_DIGITS = 300  # digits of a whole number; a float holds up to 308
_LONGEST = 200  # characters of a bare key or a number of TOML
_BRACKETS = re.compile(r'"(?:[^"\\]+|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_TOKENS = re.compile(
    r"""
      (?P<comment> \#[^\n]* )
    | (?P<string> \"{3} (?: [^"\\] | \\. | "(?!"") )*+ "{0,5}
                | '{3} (?: [^'] | '(?!'') )*+ '{0,5}
                | " (?: [^"\\\n] | \\. )*+ "?
                | ' [^'\n]*+ '? )
    | (?P<word> [\w+-]+ )
    | (?P<dot> \. )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<end> [,\n] )
    """,
    re.DOTALL | re.VERBOSE,
)


def _refuse(number: str) -> Any:
    short = number if len(number) <= 20 else f"{number[:20]}..."
    raise ValueError(f"it holds the number {short}, which is not finite")


def parse_json(content: str | bytes, not_finite: Callable[[str], Any] = _refuse) -> Any:
    """Parse a JSON value. Too deep nesting and numbers that are not finite raise a ValueError.

    `not_finite` replaces such numbers instead: NaN, Infinity, and numbers too large for a float, such as 1e999.
    """
    text = content if isinstance(content, str) else content.decode()
    if _nested_too_deeply(text):
        raise ValueError(f"its brackets are nested more than {NESTING} deep")

    def read_float(number: str) -> Any:
        value = float(number)
        return value if math.isfinite(value) else not_finite(number)

    def read_int(number: str) -> Any:
        return int(number) if len(number) <= _DIGITS else not_finite(number)

    return json.loads(text, parse_constant=not_finite, parse_float=read_float, parse_int=read_int)


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON that every parser can read; numbers that are not finite become null."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _nested_too_deeply(text: str) -> bool:
    if text.count("[") + text.count("{") <= NESTING:
        return False
    depth = 0
    for token in _BRACKETS.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if depth > NESTING:
            return True
    return False


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document; anything else raises a ValueError."""
    _check_toml(text)
    return tomllib.loads(text)


def _check_toml(text: str) -> None:
    levels = [0]  # for every open bracket, the number of dots in the current entry
    for token in _TOKENS.finditer(text):
        kind = token.lastgroup
        if kind == "word" and token.end() - token.start() > _LONGEST:
            raise ValueError(f"'{token[0][:20]}...' is longer than {_LONGEST} characters{_line_of(text, token)}")
        if kind == "dot":
            levels[-1] += 1
        elif kind == "open":
            levels.append(0)
        elif kind == "close":
            levels = levels[:-1] or [0]
        elif kind == "end":
            levels[-1] = 0
        if kind in ("dot", "open") and len(levels) + sum(levels) > NESTING:
            raise ValueError(f"brackets and dotted keys are nested more than {NESTING} deep{_line_of(text, token)}")


def _line_of(text: str, token: re.Match[str]) -> str:
    return f" (at line {text.count(chr(10), 0, token.start()) + 1})"
