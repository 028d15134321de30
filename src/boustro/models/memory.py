"""The most memory that this process held while a block of code ran.

Sampled every 20 ms from `/proc/self/status`: anonymous pages only (`RssAnon`), so that features that are
mapped from disk, which the system can drop at any time, do not count. What Python and PyTorch hold anyway
does count. Where there is no such file (macOS, Windows) nothing is measured: `None`.
"""

import gc
import re
import threading
from pathlib import Path

STATUS = Path("/proc/self/status")
SECONDS = 0.02


class PeakMemory:
    """`with PeakMemory() as peak: ...` and then `peak.bytes`."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> "PeakMemory":
        gc.collect()
        self._look()
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def __enter__(self) -> "PeakMemory":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _watch(self) -> None:
        while not self._stop.wait(SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            found = re.search(r"^RssAnon:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
        except OSError:
            return
        if found:
            self.bytes = max(self.bytes or 0, int(found[1]) * 1024)
