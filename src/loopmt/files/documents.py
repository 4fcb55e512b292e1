"""Parsers for untrusted JSON and TOML: nesting that would exhaust time or the stack is rejected before parsing."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from typing import Any

NESTING = 100
"""The limit for nested brackets and for the parts of a dotted TOML key."""
_DIGITS = 300  # of a whole number; a float holds up to 308
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
    """A JSON value. Nesting that is too deep and numbers that are not finite are a ValueError.

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
    """JSON that every parser reads: a number that is not finite becomes null."""
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
    """A TOML document; anything else is a ValueError."""
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
