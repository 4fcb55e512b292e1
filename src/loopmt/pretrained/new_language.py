"""Adds languages that a checkpoint's tokenizer lacks: each gets a code with an initial embedding.

The run's copy of the checkpoint is changed before anything else reads it. So all later steps, including exports, use a
checkpoint that supports the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loopmt.errors import DataError, listed
from loopmt.pretrained.checkpoint import load_pretrained, load_tokenizer
from loopmt.pretrained.tokens import NEW, ModelTokens


def add_languages(folder: Path, codes: Mapping[str, str], named: str) -> None:
    """Add the languages with code `new`, or `new:CODE` to copy another language's embedding; `named` is for errors."""
    new = {language: code for language, code in codes.items() if NEW.fullmatch(code)}
    if not new:
        return
    tokens = ModelTokens(Path(named), load_tokenizer(folder), codes)
    known = tokens.known_codes
    likes = {language: _like(tokens, code, known) for language, code in new.items()}
    extra = list(tokens.tokenizer.extra_special_tokens)
    added = {tokens.coded_name(language): like for language, like in likes.items()}
    tokens.tokenizer.add_special_tokens({"extra_special_tokens": [*extra, *added]})
    _embed(folder, tokens, added)
    tokens.tokenizer.save_pretrained(str(folder))


def _like(tokens: ModelTokens, code: str, known: list[str]) -> list[str]:
    """The codes whose mean embedding initializes a new code."""
    fixed = any(hasattr(tokens.tokenizer, name) for name in ("lang_code_to_token", "lang_code_to_id"))
    if fixed or not tokens.coded:
        kinds = "has a fixed list of languages" if fixed else "has no language codes"
        raise DataError(f'{tokens.folder}: model.codes: "{code}" adds a language, but its tokenizer {kinds}.')
    like = code.partition(":")[2]
    if like and like not in known:
        near = tokens.nearest(like, like)
        raise DataError(
            f'{tokens.folder}: model.codes: "{code}" copies the embedding of "{like}", which its tokenizer lacks. '
            f"Its codes include {listed(near, 5)}."
        )
    return [like] if like else known


def _embed(folder: Path, tokens: ModelTokens, likes: Mapping[str, list[str]]) -> None:
    """Write the weights with an embedding for each new code."""
    model, number = load_pretrained(folder), tokens.tokenizer.convert_tokens_to_ids
    most = max(map(number, likes)) + 1
    if most > model.config.vocab_size:
        model.resize_token_embeddings(most, mean_resizing=False)
    table = model.get_input_embeddings().weight.data
    for code, like in likes.items():
        table[number(code)] = table[[number(one) for one in like]].mean(0)
    for file in (*folder.glob("*.safetensors"), *folder.glob("*.safetensors.index.json")):
        file.unlink()
    model.save_pretrained(str(folder))
