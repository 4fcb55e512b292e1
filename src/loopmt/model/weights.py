"""The layout of a network's weights in a flat row, and their initialization.

Shapes: N networks, P weights of one network.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.config import Model
from loopmt.rng import torch_generator
from loopmt.text.ragged import PAD

_IN_LAYER = re.compile(r"((?:en|de)coder\.\d+)\.(.+)")
_ALIGN = 64  # weights start at multiples of this, for aligned reads in matrix kernels

Shapes = dict[str, tuple[int, ...]]


class Weights(dict[str, Tensor]):
    """Weights by name, each with a leading dimension N."""

    @cached_property
    def layers(self) -> dict[str, dict[str, Tensor]]:
        """The weights of each layer ("encoder.0", ...) by their names within it."""
        found: dict[str, dict[str, Tensor]] = {}
        for name, weight in self.items():
            if match := _IN_LAYER.fullmatch(name):
                found.setdefault(match[1], {})[match[2]] = weight
        return found

    def rows(self, name: str, ids_NBT: Tensor) -> Tensor:
        """Embedding lookup in each network's table."""
        table_NVD = self[name]
        num, size, width = table_NVD.shape
        if num == 1:
            return F.embedding(ids_NBT, table_NVD.squeeze(0))
        offsets = torch.arange(num, device=ids_NBT.device).view(-1, 1, 1) * size
        return F.embedding(ids_NBT + offsets, table_NVD.reshape(num * size, width))

    def project(self, states: Tensor, table: str, bias: str) -> Tensor:
        """The output layer: states to logits."""
        return matmul(states, self[table], self[bias])


@dataclass(frozen=True)
class Layout:
    """Names, shapes and offsets of the weights of one architecture."""

    model: Model
    source_size: int
    target_size: int
    joint: bool
    frozen: frozenset[str] = frozenset()  # weights that are not trained

    @cached_property
    def shapes(self) -> Shapes:
        width = self.model.width
        shapes: Shapes = {"embed": (self.target_size, width)}
        if not self.joint:
            shapes = {"source_embed": (self.source_size, width), "target_embed": (self.target_size, width)}
        shapes["output_bias"] = (self.target_size,)
        for number in range(self.model.layers):
            shapes |= self._block(f"encoder.{number}", cross=False)
        for number in range(self.model.num_decoder_layers):
            shapes |= self._block(f"decoder.{number}", cross=True)
        if self.model.norm == "pre":
            shapes |= _norm("encoder.norm", width) | _norm("decoder.norm", width)
        return shapes

    def _block(self, name: str, cross: bool) -> Shapes:
        width, inner = self.model.width, self.model.feed_forward
        block = _linear(f"{name}.self.qkv", width, 3 * width) | _linear(f"{name}.self.out", width, width)
        block |= _norm(f"{name}.self.norm", width)
        if cross:
            block |= _linear(f"{name}.cross.q", width, width) | _linear(f"{name}.cross.kv", width, 2 * width)
            block |= _linear(f"{name}.cross.out", width, width) | _norm(f"{name}.cross.norm", width)
        block |= _linear(f"{name}.ffn.up", width, inner) | _linear(f"{name}.ffn.down", inner, width)
        return block | _norm(f"{name}.ffn.norm", width)

    @cached_property
    def sizes(self) -> list[int]:
        """Elements that each weight takes in a row, alignment included."""
        return [-(-math.prod(shape) // _ALIGN) * _ALIGN for shape in self.shapes.values()]

    @cached_property
    def _cuts(self) -> list[int]:
        """Sizes for one torch.split: each weight, then its padding. More splits would add passes of autograd."""
        numbers = [math.prod(shape) for shape in self.shapes.values()]
        return [cut for number, size in zip(numbers, self.sizes, strict=True) for cut in (number, size - number)]

    @property
    def num_places(self) -> int:
        return sum(self.sizes)

    @property
    def num_parameters(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def num_trained(self) -> int:
        return self.num_parameters - sum(math.prod(self.shapes[name]) for name in self.frozen)

    def unpack(self, flat_NP: Tensor) -> Weights:
        """Named views of flat rows, each with a leading N; their gradient is one concatenation."""
        parts = torch.split(flat_NP, self._cuts, dim=1)[::2]
        return Weights(
            (name, part.view(-1, *shape)) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        )

    def initial(self, *keys: tuple[str | int, ...]) -> Tensor:
        """Initial rows on the CPU, one per key; the same key gives the same row on any machine."""
        flat_NP = torch.zeros(len(keys), self.num_places)
        for row, key in zip(flat_NP, keys, strict=True):
            generator = torch_generator("cpu", *key)
            for name, weight in self.unpack(row[None]).items():
                self._fill(name, weight[0], generator)
        return flat_NP

    def _fill(self, name: str, weight: Tensor, generator: torch.Generator) -> None:
        if name.endswith("embed"):
            weight.normal_(0, self.model.width**-0.5, generator=generator)
            weight[PAD] = 0
        elif name.endswith("norm.weight"):
            weight.fill_(1)
        elif weight.dim() == 2:
            # A fused projection is initialized like the square matrices it consists of (Xavier, smaller for attention).
            fused = ".qkv." in name or ".kv." in name
            outputs = self.model.width if fused else weight.shape[0]
            gain = 2**-0.5 if fused or ".q." in name else 1.0
            bound = gain * math.sqrt(6 / (weight.shape[1] + outputs))
            weight.uniform_(-bound, bound, generator=generator)


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def matmul(x: Tensor, weight_NOI: Tensor, bias_NO: Tensor) -> Tensor:
    """x (N, ..., I) times each network's own matrix, plus its bias."""
    if x.shape[0] == 1:
        return F.linear(x, weight_NOI.squeeze(0), bias_NO.squeeze(0))
    spread = (-1, *([1] * (x.dim() - 2)), bias_NO.shape[1])
    return product(x, weight_NOI) + bias_NO.view(spread)


def product(x: Tensor, weight_NOI: Tensor) -> Tensor:
    if x.shape[0] == 1:
        return F.linear(x, weight_NOI.squeeze(0))
    return torch.bmm(x.flatten(1, -2), weight_NOI.transpose(1, 2)).view(*x.shape[:-1], weight_NOI.shape[1])
