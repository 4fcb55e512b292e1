"""What a captured graph does, without a graph: the work is done again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass
class Again:
    """What a graph does, without a graph."""

    replay: Callable[[], None]


def recorder(work: Callable[[], None]) -> Again:
    work()  # a real recorder runs the work before it captures it, so the first state must be restored
    return Again(work)
