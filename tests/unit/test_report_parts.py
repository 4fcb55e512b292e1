"""The parts of a report that need no run: pictures, words, the paper's tables."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopmt.config import loads
from loopmt.path import LanguagePath, Pattern
from loopmt.report.followed import chosen_loops, difference
from loopmt.report.gather import _stage
from loopmt.report.graph import BANDS, band, graph, limits_of
from loopmt.report.tables import paper_tables, regime, seed_tables
from loopmt.report.training import MEAN, choice_summary, choices, curves, thinned
from loopmt.run import Json


def test_loops_to_follow() -> None:
    paths = [path for pattern in ("X>Y", "X>Y>X", "X>Y>Z>X") for path in Pattern.parse(pattern).expand(["a", "b", "c"])]
    assert [str(path) for path in chosen_loops(paths)] == ["a>b>a", "b>a>b", "a>b>c>a", "b>a>c>b"]
    assert chosen_loops([LanguagePath(("a", "b"))]) == []


WORDS = st.lists(st.sampled_from(["the", "old", "cat's", "sees", ",", ".", "猫", "«"]), max_size=8).map(" ".join)


@given(WORDS, WORDS)
def test_a_difference_tells_both_sentences(start: str, end: str) -> None:
    found = difference(start, end)
    for text, kinds in ((start, {"same", "lost"}), (end, {"same", "new"})):
        assert "".join("".join(words for kind, words in found if kind in kinds).split()) == "".join(text.split())
    assert start != end or {kind for kind, _ in found} <= {"same"}


def test_what_was_lost() -> None:
    assert difference("The old cat sleeps today.", "The cat sleeps.") == [
        ("same", "The "), ("lost", "old "), ("same", "cat sleeps "), ("lost", "today"), ("same", "."),
    ]  # fmt: skip
    assert difference("Now I look.", "Now, you see.") == [
        ("same", "Now "), ("lost", "I look"), ("new", ", you see"), ("same", "."),
    ]  # fmt: skip
    assert difference("Emma is happy.", "Emma is glad.")[1:3] == [("lost", "happy "), ("new", "glad")]
    assert difference("我喜欢这只非常可爱的小猫咪", "我喜欢这只可爱的小猫咪")[1] == ("lost", "非常")


def test_sentences_that_repeat_a_mark_are_compared_in_bounded_time() -> None:
    """A comparison that searches the longest block again and again takes minutes for these."""
    began = time.process_time()
    for start, end in (("." * 2000, ".," * 1000), ("a b " * 2000, "b a " * 2000)):
        assert difference(start, end)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_graphs(count: int) -> None:
    languages = ["en", "fr", "es", "de", "it"][:count]
    hops = [str(path) for path in Pattern.parse("X>Y").expand(languages)]
    loops = [str(path) for path in Pattern.parse("X>Y>X").expand(languages)]
    longer = [str(path) for path in Pattern.parse("X>Y>Z>X").expand(languages)] if count > 2 else []
    quality = {hop: 10.0 * number for number, hop in enumerate(hops)}
    drawn = graph({"hops": hops, "loops": loops + longer}, languages, quality, limits_of([quality]))
    assert len(drawn["edges"]) == count * (count - 1) and drawn["more_loops"] == max(0, len(loops + longer) - 12)
    _, top, width, height = map(float, drawn["box"].split())
    for x, y in points(drawn):
        assert 0 <= x <= width and top <= y <= top + height


def points(drawn: Json) -> Iterator[tuple[float, float]]:
    yield from ((node["x"], node["y"]) for node in drawn["nodes"])
    for shape in [*drawn["edges"], *drawn["loops"]]:
        yield from ((float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", shape["head"]))


def test_bands() -> None:
    limits = limits_of([{"en>fr": 12.0, "fr>en": 37.5}])
    assert limits == (10.0, 40.0) and limits_of([{}]) == (0.0, 100.0) and limits_of([{"en>fr": 0.0}]) == (0.0, 1.0)
    assert [band(value, limits) for value in (None, 0.0, 10.0, 24.9, 40.0, 99.0)] == [
        None,
        0,
        0,
        2,
        BANDS - 1,
        BANDS - 1,
    ]


def test_long_lines_are_thinned() -> None:
    points = [[float(x), 2.0 * x] for x in range(10_000)]
    short = thinned(points)
    assert len(short) <= 400 and all(y == 2 * x for x, y in short)
    assert thinned(points[:100]) == points[:100]


def test_curves_of_means_are_those_of_the_log() -> None:
    """Where a shared network also says what nobody taught it, the log's mean is of what it was taught."""
    bleu, loss = {"en>fr": 40.0, "fr>en": 20.0, "fr>es": 0.0}, {"en>fr": 1.0, "fr>en": 3.0, "fr>es": 8.0}
    means = {"mean_bleu": 30.0, "mean_accuracy": None}
    row = {"kind": "valid", "update": 10, **means, "bleu": bleu, "loss": loss, "accuracy": {}, "untaught": ["fr>es"]}
    found = curves({"vanilla": [row]}, {"vanilla": 0}, {"vanilla": None})
    assert found["bleu"][MEAN] == {"vanilla": [[10, 30.0]]} and found["bleu"]["fr>es"] == {"vanilla": [[10, 0.0]]}
    assert found["loss"][MEAN] == {"vanilla": [[10, 2.0]]} and found["accuracy"][MEAN] == {}


