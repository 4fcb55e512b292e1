"""The token store: rows come back, orders are permutations, damage is noticed."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.facts import refused
from loopmt.errors import DamagedError, DataError
from loopmt.text.store import LONGEST, Lengths, Store, StoreWriter, Tokens, joined, row_indices

ROWS = st.lists(st.lists(st.integers(0, 65535), max_size=9), min_size=1, max_size=30)


def flat(rows: list[list[int]]) -> tuple[Tokens, Lengths]:
    return joined([np.array(row, dtype="<u2").tobytes() for row in rows])


def write(folder: Path, corpora: dict[str, list[list[list[int]]]]) -> Store:
    """A store of corpora by name, each a list of sides."""
    writer = StoreWriter(folder)
    for name, sides in corpora.items():
        with writer.sides(name, name.split("-")) as writers:
            for side, rows in zip(writers, sides, strict=True):
                for start in range(0, len(rows), 7):
                    side.append(*flat(rows[start : start + 7]))
    writer.add_set("valid", "", {"en": ["One.", "", "\x85 \u2028"], "fr": ["Un.", "x", "y"]})
    writer.add_set("news", "fr-en", {"fr": ["Deux."], "en": ["Two."]})
    writer.add_set("news", "de-en", {"de": ["Drei."], "en": ["Three."]})
    writer.close()
    return Store.open(folder)


@settings(max_examples=40)
@given(english=ROWS, mono=ROWS, data=st.data())
def test_rows_come_back(
    tmp_path_factory: pytest.TempPathFactory, english: list[list[int]], mono: list[list[int]], data: st.DataObject
) -> None:
    french = [row[::-1] for row in english]
    store = write(tmp_path_factory.mktemp("store") / "new", {"en-fr": [english, french], "es": [mono]})
    source, target = store.bitext("fr", "en")
    indices = data.draw(st.lists(st.integers(0, len(english) - 1)))
    for side, rows in ((source, french), (target, english)):
        assert len(side) == len(rows)
        assert side.lengths().tolist() == list(map(len, rows))
        assert side.lengths_of(np.arange(len(rows))[::-1]).tolist() == list(map(len, rows[::-1]))
        assert [row.tolist() for row in side.rows(np.array(indices, dtype=np.int64))] == [rows[i] for i in indices]
    assert [row.tolist() for row in store.mono("es").rows(np.arange(len(mono)))] == mono
    store.verify()


def test_what_there_is(tmp_path: Path) -> None:
    store = write(tmp_path / "store", {"en-fr": [[[1]], [[2]]], "es": [[[3]]]})
    assert store.has_bitext("en", "fr") and store.has_bitext("fr", "en") and store.has_mono("es")
    assert not (store.has_bitext("en", "es") or store.has_mono("en") or store.has_bitext("en", "en"))
    with refused(DataError, "en-es", "en-fr, es"):
        store.bitext("en", "es")
    with refused(DataError, "monolingual en", "en-fr, es"):
        store.mono("en")


def test_sets(tmp_path: Path) -> None:
    store = write(tmp_path / "store", {"en": [[[1]]]})
    assert store.tests == ["news"]
    assert store.texts("valid", "en") == ["One.", "", "\x85 \u2028"]
    assert store.texts("news", "en") == ["Two.", "Three."]
    assert store.texts("news", "es") == []
    assert store.pair_texts("valid", "fr", "en") == (["Un.", "x", "y"], ["One.", "", "\x85 \u2028"])
    assert store.pair_texts("news", "en", "fr") == (["Two."], ["Deux."])
    assert store.pair_texts("news", "fr", "de") is None
    assert store.pair_texts("valid", "fr", "de") is None
    with refused(DataError, "'test'", "valid, news"):
        store.texts("test", "en")


def test_lengths_are_counted(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "store")
    with writer.sides("en", ["en"]) as [side]:
        side.append(*flat([[7] * 3, [], [7] * 3, [7] * LONGEST, [7] * 2000]))
    counts = {length: int(rows) for length, rows in enumerate(side.histogram) if rows}
    assert counts == {0: 1, 3: 2, LONGEST: 2} and len(side.histogram) == LONGEST + 1


def test_damage_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = write(folder, {"en": [[[1, 2], [3]]]})
    content = (folder / "en.tokens").read_bytes()
    (folder / "en.tokens").write_bytes(content[::-1])
    with refused(DamagedError, "en.tokens", "content"):
        store.verify()
    (folder / "en.tokens").write_bytes(content[:-2])
    with refused(DamagedError, "en.tokens", "size"):
        Store.open(folder)
    (folder / "en.tokens").unlink()
    with pytest.raises(DamagedError, match="is not a token store"):
        Store.open(folder)
    for rubbish in (b"", b"{}", b"[]", b'{"version": 1, "files": 3}', b"\xff"):
        (folder / "store.json").write_bytes(rubbish)
        with pytest.raises(DamagedError, match=r"store.* Run `loopmt prepare` again"):
            Store.open(folder)
    with refused(DamagedError, "nowhere/store.json", "`loopmt prepare`"):
        Store.open(tmp_path / "nowhere")


@given(size=st.integers(1, 50), start=st.integers(0, 200), count=st.integers(0, 120), cut=st.integers(0, 120))
def test_each_epoch_is_a_permutation_and_any_part_is_the_same_part(size: int, start: int, count: int, cut: int) -> None:
    stream = row_indices(size, start, count, 1, "en>fr")
    cut = min(cut, count)
    parts = [row_indices(size, start, cut, 1, "en>fr"), row_indices(size, start + cut, count - cut, 1, "en>fr")]
    assert np.array_equal(stream, np.concatenate(parts))
    first = -(-start // size) * size - start
    for epoch in range(first, count - size + 1, size):
        assert sorted(stream[epoch : epoch + size]) == list(range(size))


def test_orders_differ_by_epoch_and_by_key() -> None:
    orders = [row_indices(1000, start, 1000, *key) for start, key in ((0, (1,)), (1000, (1,)), (0, (2,)))]
    assert len({order.tobytes() for order in orders}) == 3


def test_fetching_costs_a_microsecond_or_two_a_row(tmp_path: Path) -> None:
    """A wide margin, because the machine may be busy: it guards against reading row by row through a np.memmap."""
    side = write(tmp_path / "store", {"en": [[[5] * 20] * 20_000]}).mono("en")
    indices = row_indices(len(side), 0, 2000, 1)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        side.rows(indices)
        took.append(time.perf_counter() - began)
    assert min(took) / len(indices) < 2e-6
