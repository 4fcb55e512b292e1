"""What a message must tell a user: names, files, keys, values, options and commands. Its wording is free."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

_Error = TypeVar("_Error", bound=BaseException)
_FACT = re.compile(
    r"""
    "[^"]+" | '[^']+' | `[^`]+`              # quoted names and values, commands
    | --[a-z][a-z-]*                         # options
    | [\w/.-]*\w[.>=/_][\w.>=/\[\]"-]*\w     # keys, paths through languages, assignments, files
    | (?<![\w.])\d[\d,.]*\d | (?<!\w)\d      # numbers
    """,
    re.VERBOSE,
)


def facts(example: str) -> list[str]:
    """The facts of an example of a message, without what surrounds them."""
    return [found.strip("`\"'").rstrip(".,:;") for found in _FACT.findall(example)]


def lacks(message: str, example: str) -> list[str]:
    """The facts of the example that a message lacks; of an example without any, the words themselves."""
    return [fact for fact in facts(example) or [example] if fact not in message]


def missing(message: object, *facts: str) -> list[str]:
    """The given facts that a message lacks."""
    return [fact for fact in facts if fact not in str(message)]


@contextmanager
def refused(error: type[_Error], *facts: str) -> Iterator[pytest.ExceptionInfo[_Error]]:
    """What is done here raises this error, whose message has all facts."""
    with pytest.raises(error) as caught:
        yield caught
    assert not missing(caught.value, *facts)
