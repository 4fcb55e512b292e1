"""One checkpoint as a network: module, tokenizer, and trainable tensors.

Shapes: B rows, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from loopmt.config import Generate
from loopmt.model.policy_gradient import drawn_log_probs
from loopmt.path import Hop
from loopmt.pretrained.generator import generation_settings
from loopmt.pretrained.tokens import Ids, ModelTokens
from loopmt.text.ragged import Ints
from loopmt.translate.protocol import DecodeLimits, Floats

_INNER_SIZES = ("encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "intermediate_size")
IGNORED = -100  # the label of positions without loss


@dataclass(frozen=True, eq=False)
class PretrainedNetwork:
    """A Hugging Face module with its trainable tensors."""

    model: Any
    tokens: ModelTokens
    device: torch.device
    precision: torch.dtype = torch.float32  # of computation on CUDA; weights are float32

    @cached_property
    def trainable(self) -> dict[str, torch.nn.Parameter]:
        return {name: tensor for name, tensor in self.model.named_parameters() if tensor.requires_grad}

    @property
    def adapted(self) -> bool:
        """Whether it has an adapter."""
        return any("lora_" in name for name in self.trainable)

    def activation_bytes(self) -> float:
        """Memory per token position: the states of each block, and the logits."""
        config = self.model.config
        size = 2 if self.device.type == "cuda" and self.precision == torch.bfloat16 else 4
        layers = getattr(config, "num_hidden_layers", 6)
        inner = max(getattr(config, name, 0) or 0 for name in _INNER_SIZES)
        return float(layers * (32 * config.hidden_size + 4 * inner) * size + config.vocab_size * (size + 8))

    # -- generation ------------------------------------------------------------------------------------------

    @torch.no_grad()
    def generate(self, sources: Ids, hop: Hop, how: Generate, limits: DecodeLimits, n: int) -> list[tuple[str, bool]]:
        """`n` texts of each source, in order, and whether each ended with EOS."""
        self.model.eval()
        longest = limits.length(max(map(len, sources)))
        with self._computing():
            ids = self.model.generate(
                **self._batch(sources),
                max_length=None,
                max_new_tokens=longest,
                num_return_sequences=n,
                **generation_settings(how),
                **self.tokens.forced(hop),
            )
        # Some checkpoints force EOS into the last position; such an output was cut off.
        ended = (ids[:, 1:longest] == self.tokens.tokenizer.eos_token_id).any(1).tolist()
        return list(zip(self.tokens.text(ids), ended, strict=True))

    # -- scoring and learning --------------------------------------------------------------------------------

    @torch.no_grad()
    def losses(self, sources: Ids, targets: Ids, never: Sequence[int] = ()) -> Floats:
        """Negative log-likelihood of each target; tokens in `never` are masked."""
        self.model.eval()
        labels = _padded(targets, IGNORED).to(self.device)
        logits = self._logits(self._batch(sources), labels)
        logits[..., list(never)] = -torch.inf
        losses = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
        found: Floats = losses.sum(1).double().cpu().numpy()
        return found

    @torch.no_grad()
    def drawn_scores(self, sources: Ids, targets: Ids, how: Generate) -> Floats:
        """The log-probability with which `how` draws each target."""
        self.model.eval()
        labels = _padded(targets, IGNORED).to(self.device)
        logits = self._logits(self._batch(sources), labels) + self.drawable
        found: Floats = drawn_log_probs(logits, self.drawn(labels), how).double().cpu().numpy()
        return found

    def drawn(self, labels_BT: Tensor) -> Tensor:
        """Labels without language codes, which are given and not drawn."""
        codes = torch.tensor(sorted(self.tokens.code_ids), device=self.device, dtype=torch.long)
        return labels_BT.masked_fill(torch.isin(labels_BT, codes), IGNORED)

    @cached_property
    def drawable(self) -> Tensor:
        """(V,), -inf at tokens that are never generated."""
        mask = torch.zeros(self.model.get_output_embeddings().weight.shape[0], device=self.device)
        settings = self.model.generation_config
        single = [words[0] for words in settings.bad_words_ids or () if len(words) == 1]
        mask[[*(settings.suppress_tokens or ()), *single]] = -torch.inf
        return mask

    def learning_logits(self, source_BS: Tensor, target_BT: Tensor, dropout: bool = True) -> Tensor:
        """Logits (B, T, V) with teacher forcing."""
        self.model.train(dropout)
        ids, real = self.tokens.ids(source_BS, self.tokens.sources_closed)
        return self._logits({"input_ids": ids, "attention_mask": real.long()}, self.labels(target_BT))

    def labels(self, target_BT: Tensor) -> Tensor:
        ids, real = self.tokens.ids(target_BT, self.tokens.targets_closed)
        return ids.masked_fill(~real, IGNORED)

    def token_losses(self, logits_BTV: Tensor, target_BT: Tensor, smoothing: float) -> Tensor:
        """The label-smoothed loss of every token (B, T); 0 at padding."""
        labels = self.labels(target_BT)
        return F.cross_entropy(
            logits_BTV.transpose(1, 2), labels, ignore_index=IGNORED, label_smoothing=smoothing, reduction="none"
        )

    def _logits(self, batch: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        with self._computing():
            found = self.model(**batch, decoder_input_ids=self._shifted(labels), use_cache=False)
        return cast(Tensor, found.logits).float()

    def _shifted(self, labels: Tensor) -> Tensor:
        """Decoder inputs for `labels`, shifted as the architecture does it."""
        if hasattr(self.model, "prepare_decoder_input_ids_from_labels"):
            return cast(Tensor, self.model.prepare_decoder_input_ids_from_labels(labels=labels))
        shift = import_module(type(self.model).__module__).shift_tokens_right
        config = self.model.config
        return cast(Tensor, shift(labels, config.pad_token_id, config.decoder_start_token_id))

    def _batch(self, sources: Ids) -> dict[str, Tensor]:
        ids = _padded(sources, self.tokens.tokenizer.pad_token_id)
        lengths = torch.tensor([len(source) for source in sources])[:, None]
        real = (torch.arange(ids.shape[1]) < lengths).long()
        return {"input_ids": ids.to(self.device), "attention_mask": real.to(self.device)}

    def _computing(self) -> AbstractContextManager[object]:
        if self.device.type == "cuda" and self.precision != torch.float32:
            return torch.autocast("cuda", self.precision)
        return nullcontext()


def _padded(rows: Ids, value: int) -> Tensor:
    return pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=value)


def lengths_of(ids: Ids) -> Ints:
    return np.array([len(row) for row in ids], dtype=np.int64)
