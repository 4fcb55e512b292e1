"""`loopmt doctor --model FOLDER`: what would train a pretrained checkpoint, whether it is right, and its memory."""

from __future__ import annotations

from pathlib import Path

import torch

from loopmt.config import Lora
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import load_pretrained, load_tokenizer
from loopmt.pretrained.importing import check_safe
from loopmt.pretrained.lora import adapter_size
from loopmt.pretrained.native import UnfitError, native_form
from loopmt.pretrained.native_stack import NativeStack
from loopmt.pretrained.network import PretrainedNetwork
from loopmt.pretrained.tokens import ModelTokens
from loopmt.pretrained.verify import SENTENCES, disagreement
from loopmt.run import Json

_HOP = Hop("source", "target")
_TRAINED, _FROZEN = 20, 4  # bytes of a parameter in float32: weight, two gradients, two moments; weight
_SUBJECTS = ("The doctor", "My neighbour", "A young student", "Nobody", "The old bridge")
_ENDS = ("came home late.", "is 42 years old!", "was not in London on 3 May.", 'said: "Why not?"')
_TEXTS = [f"{subject} {end}" for subject in _SUBJECTS for end in _ENDS][:SENTENCES]


def examine_checkpoint(folder: Path) -> Json:
    """The backend of a checkpoint and the reason for it, its size, and the memory of training, activations aside."""
    check_safe(folder)
    tokens = ModelTokens(folder, load_tokenizer(folder))
    codes = tokens.known_codes
    told = ModelTokens(folder, tokens.tokenizer, {"source": codes[0], "target": codes[-1]} if codes else None)
    network = PretrainedNetwork(load_pretrained(folder), told, torch.device("cpu"))
    why = _reason(folder, network)
    total = sum(one.numel() for one in network.model.parameters())
    trained = sum(one.numel() for one in network.trainable.values())
    adapter = adapter_size(network.model, Lora(), folder)
    return {
        "architecture": network.model.config.model_type,
        "backend": "module" if why else "native",
        "why": why or f"loss and greedy translation of {len(_TEXTS)} sentences are those of the module",
        "parameters": total,
        "vocabulary": int(network.model.config.vocab_size),
        "languages": len(codes),
        "memory_bytes": {
            "translate": _FROZEN * total,
            "full": _TRAINED * trained + _FROZEN * (total - trained),
            "lora": _TRAINED * adapter + _FROZEN * total,
            "per_token": int(network.activation_bytes()),
        },
    }


def _reason(folder: Path, network: PretrainedNetwork) -> str | None:
    """Why Hugging Face's module computes it; None if our own transformer does."""
    try:
        form = native_form(folder, network.tokens)
    except UnfitError as error:
        return str(error)
    return disagreement(NativeStack.alone(form, folder, (_HOP,)), network, _HOP, _TEXTS)
