"""Rows carried over to the next round, saved in a checkpoint and restored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from safetensors.torch import load, save

from helpers.learners import rows
from loopmt.learn.resume import carried_rows, carried_tensors
from loopmt.text.batch import Rows


def test_carried_rows_are_restored_exactly() -> None:
    one, other = rows(1, group=3), replace(rows(2), factors=np.linspace(-1, 2, 12, dtype=np.float32))
    one = replace(one, groups=one.groups + 2**40)  # as in a stage with many paths
    (found,) = carried_rows(load(save(carried_tensors([one, Rows.empty(), other]))))
    expected = Rows.join([one, other])
    for ours, theirs in ((found.sources, expected.sources), (found.targets, expected.targets)):
        assert [row.tolist() for row in ours.rows()] == [row.tolist() for row in theirs.rows()]
    for name in ("paths", "groups", "factors"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs)


def test_a_checkpoint_of_an_older_version_has_no_carried_rows() -> None:
    assert carried_rows({}) == []
    (none,) = carried_rows(carried_tensors([]))
    assert len(none) == 0
