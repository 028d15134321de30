"""SIGTERM and SIGINT during training: noted when they come, acted upon between micro-batches.

The first signal asks the run to stop: it writes a checkpoint of its last whole step and leaves. A second
SIGINT, two seconds later or more, does not wait for that (a launcher may deliver one Ctrl-C twice). While
there is nothing to save yet, a signal ends the run at once.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from boustro.pretrain.processes import is_first

TWICE_SECONDS = 2.0


class Stopped(Exception):
    """The run was asked to stop by this signal, and has reached a place where it can."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Signals:
    """While entered, `received` is 0 or the number of the signal that came.

    `worth_saving` is the run's to set: whether this process has made a step.
    """

    def __init__(self) -> None:
        self.received = 0
        self.worth_saving: Callable[[], bool] = lambda: False
        self._at, self._process = 0.0, os.getpid()
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            self._before = {s: signal.signal(s, self._note) for s in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # in a process that reads ahead, before it makes its first batch
            return
        if not self.worth_saving():
            self.received = number  # what is raised in a destructor is lost: then the run stops after the micro-batch
            _say(number, "stopped; no step has been made since the start, so there is nothing to save")
            raise SystemExit(128 + number)
        now = time.monotonic()
        if self.received and number == signal.SIGINT and now - self._at > TWICE_SECONDS:
            raise KeyboardInterrupt
        if not self.received:
            self.received, self._at = number, now
            _say(number, "a checkpoint is written at the end of this micro-batch, then the run stops")


def wait_for_parent() -> None:
    """Called in a process that reads ahead: schedulers and terminals signal it too, and it waits for its parent."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _say(number: int, message: str) -> None:
    """Past Python's buffers, in the middle of whose work a handler may be called."""
    if is_first():
        os.write(2, f"{signal.Signals(number).name}: {message}\n".encode())
