"""Checks of untrusted checkpoints: keys that name code or files to load, and sizes that do not match the weights.

`transformers` applies every key of config.json, even if the same argument was passed. So keys that name code must be
absent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from loopmt.errors import DataError
from loopmt.files.documents import parse_json
from loopmt.files.regular import has_file, read_bytes, reading

CONFIGS = ("config.json", "generation_config.json", "tokenizer_config.json")
_CODE = re.compile("auto_map|custom_(generate|pipelines)|(quantization|compression)_config|transformers_weights")
"""Keys that name code; the checkpoint cannot be read without that code."""
_STEERING = re.compile(
    ".*(attn|experts)_implementation.*|.*kernel.*|.*_plan|distributed_config|adapter_.*|sp_model_kwargs|.*_spm|vocab"
    "|(?!special_tokens_map_).*_file"
)
"""Keys that can be removed; the library's default attention then reads the checkpoint."""
_PLAIN = ("eager", "sdpa")  # kinds of attention that load nothing
_SIZE = re.compile(".*(size|dim|heads|positions|embeddings|experts|buckets|d_model|d_ff|d_kv)")
_ROTARY = ("rope_theta", "rope_parameters", "rope_scaling")  # computed positions, which need no memory
_HEADER = 2**27  # bytes, at most
_SMALL = 4096  # smaller sizes need not occur in a tensor's shape


def read_config(file: Path) -> dict[str, Any]:
    """The JSON object in a file of a checkpoint; empty if it is another value."""
    try:
        value = parse_json(read_bytes(file))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {error}.") from None
    return value if isinstance(value, dict) else {}


def refuse_code(folder: Path) -> None:
    """Raise an error for a checkpoint with program code, or one that needs code outside of the library."""
    for file in _configs(folder):
        if found := [key for key, value in _items(read_config(file)) if value and _CODE.fullmatch(key)]:
            raise DataError(
                f"{folder} has its own program code, or needs code outside of the library ({found[0]} in {file.name}). "
                "Such code is not run. Import a checkpoint without it."
            )


def without_steering(value: Any) -> Any:
    """The config without keys that name code or files."""
    if isinstance(value, list):
        return [without_steering(one) for one in value]
    if isinstance(value, dict):
        return {key: without_steering(one) for key, one in value.items() if not _steers(key, one)}
    return value


def refuse_steering(folder: Path) -> None:
    """Raise an error if a run has such keys, which an import removes."""
    for file in _configs(folder):
        if found := [key for key, value in _items(read_config(file)) if _steers(key, value)]:
            raise DataError(
                f"{file} names code or files to load ({found[0]}); it was changed after the import. "
                f"Delete {folder} and import again."
            )


def refuse_sizes(folder: Path) -> None:
    """Raise an error for layers and sizes that do not match the weights; they are allocated before weights are read."""
    file = folder / "config.json"
    shapes = [shape for weights in sorted(folder.glob("*.safetensors")) for shape in tensor_shapes(weights)]
    dims = {dim + spare for shape in shapes for dim in shape for spare in (-2, -1, 0, 1, 2)}
    config = read_config(file)
    rotary = any(config.get(key) for key in _ROTARY)
    for key, value in _items(config):
        if not isinstance(value, int) or (rotary and key.endswith("max_position_embeddings")):
            continue
        layers = key.endswith("layers") and value > len(shapes)
        if layers or (_SIZE.fullmatch(key) and value > _SMALL and value not in dims):
            raise DataError(f"{file}: {key} = {value} does not match the {len(shapes)} tensors of its weights.")


def _configs(folder: Path) -> Iterator[Path]:
    return (folder / name for name in CONFIGS if has_file(folder / name))


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at all depths."""
    for key, one in value.items() if isinstance(value, dict) else ():
        yield key, one
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _items(one)


def _steers(key: str, value: Any) -> bool:
    return bool(value) and isinstance(value, str | dict) and value not in _PLAIN and bool(_STEERING.fullmatch(key))


def tensor_shapes(weights: Path) -> list[list[int]]:
    reading(weights).close()  # checks that it is a regular file
    try:
        with safe_open(weights, "pt") as tensors:
            return [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
    except (OSError, RuntimeError, SafetensorError) as error:  # RuntimeError: larger than the memory
        raise DataError(f"{weights} cannot be read: {error}.") from None


def parameter_count(weights: Path) -> int:
    """The number of parameters by the header, which fits into memory even if the tensors do not."""
    with reading(weights) as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = stream.read(min(size, _HEADER))
    try:
        shapes = [one["shape"] for name, one in parse_json(header).items() if name != "__metadata__"]
        return sum(math.prod(map(int, shape)) for shape in shapes)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise DataError(f"{weights} is not a complete safetensors file. Copy or download it again.") from None
