"""The benchmarks with tiny sizes: they run, all systems do the same work, and the figures are right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from benchmarks import agreement, host, ours, speed, table, training
from benchmarks.loops import dual, rounds, six_directions
from benchmarks.machine import matrix_peak
from benchmarks.timing import Json, Measurement, Plan, Work, compare, summary
from torch.utils.flop_counter import FlopCounterMode

from loopmt.config import Generate
from loopmt.path import Hop
from loopmt.text.batch import BatchShape
from loopmt.translate.networks import NetworkStack

PLAN = Plan(torch.device("cpu"), repeats=1, tiny=True)
HOP = Hop("en", "fr")
GREEDY, SAMPLE, BEAM = (
    Generate(how="greedy"),
    Generate(how="sample", temperature=1.0, top_k=0),
    Generate(how="beam", beam=4),
)


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> NetworkStack:
    return ours.Setting("base", 32_000).build(tmp_path_factory.mktemp("bench"), PLAN, [HOP])


@pytest.fixture(scope="module")
def sources(translators: NetworkStack) -> list[list[int]]:
    return ours.random_ids(translators.vocab, [3, 9, 5], "test")


@pytest.mark.parametrize("how", [GREEDY, SAMPLE, BEAM], ids=lambda how: how.how)
def test_every_sentence_gets_the_stated_number_of_tokens(
    translators: NetworkStack, sources: list[list[int]], how: Generate
) -> None:
    outputs = ours.decode(translators, HOP, sources, how, 7, PLAN)().each()
    assert [len(output.ids) for output in outputs] == [7, 7, 7]


@pytest.mark.parametrize("how", [GREEDY, BEAM], ids=lambda how: how.how)
def test_hugging_face_generates_what_we_do(translators: NetworkStack, sources: list[list[int]], how: Generate) -> None:
    pytest.importorskip("transformers")
    from benchmarks import hugging_face

    outputs = [output.ids for output in ours.decode(translators, HOP, sources, how, 7, PLAN)().each()]
    found = hugging_face.generation(translators, sources, how, 7, PLAN)()
    assert found[:, 1:].tolist() == outputs


def test_ctranslate2_translates_as_we_do(translators: NetworkStack, sources: list[list[int]], tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    from benchmarks import ctranslate

    found = ctranslate.greedy(translators, sources, 7, PLAN, "float32", tmp_path)()
    outputs = [output.ids for output in ours.decode(translators, HOP, sources, GREEDY, 7, PLAN)().each()]
    pieces = {piece: number for number, piece in enumerate(ctranslate.pieces_of(translators))}
    assert [[pieces[piece] for piece in one.hypotheses[0]] for one in found] == outputs


def test_dual_learning_learns_the_stated_tokens(tmp_path: Path) -> None:
    (measurement,) = dual(PLAN, tmp_path)
    assert set(measurement.systems) == {"loopmt", "loopmt, bitext only"}
    assert all(system["rate"] > 0 for system in measurement.systems.values())
    assert 0 < measurement.extra["gathering_share"] < 1


@pytest.mark.parametrize("paths", [("en>fr", "fr>en"), ("en>fr", "fr>en", "fr>en>fr", "en>fr>en")])
def test_a_round_is_full(tmp_path: Path, paths: tuple[str, ...]) -> None:
    both = ours.Setting("base", 32_000).build(tmp_path, PLAN)
    store = ours.random_store(tmp_path / "store", both.vocab, 50, (29, 29))
    ready = rounds(both, store, paths, [BatchShape(8, 32)], 2, PLAN, captured=False)
    assert [ready.run(), ready.run()] == [2 * 2 * 8 * 30] * 2
    per_path = ready.learner.tally.tokens.sum(0)
    assert per_path.tolist() == pytest.approx([2 * 2 * 2 * 8 * 30 / len(paths)] * len(paths), rel=0.05)


def test_six_directions_run(tmp_path: Path) -> None:
    (measurement,) = six_directions(PLAN, tmp_path)
    assert measurement.systems["loopmt, eager"]["rate"] > 0


def test_operations_are_those_that_torch_counts(translators: NetworkStack) -> None:
    batch = ours.random_batch(translators.vocab, 1, 4, 8)
    learner = ours.learner(translators, PLAN, captured=False)
    with FlopCounterMode(display=False) as counter:
        learner.add(batch)
    attention = 4 * 8 * 8 * translators.model.width * 4 * 3 * 3  # kernels that the counter may not know
    assert training.flops(translators, 4, 8) == pytest.approx(counter.get_total_flops(), abs=attention)


def test_a_failing_system_is_recorded_and_the_others_run() -> None:
    def broken() -> Work:
        raise RuntimeError("no such kernel")

    systems = {"loopmt": lambda: lambda: None, "peer": broken}
    found = compare(Measurement("nothing", "things/s", 3, "none"), systems, PLAN).as_json()
    assert found["systems"]["peer"] == {"failed": "RuntimeError: no such kernel"}
    assert found["systems"]["loopmt"]["rate"] > 0
    assert "peer failed" in table.line(found)


def test_the_rate_is_that_of_the_median() -> None:
    assert summary([4.0, 1.0, 2.0], 6) == {"rate": 3.0, "median_seconds": 2.0, "seconds": [4.0, 1.0, 2.0]}


def test_the_peak_is_operations_by_time() -> None:
    peak = matrix_peak(PLAN)
    assert peak["rate"] * peak["median_seconds"] == pytest.approx(2 * 64**3)


def test_parts_of_a_benchmark_become_one() -> None:
    machine: Json = {"device": "one", "threads": 1, "precision": "float32", "versions": {}, "command": "c"}
    runs: list[Json] = [
        {"machine": {**machine, "began": "2"}, "measurements": [{"name": "b", "amount": 2}]},
        {"machine": {**machine, "began": "1"}, "measurements": [{"name": "a"}, {"name": "b", "amount": 1}]},
        {"machine": {**machine, "began": "3", "device": "other"}, "measurements": [{"name": "a"}]},
    ]
    found = [content["measurements"] for content in table.merged(runs)]
    assert found == [[{"name": "a"}, {"name": "b", "amount": 2}], [{"name": "a"}]]


def test_figures_become_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(plan: Plan, folder: Path) -> list[Measurement]:
        systems = {"loopmt": summary([0.5], 3), "peer": summary([2.0], 3)}
        return [Measurement("nothing", "things/s", 3, "no shape", systems)]

    monkeypatch.setitem(speed.MEASUREMENTS, "nothing", nothing)
    assert speed.measure(PLAN, ["nothing"], tmp_path / "cpu.json")
    content = json.loads((tmp_path / "cpu.json").read_text())
    assert content["machine"]["versions"]["torch"] == torch.__version__
    assert "| nothing | things/s | 6 | peer 1.5 (4.00x) |" in table.table(content)


def test_the_hosts_time_is_divided_among_its_parts(tmp_path: Path) -> None:
    found = host.measure(PLAN, tmp_path)
    supervised, mixed = (found[f"six directions, {mix}"]["microseconds_per_update"] for mix in ("X>Y", "X>Y and X>Y>X"))
    assert supervised["decoding"] == 0 < mixed["decoding"] and "filters" in mixed
    for parts in (supervised, mixed):
        own = [spent for part, spent in parts.items() if part not in ("host", "decoding")]
        assert sum(own) == pytest.approx(parts["host"], abs=1)
    assert found["fetching rows against a CPU update of preset tiny"]["share"] > 0


def test_all_implementations_agree(tiny_run: Path) -> None:
    rows = list(agreement.compared(tiny_run, None, "valid", 5, torch.device("cpu")))
    assert [row["search"] for row in rows] == ["greedy", "beam 4"]
    for row in rows:
        assert row["sentences"] >= 10 and row["agree"]["float32 eager = float32 kernels"] == 1.0
        assert row["bleu"]["float32 eager"] == row["bleu"]["float32 kernels"] >= 0
    hop = Hop("en", "fr")
    assert agreement._same({hop: [[1, 2], [3]]}, {hop: [[1, 2], [3, 4]]}) == 0.5, "what differs is seen"
