"""Server-sent events: bytes in any chunks to the data of whole events, within bounds.

    events = Events(most=1 << 20)
    events.feed(b'data: {"a"')         # []
    events.feed(b': 1}\\n\\n: ping\\n')  # ['{"a": 1}']

Comments and the names and ids of events are left out. Source: the HTML standard, section 9.2.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator

from boustro.apps.serve.guard.reading import Unchecked

LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A carriage return at the end of what is there may be half of an end."""
WAITING = 256 * 1024
"""Bytes of events that wait; while there are more, no more is read from the upstream."""


class Events:
    """The events of one stream; `most` bytes are the largest event."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._rest, self._data = b"", [b""][:0]
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of events that are complete now; raises `Unchecked` for one that is too large."""
        *lines, self._rest = LINE_END.split(self._rest + chunk)
        found = []
        for line in lines:
            name, _, value = line.partition(b":")
            if not line and self._data:
                found.append(b"\n".join(self._data))
                self._data, self._size = [], 0
            elif name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._size += len(value)
        if len(self._rest) + self._size > self.most:
            raise Unchecked("an event", f"has more than {self.most:,} bytes")
        return found

    @property
    def is_whole(self) -> bool:
        """Whether no event has begun that is not complete."""
        return not self._data and not self._rest.strip()


class Inbox:
    """Events between the upstream and the tagger: those that came while it read are taken together."""

    def __init__(self) -> None:
        self._events: deque[bytes] = deque()
        self._size, self._done = 0, False
        self._error: BaseException | None = None
        self._changed = asyncio.Condition()

    async def fill(self, events: AsyncIterator[list[bytes]]) -> None:
        """Put what comes into the box until it ends or fails; wait while the box is full."""
        try:
            async for some in events:
                async with self._changed:
                    await self._changed.wait_for(lambda: self._size < WAITING)
                    self._events.extend(some)
                    self._size += sum(map(len, some))
                    self._changed.notify_all()
        except Exception as error:
            self._error = error
        async with self._changed:
            self._done = True
            self._changed.notify_all()

    async def take(self) -> list[bytes]:
        """All that is there, at least one event; none at the end. Raises what `fill` met, after what it gave."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._events or self._done)
            taken, self._events, self._size = list(self._events), deque(), 0
            self._changed.notify_all()
        if not taken and self._error is not None:
            raise self._error
        return taken
