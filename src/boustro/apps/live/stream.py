"""Tagging of text as it arrives.

    live = boustro.Live(tagger, delay=8)            words of right context before a tag is final
    for chunk in chunks:                            any split of the text
        for event in live.feed(chunk): …            provisional, revised, final
    for event in live.end(): …

Memory does not grow with the text: of what is final nothing is kept. Only without a delay, where nothing is final
before the end, the whole text is; `end` then gives what `predict` gives. What becomes final does not depend on how the
text was split, but for the last bits of sums.
"""

from typing import Any

from boustro.apps.live.engine import Engine
from boustro.apps.live.events import DELAY, MOST_DELAY, WAIT, Event, Standing
from boustro.apps.live.segment import Characters, Segmenter
from boustro.apps.live.tracks import Found
from boustro.encoders.arriving import LEFT_WORDS, States
from boustro.types import Entity


class Live:
    """One text.

    Attributes:
        delay: Words of right context before a tag is final; `None` where nothing is final before the end.
        safe: The text before this character will never be part of another entity, and those in it were told as final.
    """

    def __init__(
        self, tagger: Any, delay: int | None = DELAY, *, wait: int = WAIT, states: States | None = None
    ) -> None:
        """Tag one text as it arrives.

        Args:
            tagger: A trained `Tagger`.
            delay: How many words must follow a word before its tag is final; `None` lets nothing be final before the
                end, which then gives what `predict` gives.
            wait: How many words must follow an entity before it is told provisionally; 0 tells it at once, and
                revises it more often.
            states: What gives the vectors of the first LM, where it has read the text already; by default the LM.

        Raises `ValueError` before `fit`, for numbers below 0 or above 256, and for a tagger with a promise of
        recall, which needs the whole text.
        """
        if delay is not None and not (type(delay) is int and 0 <= delay <= MOST_DELAY):
            raise ValueError(
                f"delay is {delay!r}: give a number of words from 0 to {MOST_DELAY}, or None to wait for the end"
            )
        if not (type(wait) is int and 0 <= wait <= MOST_DELAY):
            raise ValueError(f"wait is {wait!r}: give a number of words from 0 to {MOST_DELAY}")
        fitted = tagger.fitted
        if delay is not None and tagger.recall is not None:
            raise ValueError("this tagger cannot stream: a promise of recall is for whole texts; give delay=None")
        self.delay, self.safe, self._wait = delay, 0, wait
        self._engine = Engine(fitted, DELAY if delay is None else delay, states)
        self._predict = tagger.predict
        self._characters, self._segmenter, self._standing = Characters(), Segmenter(), Standing()
        self._text, self._base = "", 0
        self._ended = False
        self._almost: list[Entity] = []  # without a delay, what the engine takes for final

    @property
    def text(self) -> str:
        """The text that is still needed, from the character `kept` on."""
        return self._text

    @property
    def kept(self) -> int:
        """Where `text` begins in the whole text; never behind `safe`."""
        return self._base

    @property
    def length(self) -> int:
        """The characters that have come."""
        return self._base + len(self._text)

    @property
    def entities(self) -> list[Event]:
        """The provisional entities that stand now."""
        return self._standing.events

    @property
    def rereads(self) -> bool:
        """Whether an encoder reads words that it has read before, because it reads both ways at once."""
        return self._engine.vectors.rereads

    @property
    def notice(self) -> str:
        """What is to be known about this stream; empty where there is nothing."""
        if not self.rereads:
            return ""
        return (
            f"an encoder of this tagger reads both ways at once: the last {self._engine.delay} words and {LEFT_WORDS} "
            "before them are read anew with every word, and answers may differ from those for a whole text"
        )

    def feed(self, chunk: str) -> list[Event]:
        """What is told now that this text has come.

        Raises `ValueError` after the end, for half a character, and for a word without an end.
        """
        self._refuse_ended()
        if not isinstance(chunk, str):
            raise ValueError(f"expected text, got {type(chunk).__name__}")
        whole = self._characters.feed(chunk)
        if not whole:
            return []
        self._text += whole
        items = self._segmenter.feed(whole)
        if not items:
            return []
        done = self._engine.push(items)
        final = [] if self.delay is None else self._as_entities(done)
        now = self._provisional(done) if self.delay is None else self._as_entities(self._pending())
        events = self._tell(final, now)
        self._engine.forget()
        return events

    def end(self) -> list[Event]:
        """What is told now that no text follows: all is final. Raises `ValueError` for half a character."""
        self._refuse_ended()
        self._characters.end()
        self._ended = True
        if self.delay is None:
            events = self._tell(self._predict(self._text), [])
        else:
            done = self._engine.push(self._segmenter.end()) + self._engine.end()
            events = self._tell(self._as_entities(done), [])
        self.safe = self.length
        self._text, self._base = "", self.safe
        return events

    def _refuse_ended(self) -> None:
        if self._ended:
            raise ValueError("this stream has ended; Live(tagger) begins another")

    def _provisional(self, done: list[Found]) -> list[Entity]:
        """What stands where nothing is final: all that the engine takes for final, and what is pending there."""
        self._almost += self._as_entities(done)
        return [*self._almost, *self._as_entities(self._pending())]

    def _pending(self) -> list[Found]:
        """What stands now and is told: entities with enough words behind them, which change less often."""
        last = self._engine.words.stop - self._wait
        return [found for found in self._engine.pending() if found.stop <= last]

    def _tell(self, final: list[Entity], now: list[Entity]) -> list[Event]:
        events = self._standing.change(final, now)
        if self.delay is not None and not self._ended:
            hold, words = self._engine.hold, self._engine.words
            self.safe = words[hold].start if hold < words.stop else self._segmenter.certain
            self._text, self._base = self._text[self.safe - self._base :], self.safe
        return events

    def _as_entities(self, found: list[Found]) -> list[Entity]:
        """Over the characters of the whole text."""
        entities = []
        for f in found:
            start, end = self._engine.words[f.start].start, self._engine.words[f.stop - 1].end
            entities.append(Entity(f.label, start, end, self._text[start - self._base : end - self._base], f.score))
        return entities
