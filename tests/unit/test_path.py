"""Paths: parsing and printing, expanding patterns, paths that the data supplies, and errors."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.facts import missing, refused
from loopmt.errors import PathError
from loopmt.path import Hop, LanguagePath, Pattern, Supply, expand_fed

THREE, FOUR = ["en", "fr", "es"], ["en", "fr", "es", "de"]
ALL = Supply.of(itertools.combinations(FOUR, 2), FOUR)
STAR = Supply.of([("en", "fr"), ("en", "es"), ("en", "de")], FOUR)

languages = st.sampled_from(["en", "fr", "es", "de", "zh_Hans", "x1"])
places = st.one_of(languages, st.sampled_from("XYZW"))


@st.composite
def walks(draw: st.DrawFn, place: st.SearchStrategy[str] = languages) -> tuple[str, ...]:
    walk = [draw(place)]
    for _ in range(draw(st.integers(1, 5))):
        walk.append(draw(place.filter(lambda name: name != walk[-1])))
    return tuple(walk)


@given(walks())
def test_a_path_prints_as_it_is_read(walk: tuple[str, ...]) -> None:
    path = LanguagePath(walk)
    assert LanguagePath.parse(str(path)) == path
    assert LanguagePath.parse(" > ".join(walk)) == path


@given(walks(places), st.booleans())
def test_a_pattern_prints_as_it_is_read(walk: tuple[str, ...], backward: bool) -> None:
    pattern = Pattern(walk, backward and len(walk) > 2)
    assert Pattern.parse(str(pattern)) == pattern
    assert {*pattern.variables, *pattern.named} == set(walk)


@given(walks())
def test_every_hop_but_the_last_generates(walk: tuple[str, ...]) -> None:
    path = LanguagePath(walk)
    assert (*path.generating, path.taught) == path.hops
    assert path.ends == (walk[0], walk[-1])
    assert path.closed == (walk[0] == walk[-1])
    assert ">".join([path.hops[0].source, *(hop.target for hop in path.hops)]) == str(path)
    assert all(hop.reverse.reverse == hop for hop in path.hops)


@given(walks().filter(lambda walk: len(walk) > 2))
def test_a_backward_arrow_reverses_only_the_last_hop(walk: tuple[str, ...]) -> None:
    there, back = LanguagePath(walk), LanguagePath(walk, backward=True)
    assert (back.generating, back.taught) == (there.generating, there.taught.reverse)
    assert (back.ends, back.closed, back.loop) == (there.ends, there.closed, False)
    assert str(back) == str(there)[::-1].replace(">", "<", 1)[::-1]


@given(walks(places), st.permutations([*FOUR, "zh_Hans", "x1"]))
def test_an_expansion_keeps_the_pattern(walk: tuple[str, ...], known: list[str]) -> None:
    pattern = Pattern(walk)
    paths = pattern.expand(known)
    assert len(set(paths)) == len(paths)
    for path in paths:
        bound = dict(zip(walk, path.languages, strict=True))
        assert tuple(bound[place] for place in walk) == path.languages
        assert len(set(bound.values())) == len(bound)
        assert all(bound[name] == name for name in pattern.named)


@pytest.mark.parametrize(
    ("pattern", "three", "four"),
    [
        ("X>Y", 6, 12),
        ("X>Y>X", 6, 12),
        ("X>Y>Z>X", 6, 24),
        ("X>Z>Y", 6, 24),
        ("X>Y>Z>W>X", 0, 24),
        ("en>X>en", 2, 3),
        ("en>fr", 1, 1),
        ("X>en>X", 2, 3),
        ("X>Z<Y", 6, 24),
        ("X>Y<X", 6, 12),
    ],
)
def test_number_of_paths(pattern: str, three: int, four: int) -> None:
    assert len(Pattern.parse(pattern).expand(THREE)) == three
    assert len(Pattern.parse(pattern).expand(FOUR)) == four


def test_expansion_follows_the_order_of_the_languages() -> None:
    assert [str(path) for path in Pattern.parse("X>Y>X").expand(["fr", "en"])] == ["fr>en>fr", "en>fr>en"]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["path ''", "missing"]),
        ("en", ["path 'en'", "no hop"]),
        ("en>", ["path 'en>'", "missing"]),
        ("en>>fr", ["path 'en>>fr'", "missing"]),
        ("en-fr", ["path 'en-fr'", "'en-fr' is not a language", "did you mean en>fr?"]),
        ("en>EN", ["path 'en>EN'", "'EN' is not a language", "did you mean en?"]),
        ("en>en", ["path 'en>en'", "hop en>en", "two languages"]),
        ("X>X", ["path 'X>X'", "hop X>X", "two languages"]),
        ("en>é", ["path 'en>é'", "'é' is not a language"]),
        ("en<fr", ["path 'en<fr'", "backward arrow", "en>es<fr"]),
        ("en<fr>en", ["path 'en<fr>en'", "'fr>en' is not a language"]),
        ("en>fr<es<en", ["path 'en>fr<es<en'", "'es<en' is not a language"]),
        ("en>fr<", ["path 'en>fr<'", "missing"]),
    ],
)
def test_malformed_paths_are_refused_with_examples(text: str, facts: list[str]) -> None:
    with pytest.raises(PathError) as caught:
        Pattern.parse(text)
    assert not missing(caught.value, *facts, "joined by '>'", "en>fr>es>en", "X>Y>X")


def test_a_pattern_is_not_a_path() -> None:
    with refused(PathError, "'en>X'", "pattern", "X is"):
        LanguagePath.parse("en>X")


def test_a_path_for_generation_has_no_backward_arrow() -> None:
    with pytest.raises(PathError, match=r"'en>es<fr' has a backward arrow.*mix"):
        LanguagePath.parse("en>es<fr")


def expanded(texts: list[str], known: list[str], supply: Supply, trained: tuple[Hop, ...] = ()) -> list[list[str]]:
    found = expand_fed([Pattern.parse(text) for text in texts], known, supply, trained)
    return [[str(path) for path in expansion.paths] for expansion in found]


@pytest.mark.parametrize(("known", "counts"), [(THREE, [6, 6, 6]), (FOUR, [12, 12, 24])])
def test_full_data_supplies_all_paths(known: list[str], counts: list[int]) -> None:
    found = expand_fed([Pattern.parse(text) for text in ("X>Y", "X>Y>X", "X>Y>Z>X")], known, ALL)
    assert [len(expansion.paths) for expansion in found] == counts
    assert not any(expansion.left_out for expansion in found)


def test_star_data_supplies_some_paths() -> None:
    """With bitext of English only, the loop fr>es>fr generates with a hop that only loops can train."""
    supervised, loops, long = expand_fed([Pattern.parse(text) for text in ("X>Y", "X>Y>X", "X>Y>Z>X")], FOUR, STAR)
    assert len(supervised.paths) == 6
    assert all("en" in path.languages for path in supervised.paths)
    assert {str(path) for path in loops.paths} >= {"en>fr>en", "fr>en>fr"}
    # fr>en>es is trained hop by hop, so the loop es>en>fr>es may teach fr>es; then fr>es>fr can generate.
    assert "es>fr>en>es" in {str(path) for path in long.paths}
    kept = {path for expansion in (supervised, loops, long) for path in expansion.paths}
    taught = {path.taught for path in kept}
    assert all(taught.issuperset(path.generating) for path in kept)
    why = {str(left.path): left.why for left in supervised.left_out}
    assert not missing(why["fr>es"], "de-en, en-es, en-fr", "fr>es>fr", "data.bitext.fr-es")


def test_a_hop_taught_by_a_backward_arrow_may_generate() -> None:
    """Spanish has bitext with English only, yet fr>es learns from the output of en>es for the pairs en-fr."""
    star = Supply.of([("en", "fr"), ("en", "es")], ["fr"])
    agreement, loops = expanded(["X>Y", "X>Z<Y", "fr>es>fr"], THREE, star)[1:]
    assert "en>es<fr" in agreement
    assert loops == ["fr>es>fr"]


def test_untrained_translators_cannot_feed_each_other() -> None:
    supply = Supply.of([("en", "fr")], THREE)
    found = expand_fed([Pattern.parse("X>Y"), Pattern.parse("X>Y>X")], THREE, supply)
    assert [str(path) for path in found[1].paths] == ["en>fr>en", "fr>en>fr"]
    (why,) = (left.why for left in found[1].left_out if str(left.path) == "fr>es>fr")
    assert not missing(why, "no path trains", "fr>es")


def test_a_hop_trained_by_an_earlier_stage_may_generate() -> None:
    supply = Supply.of([("en", "fr")], ["en"])
    assert expanded(["en>es>en"], THREE, supply, (Hop("en", "es"),)) == [["en>es>en"]]


@pytest.mark.parametrize(
    ("texts", "known", "supply", "facts"),
    [
        (
            ["en>fr>es"],
            THREE,
            Supply.of([("en", "fr"), ("fr", "es")], []),
            ["path en>fr>es", "bitext en-es", "en-fr, es-fr", "en>fr>es>en", "data.bitext.en-es"],
        ),
        (
            ["X>Y", "en>fr>en"],
            THREE,
            Supply.of([("en", "fr")], ["fr"]),
            ["path en>fr>en", "monolingual text of en", "has fr", "data.mono.en"],
        ),
        (["X>Y>Z>X"], ["en", "fr"], ALL, ["path X>Y>Z>X", "needs 3 languages", "2: en, fr"]),
        (
            ["X>Y>X"],
            ["en", "fr"],
            Supply.of([], ["en", "fr"]),
            ["path X>Y>X", "en>fr>en", "no path trains: en>fr"],
        ),
        (["en>it"], THREE, ALL, ["path en>it", "'it'", "en, fr, es"]),
        (
            ["X>Y"],
            THREE,
            Supply.of([], THREE),
            ["path X>Y", "en>fr", "bitext en-fr", "has none", "en>fr>en", "data.bitext.en-fr"],
        ),
    ],
)
def test_paths_without_text_are_refused(texts: list[str], known: list[str], supply: Supply, facts: list[str]) -> None:
    with pytest.raises(PathError) as caught:
        expanded(texts, known, supply)
    assert not missing(caught.value, *facts)


def test_a_language_of_another_code_is_suggested() -> None:
    with pytest.raises(PathError) as caught:
        Pattern.parse("en>cz").expand(["en", "cs"])
    assert not missing(caught.value, "cz", "en, cs", "Did you mean cs?")


def test_many_languages_share_their_hops() -> None:
    """A star of thirty languages: pairs with English teach 58 directions, loops of three hops all the others."""
    codes = ["en", *(f"l{number}" for number in range(29))]
    star = Supply.of([("en", code) for code in codes[1:]], codes)
    pairs, loops = expand_fed([Pattern.parse("X>Y"), Pattern.parse("X>Y>Z>X")], codes, star)
    assert len(pairs.paths) == 58 and len(pairs.left_out) == 30 * 29 - 58
    assert len(loops.paths) == 30 * 29 * 28 and not loops.left_out
    assert len({id(hop) for path in loops.paths for hop in path.hops}) == 30 * 29
