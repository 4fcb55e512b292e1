"""Checkpoints read with `transformers`: from this machine only, never a pickle, never code of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from loopmt.errors import DataError, MissingExtraError


def transformers() -> Any:
    try:
        import tokenizers  # noqa: F401
        import transformers
    except ImportError:
        raise MissingExtraError(
            "Hugging Face checkpoints need the package transformers. Install it: pip install 'loopmt[export]'."
        ) from None
    library: Any = transformers
    library.utils.logging.disable_progress_bar()
    return library


def load_config(folder: Path) -> Any:
    return _load(transformers().AutoConfig, folder, "config")


def load_tokenizer(folder: Path) -> Any:
    return _load(transformers().AutoTokenizer, folder, "tokenizer")


def load_model(folder: Path) -> Any:
    return _load(transformers().AutoModelForSeq2SeqLM, folder, "model that translates", use_safetensors=True)


def _load(kind: Any, folder: Path, what: str, **settings: Any) -> Any:
    try:
        return kind.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **settings)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        raise DataError(f"{folder} has no {what} that can be read: {error}") from None
