"""What a checkpoint of somebody else may not say: which code or file to load, and sizes that its weights do not have.

`transformers` sets any attribute that stands in config.json, even one that an argument was given for. So a key that
names code must not stand there.
"""

from __future__ import annotations

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
"""The checkpoint cannot be read without what these name."""
_STEERING = re.compile(
    ".*(attn|experts)_implementation.*|.*kernel.*|.*_plan|distributed_config|adapter_.*|sp_model_kwargs|.*_spm|vocab"
    "|(?!special_tokens_map_).*_file"
)
"""It can be read without these; attention is computed as the library does by default."""
_PLAIN = ("eager", "sdpa")  # kinds of attention that load nothing
_SIZE = re.compile(".*(size|dim|heads|positions|embeddings|experts|buckets|d_model|d_ff|d_kv)")
_SMALL = 4096  # a size that may be of no tensor


def read_config(file: Path) -> dict[str, Any]:
    """The object in a file of a checkpoint; empty if it is another value."""
    try:
        value = parse_json(read_bytes(file))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {error}.") from None
    return value if isinstance(value, dict) else {}


def refuse_code(folder: Path) -> None:
    """Refuse a checkpoint that comes with program code, or needs other code than that of the library."""
    for file in _configs(folder):
        if found := [key for key, value in _items(read_config(file)) if value and _CODE.fullmatch(key)]:
            raise DataError(
                f"{folder} comes with program code of its own, or needs other code than that of the library "
                f"({found[0]} in {file.name}). Such code is not run. Import a checkpoint without it."
            )


def without_steering(value: Any) -> Any:
    """A config without the keys that name code or files."""
    if isinstance(value, list):
        return [without_steering(one) for one in value]
    if isinstance(value, dict):
        return {key: without_steering(one) for key, one in value.items() if not _steers(key, one)}
    return value


def refuse_steering(folder: Path) -> None:
    """In a run there are no such keys, for an import leaves them out."""
    for file in _configs(folder):
        if found := [key for key, value in _items(read_config(file)) if _steers(key, value)]:
            raise DataError(
                f"{file} names code or files to load ({found[0]}), which no import wrote. "
                f"Delete {folder} and import again."
            )


def refuse_sizes(folder: Path) -> None:
    """Refuse layers and sizes that the weights do not have: the network is made before they are read."""
    file = folder / "config.json"
    shapes = [shape for weights in sorted(folder.glob("*.safetensors")) for shape in tensor_shapes(weights)]
    dims = {dim + spare for shape in shapes for dim in shape for spare in (-2, -1, 0, 1, 2)}
    for key, value in _items(read_config(file)):
        if not isinstance(value, int):
            continue
        layers = key.endswith("layers") and value > len(shapes)
        if layers or (_SIZE.fullmatch(key) and value > _SMALL and value not in dims):
            raise DataError(f"{file}: {key} = {value}, which the {len(shapes)} tensors of its weights do not fit.")


def _configs(folder: Path) -> Iterator[Path]:
    return (folder / name for name in CONFIGS if has_file(folder / name))


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, however deep."""
    for key, one in value.items() if isinstance(value, dict) else ():
        yield key, one
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _items(one)


def _steers(key: str, value: Any) -> bool:
    return bool(value) and isinstance(value, str | dict) and value not in _PLAIN and bool(_STEERING.fullmatch(key))


def tensor_shapes(weights: Path) -> list[list[int]]:
    reading(weights).close()  # a regular file
    try:
        with safe_open(weights, "pt") as tensors:
            return [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(f"{weights} cannot be read: {error}.") from None
