"""Tagging of text as it arrives.

    live = boustro.Live(tagger, delay=8)            words of right context before a tag is final
    for chunk in chunks:                            any split of the text
        for event in live.feed(chunk): …            provisional, revised, final
    for event in live.end(): …

    Ada           provisional PER "Ada"
    Ada Brandt    revised     PER "Ada Brandt", in the place of PER "Ada"
    … left        final       PER "Ada Brandt"

Memory does not grow with the text: of what is final nothing is kept. Only without a delay, where nothing is final
before the end, the whole text is; `end` then gives what `predict` gives. What becomes final does not depend on how the
text was split, but for the last bits of sums.
"""

import codecs
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from boustro.apps.live.engine import Engine, StreamEntity
from boustro.encoders.arriving import LEFT_WORDS, States, Word
from boustro.errors import shorten
from boustro.text.languages import MOST_LETTERS
from boustro.text.words import (
    ADDRESS,
    EXTENDERS,
    IN_ADDRESS,
    LINE_BREAKS,
    MARKS_INSIDE,
    RULE,
    UNSPACED,
    ends_sentence,
    word_end,
)
from boustro.types import Entity, short_score

MOST_WORD = 1_000_000  # characters without a break: no text; it would be kept and read again with each chunk
_MARKS = f"{MARKS_INSIDE}+="  # a class of characters, which begins with the hyphen
RULE_RUN = re.compile(rf"{ADDRESS}{IN_ADDRESS}*|[{_MARKS}\w{EXTENDERS}]*")  # what a rule for a word of letters may read
BREAK = re.compile(rf"[\s{UNSPACED}]|[^{_MARKS}\w{EXTENDERS}]")  # without one of these no word becomes certain
WHITE_SPACE = re.compile(r"\s")
SINGLE = re.compile(rf"[{UNSPACED}]")
WORDLIKE = re.compile(rf"[\w{EXTENDERS}]")
DELAY, MOST_DELAY = 8, 256
"""Words of right context before a tag is final, by default and at most."""
WAIT = 2
"""Words that follow an entity before it is told provisionally, by default."""
EVERY = 8
"""Pieces of an LM that writes that are read at once: reading several costs hardly more than reading one."""
MOST_BYTES = 1 << 16  # what a pipe holds on Linux, so one read takes all that has come
EventKind = Literal["provisional", "revised", "final"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something about the characters `[start, end)` of the whole text.

    Attributes:
        kind: provisional (shown for now), revised (something else in the place of `was`; with the label "" nothing), or
            final.
        label, start, end, text, score: Of the entity.
        was: The provisional entity that is gone: its label, start and end.
    """

    kind: EventKind
    label: str
    start: int
    end: int
    text: str
    score: float
    was: tuple[str, int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return its fields by name, without `was` where there is none, as JSON can hold them."""
        fields = asdict(self)
        if self.was is None:
            del fields["was"]
        return fields


class Standing:
    """The provisional entities that were told."""

    def __init__(self) -> None:
        self._told: list[Entity] = []

    @property
    def events(self) -> list[Event]:
        """Each as it was told."""
        return [_event("provisional", e) for e in self._told]

    def change(self, final: Iterable[Entity], now: Sequence[Entity]) -> list[Event]:
        """Return the events that tell of entities that have become final, and of those that stand now."""
        events = []
        for entity in sorted(final):
            was = self._take(entity)
            events.append(_event("final", entity, was))
        kept = {_key(e) for e in now} & {_key(e) for e in self._told}
        fresh = [e for e in sorted(now) if _key(e) not in kept]
        gone = [e for e in self._told if _key(e) not in kept]
        self._told = gone
        changed = [(e, self._take(e)) for e in fresh]
        for e in self._told:
            events.append(Event("revised", "", e.start, e.end, e.text, 0.0, _key(e)))
        events += [_event("revised" if was else "provisional", e, was) for e, was in changed]
        self._told = sorted(now)
        return events

    def _take(self, entity: Entity) -> tuple[str, int, int] | None:
        """Return the entity that was told in the place of this one and is not the same; it is told no longer."""
        same = [e for e in self._told if _key(e) == _key(entity)]
        over = [e for e in self._told if e.start < entity.end and entity.start < e.end]
        if not (chosen := same or over):
            return None
        self._told.remove(chosen[0])
        return None if same else _key(chosen[0])


def _key(entity: Entity) -> tuple[str, int, int]:
    return entity.label, entity.start, entity.end


def _event(kind: EventKind, e: Entity, was: tuple[str, int, int] | None = None) -> Event:
    return Event(kind, e.label, e.start, e.end, e.text, short_score(e.score), was)


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

        Raises `ValueError` before `fit`, for numbers below 0 or above 256, for an exported folder, and for a tagger
        with a promise of recall, which needs the whole text.
        """
        if delay is not None and not (type(delay) is int and 0 <= delay <= MOST_DELAY):
            raise ValueError(
                f"delay is {delay!r}: give a number of words from 0 to {MOST_DELAY}, or None to wait for the end"
            )
        if not (type(wait) is int and 0 <= wait <= MOST_DELAY):
            raise ValueError(f"wait is {wait!r}: give a number of words from 0 to {MOST_DELAY}")
        if not hasattr(tagger, "recall"):
            raise ValueError(f"a text is tagged as it arrives by a Tagger, got {shorten(tagger)}")
        fitted = tagger.fitted
        tagger.fitted.refuse_exported("does not tag a text as it arrives")
        if delay is not None and tagger.recall is not None:
            raise ValueError("this tagger cannot stream: a promise of recall is for whole texts; give delay=None")
        self.delay, self.safe, self._wait = delay, 0, wait
        self._engine = Engine(fitted, DELAY if delay is None else delay, states)
        self._predict = tagger.predict
        self._note, self._begin = getattr(tagger, "language_note", None), ""
        self._characters, self._segmenter, self._standing = Characters(), Segmenter(fitted.plan.words), Standing()
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
        """Notice about this stream; empty where there is nothing to say."""
        if not self.rereads:
            return ""
        return (
            f"an encoder of this tagger reads both ways at once: the last {self._engine.delay} words and {LEFT_WORDS} "
            "before them are read anew with every word, and answers may differ from those for a whole text"
        )

    def feed(self, chunk: str) -> list[Event]:
        """Take text that has come and return the events that follow from it.

        Raises `ValueError` after the end, for half a character, and for a word without an end.
        """
        self._refuse_ended()
        if not isinstance(chunk, str):
            raise ValueError(f"expected text, got {type(chunk).__name__}")
        whole = self._characters.feed(chunk)
        if not whole:
            return []
        self._text += whole
        self._begin += whole[: max(0, MOST_LETTERS - len(self._begin))]
        items = self._segmenter.feed(whole)
        if not items:
            return []
        done = self._engine.push(items)
        final = [] if self.delay is None else self._as_entities(done)
        now = self._as_entities(self._pending())
        if self.delay is None:
            self._almost += self._as_entities(done)
            now = [*self._almost, *now]
        events = self._tell(final, now)
        self._engine.forget()
        return events

    def end(self) -> list[Event]:
        """End the text and return the last events: all is final. Raises `ValueError` for half a character."""
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
        if self._note is not None and (note := self._note([self._begin])):
            warnings.warn(note, stacklevel=2)
        return events

    def _refuse_ended(self) -> None:
        if self._ended:
            raise ValueError("this stream has ended; Live(tagger) begins another")

    def _pending(self) -> list[StreamEntity]:
        """Return the pending spans that are told: those with enough words behind them, which change less often."""
        last = self._engine.words.stop - self._wait
        return [span for span in self._engine.pending() if span.stop <= last]

    def _tell(self, final: list[Entity], now: list[Entity]) -> list[Event]:
        events = self._standing.change(final, now)
        if self.delay is not None and not self._ended:
            hold, words = self._engine.hold, self._engine.words
            self.safe = words[hold].start if hold < words.stop else self._segmenter.certain
            self._text, self._base = self._text[self.safe - self._base :], self.safe
        return events

    def _as_entities(self, spans: list[StreamEntity]) -> list[Entity]:
        """Over the characters of the whole text."""
        entities = []
        for f in spans:
            start, end = self._engine.words[f.start].start, self._engine.words[f.stop - 1].end
            entities.append(Entity(f.label, start, end, self._text[start - self._base : end - self._base], f.score))
        return entities


class Characters:
    """Joins the halves of a character (surrogates) that came in two chunks."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, chunk: str) -> str:
        """Return the characters that are whole; `ValueError` for a half whose other half does not follow."""
        given = self._half + chunk
        self._half = ""
        if given.isascii():
            return given
        if "\ud800" <= given[-1] <= "\udbff":
            self._half, given = given[-1], given[:-1]
        try:
            return given.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise ValueError("the text holds half a character (a lone surrogate); send it whole") from error

    def end(self) -> None:
        """`ValueError` if the text ends with half a character."""
        if self._half:
            raise ValueError("the text ends with half a character (a lone surrogate)")


class Segmenter:
    """Words as they become certain, and `None` where a sentence ends; after the last word of a sentence always one.

        "Dr. Ana Ru"    Dr. | Ana                 "Ru" may go on
        "iz left. "     Ruiz | left | .           the sentence ends only if the next word has a capital
        "Then"          (end of a sentence)

    In all the same as `text.words`: a word is certain when its rules have looked at nothing beyond the text that is
    there. White space makes every word before it certain; without it a word needs the character behind the run of
    letters and marks that the rules may read. Nothing is read twice: what is certain is forgotten, except the last two
    words, which decide whether a sentence ends.
    """

    def __init__(self, rule: int = RULE) -> None:
        self._rule = rule
        self._text, self._base = "", 0  # what is not forgotten, and where in the whole text it begins
        self.certain = 0  # all words that begin before this character were given out; it may be behind white space
        self._coming: list[str] = []
        self._length = 0
        self._line: list[tuple[int, int]] = []  # the last words of the line, at most two
        self._open = False  # whether a sentence goes on

    def feed(self, chunk: str) -> list[Word | None]:
        """Take text and return the words that have become certain.

        Raises `ValueError` for a word of more than `MOST_WORD` characters.
        """
        self._coming.append(chunk)
        self._length += len(chunk)
        if self._length - self.certain > MOST_WORD + len(chunk):
            raise ValueError(f"a word of more than {MOST_WORD:,} characters has no end: this text cannot stream")
        if not BREAK.search(chunk) and self.certain < self._length - len(chunk):
            return []
        return list(self._read(final=False))

    def end(self) -> list[Word | None]:
        """Return the rest."""
        words = list(self._read(final=True))
        if self._open:
            words.append(None)
        self._open = False
        return words

    def _read(self, final: bool) -> Iterator[Word | None]:
        self._text += "".join(self._coming)
        self._coming.clear()
        text, at = self._text, self.certain - self._base
        while at < len(text):
            if text[at].isspace():
                if text[at] in LINE_BREAKS:
                    self._line.clear()
                    if self._open:
                        yield None
                    self._open = False
                at += 1
                continue
            space = WHITE_SPACE.search(text, at)
            stop = word_end(text, at, space.start() if space else len(text), self._rule)
            if not (final or space or _is_certain(text, at, stop)):
                break
            yield from self._word(at, stop)
            at = stop
        self.certain = self._base + at
        kept = min([at, *(start - self._base for start, _ in self._line)])
        self._text, self._base = text[kept:], self._base + kept

    def _word(self, start: int, stop: int) -> Iterator[Word | None]:
        base = self._base
        places = [*((s - base, e - base) for s, e in self._line), (start, stop)]
        if self._open and ends_sentence(self._text, places, len(places) - 2):
            self._open = False
            yield None
        begins = not self._open
        gap = len(places) < 2 or places[-2][1] < start
        self._open, self._line = True, [*self._line[-1:], (start + base, stop + base)]
        yield Word(self._text[start:stop], start + base, stop + base, begins or gap, begins)


def _is_certain(text: str, start: int, stop: int) -> bool:
    """Return whether the word `[start, stop)` stays as it is whatever follows; from there on there is no white
    space."""
    if stop >= len(text):
        return False
    if SINGLE.match(text, start):
        return True
    if WORDLIKE.match(text, start):
        run = RULE_RUN.match(text, start)
        return run is not None and run.end() < len(text)
    return text[start] not in "'’" or start + 3 < len(text)


def arriving(stream: Any, name: str) -> Iterator[str]:
    """Yield the text that has come so far, again and again, without waiting for more; a character is never cut."""
    decoder, read = codecs.getincrementaldecoder("utf-8-sig")(), 0
    read_some = getattr(stream, "read1", stream.read)
    while chunk := read_some(MOST_BYTES):
        try:
            yield decoder.decode(chunk)
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: no UTF-8 near byte {read + error.start:,} ({error.reason})") from error
        read += len(chunk)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: the text ends within a character") from error
