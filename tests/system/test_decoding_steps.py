"""The benchmark of decoding steps: the counts of graphs that only count add up."""

from __future__ import annotations

import numpy as np
from benchmarks.decoding_steps import Round, batched, replaced

from loopmt.config import Model
from loopmt.translate.protocol import DecodeLimits

MODEL = Model.model_validate({"preset": "tiny"})


def sentences(rows: int = 60) -> Round:
    """Three networks; a few outputs are long."""
    draw = np.random.default_rng(1)
    outputs = np.where(draw.random(3 * rows) < 0.05, 30, draw.integers(2, 9, 3 * rows))
    return Round(draw.integers(12, 14, 3 * rows), outputs, np.repeat([0, 1, 2], rows))


def test_batches_of_all_networks_take_fewer_steps() -> None:
    one, limits = sentences(), DecodeLimits(growth=3.0, longest=40)
    apart, together = (batched(one, MODEL, limits, together) for together in (False, True))
    for tally in (apart, together):
        assert tally.row_steps >= one.needed and tally.steps >= one.outputs.max() + 1
        assert tally.moves, "when most outputs have ended, the rest moves to a smaller shape"
        largest = max(rows * (source + length) for rows, source, length in tally.shapes)
        assert tally.cache_bytes == 2 * 2 * MODEL.num_decoder_layers * MODEL.width * largest
    assert together.steps <= apart.steps / 2


def test_outputs_end_at_the_latest_at_their_limit() -> None:
    tally = batched(sentences(), MODEL, DecodeLimits(growth=0.0, extra=8), together=True)
    assert tally.steps == 8


def test_finished_rows_are_replaced() -> None:
    one = sentences()
    few, many = (replaced(one, MODEL, slots, 4) for slots in (24, 768))
    assert many.steps == 32, "all at once: as many steps as the longest output"
    assert few.steps > many.steps and one.needed <= few.row_steps < many.row_steps
