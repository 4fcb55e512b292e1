"""LoRA with peft: trains low-rank matrices beside the frozen weights of a checkpoint."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from loopmt.config import Lora
from loopmt.errors import ConfigError, MissingExtraError, listed

_ATTENTION = ("q_proj", "k_proj", "v_proj", "qkv_proj", "out_proj", "o_proj", "query_key_value", "q", "k", "v", "o")
_NAME = "default"


def peft() -> Any:
    try:
        import peft as library
    except ImportError:
        raise MissingExtraError(
            'adapt = "lora" needs the package peft. Install it: pip install \'loopmt[lora]\', or set adapt = "full".'
        ) from None
    return library


def add_adapter(model: Any, lora: Lora, folder: Path) -> None:
    """Add an adapter to a module. Only its matrices are trained; it does not change outputs before the first update."""
    library = peft()
    config = library.LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets_in(model, lora, folder)
    )
    library.inject_adapter_in_model(config, model, adapter_name=_NAME)
    for name, tensor in model.named_parameters():
        tensor.requires_grad = "lora_" in name


def targets_in(model: Any, lora: Lora, folder: Path) -> list[str]:
    """The names of the module's layers that get an adapter."""
    linear = {name for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear) and name != "lm_head"}
    known = sorted({name.rpartition(".")[2] for name in linear})
    if lora.targets == "attention":
        found = [name for name in known if name in _ATTENTION]
        if not found:
            raise ConfigError(
                f'lora.targets = "attention": loopmt does not know the attention of {folder}. Name its linear layers, '
                f"which are {listed(known, 20) or 'none'}."
            )
        return found
    wrong = [one for one in lora.targets if not any(_ends(name, one) for name in linear)]
    if wrong:
        near = difflib.get_close_matches(wrong[0], known, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise ConfigError(
            f'lora.targets: {folder} has no linear layer "{wrong[0]}".{hint} Its layers are {listed(known, 20)}; '
            '"attention" selects those of attention.'
        )
    return list(lora.targets)


def adapter_size(model: Any, lora: Lora, folder: Path) -> int:
    """The number of parameters that an adapter would have."""
    targets = targets_in(model, lora, folder)
    layers = [layer for name, layer in model.named_modules() if any(_ends(name, target) for target in targets)]
    return sum(lora.rank * (layer.in_features + layer.out_features) for layer in layers)


def _ends(name: str, end: str) -> bool:
    return name == end or name.endswith(f".{end}")


def save_adapter(model: Any, base: str, folder: Path, task: str = "SEQ_2_SEQ_LM") -> None:
    """Save an adapter in the format of `peft.PeftModel.from_pretrained`."""
    library = peft()
    folder.mkdir(parents=True)
    tensors = library.get_peft_model_state_dict(model, adapter_name=_NAME)
    save_file({_as_saved(name): tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
              folder / "adapter_model.safetensors")  # fmt: skip
    config = model.peft_config[_NAME].to_dict()
    settings = {key: sorted(value) if isinstance(value, set) else value for key, value in config.items()}
    settings |= {"base_model_name_or_path": base, "task_type": task, "inference_mode": True}
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1, default=str) + "\n", encoding="utf-8")


def with_saved_adapter(model: Any, folder: Path) -> Any:
    """Load a saved adapter into a module."""
    return peft().PeftModel.from_pretrained(model, str(folder)).get_base_model()


def _as_saved(name: str) -> str:
    return name if name.startswith("base_model.model.") else f"base_model.model.{name}"


@contextmanager
def merged(model: Any) -> Iterator[dict[str, torch.Tensor]]:
    """The module's weights with the adapter merged, under the names of the module without adapter."""
    layers = [layer for layer in model.modules() if hasattr(layer, "merge") and hasattr(layer, "base_layer")]
    kept = [layer.base_layer.weight.detach().clone() for layer in layers]
    for layer in layers:
        layer.merge()
    try:
        yield {
            name.replace(".base_layer.", "."): tensor
            for name, tensor in model.state_dict().items()
            if "lora_" not in name
        }
    finally:
        for layer, weight in zip(layers, kept, strict=True):
            layer.unmerge()
            layer.base_layer.weight.data.copy_(weight)  # subtracting the adapter would leave rounding errors
