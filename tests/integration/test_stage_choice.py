"""Which stage is used when none is named: no control of a finished stage, and none that is worse than its control."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helpers.commands import Cli
from helpers.experiments import TREE, compare
from loopmt import load
from loopmt.config import loads
from loopmt.files.documents import read_checked
from loopmt.progress import Silent
from loopmt.run import Run, write_json
from loopmt.workflow.generate import GenerateOptions, generate
from loopmt.workflow.serve import ServeOptions, load_engine
from loopmt.workflow.stage_choice import default_stage, known_setbacks

SENTENCE = "The small child hears the kind cat often."
ALL = ["vanilla", "longer", "dual", "multi"]
BOTH = compare("dual", "longer") + compare("multi", "dual")


@pytest.mark.parametrize(
    ("compared", "finished", "below", "expected"),
    [
        ("", ALL, [], "multi"),
        (BOTH, ALL, [], "multi"),
        (compare("longer", "multi"), ALL, [], "dual"),
        (compare("vanilla", "multi") + compare("longer", "dual"), ALL, [], "longer"),
        (compare("dual", "longer"), ALL[:2], [], "longer"),
        (BOTH, ALL, ["multi"], "dual"),
        (BOTH, ALL, ["multi", "dual"], "longer"),
        (BOTH, ALL[:3], ["dual"], "longer"),
        (compare("dual", "longer") + compare("longer", "dual"), ALL[:3], [], "vanilla"),
        (compare("dual", "longer") + compare("longer", "dual"), ALL[1:3], [], "dual"),
    ],
)
def test_the_default_stage(compared: str, finished: list[str], below: list[str], expected: str) -> None:
    """Whatever is compared: the budgets of these are alike, but some parents are not."""
    experiment = loads(TREE)
    named = loads(TREE + BOTH).compare[0]
    pairs = [one.split('"')[1::2] for one in compared.split("[[compare]]")[1:]]
    known = [named.model_copy(update={"of": of, "against": against}) for of, against in pairs]
    assert default_stage(experiment.model_copy(update={"compare": known}), finished, below) == expected


@pytest.fixture
def control_last(tiny_run: Path, tmp_path: Path) -> Path:
    """As the stages that `plan` prints: the control is trained after the stage that is compared with it."""
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    experiment = read_checked(run / "experiment.json", "")
    vanilla, longer, dual = experiment["stage"]
    write_json(run / "experiment.json", experiment | {"stage": [vanilla, dual, longer]})
    return run


def test_a_control_is_no_default(control_last: Path, tmp_path: Path) -> None:
    texts = [SENTENCE, "The old king."]
    assert load(control_last).translate(texts, "en>fr") == load(control_last, "dual").translate(texts, "en>fr")
    engine = load_engine(ServeOptions(control_last, backend="loopmt"), tmp_path, Silent())
    assert engine.stage == "dual"
    generate(GenerateOptions(control_last, "en>fr>en", tmp_path / "out", limit=2), Silent())
    settings = read_checked(tmp_path / "out/generate.json", "")["settings"]
    assert settings["stage"] == "dual"


def test_a_control_is_the_default_while_nothing_is_compared_with_it(control_last: Path) -> None:
    shutil.rmtree(control_last / "stages/dual")
    found, longer = load(control_last), load(control_last, "vanilla-longer")
    assert found.translate([SENTENCE], "en>fr") == longer.translate([SENTENCE], "en>fr")


def test_every_verb_names_its_stage(control_last: Path, tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("transformers")
    verbs = {
        "translate": ("translate", control_last, "en>fr"),
        "export": ("export", control_last, "--to", "hf", "--out", tmp_path / "hf", "--sentences", 2),
        "generate": ("generate", control_last, "en>fr>en", "--out", tmp_path / "out", "--limit", 2),
    }
    for words in verbs.values():
        done = cli(*words, stdin=SENTENCE)
        assert done.code == 0, done.err
        assert "stage dual (vanilla-longer is the control of dual" in done.err and "--stage" in done.err
    named = cli(*verbs["translate"], "--stage", "vanilla-longer", stdin=SENTENCE)
    assert named.err == "loopmt: stage vanilla-longer\n"


def test_a_damaged_scorecard_is_no_obstacle(control_last: Path) -> None:
    for content in (b"\xff", b"[]", b'{"comparisons": [1]}', b'{"comparisons": [{"of": "dual"}]}'):
        (control_last / "scorecard.json").write_bytes(content)
        assert known_setbacks(Run.open(control_last)) == {}
    assert load(control_last).directions
