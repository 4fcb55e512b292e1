"""Settings of stages across versions: keys that were added, defaults that changed, other random draws.

A record of an older version is made from a real one: it lacks a key, or holds the default of that time.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from helpers.commands import AskFor, Cli
from loopmt.config import Clean, Data, VocabConfig, WorldData, loads
from loopmt.config import recorded as records
from loopmt.errors import RunError
from loopmt.files.documents import read_checked, with_checksum
from loopmt.progress import Silent
from loopmt.rng import DRAWS
from loopmt.run import Run, write_json
from loopmt.workflow.settings import stage_settings
from loopmt.workflow.train import TrainOptions, train


@pytest.fixture
def options(tiny_experiment_file: Path, tiny_run: Path, tmp_path: Path) -> TrainOptions:
    """A copy of the finished tiny run."""
    return TrainOptions(tiny_experiment_file, Path(shutil.copytree(tiny_run, tmp_path / "run")))


@pytest.fixture
def paused(ask_for: AskFor) -> TrainOptions:
    """A stage that was paused after its first round."""
    stage = '[[stage]]\nname = "more"\nfrom = "vanilla"\nmix = ["X>Y"]\nupdates = 24\n'
    asked = ask_for(stage)
    assert not train(replace(asked, stop_after=1e-6), Silent())
    return asked


def edit(options: TrainOptions, stage: str, *keys: str, **values: Any) -> None:
    """Take keys of [train] out of a stage's record, or change their values."""
    assert options.run is not None
    file = options.run / "stages" / stage / "stage.json"
    found = read_checked(file, "")
    train_keys = {key: value for key, value in found["train"].items() if key not in keys}
    write_json(file, with_checksum({**found, "train": {**train_keys, **values}}))


def set_top(options: TrainOptions, stage: str, **values: Any) -> None:
    assert options.run is not None
    file = options.run / "stages" / stage / "stage.json"
    write_json(file, with_checksum({**read_checked(file, ""), **values}))


def refusal(options: TrainOptions) -> str:
    with pytest.raises(RunError) as caught:
        train(options, Silent())
    return str(caught.value)


# -- keys that were added --------------------------------------------------------------------------------------


