from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.facts import lacks, refused
from loopmt.config import Generate
from loopmt.errors import DamagedError, PathError, RunError
from loopmt.files.documents import read_checked
from loopmt.progress import Silent
from loopmt.run import write_json
from loopmt.text.store import Store
from loopmt.workflow.generate import GenerateOptions, GenerationJob, GenerationResult, generate
from loopmt.workflow.translate import load

GREEDY = Generate(how="greedy")
SAMPLED = Generate(how="sample", top_k=10, temperature=1.0)


def made(order: GenerateOptions) -> GenerationResult:
    found = generate(order, Silent())
    assert found is not None
    return found


def rows(out: Path, *endings: str) -> list[tuple[str, ...]]:
    return list(zip(*((out / f"synthetic.{one}").read_text().splitlines() for one in endings), strict=True))


def test_a_closed_path_gives_generated_sources_and_real_targets(tiny_run: Path, tmp_path: Path) -> None:
    found = made(GenerateOptions(tiny_run, "en>fr>en", tmp_path / "out", how=GREEDY, limit=50, chunk=20))
    pairs = rows(tmp_path / "out", "fr", "en")
    assert found.kept == len(pairs) and found.rows == 50 and found.kept + sum(found.dropped.values()) == 50
    assert found.chunks_done == found.chunks == 3 and not (tmp_path / "out" / "chunks").exists()
    sources, targets = zip(*pairs, strict=True)
    assert list(sources) == load(tiny_run).translate(targets, "en>fr", beam=1)
    scores = rows(tmp_path / "out", "scores.tsv")
    assert len(scores) == found.kept and all(line.startswith("en>fr>en\t-") for (line,) in scores)


def test_an_open_path_starts_from_bitext(tiny_run: Path, tiny_experiment_file: Path, tmp_path: Path) -> None:
    generate(GenerateOptions(tiny_run, "en>fr>es", tmp_path / "out", "vanilla", GREEDY, limit=30), Silent())
    real = (tiny_experiment_file.parent / "text" / "bi.en-es.es").read_text().splitlines()[:30]
    pairs = rows(tmp_path / "out", "fr", "es")
    assert 20 < len(pairs) <= 30 and {target for _, target in pairs} <= set(real)


@pytest.mark.parametrize("below", [0, 1, 2])
def test_rows_are_as_long_as_those_that_training_reads(tiny_run: Path, tmp_path: Path, below: int) -> None:
    lengths = Store.open(tiny_run / "store").mono("en").lengths()
    longest = int(lengths.max()) - below
    copy = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    values = read_checked(copy / "experiment.json", "")
    write_json(copy / "experiment.json", values | {"train": values["train"] | {"max_length": longest}})
    trainer_reads = int((lengths <= longest).sum())  # Gatherer._read, where the largest shape has room for it
    found = made(GenerateOptions(copy, "en>fr>en", tmp_path / "out", how=GREEDY))
    assert found.rows - found.dropped["long"] == trainer_reads


def test_shards_make_the_same_rows_as_one_process(tiny_run: Path, tmp_path: Path) -> None:
    order = GenerateOptions(tiny_run, "es>fr>en>es", tmp_path / "one", how=SAMPLED, limit=50, chunk=10)
    generate(order, Silent())
    for number in (1, 0):
        found = made(replace(order, out=tmp_path / "two", shard=(number, 2)))
        assert bool(found.files) == (number == 0) and found.chunks_done == (2 if number else 5)
    for ending in ("es", "en", "scores.tsv"):
        assert rows(tmp_path / "one", ending) == rows(tmp_path / "two", ending)


@pytest.fixture
def shards(tiny_run: Path, tmp_path: Path) -> tuple[GenerationJob, GenerationJob]:
    """Two processes, each with one chunk to make."""
    orders = [
        GenerateOptions(tiny_run, "en>fr>en", tmp_path / "out", how=GREEDY, limit=8, shard=(i, 2), chunk=4)
        for i in (0, 1)
    ]
    one, other = (GenerationJob.open(order, torch.device("cpu")) for order in orders)
    one.set_up()
    one.make(0, 2, Silent())
    return one, other


def after_a_look(monkeypatch: pytest.MonkeyPatch, job: GenerationJob, happens: Callable[[], None]) -> None:
    """Something that other processes do just after this one has looked which chunks are there, once."""
    look, events = GenerationJob._done, [happens]

    def looked(self: GenerationJob) -> list[int]:
        found = look(self)
        if self is job and events:
            events.pop()()
        return found

    monkeypatch.setattr(GenerationJob, "_done", looked)


