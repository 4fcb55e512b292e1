"""Imports a Hugging Face checkpoint: copies files that cannot run code, describes the checkpoint and tests it once.

Only tensors (safetensors), JSON and subword models are read; pickles are refused. A checkpoint with the architecture of
Marian or Pegasus can initialize training; any seq2seq checkpoint can be a frozen generator.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loopmt.config import Generate
from loopmt.errors import DataError, LoopmtError, listed
from loopmt.files.documents import file_digest
from loopmt.files.folder import appearing
from loopmt.files.regular import TEXT_LIMIT, file_size, has_file, reading
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import NOTES, ImportedCheckpoint, ImportOptions, load_config, load_tokenizer
from loopmt.pretrained.generator import HuggingFaceGenerator
from loopmt.pretrained.native import ACTIVATIONS, sizes_of
from loopmt.pretrained.tokens import ModelTokens
from loopmt.pretrained.untrusted import CONFIGS, read_config, refuse_code, tensor_shapes, without_steering
from loopmt.run import write_json
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences

_WEIGHTS = ".safetensors"
TAKEN = {_WEIGHTS, ".json", ".spm", ".model", ".txt", ".jinja"}  # chat templates are run in a sandbox
_SKIPPED = {"adapter_config.json", "adapter_model.safetensors"}  # the library would add them to the weights
_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_TAG = re.compile(r"<2\w+>")


def import_hugging_face(source: Path, into: Path, options: ImportOptions) -> ImportedCheckpoint:
    """Copy a checkpoint into a run; delete the copy if it does not load offline and translate."""
    check_safe(source)
    with appearing(into) as draft, _errors_about(source, draft):
        _copy(source, draft)
        _check_prefix(draft, options)
        _check_codes(draft, source, options)
        _share_weights(draft, into.parent)
        _describe(draft, options)
        _try(draft)
    return ImportedCheckpoint.open(into)


def copy_safely(source: Path, into: Path) -> None:
    """Copy those files of a checkpoint that cannot run code to a new folder."""
    check_safe(source)
    into.mkdir()
    with _errors_about(source, into):
        _copy(source, into)


@contextmanager
def _errors_about(source: Path, copy: Path) -> Iterator[None]:
    """Make errors name the user's files instead of the copies, which are deleted."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error).replace(str(copy), str(source))) from None


def check_safe(source: Path) -> None:
    """Raise an error for a folder that is not a checkpoint, or whose weights are a pickle."""
    files = [file.name for file in source.iterdir()] if source.is_dir() else [source.name]
    if _is_ctranslate2(files):
        raise DataError(
            f"{source} is a CTranslate2 model, which only CTranslate2 can read. Import the Hugging Face checkpoint "
            "from which it was converted; `loopmt export RUN --to hf --out DIR` writes one for a run of loopmt."
        )
    pickles = [name for name in files if Path(name).suffix.lower() in _PICKLES]
    if pickles and not any(name.endswith(".safetensors") for name in files):
        raise DataError(_only_a_pickle(source, pickles[0]))
    if not source.exists():
        raise DataError(f"there is no {source}. Name the folder of a Hugging Face checkpoint on this machine.")
    if "config.json" not in files:
        raise DataError(f"{source} is not a Hugging Face checkpoint: it has no config.json.{_checkpoints_in(source)}")
    if not any(name.endswith(".safetensors") for name in files):
        raise DataError(f"{source} has no weights: it needs a .safetensors file.")


def _checkpoints_in(source: Path) -> str:
    """A hint with the checkpoints in a folder; an export has one for each direction."""
    found = sorted(file.parent.name for file in source.glob("*/config.json"))
    return f" Name one of the checkpoints in it: {', '.join(found)}." if found else ""


def _is_ctranslate2(files: list[str]) -> bool:
    """Whether there are model.bin and vocabularies with the file names of CTranslate2."""
    return "model.bin" in files and any(re.fullmatch(r"\w+_vocabulary\.(json|txt)", name) for name in files)


def _only_a_pickle(source: Path, pickle: str) -> str:
    folder = source if source.is_dir() else source.parent
    return (
        f"{source} has its weights only as a pickle ({pickle}), and loading a pickle can run code. If you trust it, "
        'convert it: python -c "from transformers import AutoModelForSeq2SeqLM as M; '
        f"M.from_pretrained('{folder}').save_pretrained('{folder}')\", which writes model.safetensors beside it."
    )


def _copy(source: Path, into: Path) -> None:
    """Copy settings, then weights, which may be large. Links are followed only in a Hugging Face cache."""
    files = [file for file in source.iterdir() if file.suffix in TAKEN and file.name not in _SKIPPED]
    for file in sorted(files, key=lambda file: (file.suffix == _WEIGHTS, file.name)):
        place = blob(file) or file
        most: int | None = TEXT_LIMIT
        if file.suffix == _WEIGHTS:
            refuse_code(into)
            tensor_shapes(place)  # checks the size against the header
            most = None
        with reading(place, most) as stream, (into / file.name).open("xb") as copy:
            shutil.copyfileobj(stream, copy)
        if file.name in CONFIGS:
            _write_plain(into / file.name)


