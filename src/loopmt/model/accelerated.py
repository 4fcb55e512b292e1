"""The transformer on CUDA, with hand-written kernels (`model.kernels`) for its small operations.

Each override computes the same values in fewer passes over memory. Where no kernel applies (attention dropout, long
sequences), the eager network computes them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from loopmt.config import Model
from loopmt.model.kernels.activate import bias_act
from loopmt.model.kernels.ancestors import move
from loopmt.model.kernels.attend import SIZES, attend_cross, attend_self, fits
from loopmt.model.kernels.decode import attend_past, attend_source
from loopmt.model.kernels.linear import linear
from loopmt.model.kernels.loss import cross_entropy
from loopmt.model.kernels.registry import kernel_of
from loopmt.model.kernels.residual import residual_norm
from loopmt.model.transformer import Cache, Dropout, Function, Layer, Make, Memory, Transformer
from loopmt.model.weights import Weights


def suits(model: Model) -> bool:
    """Whether the kernels support this head size."""
    return model.width // model.heads in SIZES


class Accelerated(Transformer):
    """A transformer computed by kernels; the model must satisfy `suits`."""

    def attend_self(self, packed: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        length, heads = packed.shape[2], self.model.heads
        if dropout or not fits(length, self.model.width // heads, packed.dtype):
            return super().attend_self(packed, mask, dropout)
        return attend_self(packed.flatten(0, 1), heads, mask, causal=mask is None).view(*packed.shape[:-1], -1)

    def attend_cross(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: float) -> Tensor:
        # All hypotheses of a sentence query the same memory, as the positions of one sentence do.
        together = query.view(1, len(keys), -1, query.shape[3])
        fitting = not dropout and fits(max(together.shape[2], keys.shape[2]), keys.shape[3], query.dtype)
        decoding = query.shape[2] == 1 and not torch.is_grad_enabled()
        if decoding and (together.shape[2] == 1 or not fitting):
            return self._merge(attend_source(self._heads(query), keys, values, mask), query)
        if not fitting:
            return super().attend_cross(query, keys, values, mask, dropout)
        return attend_cross(self._heads(together), keys, values, mask).view(query.shape)

    def attend_past(
        self, packed: Tensor, keys: Tensor, values: Tensor, ancestors: Tensor | None, position: int | Tensor
    ) -> Tensor:
        if isinstance(position, int):
            return super().attend_past(packed, keys, values, ancestors, position)
        query, key, value = (self._heads(part) for part in packed.chunk(3, -1))
        return self._merge(attend_past(query, key, value, keys, values, position, ancestors), packed)

    def new_cache(self, rows: int, length: int, make: Make, moving: bool = False) -> Cache:
        cache = super().new_cache(rows, length, make)
        if moving:
            cache.ancestors = torch.zeros(rows, length, dtype=torch.int32, device=cache.keys[0].device)
        return cache

    def reorder(self, cache: Cache, parents_BW: Tensor, position: Tensor) -> None:
        """Update the table of row offsets; keys and values stay where they were written.

        Offsets are relative, so the table stays valid when all rows of a sentence move together.
        """
        assert cache.ancestors is not None, "the cache was made for rows that move"
        move(cache.ancestors, parents_BW, position)

    def widen(self, memory: Memory, width: int) -> Memory:
        """Return the memory as it is: all hypotheses of a sentence share it."""
        return memory

    def losses(self, weights: Weights, states_NBTD: Tensor, target_NBT: Tensor, smoothing: float) -> Tensor:
        logits = linear(states_NBTD, weights["embed" if self.joint else "target_embed"])
        bias = weights["output_bias"]
        return cross_entropy(logits.flatten(0, -2), target_NBT.flatten(), smoothing, bias).view(target_NBT.shape)

    def fuse(self, function: Function) -> Function:
        return kernel_of(function)

    def _linear(self, layer: Layer, name: str, x: Tensor) -> Tensor:
        return linear(x, layer[f"{name}.weight"], layer[f"{name}.bias"])

    def _activate(self, layer: Layer, name: str, x: Tensor, dropout: Dropout) -> Tensor:
        weight, bias = layer[f"{name}.weight"], layer[f"{name}.bias"]
        plain = self.model.activation == "relu" and not dropout.activation
        if plain and len(x) == 1 and not torch.is_grad_enabled():  # fused matmul, bias and ReLU
            return torch._addmm_activation(bias[0], x.flatten(0, -2), weight[0].t()).view(*x.shape[:-1], -1)
        return bias_act(linear(x, weight), bias, self.model.activation, dropout.activation)

    def _enter(self, layer: Layer, block: str, x: Tensor) -> Tensor:
        return residual_norm(x, None, None, _norm(layer, block)) if self.model.norm == "pre" else x

    def _leave(self, layer: Layer, name: str, x: Tensor, inner: Tensor, dropout: Dropout) -> Tensor:
        out, bias = linear(inner, layer[f"{name}.weight"]), layer[f"{name}.bias"]
        norm = _norm(layer, name.partition(".")[0]) if self.model.norm == "post" else None
        return residual_norm(x, out, bias, norm, dropout.state)


def _norm(layer: Layer, block: str) -> tuple[Tensor, Tensor]:
    return layer[f"{block}.norm.weight"], layer[f"{block}.norm.bias"]
