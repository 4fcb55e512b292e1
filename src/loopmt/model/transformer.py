"""The network: an encoder-decoder transformer, computed for a stack of N networks at once.

Weights are a flat tensor, a row per network (`weights.Layout`); this module is pure computation on them. So all
translators of an experiment run in the same few kernels, clipping and optimizing are operations on rows, and a
frozen or averaged copy is just another tensor. Post-norm is HF Marian and pre-norm is HF Pegasus, weight for weight.

Shapes: N networks, B sentences, S source length, T target length, D width, H heads, K head size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.config import Model
from loopmt.model.weights import PAD

Weights = Mapping[str, Tensor]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


@dataclass(frozen=True)
class Dropout:
    """The rates of a forward pass."""

    state: float = 0.0
    attention: float = 0.0
    activation: float = 0.0


NO_DROPOUT = Dropout()  # for generators and judges


@dataclass
class Memory:
    """What the decoder sees of the source: each layer's keys and values (N*B, H, S, K), and which are real."""

    keys: list[Tensor]
    values: list[Tensor]
    mask: Tensor  # (N*B, 1, 1, S)


@dataclass
class Cache:
    """The decoder's own past: each layer's keys and values (N*B, H, T, K), filled up to the current position."""

    keys: list[Tensor]
    values: list[Tensor]

    def extend(
        self, layer: int, key: Tensor, value: Tensor, position: int | Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Write one position; what may be attended to. A tensor position keeps shapes fixed, for captured graphs."""
        keys, values = self.keys[layer], self.values[layer]
        if isinstance(position, int):
            keys[:, :, position], values[:, :, position] = key[:, :, 0], value[:, :, 0]
            return keys[:, :, : position + 1], values[:, :, : position + 1], None
        keys.index_copy_(2, position.view(1), key)
        values.index_copy_(2, position.view(1), value)
        mask = torch.arange(keys.shape[2], device=keys.device) <= position
        return keys, values, mask.view(1, 1, 1, -1)


@dataclass(frozen=True)
class Transformer:
    """The computation of one architecture."""

    model: Model
    joint: bool

    def encode(self, weights: Weights, source_NBS: Tensor, dropout: Dropout = NO_DROPOUT) -> Tensor:
        mask = source_mask(source_NBS)
        x = self.embed(weights, "source_embed", source_NBS, 0, dropout)
        for number in range(self.model.layers):
            x = self.encoder_layer(weights, number, x, mask, dropout)
        return self.final(weights, "encoder", x)

    def encoder_layer(self, weights: Weights, number: int, x: Tensor, mask: Tensor, dropout: Dropout) -> Tensor:
        name = f"encoder.{number}"
        query, key, value = self._project_self(weights, name, x)
        attended = self._attend(weights, f"{name}.self", query, key, value, mask, dropout)
        x = self._leave(weights, f"{name}.self", x, attended, dropout)
        return self._feed_forward(weights, name, x, dropout)

    def memory(self, weights: Weights, states_NBSD: Tensor, source_NBS: Tensor) -> Memory:
        """Keys and values of the source for every decoder layer, computed once per sentence."""
        layers = [self.memory_layer(weights, number, states_NBSD) for number in range(self.model.num_decoder_layers)]
        return Memory([key for key, _ in layers], [value for _, value in layers], source_mask(source_NBS))

    def memory_layer(self, weights: Weights, number: int, states_NBSD: Tensor) -> tuple[Tensor, Tensor]:
        key, value = linear(weights, f"decoder.{number}.cross.kv", states_NBSD).chunk(2, dim=-1)
        return self._heads(key), self._heads(value)

    def decode(self, weights: Weights, memory: Memory, inputs_NBT: Tensor, dropout: Dropout = NO_DROPOUT) -> Tensor:
        """States of the decoder when every input token is given (teacher forcing)."""
        x = self.embed(weights, "target_embed", inputs_NBT, 0, dropout)
        for number in range(self.model.num_decoder_layers):
            x = self.decoder_layer(weights, number, x, memory.keys[number], memory.values[number], memory.mask, dropout)
        return self.final(weights, "decoder", x)

    def decoder_layer(
        self, weights: Weights, number: int, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: Dropout
    ) -> Tensor:
        """`keys` and `values` are the source's."""
        name = f"decoder.{number}"
        query, key, value = self._project_self(weights, name, x)
        attended = self._attend(weights, f"{name}.self", query, key, value, None, dropout, causal=True)
        x = self._leave(weights, f"{name}.self", x, attended, dropout)
        x = self._cross(weights, number, x, keys, values, mask, dropout)
        return self._feed_forward(weights, name, x, dropout)

    def step(self, weights: Weights, memory: Memory, cache: Cache, tokens_NB: Tensor, position: int | Tensor) -> Tensor:
        """Logits after one more token of every sentence."""
        x = self.embed(weights, "target_embed", tokens_NB[..., None], position, NO_DROPOUT)
        for number in range(self.model.num_decoder_layers):
            name = f"decoder.{number}"
            query, key, value = self._project_self(weights, name, x)
            keys, values, mask = cache.extend(number, key, value, position)
            attended = self._attend(weights, f"{name}.self", query, keys, values, mask, NO_DROPOUT)
            x = self._leave(weights, f"{name}.self", x, attended, NO_DROPOUT)
            x = self._cross(weights, number, x, memory.keys[number], memory.values[number], memory.mask, NO_DROPOUT)
            x = self._feed_forward(weights, name, x, NO_DROPOUT)
        return self.logits(weights, self.final(weights, "decoder", x)[..., 0, :])

    def new_cache(self, rows: int, length: int, like: Tensor) -> Cache:
        heads, size = self.model.heads, self.model.width // self.model.heads
        shape = (rows, heads, length, size)
        layers = range(self.model.num_decoder_layers)
        return Cache([like.new_zeros(shape) for _ in layers], [like.new_zeros(shape) for _ in layers])

    def logits(self, weights: Weights, states: Tensor) -> Tensor:
        table = weights["embed" if self.joint else "target_embed"]
        return matmul(states, table, weights["output_bias"])

    # -- parts -----------------------------------------------------------------------------------------------

    def embed(self, weights: Weights, name: str, ids_NBT: Tensor, start: int | Tensor, dropout: Dropout) -> Tensor:
        table_NVD = weights["embed" if self.joint else name]
        num, size, width = table_NVD.shape
        if num == 1:
            x = F.embedding(ids_NBT, table_NVD[0])
        else:
            offsets = torch.arange(num, device=ids_NBT.device).view(-1, 1, 1) * size
            x = F.embedding(ids_NBT + offsets, table_NVD.reshape(num * size, width))
        return drop(x * math.sqrt(width) + positions(start, ids_NBT.shape[-1], x), dropout.state)

    def _project_self(self, weights: Weights, name: str, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = linear(weights, f"{name}.self.qkv", self._enter(weights, f"{name}.self", x)).chunk(3, -1)
        return self._heads(query), self._heads(key), self._heads(value)

    def _cross(
        self, weights: Weights, number: int, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: Dropout
    ) -> Tensor:
        name = f"decoder.{number}.cross"
        query = self._heads(linear(weights, f"{name}.q", self._enter(weights, name, x)))
        attended = self._attend(weights, name, query, keys, values, mask, dropout)
        return self._leave(weights, name, x, attended, dropout)

    def _feed_forward(self, weights: Weights, name: str, x: Tensor, dropout: Dropout) -> Tensor:
        inner = linear(weights, f"{name}.ffn.up", self._enter(weights, f"{name}.ffn", x))
        inner = drop(_ACTIVATIONS[self.model.activation](inner), dropout.activation)
        return self._leave(weights, f"{name}.ffn", x, linear(weights, f"{name}.ffn.down", inner), dropout)

    def _heads(self, x_NBTD: Tensor) -> Tensor:
        """(N, B, T, D) to (N*B, H, T, K)."""
        num, rows, length, width = x_NBTD.shape
        heads = self.model.heads
        return x_NBTD.reshape(num * rows, length, heads, width // heads).transpose(1, 2)

    def _attend(
        self,
        weights: Weights,
        name: str,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        dropout: Dropout,
        causal: bool = False,
    ) -> Tensor:
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout.attention, is_causal=causal
        )
        num, length = weights[f"{name}.out.bias"].shape[0], query.shape[2]
        return linear(weights, f"{name}.out", attended.transpose(1, 2).reshape(num, -1, length, self.model.width))

    def _enter(self, weights: Weights, name: str, x: Tensor) -> Tensor:
        return norm(weights, f"{name}.norm", x) if self.model.norm == "pre" else x

    def _leave(self, weights: Weights, name: str, x: Tensor, out: Tensor, dropout: Dropout) -> Tensor:
        x = x + drop(out, dropout.state)
        return norm(weights, f"{name}.norm", x) if self.model.norm == "post" else x

    def final(self, weights: Weights, name: str, x: Tensor) -> Tensor:
        return norm(weights, f"{name}.norm", x) if self.model.norm == "pre" else x


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    return matmul(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def matmul(x: Tensor, weight_NOI: Tensor, bias_NO: Tensor) -> Tensor:
    """x (N, ..., I) times each network's own matrix, plus its bias."""
    if x.shape[0] == 1:
        return F.linear(x, weight_NOI[0], bias_NO[0])
    out = torch.bmm(x.flatten(1, -2), weight_NOI.transpose(1, 2)) + bias_NO[:, None]
    return out.view(*x.shape[:-1], weight_NOI.shape[1])


def norm(weights: Weights, name: str, x: Tensor) -> Tensor:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    if x.shape[0] == 1:
        return F.layer_norm(x, x.shape[-1:], weight[0], bias[0])
    spread = (-1, *([1] * (x.dim() - 2)), x.shape[-1])
    return F.layer_norm(x, x.shape[-1:]) * weight.view(spread) + bias.view(spread)


def drop(x: Tensor, rate: float) -> Tensor:
    return F.dropout(x, rate) if rate else x


def source_mask(source_NBS: Tensor) -> Tensor:
    return (source_NBS != PAD).flatten(0, 1)[:, None, None, :]


def positions(start: int | Tensor, length: int, like: Tensor) -> Tensor:
    """Sinusoids of `length` places from `start`: sines in the first half of the width, cosines in the second."""
    if isinstance(start, int):
        size = 1 << max(7, (start + length - 1).bit_length())
        return _sinusoids(size, like.shape[-1], like.dtype, like.device)[start : start + length]
    return _sinusoids(4096, like.shape[-1], like.dtype, like.device).index_select(0, start.view(1))


@lru_cache(maxsize=64)
def _sinusoids(size: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    place = torch.arange(size, dtype=torch.float64)[:, None]
    angle = place * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.cat([angle.sin(), angle.cos()], dim=1).to(device=device, dtype=dtype)
