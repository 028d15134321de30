"""How far a command is, on standard error: a bar on a terminal and in a notebook, elsewhere a line every half minute.

    with Progress("labelling", "rows", total=200_000) as bar:
        bar.update(1024)

    labelling: 4,096 of 200,000 rows, 82 rows/s, about 40 minutes left

A line comes with an update, so an update is best a matter of seconds. Processes that others started show no bars.
"""

import sys
from collections.abc import Iterable, Iterator
from multiprocessing import parent_process
from threading import Lock
from time import monotonic
from typing import Any, Self, TextIO, TypeVar

from boustro.errors import count_of
from boustro.output import duration

LINE_SECONDS = 30.0  # without a terminal a line goes into a file: twice a minute shows that it runs
BAR_SECONDS = 1.0
"""A bar for what is over sooner would only flicker."""
UNKNOWN_TOTAL = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
"""A bar of tqdm without speed and time left."""

Item = TypeVar("Item")


class Progress:
    """Progress of a piece of work; threads may share it.

    Args:
        what: What is being done, such as labelling.
        unit: What is counted, in the plural.
        total: How many there are, where that is known.
        done: How many of them were done before.
        shown: By default a bar on a terminal and in a notebook, and lines elsewhere; always a bar; nothing.
        lines_to: Where lines go, if not to what is standard error when they come.
    """

    def __init__(
        self,
        what: str,
        unit: str,
        *,
        total: int | None = None,
        done: int = 0,
        shown: bool | None = None,
        lines_to: TextIO | None = None,
    ) -> None:
        self.what, self.unit, self.total, self.done, self._lines_to = what, unit, total, done, lines_to
        terminal = sys.stderr.isatty() or "ipykernel" in type(sys.stderr).__module__  # a notebook shows bars of text
        bar = (terminal and parent_process() is None) if shown is None else shown
        self._lines = shown is None and not terminal
        # threads that answer at once must not lose counts
        self._before, self._began, self._lock, self._note = done, monotonic(), Lock(), ""
        self._batches = 0  # the first one waits for models and caches, so nothing is foretold by it alone
        self._due = self._began + LINE_SECONDS
        self._bar: Any = None
        if bar:
            from tqdm.std import tqdm  # what shows no bar does not need it; that of notebooks warns without ipywidgets

            how: dict[str, Any] = {"unit": f" {unit}", "unit_scale": True, "leave": False, "delay": BAR_SECONDS}
            how |= {"bar_format": UNKNOWN_TOTAL} if total is not None else {}
            self._bar = tqdm(total=total, initial=done, desc=what, **how)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, each counted when the next is asked for."""
        with self:
            for item in items:
                yield item
                self.update()

    def update(self, number: int = 1, note: str = "") -> None:
        """So many more are done; `note` stands at the end, until there is another one."""
        with self._lock:
            self.done += number
            self._batches += number > 0
            self._note = note or self._note
            if self._bar is not None:
                self._bar.bar_format = None if self._batches > 1 else self._bar.bar_format
                if note:
                    self._bar.set_postfix_str(note, refresh=False)
                self._bar.update(number)
            if self._lines and monotonic() >= self._due:
                self._due = monotonic() + LINE_SECONDS
                print(self.line(), file=self._lines_to or sys.stderr, flush=True)

    def skip(self, number: int) -> None:
        """So many more are done, but not now: they do not count for the speed."""
        self._before += number
        self._batches -= number > 0
        self.update(number)

    def line(self) -> str:
        """Line that says how much is done, how fast, and how long the rest takes."""
        speed = (self.done - self._before) / max(monotonic() - self._began, 1e-9)
        of = "" if self.total is None else f"{self.done:,} of "
        parts = [f"{self.what}: {of}{count_of(self.done if self.total is None else self.total, self.unit)}"]
        if speed:
            parts.append(f"{speed:,.0f} {self.unit}/s" if speed >= 10 else f"{speed:.2g} {self.unit}/s")
            if self.total is not None and self._batches > 1 and self.done < self.total:
                parts.append(f"{duration((self.total - self.done) / speed)} left")
        return ", ".join([*parts, self._note] if self._note else parts)


def write_line(text: str) -> None:
    """A line on standard error that does not disturb a bar."""
    from tqdm import tqdm

    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
