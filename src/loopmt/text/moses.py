"""Moses tokenisation and detokenisation (`data.pretokenize`)."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _tokenizer(language: str) -> Any:
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang=_code(language))


@cache
def _detokenizer(language: str) -> Any:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(lang=_code(language))


def _code(language: str) -> str:
    """zh_Hans is zh to Moses; a language it does not know is treated as English."""
    return language.partition("_")[0]


def knows(language: str) -> bool:
    """Whether Moses has rules of its own for the language."""
    from sacremoses.corpus import NonbreakingPrefixes

    return _code(language) in {*NonbreakingPrefixes().available_langs.values(), "ja", "ko"}


def tokenize(text: str, language: str) -> str:
    return str(_tokenizer(language).tokenize(text, return_str=True, escape=False))


def detokenize(text: str, language: str) -> str:
    return str(_detokenizer(language).detokenize(text.split(" "), unescape=False))
