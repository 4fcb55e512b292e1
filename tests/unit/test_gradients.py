"""Gradients on a CPU, computed in fewer passes over memory, are bit-identical to those of autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from helpers.learners import losses_with
from loopmt.config import Model
from loopmt.model.gradients import AccumulatedGradient, WrittenGradient
from loopmt.model.transformer import Dropout, Transformer
from loopmt.model.weights import Layout
from loopmt.text.ragged import PAD

SIZE = 50


def ids(networks: int, seed: int) -> Tensor:
    """Ids from a small vocabulary, so that some repeat, and with padding."""
    found = torch.randint(3, 20, (networks, 6, 9), generator=torch.Generator().manual_seed(seed))
    found[:, ::2, 6:] = PAD
    return found


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("networks", [1, 2])
def test_gradients_are_written_as_autograd_would_add_them(networks: int, joint: bool, norm: str) -> None:
    model = Model.model_validate({"layers": 2, "width": 16, "feed_forward": 32, "heads": 2, "norm": norm})
    layout = Layout(model, SIZE if joint else SIZE - 7, SIZE, joint)
    flat = layout.initial(*(("start", number) for number in range(networks)))
    added, written = torch.zeros_like(flat), torch.zeros_like(flat)
    for place in layout.unpack(written).values():
        place.fill_(torch.nan)  # as a failed attempt may have left it
    for kind, gradient in ((AccumulatedGradient, added), (WrittenGradient, written)):
        torch.manual_seed(1)
        weights = kind(layout, flat, gradient)
        source, target = ids(networks, 1), ids(networks, 2)
        losses, _ = losses_with(weights, Transformer(model, joint), source, target, 0.1, Dropout(0.1))
        weights.backward(losses.sum())
    assert added.abs().sum() > 0
    assert torch.equal(added, written)
