"""Redaction of text that arrives in chunks: nothing that may still become part of an entity is released.

    redactor = Redactor(tagger, delay=8)
    for chunk in chunks:
        print(redactor.feed(chunk).text, end="")
    print(redactor.end().text)                   # "[PER_1] flew to [LOC_1]."

Text is released up to where a `Live` promises that no other entity will begin or end (`live.safe`), and an entity
only once it is final, as a whole, as what is written in its place. Where the tagger breaks its promise, `Contradiction`
is raised and no more is released. A redactor errs on the safe side: it removes every word that is in an entity with
a low probability, besides what the tagger finds (`THRESHOLD`). What passes that is released. `Masks` give the same name
the same mask in a whole conversation, and `restore` and `Restorer` put names back.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Protocol

from boustro.apps.live.masks import OF_NAMES, Masks, Region, merged, name_parts
from boustro.choose import lazy, suggestion
from boustro.errors import count_of
from boustro.names import LANGUAGES_TAGGER, NAMES, SHIPPED_TAGGER
from boustro.options import OptionError
from boustro.store import MANIFEST, Artefact
from boustro.text.words import plain_words

ON_REQUEST = frozenset(["OTHER"])
"""Labels of the package's tagger that are removed from a text only where they are asked for: what has such a name, a
work, an event or a product, is seldom what a text must not say."""
Written = Literal["mask", "label", "event"]
"""What stands for an entity: `[PER_1]`, `[PER]`, or nothing, and only a `Redaction` tells of it."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """An entity that was removed: where in the text that was released, in characters, what stands there now, and how
    many characters stood there before."""

    label: str
    at: int
    written: str
    score: float | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class WordCount:
    """How many words a text had, and how many of them were removed; words are runs of letters and digits."""

    words: int = 0
    masked: int = 0

    def __add__(self, other: "WordCount") -> "WordCount":
        return WordCount(self.words + other.words, self.masked + other.masked)

    @property
    def share(self) -> float:
        """Of the words that were removed, from 0 to 1."""
        return self.masked / self.words if self.words else 0.0

    def __str__(self) -> str:
        are = "is" if self.words == 1 else "are"
        return f"{self.masked:,} of {count_of(self.words, 'words')} ({self.share:.1%}) {are} masked"


@dataclass(frozen=True, slots=True)
class Released:
    """Text that may be seen, and what was removed from it."""

    text: str = ""
    redactions: tuple[Redaction, ...] = ()
    counted: WordCount = WordCount()


class StreamTagger(Protocol):
    """A tagger that reads a text as it arrives, see `live.stream.Live`."""

    @property
    def safe(self) -> int:
        """Text before this character will never be part of another entity."""
        ...

    def feed(self, chunk: str) -> Iterable[Any]:
        """Events: `kind`, and of those that are `final` also `label`, `start`, `end` and `score`."""
        ...

    def end(self) -> Iterable[Any]:
        """Return the events that were held back until the end of the text."""
        ...


class Contradiction(RuntimeError):
    """A live tagger took back what it had said for good; what is not released yet stays unreleased."""


THRESHOLD = 0.03
"""How probable it is at least that a word is in a name, for a redactor to remove it. The rule: in steps of 0.005 the
highest at which the package's tagger marks 97.5% of the words of persons, places and organisations, on average over
five kinds of text (`bench/names.py redact`). There 5% of the other words are marked; at 0.5 it marks 88% and 1%."""
LANGUAGES_THRESHOLD = 0.1
"""That of `languages-names`, in steps of 0.05 the highest that marks 95% of the words of persons and places in four
kinds of English text; 10% of the words in no name. In five other languages it marks 85 to 98%, and 7 to 15%."""
_opened: dict[tuple[Path, int], Any] = {}
_opening = threading.Lock()  # two requests that come first would load the models twice


def open_tagger(tagger: Any, labels: Collection[str] | None = None, threshold: float | None = None) -> Any:
    """Return a tagger that errs on the safe side: it finds the likely words with these labels, by default at
    `THRESHOLD`.

    One that is named by its folder, or is that of the package, is opened once in a process. One that has a threshold or
    promises a recall keeps it, and one whose words have no probabilities gives its best answer. A number or a function
    word is in a name (`OF_NAMES`) only where the best answer has it there, beside another word. Raises as
    `boustro.load`, and `ValueError` for a given threshold that such a tagger cannot take.
    """
    if isinstance(tagger, str | Path):
        from boustro.tasks.hub import download
        from boustro.tasks.tagger import Tagger

        folder = download(tagger)
        if (whole := folder.path.resolve()) != folder.path:
            folder = Artefact(whole)
        manifest = folder / MANIFEST
        key = (
            manifest.parent,
            manifest.stat().st_mtime_ns if manifest.exists() else 0,
        )  # another once it is written again
        with _opening:
            if key not in _opened:
                _opened[key] = Tagger.from_pretrained(folder)
            tagger = _opened[key]
    labels = check_masked(labels, tagger)
    promises = getattr(tagger, "recall", None) is not None
    if threshold is None and (promises or not getattr(tagger, "has_likely_words", False)):
        return tagger
    if not hasattr(tagger, "with_threshold"):
        raise OptionError("a threshold is for a Tagger of Boustro; remove it")
    by_default = LANGUAGES_THRESHOLD if _is_packaged(tagger, LANGUAGES_TAGGER) else THRESHOLD
    own = by_default if tagger.threshold is None else tagger.threshold
    names = [label for label in labels if label.upper() in OF_NAMES]
    return tagger.with_threshold(own if threshold is None else threshold, labels, names)


class Redactor:
    """Releases a text without its entities, as early as its tagger is sure of them.

    Args:
        tagger: A `Tagger`, or anything with `types` that `live` takes; or a folder, which is opened once in a process.
            By default that of the package, which knows names without any label.
        delay: Words after an entity that are read before it is final; `None` waits for the end.
        labels: Labels of the entities that are removed. By default all that the tagger has; of that of the package
            PERSON, PLACE and ORGANISATION, and not OTHER.
        write: mask ([PER_1]), label ([PER]) or event (nothing; `Released.redactions` tells of it).
        masks: Those of the conversation, where others of its texts have been masked.
        live: Begins to read a text, by the tagger and the delay; by default `Live`.
        threshold: How probable it is at least that a word is in an entity, for it to be removed; 1 removes what the
            tagger finds and no more. By default `THRESHOLD`, where the tagger's words have probabilities.

    Attributes:
        counted: The words of the text that was released, and those that were removed.

    Raises `OptionError` for a label that the tagger does not have.
    """

    def __init__(
        self,
        tagger: Any = SHIPPED_TAGGER,
        delay: int | None = 8,
        *,
        labels: Collection[str] | None = None,
        write: Written = "mask",
        masks: Masks | None = None,
        live: Callable[[Any, int | None], StreamTagger] | None = None,
        threshold: float | None = None,
    ) -> None:
        tagger = open_tagger(tagger, labels, threshold)
        self.counted = WordCount()
        self.labels = check_masked(labels, tagger)
        self.masks = masks or Masks(tagger.types)
        self.write: Written = write
        self._live = (live or lazy("boustro.apps.live.stream:Live"))(tagger, delay)
        self._text, self._at = "", 0  # what is not released, and where it begins
        self._surrogate = ""
        self._found: list[Region] = []
        self._written = 0
        self._closed = False

    @property
    def held(self) -> int:
        """Characters that are not released yet."""
        return len(self._text) + len(self._surrogate)

    def feed(self, chunk: str) -> Released:
        """Read a chunk; what can be released now.

        Raises `Contradiction`, what the tagger raises, `ValueError` for what is no text, and `RuntimeError` after `end`
        and after an error.
        """
        if not isinstance(chunk, str):
            raise ValueError(f"expected text, got {type(chunk).__name__}")
        return self._read(chunk, last=False)

    def end(self) -> Released:
        """The text is complete: the rest of it. Raises as `feed`."""
        return self._read("", last=True)

    def _read(self, chunk: str, last: bool) -> Released:
        if self._closed:
            raise RuntimeError("this text has ended, or could not be checked; begin another Redactor")
        self._closed = True  # until all has gone well
        chunk, self._surrogate = whole_characters(self._surrogate + chunk, last)
        new = max(0, len(self._text) - self.masks.longest)  # a mask may come in pieces
        self._text += chunk
        self.masks.reserve(self._text[new:])
        self._take(self._live.feed(chunk) if chunk else ())
        if last:
            self._take(self._live.end())
        released = self._release(self._at + len(self._text) if last else self._live.safe, last)
        self._closed = last
        return released

    def _take(self, events: Iterable[Any]) -> None:
        for event in events:
            if event.kind != "final":
                continue
            if not self._at <= event.start < event.end <= self._at + len(self._text):
                raise Contradiction("the tagger found an entity in text that it had called safe")
            if event.label in self.labels:
                region = Region(event.start, event.end, event.label, event.score)
                self._found += name_parts(self._text, [region], self._at)

    def _release(self, safe: int, last: bool) -> Released:
        if safe > self._at + len(self._text):
            raise Contradiction("the tagger called safe what it has not read")
        until = max(safe, self._at)
        if until == self._at and not last:
            return Released()
        regions, borders = merged(self._found), []
        if self.write == "mask":
            borders = [(self._at + m.start(), self._at + m.end()) for m in self.masks.pattern.finditer(self._text)]
            if not last:
                until = self._at + self.masks.unfinished(self._text[: until - self._at])
        borders += [(region.start, region.end) for region in regions]
        while inside := [start for start, end in borders if start < until < end]:
            until = min(inside)
        text, self._text = self._text[: until - self._at], self._text[until - self._at :]
        gone = [region for region in regions if region.end <= until]
        released = rewrite(text, gone, self.masks, self.write, self._at, self._written)
        self.counted += released.counted
        self._found = [region for region in self._found if region.end > until]
        self._at, self._written = until, self._written + len(released.text)
        return released


def rewrite(
    text: str, regions: Sequence[Region], masks: Masks, write: Written, start: int = 0, written: int = 0
) -> Released:
    """Return a text without its regions, which are in order and do not overlap.

    A mask that stands in the text already is no name: it stays, and of an entity around it only the other parts go. No
    name gets its number.

    Args:
        text: Characters from `start` of a longer text, of which regions count the characters.
        regions: What to remove.
        masks: Those of the conversation.
        write: What to write instead.
        start: See `text`.
        written: Characters that were released before these, which redactions count.
    """
    literal, masked = [], 0
    masks.reserve(text)
    if write == "mask":
        literal = [(start + m.start(), start + m.end()) for m in masks.pattern.finditer(text)]
    parts, redactions, at = [], [], start
    size = written
    for region in regions:
        for begin, end in _outside(region, literal, text, start):
            kept = text[at - start : begin - start]
            name = text[begin - start : end - start]
            masked += len(plain_words(name))
            instead = {"mask": masks.mask, "label": lambda label, _: f"[{label}]", "event": lambda *_: ""}[write](
                region.label, name
            )
            redactions.append(Redaction(region.label, size + len(kept), instead, region.score, end - begin))
            parts += [kept, instead]
            size += len(kept) + len(instead)
            at = end
    counted = WordCount(len(plain_words(text)), masked)
    return Released("".join([*parts, text[at - start :]]), tuple(redactions), counted)


def moved(redactions: Sequence[Redaction], places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return where parts `[start, end)` of a text stand once these were removed, each with the whole of what stands
    for one that it overlaps.

    `"Ada Brandt left"`, in which `[0, 10)` became `[PER_1]`: `[4, 15)` → `[0, 12)`
    """
    shifts = [*accumulate((one.size - len(one.written) for one in redactions), initial=0)]
    begins = [one.at + shift for one, shift in zip(redactions, shifts, strict=False)]
    ends = [begin + one.size for one, begin in zip(redactions, begins, strict=True)]
    found = []
    for start, end in places:
        before, until = bisect_right(ends, start), bisect_left(begins, end)  # those between them overlap it
        first, last = start - shifts[before], end - shifts[until]
        if before < until:
            first = min(first, redactions[before].at)
            last = max(last, redactions[until - 1].at + len(redactions[until - 1].written))
        found.append((first, last))
    return found


