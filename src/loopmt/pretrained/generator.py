"""An imported checkpoint as a frozen translator of text, with its own tokenizer and `generate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from loopmt.config import Generate
from loopmt.errors import DataError
from loopmt.files.documents import file_digest
from loopmt.files.regular import has_file
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import ImportedCheckpoint, load_model, load_tokenizer
from loopmt.pretrained.tokens import ModelTokens
from loopmt.rng import keyed_seed
from loopmt.text.ragged import Ints
from loopmt.translate.decoder import batches
from loopmt.translate.protocol import Codec, DecodeLimits, Floats, HopInput, Key, Sentences, Translations

_LONGEST = 512  # subwords of a source; longer ones are truncated
_SCORED = DecodeLimits(batch_tokens=4096, batch_rows=64)
_LOADED: WeakValueDictionary[tuple[str, ...], Any] = WeakValueDictionary()


class HuggingFaceGenerator:
    """A translation model of one direction, loaded at first use. Its outputs are sentences of `codec`."""

    def __init__(self, imported: ImportedCheckpoint, device: torch.device | str, codec: Codec | None = None) -> None:
        self._imported = imported
        self._codec = codec
        self.device = torch.device(device)
        self.hops: tuple[Hop, ...] = (imported.options.hop,)

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        return [self._translate(one, how, limits, key, n) for one in inputs]

    def _translate(self, one: HopInput, how: Generate, limits: DecodeLimits, key: Key, n: int) -> Translations:
        sources = self._read(one.sources.texts)
        texts, ended = [""] * (n * len(sources)), np.zeros(n * len(sources), dtype=np.bool_)
        width = max(how.beam if how.how == "beam" else 1, n)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):  # `generate` uses the global generator
            model = self._model  # loading also draws random numbers
            torch.manual_seed(keyed_seed(*key, str(one.hop), how.draw_key()))
            for rows in batches(_lengths(sources), limits, width):
                outputs, ends = self._generate(model, [sources[row] for row in rows], how, limits, n)
                for place, row in enumerate(np.repeat(rows, n) * n + np.tile(np.arange(n), len(rows))):
                    texts[row], ended[row] = outputs[place], ends[place]
        sentences = Sentences(self._codec, one.hop.target, texts=texts)
        scores = np.full(len(texts), np.nan)  # `generate` does not return likelihoods
        return Translations(sentences, scores, ended, np.full(len(sources), n, dtype=np.int64))

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        prefix = f"{self._imported.options.prefix} " if self._imported.options.prefix else ""
        read = self._tokenizer([prefix + text for text in texts], truncation=True, max_length=self._longest)
        return [list(ids) for ids in read.input_ids]

    def _generate(
        self, model: Any, sources: list[list[int]], how: Generate, limits: DecodeLimits, n: int
    ) -> tuple[list[str], list[bool]]:
        longest = limits.length(max(map(len, sources)))
        ids = model.generate(
            **self._batch(sources),
            max_length=None,
            max_new_tokens=longest,
            num_return_sequences=n,
            **generation_settings(how),
            **self._target,
        )
        # Some checkpoints force EOS into the last position; such an output was cut off.
        ended = (ids[:, 1:longest] == model.config.eos_token_id).any(1).tolist()
        return ModelTokens(self._imported.folder, self._tokenizer).text(ids), ended

    def _batch(self, sources: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        rows = [torch.tensor(source, device=self.device) for source in sources]
        return {
            "input_ids": pad_sequence(rows, batch_first=True, padding_value=self._tokenizer.pad_token_id),
            "attention_mask": pad_sequence([torch.ones_like(row) for row in rows], batch_first=True),
        }

    # -- scoring ---------------------------------------------------------------------------------------------

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        """Negative log-likelihoods; token counts are those of the checkpoint's own tokenizer."""
        never = self._model.generation_config.suppress_tokens if as_generated else None
        read, wanted = self._read(sources.texts), self._targets(targets.texts)
        losses = np.zeros(len(read))
        for rows in batches(np.maximum(_lengths(read), _lengths(wanted)), _SCORED):
            losses[rows] = self._losses([read[row] for row in rows], [wanted[row] for row in rows], never or [])
        return losses, _lengths(wanted)

    def _targets(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        read = self._tokenizer(text_target=list(texts), truncation=True, max_length=self._longest)
        return [list(ids) for ids in read.input_ids]

    @torch.no_grad()
    def _losses(self, sources: Sequence[list[int]], targets: Sequence[list[int]], never: list[int]) -> Floats:
        labels = pad_sequence([torch.tensor(row) for row in targets], batch_first=True, padding_value=-100)
        logits = self._model(**self._batch(sources), labels=labels.to(self.device)).logits
        logits[..., never] = -torch.inf
        losses = F.cross_entropy(logits.transpose(1, 2).float(), labels.to(self.device), reduction="none")
        found: Floats = losses.sum(1).double().cpu().numpy()
        return found

    # -- the checkpoint --------------------------------------------------------------------------------------

    @cached_property
    def _longest(self) -> int:
        return int(min(_LONGEST, self._tokenizer.model_max_length))

    @cached_property
    def _tokenizer(self) -> Any:
        options = self._imported.options
        tokenizer = load_tokenizer(self._imported.folder)
        if options.source_code is not None:
            tokenizer.src_lang = options.source_code
        if options.target_code is not None:
            tokenizer.tgt_lang = options.target_code
        return tokenizer

    @cached_property
    def _model(self) -> Any:
        """The module, which imports with the same weights share."""
        key = (str(self.device), *_identity(self._imported.folder))
        model = _LOADED.get(key)
        if model is None:
            model = _LOADED[key] = load_model(self._imported.folder).to(self.device)
        return model

    @cached_property
    def _target(self) -> dict[str, int]:
        """The `generate` setting that makes the language code the first output token of a multilingual decoder."""
        code = self._imported.options.target_code
        if code is None:
            return {}
        try:
            number = getattr(self._tokenizer, "get_lang_id", self._tokenizer.convert_tokens_to_ids)(code)
        except KeyError:
            number = None
        if number in (None, self._tokenizer.unk_token_id):
            raise DataError(
                f"{self._imported.folder}: its tokenizer has no language code {code}. Import it with another code."
            )
        return {"forced_bos_token_id": number}


def _lengths(rows: Sequence[Sequence[int]]) -> Ints:
    return np.array([len(row) for row in rows], dtype=np.int64)


def _identity(folder: Path) -> Iterator[str]:
    """The files from which a module is loaded, and its settings."""
    for file in sorted(folder.glob("*.safetensors")):
        status = file.stat()
        yield f"{status.st_dev}:{status.st_ino}"
    for name in ("config.json", "generation_config.json"):
        yield file_digest(folder / name) if has_file(folder / name) else ""


def generation_settings(how: Generate) -> dict[str, Any]:
    """`how` as arguments of `generate`."""
    if how.how == "sample":
        warmth = {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
        return {"do_sample": True, "num_beams": 1, **warmth}
    if how.how == "beam" and how.beam > 1:
        return {"do_sample": False, "num_beams": how.beam, "length_penalty": how.length_penalty}
    return {"do_sample": False, "num_beams": 1}
