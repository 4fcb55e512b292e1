"""A Hugging Face checkpoint comes in: copied without anything that could run code, described, tried once.

What is read are tensors (safetensors), JSON and subword models; a pickle is refused. A checkpoint in the shape of
Marian or Pegasus can be a start for training; any that generates can be a frozen generator.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loopmt.config import Generate
from loopmt.errors import DataError, LoopmtError, listed
from loopmt.files.checksums import file_digest
from loopmt.files.folder import appearing
from loopmt.files.regular import TEXT_LIMIT, has_file, reading
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import NOTES, Imported, ImportOptions, load_config, load_tokenizer
from loopmt.pretrained.generator import HuggingFaceGenerator
from loopmt.pretrained.tokens import ModelTokens
from loopmt.pretrained.untrusted import CONFIGS, read_config, refuse_code, tensor_shapes, without_steering
from loopmt.run import write_json
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.protocol import HopInput
from loopmt.translate.sentences import Sentences

_WEIGHTS = ".safetensors"
TAKEN = {_WEIGHTS, ".json", ".spm", ".model", ".txt"}
_LEFT = {"adapter_config.json", "adapter_model.safetensors"}  # which would be put on top of the weights
_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
_TAG = re.compile(r"<2\w+>")


def import_hugging_face(source: Path, into: Path, options: ImportOptions) -> Imported:
    """Copy a checkpoint; it is there only if it loads offline and translates."""
    _check_safe(source)
    with appearing(into) as draft, _told_of(source, draft):
        _copy(source, draft)
        _check_prefix(draft, options)
        _check_codes(draft, source, options)
        _describe(draft, options)
        _try(draft)
    return Imported.open(into)


def copy_safely(source: Path, into: Path) -> None:
    """Copy the files of a checkpoint that cannot run code, into a new folder."""
    _check_safe(source)
    into.mkdir()
    with _told_of(source, into):
        _copy(source, into)


@contextmanager
def _told_of(source: Path, copy: Path) -> Iterator[None]:
    """Errors name the user's files, not the copies, which are gone."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error).replace(str(copy), str(source))) from None


def _check_safe(source: Path) -> None:
    files = [file.name for file in source.iterdir()] if source.is_dir() else [source.name]
    if _is_ctranslate2(files):
        raise DataError(
            f"{source} is a CTranslate2 model, which only CTranslate2 reads. Import the Hugging Face checkpoint that "
            "it was made from; of a run of ours `loopmt export RUN --to hf --out DIR` writes it."
        )
    pickles = [name for name in files if Path(name).suffix.lower() in _PICKLES]
    if pickles and not any(name.endswith(".safetensors") for name in files):
        raise DataError(_only_a_pickle(source, pickles[0]))
    if not source.exists():
        raise DataError(f"there is no {source}. Name the folder of a Hugging Face checkpoint on this machine.")
    if "config.json" not in files:
        raise DataError(f"{source} is no Hugging Face checkpoint: it has no config.json.{_checkpoints_in(source)}")
    if not any(name.endswith(".safetensors") for name in files):
        raise DataError(f"{source} has no weights: no .safetensors file.")


def _checkpoints_in(source: Path) -> str:
    """An export has a folder for each direction."""
    found = sorted(file.parent.name for file in source.glob("*/config.json"))
    return f" It holds some: {', '.join(found)}; name one of them." if found else ""


def _is_ctranslate2(files: list[str]) -> bool:
    """Beside its model.bin lie vocabularies under names that no Hugging Face checkpoint has."""
    return "model.bin" in files and any(re.fullmatch(r"\w+_vocabulary\.(json|txt)", name) for name in files)


def _only_a_pickle(source: Path, pickle: str) -> str:
    folder = source if source.is_dir() else source.parent
    return (
        f"{source} has its weights only as a pickle ({pickle}), and reading a pickle can run code. Convert it "
        'where you trust it: python -c "from transformers import AutoModelForSeq2SeqLM as M; '
        f"M.from_pretrained('{folder}').save_pretrained('{folder}')\", which writes model.safetensors beside it."
    )


