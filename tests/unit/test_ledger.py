"""The ledger of token budgets: what each path trained on, and what its weight asked for."""

from __future__ import annotations

import numpy as np
import pytest

from loopmt.config import MixEntry
from loopmt.learn.gather import GatheredRound
from loopmt.learn.ledger import Spent, SyntheticShare, enter
from loopmt.learn.routes import Route
from loopmt.path import LanguagePath
from loopmt.text.batch import BatchShape, Rows
from loopmt.text.packing import pack
from loopmt.text.ragged import Ragged

PATHS = ("en>fr", "fr>en>fr", "fr>es>en>fr", "es>en")
ROUTES = [Route(number, LanguagePath.parse(path), MixEntry(path=path), number) for number, path in enumerate(PATHS)]


def entered(counts: tuple[int, ...], shares: dict[int, float], spent: Spent | None = None) -> Spent:
    """A round of so many rows of each path, of four tokens each, the end included."""
    paths = np.repeat(np.arange(4), counts)
    text = Ragged.of([[20, 21, 22]] * len(paths))
    batches = pack([Rows.of(text, text, paths)], [BatchShape(8, 8)], 100, "key").batches
    spent = {} if spent is None else spent
    enter(spent, ROUTES, GatheredRound([], shares=shares, read={0: 7}), batches)
    return spent


def test_a_round_is_recorded_by_path() -> None:
    spent = entered((6, 4, 0, 5), {0: 0.5, 1: 0.5, 3: 1.0})
    assert spent["en>fr"] == {"rows": 6, "target_tokens": 24, "real_rows": 7, "meant_tokens": 20}
    assert spent["fr>en>fr"] == {"rows": 4, "target_tokens": 16, "real_rows": 0, "meant_tokens": 20}
    assert spent["es>en"]["meant_tokens"] == spent["es>en"]["target_tokens"] == 20
    entered((0, 0, 3, 0), {1: 1.0}, spent)
    assert spent["fr>en>fr"]["meant_tokens"] == 32
    assert spent["fr>es>en>fr"]["target_tokens"] == 12, "of rows that were left over by a path that is out"


@pytest.mark.parametrize(("pairs", "loops", "missed"), [(50, 50, False), (52, 48, False), (53, 47, True), (9, 0, True)])
def test_missing_generated_text_is_reported(pairs: int, loops: int, missed: bool) -> None:
    share = SyntheticShare.of(entered((pairs, loops, 0, 0), {0: 0.5, 1: 0.5}))
    assert share.target_tokens == 4 * (pairs + loops)
    assert share.synthetic == loops / (pairs + loops)
    assert share.meant == pytest.approx(0.5)
    assert share.missed is missed
    assert f"{share.synthetic:.0%}" in share.warning() and "50%" in share.warning()


def test_ledgers_of_older_versions_raise_no_warning() -> None:
    old: Spent = {"en>fr": {"target_tokens": 90}, "fr>en>fr": {"target_tokens": 10}}
    share = SyntheticShare.of(old)
    assert (share.synthetic, share.meant, share.missed) == (0.1, None, False)
    assert not SyntheticShare.of({}).missed
