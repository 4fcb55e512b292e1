"""Signals: a first one pauses training and is acknowledged at once, a second one interrupts."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from loopmt.workflow.signals import StopSignal


def test_a_signal_after_the_time_is_over_is_no_interruption() -> None:
    stop_signal = StopSignal(deadline=time.monotonic() - 60)
    with stop_signal.listening():
        assert stop_signal.asked()
        os.kill(os.getpid(), signal.SIGTERM)  # the process that started the stages side by side has a clock too
        stop_signal.first_signal = (stop_signal.first_signal or 0.0) - 60
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert "--stop-after" in (stop_signal.reason or "")


def awaited(said: list[str]) -> list[str]:
    """The acknowledgements; they are written by another thread."""
    until = time.monotonic() + 10
    while not said and time.monotonic() < until:
        time.sleep(0.01)
    return said


def test_a_signal_is_answered_at_once_and_once() -> None:
    stop_signal, said = StopSignal(), list[str]()
    with stop_signal.listening(), stop_signal.acknowledged_by(said.append):
        for _ in range(2):  # as a terminal and torchrun both pass it on
            os.kill(os.getpid(), signal.SIGINT)
            assert awaited(said) == ["SIGINT was received"]


def test_a_signal_before_the_stage_begins_is_answered_when_it_does() -> None:
    stop_signal, said = StopSignal(), list[str]()
    with stop_signal.listening():
        os.kill(os.getpid(), signal.SIGINT)
    for _ in range(2):  # stages
        with stop_signal.acknowledged_by(said.append):
            assert awaited(said) == ["SIGINT was received"]


def test_a_signal_between_two_stages_is_answered_by_the_second() -> None:
    """The first has no round left to end."""
    stop_signal, first, second = StopSignal(), list[str](), list[str]()
    with stop_signal.listening():
        with stop_signal.acknowledged_by(first.append):
            pass
        os.kill(os.getpid(), signal.SIGINT)
        with stop_signal.acknowledged_by(second.append):
            assert awaited(second) == ["SIGINT was received"] and not first


def test_a_signal_in_the_middle_of_a_line_waits_for_its_end_and_holds_nobody_up() -> None:
    line, said = threading.Lock(), list[str]()

    def acknowledge(reason: str) -> None:
        if line.acquire(timeout=5):
            said.append(reason)

    stop_signal = StopSignal(acknowledge=acknowledge)
    with stop_signal.listening(), line:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop_signal.asked() and not said
    assert awaited(said) == ["SIGINT was received"]
