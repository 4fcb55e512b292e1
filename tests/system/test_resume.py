"""A stage that was killed, stopped or paused ends with bit-identical weights and the same log."""

from __future__ import annotations

import io
import multiprocessing
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from helpers.facts import missing
from helpers.resuming import assert_same, outcome, started, wait_for
from helpers.stages import folder_of
from loopmt.errors import RunError, StoppedError
from loopmt.progress import Lines, Silent
from loopmt.run import Run
from loopmt.workflow.parallel_stages import _end_of
from loopmt.workflow.train import TrainOptions, train

ASK = Callable[..., TrainOptions]
STAGE = """
[[stage]]
name = "loops"
from = "vanilla"
updates = 28
mix = [
  "X>Y",
  { path = "X>Y>X", generate = { how = "sample", top_k = 5 } },
  { path = "X>Y>X", weight = 0.5, generate = { by = "ema", how = "greedy" } },
  { path = "X>Y>Z>X", weight = 0.5, per_round = 1, from_update = 6, generate = { by = "frozen", how = "greedy" } },
]

[stage.train]
tokens = 96
round = 4
validate_every = 6
validate_sentences = 4
log_every = 5
dropout = 0.1
average = 2
ema = 0.9
"""


def test_the_uninterrupted_stage_trains_correctly(reference: TrainOptions) -> None:
    _, records = outcome(reference)
    kinds = [record["kind"] for record in records]
    assert kinds.count("valid") == 5
    assert kinds.count("train") == 5
    assert kinds[-1] == "end"
    paths = {path for record in records if record["kind"] == "train" for path in record["loss"]}
    assert {path.count(">") for path in paths} == {1, 2, 3}
    assert sum(record.get("generated_tokens", 0) for record in records) > 0


def test_killed_at_random_moments(ask_for: ASK, reference: TrainOptions) -> None:
    chance = random.Random(4)
    request = ask_for(STAGE)
    folder = folder_of(request)
    killed = 0
    for lines in (0, 3, 6):  # of the log, before the end is near
        process = started(request)
        wait_for(lambda lines=lines: folder.begun and len(folder.records()) >= lines, process)  # type: ignore[misc]
        time.sleep(chance.random() * 0.3)
        killed += process.poll() is None
        process.kill()
        process.communicate()
    assert killed >= 2, "the moments were well chosen"
    assert train(request, Silent())
    assert_same(request, reference)
    assert not [entry for entry in folder.folder.iterdir() if entry.name.endswith((".draft", ".old"))]


