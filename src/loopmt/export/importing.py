"""A Hugging Face checkpoint comes in: copied without anything that could run code, described, tried once.

What is read are tensors (safetensors), JSON and subword models; a pickle is refused. A checkpoint in the shape of
Marian or Pegasus can be a start for training; any that generates can be a frozen generator.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loopmt.config import Generate
from loopmt.errors import DataError
from loopmt.export.folder import appearing
from loopmt.export.generator import HuggingFaceGenerator
from loopmt.export.imported import NOTES, Imported, Wish
from loopmt.export.loading import load_config
from loopmt.model.limits import Limits
from loopmt.run import write_json
from loopmt.sealed import digest

_TAKEN = {".safetensors", ".json", ".spm", ".model", ".txt"}
_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}


def import_hugging_face(source: Path, into: Path, wish: Wish) -> Imported:
    """Copy a checkpoint; it is there only if it loads offline and translates."""
    _check_safe(source)
    with appearing(into) as draft:
        for file in sorted(source.iterdir()):
            if file.is_file() and file.suffix in _TAKEN:
                shutil.copyfile(file, draft / file.name)
        _describe(draft, wish)
        _try(draft)
    return Imported.open(into)


def _check_safe(source: Path) -> None:
    files = [file.name for file in source.iterdir()] if source.is_dir() else [source.name]
    pickles = [name for name in files if Path(name).suffix.lower() in _PICKLES]
    if pickles and not any(name.endswith(".safetensors") for name in files):
        raise DataError(_only_a_pickle(source, pickles[0]))
    if "config.json" not in files:
        raise DataError(f"{source} is no Hugging Face checkpoint: it has no config.json.")
    if "auto_map" in _json(source / "config.json"):
        raise DataError(f"{source} comes with program code of its own (auto_map in config.json), which is not run.")
    if not any(name.endswith(".safetensors") for name in files):
        raise DataError(f"{source} has no weights: no .safetensors file.")


def _only_a_pickle(source: Path, pickle: str) -> str:
    folder = source if source.is_dir() else source.parent
    return (
        f"{source} has its weights only as a pickle ({pickle}), and reading a pickle can run code. Convert it "
        'where you trust it: python -c "from transformers import AutoModelForSeq2SeqLM as M; '
        f"M.from_pretrained('{folder}').save_pretrained('{folder}')\", which writes model.safetensors beside it."
    )


def _json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {error}.") from None
    return value if isinstance(value, dict) else {}


def _describe(folder: Path, wish: Wish) -> None:
    model, unfit = fitting_model(folder)
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    digests = {name: digest(folder / name) for name in sizes}
    whole = hashlib.sha256(json.dumps([digests, asdict(wish)], sort_keys=True).encode()).hexdigest()
    notes = {"wish": asdict(wish), "model": model, "unfit": unfit, "files": sizes, "digest": whole}
    write_json(folder / NOTES, notes)


def _try(folder: Path) -> None:
    generator = HuggingFaceGenerator(Imported.open(folder), "cpu")
    try:
        generator.say(["1, 2, 3."], Generate(how="greedy"), Limits(longest=8), seed=0)
    except (IndexError, ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            f"the checkpoint does not translate: {error}. Is it whole, and are its language codes given?"
        ) from None


def fitting_model(folder: Path) -> tuple[dict[str, Any], str]:
    """The [model] that the checkpoint can be a start for, or why there is none."""
    config = load_config(folder)
    if config.model_type not in ("marian", "pegasus"):
        return {}, f"{config.model_type} is another network; a start has the shape of Marian or Pegasus"
    told = {
        "activation_function": config.activation_function in _ACTIVATIONS,
        "scale_embedding": config.scale_embedding,
        "tie_word_embeddings": config.tie_word_embeddings,
        "decoder_attention_heads": config.decoder_attention_heads == config.encoder_attention_heads,
        "decoder_ffn_dim": config.decoder_ffn_dim == config.encoder_ffn_dim,
    }
    if unlike := [f"{key} = {getattr(config, key)}" for key, fits in told.items() if not fits]:
        return {}, f"our network has no {', '.join(unlike)}"
    return {
        "norm": "post" if config.model_type == "marian" else "pre",
        "activation": _ACTIVATIONS[config.activation_function],
        "layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "width": config.d_model,
        "feed_forward": config.encoder_ffn_dim,
        "heads": config.encoder_attention_heads,
    }, ""
