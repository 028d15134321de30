"""A tagger whose answers are known beforehand, live too: names of a list, and one that the next word decides."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from boustro.types import Entity

NAMES = {"Ada": "PER", "Ada Brandt": "PER", "Okonkwo": "PER", "Port Lisse": "LOC", "Zürich": "LOC", "Élodie 🦬": "PER"}
NAMES |= {"+49 30 1234567": "PHONE"}
DOUBTFUL = "May"
"""A person where `said` follows, else a month."""


@dataclass(frozen=True)
class Event:
    kind: str
    label: str
    start: int
    end: int
    text: str
    score: float


class ToyTagger:
    """`fails_at` is a word at which it raises; `waits` is called for every chunk and text."""

    types = ("PER", "LOC", "PHONE")

    def __init__(self, fails_at: str | None = None, waits=lambda: None) -> None:
        self.fails_at, self.waits = fails_at, waits

    def predict(self, given: str | Sequence[str]):
        return self.find(given) if isinstance(given, str) else [self.find(text) for text in given]

    def find(self, text: str) -> list[Entity]:
        self.waits()
        if self.fails_at and self.fails_at in text:
            raise RuntimeError(f"cannot read {text}")
        names = "|".join(map(re.escape, sorted(NAMES, key=len, reverse=True)))
        found = [(NAMES[m[0]], m) for m in re.finditer(rf"(?<!\w)(?:{names})(?!\w)", text)]
        found += [("PER", m) for m in re.finditer(rf"(?<!\w){DOUBTFUL}(?=\s+said(?!\w))", text)]
        return sorted(Entity(label, *m.span(), m[0], 0.9) for label, m in found)


class ToyLive:
    """Final with `delay` words behind; a word is one when white space follows."""

    def __init__(self, tagger: ToyTagger, delay: int | None) -> None:
        self.tagger, self.delay, self.text, self.safe = tagger, delay, "", 0
        self.said: set[tuple[int, int]] = set()

    def feed(self, chunk: str) -> list[Event]:
        self.text += chunk
        starts = [m.start() for m in re.finditer(r"\S+(?=\s)", self.text)]
        if self.delay is None or len(starts) <= self.delay:
            self.tagger.find(self.text)
            return []
        last = re.search(r"\S*\Z", self.text)
        return self._decide([*starts, last.start()][-1 - self.delay])

    def end(self) -> list[Event]:
        return self._decide(len(self.text), ended=True)

    def _decide(self, until: int, ended: bool = False) -> list[Event]:
        found = [(e, e.start >= until or e.end > until) for e in self.tagger.find(self.text)]
        for name in () if ended else NAMES:
            words = name.split()
            for count in range(1, len(words)):
                if m := re.search(rf"(?<!\w){re.escape(' '.join(words[:count]))}\s*\Z", self.text[:until]):
                    until = min(until, m.start())
        until = min([until, *(e.start for e, crosses in found if crosses)])
        self.safe = max(self.safe, until)
        new = [e for e, _ in found if e.end <= until and (e.start, e.end) not in self.said]
        self.said |= {(e.start, e.end) for e in new}
        return [Event("final", e.label, e.start, e.end, e.text, e.score) for e in new]
