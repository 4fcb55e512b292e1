"""Stages with loops: the settings work as documented, and a collapsed generator is detected."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import loopmt
from helpers.facts import refused
from helpers.stages import ASK, assembled, folder_of, records, stage
from loopmt.config import available_hops, expansions, taught_hops
from loopmt.errors import CollapseError, ConfigError
from loopmt.evaluation.validation import ValidationScores
from loopmt.progress import Silent
from loopmt.run import Checkpoint, Run, write_checkpoint
from loopmt.text.ragged import PAD
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import stack_of
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.stages import TrainingContext
from loopmt.workflow.train import TrainOptions, prepare_run, train

# -- settings of a path --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mix", "copies"),
    [
        ('["X>Y", "X>Y>X"]', set()),
        ('["X>Y", { path = "X>Y>X", generate = { by = "ema" } }]', {"ema"}),
        ('["X>Y", { path = "X>Y>Z>X", generate = [{ by = "frozen" }, { by = "live" }] }]', {"frozen"}),
        ('["X>Y", { path = "X>Y>Z>X", generate = [{ by = "frozen" }, { by = "ema" }] }]', {"frozen", "ema"}),
    ],
)
def test_copies_are_made_only_if_they_generate(ask_for: ASK, mix: str, copies: set[str]) -> None:
    assert stack_of(assembled(ask_for(stage(mix))).translators).copies.keys() == copies


def test_tags_mark_what_is_generated(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage('["X>Y", { path = "X>Y>X", tag = true, generate = { how = "greedy" } }]')))
    synthetic = trainer.translators.vocab.synthetic
    loops = {route.number for route in trainer.routes if route.synthetic}
    for batch in trainer._batches():
        for path in np.unique(batch.paths_NB[batch.paths_NB >= 0]):
            marked = batch.source_NBL[batch.paths_NB == path][:, 0] == synthetic
            assert marked.all() if path in loops else not marked.any()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_samples_of_a_sentence_are_combined(ask_for: ASK, dropout: float) -> None:
    entry = '{ path = "X>Y>X", samples = 3, combine = "logmeanexp", generate = { how = "sample", top_k = 5 } }'
    trainer = assembled(ask_for(stage(f'["X>Y", {entry}]', subword_dropout=dropout)))
    sizes: Counter[int] = Counter()
    for batch in trainer._batches():
        for network in range(batch.paths_NB.shape[0]):
            groups = batch.groups_NB[network]
            for group in set(groups[groups >= 0].tolist()):
                mine = groups == group
                sizes[int(mine.sum())] += 1
                assert len(np.unique(batch.target_NBL[network][mine], axis=0)) == 1, "of one real sentence"
    assert max(sizes) == 3, "and fewer where some were dropped"
    trainer._resume()
    assert trainer.run()


def test_the_last_round_generates_for_the_updates_that_are_left(ask_for: ASK) -> None:
    request = ask_for(stage('["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]', 9, round=8, log_every=1))
    assert train(request, Silent())
    *whole, last = records(request)
    assert [record["update"] for record in (*whole, last)] == [8, 9]
    assert 0 < last["generated_tokens"] < whole[0]["generated_tokens"] / 4


def test_a_path_joins_later(ask_for: ASK) -> None:
    mix = '["X>Y", { path = "X>Y>X", from_update = 8, generate = { how = "greedy" } }]'
    request = ask_for(stage(mix, updates=16))
    assert train(request, Silent())
    assert [record["generated_tokens"] > 0 for record in records(request)] == [False, False, True, True]
    with refused(ConfigError, "from_update = 0"):
        train(ask_for(stage('[{ path = "X>Y", from_update = 2 }]')), Silent())


def test_weights_are_shares_of_kept_rows(ask_for: ASK) -> None:
    """Filters drop about half of the generated rows here; the first rounds find out how many."""
    mix = '["X>Y", { path = "X>Y>X", weight = 2, generate = { how = "sample", temperature = 1.1, top_k = 0 } }]'
    request = ask_for(stage(mix, updates=64))
    assert train(request, Silent())
    last = records(request)[5:]
    tokens = Counter[int]()
    offered, kept = 0, 0
    for record in last:
        for path, count in record["tokens"].items():
            tokens[path.count(">")] += count
        offered += sum(watch["offered"] for watch in record["guards"])
        kept += sum(watch["offered"] - sum(watch["dropped"].values()) for watch in record["guards"])
    assert 0.25 < kept / offered < 0.9
    assert tokens[2] / tokens.total() == pytest.approx(2 / 3, abs=0.05)


def test_text_is_read_through_before_it_is_read_again(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage('["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]')))
    route = next(route for route in trainer.routes if str(route.path) == "en>fr")
    seen: Counter[bytes] = Counter()
    for _ in range(32):
        for batch in trainer._batches():
            seen.update(row[row != PAD].tobytes() for row in batch.source_NBL[batch.paths_NB == route.number])
        trainer.progress.round += 1
    assert len(seen) == 240
    assert min(seen.values()) > 1, "more than there is"
    assert max(seen.values()) - min(seen.values()) <= 2, "two epochs meet in what a round leaves over"


def test_one_network_for_all(ask_for: ASK) -> None:
    mix = '["X>Y", "X>Y>X", { path = "X>Y>Z>X", generate = { how = "greedy" } }]'
    request = ask_for(stage(mix, parent=False), "model.sharing=all", parent=False)
    assert train(request, Silent())
    assert {key.partition("/")[0] for key in folder_of(request).result().tensors["weights"]} == {"all"}


ZERO_SHOT = """
[[stage]]
name = "loops"
from = "before"
mix = ["X>Y", "X>Y>X"]
updates = 4
train = { tokens = 256, validate_every = 4, validate_sentences = 4 }
"""


def test_a_shared_network_translates_untaught_directions(ask_for: ASK) -> None:
    """Without fr-es its zero-shot translations are scored, and loops may begin with them."""
    star = 'data.bitext={ "en-fr" = "bi.en-fr", "en-es" = "bi.en-es" }'
    stages = stage('["X>Y"]', parent=False).replace('"loops"', '"before"') + ZERO_SHOT
    shared, apart = (ask_for(stages, star, f"model.sharing={sharing}", parent=False) for sharing in ("all", "none"))
    for request, directions in ((shared, 6), (apart, 4)):
        experiment, _ = request.load()
        assert len(available_hops(experiment, "loops")) == len(taught_hops(experiment, "loops")) == directions
        assert len(available_hops(experiment, "before")) == directions and len(taught_hops(experiment, "before")) == 4
        (_, _), (_, loops) = expansions(experiment, experiment.stage("loops"))
        assert len(loops.paths) == directions
    assert train(shared, Silent()) and shared.run is not None
    card = evaluate([shared.run], EvaluateOptions(beam=1), Silent())
    assert "fr>es" in card["stages"]["before"]["sets"]["test"]["directions"]
    for name, untaught in (("before", ["fr>es", "es>fr"]), ("loops", [])):
        record = [one for one in Run.open(shared.run).stage(name).records() if one["kind"] == "valid"][-1]
        heard = [bleu for hop, bleu in record["bleu"].items() if hop not in untaught]
        assert len(record["bleu"]) == 6 and record["untaught"] == untaught
        assert record["mean_bleu"] == sum(heard) / len(heard), "what nobody taught ends no stage"
        assert record["mean_accuracy"] is None, "text from files has no exact judge"


def test_untaught_directions_are_left_out_of_the_mean() -> None:
    bleu, accuracy = {"en>fr": 40.0, "fr>en": 20.0, "fr>es": 3.0}, {"en>fr": 0.5, "fr>en": 0.3, "fr>es": 0.0}
    heard = ValidationScores({}, bleu, accuracy, ["fr>es"])
    assert (heard.mean_bleu, heard.mean_accuracy) == (30.0, 0.4)
    assert ValidationScores({}, bleu, accuracy).mean_bleu == 21.0
    assert ValidationScores({}, {"fr>es": 3.0}, untaught=["fr>es"]).mean_bleu == 3.0, "where there is nothing else"


def test_a_shared_network_may_favor_directions_with_more_pairs(ask_for: ASK) -> None:
    settings = ["model.sharing=all", 'data.bitext={ "en-fr" = "bi.en-fr", "en-es" = "bi.en-es[0:60]" }']
    shares = []
    for balance in (0.0, 0.5, 1.0):
        trainer = assembled(
            ask_for(stage('["X>Y"]', parent=False, balance=balance, tokens=512), *settings, parent=False)
        )
        paths = [str(route.path) for route in trainer.routes]
        counts = Counter(paths[path] for batch in trainer._batches() for path in batch.paths_NB[batch.paths_NB >= 0])
        shares.append((counts["en>fr"] + counts["fr>en"]) / (counts["en>es"] + counts["es>en"]))
    assert shares == pytest.approx([1, 2, 4], rel=0.25)


# -- four languages ------------------------------------------------------------------------------------------------

FOUR = """
languages = ["aa", "bb", "cc", "dd"]
[data]
bitext = { "aa-bb" = "bi", "aa-cc" = "bi", "aa-dd" = "bi", "bb-cc" = "bi", "bb-dd" = "bi", "cc-dd" = "bi" }
mono = { aa = "mono", bb = "mono", cc = "mono", dd = "mono" }
valid = "valid"
[data.clean]
identical = false
overlap = false
[vocab]
size = 120
byte_fallback = false
[model]
layers = 1
width = 16
feed_forward = 16
heads = 2
dropout = 0.0
[train]
tokens = 128
max_length = 24
shapes = 1
round = 2
log_every = 2
learning_rate = 0.02
warmup = 5
validate_every = 100
validate_sentences = 2
[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 40
[[stage]]
name = "loops"
from = "vanilla"
mix = [
  "X>Y",
  { path = "X>Y>Z>X", per_round = 1, generate = { how = "greedy" } },
  { path = "X>Y>Z>W>X", per_round = 2, generate = { how = "sample", top_k = 3 } },
]
updates = 6
"""


def write_four(folder: Path) -> Path:
    """Four languages that spell the same few words with letters of their own."""
    chance = random.Random(1)
    for name, count in (("bi", 80), ("mono", 80), ("valid", 6)):
        meanings = [[chance.randrange(5) for _ in range(chance.randint(2, 4))] for _ in range(count)]
        for number, language in enumerate(("aa", "bb", "cc", "dd")):
            text = "".join(" ".join(chr(97 + 5 * number + word) * 2 for word in meaning) + "\n" for meaning in meanings)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    (folder / "four.toml").write_text(FOUR, encoding="utf-8")
    return folder / "four.toml"


def test_four_languages_and_loops_through_all_of_them(tmp_path: Path) -> None:
    request = TrainOptions(write_four(tmp_path), tmp_path / "run")
    assert train(request, Silent())
    trained = records(request)
    assert trained[-1]["update"] == 6
    for record in trained:
        walked = {(watch["path"], watch["place"]) for watch in record["guards"]}
        for hops, drawn in ((3, 1), (4, 2)):
            paths = {path for path, _ in walked if path.count(">") == hops}
            taught = Counter(">".join(path.split(">")[-2:]) for path in paths)
            assert len(taught) == 12
            assert set(taught.values()) == {drawn}, "as many paths to each direction as a round draws"
        assert {place for _, place in walked} == {0, 1, 2}
    drawn_by_round = [frozenset(watch["path"] for watch in record["guards"]) for record in trained]
    assert len(set(drawn_by_round)) == len(drawn_by_round), "others each round"


# -- collapse ------------------------------------------------------------------------------------------------------

BROKEN = '["X>Y", { path = "X>Y>X", generate = { by = "frozen", how = "greedy" } }]'


def break_generator(request: TrainOptions, *hops: str) -> None:
    """Replace translators in the parent's result by ones with empty outputs."""
    assert request.run is not None
    parent = Run(request.run).stage("vanilla")
    result = parent.result()
    weights = {
        key: torch.zeros_like(tensor) if key.partition("/")[0] in hops else tensor
        for key, tensor in result.tensors["weights"].items()
    }
    write_checkpoint(parent.folder / "result", Checkpoint(result.update, {"weights": weights}, result.state))


def broken(ask_for: ASK, on_collapse: str) -> TrainOptions:
    request = ask_for(stage(BROKEN, updates=32, on_collapse=on_collapse, log_every=8, tokens=512))
    break_generator(request, "en>fr")
    return request


def test_a_broken_generator_is_reported(ask_for: ASK) -> None:
    request = broken(ask_for, "warn")
    assert train(request, Silent())
    alarms = records(request, "alarm")
    assert {(alarm["path"], alarm["hop"]) for alarm in alarms} == {("en>fr>en", "en>fr")}
    assert all(fact in alarm["what"] for alarm in alarms for fact in ("100%", "dropped", "empty"))
    assert records(request)[-1]["update"] == 32, "and training goes on with the rest"


def test_a_broken_generator_stops_the_stage(ask_for: ASK) -> None:
    request = broken(ask_for, "stop")
    with pytest.raises(CollapseError) as caught:
        train(request, Silent())
    update = folder_of(request).updates()[-1]
    assert update > 0
    facts = ('stage "loops"', f"update {update}", "path en>fr>en", "hop en>fr", "100%", "empty", "train.on_collapse")
    assert all(fact in str(caught.value) for fact in facts)
    assert len(records(request, "alarm")) == 1


def test_a_broken_generator_is_rolled_back(ask_for: ASK) -> None:
    whole, paused = broken(ask_for, "rollback"), broken(ask_for, "rollback")
    assert train(whole, Silent())
    assert [alarm["path"] for alarm in records(whole, "alarm")] == ["en>fr>en"]
    after = [watch["path"] for record in records(whole) for watch in record["guards"]]
    assert "en>fr>en" not in after, "the path is out for the rest of the stage"
    assert "fr>en>fr" in after
    (end,) = records(whole, "end")
    assert len(end["dropped"]) == 1
    assert end["update"] == 32
    while not train(TrainOptions(paused.file, paused.run, stop_after=1e-6), Silent()):
        pass
    ours, theirs = (folder_of(request).result().tensors["weights"] for request in (whole, paused))
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert records(paused, "end")[0]["dropped"] == end["dropped"]


def test_a_stage_without_a_row_to_learn_from_ends(ask_for: ASK) -> None:
    request = ask_for(stage('[{ path = "en>fr>en", generate = { by = "frozen", how = "greedy" } }]'))
    break_generator(request, "en>fr")
    with refused(CollapseError, "update 0", "en>fr>en", "empty"):
        train(request, Silent())


# -- a vocabulary for each language --------------------------------------------------------------------------------

APART = """
[[stage]]
name = "one"
mix = ["en>es"]
updates = 4

[[stage]]
name = "more"
from = "one"
mix = ["en>es", "en>fr"]
updates = 4
"""


@pytest.fixture(scope="module")
def apart(tiny_experiment_file: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainOptions:
    """Languages with separate vocabularies, the largest of which is French; nothing is trained yet."""
    folder = tmp_path_factory.mktemp("apart")
    text = tiny_experiment_file.read_text(encoding="utf-8").partition("[[stage]]")[0]
    (folder / "apart.toml").write_text(text.replace('"text"', f'"{tiny_experiment_file.parent / "text"}"') + APART)
    settings = ('vocab.sharing="language"', "vocab.byte_fallback=false", "train.round=2")
    request = TrainOptions(folder / "apart.toml", folder / "run", settings)
    prepare_run(request, Silent())
    return request


def own_size(run: Path, *languages: str) -> int:
    return max(map(Vocab.load(run / "vocab").size, languages))


def copied(request: TrainOptions, folder: Path) -> TrainOptions:
    assert request.run is not None
    shutil.copytree(request.run, folder)
    return replace(request, run=folder)


def test_a_stage_may_add_a_language_with_a_larger_vocabulary(apart: TrainOptions, tmp_path: Path) -> None:
    request = copied(apart, tmp_path / "run")
    assert own_size(tmp_path / "run", "fr") > own_size(tmp_path / "run", "en", "es")
    assert train(request, Silent())
    assert loopmt.load(tmp_path / "run").directions == ["en>fr", "en>es"]


def test_smaller_tables_of_older_stages_are_read(
    apart: TrainOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions sized tables for a stage's own directions; such stages can be resumed, read and continued."""
    request, small = copied(apart, tmp_path / "run"), own_size(apart.run or Path(), "en", "es")
    with monkeypatch.context() as then:
        then.setattr(TrainingContext, "_begun_with", lambda *_: {"en>es/output_bias": torch.zeros(small)})
        assert not train(replace(request, only=("one",), stop_after=1e-9), Silent())
    assert train(request, Silent())
    weights = Run(tmp_path / "run").stage("one").result().tensors["weights"]
    assert len(weights["en>es/output_bias"]) == small, "resumed as it was begun"
    said = loopmt.load(tmp_path / "run", "one").translate(["The cat sees the dog."], "en>es")
    assert len(said) == 1
    after = Run(tmp_path / "run").stage("more").result().tensors["weights"]
    assert len(after["en>es/output_bias"]) == own_size(tmp_path / "run", "fr")
