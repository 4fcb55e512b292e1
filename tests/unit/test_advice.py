"""What a plan recommends: train longer first, what was tried, and a verdict on each group of loops."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.toy import EXPERIMENT
from loopmt.config import loads
from loopmt.path import LanguagePath
from loopmt.planning.advice import (
    HELPS,
    UNCLEAR,
    USELESS,
    TriedLoops,
    committed,
    group_verdicts,
    longer_stage,
    not_tried,
    rising,
)


def validated(*bleus: float) -> list[dict[str, float]]:
    return [{"update": 100 * number, "mean_bleu": bleu} for number, bleu in enumerate(bleus, 1)]


@pytest.mark.parametrize(
    ("bleus", "still"),
    [
        ((1, 2, 3, 4), True),
        ((1, 5, 5.2, 5.4), False),
        ((1, 6, 6.1, 5), False),
        ((1, 2, 4, 3, 4.6), True),
        ((4,), False),
        ((), False),
    ],
)
def test_a_stage_that_still_rises(bleus: tuple[float, ...], still: bool) -> None:
    found = rising("vanilla", validated(*bleus))
    assert (found is not None) == still
    if found:
        assert found.bleu == max(bleus) and found.earlier_bleu == max(bleus[: len(bleus) * 3 // 4])


def test_the_longer_stage_loads_where_it_is_pasted() -> None:
    experiment = loads(EXPERIMENT)
    pasted = loads(f"{EXPERIMENT}\n{longer_stage(experiment, experiment.stage('vanilla'), 40)}").stages[-1]
    assert (pasted.name, pasted.from_, pasted.updates) == ("longer", "vanilla", 40)
    assert pasted.mix == experiment.stage("vanilla").mix


def loop(verdict: str, path: str = "en>fr>en", low: float = 0.7, high: float = 1.2) -> dict[str, Any]:
    languages = LanguagePath.parse(path).languages
    trained_as = ">".join((*languages[1:], languages[1]))
    values = {"M": [0.9, low, high], "c22": [0.3, 0.2, 0.4]}
    return {"loop": path, "trained_as": trained_as, "verdict": verdict, "why": "a", "values": values, "pilot": None}


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (loop("helps"), HELPS),
        (loop("may help"), UNCLEAR),
        (loop("likely harmful"), USELESS),
        (loop("no signal"), USELESS),
        (loop("no signal", low=0.2), UNCLEAR),  # few sentences
    ],
)
def test_every_loop_has_one_of_three_words(one: dict[str, Any], word: str) -> None:
    assert committed(one) == word
    assert committed(one, worth=0.5) == (USELESS if one["verdict"] == "no signal" else word), "nothing to gain"


def plan(*loops: dict[str, Any], zero: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"directions": {"en>fr": {"loops": list(loops), "pivots": []}}, "zero_resource": zero or {}}


@pytest.mark.parametrize(
    ("verdicts", "weak", "word", "fact"),
    [
        (("helps", "may help"), False, HELPS, "1 of 2 loops"),
        (("no signal", "likely harmful"), False, USELESS, "of 2 loops"),
        (("may help", "no signal"), False, UNCLEAR, "1 of 2 loops"),
        (("may help", "no signal"), True, UNCLEAR, "rarely right"),
    ],
)
def test_a_group_has_a_verdict_and_its_reason(verdicts: tuple[str, ...], weak: bool, word: str, fact: str) -> None:
    (found,) = group_verdicts(plan(*map(loop, verdicts)), weak, [])
    assert found.verdict == word and fact in found.why


def test_longer_loops_are_a_group_of_their_own() -> None:
    found = group_verdicts(plan(loop("may help"), loop("no signal", "en>fr>es>en")), False, [])
    assert [one.verdict for one in found] == [UNCLEAR, USELESS]


DUAL = LanguagePath.parse("fr>en>fr")


@pytest.mark.parametrize(("gain", "word"), [(1, HELPS), (0, USELESS), (-1, USELESS)])
def test_what_was_measured_decides(gain: int, word: str) -> None:
    tried = TriedLoops("loops", "control", frozenset([DUAL]), gain, "-1.33 (-2.29 to -0.13) BLEU")
    (found,) = group_verdicts(plan(loop("may help")), False, [tried])
    assert found.verdict == word and all(fact in found.why for fact in ("loops", "control", "-1.33"))
    other = LanguagePath.parse("es>en>es")
    assert not_tried({DUAL: 2.0, other: 2.0}, [tried]) == {other: 2.0}


def test_directions_without_bitext_are_decided_by_their_routes() -> None:
    zero = {"fr>es": {"verdict": "may help", "why": "a"}}

    def verdict(direct: dict[str, bool], **more: str) -> str:
        made = plan(loop("helps"), zero={"fr>es": {**zero["fr>es"], **more}})
        return group_verdicts(made, False, [], direct)[-1].verdict

    assert verdict({}) == UNCLEAR and verdict({}, verdict="no signal") == USELESS
    assert verdict({"fr>es": True}) == HELPS and verdict({"fr>es": False}) == USELESS