def test_chunks_that_go_while_they_are_counted(
    shards: tuple[GenerationJob, GenerationJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = shards
    other.make(1, 2, Silent())
    after_a_look(monkeypatch, other, one.assemble)
    found = other.result()
    assert found == one.result() and found.chunks_done == 2 and found.rows == 8 and found.files == one.files


def test_a_damaged_chunk_is_an_error_all_the_same(shards: tuple[GenerationJob, GenerationJob]) -> None:
    shards[0].file(0).write_text("damaged")
    with pytest.raises(DamagedError, match=r"000000.json cannot be read"):
        shards[0].result()


def test_of_two_shards_that_end_together_one_assembles(
    shards: tuple[GenerationJob, GenerationJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last chunk is made just after the first process has found that it is missing."""
    one, other = shards

    def end() -> None:
        other.make(1, 2, Silent())
        other.assemble()

    after_a_look(monkeypatch, one, end)
    one.assemble()
    assert all(file.is_file() for file in one.result().files) and other.result().files


def test_chunks_that_go_while_one_of_them_is_made(
    shards: tuple[GenerationJob, GenerationJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both processes make all chunks, and the other one ends first."""
    one, other = shards
    make, events = GenerationJob._chunk, [1]

    def made_late(self: GenerationJob, *arguments: Any) -> Any:
        if self is one and events.pop():
            other.make(0, 1, Silent())
            other.assemble()
        return make(self, *arguments)

    monkeypatch.setattr(GenerationJob, "_chunk", made_late)
    one.file(0).unlink()
    one.make(0, 2, Silent())
    one.assemble()
    assert one.result() == other.result() and all(file.is_file() for file in one.result().files)
    assert not one.file(0).parent.exists()


def test_finished_chunks_are_not_made_again(tiny_run: Path, tmp_path: Path) -> None:
    order = GenerateOptions(tiny_run, "en>fr>en", tmp_path / "out", how=SAMPLED, limit=30, chunk=10)
    generate(replace(order, shard=(0, 3)), Silent())
    chunk = order.out / "chunks" / "000000.json"
    chunk.write_text(chunk.read_text().replace("Le ", "LE "))
    generate(order, Silent())
    sources = [line for (line,) in rows(order.out, "fr")]
    assert sources[0].startswith("LE ") and sources[-1].startswith("Le ")
    written = (order.out / "synthetic.fr").stat().st_mtime_ns
    assert made(order).kept == len(sources)
    assert (order.out / "synthetic.fr").stat().st_mtime_ns == written


def test_other_sampling_seeds_give_other_rows(tiny_run: Path, tmp_path: Path) -> None:
    order = GenerateOptions(tiny_run, "en>fr>en", tmp_path / "one", how=SAMPLED, limit=20)
    generate(order, Silent())
    generate(replace(order, out=tmp_path / "two", seed=2), Silent())
    assert rows(tmp_path / "one", "fr") != rows(tmp_path / "two", "fr")


@pytest.mark.parametrize("name", ["synthetic.en", "chunks/mine.txt"])
def test_a_folder_of_somebody_else_is_not_written_into(name: str, tiny_run: Path, tmp_path: Path) -> None:
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine", encoding="utf-8")
    with pytest.raises(RunError) as caught:
        made(GenerateOptions(tiny_run, "en>fr>en", tmp_path, limit=2))
    assert not lacks(
        str(caught.value),
        f"{tmp_path} is there already, and `loopmt generate` did not begin it: it holds {mine.name}. "
        "Nothing in it was touched. Choose another --out.",
    )
    assert mine.read_text(encoding="utf-8") == "mine" and not (tmp_path / "generate.json").exists()


def test_what_cannot_be_generated(tiny_run: Path, tmp_path: Path) -> None:
    order = GenerateOptions(tiny_run, "en>fr>en", tmp_path / "out", how=GREEDY, limit=4)
    with refused(PathError, "en>fr", "en>fr>en"):
        generate(replace(order, path="en>fr"), Silent())
    with pytest.raises(PathError, match=r"en>de.*en>fr, en>es"):
        generate(replace(order, path="en>de>en"), Silent())
    assert not order.out.exists()
    generate(order, Silent())
    with refused(RunError, "rows was 4, now 5", "seed was 1, now 2"):
        generate(replace(order, limit=5, seed=2), Silent())
    shutil.rmtree(order.out)
    order.out.write_text("a file")
    with refused(RunError, "--out"):
        generate(order, Silent())
