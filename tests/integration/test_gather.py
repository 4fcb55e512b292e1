"""The rows of a round: from the whole corpus, none too long, separate for each route, with the budgeted tokens."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from loopmt.distributed import Processes
from loopmt.learn.gather import Gatherer
from loopmt.learn.trainer import Trainer
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.store import Side, Store, StoreWriter
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, assemble
from loopmt.workflow.train import TrainOptions, prepare_run, train

ASK = Callable[..., TrainOptions]
STAGE = """
[[stage]]
name = "own"
mix = {mix}
updates = 4
train = {{ tokens = 512, round = 2, max_length = {longest} }}
"""


def assembled(request: TrainOptions) -> Trainer:
    prepare_run(request, Silent())
    assert request.run is not None
    return assembled_in(Run(request.run))


def assembled_in(run: Run) -> Trainer:
    context = TrainingContext.open(run, torch.device("cpu"), Processes())
    return assemble(context, context.experiment.stage("own"), run.stage("own"), StopSignal(), lambda record: None)


def write_store(folder: Path, pairs: dict[str, npt.NDArray[np.int64]]) -> None:
    writer = StoreWriter(folder)
    for pair, lengths in pairs.items():
        with writer.sides(pair, pair.split("-")) as sides:
            for side in sides:
                side.append(np.full(int(lengths.sum()), 20, dtype=np.uint16), lengths.astype(np.int32))
    writer.add_set("valid", "", {language: ["One.", "Two."] for language in ("en", "fr", "es")})
    writer.close()


def with_lengths(request: TrainOptions, lengths: npt.NDArray[np.int64]) -> Trainer:
    """The stage with pairs of these lengths, the same in all languages."""
    run, _ = prepare_run(request, Silent())
    shutil.rmtree(run.folder / "store")
    write_store(run.folder / "store", dict.fromkeys(("en-fr", "en-es", "fr-es"), lengths))
    return assembled_in(run)


def lengths_read(gatherer: Gatherer) -> set[int]:
    gathered = gatherer.round(0, dict.fromkeys(range(len(gatherer.routes)), 1.0))
    return set(gathered.networks[0].targets.lengths.tolist())


def test_a_corpus_that_begins_with_short_rows_is_read_to_its_end(ask_for: ASK) -> None:
    """A dictionary comes before sentences, which must fit into the batch shapes."""
    request = ask_for(STAGE.format(mix='["X>Y"]', longest=64), parent=False)
    trainer = with_lengths(request, np.repeat([2, 40], [101_000, 20_000]))
    assert lengths_read(trainer.gatherer) == {2, 40}
    assert trainer.shapes[0].length < 40 < trainer.shapes[-1].length


def test_a_sample_is_of_the_whole_corpus(tmp_path: Path) -> None:
    write_store(tmp_path / "store", {"en-fr": np.arange(25_000) % 50 + 1})
    side: Side = Store.open(tmp_path / "store").bitext("en", "fr")[0]
    rows = side.sample(5_000)
    assert len(set(rows.tolist())) == 5_000
    assert rows[0] == 0 and rows[-1] == 24_999
    assert side.sample(25_000).tolist() == list(range(25_000))
    assert len(side.sample(7)) == 7


@pytest.mark.parametrize("longest", range(15, 19))
def test_rows_are_as_long_as_they_may_be_and_no_longer(ask_for: ASK, longest: int) -> None:
    request = ask_for(STAGE.format(mix='["X>Y"]', longest=longest), parent=False)
    assert max(lengths_read(with_lengths(request, np.arange(2_000) % 30 + 1).gatherer)) == longest


def test_rows_of_the_greatest_length_are_read_where_all_others_are_short(ask_for: ASK) -> None:
    request = ask_for(STAGE.format(mix='["X>Y"]', longest=16), parent=False)
    assert lengths_read(with_lengths(request, np.repeat([4, 16], 100)).gatherer) == {4, 16}


def test_two_entries_of_one_path_read_rows_of_their_own(ask_for: ASK) -> None:
    loops = '["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }, "X>Y>X"]'
    request = ask_for(STAGE.format(mix=loops, longest=64).replace("mix =", 'from = "vanilla"\nmix ='))
    gatherer = assembled(request).gatherer
    first, second = (route for route in gatherer.routes if str(route.path) == "en>fr>en")
    ends = [gatherer.reader.read(route, {}, 50).ends for route in (first, second)]
    assert ends[0].flat.tolist() != ends[1].flat.tolist()


@pytest.mark.parametrize(
    ("mix", "taught"),
    [('["X>Y"]', 6), ('["en>fr", "fr>en", "en>es", "es>en"]', 4)],  # of six that the network speaks
)
def test_a_shared_network_has_the_tokens_of_what_it_is_taught(ask_for: ASK, mix: str, taught: int) -> None:
    request = ask_for(STAGE.format(mix=mix, longest=64), "model.sharing=all", parent=False)
    trainer = assembled(request)
    assert len(trainer.translators.hops) == 6
    places = [shape.rows * shape.length for shape in trainer.shapes]
    assert (taught - 1) * 512 < max(places) <= taught * 512


def test_pairs_at_the_ends_of_a_path_are_read_where_its_direction_has_no_text(ask_for: ASK) -> None:
    """Pivoting: fr>es learns from pairs of en-es, and there is neither fr-es nor monolingual Spanish."""
    request = ask_for(STAGE.format(mix='["en>fr>es", "en>es>fr"]', longest=64), parent=False)
    star = '[[stage]]\nname = "star"\nmix = ["X>Y"]\nupdates = 4\n\n'
    only = 'bitext = { "en-fr" = "bi.en-fr", "en-es" = "bi.en-es" }'
    text = request.file.read_text(encoding="utf-8").replace("mix =", 'from = "star"\nmix =')
    text = re.sub("bitext = .*\nmono = .*", only, text).replace("[[stage]]", f"{star}[[stage]]")
    request.file.write_text(text, encoding="utf-8")
    assert train(TrainOptions(request.file, request.file.parent / "pivot"), Silent())
