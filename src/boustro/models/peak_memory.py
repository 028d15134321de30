"""The most memory that this process used while a block of code ran, sampled every 20 ms with psutil.

What it shares with files is left out, so that features mapped from disk, which the system can drop, do not count; what
Python and PyTorch use anyway does. Not measured where psutil does not report shared memory (macOS, Windows): `None`.
"""

import gc
import threading

import psutil

SECONDS = 0.02


class PeakMemory:
    """`with PeakMemory() as peak: ...` and then `peak.bytes`."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._stop, self._process = threading.Event(), psutil.Process()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> "PeakMemory":
        gc.collect()
        self._sample()
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _watch(self) -> None:
        while not self._stop.wait(SECONDS):
            self._sample()

    def _sample(self) -> None:
        now = self._process.memory_info()
        if hasattr(now, "shared"):
            self.bytes = max(self.bytes or 0, now.rss - now.shared)
