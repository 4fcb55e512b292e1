"""Sentences passed between models: ids of a vocabulary, text, or both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, SupportsInt

import numpy as np

from loopmt.text.ragged import Ints, Ragged


class Codec(Protocol):
    """Converts text to ids and back: a `Vocab`, or the tokenizer of a pretrained model."""

    def encode(self, texts: Sequence[str], language: str) -> list[list[int]]:
        """The ids of each text, without EOS."""

    def decode(self, ids: Iterable[Iterable[SupportsInt]], language: str) -> list[str]:
        """The text of each row of ids, as one line."""


class Sentences:
    """Sentences of one language. Ids are computed from text, or text from ids, at first use.

    So models with one vocabulary exchange ids, and text is decoded only if it is needed.
    """

    def __init__(
        self, codec: Codec | None, language: str, *, ids: Ragged | None = None, texts: Sequence[str] | None = None
    ) -> None:
        """Without a codec, only the given side (ids or texts) is available."""
        self.codec = codec
        self.language = language
        self._ids = ids
        self._texts = None if texts is None else list(texts)

    @property
    def ids(self) -> Ragged:
        if self._ids is None:
            assert self.codec is not None, "sentences without a vocabulary have no ids"
            self._ids = Ragged.of(self.codec.encode(self.texts, self.language))
        return self._ids

    @property
    def texts(self) -> list[str]:
        if self._texts is None:
            assert self.codec is not None, "sentences without a vocabulary have no text"
            self._texts = self.codec.decode(self.ids.rows(), self.language)
        return self._texts

    def __len__(self) -> int:
        return len(self._ids) if self._ids is not None else len(self.texts)

    def take(self, numbers: Ints) -> Sentences:
        ids = None if self._ids is None else self._ids.take(np.asarray(numbers))
        texts = None if self._texts is None else [self._texts[number] for number in numbers]
        return Sentences(self.codec, self.language, ids=ids, texts=texts)
