"""Requests to stop training: Ctrl-C, SIGTERM, the end of the given time, or a parent process that is gone."""

from __future__ import annotations

import signal
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

_SAME_SIGNAL = 2.0  # seconds in which a terminal and torchrun may pass on the same Ctrl-C


@dataclass
class StopSignal:
    """A request to stop. Training finishes the current round, saves and pauses."""

    deadline: float | None = None
    reason: str | None = None
    first_signal: float | None = None  # its time
    signal: int | None = None  # its number
    orphaned: Callable[[], bool] = lambda: False
    acknowledge: Callable[[str], None] | None = None  # called once: the round may take minutes to finish
    acknowledged: bool = False

    def asked(self) -> bool:
        if self.deadline is not None and time.monotonic() >= self.deadline and self.reason is None:
            self.reason = "the time given by --stop-after is over"
        if self.reason is None and self.orphaned():
            self.reason = "the process that started it is gone"
        return self.reason is not None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals in this block. Python delivers them to the main thread only; other threads handle none."""
        main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
        before = [signal.signal(number, self._handle) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Interrupt on the second signal only. With --jobs, the first may arrive after the deadline has passed."""
        now = time.monotonic()
        if self.reason is None:
            self.reason, self.signal = f"{signal.Signals(number).name} was received", number
        self.first_signal = self.first_signal or now
        if now - self.first_signal > _SAME_SIGNAL:  # a second request: stop at once
            raise KeyboardInterrupt
        self._send_once()

    @contextmanager
    def acknowledged_by(self, acknowledge: Callable[[str], None]) -> Iterator[None]:
        """Call `acknowledge` with the reason of a signal in this block, including one that arrived before it."""
        self.acknowledge = acknowledge
        self._send_once()
        try:
            yield
        finally:
            self.acknowledge = None

    def _send_once(self) -> None:
        """Use a thread: the interrupted code may hold the lock of the progress bar."""
        if self.acknowledge is None or self.first_signal is None or self.acknowledged or self.reason is None:
            return
        self.acknowledged = True
        start_new_thread(_send, (self.acknowledge, self.reason))  # `threading` takes a lock itself


def _send(send: Callable[[str], None], reason: str) -> None:
    with suppress(OSError):  # the terminal is gone
        send(reason)
