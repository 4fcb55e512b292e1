"""A checkpoint that was imported into a run: its files and its description."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopmt.errors import DataError, MissingExtraError, RunError
from loopmt.files.regular import file_size, has_file, member
from loopmt.path import Hop
from loopmt.pretrained.untrusted import refuse_code, refuse_sizes, refuse_steering
from loopmt.run import read_json

NOTES = "imported.json"
_DROPOUTS = ("attention_dropout", "hidden_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop")  # of decoder-only models


@dataclass(frozen=True)
class ImportOptions:
    """The direction of a checkpoint, and the prefix or codes that select its languages, if it needs any."""

    hop: Hop
    prefix: str = ""  # before every source, such as ">>fra<<"
    source_code: str | None = None  # the tokenizer's codes of the languages, such as eng_Latn
    target_code: str | None = None


@dataclass(frozen=True)
class ImportedCheckpoint:
    """A checkpoint in a run folder."""

    folder: Path
    options: ImportOptions
    model: dict[str, Any]  # the [model] that it can initialize; empty if it cannot
    unfit: str  # the reason why it cannot
    files: dict[str, int] = field(repr=False)  # sizes
    digest: str

    @classmethod
    def open(cls, folder: Path) -> ImportedCheckpoint:
        notes = read_json(folder / NOTES)
        try:
            options = ImportOptions(**{**notes["wish"], "hop": Hop(**notes["wish"]["hop"])})
            found = cls(folder, options, notes["model"], notes["unfit"], notes["files"], notes["digest"])
        except (KeyError, TypeError, AttributeError):
            raise RunError(f"{folder / NOTES} is damaged. Delete {folder} and import again.") from None
        names = {entry.name for entry in folder.iterdir()} - {NOTES}
        for name in sorted(names | found.files.keys()):
            file = member(folder, name)
            if not has_file(file) or file_size(file) != found.files.get(name):
                raise RunError(f"{file} has changed since it was imported. Delete {folder} and import again.")
        return found


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


def load_generation(folder: Path) -> Any:
    """The settings of `generate`; old checkpoints have them in config.json."""
    if has_file(folder / "generation_config.json"):
        return _load(transformers().GenerationConfig, folder, "generation_config.json")
    settings = {"config_file_name": "config.json", "_from_model_config": True}
    return _load(transformers().GenerationConfig, folder, "config.json", **settings)


def is_decoder_only(folder: Path) -> bool:
    """Whether it is a language model without an encoder."""
    config = load_config(folder)
    known = transformers().models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return not getattr(config, "is_encoder_decoder", False) and config.model_type in known


def load_model(folder: Path) -> Any:
    refuse_sizes(folder)
    if is_decoder_only(folder):
        raise DataError(
            f"{folder} is a decoder-only language model, which cannot be imported. Train it with [model] pretrained "
            "and prompt (docs/pretrained.md), or serve it behind an OpenAI-compatible endpoint: [[imported]] url."
        )
    kind, what = transformers().AutoModelForSeq2SeqLM, "model that translates"
    return _load(kind, folder, what, use_safetensors=True, attn_implementation=None)  # the library's default


def load_pretrained(folder: Path, dropout: float | None = None) -> Any:
    """A trainable module in float32 with torch's attention, regardless of its configuration."""
    refuse_sizes(folder)
    config = load_config(folder)
    alone = is_decoder_only(folder)
    if dropout is not None:
        _set_dropout(config, dropout, alone)
    settings = {"config": config, "dtype": "float32", "use_safetensors": True, "attn_implementation": "sdpa"}
    kind = transformers().AutoModelForCausalLM if alone else transformers().AutoModelForSeq2SeqLM
    model = _load(kind, folder, "language model" if alone else "model that translates", **settings)
    for layer in model.modules():
        if "Sinusoidal" in type(layer).__name__:  # a table of constants, which loading makes trainable
            layer.requires_grad_(False)
    return model


def _set_dropout(config: Any, dropout: float, decoder_only: bool) -> None:
    names = [name for name in _DROPOUTS if hasattr(config, name)] if decoder_only else []
    for name in names or ["dropout_rate" if hasattr(config, "dropout_rate") else "dropout"]:
        setattr(config, name, dropout)


def _load(kind: Any, folder: Path, what: str, **settings: Any) -> Any:
    refuse_code(folder)
    refuse_steering(folder)
    try:
        with _offline():
            return kind.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **settings)
    except Exception as error:  # libraries raise many types for invalid files
        raise DataError(f"{folder} has no readable {what}: {' '.join(str(error).split())}") from None


@contextmanager
def _offline() -> Iterator[None]:
    """Prevent downloads, even if the files refer to others."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
