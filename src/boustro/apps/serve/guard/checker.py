"""The tagger behind the guard: one thread, bounded waiting, and what it found of texts that it has read before.

A conversation comes whole with every request, so most of its texts are known. What is remembered of a text is a hash
under a key of this process, and where its entities are; never the text itself.
"""

import asyncio
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from boustro.apps.live.masks import Masks, TooManyNames, restore
from boustro.apps.live.redactor import Redactor, Region, Written, check_labels, merged, rewrite
from boustro.apps.serve.guard.reading import Slot, Unchecked
from boustro.apps.serve.http import Refused

REMEMBERED = 20_000
"""Texts whose entities are remembered."""
AT_ONCE = 20_000
"""Characters that are read in one go: between two, others have their turn."""


class Checker:
    """Finds the entities of texts.

    Args:
        tagger: A `Tagger`, or anything with `types`, `predict` and `live`.
        labels: Labels that count; `None` for all.
        write: See `Redactor`.
        delay: See `Redactor`.
        seconds: How long one piece of work may take, with its waiting.

    Raises `OptionError` for a label that the tagger does not have.
    """

    def __init__(
        self, tagger: Any, labels: Sequence[str] | None, write: Written, delay: int | None, seconds: float
    ) -> None:
        self.tagger, self.delay, self.seconds = tagger, delay, seconds
        self.write: Written = write
        self.labels = check_labels(labels, tagger.types)
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="tagger")
        self._secret = os.urandom(32)
        self._known: OrderedDict[bytes, list[Region]] = OrderedDict()

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do some work in the tagger's thread; `Refused` where it fails or takes too long."""
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.get_running_loop().run_in_executor(self.thread, work, *arguments)
        except TimeoutError:
            raise Refused(503, "tagger_timeout", f"the text was not checked within {self.seconds:g} s") from None
        except (Refused, Unchecked):
            raise
        except TooManyNames as error:
            raise Refused(413, "too_many_names", str(error)) from None
        except Exception as error:  # its message may quote the text
            message = f"the tagger failed ({type(error).__name__}), so the text was not passed on"
            raise Refused(503, "tagger_failed", message) from error

    def new_masks(self) -> Masks:
        """Masks for one conversation."""
        return Masks(self.tagger.types)

    def new_redactor(self, masks: Masks) -> Redactor:
        """A redactor for one text of a conversation."""
        return Redactor(self.tagger, self.delay, labels=self.labels, write=self.write, masks=masks)

    async def fill(self, slots: Iterable[Slot], masks: Masks, names: Mapping[str, str] | None = None) -> None:
        """Give slots their results, in order; `names` are put back. `Refused` as `run`."""
        slots = list(slots)
        await self.read([text_of(slot) for slot in slots])
        await self.run(self.fill_now, slots, masks, names)

    async def read(self, texts: Sequence[str]) -> None:
        """Have the entities of texts remembered, in portions."""
        portion: list[str] = []
        for text in texts:
            portion.append(text)
            if sum(map(len, portion)) > AT_ONCE:
                await self.run(self.regions, portion)
                portion = []

    def fill_now(self, slots: Sequence[Slot], masks: Masks, names: Mapping[str, str] | None = None) -> None:
        """As `fill`, in the tagger's thread."""
        for slot, regions in zip(slots, self.regions([text_of(slot) for slot in slots]), strict=True):
            before = len(text_of(slot)) - len(slot.text)
            own = [
                Region(max(r.start - before, 0), r.end - before, r.label, r.score) for r in regions if r.end > before
            ]
            released = rewrite(slot.text, own, masks, self.write)
            slot.redactions = released.redactions
            slot.result = restore(released.text, names) if names else released.text
            if slot.number is not None and slot.result == slot.text:
                slot.result = slot.number

    def regions(self, texts: Sequence[str]) -> list[list[Region]]:
        """The entities of texts, with those that overlap together; in the tagger's thread."""
        keys = [hashlib.blake2b(text.encode(), key=self._secret).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known and text.strip()}
        found = self.tagger.predict(list(new.values())) if new else []
        read = dict(zip(new, map(self._own, found), strict=True))
        answers = [read.get(key) or self._known.get(key) or [] for key in keys]
        for key in keys:
            self._known[key] = self._known.pop(key, None) or read.get(key) or []
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return answers

    def _own(self, entities: Iterable[Any]) -> list[Region]:
        return merged(Region(e.start, e.end, e.label, e.score) for e in entities if e.label in self.labels)


def text_of(slot: Slot) -> str:
    """What the tagger reads: `phone: 030 1234567` for a value of an object."""
    return f"{slot.key.replace('_', ' ')}: {slot.text}" if slot.key else slot.text
