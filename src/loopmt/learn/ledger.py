"""The ledger of equal budgets: what was learnt by each path, and what was meant to be.

`spent` is part of a stage's state: by path its rows, target tokens, real rows that were read, and the target tokens
that its weight stood for (`meant_tokens`). Stages of older versions lack the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopmt.learn.gather import GatheredRound
from loopmt.learn.routes import Route
from loopmt.path import Hop, LanguagePath, Pattern
from loopmt.text.batch import Batch

Spent = dict[str, dict[str, float]]
_TOLERANCE = 0.05  # of the generated text that a stage is meant to learn from


def enter(spent: Spent, routes: Sequence[Route], gathered: GatheredRound, batches: Sequence[Batch]) -> None:
    """Enter a round."""
    places = np.concatenate([batch.paths_NB.ravel() for batch in batches]) + 1  # 0: no row
    row_tokens = np.concatenate([batch.row_tokens.ravel() for batch in batches])
    rows, tokens = (np.bincount(places, counts, len(routes) + 1)[1:] for counts in (None, row_tokens))
    by_direction: dict[Hop, float] = {}
    for route in routes:
        by_direction[route.path.taught] = by_direction.get(route.path.taught, 0.0) + tokens[route.number]
    for number in {*gathered.shares, *np.flatnonzero(rows).tolist()}:
        path = routes[number].path
        entry = spent.setdefault(str(path), {"rows": 0, "target_tokens": 0, "real_rows": 0})
        entry["rows"] += int(rows[number])
        entry["target_tokens"] += int(tokens[number])
        entry["real_rows"] += gathered.read.get(number, 0)
        meant = gathered.shares.get(number, 0.0) * float(by_direction[path.taught])
        entry["meant_tokens"] = entry.get("meant_tokens", 0.0) + meant


@dataclass(frozen=True)
class SyntheticShare:
    """How much of what a stage learnt is generated text: of all target tokens, and how much was meant to be."""

    target_tokens: int
    synthetic: float
    meant: float | None  # None where the ledger does not say

    @classmethod
    def of(cls, spent: Mapping[str, Mapping[str, float]]) -> SyntheticShare:
        total = sum(entry["target_tokens"] for entry in spent.values())
        generated = [entry for path, entry in spent.items() if _generates(path)]
        learnt = sum(entry["target_tokens"] for entry in generated)
        told = all("meant_tokens" in entry for entry in generated)
        meant = sum(entry["meant_tokens"] for entry in generated) if told else None
        return cls(int(total), learnt / max(total, 1), None if meant is None else meant / max(total, 1))

    @property
    def missed(self) -> bool:
        return self.meant is not None and self.synthetic < (1 - _TOLERANCE) * self.meant

    def warning(self) -> str:
        """What was missed, and what helps."""
        return (
            f"{self.synthetic:.0%} of the target tokens were of generated text, and the weights of the mix ask for "
            f"{self.meant:.0%}: filters dropped more than generating more could replace, and real pairs took its place "
            "where there are some. Start from better translators, change how the paths generate, or lower their weight."
        )


def _generates(path: str) -> bool:
    pattern = Pattern.parse(path)
    return bool(LanguagePath(pattern.places, pattern.backward).generating)
