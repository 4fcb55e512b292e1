"""`mix = "auto"`: which loops get a share, when they are measured, and that a stage of them resumes bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.resuming import assert_same, started, wait_for
from helpers.stages import assembled, folder_of, records, stage
from loopmt.learn.trainer import Trainer
from loopmt.path import LanguagePath
from loopmt.planning.loop_choice import FAR_BELOW, choose_loop_weights, share_out
from loopmt.planning.route_quality import RouteMeter, RouteQuality, _ratio
from loopmt.progress import Silent
from loopmt.translate.walker import Translators
from loopmt.workflow.chooser import candidates_of
from loopmt.workflow.train import TrainOptions, train

ASK = Callable[..., TrainOptions]
Routes = dict[int, tuple[float, float | None]]
"""Quality and the ratio M by number."""
CHOSEN = stage(
    '"auto"\nauto = { measure_every = 4, sentences = 10, generate = { how = "sample", top_k = 5 } }',
    updates=20,
    tokens=96,
    round=2,
    validate_every=6,
)

DIRECT = 7
SHARED_OUT: dict[str, tuple[Routes, dict[int, float]]] = {
    "by quality": ({DIRECT: (0.4, 0.5), 8: (0.6, 0.5)}, {DIRECT: 0.4, 8: 0.6}),
    "no better than the direct way back": ({DIRECT: (0.6, 0.5), 8: (0.5, 0.5)}, {DIRECT: 1.0}),
    "as good as the direct way back": ({DIRECT: (0.5, 0.5), 8: (0.5, 0.5)}, {DIRECT: 0.5, 8: 0.5}),
    "the direct way far below the best": ({DIRECT: (0.3, 0.5), 8: (0.8, 0.5)}, {8: 1.0}),
    "as far below as may be": ({DIRECT: (0.4, 0.5), 8: (0.8, 0.5)}, {DIRECT: 1 / 3, 8: 2 / 3}),
    "better than direct, but far below the best": ({DIRECT: (0.1, 0.5), 8: (0.3, 0.5), 9: (0.8, 0.5)}, {9: 1.0}),
    "coming home tells nothing": ({DIRECT: (0.4, 0.5), 8: (0.6, 1.0)}, {DIRECT: 1.0}),
    "nothing, of the direct way": ({DIRECT: (0.6, 1.2), 8: (0.6, 0.5)}, {8: 1.0}),
    "too few to tell": ({DIRECT: (0.4, None), 8: (0.6, None)}, {DIRECT: 0.4, 8: 0.6}),
    "no direct way": ({8: (0.2, 0.5), 9: (0.3, 0.5), 10: (0.1, 0.5)}, {8: 0.4, 9: 0.6}),
}


def worth(routes: Routes) -> dict[int, RouteQuality]:
    return {number: RouteQuality(*one) for number, one in routes.items()}


def shares_of(routes: dict[int, RouteQuality], direct: int | None, must: bool) -> dict[int, float]:
    """The shares that are not 0; what has none says why."""
    found = share_out(routes, direct, must)
    assert all(one.share > 0 or one.why for one in found.values())
    return {number: one.share for number, one in found.items() if one.share}


@pytest.mark.parametrize("case", SHARED_OUT)
@pytest.mark.parametrize("must", [False, True])
def test_who_gets_a_share(case: str, must: bool) -> None:
    routes, shares = SHARED_OUT[case]
    assert FAR_BELOW == 0.5, "which the table goes by"
    assert shares_of(worth(routes), DIRECT if DIRECT in routes else None, must) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("routes", "first"),
    [
        ({DIRECT: (0.0, None), 8: (0.0, None)}, DIRECT),
        ({DIRECT: (0.2, 1.5), 8: (0.3, 1.5)}, 8),
    ],
)
def test_a_direction_without_pairs_has_its_best_loop_at_least(routes: Routes, first: int) -> None:
    assert shares_of(worth(routes), DIRECT, must=False) == {}
    assert shares_of(worth(routes), DIRECT, must=True) == {first: 1.0}


@pytest.mark.parametrize(
    ("teacher", "shares"),
    [
        (RouteQuality(0.6, None, lead=0.2), {DIRECT: 0.4, 8: 0.6}),
        (RouteQuality(0.3, None, lead=0.1), {DIRECT: 4 / 7, 8: 3 / 7}),  # the bar of loops is none of teachers
        (RouteQuality(0.6, None, lead=-0.01), {DIRECT: 1.0}),
        (RouteQuality(0.1, None, lead=0.1), {DIRECT: 1.0}),
        (RouteQuality(0.6, None, lead=0.2, kept=0.2), {DIRECT: 1.0}),
        (RouteQuality(0.6, None, lead=0.2, alarm="es>fr: collapsed"), {DIRECT: 1.0}),
    ],
)
def test_a_teacher_must_be_better_than_the_direct_translator(teacher: RouteQuality, shares: dict[int, float]) -> None:
    assert shares_of({DIRECT: RouteQuality(0.4, 0.5), 8: teacher}, DIRECT, must=True) == pytest.approx(shares)


def test_a_loop_that_sets_off_an_alarm_has_no_share() -> None:
    collapsed = RouteQuality(0.9, 0.1, alarm="en>fr: repetition")
    assert shares_of({DIRECT: collapsed, 8: RouteQuality(0.9, 0.5)}, DIRECT, must=False) == {8: 1.0}
    found = share_out({DIRECT: collapsed, 8: RouteQuality(0.1, 1.5)}, DIRECT, must=True)
    assert found[8].share == 1.0 and not found[DIRECT].share, "the other one is poor, but has not collapsed"
    assert "repetition" in found[DIRECT].why


def test_whether_coming_home_tells() -> None:
    right = np.arange(40) < 20
    home = (np.arange(40) < 10) | (np.arange(40) >= 35)  # half of what is right, a quarter of what is wrong
    assert _ratio(right, home) == 0.5
    assert _ratio(np.arange(40) < 9, home) is None and _ratio(np.arange(40) < 31, home) is None, "too few of one kind"
    assert _ratio(right, ~right) is None, "nothing right comes home"
    assert _ratio(np.arange(40) < 10, home) is not None, "ten are enough"


def test_a_round_s_weights_are_what_was_chosen(ask_for: ASK) -> None:
    """Real pairs keep their share; loops have the rest, by what the log says of them."""
    trainer = assembled(ask_for(CHOSEN))
    assert trainer.hooks.choose
    weights, record = trainer.hooks.choose(0)
    logged = record["worth"]
    assert record["measured"] == record["candidates"] == len(logged), "three languages have few"
    loops = {route.number: str(route.path) for route in trainer.routes if route.synthetic}
    assert set(logged) == set(loops.values())
    for route in trainer.routes:
        if not route.synthetic:
            mine = {
                number: path for number, path in loops.items() if LanguagePath.parse(path).taught == route.path.taught
            }
            known = {
                number: RouteQuality(logged[path]["quality"], logged[path]["ratio"]) for number, path in mine.items()
            }
            direct = next(number for number, path in mine.items() if path.count(">") == 2)
            shares = shares_of(known, direct, must=False)
            assert {number: logged[path]["share"] for number, path in mine.items() if number in shares} == shares
            assert weights[route.number] == 1 / 3
            assert {number: weights[number] for number in mine if number in weights} == pytest.approx(
                {number: 2 / 3 * share for number, share in shares.items()}
            )


def unable(trainer: Trainer) -> RouteMeter:
    """No text is held out, so nothing can be measured."""
    return RouteMeter(Translators(trainer.translators), [], ("test",))


def test_unmeasured_loops_feed_what_nothing_else_feeds(ask_for: ASK) -> None:
    """No text is held out, so nothing is known of any loop: of six directions the one with pairs does without."""
    trainer = assembled(ask_for(CHOSEN))
    paired = trainer.routes[0]
    supervised = {paired.path.taught: (paired.number, 0.3)}
    weights = choose_loop_weights(unable(trainer), candidates_of(trainer.routes), supervised).weights
    assert weights.pop(paired.number) == 0.3 and list(weights.values()) == [1.0] * 5
    fed = {route.path.taught for route in trainer.routes if route.number in weights}
    assert len(fed) == 5 and paired.path.taught not in fed


def test_bitext_without_a_share_is_all_that_a_direction_has_without_loops(ask_for: ASK) -> None:
    """With auto.supervised = 0 a direction none of whose loops is worth a share would have no text at all."""
    trainer = assembled(ask_for(CHOSEN.replace("measure_every", "supervised = 0, measure_every")))
    supervised = {route.path.taught: (route.number, 0.0) for route in trainer.routes if not route.synthetic}
    weights = choose_loop_weights(unable(trainer), candidates_of(trainer.routes), supervised).weights
    assert weights == {number: 1.0 for number, _ in supervised.values()}, "nothing is known of any loop"
    assert trainer.hooks.choose
    chosen, _ = trainer.hooks.choose(0)
    fed = {route.path.taught for route in trainer.routes if chosen.get(route.number)}
    assert fed == set(supervised), "whatever loops are found worth"
    looped = {route.path.taught for route in trainer.routes if route.synthetic and chosen.get(route.number)}
    assert all(bool(chosen[number]) == (hop not in looped) for hop, (number, _) in supervised.items())


def test_loops_are_chosen_again_and_a_killed_stage_chooses_the_same(ask_for: ASK) -> None:
    """Killed where the last checkpoint lies between two measurements: the choice before it must be kept."""
    whole, broken = ask_for(CHOSEN), ask_for(CHOSEN)
    assert train(whole, Silent())
    choices = records(whole, "choice")
    assert [record["round"] for record in choices] == [0, 4, 8]
    assert choices[0]["worth"] != choices[-1]["worth"], "what was measured has changed"
    chosen = {path for record in choices for path, one in record["worth"].items() if one["share"]}
    learnt = {path for record in records(whole) for path in record["tokens"] if path.count(">") > 1}
    assert learnt == chosen < set(choices[0]["worth"]), "loops without a share are not followed"
    assert all(0 < record["time_share"] < 1 and record["seconds"] > 0 for record in choices)
    spent = folder_of(whole).result_state()["seconds"]
    assert spent["choose"] == pytest.approx(sum(record["seconds"] for record in choices))
    folder = folder_of(broken)
    process = started(broken)
    wait_for(lambda: folder.begun and len(records(broken, "choice")) >= 2, process)
    process.kill()
    process.communicate()
    assert folder.updates() and not folder.finished, "the moment was well chosen"
    assert train(broken, Silent())
    assert_same(broken, whole)