def test_means_of_different_directions_are_not_one_curve() -> None:
    """A stage that is validated in more directions would seem to fall."""

    def row(update: int, **bleu: float) -> Json:
        by_hop = {hop.replace("_", ">"): value for hop, value in bleu.items()}
        means = {"mean_bleu": sum(bleu.values()) / len(bleu), "mean_accuracy": None}
        return {"kind": "valid", "update": update, **means, "bleu": by_hop, "loss": {}, "accuracy": {}}

    few, more = row(10, en_fr=40.0, fr_en=20.0), row(5, en_fr=41.0, fr_en=21.0, fr_es=1.0)
    parents = {"vanilla": None, "longer": "vanilla", "dual": "vanilla"}
    starts = {"vanilla": 0, "longer": 10, "dual": 10}
    found = curves({"vanilla": [few], "longer": [row(5, en_fr=44.0, fr_en=22.0)], "dual": [more]}, starts, parents)
    assert found["bleu"][MEAN]["dual"] == [[15, 21.0]], "it does not set out from a mean of two"
    assert found["bleu"][MEAN]["longer"] == [[10, 30.0], [15, 33.0]]
    assert found["bleu"]["en>fr"]["dual"] == [[10, 40.0], [15, 41.0]]


TWO_LOOPS = """
languages = ["en", "fr", "es"]
[data.world]
pairs = { "en-fr" = 20, "en-es" = 20, "fr-es" = 20 }
mono = { en = 20, fr = 20, es = 20 }
[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 1
[[stage]]
name = "uniform"
from = "vanilla"
mix = ["X>Y", "X>Y>Z>X"]
updates = 1
[[stage]]
name = "multi-step"
from = "vanilla"
mix = "auto"
updates = 1
"""


def test_the_paper_s_column_is_the_stage_that_bears_its_name() -> None:
    experiment = loads(TWO_LOOPS, name="two")
    scored = {
        stage: {"sets": {"test": {"directions": {"en>fr": {"multi_bleu": bleu}}}}}
        for stage, bleu in (("vanilla", 1.0), ("uniform", 2.0), ("multi-step", 3.0))
    }
    table = paper_tables(experiment, {"stages": scored}, None)[0]
    assert table["rows"][0][:4] == ["en>fr", "1.00", "–", "3.00"]


def test_seeds_are_averaged_over_what_all_of_them_have() -> None:
    bleu = {
        1: {"vanilla": {"en>fr": 1.0, "en>es": 7.0}, "uniform": {"en>fr": 2.0}},
        2: {"vanilla": {"en>fr": 4.0}},
    }
    cards = {seed: {"stages": {stage: _tested(own) for stage, own in stages.items()}} for seed, stages in bleu.items()}
    table = seed_tables(loads(TWO_LOOPS, name="two"), cards)[0]
    assert table["heads"][1] == ("two, mean of seeds 1, 2, test", 3)
    assert [row[:4] for row in table["rows"]] == [["en>fr", "2.50", "–", "–"], ["average gain", "", "–", "–"]]


