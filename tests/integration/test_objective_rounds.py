"""The input of objectives in a round, and their factors on rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helpers.stages import ASK, assembled, stage
from loopmt.learn.objectives import Objective, PathRows
from loopmt.path import Hop
from loopmt.text.batch import Factors


class Spy(Objective):
    """Records its input of the last round; each row's factor is its number in its path."""

    def __init__(self) -> None:
        self.seen: list[PathRows] = []

    def round_factors(self, rows: Sequence[PathRows]) -> list[Factors]:
        self.seen = list(rows)
        return [np.arange(len(one.scores), dtype=np.float32) for one in rows]


def test_an_objective_sees_the_rows_of_a_round(ask_for: ASK) -> None:
    mix = '["X>Y", { path = "X>Y>X", keep = 0.8, tag = true }, { path = "en>es<fr", tag = true }]'
    trainer = assembled(ask_for(stage(mix)))
    spy = Spy()
    trainer.gatherer.objectives = [spy]
    gathered = trainer.gatherer.round(0, trainer._weights())
    by_path = {str(one.path): one for one in spy.seen}
    assert by_path.keys() == {str(route.path) for route in trainer.routes}
    bitext, loop, back = (by_path[path] for path in ("en>fr", "en>fr>en", "en>es<fr"))
    assert bitext.generated is None and not bitext.scores.any()
    assert loop.generated is loop.sources and back.generated is back.targets
    for one in (loop, back):
        assert one.scores.max() < 0 and len(one.scores) == len(one.sources) == len(one.targets) > 0
    (route,) = (route for route in trainer.routes if str(route.path) == "en>fr>en")
    learnt = gathered.networks[trainer.translators.network(Hop("fr", "en"))]
    mine = learnt.take(np.flatnonzero(learnt.paths == route.number))
    for source, factor in zip(mine.sources.rows(), mine.factors, strict=True):
        assert source[1:].tolist() == loop.sources.row(int(factor)).tolist(), "after its tag"
