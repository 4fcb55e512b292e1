"""Conversion of weight names to Hugging Face and back: Marian for post-norm, Pegasus for pre-norm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from loopmt.config import Model

Tensors = Mapping[str, Tensor]
EMBEDDINGS = {
    "embed": "model.shared.weight",
    "source_embed": "model.encoder.embed_tokens.weight",
    "target_embed": "model.decoder.embed_tokens.weight",
}
OUTPUT_BIAS = "final_logits_bias"
_SELF = {"qkv": ("q_proj", "k_proj", "v_proj"), "out": ("out_proj",)}
_CROSS = {"q": ("q_proj",), "kv": ("k_proj", "v_proj"), "out": ("out_proj",)}
_FEED_FORWARD = {"up": "fc1", "down": "fc2", "norm": "final_layer_norm"}


def to_hugging_face(model: Model, weights: Tensors) -> dict[str, Tensor]:
    """The weights of one network under Hugging Face names; fused weights are split."""
    found = {theirs: weights[ours] for ours, theirs in EMBEDDINGS.items() if ours in weights}
    found[OUTPUT_BIAS] = weights["output_bias"][None]
    for ours, theirs in _pairs(model):
        found |= dict(zip(theirs, weights[ours].chunk(len(theirs)), strict=True))
    return {name: tensor.clone() for name, tensor in found.items()}


def from_hugging_face(model: Model, tensors: Tensors) -> dict[str, Tensor]:
    """All weights except embeddings and output bias, which depend on the vocabulary."""
    return {ours: torch.cat([tensors[name] for name in theirs]) for ours, theirs in _pairs(model)}


def _pairs(model: Model) -> Iterator[tuple[str, list[str]]]:
    for side, count in (("encoder", model.layers), ("decoder", model.num_decoder_layers)):
        names = [pair for number in range(count) for pair in _block(side, number)]
        if model.norm == "pre":
            names.append((f"{side}.norm", [f"model.{side}.layer_norm"]))
        for ours, theirs in names:
            yield from ((f"{ours}.{kind}", [f"{one}.{kind}" for one in theirs]) for kind in ("weight", "bias"))


def _block(side: str, number: int) -> Iterator[tuple[str, list[str]]]:
    ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
    attentions = {"self": ("self_attn", _SELF)} | ({"cross": ("encoder_attn", _CROSS)} if side == "decoder" else {})
    for kind, (name, parts) in attentions.items():
        for part, projections in parts.items():
            yield f"{ours}.{kind}.{part}", [f"{theirs}.{name}.{one}" for one in projections]
        yield f"{ours}.{kind}.norm", [f"{theirs}.{name}_layer_norm"]
    for part, name in _FEED_FORWARD.items():
        yield f"{ours}.ffn.{part}", [f"{theirs}.{name}"]
