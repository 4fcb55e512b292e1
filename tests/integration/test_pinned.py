"""What is trained is pinned: batches by hash, so that a faster way to make them makes the same ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from loopmt.config import MixEntry, Model, Train
from loopmt.distributed import Processes
from loopmt.learn.gather import Gatherer
from loopmt.learn.reading import ReadPosition
from loopmt.learn.routes import Route, StageSetup
from loopmt.path import Hop, LanguagePath
from loopmt.rng import numpy_generator
from loopmt.text.batch import Batch, BatchShape, Rows
from loopmt.text.packing import Packed, interleave, pack
from loopmt.text.ragged import Ragged
from loopmt.text.store import Store, StoreWriter
from loopmt.text.vocab import Vocab
from loopmt.translate.filters import FilterContext, SyntheticTextFilter
from loopmt.translate.networks import NetworkStack
from loopmt.translate.walker import Translators

SHAPES = [BatchShape(32, 8), BatchShape(16, 16), BatchShape(8, 32)]
HOPS = ("en>fr", "en>es", "fr>en", "fr>es", "es>en", "es>fr")


def digest(batches: list[Batch]) -> str:
    found = hashlib.sha256()
    for batch in batches:
        for table in (batch.source_NBL, batch.target_NBL, batch.paths_NB, batch.groups_NB):
            found.update(f"{table.shape}{table.dtype}".encode())
            found.update(np.ascontiguousarray(table).tobytes())
    return found.hexdigest()[:16]


def random_rows(count: int, unit: int, path: int, *key: str | int) -> Rows:
    """Rows of which some, where there are groups, come in groups of at most `unit`, a few of them incomplete."""
    draw = numpy_generator("pinned", *key, path)

    def side() -> Ragged:
        return Ragged.of([draw.integers(3, 900, size).tolist() for size in draw.integers(0, 31, count)])

    source, target = side(), side()
    groups = np.full(count, -1, dtype=np.int64)
    if unit > 1:
        groups[: count // 2] = np.arange(count // 2) // unit * 2 + path
    rows = Rows.of(source, target, np.full(count, path, dtype=np.int64), groups)
    return rows.take(np.flatnonzero(draw.random(count) < 0.9))


@pytest.mark.parametrize(
    ("seed", "counts", "updates", "unit", "expected"),
    [
        (1, [300, 260, 280], 16, 1, "30b3dce0ca9d4b4a"),
        (2, [300, 20, 0], 12, 1, "c767709364e30fc3"),
        (3, [40, 30], 50, 1, "f1b403a6a1583dfc"),
        (4, [200, 180], 12, 4, "03124c1eff8118e4"),
        (5, [90, 120], 100, 2, "2a6de616f1e2f909"),
    ],
)
def test_packing_is_pinned(seed: int, counts: list[int], updates: int, unit: int, expected: str) -> None:
    networks = [
        interleave([random_rows(count, unit, path, seed, number) for path in (0, 1)], [1.0, 2.5])
        for number, count in enumerate(counts)
    ]
    assert digest(pack(networks, SHAPES, updates, seed).batches) == expected


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("pinned") / "store"
    writer = StoreWriter(folder)
    for pair, rows in (("en-fr", 900), ("en-es", 500), ("fr-es", 61)):
        draw = numpy_generator("pinned", pair)
        with writer.sides(pair, pair.split("-")) as sides:
            for side in sides:
                lengths = draw.integers(1, 36, rows).astype(np.int32)
                side.append(draw.integers(10, 300, int(lengths.sum())).astype(np.uint16), lengths)
    writer.close()
    return Store.open(folder)


@pytest.mark.parametrize(
    ("seed", "sharing", "expected"),
    [(1, "none", "3a00a00cd3e36167"), (2, "none", "43f14b239225e560"), (1, "all", "089a6218abaf7049")],
)
def test_supervised_rounds_are_pinned(tiny_run: Path, store: Store, seed: int, sharing: str, expected: str) -> None:
    """Three rounds one after another; the smallest corpus begins anew more than once in each."""
    model = Model.model_validate({"preset": "tiny", "layers": 1, "width": 16, "sharing": sharing})
    hops = tuple(Hop(*name.split(">")) for name in HOPS)
    translators = NetworkStack(model, Vocab.load(tiny_run / "vocab"), hops, torch.device("cpu"))
    routes = [Route(number, LanguagePath.parse(path), MixEntry(path=path), 0) for number, path in enumerate(HOPS)]
    train = Train(tokens=256, round=8, max_length=32, balance=0.5)
    setup = StageSetup(routes, translators, train, SHAPES, Processes(), (seed, "pinned"))
    gatherer = Gatherer(setup, store, Translators(translators), SyntheticTextFilter(FilterContext(32)))
    batches: list[Batch] = []
    streams: dict[int, ReadPosition] = {}
    packed = Packed([], [])
    for number in range(3):
        gathered = gatherer.round(number, dict.fromkeys(range(len(routes)), 1.0), streams, carried=packed.left)
        streams |= gathered.streams
        packed = pack(gathered.networks, SHAPES, train.round, seed, number)
        batches += packed.batches
    assert digest(batches) == expected
