"""The tokenizer of a checkpoint: text of each direction to ids, and ids to training rows.

Checkpoints select languages in one of four ways: not at all (one direction), by language codes of the tokenizer
(M2M100, NLLB, mBART), by a tag before the source (OPUS-MT with several targets) or by a prompt (T5).

Ids in rows are shifted by three, after PAD, EOS and UNK of `text.ragged`, or permuted by a `Numbering`; rows have no
EOS of the tokenizer.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from loopmt.errors import DataError, listed
from loopmt.path import Hop
from loopmt.pretrained.numbering import Numbering
from loopmt.text.ragged import EOS, PAD, UNK, Ragged
from loopmt.text.vocab import UNKNOWN_WORD

LONGEST = 512  # subwords of a source; longer ones are truncated
_FIRST = 3  # the shift of the tokenizer's ids in rows
_CODE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|[\w-]+_New")
NEW = re.compile(r"new(:\S+)?")
"""The code of a language that the tokenizer lacks."""
_BLANK = re.compile(rf" *{UNKNOWN_WORD} *")
_MARK = "<BT> "  # before a source that is tagged as synthetic
Ids = list[list[int]]


@dataclass(frozen=True)
class ModelTokens:
    """A tokenizer and its way of selecting languages."""

    folder: Path  # for errors
    tokenizer: Any
    codes: Mapping[str, str] | None = None
    prompt: str | None = None
    numbering: Numbering | None = None  # the permutation of ids in rows; without one, ids are shifted

    # -- languages -------------------------------------------------------------------------------------------

    @cached_property
    def known_codes(self) -> list[str]:
        """The codes or tags of languages that the tokenizer has; empty for a checkpoint of one direction."""
        tokenizer = self.tokenizer
        if tags := getattr(tokenizer, "supported_language_codes", None):
            return [tag.strip("><") for tag in tags]
        if codes := getattr(tokenizer, "lang_code_to_token", None) or getattr(tokenizer, "lang_code_to_id", None):
            return list(codes)
        extra = getattr(tokenizer, "extra_special_tokens", None) or []
        return [str(token) for token in extra if _CODE.fullmatch(str(token))]

    @property
    def tagged(self) -> bool:
        """Whether sources begin with a tag of the target, as in OPUS-MT with several targets."""
        return bool(getattr(self.tokenizer, "supported_language_codes", None))

    @property
    def coded(self) -> bool:
        return bool(self.known_codes) and not self.tagged

    @property
    def multilingual(self) -> bool:
        """Whether it translates several directions."""
        return self.coded or self.tagged or self.prompt is not None

    def code(self, language: str) -> str:
        """The checkpoint's code of a language."""
        code = self.coded_name(language)
        if self.known_codes and code not in self.known_codes:
            raise DataError(
                f'{self.folder}: the tokenizer has no language code "{code}". Set model.codes = '
                f'{{ {language} = "{self.nearest(language, code)[0]}" }}, or another of its codes: '
                f"{listed(self.nearest(language, code))}."
            )
        return code

    def coded_name(self, language: str) -> str:
        """The code of a language, including the code that a new language gets."""
        code = (self.codes or {}).get(language, language)
        return f"{language}_New" if NEW.fullmatch(code) else code

    def nearest(self, language: str, code: str = "") -> list[str]:
        """Codes for a language, best match first."""
        alike = [one for one in self.known_codes if one.startswith(language.partition("_")[0])]
        near = difflib.get_close_matches(code, self.known_codes, n=5, cutoff=0.4)
        same = [one for one in self.known_codes if one == language]
        return list(dict.fromkeys([*same, *alike, *near, *self.known_codes]))

    def check(self, hop: Hop) -> None:
        """Raise an error if it lacks a language of the direction."""
        self.code(hop.target)
        if not self.tagged:
            self.code(hop.source)

    def forced(self, hop: Hop) -> dict[str, int]:
        """The `generate` setting for the language of the output."""
        if not self.coded:
            return {}
        return {"forced_bos_token_id": self._id(self.code(hop.target))}

    def _id(self, code: str) -> int:
        return int(getattr(self.tokenizer, "get_lang_id", self.tokenizer.convert_tokens_to_ids)(code))

    @cached_property
    def code_ids(self) -> frozenset[int]:
        """Ids of language codes, which are not text; some tokenizers do not list them as special tokens."""
        return frozenset(map(self._id, self.known_codes)) if self.coded else frozenset()

    # -- text ------------------------------------------------------------------------------------------------

    def read(self, texts: Sequence[str], hop: Hop, synthetic: bool = False) -> Ids:
        """Ids of sources for the encoder."""
        if not texts:
            return []
        tokenizer = self._for_hop(hop)
        return _lists(tokenizer([self._source(text, hop, synthetic) for text in texts], **self._cut).input_ids)

    def with_blanks(self, texts: Sequence[str]) -> list[str]:
        """Texts with blanked words (noise) as one token of the tokenizer: its mask token, otherwise unknown."""
        blank = self.tokenizer.mask_token or self.tokenizer.unk_token or "_"
        return [_BLANK.sub(f" {blank} ", text).strip() if UNKNOWN_WORD in text else text for text in texts]

    def targets(self, texts: Sequence[str], hop: Hop) -> Ids:
        """Ids of targets for the decoder."""
        if not texts:
            return []
        return _lists(self._for_hop(hop)(text_target=list(texts), **self._cut).input_ids)

    def text(self, ids: Tensor) -> list[str]:
        """The text of generated ids, without language codes and other special tokens."""
        return self._texts(ids.tolist())

    def decoded(self, rows: Ragged) -> list[str]:
        """The text of rows, which must have a numbering."""
        assert self.numbering is not None, "shifted rows are not decoded"
        return self._texts(self.numbering.ids(rows))

    def _texts(self, ids: Ids) -> list[str]:
        rows = [[one for one in row if one not in self.code_ids] for row in ids]
        return [text.strip() for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def _for_hop(self, hop: Hop) -> Any:
        if self.coded:
            self.tokenizer.src_lang, self.tokenizer.tgt_lang = self.code(hop.source), self.code(hop.target)
        return self.tokenizer

    def _source(self, text: str, hop: Hop, synthetic: bool) -> str:
        text = f"{_MARK}{text}" if synthetic else text
        if self.tagged:
            return f">>{self.code(hop.target)}<< {text}"
        if self.prompt is None:
            return text
        names = {"source_language": self.code(hop.source), "target_language": self.code(hop.target)}
        return _filled(self.prompt, {**names, "text": text})

    @property
    def _cut(self) -> dict[str, Any]:
        return {"truncation": True, "max_length": int(min(LONGEST, self.tokenizer.model_max_length))}

    # -- rows ------------------------------------------------------------------------------------------------

    def rows(self, ids: Ids) -> Ragged:
        """Ids as rows, without EOS."""
        end, unknown = self.tokenizer.eos_token_id, self.tokenizer.unk_token_id
        open_ids = [row[:-1] if row[-1:] == [end] else row for row in ids]
        if self.numbering is not None:
            return self.numbering.rows(open_ids)
        return Ragged.of([[UNK if one == unknown else one + _FIRST for one in row] for row in open_ids])

    def source_rows(self, ids: Ids) -> Ragged:
        """Sources as rows."""
        return self.rows(ids)

    def ids(self, rows_BL: Tensor, closed: bool) -> tuple[Tensor, Tensor]:
        """A table of rows as the model's ids, with its attention mask. If not `closed`, EOS is part of the rows."""
        special = {PAD: self.tokenizer.pad_token_id, EOS: self.tokenizer.eos_token_id, UNK: self.tokenizer.unk_token_id}
        ids, real = rows_BL - _FIRST, rows_BL != PAD
        for one, theirs in special.items():
            ids = ids.masked_fill(rows_BL == one, special[PAD] if theirs is None else theirs)
        if not closed:
            real = real & (rows_BL != EOS)
            ids = ids.masked_fill(~real, special[PAD])
        return ids, real

    @cached_property
    def sources_closed(self) -> bool:
        """Whether its sources end with EOS, and not with a code after it."""
        return self._closed(text=["a"])

    @cached_property
    def targets_closed(self) -> bool:
        return self._closed(text_target=["a"])

    def _closed(self, **text: list[str]) -> bool:
        if self.coded and self.tokenizer.tgt_lang is None:
            self.tokenizer.tgt_lang = self.known_codes[0]
        (ids,) = _lists(self.tokenizer(**text).input_ids)
        return bool(ids[-1] == self.tokenizer.eos_token_id)


def _filled(prompt: str, values: Mapping[str, str]) -> str:
    """Fill the prompt. `str.format` is not used, because text may contain braces."""
    return re.sub(r"\{(source_language|target_language|text)\}", lambda found: values[found[1]], prompt)


def _lists(rows: Sequence[Sequence[int]]) -> Ids:
    return [list(row) for row in rows]
