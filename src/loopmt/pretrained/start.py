"""Initialization from an imported checkpoint: its weights in our network, its embeddings in our vocabulary.

Subwords of both vocabularies keep their embedding. A subword that only our vocabulary has starts as the mean embedding
of its segmentation by the checkpoint. Tags and subwords without a segmentation start fresh. All other weights are
copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from loopmt.config import Model
from loopmt.errors import ConfigError, DataError
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import ImportedCheckpoint, load_config, load_tokenizer
from loopmt.pretrained.tensors import checkpoint_tensors, embeddings_of
from loopmt.pretrained.weight_names import OUTPUT_BIAS, Tensors, from_hugging_face
from loopmt.text.ragged import EOS, PAD, UNK
from loopmt.text.vocab import Subwords, Vocab
from loopmt.translate.networks import NetworkStack

Rows = list[list[int]]  # for each of our subwords, the checkpoint's ids that are averaged; none: fresh


def check_fits(imported: ImportedCheckpoint, model: Model) -> None:
    """Raise an error if the experiment's network has another shape than the checkpoint."""
    if not imported.model:
        raise ConfigError(
            f'imported "{imported.options.hop}" cannot have use = "start": {imported.unfit}. Set use = "generator".'
        )
    ours = {**model.model_dump(), "decoder_layers": model.num_decoder_layers}
    unlike = [f"{key} = {value!r}" for key, value in imported.model.items() if ours[key] != value]
    if unlike:
        raise ConfigError(
            f'imported "{imported.options.hop}" does not fit [model]: set {", ".join(unlike)} there, '
            'or use = "generator".'
        )


def starting_weights(imported: ImportedCheckpoint, translators: NetworkStack, hop: Hop) -> dict[str, Tensor]:
    """The weights of one direction by our names; fresh rows of the tables do not change."""
    check_fits(imported, translators.model)
    tensors = checkpoint_tensors(imported.folder)
    places = {name: translators.named()[f"{hop}/{name}"].cpu().clone() for name in translators.layout.shapes}
    try:
        found = from_hugging_face(translators.model, tensors)
        found |= _tables(imported, tensors, translators.vocab, hop, places)
    except KeyError as missing:
        raise DataError(
            f"{imported.folder} has no tensor {missing}, which its config.json requires. Import it again."
        ) from None
    for name, place in places.items():
        if found[name].shape != place.shape:
            raise DataError(f"{imported.folder}: {name} is {tuple(found[name].shape)}, not {tuple(place.shape)}.")
    return {f"{hop}/{name}": tensor for name, tensor in found.items()}


# -- embeddings --------------------------------------------------------------------------------------------------


def _tables(
    imported: ImportedCheckpoint, tensors: Tensors, vocab: Vocab, hop: Hop, places: Tensors
) -> dict[str, Tensor]:
    config, tokenizer = load_config(imported.folder), load_tokenizer(imported.folder)
    source, target = embeddings_of(tensors)
    rows = {side: _rows(config, tokenizer, _pieces(vocab, hop, side), side) for side in ("source", "target")}
    either = (
        [min(row, other, key=_fragmentation) for row, other in zip(*rows.values(), strict=True)] if vocab.joint else []
    )
    bias = tensors.get(OUTPUT_BIAS, torch.zeros(1, len(target)))[0]
    found = {"output_bias": _moved(places["output_bias"], bias, either or rows["target"])}
    if vocab.joint:
        if source is not target:
            raise ConfigError(f'imported "{hop}" has an embedding table for each side: set vocab.sharing = "language".')
        return found | {"embed": _moved(places["embed"], target, either)}
    found["source_embed"] = _moved(places["source_embed"], source, rows["source"])
    found["target_embed"] = _moved(places["target_embed"], target, rows["target"])
    return found


def _fragmentation(row: list[int]) -> float:
    """The length of a segmentation, used to choose the side with fewer subwords."""
    return len(row) or float("inf")


def _moved(place: Tensor, theirs: Tensor, rows: Rows) -> Tensor:
    for one, row in enumerate(rows):
        if row:
            place[one] = theirs[row].mean(0)
    return place


def _pieces(vocab: Vocab, hop: Hop, side: str) -> list[str]:
    return Subwords(vocab.models[hop.source if side == "source" else hop.target]).pieces


def _rows(config: Any, tokenizer: Any, pieces: Sequence[str], side: str) -> Rows:
    theirs = their_ids(tokenizer, side)
    rows = [[theirs[piece]] if piece in theirs else [] for piece in pieces]
    rows[PAD], rows[EOS] = [config.decoder_start_token_id], [config.eos_token_id]
    rows[UNK] = [tokenizer.unk_token_id]
    lacking = [one for one in range(len(pieces)) if not rows[one] and not _is_special(pieces[one])]
    texts = [pieces[one].replace("\u2581", " ").strip() for one in lacking]
    for one, ids in zip(lacking, _spelt(tokenizer, texts, side), strict=True):
        rows[one] = [number for number in ids if number not in (tokenizer.unk_token_id, theirs.get("\u2581"))]
    return rows


def their_ids(tokenizer: Any, side: str) -> dict[str, int]:
    separate = side == "target" and getattr(tokenizer, "separate_vocabs", False)
    return dict(tokenizer.target_encoder if separate else tokenizer.get_vocab())


def vocabulary_overlap(
    imported: ImportedCheckpoint, vocab: Vocab, hop: Hop, pair: Sequence[list[str]]
) -> tuple[float, float]:
    """The share of our subwords that the checkpoint has: of the vocabulary, and of the occurrences in a text."""
    tokenizer = load_tokenizer(imported.folder)
    pieces, used = list[bool](), list[bool]()
    for side, language, texts in zip(("source", "target"), (hop.source, hop.target), pair, strict=True):
        theirs = their_ids(tokenizer, side)
        own = _pieces(vocab, hop, side)
        pieces += [piece in theirs for piece in own if not _is_special(piece)]
        used += [own[one] in theirs for row in vocab.encode(texts, language) for one in row]
    return sum(pieces) / max(len(pieces), 1), sum(used) / max(len(used), 1)


def _is_special(piece: str) -> bool:
    """Whether a piece is a tag or a byte."""
    return piece.startswith("<") and piece.endswith(">") and len(piece) > 2


def _spelt(tokenizer: Any, texts: list[str], side: str) -> list[list[int]]:
    if not texts:
        return []
    given = {"text": texts} if side == "source" else {"text_target": texts}
    return [list(ids) for ids in tokenizer(**given, add_special_tokens=False).input_ids]
