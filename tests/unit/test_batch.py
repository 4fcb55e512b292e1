"""Ragged rows, batch shapes and packing: nothing is lost, nothing is cut, shares are kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopmt.text.batch import Batch, BatchShape, Rows, choose_lengths, interleave, make_shapes, pack
from loopmt.text.ragged import EOS, PAD, Ints, Ragged

sequences = st.lists(st.lists(st.integers(3, 60), max_size=6), max_size=8)


def listed(ragged: Ragged) -> list[list[int]]:
    return [row.tolist() for row in ragged.rows()]


# -- ragged ------------------------------------------------------------------------------------------------------


@given(sequences, sequences)
def test_ragged_holds_and_joins(one: list[list[int]], other: list[list[int]]) -> None:
    assert listed(Ragged.of(one)) == one
    assert listed(Ragged.join([Ragged.of(one), Ragged.of(other)])) == one + other
    assert Ragged.of(one).lengths.tolist() == [len(row) for row in one]
    assert len(Ragged.join([])) == 0


@given(sequences, st.data())
def test_ragged_takes_any_rows_in_any_order(rows: list[list[int]], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(rows) - 1)) if rows else st.just([]))
    taken = Ragged.of(rows).take(np.array(numbers, dtype=np.int64))
    assert listed(taken) == [rows[number] for number in numbers]


@given(sequences)
def test_ragged_prefixes_and_pads(rows: list[list[int]]) -> None:
    assert listed(Ragged.of(rows).prefixed(2)) == [[2, *row] for row in rows]
    numbers = np.array([*reversed(range(len(rows))), -1])
    table = Ragged.of(rows).padded(numbers, 8)
    assert table.tolist() == [[*row, EOS, *[PAD] * (7 - len(row))] for row in (*reversed(rows), [])]


# -- shapes ------------------------------------------------------------------------------------------------------


def padding(histogram: Ints, lengths: list[int]) -> int:
    places = np.array(lengths)[np.searchsorted(lengths, np.arange(len(histogram)))]
    return int((places * histogram).sum())


@settings(max_examples=60)
@given(st.lists(st.integers(0, 50), min_size=3, max_size=33), st.integers(1, 4))
def test_chosen_lengths_waste_the_least(counts: list[int], number: int) -> None:
    histogram = np.array(counts)
    longest = max(8, -(-(len(counts) - 1) // 4) * 4)
    candidates = range(4, longest, 4)
    chosen = choose_lengths(histogram, number, longest)
    ways = itertools.combinations(candidates, min(number - 1, len(candidates)))
    assert chosen[-1] == longest
    assert len(chosen) <= number
    assert padding(histogram, chosen) == min(padding(histogram, [*way, longest]) for way in ways)


def test_shapes_split_evenly_and_come_near_the_tokens() -> None:
    shapes = make_shapes([32, 8, 16], 1000, 24)
    assert [(shape.rows, shape.length) for shape in shapes] == [(120, 8), (48, 16), (24, 32)]
    assert make_shapes([512], 1000, 8) == [BatchShape(8, 512)], "a shape holds at least one row of each part"


# -- packing -----------------------------------------------------------------------------------------------------

SHAPES = [BatchShape(8, 8), BatchShape(4, 16)]


def rows_of(lengths: list[tuple[int, int]], groups: list[int] | None = None, path: int = 0) -> Rows:
    """Rows whose first source token is their number."""
    sources = [[100 + number, *[7] * (source - 1)] for number, (source, _) in enumerate(lengths)]
    targets = [[100 + number, *[8] * (target - 1)] for number, (_, target) in enumerate(lengths)]
    paths = np.full(len(lengths), path, dtype=np.int64)
    own = np.array(groups if groups is not None else [-1] * len(lengths), dtype=np.int64)
    return Rows.of(Ragged.of(sources), Ragged.of(targets), paths, own)


def numbers(batch: Batch, network: int) -> list[int]:
    held = batch.paths_NB[network] >= 0
    return [int(number) - 100 for number in batch.source_NBL[network][held, 0]]


row_lengths = st.lists(st.tuples(st.integers(1, 15), st.integers(1, 15)), max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.lists(row_lengths, min_size=1, max_size=3), st.integers(1, 12), st.sampled_from([1, 2, 4]))
def test_packing(networks: list[list[tuple[int, int]]], updates: int, unit: int) -> None:
    rows = [rows_of(lengths) for lengths in networks]
    batches = pack(rows, SHAPES, updates, "key", unit=unit)
    assert len(batches) <= updates
    for network, lengths in enumerate(networks):
        packed = [number for batch in batches for number in numbers(batch, network)]
        assert sorted(packed) == list(range(len(packed))), "a prefix of the rows, each once"
        if len(batches) < updates:
            assert len(packed) == len(lengths), "all of them, if there is room"
    for batch in batches:
        assert batch.source_tokens == sum(
            networks[number][row][0] + 1 for number in range(len(rows)) for row in numbers(batch, number)
        )
        assert batch.shape in SHAPES
        assert batch.source_NBL.shape == batch.target_NBL.shape == (len(rows), batch.shape.rows, batch.shape.length)
        for network, lengths in enumerate(networks):
            _check_rows(batch, network, lengths)


def _check_rows(batch: Batch, network: int, lengths: list[tuple[int, int]]) -> None:
    held = np.flatnonzero(batch.paths_NB[network] >= 0)
    for place, number in zip(held, numbers(batch, network), strict=True):
        source, target = batch.source_NBL[network, place], batch.target_NBL[network, place]
        assert (int((source != PAD).sum()) - 1, int((target != PAD).sum()) - 1) == lengths[number]
        assert source[lengths[number][0]] == target[lengths[number][1]] == EOS
    none = np.flatnonzero(batch.paths_NB[network] < 0)
    assert (batch.target_NBL[network, none] == PAD).all()
    assert (batch.source_NBL[network, none, 0] == EOS).all(), "attention needs something to attend to"
    assert batch.target_tokens[network] == sum(lengths[number][1] + 1 for number in numbers(batch, network))


def test_packing_nothing() -> None:
    assert pack([Rows.empty(), Rows.empty()], SHAPES, 4, "key") == []
    (batch,) = pack([rows_of([(3, 3)]), Rows.empty()], SHAPES, 4, "key")
    assert batch.target_tokens.tolist() == [4, 0]


@pytest.mark.parametrize("count", [100, 5000, 100_000])
def test_one_update_from_many_rows_is_nearly_full(count: int) -> None:
    """The last update of a stage with long rounds."""
    (batch,) = pack([rows_of([(3, 3)] * count), rows_of([(3, 3)] * (count // 2))], SHAPES, 1, "key")
    assert int((batch.paths_NB[0] >= 0).sum()) >= 7


def test_the_order_of_batches_is_keyed() -> None:
    rows = rows_of([(number % 15 + 1, 3) for number in range(200)])
    one, same, other = (pack([rows], SHAPES, 100, "key", number) for number in (1, 1, 2))
    assert [numbers(batch, 0) for batch in one] == [numbers(batch, 0) for batch in same]
    assert [numbers(batch, 0) for batch in one] != [numbers(batch, 0) for batch in other]
    assert sorted(numbers(batch, 0) for batch in one) == sorted(numbers(batch, 0) for batch in other)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 15), min_size=1, max_size=2), max_size=20), row_lengths, st.sampled_from([1, 2])
)
def test_groups_stay_together(groups: list[list[int]], alone: list[tuple[int, int]], parts: int) -> None:
    """The samples of one sentence are combined, so they must meet: in one batch and in one part of it."""
    lengths = [(source, 4) for group in groups for source in group] + alone
    own = [number for number, group in enumerate(groups) for _ in group] + [-1] * len(alone)
    order = np.random.default_rng(len(lengths)).permutation(len(lengths))
    rows = rows_of(lengths, own).take(order)
    found: dict[int, set[tuple[int, int]]] = {}
    packed = 0
    for place, batch in enumerate(pack([rows], SHAPES, 1000, "key", unit=2)):
        for part in range(parts):
            piece = batch.part(part, parts)
            packed += int((piece.paths_NB >= 0).sum())
            for group in piece.groups_NB[0]:
                found.setdefault(int(group), set()).add((place, part))
    assert packed == len(lengths)
    assert all(len(places) == 1 for group, places in found.items() if group >= 0)


def test_parts_of_a_batch_are_the_batch() -> None:
    (batch,) = pack([rows_of([(3, 2)] * 7)], [BatchShape(8, 8)], 1, "key")
    parts = [batch.part(number, 4) for number in range(4)]
    assert np.concatenate([part.source_NBL for part in parts], 1).tolist() == batch.source_NBL.tolist()
    assert np.sum([part.target_tokens for part in parts], axis=0).tolist() == batch.target_tokens.tolist()
    assert {part.shape for part in parts} == {BatchShape(2, 8)}


def test_a_batch_grows_by_places_without_a_row() -> None:
    (batch,) = pack([rows_of([(3, 2)] * 7)], [BatchShape(8, 8)], 1, "key")
    assert batch.padded(4) is batch
    grown = batch.padded(3)
    assert grown.shape == BatchShape(9, 8)
    assert grown.target_tokens.tolist() == batch.target_tokens.tolist()
    assert grown.source_tokens == batch.source_tokens
    assert np.concatenate([grown.part(number, 3).paths_NB for number in range(3)], 1).tolist() == [[0] * 7 + [-1] * 2]
    _check_rows(grown, 0, [(3, 2)] * 7)


# -- shares ------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=30, max_size=30), st.floats(0.1, 10))
def test_every_prefix_holds_its_shares(lengths: list[int], weight: float) -> None:
    one = rows_of([(2, length) for length in lengths], path=0)
    other = rows_of([(2, length) for length in reversed(lengths)], path=1)
    mixed = interleave([one, other], [weight, 1.0])
    assert len(mixed) == 60
    tokens = mixed.targets.lengths + 1
    spent = [np.cumsum(tokens * (mixed.paths == path)) for path in (0, 1)]
    both = np.minimum(spent[0] / spent[0][-1], spent[1] / spent[1][-1]) < 1  # until one has run out
    both &= np.maximum(spent[0] / spent[0][-1], spent[1] / spent[1][-1]) < 1
    assert (np.abs(spent[0] / weight - spent[1])[both] <= 10 / min(weight, 1.0)).all()


def test_interleaving_keeps_each_path_in_order() -> None:
    one, other = rows_of([(2, 3)] * 5, path=0), rows_of([(2, 3)] * 5, path=1)
    mixed = interleave([one, other], [1.0, 1.0])
    for path in (0, 1):
        assert [int(row[0]) for row in mixed.take(np.flatnonzero(mixed.paths == path)).sources.rows()] == list(
            range(100, 105)
        )
    assert len(interleave([], [])) == 0


@pytest.mark.parametrize("weights", [[1.0, 3.0], [3.0, 1.0]])
def test_packing_keeps_the_shares(weights: list[float]) -> None:
    """With more rows than a round needs, what is packed is a prefix, so the shares hold in it."""
    parts = [rows_of([(4, 6)] * 400, path=0), rows_of([(4, 6)] * 400, path=1)]
    batches = pack([interleave(parts, weights)], SHAPES, 16, "key")
    counts = [sum(int((batch.paths_NB == path).sum()) for batch in batches) for path in (0, 1)]
    assert len(batches) == 16
    assert counts[0] / sum(counts) == pytest.approx(weights[0] / 4, abs=0.02)
