"""What a stream has read of its text: the words that are still needed, numbered from the first of the text.

A row is a run of words, `[first, stop)`, as the text stood when `stop - 1` was its last word. With a delay of 2, the
words 5, 6, 7 that have just come give

    row [3, 6)    word 3 is final: two words follow it; 4 and 5 are not
    row [4, 7)    word 4 is final
    row [5, 8)    word 5 is final
"""

from collections.abc import Sequence
from dataclasses import dataclass

from boustro.apps.live.segment import Word
from boustro.types import Sentence


@dataclass(frozen=True, slots=True)
class Row:
    """See the module; `fixes` says whether the first word becomes final with it."""

    first: int
    stop: int
    fixes: bool

    def __len__(self) -> int:
        return self.stop - self.first


class Words:
    """The words from number `base` on, each with the number of its sentence."""

    def __init__(self) -> None:
        self.base = 0
        self._words: list[Word] = []
        self._sentences: list[int] = []

    @property
    def stop(self) -> int:
        """The number of words that have come."""
        return self.base + len(self._words)

    def append(self, word: Word) -> None:
        """The next word."""
        last = self._sentences[-1] if self._sentences else -1
        self._words.append(word)
        self._sentences.append(last + word.begins)

    def drop(self, before: int) -> None:
        """Forget the words before this number, except the last one."""
        count = min(before, self.stop - 1) - self.base
        if count > 0:
            del self._words[:count], self._sentences[:count]
            self.base += count

    def __getitem__(self, number: int) -> Word:
        return self._words[number - self.base]

    def between(self, first: int, stop: int) -> list[Word]:
        """The words `[first, stop)`."""
        return self._words[first - self.base : stop - self.base]

    def sentence(self, number: int) -> int:
        """The number of a word's sentence."""
        return self._sentences[number - self.base]

    def begin(self, number: int, oldest: int) -> int:
        """The first word of a word's sentence; `oldest` where the sentence begins earlier than that, or the text."""
        oldest = max(oldest, self.base)
        while number > oldest and not self[number].begins:
            number -= 1
        return number

    def parts(self, row: Row) -> list[tuple[int, int]]:
        """A row cut where sentences begin."""
        cuts = [n for n in range(row.first + 1, row.stop) if self[n].begins]
        return list(zip([row.first, *cuts], [*cuts, row.stop], strict=True))


def as_text(words: Sequence[Word]) -> Sentence:
    """Words that an encoder reads as one text."""
    return Sentence(tuple(w.text for w in words), spaces=tuple(w.space for w in words))
