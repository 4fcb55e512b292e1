"""Which language a mistyped code probably means."""

from __future__ import annotations

import pytest

from loopmt.languages import meant_language


@pytest.mark.parametrize(
    ("code", "known", "meant"),
    [
        ("cz", ["en", "cs"], "cs"),
        ("EN", ["en", "cs"], "en"),
        ("fra", ["en", "fr"], "fr"),
        ("spa", ["en", "es"], "es"),
        ("swh_Latn", ["en", "swh"], "swh"),
        ("sw", ["en", "swh"], "swh"),
        ("en-GB", ["en", "fr"], "en"),
        ("it", ["en", "fr"], None),
        ("xx", [], None),
    ],
)
def test_what_a_code_means(code: str, known: list[str], meant: str | None) -> None:
    assert meant_language(code, known) == meant
