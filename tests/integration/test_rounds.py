"""Consecutive rounds: hardly a row is wasted, and every update has its tokens and shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from helpers.stages import ASK, assembled, records, stage
from loopmt.learn.trainer import Trainer
from loopmt.progress import Silent
from loopmt.run import Checkpoint, Json, Run, write_checkpoint
from loopmt.text.batch import Batch
from loopmt.workflow.train import TrainOptions, train

GREEDY = 'generate = { how = "greedy" }'
LOOPS = '["X>Y", {{ path = "X>Y>X", weight = 2{} }}]'


def rounds(trainer: Trainer, count: int) -> Iterator[list[Batch]]:
    """The batches of consecutive rounds, without learning."""
    for _ in range(count):
        yield trainer._batches()
        trainer.progress.round += 1


def tokens_per_update(trainer: Trainer, count: int = 6) -> float:
    return float(np.mean([batch.target_tokens.sum() for batches in rounds(trainer, count) for batch in batches]))


# -- the rest of a round -------------------------------------------------------------------------------------------


def test_hardly_any_generated_row_is_discarded(ask_for: ASK) -> None:
    """Six networks; rows that a round does not use are used in the next."""
    mix = f'["X>Y", {{ path = "X>Y>X", {GREEDY} }}]'
    trainer = assembled(ask_for(stage(mix, round=8, tokens=1024), "guards.filters=[]"))
    offered = []
    gather: Callable[..., object] = trainer.gatherer.round

    def counting(*given: object) -> object:
        gathered = gather(*given)
        offered.append(sum(record.offered for _, record in gathered.records))  # type: ignore[attr-defined]
        return gathered

    trainer.gatherer.round = counting  # type: ignore[method-assign, assignment]
    learnt = 0
    for batches in rounds(trainer, 8):
        learnt += sum(int(np.isin(batch.paths_NB, synthetic(trainer)).sum()) for batch in batches)
    assert 0.95 * sum(offered) <= learnt <= sum(offered)


def synthetic(trainer: Trainer) -> list[int]:
    return [route.number for route in trainer.routes if route.synthetic]


def test_carried_rows_are_used_first_and_once(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage('["X>Y"]', tokens=512)))
    seen: list[tuple[int, ...]] = []
    waiting: set[tuple[int, ...]] = set()
    for batches in rounds(trainer, 2):
        pairs = [texts for batch in batches for texts in of_network(batch, 0)]
        assert waiting <= set(pairs)
        waiting = {(*row.tolist(),) for row in trainer.carried[0].sources.rows()}
        seen += pairs
    assert waiting and len(seen) == len(set(seen)), "of 240 pairs no two rounds read one twice"


def of_network(batch: Batch, network: int) -> list[tuple[int, ...]]:
    """The sources of a network's rows."""
    held = batch.paths_NB[network] >= 0
    return [tuple(row[row > 1].tolist()) for row in batch.source_NBL[network][held]]


def test_rows_of_removed_paths_are_not_carried(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage(LOOPS.format(f", {GREEDY}"), tokens=512)))
    next(rounds(trainer, 1))
    loops = synthetic(trainer)
    assert any(np.isin(rows.paths, loops).any() for rows in trainer.carried)
    trainer.progress.dropped = loops
    for batches in rounds(trainer, 1):
        assert not any(np.isin(batch.paths_NB, loops).any() for batch in batches)
    assert not any(np.isin(rows.paths, loops).any() for rows in trainer.carried)


# -- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [2, 3, 5])
def test_samples_that_combine_do_not_change_the_tokens_of_an_update(ask_for: ASK, samples: int) -> None:
    plain, combined = (
        tokens_per_update(assembled(ask_for(stage(LOOPS.format(more), tokens=1024, round=8))))
        for more in ("", f', samples = {samples}, combine = "logmeanexp"')
    )
    assert combined == pytest.approx(plain, rel=0.05)


def planted(request: TrainOptions) -> TrainOptions:
    """The translators into French generate empty outputs, which filters drop."""
    assert request.run is not None
    parent = Run(request.run).stage("vanilla")
    result = parent.result()
    weights = {
        key: torch.zeros_like(tensor) if key.partition("/")[0].endswith(">fr") else tensor
        for key, tensor in result.tensors["weights"].items()
    }
    write_checkpoint(parent.folder / "result", Checkpoint(result.update, {"weights": weights}, result.state))
    return request


