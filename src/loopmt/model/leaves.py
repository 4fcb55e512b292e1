"""Weights whose gradients are written to their places in a flat tensor, each as soon as it is known.

Autograd would join them at the end in memory of its own, and make a table of the whole vocabulary for every lookup of
a few subwords. On a CPU such passes over memory are a good part of an update, and the bits are the same without them.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.model.weights import Layout, Weights


class Leaves(Weights):
    """Views of flat rows that autograd knows one by one; they stay good while the rows change in place."""

    def __init__(self, layout: Layout, flat_NP: Tensor, gradient_NP: Tensor) -> None:
        super().__init__(layout.unpack(flat_NP.detach()))
        self._places = layout.unpack(gradient_NP)
        self._output = "embed" if layout.joint else "target_embed"
        self._found: list[tuple[Tensor, Tensor]] = []  # ids that were looked up, and their rows of the table
        for name, weight in self.items():
            weight.requires_grad_().register_post_accumulate_grad_hook(partial(_move, self._places[name]))

    def rows(self, name: str, ids_NBT: Tensor) -> Tensor:
        """The table of the output layer has a dense gradient already: what was looked up is added to it."""
        if name != self._output or len(ids_NBT) > 1:
            return super().rows(name, ids_NBT)
        ids, places = ids_NBT.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        rows = self[name].detach()[0, ids].requires_grad_()
        self._found.append((ids, rows))
        return F.embedding(places, rows)

    def backward(self, loss: Tensor) -> None:
        """Write the gradient of every weight."""
        try:
            torch.autograd.backward(loss)
            for ids, rows in reversed(self._found):
                assert rows.grad is not None, "every row that was looked up has a part in the loss"
                self._places[self._output][0].index_add_(0, ids, rows.grad)
        finally:
            self._found.clear()


def _move(place: Tensor, weight: Tensor) -> None:
    assert weight.grad is not None, "called when it is there"
    place.copy_(weight.grad)
    weight.grad = None