def test_a_column_of_several_seeds_is_one_stage() -> None:
    bleu = {
        1: {"vanilla": 1.0, "uniform": 2.0},
        2: {"vanilla": 3.0, "uniform": 4.0, "multi-step": 9.0},  # the stage that bears the name, but of one seed only
    }
    cards = {
        seed: {"stages": {name: _tested({"en>fr": score}) for name, score in one.items()}} for seed, one in bleu.items()
    }
    table = seed_tables(loads(TWO_LOOPS, name="two"), cards)[0]
    assert table["rows"][0][:4] == ["en>fr", "2.00", "–", "3.00"]
    assert table["note"].endswith('; multi-step is stage "uniform".')


def _tested(bleu: dict[str, float]) -> Json:
    return {"sets": {"test": {"directions": {hop: {"multi_bleu": score} for hop, score in bleu.items()}}}}


def test_what_the_paper_has_none_of_fills_no_column() -> None:
    pivot = '[[stage]]\nname = "pivot"\nfrom = "vanilla"\nmix = ["X>Y", "X>Z>Y"]\nupdates = 1\n'
    longer = '[[stage]]\nname = "longer"\nfrom = "vanilla"\nmix = ["X>Y"]\nupdates = 1\n'
    experiment = loads(TWO_LOOPS + pivot + longer, name="open")
    assert [regime(experiment, stage) for stage in experiment.stages] == [
        *("vanilla", "multi-step", "multi-step", "open paths", "vanilla, longer")
    ]


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        (["longer", "multi-step", "dual"], "vanilla to dual, test"),
        (["longer", "multi-step"], "vanilla to multi-step, test"),
        (["longer"], None),
    ],
)
def test_the_paper_s_dual_learning_is_set_beside_loops_alone(steps: list[str], shown: str | None) -> None:
    dual = '[[stage]]\nname = "dual"\nfrom = "vanilla"\nmix = ["X>Y", "X>Y>X"]\nupdates = 1\n'
    longer = '[[stage]]\nname = "longer"\nfrom = "vanilla"\nmix = ["X>Y"]\nupdates = 1\n'
    row = {"pair": "en-fr", "quantity": "p12", "ours": [[0.5, None, None]] * 2, "paper": None}
    tables = [{"before": "vanilla", "after": one, "set": "test", "accuracy": [row], "parameters": []} for one in steps]
    found = paper_tables(loads(TWO_LOOPS + dual + longer, name="two"), None, {"tables": tables})
    assert [table["heads"][1][0] for table in found] == ([shown] if shown else [])


def test_a_direction_that_loops_taught_first_enters_no_gain() -> None:
    dual = '[[stage]]\nname = "dual"\nfrom = "vanilla"\nmix = ["X>Y", "X>Y>X"]\nupdates = 1\n'
    experiment = loads(TWO_LOOPS + dual, name="star")
    bleu = {"vanilla": {"en>fr": 1.0}, "dual": {"en>fr": 1.5}, "multi-step": {"en>fr": 3.5, "fr>es": 9.0}}
    scored = {
        stage: {"sets": {"test": {"directions": {hop: {"multi_bleu": score} for hop, score in by_hop.items()}}}}
        for stage, by_hop in bleu.items()
    }
    table = paper_tables(experiment, {"stages": scored}, None)[0]
    assert [row[:4] for row in table["rows"][1:]] == [
        ["fr>es", "–", "–", "9.00"],
        ["average gain", "", "+0.50", "+2.00"],
    ]
    assert "dual 1, multi-step 1 of 2" in table["note"], "of how many directions the averages are"


