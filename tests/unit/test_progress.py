"""Progress: occasional lines, bars on a terminal, or nothing."""

from __future__ import annotations

import io

import pytest

from loopmt.config import MixEntry, Stage, Train
from loopmt.progress import Bars, Lines, Progress, Silent, _status, standard, wrapped
from loopmt.workflow.observers import Display


def test_lines_are_occasional() -> None:
    stream = io.StringIO()
    with Lines(stream).track("cleaning", 1000) as advance:
        for _ in range(1000):
            advance(1)
    assert stream.getvalue() == ""


def test_lines_report_the_progress() -> None:
    stream = io.StringIO()
    progress = Lines(stream, interval=0)
    with progress.track("outer") as outer, progress.track("inner", 200) as inner:
        inner(50)
        outer(3)
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["inner: 25% after 0 s, about 0 s left", "outer: 3 after 0 s"]
    assert lines[2:] == ["inner: done in 0 s", "outer: done in 0 s"]


def test_a_stopped_task_is_not_reported_as_done() -> None:
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt), Lines(stream, interval=0).track("training vanilla", 10):
        raise KeyboardInterrupt
    assert stream.getvalue() == "training vanilla: stopped after 0 s\n"


@pytest.mark.parametrize(
    ("done", "total", "seconds", "said"),
    [
        (30, 120, 20.0, "25% after 20 s, about 60 s left"),
        (1, 400, 21.0, "0% after 21 s"),
        (1, 400, 61.0, "0% after 61 s, about 6.8 h left"),
        (1, 10, 90.0, "10% after 90 s, about 14 min left"),
        (1, 10, 3600.0, "10% after 60 min, about 9.0 h left"),
        (10, 10, 9.0, "100% after 9 s"),
        (0, 10, 9.0, "0% after 9 s"),
        (1234, None, 9.0, "1,234 after 9 s"),
    ],
)
def test_time_left(done: float, total: float | None, seconds: float, said: str) -> None:
    assert _status(done, total, seconds) == said


def test_resumed_steps_do_not_count_for_the_remaining_time() -> None:
    assert _status(80, 120, 20.0, before=60) == "67% after 20 s, about 40 s left"
    assert _status(60, 120, 20.0, before=60) == "50% after 20 s"
    stream = io.StringIO()
    with Lines(stream, interval=0).track("training", 120, 60) as advance:
        advance(30)
    assert stream.getvalue().startswith("training: 75% after 0 s, about 0 s left\n")


@pytest.mark.parametrize("progress", [Silent(), Bars(), Lines(interval=1e9)])
def test_tasks_can_nest_and_print_lines(progress: Progress, capfd: pytest.CaptureFixture[str]) -> None:
    with progress.track("outer", 2) as outer, progress.track("inner") as inner:
        inner(1)
        outer(1)
        progress.say("[a line]")
    progress.say("afterwards")
    out, err = capfd.readouterr()
    assert out == ""
    assert ("[a line]" in err and "afterwards" in err) != isinstance(progress, Silent)


def test_a_bar_begins_at_the_resumed_step() -> None:
    bars = Bars()
    with bars.track("training", 120, 32):
        task = bars._started().tasks[0]
        assert task.completed == 32 and task.time_remaining is None


def test_a_failure_inside_leaves_no_bar_behind() -> None:
    bars = Bars()
    with pytest.raises(ValueError, match="inside"), bars.track("work", 3):
        raise ValueError("inside")
    with bars.track("again", 1) as advance:
        advance(1)


def test_without_a_terminal_there_are_lines() -> None:
    assert isinstance(standard(), Lines)


def test_a_validation_reports_the_directions_of_its_mean() -> None:
    """Untaught directions of a shared network are shown, but left out of the mean."""
    stream = io.StringIO()
    stage = Stage(name="dual", mix=[MixEntry(path="X>Y")], updates=10)
    display = Display(stage, Train.model_validate({}), Lines(stream))
    valid = {"kind": "valid", "update": 5, "mean_accuracy": None}
    several = {"en>fr": 40.0, "fr>en": 20.0, "fr>es": 0.5}
    display.show({**valid, "mean_bleu": 30.0, "bleu": several, "untaught": ["fr>es"]})
    display.show({**valid, "mean_bleu": 40.0, "bleu": {"en>fr": 40.0}})
    first, second = stream.getvalue().splitlines()
    assert "valid BLEU 30.00 (mean of 2)" in first and "fr>es 0.5 (not trained)" in first
    assert "valid BLEU 40.00  (en>fr 40.0)" in second


def test_prose_is_wrapped_for_a_terminal_and_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "  left out: nl>pt needs bitext"
    monkeypatch.delenv("COLUMNS", raising=False)
    assert wrapped(line) == line
    monkeypatch.setenv("COLUMNS", "20")
    assert wrapped(line) == wrapped(line, 20) == "  left out: nl>pt\n    needs bitext"
    assert "path/that-is-longer-than-the-terminal" in wrapped("a path/that-is-longer-than-the-terminal", 20).split()