def test_a_stage_resumes_with_a_key_that_was_added_since(paused: TrainOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(paused, "more", "clip")
    assert "train.clip" in refusal(paused), "not in the table: the value before is not known"
    monkeypatch.setitem(records.ADDED, "train.clip", 1.0)
    assert train(paused, Silent())


def test_a_key_that_was_added_since_must_keep_its_effect_while_a_stage_is_trained(
    paused: TrainOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the message says to add makes the stage go on."""
    monkeypatch.setitem(records.ADDED, "train.clip", 0.5)
    edit(paused, "more", "clip")
    message = refusal(paused)
    assert all(fact in message for fact in ('"more"', "train.clip", "did not exist", "0.5", "1.0"))
    option = re.search(r"--set (\S*clip=0\.5)", message)
    assert option and train(replace(paused, overrides=[option[1]]), Silent())


def test_finished_stages_never_refuse_a_key_that_was_added_since(
    options: TrainOptions, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setitem(records.ADDED, "train.clip", 0.5)
    for stage in ("vanilla", "dual"):
        edit(options, stage, "clip")
    done = cli("train", options.file, "--run", options.run)
    assert done.code == 0, done.err
    (notice,) = [line for line in done.err.splitlines() if "clip" in line]
    assert "vanilla, dual" in notice and "0.5" in notice and "1.0" in notice
    assert "vanilla-longer" not in notice, "its record has the key"


def test_a_section_that_was_added_since(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"seed": 1, "guards": {"window": 3, "limits": {"share": 0.5}}}
    assert [change.key for change in records.changes({"seed": 1}, now)] == ["guards.window", "guards.limits.share"]
    monkeypatch.setitem(records.ADDED, "guards.window", 3)
    monkeypatch.setitem(records.ADDED, "guards.limits.share", 0.5)
    assert not records.changes({"seed": 1}, now)


EVERYTHING = """
languages = ["en", "fr", "es"]
data = { bitext = { "en-fr" = "b", "en-es" = "b" }, mono = { en = "m", fr = "m", es = "m" }, valid = "v" }
[[stage]]
name = "chosen"
mix = "auto"
updates = 10
[[stage]]
name = "listed"
mix = ["X>Y", { path = "X>Y>X", generate = [{ how = "greedy" }] }]
updates = 10
"""


def keys(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a record with its value, without positions in lists."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from keys(inner, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from keys(inner, place)
    else:
        yield place, value


def test_every_key_is_off_or_of_the_first_version_or_in_the_table(legacy: Path, tmp_path: Path) -> None:
    """Who adds a key that affects training by default says in `ADDED` how stages were trained before."""
    first = dict(keys(json.loads((legacy / "run/stages/more/stage.json").read_text(encoding="utf-8"))))
    experiment, run = loads(EVERYTHING), Run(tmp_path)
    found = [keys(stage_settings(experiment, run, "text", stage)) for stage in experiment.stages]
    now = [one for pairs in found for one in pairs]
    on = {key for key, value in now if value is not None}
    assert on - set(first) - set(records.ADDED) == {"version", "draws", "stage.mix"}, "stage.mix: the word auto"
    assert set(records.ADDED) <= {key for key, _ in now}, "a key that does not exist"


def test_a_key_that_is_off_by_default_needs_no_entry_in_the_table(paused: TrainOptions) -> None:
    """Until somebody turns it on."""
    edit(paused, "more", "rdrop")
    message = refusal(replace(paused, overrides=["train.rdrop=2.0"]))
    assert all(fact in message for fact in ('"more"', "train.rdrop", "did not exist", "null", "2.0"))
    assert train(paused, Silent())


# -- values that changed ---------------------------------------------------------------------------------------


def test_a_default_that_changed_is_named_with_its_old_value(paused: TrainOptions) -> None:
    edit(paused, "more", ema=0.99)
    message = refusal(paused)
    assert all(fact in message for fact in ("train.ema", "0.99,", "0.999", "default"))
    assert "--set stage.more.train.ema=0.99" in message
    assert train(replace(paused, overrides=["stage.more.train.ema=0.99"]), Silent())


def test_all_values_to_restore_can_be_pasted(paused: TrainOptions) -> None:
    changed = replace(paused, overrides=["train.ema=0.5", "stage.more.updates=30", "stage.more.mix=['X>Y>X', 'X>Y']"])
    assert "stage.mix" in refusal(changed)
    changed = replace(paused, overrides=["train.ema=0.5", "stage.more.updates=30"])
    message = refusal(changed)
    words = shlex.split(message[message.index("--set") :].partition(")")[0])
    assert train(replace(changed, overrides=[*changed.overrides, *words[1::2]]), Silent())


def test_where_a_value_is_set_does_not_matter(paused: TrainOptions) -> None:
    """The stage's own table, [train] and train.continued have the same effect here."""
    moved = ["stage.more.train.learning_rate=1e-3", "train.continued.learning_rate=0.5", "train.clip=1.0"]
    assert train(replace(paused, overrides=moved), Silent())


def test_settings_of_chosen_loops_matter_only_where_loops_are_chosen(paused: TrainOptions) -> None:
    assert train(replace(paused, overrides=["stage.more.auto.sentences=11"]), Silent())


def test_a_changed_entry_of_a_mix_is_named_by_its_key() -> None:
    before = {"stage": {"mix": [{"path": "X>Y", "keep": 1.0}, {"path": "X>Y>X", "keep": 1.0}]}}
    now = {"stage": {"mix": [{"path": "X>Y", "keep": 1.0}, {"path": "X>Y>X", "keep": 0.8}]}}
    (change,) = records.changes(before, now)
    assert (change.key, change.before, change.now, change.undo("more")) == ("stage.mix[2].keep", 1.0, 0.8, None)


def test_more_updates_of_a_finished_stage_need_a_stage_after_it(options: TrainOptions) -> None:
    message = refusal(replace(options, overrides=["stage.vanilla.updates=400"]))
    assert all(fact in message for fact in ("120", "400", "--set stage.vanilla.updates=120", 'from = "vanilla"'))


# -- versions --------------------------------------------------------------------------------------------------


def test_other_draws_are_said_once_and_training_goes_on(paused: TrainOptions, cli: Cli) -> None:
    set_top(paused, "more", draws=DRAWS - 1)
    done = cli("train", paused.file, "--run", paused.run)
    assert done.code == 0, done.err
    (notice,) = [line for line in done.err.splitlines() if "random draws" in line]
    assert "more" in notice and f"version {DRAWS - 1}" in notice and f"has {DRAWS}" in notice


def test_the_same_draws_are_not_mentioned(paused: TrainOptions, cli: Cli) -> None:
    done = cli("train", paused.file, "--run", paused.run)
    assert done.code == 0 and "random draws" not in done.err


def test_a_stage_of_a_newer_version_is_not_resumed(paused: TrainOptions) -> None:
    set_top(paused, "more", version=records.VERSION + 1)
    message = refusal(paused)
    assert all(fact in message for fact in ('"more"', "newer version", "Update loopmt"))


def test_a_finished_stage_of_a_newer_version_is_kept(options: TrainOptions) -> None:
    set_top(options, "dual", version=records.VERSION + 1)
    assert train(options, Silent())


def test_generated_text_goes_on_after_a_key_was_added(cli: Cli, tiny_run: Path, tmp_path: Path) -> None:
    words = ("generate", tiny_run, "en>fr>en", "--out", tmp_path / "out", "--limit", 4)
    assert cli(*words).code == 0
    file = tmp_path / "out" / "generate.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    del found["settings"]["how"]["top_p"]
    write_json(file, found)
    done = cli(*words)
    assert done.code == 0, done.err


DEFAULTS_OF_TEXT: dict[type[BaseModel], dict[str, Any]] = {
    Clean: {
        **dict.fromkeys(("nfc", "control", "empty", "identical", "duplicates", "overlap"), True),
        "max_words": 200,
        "max_characters": 2000,
        "ratio": 4.0,
    },
    Data: {"pretokenize": False, "lowercase": False},
    VocabConfig: {"size": 8000, "kind": "bpe", "sharing": "joint", "sample": 1_000_000, "byte_fallback": True},
    WorldData: {"size": "tiny", "valid": 300, "test": 500, "seed": None},
}


@pytest.mark.parametrize("section", DEFAULTS_OF_TEXT)
def test_defaults_of_text_and_vocabulary_do_not_change(section: type[BaseModel]) -> None:
    """A manifest records only what differs from them, so a prepared run would not notice a new default."""
    expected = DEFAULTS_OF_TEXT[section]
    assert {key: section.model_fields[key].default for key in expected} == expected
