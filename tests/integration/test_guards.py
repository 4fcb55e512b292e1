"""[guards]: filters and alarms of an experiment, from its file to the log of its stages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.facts import refused
from helpers.stages import ASK, records, stage
from loopmt.config import Generate
from loopmt.errors import ConfigError, RunError
from loopmt.files.documents import read_checked, with_checksum
from loopmt.progress import Silent
from loopmt.run import write_json
from loopmt.workflow.generate import GenerateOptions, generate
from loopmt.workflow.plan import PlanOptions, plan
from loopmt.workflow.train import train

LOOPS = '["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]'
OWN = """
import numpy as np

def with_a(sources, outputs, ended, hop, context):
    return np.array(["a" in text for text in outputs.texts])

def many(counts, guards):
    return f"{counts.offered} outputs" if counts.offered > 64 else None
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "own_guards.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    places = list(sys.path)
    yield tmp_path
    sys.path[:] = places
    sys.modules.pop("own_guards", None)


def test_an_experiment_chooses_its_filters_and_alarms(own: Path, ask_for: ASK) -> None:
    filters = """guards.filters=["own_guards:with_a", "command:sed 's/.*/0/'", "empty"]"""
    request = ask_for(stage(LOOPS, tokens=1024), filters, 'guards.alarms=["own_guards:many"]')
    assert train(request, Silent())
    watched = [watch for record in records(request) for watch in record["guards"]]
    assert {tuple(watch["dropped"]) for watch in watched} == {
        ("own_guards:with_a", "command:sed 's/.*/0/'", "empty")
    }, "in their order"
    into_french = [watch["dropped"] for watch in watched if watch["hop"] == "en>fr"]
    assert sum(dropped["own_guards:with_a"] for dropped in into_french) > 0
    alarms = records(request, "alarm")
    assert alarms and all(alarm["what"].endswith("outputs") for alarm in alarms)


@pytest.mark.parametrize(
    ("setting", "facts"),
    [
        ('guards.filters=["emty"]', ('filter "emty"', '"empty"', "runaway")),
        ('guards.filters=["own_guards:nothing"]', ("own_guards:nothing", "own_guards.py", "with_a")),
        ('guards.filters=["command:./nothing"]', ("command:./nothing",)),
        ('guards.alarms=["repetitions"]', ('alarm "repetitions"', '"repetition"', "copies")),
        ('evaluate.metrics=["blue"]', ('metric "blue"', "multi_bleu")),
        ("guards.ratio=0", ("guards.ratio", "0")),
        ("guards.filter=[]", ("'filter'", "guards", "'filters'")),
    ],
)
def test_invalid_guards_are_refused_before_anything_is_written(
    own: Path, ask_for: ASK, setting: str, facts: tuple[str, ...]
) -> None:
    request = ask_for(stage(LOOPS), setting)
    assert request.run is not None
    before = (request.run / "experiment.json").read_bytes()
    with pytest.raises(ConfigError) as failed:
        train(request, Silent())
    assert all(fact in str(failed.value) for fact in facts)
    assert (request.run / "experiment.json").read_bytes() == before and not (request.run / "stages/loops").exists()


def test_metrics_of_another_machine_do_not_stop_training(ask_for: ASK) -> None:
    request = ask_for(stage(LOOPS, tokens=64), 'evaluate.metrics=["chrf", "command:./elsewhere", "elsewhere:score"]')
    assert train(request, Silent())


# -- what may change in a run ----------------------------------------------------------------------------------


def test_filters_stay_and_alarms_may_change(ask_for: ASK) -> None:
    request = ask_for(stage(LOOPS))
    assert not train(replace(request, stop_after=1e-6), Silent())
    with refused(RunError, "guards.ratio was 3.0, now 2.0", "--set guards.ratio=3.0"):
        train(replace(request, overrides=["guards.ratio=2.0"]), Silent())
    with pytest.raises(RunError, match=r"guards\.filters was .*now \[\"empty\"\]"):
        train(replace(request, overrides=['guards.filters=["empty"]']), Silent())
    others = ["guards.most_copies=0.9", 'guards.alarms=["copies"]', "guards.timeout=5", 'evaluate.metrics=["chrf"]']
    assert train(replace(request, overrides=others), Silent())


def test_filters_do_not_affect_stages_that_generate_nothing(ask_for: ASK) -> None:
    request = ask_for(stage('["X>Y"]'))
    assert not train(replace(request, stop_after=1e-6), Silent())
    assert train(replace(request, overrides=["guards.ratio=2.0"]), Silent())


def test_records_of_older_versions_have_the_former_filters(ask_for: ASK) -> None:
    request = ask_for(stage(LOOPS))
    assert request.run is not None and not train(replace(request, stop_after=1e-6), Silent())
    file = request.run / "stages/loops/stage.json"
    older = {key: value for key, value in read_checked(file, "").items() if key not in ("guards", "version", "check")}
    write_json(file, with_checksum(older))
    with refused(RunError, "guards.slack", "10", "now 5"):
        train(replace(request, overrides=["guards.slack=5"]), Silent())
    assert train(request, Silent())


# -- generate and plan -----------------------------------------------------------------------------------------


def choose(run: Path, **settings: object) -> None:
    file = run / "experiment.json"
    write_json(file, with_checksum({**read_checked(file, ""), "guards": settings}))


def test_code_named_by_a_run_needs_permission(own: Path, ask_for: ASK, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ask_for(stage('["X>Y"]', tokens=64))
    assert ask.run is not None and train(ask, Silent())
    choose(ask.run, filters=["own_guards:with_a"])
    order = GenerateOptions(ask.run, "en>fr>en", own / "out", how=Generate(how="greedy"), limit=40)
    for verb in (lambda: generate(order, Silent()), lambda: plan(order.run, PlanOptions(pilot=1), Silent())):
        with pytest.raises(RunError, match=r"own_guards:with_a.*LOOPMT_ALLOW_CODE=1"):
            verb()
    assert "own_guards" not in sys.modules
    monkeypatch.setenv("LOOPMT_ALLOW_CODE", "1")
    found = generate(order, Silent())
    assert found is not None and found.dropped["own_guards:with_a"] > 0
    choose(ask.run, filters=["empty"])
    with pytest.raises(RunError, match=r"guards was .*own_guards:with_a.*another --out"):
        generate(order, Silent())
