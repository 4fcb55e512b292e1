"""Suggests the language that a mistyped or unknown code probably means."""

from __future__ import annotations

from collections.abc import Iterable

_OTHER_CODES = {
    "cz": "cs", "jp": "ja", "se": "sv", "dk": "da", "gr": "el", "kr": "ko", "cn": "zh", "ua": "uk", "ee": "et",
    "rs": "sr", "vn": "vi", "il": "he", "iw": "he", "in": "hi", "uk": "en", "gb": "en", "us": "en", "br": "pt",
    "ger": "de", "deu": "de", "spa": "es", "cze": "cs", "ces": "cs", "chi": "zh", "zho": "zh", "swe": "sv", "pol": "pl",
    "por": "pt", "tur": "tr", "slv": "sl", "slk": "sk", "est": "et", "gre": "el", "ell": "el", "dut": "nl", "nld": "nl",
    "swa": "sw", "swh": "sw", "jpn": "ja", "kor": "ko", "ind": "id", "isl": "is", "gle": "ga", "mlg": "mg",
}  # fmt: skip
"""Country codes and three-letter codes that users write for a two-letter language code."""


def meant_language(code: str, known: Iterable[str]) -> str | None:
    """The known language that a code probably means: an alias, or the same code within other letters."""
    languages = {language.lower(): language for language in known}
    low = code.lower()
    for one in (low, low.split("_")[0].split("-")[0], _OTHER_CODES.get(low), low[:2] if len(low) > 2 else None):
        if one in languages:
            return languages[one]
    backward = [language for language in languages if _OTHER_CODES.get(language) == low]
    return languages[backward[0]] if backward else None


def did_you_mean(code: str, known: Iterable[str]) -> str:
    """A hint that follows the sentence of an error; empty if no language is near."""
    near = meant_language(code, known)
    return f" Did you mean {near}?" if near else ""