def _share_weights(draft: Path, imports: Path) -> None:
    """Store equal weights of several imports once, as hard links, if the file system has them."""
    for file in draft.glob(f"*{_WEIGHTS}"):
        for other in sorted(imports.glob(f"*/{file.name}")):
            alike = other != file and has_file(other) and file_size(other) == file_size(file)
            if alike and file_digest(other) == file_digest(file):
                link = file.with_name("shared.link")
                with suppress(OSError):
                    link.hardlink_to(other)
                    link.replace(file)
                break


def _write_plain(config: Path) -> None:
    found = read_config(config)
    if (plain := without_steering(found)) != found:
        write_json(config, plain)


def blob(file: Path) -> Path | None:
    """The target of a link in a Hugging Face cache: snapshots/REVISION/NAME links to blobs/DIGEST."""
    revision = file.parent.resolve()
    blob = revision / file.readlink() if file.is_symlink() else None
    blobs = revision.parent.parent / "blobs"
    if blob is None or revision.parent.name != "snapshots" or blob.parent.resolve() != blobs:
        return None
    return blobs / blob.name


def _check_prefix(folder: Path, options: ImportOptions) -> None:
    """Require a prefix for a network of several directions, whose sources must begin with the target's tag."""
    tags = _tags(folder)
    if tags and not options.prefix.startswith(tags):
        own = f"<2{options.hop.target}>"
        which = f'--prefix "{own}"' if own in tags else f"--prefix and one of its tags: {', '.join(tags)}"
        raise DataError(
            f"{folder} is one network for several directions, which needs a tag of the target language before every "
            f"source. Give {which}."
        )


def _check_codes(folder: Path, source: Path, options: ImportOptions) -> None:
    """Require language codes for a model whose output language depends on them."""
    tokens = ModelTokens(source, load_tokenizer(folder))
    given = {"source": (options.hop.source, options.source_code), "target": (options.hop.target, options.target_code)}
    lacking = {side: language for side, (language, code) in given.items() if code is None}
    if not tokens.coded or not lacking:
        return
    options_needed = " ".join(f"--{side}-code {tokens.nearest(one)[0]}" for side, one in lacking.items())
    near = "; ".join(f"for {one}: {listed(tokens.nearest(one), 5)}" for one in lacking.values())
    raise DataError(
        f"{source} needs language codes, or its output language is undefined. Give {options_needed}. "
        f"Its codes include, {near}."
    )


def _tags(folder: Path) -> tuple[str, ...]:
    """The target tags of a shared network exported by loopmt; none for other networks."""
    file = folder / "tokenizer.json"
    added = read_config(file).get("added_tokens") if has_file(file) else None
    contents = (one.get("content") for one in added if isinstance(one, dict)) if isinstance(added, list) else ()
    return tuple(one for one in contents if isinstance(one, str) and _TAG.fullmatch(one))


def _describe(folder: Path, options: ImportOptions) -> None:
    try:
        model, unfit = fitting_model(folder)
    except (TypeError, AttributeError) as error:
        raise DataError(f"{folder / 'config.json'} does not describe a network: {error}.") from None
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    digests = {name: file_digest(folder / name) for name in sizes}
    whole = hashlib.sha256(json.dumps([digests, asdict(options)], sort_keys=True).encode()).hexdigest()
    notes = {"wish": asdict(options), "model": model, "unfit": unfit, "files": sizes, "digest": whole}
    write_json(folder / NOTES, notes)


def _try(folder: Path) -> None:
    generator = HuggingFaceGenerator(ImportedCheckpoint.open(folder), "cpu")
    try:
        generator.generate([_trial(generator.hops[0])], Generate(how="greedy"), DecodeLimits(longest=8), ("import",))
    except LoopmtError:
        raise
    except Exception as error:
        raise DataError(
            f"the checkpoint does not translate: {error}. Check that all its files and its language codes are given."
        ) from None


def _trial(hop: Hop) -> HopInput:
    return HopInput(hop, Sentences(None, hop.source, texts=["1, 2, 3."]))


def fitting_model(folder: Path) -> tuple[dict[str, Any], str]:
    """The [model] that the checkpoint can initialize, or the reason why it cannot."""
    config = load_config(folder)
    if _tags(folder):
        return {}, "it is one network for several directions, and initialization needs one network per direction"
    if config.model_type not in ("marian", "pegasus"):
        return {}, f"its architecture is {config.model_type}; initialization needs Marian or Pegasus"
    supported = {
        "activation_function": config.activation_function in ACTIVATIONS,
        "scale_embedding": config.scale_embedding,
        "tie_word_embeddings": config.tie_word_embeddings,
        "decoder_attention_heads": config.decoder_attention_heads == config.encoder_attention_heads,
        "decoder_ffn_dim": config.decoder_ffn_dim == config.encoder_ffn_dim,
    }
    if unlike := [f"{key} = {getattr(config, key)}" for key, fits in supported.items() if not fits]:
        return {}, f"networks of loopmt have no {', '.join(unlike)}"
    return {
        "norm": "post" if config.model_type == "marian" else "pre",
        **sizes_of(config),
    }, ""
