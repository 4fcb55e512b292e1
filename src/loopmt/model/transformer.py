"""The network: an encoder-decoder transformer, computed for a stack of N networks at once.

Weights are a flat tensor with one row per network (`weights.Layout`), and this module has only pure functions of them.
So all translators of an experiment run in the same kernels, clipping and Adam are operations on rows, and a frozen or
averaged copy is another tensor. Post-norm matches HF Marian and pre-norm matches HF Pegasus, weight for weight.

Shapes: N networks, B sentences, S source length, T target length, D width, H heads, K head size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.config import Model
from loopmt.model.conventions import OWN, Conventions
from loopmt.model.loss import token_losses
from loopmt.model.weights import Weights, matmul
from loopmt.text.ragged import PAD

Layer = Mapping[str, Tensor]
Function = TypeVar("Function", bound=Callable[..., Any])
Make = Callable[[tuple[int, ...]], Tensor]  # allocates a tensor of a shape

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


@dataclass(frozen=True)
class Dropout:
    """The dropout rates of a forward pass."""

    state: float = 0.0
    attention: float = 0.0
    activation: float = 0.0


NO_DROPOUT = Dropout()  # for decoding and scoring


@dataclass
class Memory:
    """The encoded source: keys and values of every decoder layer (N*B, H, S, K), and a mask of real positions."""

    keys: list[Tensor]
    values: list[Tensor]
    mask: Tensor  # (N*B, 1, 1, S)


@dataclass
class Cache:
    """The decoder's key-value cache of every layer (N*B, H, T, K), filled up to the current position."""

    keys: list[Tensor]
    values: list[Tensor]
    ancestors: Tensor | None = None  # (N*B, T), the row offset of each position, if rows are not moved


