"""The implementation of the transformer: eager, compiled, or with hand-written kernels; and its precision.

Compiling a whole network takes minutes for every shape. So single regions (layers, loss, choice of tokens) are
compiled once, with weights as inputs and dynamic shapes, and serve all layers and networks.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import Any, TypeVar

import torch

from loopmt.config import Fuse, Model, Train
from loopmt.model.transformer import Transformer

Function = TypeVar("Function", bound=Callable[..., Any])


def can_fuse(device: torch.device) -> bool:
    """Whether torch.compile and Triton can run here: CUDA, a C compiler and the package triton."""
    compiler = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
    return device.type == "cuda" and compiler and find_spec("triton") is not None


def transformer_kind(model: Model, device: torch.device, fuse: Fuse) -> type[Transformer]:
    """The class for the experiment's `fuse` setting; the eager one where the device does not support it."""
    if fuse == "no" or not can_fuse(device):
        return Transformer
    if fuse == "compile":
        return Fused
    from loopmt.model.accelerated import Accelerated, suits  # needs triton

    return Accelerated if suits(model) else Transformer


@lru_cache(maxsize=64)
def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled for any shape at its first call."""
    return torch.compile(function, dynamic=True, fullgraph=True)


class Fused(Transformer):
    """A transformer whose regions are compiled."""

    @cached_property
    def _eager(self) -> Transformer:
        return Transformer(self.model, self.joint, self.conventions)

    def encoder_layer(self, *inputs: Any) -> Any:
        return fused(Transformer.encoder_layer)(self._eager, *inputs)

    def memory_layer(self, *inputs: Any) -> Any:
        return fused(Transformer.memory_layer)(self._eager, *inputs)

    def decoder_layer(self, *inputs: Any) -> Any:
        return fused(Transformer.decoder_layer)(self._eager, *inputs)

    def step_layer(self, *inputs: Any) -> Any:
        return fused(Transformer.step_layer)(self._eager, *inputs)

    def fuse(self, function: Function) -> Function:
        return fused(function)  # type: ignore[return-value]


def precision(train: Train, device: torch.device) -> torch.dtype:
    """The dtype of `train.precision`; "auto" is bfloat16 on CUDA and float32 on a CPU, which may lack bfloat16."""
    chosen = train.precision
    if chosen == "auto":
        chosen = "bfloat16" if device.type == "cuda" else "float32"
    return torch.bfloat16 if chosen == "bfloat16" else torch.float32