def test_two_passes_resume_exactly(ask_for: ASK) -> None:
    """R-Drop draws the dropout of its second pass by key, too."""
    stage = STAGE.replace("ema = 0.9", "ema = 0.9\nrdrop = 1.0")
    whole, request = ask_for(stage), ask_for(stage)
    assert train(whole, Silent())
    folder = folder_of(request)
    process = started(request)
    wait_for(lambda: folder.begun and len(folder.records()) >= 3, process)
    process.kill()
    process.communicate()
    assert not folder.finished
    assert train(request, Silent())
    assert_same(request, whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_by_a_signal(ask_for: ASK, reference: TrainOptions, number: signal.Signals) -> None:
    request = ask_for(STAGE)
    folder = folder_of(request)
    process = started(request)
    wait_for(lambda: folder.begun and len(folder.records()) >= 1, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == (0 if folder.finished else 128 + number), "a shell's && does not go on"
    if not folder.finished:
        assert not missing(said, "paused", number.name, "same command")
        assert said.count(f"loops: {number.name} was received; pausing after this round of up to 4 updates, saved") == 1
        assert folder.updates()[-1] > 0
    assert train(request, Silent())
    assert_same(request, reference)


def test_paused_after_a_time(ask_for: ASK, reference: TrainOptions) -> None:
    request = ask_for(STAGE)
    pauses = 0
    while not train(TrainOptions(request.file, request.run, stop_after=0.2), Silent()):
        pauses += 1
        assert pauses < 100
    assert pauses > 1
    assert_same(request, reference)


def test_a_paused_stage_is_not_done(ask_for: ASK) -> None:
    request, stream = ask_for(STAGE), io.StringIO()
    assert not train(TrainOptions(request.file, request.run, stop_after=0.0), Lines(stream, interval=0))
    assert "training loops: stopped after" in stream.getvalue() and "training loops: done" not in stream.getvalue()


def test_paused_after_every_round(ask_for: ASK, reference: TrainOptions) -> None:
    request = ask_for(STAGE)
    while not train(TrainOptions(request.file, request.run, stop_after=1e-6), Silent()):
        pass
    assert_same(request, reference)


class Overheard(Silent):
    """Records progress lines and the position of the bar."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.stood: list[float] = []

    @contextmanager
    def track(self, description: str, total: float | None = None, done: float = 0.0) -> Iterator[Callable[..., None]]:
        if description == "stage 2 of 2, training loops":
            assert total == 28
            self.stood.append(done)
            yield lambda steps: self.stood.append(self.stood[-1] + steps)
        else:
            yield lambda steps: None

    def say(self, line: str) -> None:
        self.said.append(line)


def test_a_bar_moves_with_every_update_and_resumes(ask_for: ASK) -> None:
    request = ask_for(STAGE)
    first, second = Overheard(), Overheard()
    assert not train(TrainOptions(request.file, request.run, stop_after=0.0), first)
    paused = folder_of(request).updates()[-1]
    assert sorted(set(first.stood)) == list(range(paused + 1))
    assert train(request, second)
    assert sorted(set(second.stood)) == list(range(paused, 29))
    resuming = f"loops: resuming at update {paused} of 28"
    assert resuming not in first.said and second.said.count(resuming) == 1
    assert any(line.startswith("loops      28 of 28  loss ") for line in second.said)


def test_without_time_one_round_is_trained(ask_for: ASK) -> None:
    request = ask_for(STAGE)
    assert not train(TrainOptions(request.file, request.run, stop_after=0.0), Silent())
    assert 0 < folder_of(request).updates()[-1] <= 4


def test_a_damaged_checkpoint_costs_only_time(ask_for: ASK, reference: TrainOptions) -> None:
    request = ask_for(STAGE)
    folder = folder_of(request)
    while not len(folder.updates()) >= 3:
        assert not train(TrainOptions(request.file, request.run, stop_after=1e-6), Silent())
    newest = folder.place(folder.updates()[-1]) / "weights.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"x")
    with pytest.warns(UserWarning, match="previous checkpoint is used"):
        assert train(request, Silent())
    assert_same(request, reference)


def test_a_finished_stage_is_not_trained_again(reference: TrainOptions) -> None:
    folder = folder_of(reference)
    before = folder.metrics.stat().st_mtime_ns
    assert train(reference, Silent())
    assert folder.metrics.stat().st_mtime_ns == before


def test_a_changed_stage_is_refused_and_nothing_is_written(ask_for: ASK) -> None:
    request = ask_for(STAGE)
    assert not train(TrainOptions(request.file, request.run, stop_after=1e-6), Silent())
    assert request.run is not None
    before = (request.run / "experiment.json").read_bytes()
    with pytest.raises(RunError) as caught:
        train(TrainOptions(request.file, request.run, ["stage.loops.updates=50", "seed=1"]), Silent())
    message = str(caught.value)
    assert 'stage "loops": stage.updates was 28, now 50' in message and "--set stage.loops.updates=28" in message
    assert (request.run / "experiment.json").read_bytes() == before


SIBLINGS = "".join(
    f'[[stage]]\nname = "{name}"\nfrom = "{parent}"\nmix = ["X>Y"]\nupdates = {updates}\n'
    f"train = {{ tokens = 96, validate_sentences = 2, round = 4, dropout = {dropout} }}\n"
    for name, parent, updates, dropout in (("a", "vanilla", 40, 0.1), ("b", "vanilla", 8, 0.2), ("c", "b", 8, 0.3))
)


def test_parallel_stages_equal_sequential_ones(ask_for: ASK) -> None:
    """After a signal, all of them end their round and save."""
    both, single = ask_for(SIBLINGS), ask_for(SIBLINGS)
    assert both.run is not None and single.run is not None
    process = started(both, "--jobs", "2")
    last = Run(both.run).stage("c")
    wait_for(lambda: last.begun and bool(last.updates()), process)
    process.terminate()
    _, said = process.communicate(timeout=300)
    finished = all(Run(both.run).stage(name).finished for name in "abc")
    assert process.returncode == (0 if finished else 143), said
    if not finished:
        assert "training paused: SIGTERM was received" in said
        assert "b       8 of 8  loss " in said
    for request in (both, single):
        assert train(request, Silent())
    for name in ("a", "b", "c"):
        ours, theirs = (Run(folder).stage(name).result().tensors["weights"] for folder in (both.run, single.run))
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


ENDLESS = "".join(
    f'[[stage]]\nname = "{name}"\nfrom = "vanilla"\nmix = ["X>Y"]\nupdates = 20000\n'
    "train = { tokens = 96, validate_sentences = 2, round = 20000 }\n"
    for name in "ab"
)


def test_two_signals_to_parallel_stages_give_one_message(ask_for: ASK) -> None:
    """As a terminal does it: the second Ctrl-C reaches every process, in a round that is far from its end."""
    request = ask_for(ENDLESS)
    assert request.run is not None
    process = started(request, "--jobs", "2")
    both = [Run(request.run).stage(name) for name in "ab"]
    wait_for(lambda: all(folder.begun and folder.updates() for folder in both), process)
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(5)  # a busy machine hears the first late, and within two seconds the second is the same
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "loopmt: interrupted.\n" in said
    for name in "ab":
        assert said.count(f"{name}: SIGINT was received; pausing after this round of up to 20,000 updates") == 1
    assert not missing(said, "Ctrl-C again", "last checkpoint")
    assert "Traceback" not in said


def test_signals_during_start_up_pause_parallel_stages(ask_for: ASK, capfd: pytest.CaptureFixture[str]) -> None:
    """A Ctrl-C in the terminal reaches every process, and these are still importing."""
    request = replace(ask_for(ENDLESS), jobs=2)

    def interrupt() -> None:
        while len(children := multiprocessing.active_children()) < 2:
            time.sleep(0.01)
        time.sleep(0.3)
        for child in children:
            os.kill(child.pid or 0, signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt, daemon=True)
    killer.start()
    with pytest.raises(StoppedError, match="training paused: SIGINT was received") as caught:
        train(request, Silent())
    assert caught.value.exit_code == 130
    assert capfd.readouterr().err == ""
    killer.join()


PATIENT = ENDLESS.replace("round = 20000", "round = 4")


@contextmanager
def one_of_several_gets(number: int, request: TrainOptions) -> Iterator[None]:
    """A signal for the process of one stage, once both are learning."""
    assert request.run is not None
    both = [Run(request.run).stage(name) for name in "ab"]

    def kill() -> None:
        while not all(folder.begun and folder.updates() for folder in both):
            time.sleep(0.01)
        os.kill(multiprocessing.active_children()[0].pid or 0, number)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    yield
    killer.join()


def test_a_signal_to_one_parallel_stage_pauses_all(ask_for: ASK) -> None:
    request = replace(ask_for(PATIENT), jobs=2)
    said = io.StringIO()
    with one_of_several_gets(signal.SIGTERM, request):
        assert not train(request, Lines(said))
    assert re.search('training paused: stage "[ab]" was asked to stop. The same command resumes it.', said.getvalue())


def test_a_killed_parallel_stage_is_named(ask_for: ASK) -> None:
    request = replace(ask_for(PATIENT), jobs=2)
    killed = 'stage "[ab]" was killed by SIGKILL, .*; the same command resumes it'
    with one_of_several_gets(signal.SIGKILL, request), pytest.raises(RunError, match=killed):
        train(request, Silent())


@pytest.mark.parametrize(
    ("number", "end"),
    [
        (signal.SIGKILL, "was killed by SIGKILL, as a machine does that runs out of memory"),
        (signal.SIGALRM, "was killed by SIGALRM"),
        (signal.SIGRTMIN + 1, "was killed by signal 35"),  # which has no name
    ],
)
def test_only_kills_by_the_system_are_attributed_to_memory(number: int, end: str) -> None:
    process = multiprocessing.get_context("spawn").Process(target=signal.raise_signal, args=(number,))
    process.start()
    process.join()
    assert _end_of(process) == end