@dataclass(frozen=True)
class Transformer:
    """The computation of one architecture.

    A layer gets only its own weights, so all layers are the same function, which `backend.Fused` compiles once.
    """

    model: Model
    joint: bool
    conventions: Conventions = OWN

    def encode(self, weights: Weights, source_NBS: Tensor, dropout: Dropout = NO_DROPOUT) -> Tensor:
        mask = source_mask(source_NBS)
        x = self.embed(weights, "source_embed", source_NBS, 0, dropout)
        for number in range(self.model.layers):
            x = self.encoder_layer(weights.layers[f"encoder.{number}"], x, mask, dropout)
        return self.final(weights, "encoder", x)

    def encoder_layer(self, layer: Layer, x: Tensor, mask: Tensor, dropout: Dropout) -> Tensor:
        packed = self._linear(layer, "self.qkv", self._enter(layer, "self", x))
        x = self._leave(layer, "self.out", x, self.attend_self(packed, mask, dropout.attention), dropout)
        return self._feed_forward(layer, x, dropout)

    def memory(self, weights: Weights, states_NBSD: Tensor, source_NBS: Tensor) -> Memory:
        """Keys and values of the source for every decoder layer, computed once per sentence."""
        layers = [self.memory_layer(layer, states_NBSD) for layer in self._decoder(weights)]
        return Memory([key for key, _ in layers], [value for _, value in layers], source_mask(source_NBS))

    def memory_layer(self, layer: Layer, states_NBSD: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self._linear(layer, "cross.kv", states_NBSD).chunk(2, dim=-1)
        return self._heads(key), self._heads(value)

    def decode(self, weights: Weights, memory: Memory, inputs_NBT: Tensor, dropout: Dropout = NO_DROPOUT) -> Tensor:
        """Decoder states for given input tokens (teacher forcing)."""
        x = self.embed(weights, "target_embed", inputs_NBT, 0, dropout)
        for number, layer in enumerate(self._decoder(weights)):
            x = self.decoder_layer(layer, x, memory.keys[number], memory.values[number], memory.mask, dropout)
        return self.final(weights, "decoder", x)

    def decoder_layer(
        self, layer: Layer, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: Dropout
    ) -> Tensor:
        """`keys` and `values` are the source's."""
        packed = self._linear(layer, "self.qkv", self._enter(layer, "self", x))
        attended = self.attend_self(packed, None, dropout.attention)
        x = self._leave(layer, "self.out", x, attended, dropout)
        x = self._cross(layer, x, keys, values, mask, dropout)
        return self._feed_forward(layer, x, dropout)

    def step(self, weights: Weights, memory: Memory, cache: Cache, tokens_NB: Tensor, position: int | Tensor) -> Tensor:
        """Logits of the next token of every sentence (incremental decoding)."""
        x = self.embed(weights, "target_embed", tokens_NB[..., None], position, NO_DROPOUT)
        for number, layer in enumerate(self._decoder(weights)):
            source = (memory.keys[number], memory.values[number], memory.mask)
            past = (cache.keys[number], cache.values[number], cache.ancestors)
            x = self.step_layer(layer, x, *source, *past, position)
        return self.logits(weights, self.final(weights, "decoder", x)[..., 0, :])

    def step_layer(
        self,
        layer: Layer,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        past_keys: Tensor,
        past_values: Tensor,
        ancestors: Tensor | None,
        position: int | Tensor,
    ) -> Tensor:
        """One position; appends its key and value to the cache."""
        packed = self._linear(layer, "self.qkv", self._enter(layer, "self", x))
        attended = self.attend_past(packed, past_keys, past_values, ancestors, position)
        x = self._leave(layer, "self.out", x, attended, NO_DROPOUT)
        x = self._cross(layer, x, keys, values, mask, NO_DROPOUT)
        return self._feed_forward(layer, x, NO_DROPOUT)

    def new_cache(self, rows: int, length: int, make: Make, moving: bool = False) -> Cache:
        """An empty cache. `make` must return finite values. `moving` rows will be reordered (beam search)."""
        heads, size = self.model.heads, self.model.width // self.model.heads
        shape = (rows, heads, length, size)
        layers = range(self.model.num_decoder_layers)
        return Cache([make(shape) for _ in layers], [make(shape) for _ in layers])

    def reorder(self, cache: Cache, parents_BW: Tensor, position: Tensor) -> None:
        """Copy to every row the cache of the row it continues. Shapes stay fixed, for CUDA graphs."""
        for tensor in (*cache.keys, *cache.values):
            tensor.copy_(tensor[parents_BW.flatten()])

    def widen(self, memory: Memory, width: int) -> Memory:
        """The memory, repeated for `width` hypotheses of each sentence."""
        keys, values = ([part.repeat_interleave(width, 0) for part in store] for store in (memory.keys, memory.values))
        return Memory(keys, values, memory.mask.repeat_interleave(width, 0))

    def losses(self, weights: Weights, states_NBTD: Tensor, target_NBT: Tensor, smoothing: float) -> Tensor:
        """The label-smoothed loss of every token, in float32; 0 at padding."""
        return self.fuse(token_losses)(self.logits(weights, states_NBTD), target_NBT, smoothing)

    def logits(self, weights: Weights, states: Tensor) -> Tensor:
        return weights.project(states, "embed" if self.joint else "target_embed", "output_bias")

    def fuse(self, function: Function) -> Function:
        """The fused version of `function` for this implementation; here the function itself."""
        return function

    # -- parts -----------------------------------------------------------------------------------------------

    def _decoder(self, weights: Weights) -> list[Layer]:
        return [weights.layers[f"decoder.{number}"] for number in range(self.model.num_decoder_layers)]

    def embed(self, weights: Weights, name: str, ids_NBT: Tensor, start: int | Tensor, dropout: Dropout) -> Tensor:
        x = weights.rows("embed" if self.joint else name, ids_NBT)
        scale = self.conventions.scale(self.model.width)
        return drop(x * scale + positions(start, ids_NBT.shape[-1], x, self.conventions), dropout.state)

    def attend_self(self, packed: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        """Self-attention, (N, B, T, 3D) to (N, B, T, D); causal if there is no mask."""
        query, key, value = (self._heads(part) for part in packed.chunk(3, -1))
        return self._merge(attention(query, key, value, mask, dropout, causal=mask is None), packed)

    def attend_cross(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: float) -> Tensor:
        return self._merge(attention(self._heads(query), keys, values, mask, dropout), query)

    def attend_past(
        self, packed: Tensor, keys: Tensor, values: Tensor, ancestors: Tensor | None, position: int | Tensor
    ) -> Tensor:
        """Self-attention of one position, which is appended to the cache; rows are moved, so `ancestors` is None."""
        query, key, value = (self._heads(part) for part in packed.chunk(3, -1))
        return self._merge(attention(query, *extend(keys, values, key, value, position)), packed)

    def _cross(self, layer: Layer, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: Dropout) -> Tensor:
        query = self._linear(layer, "cross.q", self._enter(layer, "cross", x))
        attended = self.attend_cross(query, keys, values, mask, dropout.attention)
        return self._leave(layer, "cross.out", x, attended, dropout)

    def _feed_forward(self, layer: Layer, x: Tensor, dropout: Dropout) -> Tensor:
        inner = self._activate(layer, "ffn.up", self._enter(layer, "ffn", x), dropout)
        return self._leave(layer, "ffn.down", x, inner, dropout)

    def _activate(self, layer: Layer, name: str, x: Tensor, dropout: Dropout) -> Tensor:
        return drop(_ACTIVATIONS[self.model.activation](self._linear(layer, name, x)), dropout.activation)

    def _linear(self, layer: Layer, name: str, x: Tensor) -> Tensor:
        return matmul(x, layer[f"{name}.weight"], layer[f"{name}.bias"])

    def _heads(self, x_NBTD: Tensor) -> Tensor:
        """(N, B, T, D) to (N*B, H, T, K)."""
        num, rows, length, width = x_NBTD.shape
        heads = self.model.heads
        return x_NBTD.reshape(num * rows, length, heads, width // heads).transpose(1, 2)

    def _merge(self, attended: Tensor, like: Tensor) -> Tensor:
        """(N*B, H, T, K) to (N, B, T, D)."""
        return attended.transpose(1, 2).reshape(*like.shape[:-1], -1)

    def _enter(self, layer: Layer, block: str, x: Tensor) -> Tensor:
        return norm(layer, f"{block}.norm", x) if self.model.norm == "pre" else x

    def _leave(self, layer: Layer, name: str, x: Tensor, inner: Tensor, dropout: Dropout) -> Tensor:
        """Add a block's last projection, `name`, to the residual."""
        x = x + drop(self._linear(layer, name, inner), dropout.state)
        return norm(layer, f"{name.partition('.')[0]}.norm", x) if self.model.norm == "post" else x

    def final(self, weights: Layer, name: str, x: Tensor) -> Tensor:
        return norm(weights, f"{name}.norm", x) if self.model.norm == "pre" else x


def attention(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float = 0.0, causal: bool = False
) -> Tensor:
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal)


def extend(
    keys: Tensor, values: Tensor, key: Tensor, value: Tensor, position: int | Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Write one position to the cache. Return keys, values and mask to attend to.

    A tensor position keeps shapes fixed, for CUDA graphs.
    """
    if isinstance(position, int):
        keys[:, :, position], values[:, :, position] = key[:, :, 0], value[:, :, 0]
        return keys[:, :, : position + 1], values[:, :, : position + 1], None
    keys.index_copy_(2, position.view(1), key)
    values.index_copy_(2, position.view(1), value)
    mask = torch.arange(keys.shape[2], device=keys.device) <= position
    return keys, values, mask.view(1, 1, 1, -1)


def norm(weights: Layer, name: str, x: Tensor) -> Tensor:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    if x.shape[0] == 1:
        return F.layer_norm(x, x.shape[-1:], weight.squeeze(0), bias.squeeze(0))
    spread = (-1, *([1] * (x.dim() - 2)), x.shape[-1])
    return F.layer_norm(x, x.shape[-1:]) * weight.view(spread) + bias.view(spread)


def drop(x: Tensor, rate: float) -> Tensor:
    if not rate:
        return x
    return x * _kept(x, rate) if x.is_cpu else F.dropout(x, rate)


def _kept(x: Tensor, rate: float) -> Tensor:
    """Inverted dropout: 0 with probability `rate` (to 16 bits), else the factor that keeps the mean.

    One 64-bit random number serves four elements: on a CPU, drawing is most of the cost of dropout.
    """
    steps = round(rate * 2**16)
    numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = numbers.view(torch.int16)[: x.numel()].view(x.shape) >= steps - 2**15
    return kept.to(x.dtype).mul_(2**16 / (2**16 - steps))


def source_mask(source_NBS: Tensor) -> Tensor:
    return (source_NBS != PAD).flatten(0, 1)[:, None, None, :]


def positions(start: int | Tensor, length: int, like: Tensor, conventions: Conventions = OWN) -> Tensor:
    """Sinusoidal positions from `start` on: sines in the first half of the width, cosines in the second."""
    if isinstance(start, int):
        size = 1 << max(7, (start + length - 1).bit_length())
        return _sinusoids(size, conventions, like.shape[-1], like.dtype, like.device)[start : start + length]
    return _sinusoids(4096, conventions, like.shape[-1], like.dtype, like.device).index_select(0, start.view(1))


@lru_cache(maxsize=64)
def _sinusoids(size: int, conventions: Conventions, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    place = torch.arange(size, dtype=torch.float64)[:, None] + conventions.first_position
    steps = width // 2 - conventions.last_period
    angle = place * 10000.0 ** (-torch.arange(width // 2, dtype=torch.float64) / steps)
    return torch.cat([angle.sin(), angle.cos()], dim=1).to(device=device, dtype=dtype)
