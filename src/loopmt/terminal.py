"""Text from elsewhere on a terminal: names, keys and learnt text are shown there, never obeyed."""

from __future__ import annotations

import re

# Line feed and tab are harmless; the last two ranges turn the reading order around, or are half a character.
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with control characters spelt out, as in \\x1b."""
    return _ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
