"""SIGTERM and SIGINT during a long run: recorded when they arrive, handled between (micro-)batches.

After the first signal the run writes a checkpoint of its last whole step and exits. A second SIGINT, at least two
seconds later (a launcher may deliver one Ctrl-C twice), ends it at once, as does any signal while there is nothing
to save yet.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from boustro.pretrain.distributed import is_rank0

TWICE_SECONDS = 2.0


class Stopped(Exception):
    """The run stops because of this signal, between two micro-batches."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Signals:
    """While entered, `received` is 0 or the number of the signal that came; the run sets `worth_saving`."""

    def __init__(self) -> None:
        self.received = 0
        self.worth_saving: Callable[[], bool] = lambda: False
        self._at, self._process = 0.0, os.getpid()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():  # other threads may not set handlers
            self._before = {s: signal.signal(s, self._note) for s in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # in a data-loading process, before its first batch
            return
        if not self.worth_saving():
            self.received = number  # an exception in a destructor is lost: then the run stops after the micro-batch
            _say(number, "stopped; nothing was completed since the start, so there is nothing to save")
            raise SystemExit(128 + number)
        now = time.monotonic()
        if self.received and number == signal.SIGINT and now - self._at > TWICE_SECONDS:
            raise KeyboardInterrupt
        if not self.received:
            self.received, self._at = number, now
            _say(number, "writing a checkpoint after this batch, then stopping")


def wait_for_parent() -> None:
    """Ignore signals in a data-loading process: schedulers and terminals signal it too, and its parent ends it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _say(number: int, message: str) -> None:
    """Unbuffered, because a handler may interrupt a write to Python's buffers."""
    if is_rank0():
        os.write(2, f"{signal.Signals(number).name}: {message}\n".encode())
