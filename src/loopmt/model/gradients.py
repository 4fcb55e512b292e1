"""Trainable weights: views of flat rows whose gradients are collected in one flat tensor.

Shapes: N networks, B rows, T length, P weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.model.weights import Layout, Weights


class AccumulatedGradient(Weights):
    """Autograd concatenates the gradients of all weights; the result is added to the gradient tensor."""

    def __init__(self, layout: Layout, flat_NP: Tensor, gradient_NP: Tensor) -> None:
        self._flat_NP = flat_NP.detach().requires_grad_()
        self._gradient_NP = gradient_NP
        super().__init__(layout.unpack(self._flat_NP))
        self.update({name: self[name].detach() for name in layout.frozen})

    def backward(self, loss: Tensor) -> None:
        (gradient_NP,) = torch.autograd.grad(loss, self._flat_NP)
        self._gradient_NP += gradient_NP


class WrittenGradient(Weights):
    """Writes the gradient of each weight to its slice of the gradient tensor, overwriting the old content.

    Concatenation would allocate memory, and every embedding lookup would allocate a gradient of the whole table. On a
    CPU, this takes a large part of a small update. Results are bit-identical. One backward pass serves all forward
    passes.
    """

    def __init__(self, layout: Layout, flat_NP: Tensor, gradient_NP: Tensor) -> None:
        super().__init__(layout.unpack(flat_NP.detach()))
        self._places = layout.unpack(gradient_NP)
        self._output = "embed" if layout.joint else "target_embed"
        self._projected = _Sum(self._places[self._output][0])
        self._lookups: list[tuple[Tensor, Tensor]] = []  # ids, and their rows of the output table
        for name, weight in self.items():
            if name in layout.frozen:
                continue
            move = partial(_move, self._places[name])
            weight.requires_grad_().register_post_accumulate_grad_hook(move)  # type: ignore[no-untyped-call]

    def rows(self, name: str, ids_NBT: Tensor) -> Tensor:
        """Look up rows. Gradients of the output table's lookups are added at the end: the output layer writes first."""
        if name != self._output or len(ids_NBT) > 1:
            return super().rows(name, ids_NBT)
        ids, places = ids_NBT.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        rows = self[name].detach()[0, ids].requires_grad_()
        self._lookups.append((ids, rows))
        return F.embedding(places, rows)

    def project(self, states: Tensor, table: str, bias: str) -> Tensor:
        if len(states) > 1:
            return super().project(states, table, bias)
        inputs = (states, self[table].detach()[0], self[bias].squeeze(0), self._projected)
        logits: Tensor = _Projection.apply(*inputs)  # type: ignore[no-untyped-call]
        return logits

    def backward(self, loss: Tensor) -> None:
        torch.autograd.backward(loss)
        for ids, rows in reversed(self._lookups):  # in autograd's order
            if rows.grad is not None:  # None if the loss does not depend on this forward pass
                self._places[self._output][0].index_add_(0, ids, rows.grad)


class _Sum:
    """A sum of matrix products in a given tensor; the first product overwrites it."""

    def __init__(self, place: Tensor) -> None:
        self.place = place
        self.begun = False

    def add(self, one: Tensor, other: Tensor) -> None:
        if self.begun:
            self.place.addmm_(one, other)
        else:
            torch.mm(one, other, out=self.place)
        self.begun = True


class _Projection(torch.autograd.Function):
    """A linear layer that adds the gradient of its weights to `total`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, total: _Sum) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.total = total
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor, None]:
        x, weight = ctx.saved_tensors
        rows = gradients[0].flatten(0, -2)
        ctx.total.add(rows.t(), x.flatten(0, -2))
        return (rows @ weight).view_as(x), None, rows.sum(0), None


def _move(place: Tensor, weight: Tensor) -> None:
    assert weight.grad is not None, "the hook runs after the gradient was accumulated"
    place.copy_(weight.grad)
    weight.grad = None
