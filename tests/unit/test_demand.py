"""How many rows of every path a round reads, and which rows replace missing generated ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopmt.config import MixEntry
from loopmt.learn.reading import Demand, ReadPosition, by_queue, queues_of
from loopmt.learn.routes import Route
from loopmt.path import LanguagePath
from loopmt.text.batch import Rows
from loopmt.text.ragged import Ragged

PAIRS, LOOP, OTHER = "en>fr", "fr>en>fr", "fr>es>en>fr"


def route(number: int, path: str, entry: int | None = None, **settings: Any) -> Route:
    settings = {"path": path, **settings}
    return Route(
        number, LanguagePath.parse(path), MixEntry.model_validate(settings), number if entry is None else entry
    )


def rows(*paths: int) -> Rows:
    texts = Ragged.of([[20 + number] for number in range(len(paths))])
    return Rows.of(texts, texts, np.array(paths, dtype=np.int64))


def wanted(*routes: Route, share: float = 0.5, count: float = 100.0, waiting: int = 0) -> Demand:
    demand = Demand(queues_of(routes))
    for one in routes:
        demand.want(one, share, count, waiting)
    return demand


@pytest.mark.parametrize(
    ("settings", "kept", "waiting", "count"),
    [
        ({}, 1.0, 0, 108),
        ({}, 1.0, 8, 100),
        ({}, 1.0, 108, 0),
        ({}, 1.0, 500, 0),
        ({}, 0.5, 8, 200),
        ({}, 0.1, 8, 400),  # of which a quarter is the least that is made up for
        ({"keep": 0.8}, 1.0, 8, 125),
        ({"keep": 0.8}, 0.5, 8, 200),
        ({"samples": 4}, 1.0, 8, 25),
    ],
)
def test_a_round_reads_the_missing_rows(settings: dict[str, Any], kept: float, waiting: int, count: int) -> None:
    loop = route(0, LOOP, **settings)
    assert wanted(loop, waiting=waiting).count(loop, ReadPosition(0, kept)) == count


def test_real_pairs_replace_missing_generated_rows() -> None:
    routes = [route(0, PAIRS), route(1, LOOP), route(2, OTHER)]
    demand = Demand(queues_of(routes))
    for one, share, count in zip(routes, (0.2, 0.6, 0.2), (20.0, 60.0, 20.0), strict=True):
        demand.want(one, share, count, 0)
    demand.add(routes[1], 30)
    demand.add(routes[2], 25)
    demand.top_up()
    shares = {number: queue.share for number, queue in demand.held.items()}
    assert shares == pytest.approx({0: 0.5, 1: 0.3, 2: 0.2})
    assert demand.of(routes[0]).wanted == pytest.approx(50)


def test_without_real_pairs_missing_rows_are_not_replaced() -> None:
    one, other = route(0, LOOP), route(1, PAIRS.replace("fr", "es"))
    demand = wanted(one, other)
    demand.add(one, 40)
    demand.top_up()
    assert demand.of(one).share == pytest.approx(0.5 * 0.4)
    assert (demand.of(other).share, demand.of(other).wanted) == (0.5, 100)


def test_paths_drawn_per_round_share_a_queue() -> None:
    drawn = [route(number, path, entry=7, per_round=1) for number, path in enumerate((LOOP, OTHER, "en>es>en"))]
    own = route(3, LOOP)
    queues = queues_of([*drawn, own])
    assert queues == {0: 0, 1: 0, 2: 2, 3: 3}, "for each direction"
    waiting = by_queue([rows(1, 3, 0), rows(2, 2)], queues)
    assert {queue: found.paths.tolist() for queue, found in waiting.items()} == {0: [1, 0], 3: [3], 2: [2, 2]}
    assert by_queue([], queues) == {}


def test_few_rows_hardly_change_the_expected_kept_share() -> None:
    position = ReadPosition(10, 0.8)
    assert position.after(20, 0, 0) == ReadPosition(20, 0.8)
    assert position.after(20, 2, 0).kept == pytest.approx(0.8 * 32 / 34)
    assert position.after(20, 100_000, 30_000).kept == pytest.approx(0.3, abs=0.01)
