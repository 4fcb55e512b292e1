"""Directions that no translator was trained for: what could teach them is found, measured, judged and suggested."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.commands import AskFor
from helpers.toy import EXPERIMENT
from loopmt.cli import app
from loopmt.config import expansions, loads
from loopmt.evaluation.metrics import moses, sentence_bleu
from loopmt.path import Hop, LanguagePath, ways
from loopmt.planning.analysis import Estimate
from loopmt.planning.suggest import LOOPS, as_toml, suggest_weights
from loopmt.planning.zero_resource import missing, zero_resource
from loopmt.progress import Silent
from loopmt.run import read_json
from loopmt.text.store import Store
from loopmt.workflow.plan import PlanOptions, plan
from loopmt.workflow.report import ReportOptions, report
from loopmt.workflow.train import train
from loopmt.workflow.translate import load

STAR = [Hop("en", "fr"), Hop("fr", "en"), Hop("en", "es"), Hop("es", "en")]
POOR = Hop("fr", "es")
BACK, THERE = LanguagePath.parse("es>en>fr"), LanguagePath.parse("fr>en>es")
ROAD = LanguagePath.parse("es>en>fr>es")
LANGUAGES = ("en", "fr", "es")


def test_what_is_missing_and_what_leads_there() -> None:
    assert missing(LANGUAGES, STAR) == [POOR, POOR.reverse]
    assert ways(POOR, STAR) == [THERE] and ways(POOR.reverse, STAR) == [BACK]
    assert missing(LANGUAGES, [*STAR, POOR, POOR.reverse]) == []
    assert missing(("en", "fr", "es", "de"), STAR) == [POOR, POOR.reverse], "nothing leads to German or from it"
    available = [*STAR, POOR, POOR.reverse]
    assert missing(LANGUAGES, STAR, available) == [POOR, POOR.reverse], "a shared network speaks them, untaught"
    one_way = [Hop("en", "fr")]
    assert missing(LANGUAGES, one_way) == [Hop("fr", "en")]
    found = zero_resource(Hop("fr", "en"), one_way, {LanguagePath.parse("en>fr"): [0.5, 0.4, 0.6]})
    assert list(found.sources) == [LanguagePath.parse("en>fr>en")] and found.through == {}, (
        "back-translation teaches it"
    )
    assert found.verdict == "may help" and "beat" not in found.why


@pytest.mark.parametrize(
    ("rate", "verdict", "why"),
    [
        (
            [0.4, 0.35, 0.45],
            "may help",
            "40% of the text that es>en>fr>es",
        ),
        ([0.02, 0.005, 0.05], "no signal", "(2.0%)"),
        (None, "no signal", "no sentence in both languages"),
    ],
)
def test_verdicts(rate: Estimate | None, verdict: str, why: str) -> None:
    arrived: dict[LanguagePath, Estimate] = {THERE: [0.5, 0.4, 0.6], **({BACK: rate} if rate else {})}
    found = zero_resource(POOR, STAR, arrived)
    assert found.verdict == verdict and why in found.why
    assert ("fr>en>es (50% right)" in found.why) == found.promising
    assert zero_resource(POOR, STAR, arrived, worth=0.5).promising is False, "worth is the user's"
    only_there = zero_resource(POOR, [Hop("fr", "en"), Hop("en", "es")], arrived)
    assert only_there.verdict == "no signal" and "source language" in only_there.why


def test_of_several_ways_the_best_known_one_counts() -> None:
    both = [*STAR, Hop("es", "de"), Hop("de", "fr")]
    found = zero_resource(POOR, both, {BACK: [0.0, 0.0, 0.004]})
    assert list(found.sources) == [ROAD, LanguagePath.parse("es>de>fr>es")]
    assert found.verdict == "no signal" and "es>en>fr>es" in found.why
    better = zero_resource(POOR, both, {BACK: [0.1, 0.05, 0.2], LanguagePath.parse("es>de>fr"): [0.3, 0.2, 0.4]})
    assert "30%" in better.why and "es>de>fr>es" in better.why


def test_what_a_shared_network_says_untaught_is_measured_and_no_lesson() -> None:
    available = [*STAR, POOR, POOR.reverse]
    direct, dual = LanguagePath.parse("fr>es"), LanguagePath.parse("es>fr>es")
    arrived: dict[LanguagePath, Estimate] = {THERE: [0.5, 0.4, 0.6], BACK: [0.5, 0.4, 0.6]}
    arrived |= {direct: [0.1, 0.05, 0.2], LanguagePath.parse("es>fr"): [0.2, 0.1, 0.3]}
    found = zero_resource(POOR, available, arrived)
    assert list(found.sources) == [dual, ROAD] and found.why.startswith("50% of the text that es>en>fr>es")
    assert all(way in found.why for way in ("fr>es untrained (10% right)", "fr>en>es (50% right)"))
    assert suggest_weights({}, {}, lambda path: True, [found]) == {ROAD: LOOPS}, "its own loop has far poorer sources"


def test_the_suggested_mix_teaches_them_where_it_is_pasted() -> None:
    text = EXPERIMENT.replace(', "fr-es" = "bi.fr-es"', "")
    experiment = loads(text)
    untrained = [zero_resource(POOR, STAR, {BACK: [0.4, 0.3, 0.5]}), zero_resource(POOR.reverse, STAR, {})]
    weights = suggest_weights({}, {}, lambda path: experiment.data.supply().lack(path) is None, untrained)
    assert weights == {ROAD: LOOPS}, "of the other nothing is known"
    mix = as_toml(weights, "vanilla", 500, experiment)
    assert mix is not None
    pasted = loads(text + "\n" + mix)
    paths = [path for _, expansion in expansions(pasted, pasted.stage("loops")) for path in expansion.paths]
    assert [path for path in paths if path.closed] == [ROAD]
    assert suggest_weights({}, {}, lambda path: False, untrained) == {}, "without Spanish text there is nothing to send"
    assert pasted.compare == experiment.compare, "no control without loops translates fr>es"


def test_the_suggested_comparison_is_of_what_both_train() -> None:
    """A shared network translates a pair without bitext too, but the control never trains it."""
    text = EXPERIMENT.replace(', "fr-es" = "bi.fr-es"', "").partition("[[compare]]")[0]
    experiment = loads(text, ['model.sharing="all"'])
    mix = as_toml({ROAD: LOOPS}, "vanilla", 500, experiment)
    assert mix is not None
    pasted = loads(text + "\n" + mix, ['model.sharing="all"'])
    assert pasted.compare[-1].directions == ["en>fr", "en>es", "fr>en", "es>en", "es>fr"], (
        "es>fr neither of them trains"
    )


STAGE = '[[stage]]\nname = "star"\nmix = ["en>X", "X>en"]\nupdates = 60\n'


@pytest.fixture
def star(ask_for: AskFor) -> Path:
    request = ask_for(STAGE, parent=False)
    assert request.run and train(request, Silent())
    return Path(request.run)


def test_a_run_without_a_pair_is_told_what_could_teach_it(star: Path) -> None:
    shown = CliRunner().invoke(app, ["plan", str(star), "--beam", "1", "--sentences", "20", "--threshold", "10"])
    assert shown.exit_code == 0, shown.output
    made = read_json(star / "plan.json")
    assert list(made["directions"]) == ["en>fr", "en>es", "fr>en", "es>en"]
    assert list(made["zero_resource"]) == ["fr>es", "es>fr"]
    told = made["zero_resource"]["fr>es"]
    assert told["sources"][str(ROAD)][0] == pytest.approx(right(star, BACK, 10.0))
    assert told["through"][str(THERE)][0] == pytest.approx(right(star, THERE, 10.0))
    for words in ("Directions without bitext", str(ROAD), str(THERE), "unclear"):
        assert words in shown.stdout
    page, _ = report([star], ReportOptions(sentences=4, beam=1), Silent())
    assert "Directions without bitext" in page.read_text(encoding="utf-8")
    assert plan(star, PlanOptions(beam=1, sentences=20, threshold=10.0), Silent()) == made, "said once, remembered"


def test_a_shared_network_is_asked_for_loops_that_it_was_taught(ask_for: AskFor) -> None:
    request = ask_for(STAGE, "model.sharing=all", parent=False)
    assert request.run and train(request, Silent())
    folder = Path(request.run)
    made = plan(folder, PlanOptions(beam=1, sentences=20, threshold=10.0), Silent())
    assert list(made["directions"]) == ["en>fr", "en>es", "fr>en", "es>en"]
    assert [loop["loop"] for loop in made["directions"]["fr>en"]["loops"]] == ["fr>en>fr"]
    told = made["zero_resource"]["fr>es"]
    assert list(told["sources"]) == ["es>fr>es", str(ROAD)] and list(told["through"]) == ["fr>es", str(THERE)]
    for way in ("fr>es", str(THERE)):
        assert told["through"][way][0] == pytest.approx(right(folder, LanguagePath.parse(way), 10.0))


def right(run: Path, way: LanguagePath, threshold: float) -> float:
    """By hand: two translators in a row, and how many of what they say score above the threshold."""
    source, target = way.ends
    pair = Store.open(run / "store").pair_texts("valid", source, target)
    assert pair is not None
    texts, translator = pair[0][:20], load(run, "star")
    for hop in way.hops:
        texts = translator.translate(texts, str(hop), 1)
    scores = sentence_bleu(moses(texts, target), moses(pair[1][:20], target))
    return float(sum(score > threshold for score in scores)) / len(scores)
