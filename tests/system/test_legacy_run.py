"""A run trained by an older version works with every verb and translates as before.

`data/legacy-run` has the text, the experiment file and the run: three finished stages, and the stage `more`, which was
paused after its first round. `data/legacy-run.json` has what that version made of it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import loopmt
from helpers.commands import Cli, contents
from helpers.digests import signature, weights_digest
from helpers.paths import DATA
from loopmt.files.documents import read_checked
from loopmt.progress import Silent
from loopmt.rng import DRAWS
from loopmt.workflow.serve import ServeOptions, load_engine

RECORDED: dict[str, Any] = json.loads((DATA / "legacy-run.json").read_text(encoding="utf-8"))
STAGES = ("vanilla", "vanilla-longer", "dual")
BEAMS = {"greedy": 1, "beam": 4}
SAME_MACHINE = signature() == RECORDED["machine"]


def scores(run: Path) -> dict[str, dict[str, float]]:
    """BLEU by stage and direction."""
    card = json.loads((run / "scorecard.json").read_text(encoding="utf-8"))
    return {
        name: {hop: scored["multi_bleu"] for hop, scored in stage["sets"]["test"]["directions"].items()}
        for name, stage in card["stages"].items()
    }


def test_it_is_small(legacy: Path) -> None:
    assert sum(file.stat().st_size for file in legacy.rglob("*") if file.is_file()) < 600_000


def test_show(cli: Cli, legacy: Path) -> None:
    done = cli("show", legacy / "run")
    assert (done.code, done.err) == (0, "")
    assert all(name in done.out for name in (*STAGES, "more"))


def test_its_scorecard_is_read(cli: Cli, legacy: Path) -> None:
    before = contents(legacy / "run" / "stages")
    done = cli("evaluate", legacy / "run")
    assert (done.code, scores(legacy / "run")) == (0, RECORDED["bleu"]), done.err
    after = contents(legacy / "run" / "stages")
    judged = {name for name in before if name.endswith("scores.json")}  # they say more than they did
    assert {name: after[name] for name in before.keys() - judged} == {
        name: before[name] for name in before.keys() - judged
    }, "nothing is translated again"


def test_it_can_be_evaluated_again(cli: Cli, legacy: Path) -> None:
    (legacy / "run" / "scorecard.json").unlink()
    for name in STAGES:
        shutil.rmtree(legacy / "run" / "stages" / name / "translations")
    assert cli("evaluate", legacy / "run").code == 0
    found = scores(legacy / "run")
    assert found.keys() == RECORDED["bleu"].keys()
    for name, expected in RECORDED["bleu"].items():
        assert found[name] == pytest.approx(expected, abs=1e-6 if SAME_MACHINE else 5)


@pytest.mark.parametrize("stage", STAGES)
def test_it_translates_as_before(cli: Cli, legacy: Path, stage: str) -> None:
    found: dict[str, dict[str, list[str]]] = {}
    for path, expected in RECORDED["translations"][stage].items():
        source = "".join(f"{line}\n" for line in RECORDED["sources"][path.partition(">")[0]])
        for how in expected:
            done = cli("translate", legacy / "run", path, "--stage", stage, "--beam", BEAMS[how], stdin=source)
            assert done.code == 0, done.err
            found.setdefault(path, {})[how] = done.out.splitlines()
    assert found == RECORDED["translations"][stage]


def test_it_is_exported(cli: Cli, legacy: Path) -> None:
    pytest.importorskip("transformers")
    done = cli("export", legacy / "run", "--to", "hf", "--out", legacy / "exported", "--sentences", 5)
    assert done.code == 0, done.err
    assert len(list((legacy / "exported").glob("*/model.safetensors"))) == len(RECORDED["bleu"]["dual"])


def test_it_is_resumed(cli: Cli, legacy: Path) -> None:
    stages = legacy / "run" / "stages"
    before = {name: weights_digest(stages / name) for name in STAGES}
    done = cli("train", legacy / "legacy.toml", "--run", legacy / "run")
    assert done.code == 0, done.err
    assert {name: weights_digest(stages / name) for name in STAGES} == before
    found = weights_digest(stages / "more")
    same_draws = read_checked(stages / "more" / "stage.json", "").get("draws", 1) == DRAWS
    assert found == RECORDED["more"] or not (SAME_MACHINE and same_draws)


def test_it_is_served(legacy: Path) -> None:
    """The first text of the recorded sources gets the translation that the library gives."""
    pytest.importorskip("fastapi")
    from helpers.serving import ask, running, service_of

    run, text = legacy / "run", RECORDED["sources"]["en"][0]
    engine = load_engine(ServeOptions(run, backend="loopmt"), legacy / "unused", Silent())
    with running(service_of(run, engine)) as client:
        answer = ask(client, "en>fr", [text]).json()
    assert [one["text"] for one in answer["translations"]] == loopmt.load(run).translate([text], "en>fr")


def test_it_is_reported(cli: Cli, legacy: Path) -> None:
    pytest.importorskip("matplotlib")
    done = cli("report", legacy / "run")
    page = (legacy / "run" / "report.html").read_text(encoding="utf-8")
    assert done.code == 0, done.err
    assert all(name in page for name in (*STAGES, "more"))


def test_loops_are_planned_on_it(cli: Cli, legacy: Path) -> None:
    done = cli("plan", legacy / "run", "--stage", "vanilla", "--sentences", 5, "--beam", 1)
    assert done.code == 0, done.err
    plan = json.loads((legacy / "run" / "plan.json").read_text(encoding="utf-8"))
    assert plan["stage"] == "vanilla" and plan["sentences"]
