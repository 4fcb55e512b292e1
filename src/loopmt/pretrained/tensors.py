"""The tensors in the files of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from loopmt.pretrained.untrusted import tensor_shapes
from loopmt.pretrained.weight_names import EMBEDDINGS, Tensors

_TIED = [EMBEDDINGS["target_embed"], "lm_head.weight"]


def checkpoint_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors by name, in float32."""
    files = sorted(folder.glob("*.safetensors"))
    for file in files:
        tensor_shapes(file)  # an error if it is damaged
    return {name: tensor.float() for file in files for name, tensor in load_file(file).items()}


def embeddings_of(tensors: Tensors) -> tuple[Tensor, Tensor]:
    """The embeddings of source and target; a tied table is stored once, under one of several names."""
    shared = tensors.get(EMBEDDINGS["embed"])
    target = next((tensors[name] for name in _TIED if name in tensors), shared)
    source = tensors.get(EMBEDDINGS["source_embed"], shared if shared is not None else target)
    if target is None or source is None:
        raise KeyError(EMBEDDINGS["embed"])
    same = source.shape == target.shape and torch.equal(source, target)
    return (target, target) if same else (source, target)
