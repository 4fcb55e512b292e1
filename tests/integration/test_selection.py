"""The metric that selects checkpoints, and statistics of validation outputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.facts import refused
from helpers.stages import ASK, assembled, folder_of, records, stage
from loopmt.config import Guards
from loopmt.errors import CollapseError, ConfigError
from loopmt.evaluation.outputs import OutputStatistics
from loopmt.evaluation.validation import ValidationScores, Validator
from loopmt.learn.alarms import validation_alarms
from loopmt.learn.trainer import Trainer
from loopmt.progress import Silent
from loopmt.run import Json
from loopmt.translate.protocol import HopInput, Sentences, Translations
from loopmt.workflow.train import TrainOptions, train

LOOPS = '["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]'
QUICK: dict[str, Any] = {"tokens": 96, "round": 2, "validate_every": 2, "log_every": 2, "average": 2}
COLLAPSED = "Le roi voit" + " le petit chien" * 12


def ended(trainer: Trainer, scores: list[ValidationScores]) -> Json:
    """The end of a stage with these validation scores."""
    left = iter(scores)
    trainer.hooks.validate = lambda: next(left)
    assert trainer.run()
    return trainer.folder.records()[-1]


def scores(bleu: float, other: float, higher: bool) -> ValidationScores:
    return ValidationScores({}, {"en>fr": bleu}, select_by="other", selected={"en>fr": other}, higher_is_better=higher)


# -- selection -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("higher", "chosen", "best"),
    [(True, "best", 0), (False, "average", 1)],
)
def test_another_metric_chooses(ask_for: ASK, higher: bool, chosen: str, best: int) -> None:
    """BLEU rises, falls and rises; the other metric falls."""
    trainer = assembled(ask_for(stage('["en>fr"]', updates=4, **QUICK)))
    given = [scores(10, -2.0, higher), scores(5, -3.0, higher), scores(30, -4.0, higher)]
    end = ended(trainer, given)
    assert (end["chosen"], end["best_update"]) == (chosen, end["validated"][best])
    assert end["best_bleu"] == (10, 5)[best] and end["average_bleu"] == 30


def test_patience_waits_for_the_metric_that_selects(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage('["en>fr"]', updates=40, **QUICK)))
    trainer.budget = None
    trainer.train = trainer.train.model_copy(update={"patience": 2, "average": 1})
    given = [scores(bleu, loss, False) for bleu, loss in ((1, 3.0), (2, 2.0), (3, 2.5), (4, 2.0), (5, 1.0))]
    end = ended(trainer, given)
    assert (end["stale"], len(end["validated"]), end["best_update"]) == (2, 4, end["validated"][3])


def test_the_best_so_far_survives_a_pause(ask_for: ASK) -> None:
    request = ask_for(stage('["en>fr"]', updates=4, **QUICK))
    trainer = assembled(request)
    trainer.hooks.stop = lambda: bool(trainer.progress.validated)
    trainer.hooks.validate = lambda: scores(1, 3.0, False)
    assert not trainer.run()
    resumed = assembled(request)
    end = ended(resumed, [scores(9, 4.0, False), scores(9, 5.0, False)])
    assert (end["best_update"], end["best_quality"], end["best_bleu"]) == (2, -3.0, 1)


def test_a_checkpoint_of_an_older_version_was_selected_by_bleu(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage('["en>fr"]', updates=4, **QUICK)))
    trainer.progress.validated, trainer.progress.best_bleu, trainer.progress.best_update = [1], 20.0, 1
    trainer.progress.enter(ValidationScores({}, {"en>fr": 19.0}))
    assert (trainer.progress.best_update, trainer.progress.stale) == (1, 1)


OWN = "def shortest(texts):\n    return [len(text) for text in texts.hypotheses]\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "own_selection.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    places = list(sys.path)
    yield tmp_path
    sys.path[:] = places
    sys.modules.pop("own_selection", None)


@pytest.mark.parametrize(
    ("name", "settings", "higher"),
    [
        ("loss", [], False),
        ("chrf", [], True),
        (
            "brevity",
            ['evaluate.metrics=["chrf", {use="own_selection:shortest", name="brevity", better="lower"}]'],
            False,
        ),
    ],
)
def test_a_stage_is_selected_as_its_file_says(
    own: Path, ask_for: ASK, name: str, settings: list[str], higher: bool
) -> None:
    request = ask_for(stage('["en>fr"]', updates=4, **QUICK), f"stage.loops.train.select_by={name}", *settings)
    assert train(request, Silent())
    valid = records(request, "valid")
    (end,) = records(request, "end")
    assert {record["select_by"] for record in valid} == {name}
    means = {record["update"]: record["mean_selected"] for record in valid}
    assert means[end["best_update"]] == (max if higher else min)(means.values())
    assert all(record["mean_bleu"] >= 0 for record in valid), "BLEU is logged beside it"
    if name == "loss":
        assert all(record["selected"] == record["loss"] for record in valid)


@pytest.mark.parametrize(
    ("name", "facts"),
    [("blue", ('metric "blue"', "multi_bleu")), ("accuracy", ("train.select_by", "accuracy", "built-in languages"))],
)
def test_metrics_that_cannot_select(ask_for: ASK, name: str, facts: tuple[str, ...]) -> None:
    request = ask_for(stage('["en>fr"]', updates=4, select_by=name))
    with pytest.raises(ConfigError) as failed:
        train(request, Silent())
    assert all(fact in str(failed.value) for fact in facts)
    assert not folder_of(request).begun


def test_stages_that_are_compared_are_selected_alike(ask_for: ASK) -> None:
    both = stage(LOOPS) + stage('["X>Y"]', select_by="chrf").replace('"loops"', '"control"')
    with pytest.raises(ConfigError, match=r"train\.select_by"):
        ask_for(both + '[[compare]]\nof = "loops"\nagainst = "control"\n').load()


# -- validation outputs ----------------------------------------------------------------------------------------


def test_validation_logs_statistics_of_outputs(ask_for: ASK) -> None:
    request = ask_for(stage('["X>Y"]', updates=4, **QUICK))
    assert train(request, Silent())
    *_, last = records(request, "valid")
    assert last["outputs"].keys() == last["bleu"].keys()
    for one in last["outputs"].values():
        assert one["sentences"] == 4 and 0.3 < one["length_ratio"] < 3 and 0 <= one["repetitive"] <= 1


class Collapsed:
    """A model that repeats the same phrase for some of its sources."""

    def __init__(self, validator: Validator, share: float) -> None:
        self.validator = validator
        self.share = share
        self.device = validator.model.device
        self.hops = validator.model.hops
        self.score = validator.model.score

    def generate(self, inputs: list[HopInput], *rest: object) -> list[Translations]:
        return [self._said(one) for one in inputs]

    def _said(self, given: HopInput) -> Translations:
        (pairs,) = (pairs for pairs in self.validator.sets if pairs.hop == given.hop)
        texts = list(pairs.references.texts)
        collapsed = round(self.share * len(texts)) if given.hop.target == "fr" else 0
        texts[:collapsed] = [COLLAPSED] * collapsed
        ones = np.ones(len(texts))
        found = Sentences(pairs.references.codec, given.hop.target, texts=texts)
        return Translations(found, -ones, ones.astype(np.bool_), ones.astype(np.int64))


def collapsed(ask_for: ASK, share: float, **settings: Any) -> tuple[Trainer, TrainOptions]:
    request = ask_for(
        stage('["X>Y"]', updates=4, **{**QUICK, "validate_sentences": 40, **settings}), "guards.fewest_rows=30"
    )
    trainer = assembled(request)
    assert isinstance(trainer.hooks.validate, Validator)
    model = Collapsed(trainer.hooks.validate, share)
    trainer.hooks.validate = replace(trainer.hooks.validate, model=model)  # type: ignore[arg-type]
    return trainer, request


def test_validation_outputs_that_repeat_themselves_raise_an_alarm(ask_for: ASK) -> None:
    """Scores hardly notice a collapse in one of five sentences."""
    trainer, request = collapsed(ask_for, 0.2)
    assert trainer.run()
    alarms = records(request, "alarm")
    assert {(alarm["path"], alarm["hop"]) for alarm in alarms} == {("validation", "en>fr"), ("validation", "es>fr")}
    assert all("20%" in alarm["what"] and "repeat" in alarm["what"] for alarm in alarms)
    valid = records(request, "valid")[0]
    assert valid["outputs"]["en>fr"]["repetitive"] == pytest.approx(0.2) and valid["bleu"]["en>fr"] > 40
    assert valid["outputs"]["fr>en"] == {"length_ratio": 1.0, "repetitive": 0.0, "sentences": 40}


def test_a_few_repetitive_outputs_raise_no_alarm(ask_for: ASK) -> None:
    trainer, request = collapsed(ask_for, 0.1)
    assert trainer.run() and records(request, "alarm") == []


def test_validation_outputs_that_repeat_themselves_stop_a_stage(ask_for: ASK) -> None:
    trainer, request = collapsed(ask_for, 0.5, on_collapse="stop")
    with refused(CollapseError, "loops", "update 2", "en>fr", "50%", "train.on_collapse"):
        trainer.run()
    assert folder_of(request).updates()[-1] == 2 and len(records(request, "alarm")) == 2


def outputs(share: float, sentences: int = 100) -> dict[str, OutputStatistics]:
    return {"en>fr": OutputStatistics(1.0, share, sentences)}


@pytest.mark.parametrize(
    ("share", "guards", "found"),
    [
        (0.2, Guards(), True),
        (0.1, Guards(), False),
        (0.2, Guards(most_repetitive=0.3), False),
        (0.2, Guards(alarms=["distinct"]), False),
        (0.2, Guards(fewest_rows=101), False),
    ],
)
def test_alarms_of_validation_have_settings(share: float, guards: Guards, found: bool) -> None:
    assert bool(validation_alarms(outputs(share), guards)) == found
