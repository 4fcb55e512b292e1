"""The ledger of token budgets: for each path, the tokens it trained on and the tokens its weight intended.

`spent`, a part of the training state, has for each path its rows, its target tokens, the real rows read, and the target
tokens according to its weight (`meant_tokens`). Older versions did not record the last. Rows that learn from a reward
have a separate entry: `en>fr>en rewards en>fr`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopmt.learn.gather import GatheredRound
from loopmt.learn.routes import Route, path_of
from loopmt.path import Hop
from loopmt.text.batch import Batch

Spent = dict[str, dict[str, float]]
_TOLERANCE = 0.05  # relative, of the intended share of generated text


def enter(spent: Spent, routes: Sequence[Route], gathered: GatheredRound, batches: Sequence[Batch]) -> None:
    """Add a round to the ledger."""
    places = np.concatenate([batch.paths_NB.ravel() for batch in batches]) + 1  # 0: no row
    row_tokens = np.concatenate([batch.row_tokens.ravel() for batch in batches])
    rows, tokens = (np.bincount(places, counts, len(routes) + 1)[1:] for counts in (None, row_tokens))
    by_direction: dict[Hop, float] = {}
    for route in routes:
        by_direction[route.taught] = by_direction.get(route.taught, 0.0) + tokens[route.number]
    for number in {*gathered.shares, *np.flatnonzero(rows).tolist()}:
        route = routes[number]
        entry = spent.setdefault(str(route), {"rows": 0, "target_tokens": 0, "real_rows": 0})
        entry["rows"] += int(rows[number])
        entry["target_tokens"] += int(tokens[number])
        entry["real_rows"] += gathered.read.get(number, 0)
        meant = gathered.shares.get(number, 0.0) * float(by_direction[route.taught])
        entry["meant_tokens"] = entry.get("meant_tokens", 0.0) + meant


@dataclass(frozen=True)
class SyntheticShare:
    """The share of generated text in a stage's target tokens, and the intended share."""

    target_tokens: int
    synthetic: float
    meant: float | None  # None if it was not recorded

    @classmethod
    def of(cls, spent: Mapping[str, Mapping[str, float]]) -> SyntheticShare:
        total = sum(entry["target_tokens"] for entry in spent.values())
        generated = [entry for path, entry in spent.items() if _generates(path)]
        learnt = sum(entry["target_tokens"] for entry in generated)
        recorded = all("meant_tokens" in entry for entry in generated)
        meant = sum(entry["meant_tokens"] for entry in generated) if recorded else None
        return cls(int(total), learnt / max(total, 1), None if meant is None else meant / max(total, 1))

    @property
    def missed(self) -> bool:
        return self.meant is not None and self.synthetic < (1 - _TOLERANCE) * self.meant

    def warning(self) -> str:
        """A message with both shares and the possible fixes."""
        return (
            f"{self.synthetic:.0%} of the target tokens were generated text, but the weights of the mix ask for "
            f"{self.meant:.0%}: filters dropped too many rows, and real pairs replaced them where the mix has any. "
            "Start from better translators, change how the paths generate, or lower their weights."
        )


def _generates(name: str) -> bool:
    return bool(path_of(name).generating)
