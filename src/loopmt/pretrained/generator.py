"""An imported checkpoint as a frozen generator: text in, text out, through its own tokenizer and `generate`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from loopmt.config import Generate
from loopmt.errors import DataError
from loopmt.pretrained.checkpoint import Imported, load_model, load_tokenizer
from loopmt.translate.decoder import batches
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.text_translator import TextHypothesis

_LONGEST = 512  # subwords of a source; what is beyond is cut off


class HuggingFaceGenerator:
    """Loaded when it first speaks."""

    def __init__(self, imported: Imported, device: torch.device | str) -> None:
        self._imported = imported
        self._device = torch.device(device)

    def say(self, texts: Sequence[str], how: Generate, limits: DecodeLimits, seed: int) -> list[TextHypothesis]:
        sources = self._read(texts)
        generated: list[TextHypothesis] = [TextHypothesis("", False)] * len(texts)
        width = how.beam if how.how == "beam" else 1
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices):  # `generate` knows only the global generator
            model = self._model  # loading draws numbers, too
            torch.manual_seed(seed)
            for rows in batches(np.array([len(source) for source in sources], dtype=np.int64), limits, width):
                outputs = self._generate(model, [sources[row] for row in rows], how, limits)
                for row, output in zip(rows, outputs, strict=True):
                    generated[row] = output
        return generated

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        prefix = f"{self._imported.options.prefix} " if self._imported.options.prefix else ""
        longest = min(_LONGEST, self._tokenizer.model_max_length)
        read = self._tokenizer([prefix + text for text in texts], truncation=True, max_length=longest)
        return [list(ids) for ids in read.input_ids]

    def _generate(
        self, model: Any, sources: list[list[int]], how: Generate, limits: DecodeLimits
    ) -> list[TextHypothesis]:
        rows = [torch.tensor(source, device=self._device) for source in sources]
        longest = limits.length(max(map(len, sources)))
        ids = model.generate(
            input_ids=pad_sequence(rows, batch_first=True, padding_value=self._tokenizer.pad_token_id),
            attention_mask=pad_sequence([torch.ones_like(row) for row in rows], batch_first=True),
            max_length=None,
            max_new_tokens=longest,
            **_settings(how),
            **self._target,
        )
        # Some checkpoints force the end into the last place: that is no end of their own.
        ended = (ids[:, 1:longest] == model.config.eos_token_id).any(1).tolist()
        texts = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
        return [TextHypothesis(text.strip(), end) for text, end in zip(texts, ended, strict=True)]

    # -- what was imported -----------------------------------------------------------------------------------

    @cached_property
    def _tokenizer(self) -> Any:
        options = self._imported.options
        tokenizer = load_tokenizer(self._imported.folder)
        if options.source_code is not None:
            tokenizer.src_lang = options.source_code
        return tokenizer

    @cached_property
    def _model(self) -> Any:
        return load_model(self._imported.folder).to(self._device)

    @cached_property
    def _target(self) -> dict[str, int]:
        """A multilingual decoder is told its language by the first token it says."""
        code = self._imported.options.target_code
        if code is None:
            return {}
        try:
            number = getattr(self._tokenizer, "get_lang_id", self._tokenizer.convert_tokens_to_ids)(code)
        except KeyError:
            number = None
        if number in (None, self._tokenizer.unk_token_id):
            raise DataError(f"{self._imported.folder}: its tokenizer does not know the language code {code}.")
        return {"forced_bos_token_id": number}


def _settings(how: Generate) -> dict[str, Any]:
    if how.how == "sample":
        warmth = {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
        return {"do_sample": True, "num_beams": 1, **warmth}
    if how.how == "beam" and how.beam > 1:
        return {"do_sample": False, "num_beams": how.beam, "length_penalty": how.length_penalty}
    return {"do_sample": False, "num_beams": 1}
