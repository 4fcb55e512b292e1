"""The fixed-shape decoder gives the outputs of the eager one; graphs are replaced by running the work again."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from helpers.recorded import recorder
from loopmt.config import Generate, Model
from loopmt.model.transformer import Transformer
from loopmt.model.weights import Layout
from loopmt.rng import torch_generator
from loopmt.translate import captured_decoder
from loopmt.translate.captured_decoder import CapturedDecoder, cache_elements
from loopmt.translate.decoder import Decoder, generate_each, generate_nbest
from loopmt.translate.protocol import DecodeLimits

SIZE = 60
GREEDY = Generate(how="greedy")


def speakers(norm: str = "post") -> tuple[Decoder, Decoder, CapturedDecoder]:
    """An eager decoder, the same network in fixed shapes, and the holder of the shapes."""
    model = Model.model_validate({"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "norm": norm})
    layout = Layout(model, SIZE, SIZE, True)
    logit_mask = torch.zeros(SIZE)
    logit_mask[[0, 2]] = -torch.inf
    transformer = Transformer(model, True)
    slow = Decoder(transformer, layout, layout.initial((1, "x")).double() * 2, logit_mask, torch.float64)
    fixed = CapturedDecoder(transformer, layout, torch.float64, torch.device("cpu"), recorder)
    return slow, dataclasses.replace(slow, captured=fixed), fixed


@pytest.mark.parametrize("how", [GREEDY, Generate(how="beam"), Generate(how="beam", length_penalty=0.0)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_fixed_shapes_generate_the_same(how: Generate, norm: str) -> None:
    slow, fast, _ = speakers(norm)
    draw = np.random.default_rng(1)
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in draw.integers(0, 14, size=30)]
    for limits in (DecodeLimits(longest=20), DecodeLimits(longest=20, batch_rows=8)):
        slowly = generate_nbest(slow, sources, how, limits, nbest=4)
        quickly = generate_nbest(fast, sources, how, limits, nbest=4)
        assert [[one.ids for one in row] for row in slowly] == [[one.ids for one in row] for row in quickly]
        for one, other in zip(slowly, quickly, strict=True):
            np.testing.assert_allclose([x.score for x in one], [x.score for x in other], rtol=1e-5)
        (best,) = zip(*generate_nbest(fast, sources, how, limits, nbest=1), strict=True)
        assert [one.ids for one in best] == [row[0].ids for row in quickly], "the first of the best is the best"


@pytest.mark.parametrize("how", [GREEDY, Generate(how="beam", beam=3)])
def test_caches_of_many_rows_start_short(how: Generate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_decoder, "_MANY", 32)
    slow, fast, fixed = speakers()
    draw = np.random.default_rng(1)
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in draw.integers(9, 14, size=40)]
    limits = DecodeLimits(growth=4.0, extra=0)
    slowly, quickly, _ = (generate_nbest(one, sources, how, limits, nbest=3) for one in (slow, fast, fast))
    assert [[one.ids for one in row] for row in slowly] == [[one.ids for one in row] for row in quickly]
    assert {key[2] for key in fixed.shapes} == {32, 64}, "no caches had to grow the second time"
    assert max(len(row[0].ids) for row in quickly) > 40


@pytest.mark.parametrize("how", [GREEDY, Generate(how="beam", beam=3)])
@pytest.mark.parametrize("batch_rows", [512, 24])
def test_networks_decode_together(how: Generate, batch_rows: int) -> None:
    """Each with its own weights, its own mask and its own number of sentences, in any order."""
    slow, fast, fixed = speakers()
    flat = slow.layout.initial((1, "x"), (2, "x"), (3, "x")).double() * 2
    masks = torch.zeros(3, SIZE)
    for network in range(3):
        masks[network, [0, 2, 10 + network]] = -torch.inf
    draw = np.random.default_rng(1)
    lengths = draw.choice([0, 1, 2, 3, 13], size=40, p=[0.1, 0.2, 0.3, 0.3, 0.1])  # most end early
    sources = [draw.integers(3, SIZE, size=length).tolist() for length in lengths]
    networks = draw.permutation(np.repeat([0, 1, 2], [29, 10, 1]))
    limits = DecodeLimits(growth=1.0, extra=2, batch_rows=batch_rows)
    together = dataclasses.replace(fast, flat=flat, logit_mask=masks)
    found = generate_nbest(together, sources, how, limits, nbest=3, networks=networks)
    for network in range(3):
        alone = dataclasses.replace(slow, flat=flat[network : network + 1], logit_mask=masks[network])
        rows = np.flatnonzero(networks == network)
        expected = generate_nbest(alone, [sources[row] for row in rows], how, limits, nbest=3)
        assert [[one.ids for one in found[row]] for row in rows] == [[one.ids for one in row] for row in expected]
    assert batch_rows == 24 or len(fixed.shapes) > 1, "the last sentences move to a smaller shape"
    assert len({tuple(row[0].ids) for row in found}) > 10, "not all the same"


def test_sources_of_like_length_share_a_shape() -> None:
    _, fast, fixed = speakers()
    for length in (17, 20, 25, 31):
        generate_each(fast, [[5] * length] * 3, GREEDY, DecodeLimits())
    assert [key[:3] for key in fixed.shapes] == [(8, 32, 96)]


def test_the_least_recently_used_shape_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_decoder, "_MOST_SHAPES", 2)
    _, fast, fixed = speakers()
    for length in (40, 20, 40, 3):
        generate_each(fast, [[5] * length], GREEDY, DecodeLimits())
    assert [key[1] for key in fixed.shapes] == [48, 16], "of 48, 32 and 16 places; 48 was used again"


def test_all_shapes_share_one_buffer_of_caches() -> None:
    slow, fast, fixed = speakers()
    sources = [[[5 + length] * length] * rows for length, rows in ((3, 2), (20, 9), (40, 40), (20, 40), (3, 9))]
    for how in (Generate(how="beam"), GREEDY):
        assert [generate_each(fast, source, how, DecodeLimits()) for source in sources] == [
            generate_each(slow, source, how, DecodeLimits()) for source in sources
        ]
    tensors = [tensor for shape in fixed.shapes.values() for tensor in (*shape.memory.keys, *shape.cache.values)]
    assert len(fixed.shapes) > 4 and {tensor.data_ptr() for tensor in tensors} > {fixed.caches.data_ptr()}
    assert {tensor.untyped_storage().data_ptr() for tensor in tensors} == {fixed.caches.untyped_storage().data_ptr()}
    largest = max(
        sum(one.numel() for one in shape.by_row(shape.length) if one.is_floating_point())
        for shape in fixed.shapes.values()
    )
    assert fixed.caches.numel() == largest, "no more than the largest shape needs"


def test_larger_caches_replace_the_old_ones() -> None:
    """Discarded shapes hold none of the old buffer, or there would be two of them for a while."""
    slow, fast, fixed = speakers()
    generate_each(fast, [[5] * 3] * 4, GREEDY, DecodeLimits())
    small = list(fixed.shapes.values())
    sources = [[5] * 30] * 40
    assert generate_each(fast, sources, GREEDY, DecodeLimits()) == generate_each(slow, sources, GREEDY, DecodeLimits())
    assert small and not any(shape.memory.keys or shape.cache.values for shape in small)
    assert not {id(shape) for shape in small} & {id(shape) for shape in fixed.shapes.values()}


@pytest.mark.parametrize("how", [GREEDY, Generate(how="beam", beam=3)])
def test_the_buffer_has_the_size_that_is_predicted(how: Generate) -> None:
    """Of keys and values, of all layers, of the rows and lengths of the largest shape."""
    _, fast, fixed = speakers()
    generate_each(fast, [[5] * 20] * 30, how, DecodeLimits())
    beam = how.beam if how.how == "beam" else 1
    sizes = [
        cache_elements(fixed.layout.model, rows * beam, source, rows * beam, length)
        for rows, source, length, *_ in fixed.shapes
    ]
    assert fixed.caches.numel() == max(sizes)


def test_every_batch_of_a_call_has_its_own_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "manual_seed", torch.manual_seed)  # graphs on CUDA draw from what it seeds
    _, fast, _ = speakers()
    how, limits = Generate(temperature=1.0, top_k=0), DecodeLimits(longest=20, batch_rows=8)

    def drawn(key: int) -> list[list[int]]:
        return [
            output.ids for output in generate_each(fast, [[5, 6, 7]] * 24, how, limits, torch_generator("cpu", key))
        ]

    first = drawn(1)
    batches = [first[start : start + 8] for start in range(0, 24, 8)]
    assert not any(one == other for a, b in itertools.combinations(batches, 2) for one, other in zip(a, b, strict=True))
    assert drawn(1) == first, "the generator's key decides all"
    assert drawn(2) != first
