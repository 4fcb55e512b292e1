"""Random numbers depend only on their key."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopmt.rng import keyed_seed, numpy_generator, permute, torch_generator

keys = st.lists(st.one_of(st.integers(0, 2**40), st.text(max_size=5)), min_size=1, max_size=4)


@given(keys, keys)
def test_seeds_differ_where_keys_differ(one: list[str | int], other: list[str | int]) -> None:
    assert (keyed_seed(*one) == keyed_seed(*other)) == (one == other)
    assert 0 <= keyed_seed(*one) < 2**63


def test_the_type_and_the_cut_of_a_key_count() -> None:
    seeds = [keyed_seed(1), keyed_seed("1"), keyed_seed("a", "b"), keyed_seed("ab"), keyed_seed("a", "b", 0)]
    assert len(set(seeds)) == len(seeds)


def test_seeds_are_the_same_on_every_machine() -> None:
    assert keyed_seed(1, "vanilla", "rows", 3) == 2984162388421066429
    assert (
        numpy_generator(1, "x").integers(0, 1000, 4).tolist() == numpy_generator(1, "x").integers(0, 1000, 4).tolist()
    )


def test_a_generator_does_not_depend_on_what_was_drawn_before() -> None:
    first = torch.rand(3, generator=torch_generator("cpu", 1, "noise"))
    torch.rand(100)
    assert torch.equal(first, torch.rand(3, generator=torch_generator("cpu", 1, "noise")))


@given(st.integers(1, 700), keys)
def test_permute_is_a_permutation(size: int, key: list[str | int]) -> None:
    assert sorted(permute(np.arange(size), size, *key).tolist()) == list(range(size))


@given(st.integers(1, 2**40), st.data())
def test_permute_needs_no_memory_and_can_be_asked_in_parts(size: int, data: st.DataObject) -> None:
    asked = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=8)))
    together = permute(asked, size, "key")
    assert together.tolist() == [int(permute(asked[place : place + 1], size, "key")[0]) for place in range(len(asked))]
    assert ((together >= 0) & (together < size)).all()


@pytest.mark.parametrize("size", [64, 1000])
def test_permutations_look_random(size: int) -> None:
    """Where a place goes is uniform over keys: chi-square of 16 cells, 2,000 keys, well under its 99.99% point."""
    goes = np.array([permute(np.array([7]), size, "key", number)[0] for number in range(2000)])
    counts = np.bincount(goes * 16 // size, minlength=16)
    expected = np.bincount(np.arange(size) * 16 // size, minlength=16) / size * 2000
    assert ((counts - expected) ** 2 / expected).sum() < 44.3