@pytest.mark.parametrize(("sharing", "gain"), [("none", "–"), ("all", "+0.50")])
def test_what_a_stage_left_as_it_was_is_none_of_its_scores(sharing: str, gain: str) -> None:
    """With a network for each direction; one for all changes whatever it learns."""
    dual = '[[stage]]\nname = "dual"\nfrom = "vanilla"\nmix = ["X>Y", "X>Y>X"]\nupdates = 1\n'
    poor = '[[stage]]\nname = "poor"\nfrom = "dual"\nmix = ["es>en>fr>es"]\nupdates = 1\n'
    experiment = loads(TWO_LOOPS + dual + poor, [f"model.sharing={sharing}"], name="star")
    bleu = {"vanilla": {"en>fr": 1.0}, "dual": {"en>fr": 1.5}, "poor": {"en>fr": 2.0, "fr>es": 9.0}}
    rows = paper_tables(experiment, {"stages": {name: _tested(own) for name, own in bleu.items()}}, None)[0]["rows"]
    assert rows[0][3] == ("–" if sharing == "none" else "2.00")
    assert [row[3] for row in rows[1:]] == ["9.00", gain]


def test_a_chosen_mix_shows_the_loops_it_chose() -> None:
    experiment = loads(TWO_LOOPS, name="two")
    stage = experiment.stage("multi-step")
    every = set(_stage(experiment, stage, {}, [])["loops"])
    refused: list[Json] = [
        {"stage": one, "path": "fr>es>fr", "first": 0.0, "share": 0.0} for one in ("multi-step", "uniform")
    ]
    taken = {"stage": "multi-step", "path": "en>fr>en", "first": 0.0, "share": 0.5}
    assert {"fr>es>fr", "en>fr>en"} < every
    assert _stage(experiment, stage, {}, [*refused, taken])["loops"] == ["en>fr>en"], (
        "others were refused or not measured"
    )
    elsewhere = [{**one, "stage": "uniform"} for one in (*refused, taken)]
    assert set(_stage(experiment, stage, {}, elsewhere)["loops"]) == every, "another stage chose"


def test_chosen_routes_in_few_rows() -> None:
    """By kind, at the first and at the last measurement; a route that was not measured again has no share."""
    first = {"de>en>de": {"share": 0.5}, "de>en>fr<de": {"share": 0.5}, "fr>en>de<fr": {"share": 1.0}}
    last = {"de>en>de": {"share": 1.0}, "fr>es>de<fr": {"share": 1.0}}
    facts = {"kind": "choice", "measured": 3, "candidates": 9, "seconds": 2.0}
    records: list[Json] = [{"kind": "train"}, facts | {"worth": first}, facts | {"worth": last}]
    (found,) = choice_summary("chosen", records)
    assert (found["times"], found["measured"], found["time_share"]) == (2, 3, None)
    end = {"kind": "end", "seconds": {"generate": 30.0, "train": 15.0, "validate": 1.0, "choose": 4.0}}
    assert choice_summary("chosen", [*records, end])[0]["time_share"] == 0.08
    kinds = {row["kind"]: (row["first"], row["last"]) for row in found["kinds"]}
    assert kinds == {"dual loops": (1, 1), "teachers through en": (2, 0), "teachers through es": (0, 1)}
    shares = {row["path"]: (row["first"], row["share"]) for row in choices("chosen", records)}
    assert shares["fr>en>de<fr"] == (1.0, 0.0) and shares["fr>es>de<fr"] == (0.0, 1.0) and len(shares) == 4
    assert choice_summary("dual", [{"kind": "train"}]) == []


def test_curves_of_groups() -> None:
    """Directions with bitext and without it apart."""
    bleu = {"en>fr": 30.0, "fr>en": 20.0, "en>es": 10.0, "es>en": 40.0, "fr>es": 2.0, "es>fr": 4.0}
    row = {"kind": "valid", "update": 5, "bleu": bleu, "accuracy": {}, "loss": bleu}
    rows, starts, parents = {"one": [row], "two": [row]}, {"one": 10, "two": 15}, {"one": None, "two": "one"}
    drawn = curves(rows, starts, parents, ["en>fr", "fr>en", "en>es", "es>en"])
    assert drawn["groups"]["with bitext"] == {"one": [[15, 25.0]], "two": [[15, 25.0], [20, 25.0]]}
    assert drawn["groups"]["without bitext"]["one"] == [[15, 3.0]]
    everything = curves(rows, starts, parents, list(bleu))
    assert everything["groups"] == {}, "all directions are one group, which the mean shows"