def _copy(source: Path, into: Path) -> None:
    """Settings first, then weights, which may be large. Links are followed in a cache of Hugging Face alone."""
    files = [file for file in source.iterdir() if file.suffix in TAKEN and file.name not in _LEFT]
    for file in sorted(files, key=lambda file: (file.suffix == _WEIGHTS, file.name)):
        place = _blob(file) or file
        most: int | None = TEXT_LIMIT
        if file.suffix == _WEIGHTS:
            refuse_code(into)
            tensor_shapes(place)  # it must be as large as its header says
            most = None
        with reading(place, most) as stream, (into / file.name).open("xb") as copy:
            shutil.copyfileobj(stream, copy)
        if file.name in CONFIGS:
            _write_plain(into / file.name)


def _write_plain(config: Path) -> None:
    found = read_config(config)
    if (plain := without_steering(found)) != found:
        write_json(config, plain)


def _blob(file: Path) -> Path | None:
    """In a cache, snapshots/REVISION/NAME is a link to blobs/DIGEST beside snapshots."""
    revision = file.parent.resolve()
    blob = revision / file.readlink() if file.is_symlink() else None
    blobs = revision.parent.parent / "blobs"
    if blob is None or revision.parent.name != "snapshots" or blob.parent.resolve() != blobs:
        return None
    return blobs / blob.name


def _check_prefix(folder: Path, options: ImportOptions) -> None:
    """A network that several directions share says anything, unless its source begins with the target's tag."""
    tags = _tags(folder)
    if tags and not options.prefix.startswith(tags):
        own = f"<2{options.hop.target}>"
        which = f'--prefix "{own}"' if own in tags else f"--prefix and one of its tags: {', '.join(tags)}"
        raise DataError(
            f"{folder} is one network for several directions, which is told its target at the beginning of every "
            f"source. Give {which}."
        )


def _check_codes(folder: Path, source: Path, options: ImportOptions) -> None:
    """A model that is told its languages by codes speaks any language without them."""
    tokens = ModelTokens(source, load_tokenizer(folder))
    given = {"source": (options.hop.source, options.source_code), "target": (options.hop.target, options.target_code)}
    lacking = {side: language for side, (language, code) in given.items() if code is None}
    if not tokens.coded or not lacking:
        return
    options_needed = " ".join(f"--{side}-code {tokens.nearest(one)[0]}" for side, one in lacking.items())
    near = "; ".join(f"for {one}: {listed(tokens.nearest(one), 5)}" for one in lacking.values())
    raise DataError(
        f"{source} is told its languages by codes; without, it speaks any. Give {options_needed}. There are, {near}."
    )


def _tags(folder: Path) -> tuple[str, ...]:
    """Those that a shared network of our own export is told its target by; none where it is no such network."""
    file = folder / "tokenizer.json"
    added = read_config(file).get("added_tokens") if has_file(file) else None
    contents = (one.get("content") for one in added if isinstance(one, dict)) if isinstance(added, list) else ()
    return tuple(one for one in contents if isinstance(one, str) and _TAG.fullmatch(one))


def _describe(folder: Path, options: ImportOptions) -> None:
    try:
        model, unfit = fitting_model(folder)
    except (TypeError, AttributeError) as error:
        raise DataError(f"{folder}: its config.json does not describe a network: {error}.") from None
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    digests = {name: file_digest(folder / name) for name in sizes}
    whole = hashlib.sha256(json.dumps([digests, asdict(options)], sort_keys=True).encode()).hexdigest()
    notes = {"wish": asdict(options), "model": model, "unfit": unfit, "files": sizes, "digest": whole}
    write_json(folder / NOTES, notes)


def _try(folder: Path) -> None:
    generator = HuggingFaceGenerator(Imported.open(folder), "cpu")
    try:
        generator.generate([_trial(generator.hops[0])], Generate(how="greedy"), DecodeLimits(longest=8), ("import",))
    except LoopmtError:
        raise
    except Exception as error:
        raise DataError(
            f"the checkpoint does not translate: {error}. Is it whole, and are its language codes given?"
        ) from None


def _trial(hop: Hop) -> HopInput:
    return HopInput(hop, Sentences(None, hop.source, texts=["1, 2, 3."]))


def fitting_model(folder: Path) -> tuple[dict[str, Any], str]:
    """The [model] that the checkpoint can be a start for, or why there is none."""
    config = load_config(folder)
    if _tags(folder):
        return {}, "it is one network for several directions, and a start has one for its own"
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
