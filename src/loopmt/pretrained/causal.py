"""Decoder-only language models as translators: the prompt, then the translation, in one sequence.

A sequence is the source (the filled prompt, within the tokenizer's chat template if it has one), then the target and
EOS. The loss is that of the target only. Sources are padded on the left, so that targets begin in one column.

Shapes: B rows, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from loopmt.config import Generate
from loopmt.errors import DataError
from loopmt.path import Hop
from loopmt.pretrained.generator import generation_settings
from loopmt.pretrained.network import IGNORED, PretrainedNetwork
from loopmt.pretrained.tokens import LONGEST, Ids, ModelTokens
from loopmt.text.ragged import Ragged
from loopmt.translate.protocol import DecodeLimits

_PROMPT = "Translate {source_language} to {target_language}: {text}"


@dataclass(frozen=True)
class CausalTokens(ModelTokens):
    """The tokenizer of a decoder-only model; a prompt selects the languages."""

    chat: bool | None = None  # whether to use the chat template; None: if there is one
    stop: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.chat and not self.tokenizer.chat_template:
            raise DataError(f"{self.folder}: model.chat = true, but its tokenizer has no chat template. Remove chat.")

    @property
    def chats(self) -> bool:
        return bool(self.tokenizer.chat_template) if self.chat is None else self.chat

    @property
    def known_codes(self) -> list[str]:
        """Empty, because languages are words of the prompt."""
        return []

    def check(self, hop: Hop) -> None:
        if self.prompt is None:
            raise DataError(
                f"{self.folder} is a decoder-only language model, which needs a prompt. Set, for example, "
                f'model.prompt = "{_PROMPT}".'
            )

    def read(self, texts: Sequence[str], hop: Hop, synthetic: bool = False) -> Ids:
        """Ids of the prompts. A long sentence is truncated, but not the text after it in the prompt."""
        if not texts:
            return []
        prompts = [self._source(self._shortened(text), hop, synthetic) for text in texts]
        if self.chats:
            prompts = [self.dialogue(prompt) for prompt in prompts]
        end = self.tokenizer.eos_token_id
        found = self.tokenizer(prompts, add_special_tokens=not self.chats).input_ids
        return [list(ids[:-1] if ids[-1:] == [end] and not self.chats else ids) for ids in found]

    def filled(self, text: str, hop: Hop) -> str:
        """The prompt filled with a sentence."""
        return self._source(text, hop, synthetic=False)

    def dialogue(self, prompt: str) -> str:
        """The prompt as the user's turn, up to the beginning of the answer."""
        turns = [{"role": "user", "content": prompt}]
        return cast(str, self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    def _shortened(self, text: str) -> str:
        if len(text.encode()) <= LONGEST:  # no subword is shorter than a byte
            return text
        ids = self.tokenizer(text, add_special_tokens=False).input_ids
        return text if len(ids) <= LONGEST else cast(str, self.tokenizer.decode(ids[:LONGEST]))

    def targets(self, texts: Sequence[str], hop: Hop) -> Ids:
        if not texts:
            return []
        found = self.tokenizer(list(texts), add_special_tokens=False, truncation=True, max_length=LONGEST).input_ids
        return [[*ids, self.tokenizer.eos_token_id] for ids in found]

    def text(self, ids: Tensor) -> list[str]:
        return [" ".join(self.until_stop(text).split()) for text in super().text(ids)]

    def until_stop(self, text: str) -> str:
        """The text before the first stop string."""
        return text[: min((text.find(one) for one in self.stop if one in text), default=len(text))]

    def prompt_length(self, hop: Hop) -> int:
        """The number of subwords around a sentence, which do not affect the length of its translation."""
        (ids,) = self.read([""], hop)
        return len(ids)

    def source_rows(self, ids: Ids) -> Ragged:
        """Rows that keep an EOS at the end of a prompt, because it belongs to the chat template."""
        end = self.tokenizer.eos_token_id
        return self.rows([[*row, end] for row in ids])

    @cached_property
    def sources_closed(self) -> bool:
        return False

    @cached_property
    def targets_closed(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class CausalNetwork(PretrainedNetwork):
    """A decoder-only module."""

    tokens: CausalTokens

    def __post_init__(self) -> None:
        """Make `generate` also stop at the EOS of training."""
        config = self.model.generation_config
        ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        if self.tokens.tokenizer.eos_token_id not in ends:
            own = [self.tokens.tokenizer.eos_token_id, *ends]
            config.eos_token_id = [end for end in own if end is not None]

    @torch.no_grad()
    def generate(self, sources: Ids, hop: Hop, how: Generate, limits: DecodeLimits, n: int) -> list[tuple[str, bool]]:
        self.model.eval()
        batch = self._batch(sources)
        with self._computing():
            ids = self.model.generate(
                **batch,
                max_length=None,
                max_new_tokens=limits.length(max(map(len, sources)) - self.tokens.prompt_length(hop)),
                num_return_sequences=n,
                pad_token_id=self.tokens.tokenizer.pad_token_id,
                **generation_settings(how),
                **self.stopping,
            )
        made = ids[:, batch["input_ids"].shape[1] :]
        return list(zip(self.tokens.text(made), self._ended(made), strict=True))

    @property
    def stopping(self) -> dict[str, Any]:
        """The settings of `generate` for stop strings."""
        stop = list(self.tokens.stop)
        return {"stop_strings": stop, "tokenizer": self.tokens.tokenizer} if stop else {}

    def _ended(self, ids_BT: Tensor) -> list[bool]:
        config = self.model.generation_config.eos_token_id
        ends = torch.tensor(config if isinstance(config, list) else [config], device=ids_BT.device)
        whole = torch.isin(ids_BT, ends).any(1).tolist()
        texts = self.tokens.tokenizer.batch_decode(ids_BT, skip_special_tokens=True)
        return [end or any(one in text for one in self.tokens.stop) for end, text in zip(whole, texts, strict=True)]

    def _batch(self, sources: Ids) -> dict[str, Tensor]:
        rows = [torch.tensor(source, dtype=torch.long) for source in sources]
        real = [torch.ones_like(row) for row in rows]
        pad = self.tokens.tokenizer.pad_token_id
        return {
            "input_ids": pad_sequence(rows, batch_first=True, padding_value=pad, padding_side="left").to(self.device),
            "attention_mask": pad_sequence(real, batch_first=True, padding_side="left").to(self.device),
        }

    def learning_logits(self, source_BS: Tensor, target_BT: Tensor, dropout: bool = True) -> Tensor:
        self.model.train(dropout)
        ids, real = self.tokens.ids(source_BS, self.tokens.sources_closed)
        order = real.long().argsort(dim=1, stable=True)  # padding first
        batch = {"input_ids": ids.gather(1, order), "attention_mask": real.long().gather(1, order)}
        return self._logits(batch, self.labels(target_BT))

    def _logits(self, batch: Any, labels: Tensor) -> Tensor:
        """The logits of the target's tokens (B, T, V); the last token is not an input."""
        given = labels[:, :-1]
        targets = given.masked_fill(given == IGNORED, self.tokens.tokenizer.pad_token_id)
        real = torch.cat([batch["attention_mask"], (given != IGNORED).long()], 1)
        settings = {"position_ids": (real.cumsum(1) - 1).clamp_min(0), "logits_to_keep": labels.shape[1]}
        known = {name: value for name, value in settings.items() if name in self._arguments}
        ids = torch.cat([batch["input_ids"], targets], 1)
        with self._computing():
            found = self.model(input_ids=ids, attention_mask=real, use_cache=False, **known)
        return cast(Tensor, found.logits)[:, -labels.shape[1] :].float()

    @cached_property
    def _arguments(self) -> frozenset[str]:
        """The arguments that its forward pass accepts; some architectures have no argument for positions."""
        return frozenset(inspect.signature(self.model.forward).parameters)
