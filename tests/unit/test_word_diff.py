"""What the page compares: the walks that a request needs, and lines word by word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopmt.path import Hop, LanguagePath, ways
from loopmt.serve.round_trips import RoundTripPlan
from loopmt.serve.word_diff import differences, similarity, words


def test_ways_go_where_there_are_translators() -> None:
    hops = [Hop(*pair.split(">")) for pair in ("en>fr", "fr>en", "en>es", "es>en", "fr>es")]
    assert [way.languages for way in ways(Hop("en", "es"), hops)] == [("en", "es"), ("en", "fr", "es")]
    assert [way.languages for way in ways(Hop("es", "fr"), hops)] == [("es", "en", "fr")]
    plan = RoundTripPlan(LanguagePath.parse("en>fr>es"), hops, loops=True)
    assert plan.loops == [("en", "fr", "es", "en")]
    assert plan.ways == [("en", "es")]
    assert plan.work == 4  # en>fr, en>fr>es, en>fr>es>en, en>es


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The cat, you know.", ["The", "cat", ",", "you", "know", "."]),
        ("l'été «ici»", ["l'été", "«", "ici", "»"]),
        ("我爱你。", ["我", "爱", "你", "。"]),
        ("हिन्दी है।", ["हिन्दी", "है", "।"]),
        (" ", []),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_differences() -> None:
    found = list(differences("Is  it the red cat?", "Is it a red cat, then?"))
    assert found == [
        ("same", "Is  it"), ("lost", "the"), ("new", "a"), ("same", "red cat"), ("new", ", then"), ("same", "?"),
    ]  # fmt: skip


@given(st.text("ab .", max_size=20), st.text("ab .", max_size=20))
def test_differences_hold_both_lines(before: str, after: str) -> None:
    found = list(differences(before, after))
    assert words(" ".join(text for kind, text in found if kind != "new")) == words(before)
    new = sum(len(words(text)) for kind, text in found if kind == "new")
    same = sum(len(words(text)) for kind, text in found if kind == "same")
    assert new + same == len(words(after))
    assert 0 <= similarity(before, after) <= 1
    assert similarity(before, before) == 1
