"""Text that arrives in chunks, to words and sentences that later text cannot change; in all the same as `text.words`.

    "Dr. Ana Ru"    Dr. | Ana                 "Ru" may go on
    "iz left. "     Ruiz | left | .           the sentence ends only if the next word has a capital
    "Then"          (end of a sentence)

A word is certain when the rules of `text.words` have looked at nothing beyond the text that is there. White space makes
every word before it certain; without it a word needs the character behind the run of letters and marks that the rules
may read. Nothing here is read twice: what is certain is forgotten, except the last two words, which decide whether a
sentence ends.
"""

import re
from collections.abc import Iterator

from boustro.encoders.arriving import Word
from boustro.text.words import EXTENDERS, LINE_BREAKS, UNSPACED, ends_sentence, word_end

MOST_WORD = 1_000_000
RUN = re.compile(rf"[\w{EXTENDERS}\-/.,:&@_’'+=]*")  # what a rule for a word of letters may read
BREAK = re.compile(rf"[\s{UNSPACED}]|[^\w{EXTENDERS}\-/.,:&@_’'+=]")  # without one of these no word becomes certain
SPACE = re.compile(r"\s")
SINGLE = re.compile(rf"[{UNSPACED}]")
WORDLIKE = re.compile(rf"[\w{EXTENDERS}]")


class Characters:
    """Joins the halves of a character (surrogates) that came in two chunks."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, chunk: str) -> str:
        """The characters that are whole; `ValueError` for a half whose other half does not follow."""
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
    """Words as they become certain, and `None` where a sentence ends; after the last word of a sentence always one."""

    def __init__(self) -> None:
        self._text, self._base = "", 0  # what is not forgotten, and where in the whole text it begins
        self._at = 0  # in the whole text: before it all is certain
        self._coming: list[str] = []
        self._length = 0
        self._line: list[tuple[int, int]] = []  # the last words of the line, at most two
        self._open = False  # whether a sentence goes on

    @property
    def length(self) -> int:
        """Characters that were given."""
        return self._length

    @property
    def certain(self) -> int:
        """All words that begin before this character were given out; white space before the next one is included."""
        return self._at

    def feed(self, chunk: str) -> list[Word | None]:
        """What has become certain.

        Raises `ValueError` for a word of more than `MOST_WORD` characters.
        """
        self._coming.append(chunk)
        self._length += len(chunk)
        if self._length - self._at > MOST_WORD + len(chunk):
            raise ValueError(f"a word of more than {MOST_WORD:,} characters has no end: this text cannot stream")
        if not BREAK.search(chunk) and self._at < self._length - len(chunk):
            return []
        return list(self._read(final=False))

    def end(self) -> list[Word | None]:
        """The rest."""
        found = list(self._read(final=True))
        if self._open:
            found.append(None)
        self._open = False
        return found

    def _read(self, final: bool) -> Iterator[Word | None]:
        self._text += "".join(self._coming)
        self._coming.clear()
        text, at = self._text, self._at - self._base
        while at < len(text):
            if text[at].isspace():
                if text[at] in LINE_BREAKS:
                    self._line.clear()
                    if self._open:
                        yield None
                    self._open = False
                at += 1
                continue
            space = SPACE.search(text, at)
            stop = word_end(text, at, space.start() if space else len(text))
            if not (final or space or _is_certain(text, at, stop)):
                break
            yield from self._word(at, stop)
            at = stop
        self._at = self._base + at
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
    """Whether the word `[start, stop)` stays as it is whatever follows; from there on there is no white space."""
    if stop >= len(text):
        return False
    if SINGLE.match(text, start):
        return True
    if WORDLIKE.match(text, start):
        run = RUN.match(text, start)
        return run is not None and run.end() < len(text)
    return text[start] not in "'’" or start + 3 < len(text)