FROZEN = LOOPS.format(', generate = { by = "frozen", how = "greedy" }')


def test_real_pairs_fill_the_budget_of_dropped_rows(ask_for: ASK) -> None:
    plain = tokens_per_update(assembled(ask_for(stage('["X>Y"]', tokens=1024))))
    trainer = assembled(planted(ask_for(stage(FROZEN, tokens=1024))))
    assert tokens_per_update(trainer) == pytest.approx(plain, rel=0.05)
    tokens = {path: spent["target_tokens"] for path, spent in trainer.progress.spent.items()}
    assert tokens["en>fr>en"] == 0 and tokens["en>es>en"] > 0
    fed, empty = tokens["es>en"] + tokens["en>es>en"], tokens["fr>en"] + tokens["en>fr>en"]
    assert tokens["en>es>en"] / fed == pytest.approx(2 / 3, abs=0.1), "a path that gives its rows keeps its share"
    assert empty == pytest.approx(fed, rel=0.1)


class Listener(Silent):
    """Records progress lines."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize("broken", [True, False])
def test_a_stage_warns_about_missing_generated_text(ask_for: ASK, broken: bool) -> None:
    request = ask_for(stage(FROZEN, tokens=512, updates=24, on_collapse="warn"))
    listener = Listener()
    assert train(planted(request) if broken else request, listener)
    warnings = [line for line in listener.said if "generated text" in line]
    assert len(warnings) == broken
    if broken:
        assert warnings[0].startswith("loops: ") and "67%" in warnings[0]
    (end,) = records(request, "end")
    assert meant_share(end) == pytest.approx(2 / 3, abs=0.02)


def meant_share(end: Json) -> float:
    loops = sum(spent["meant_tokens"] for path, spent in end["spent"].items() if path.count(">") == 2)
    return float(loops / sum(spent["target_tokens"] for spent in end["spent"].values()))


def test_chosen_loops_of_fresh_translators_have_no_share(ask_for: ASK) -> None:
    """Filters keep little of their output. An update then has as many tokens as with bitext only."""
    fresh = '"auto"\nauto = { sentences = 16 }'
    plain = tokens_per_update(assembled(ask_for(stage('["X>Y"]', parent=False, tokens=512), parent=False)), 3)
    trainer = assembled(ask_for(stage(fresh, parent=False, tokens=512), parent=False))
    trainer._resume()
    assert tokens_per_update(trainer, 3) == pytest.approx(plain, rel=0.05)
    (choice,) = [record for record in trainer.folder.records() if record["kind"] == "choice"]
    for path, worth in choice["worth"].items():
        assert worth["share"] == 0 or worth["kept"] >= 0.25, path


# -- common rows ---------------------------------------------------------------------------------------------------


def test_shared_rows_stay_shared_with_different_weights(ask_for: ASK) -> None:
    """In every round the path with the lower weight reads a part of the other one's rows."""
    same = f"same_rows = true, {GREEDY}"
    mix = f'["X>Y", {{ path = "X>Y>X", weight = 1.5, {same} }}, {{ path = "X>Z>Y>X", weight = 0.5, {same} }}]'
    trainer = assembled(ask_for(stage(mix, tokens=512), "guards.filters=[]"))
    one, other = (next(r for r in trainer.routes if str(r.path) == path) for path in ("en>fr>en", "en>es>fr>en"))
    read = trainer.gatherer.reader.read
    windows: dict[int, list[set[bytes]]] = {one.number: [], other.number: []}

    def watching(route, positions, count):  # type: ignore[no-untyped-def]
        text = read(route, positions, count)
        if route.number in windows:
            windows[route.number].append({row.tobytes() for row in text.ends.rows()})
        return text

    trainer.gatherer.reader.read = watching  # type: ignore[method-assign]
    for _ in rounds(trainer, 8):
        pass
    pairs = list(zip(windows[one.number], windows[other.number], strict=True))
    assert len(pairs) == 8
    assert all(lighter <= heavier for heavier, lighter in pairs)
    assert sum(len(lighter) for _, lighter in pairs) < 0.6 * sum(len(heavier) for heavier, _ in pairs)
