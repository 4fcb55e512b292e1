"""Ragged rows, batch shapes and packing: nothing is lost, nothing is cut, shares are kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopmt.text.batch import Batch, BatchShape, Rows, choose_lengths, make_shapes
from loopmt.text.packing import interleave, pack
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
    shapes = make_shapes([32, 8, 16], 1000)
    assert [(shape.rows, shape.length) for shape in shapes] == [(120, 8), (56, 16), (24, 32)]
    assert make_shapes([512], 1000) == [BatchShape(8, 512)]
    assert make_shapes([512], 1000, largest_group=9) == [BatchShape(16, 512)], "a group of samples has a place"


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
@given(st.lists(row_lengths, min_size=1, max_size=3), st.integers(1, 12))
def test_packing(networks: list[list[tuple[int, int]]], updates: int) -> None:
    rows = [rows_of(lengths) for lengths in networks]
    batches = pack(rows, SHAPES, updates, "key").batches
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
    assert pack([Rows.empty(), Rows.empty()], SHAPES, 4, "key").batches == []
    (batch,) = pack([rows_of([(3, 3)]), Rows.empty()], SHAPES, 4, "key").batches
    assert batch.target_tokens.tolist() == [4, 0]


@pytest.mark.parametrize("count", [100, 5000, 100_000])
def test_one_update_from_many_rows_is_nearly_full(count: int) -> None:
    """The last update of a stage with long rounds."""
    (batch,) = pack([rows_of([(3, 3)] * count), rows_of([(3, 3)] * (count // 2))], SHAPES, 1, "key").batches
    assert int((batch.paths_NB[0] >= 0).sum()) >= 7


def test_the_order_of_batches_is_keyed() -> None:
    rows = rows_of([(number % 15 + 1, 3) for number in range(200)])
    one, same, other = (pack([rows], SHAPES, 100, "key", number).batches for number in (1, 1, 2))
    assert [numbers(batch, 0) for batch in one] == [numbers(batch, 0) for batch in same]
    assert [numbers(batch, 0) for batch in one] != [numbers(batch, 0) for batch in other]
    assert sorted(numbers(batch, 0) for batch in one) == sorted(numbers(batch, 0) for batch in other)


grouped = st.lists(st.lists(st.integers(1, 15), min_size=1, max_size=3), max_size=20)


def grouped_rows(groups: list[list[int]], alone: list[tuple[int, int]]) -> Rows:
    """Groups by the lengths of their sources, and rows that stand alone, in any order."""
    lengths = [(source, 4) for group in groups for source in group] + alone
    own = [number for number, group in enumerate(groups) for _ in group] + [-1] * len(alone)
    return rows_of(lengths, own).take(np.random.default_rng(len(lengths)).permutation(len(lengths)))


def where_groups_are(batches: list[Batch], parts: int) -> dict[int, set[tuple[int, int]]]:
    """The batch and the part of it that each group is found in."""
    found: dict[int, set[tuple[int, int]]] = {}
    for place, batch in enumerate(batches):
        for number, part in enumerate(batch.parts(parts, largest_group=3)):
            for group in part.groups_NB[0][part.paths_NB[0] >= 0]:
                found.setdefault(int(group), set()).add((place, number))
    return found


@settings(max_examples=40, deadline=None)
@given(grouped, row_lengths, st.sampled_from([1, 2, 3]))
def test_groups_stay_together(groups: list[list[int]], alone: list[tuple[int, int]], parts: int) -> None:
    """An objective compares the samples of a sentence, so they must meet: in one batch and in one part of it."""
    rows = grouped_rows(groups, alone)
    batches = pack([rows], SHAPES, 1000, "key").batches
    assert sum(int((batch.paths_NB >= 0).sum()) for batch in batches) == len(rows)
    found = where_groups_are(batches, parts)
    assert all(len(places) == 1 for group, places in found.items() if group >= 0)
    for batch in batches:
        pieces = batch.parts(parts, largest_group=3)
        assert len({piece.shape for piece in pieces}) == 1
        assert np.sum([piece.target_tokens for piece in pieces], axis=0).tolist() == batch.target_tokens.tolist()
        assert sum(piece.source_tokens for piece in pieces) == batch.source_tokens


@settings(max_examples=60, deadline=None)
@given(grouped, row_lengths, st.integers(1, 3))
def test_what_is_not_packed_is_left_over_in_its_order(
    groups: list[list[int]], alone: list[tuple[int, int]], updates: int
) -> None:
    rows = grouped_rows(groups, alone)
    packed = pack([rows, rows_of(alone)], SHAPES, updates, "key")
    for network, own in enumerate((rows, rows_of(alone))):
        learnt = [number for batch in packed.batches for number in numbers(batch, network)]
        left = [int(source[0]) - 100 for source in packed.left[network].sources.rows()]
        every = [int(source[0]) - 100 for source in own.sources.rows()]
        assert sorted([*learnt, *left]) == sorted(every)
        assert left == [number for number in every if number in left]
    whole = set(packed.left[0].groups[packed.left[0].groups >= 0].tolist())
    assert not whole & where_groups_are(packed.batches, 1).keys(), "a group is learnt whole or left whole"


def test_rows_that_stand_alone_fill_the_places_that_a_group_leaves() -> None:
    rows = grouped_rows([[5, 5, 5]] * 20, [(4, 4)] * 20)
    full = pack([rows], [BatchShape(8, 8)], 10, "key").batches[:9]
    assert sum(int((batch.paths_NB < 0).sum()) for batch in full) <= 2


def test_parts_of_a_batch_are_the_batch() -> None:
    (batch,) = pack([rows_of([(3, 2)] * 7)], [BatchShape(8, 8)], 1, "key").batches
    parts = batch.parts(4)
    assert np.concatenate([part.source_NBL for part in parts], 1).tolist() == batch.source_NBL.tolist()
    assert np.sum([part.target_tokens for part in parts], axis=0).tolist() == batch.target_tokens.tolist()
    assert {part.shape for part in parts} == {BatchShape(2, 8)}


def test_what_does_not_divide_a_batch_is_filled_up_with_places_without_a_row() -> None:
    (batch,) = pack([rows_of([(3, 2)] * 7)], [BatchShape(8, 8)], 1, "key").batches
    parts = batch.parts(3)
    assert {part.shape for part in parts} == {BatchShape(3, 8)}
    assert np.sum([part.target_tokens for part in parts], axis=0).tolist() == batch.target_tokens.tolist()
    assert sum(part.source_tokens for part in parts) == batch.source_tokens
    assert np.concatenate([part.paths_NB for part in parts], 1).tolist() == [[0] * 7 + [-1] * 2]
    for part in parts:
        _check_rows(part, 0, [(3, 2)] * 7)


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
    batches = pack([interleave(parts, weights)], SHAPES, 16, "key").batches
    counts = [sum(int((batch.paths_NB == path).sum()) for batch in batches) for path in (0, 1)]
    assert len(batches) == 16
    assert counts[0] / sum(counts) == pytest.approx(weights[0] / 4, abs=0.02)
