"""Comparisons on the page: the paths of a request, and lines word by word."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopmt.path import Hop, LanguagePath, ways
from loopmt.serve.round_trips import RoundTripPlan
from loopmt.text.word_diff import differences, matches, similarity, words


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


def longest(one: str, other: str) -> int:
    """Length of a longest common subsequence, by the textbook's table."""
    row = [0] * (len(other) + 1)
    for letter in one:
        before = row[:]
        for place, theirs in enumerate(other):
            row[place + 1] = before[place] + 1 if letter == theirs else max(row[place], before[place + 1])
    return row[-1]


@given(st.text("abc", max_size=30), st.text("abc", max_size=30))
def test_common_words_form_a_longest_subsequence(one: str, other: str) -> None:
    found = matches(one, other)
    assert len(found) == longest(one, other)
    assert all(one[row] == other[column] for row, column in found)
    assert all(here[0] < there[0] and here[1] < there[1] for here, there in pairwise(found))


@pytest.mark.parametrize(("before", "after"), [("." * 2000, ".," * 1000), (".," * 4000, ",." * 4000)])
def test_repeated_words_are_compared_in_bounded_time(before: str, after: str) -> None:
    """A comparison that repeatedly searches the longest block takes minutes for these lines."""
    began = time.process_time()
    found = list(differences(before, after))
    assert similarity(before, after) >= 0.5
    assert time.process_time() - began < 2
    assert sum(len(words(text)) for kind, text in found if kind != "new") == len(before)


def test_lines_too_long_to_align_share_their_ends() -> None:
    found = list(differences("first " + "a b " * 5000 + "last", "first " + "b a " * 5000 + "last"))
    assert [kind for kind, _ in found] == ["same", "lost", "new", "same"]