def _outside(region: Region, literal: Sequence[tuple[int, int]], text: str, start: int) -> Iterable[tuple[int, int]]:
    """Return the parts of a region between masks; brackets and commas beside a mask are no part of a name."""
    masks = [(a, b) for a, b in literal if a < region.end and region.start < b]
    if not masks:
        return [(region.start, region.end)]
    edges = [region.start, *(place for span in masks for place in span), region.end]
    parts = zip(edges[::2], edges[1::2], strict=True)
    return [(a, b) for a, b in parts if any(map(str.isalnum, text[max(a - start, 0) : max(b - start, 0)]))]


def whole_characters(text: str, last: bool) -> tuple[str, str]:
    """Return a text, and the half character that it may end with, which JSON can split; a lone half becomes
    `\ufffd`."""
    half = "" if last or not "\ud800" <= text[-1:] <= "\udbff" else text[-1]
    whole = text[: len(text) - len(half)]
    if any("\ud800" <= character <= "\udfff" for character in whole):
        whole = whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole, half


def check_masked(labels: Collection[str] | None, tagger: Any) -> frozenset[str]:
    """Return the labels, by default those of the tagger, but `ON_REQUEST` of that of the package; `OptionError` for
    none, and for an unknown one."""
    known = tagger.types
    if labels is None:
        return frozenset(known) - (ON_REQUEST if _is_packaged(tagger) else frozenset())
    for label in labels:
        if label not in known:
            raise OptionError(
                f"the tagger has no label {label!r}{suggestion(label, known)} (it has {', '.join(known)})"
            )
    if not labels:
        raise OptionError(f"no label is named; the tagger has {', '.join(known)}")
    return frozenset(labels)


def _is_packaged(tagger: Any, *names: str) -> bool:
    """Return whether it is a tagger of the package, by default any, which was not trained on sentences."""
    names, data = names or (SHIPPED_TAGGER, LANGUAGES_TAGGER), getattr(tagger, "record", {}).get("train", {})
    plan = getattr(tagger, "plan", None)
    return plan is not None and plan.reader.spec in names and data.get("name") == NAMES
