"""Which pieces an LM reads together: documents or sentences, windows of long ones, batches of like length.

A text longer than the model's window is read in windows that overlap by half, each state being taken from
the window that has most of what precedes it in sight. With a window of 4 pieces:

    reading  p0 p1 p2 p3 p4 p5 p6        window [0, 4) answers for p0 … p3
                                         window [2, 6) answers for p4, p5
                                         window [4, 7) answers for p6
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from boustro.text.alignment import guess_spaces
from boustro.types import Sentence


@dataclass(frozen=True, slots=True)
class Window:
    """Pieces `[start, stop)` of the reading of text number `text`; answers for states `[first, last)`."""

    text: int
    start: int
    stop: int
    first: int
    last: int

    def __len__(self) -> int:
        return self.stop - self.start


def plan_windows(text: int, num_pieces: int, size: int, first: int) -> list[Window]:
    """The windows of one text; `first` is -1 where a sentinel's state stands before the first piece."""
    if num_pieces <= size:
        return [Window(text, 0, num_pieces, first, num_pieces)]
    overlap = size // 2
    windows = []
    for start in range(0, num_pieces - overlap, size - overlap):
        stop = min(start + size, num_pieces)
        windows.append(Window(text, start, stop, start + overlap if start else first, stop))
    return windows


def plan_centred_windows(text: int, num_pieces: int, size: int, first: int) -> list[Window]:
    """The same for a model that sees both sides: a state is taken from the window in whose middle it stands.

    With a window of 4 pieces, [0, 4) answers for p0 … p2, [2, 6) for p3, p4, [4, 7) for p5, p6.
    """
    windows = plan_windows(text, num_pieces, size, first)
    margin = (size - size // 2) // 2
    last = [w.last - margin for w in windows[:-1]]
    starts = [first, *last]
    return [replace(w, first=a, last=b) for w, a, b in zip(windows, starts, [*last, num_pieces], strict=True)]


def batch_windows(windows: Sequence[Window], batch_pieces: int) -> Iterator[list[Window]]:
    """Windows of like length, at most `batch_pieces` together with padding; empty ones are left out."""
    batch: list[Window] = []
    for window in sorted(filter(len, windows), key=len):
        if batch and (len(batch) + 1) * (len(window) + 1) > batch_pieces:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def group_documents(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    """Runs of sentences that name the same document; a sentence without one stands alone."""
    for name, run in itertools.groupby(sentences, key=lambda s: s.document):
        group = list(run)
        yield from [group] if name else ([s] for s in group)


def check_context(context: str) -> None:
    """`ValueError` for what `group_sentences` does not know."""
    if context not in ("sentence", "document"):
        raise ValueError(f"unknown context {context!r}: known are sentence, document")


def group_sentences(sentences: Iterable[Sentence], context: str) -> Iterator[list[Sentence]]:
    """What is read as one text: a document, or each sentence by itself."""
    return group_documents(sentences) if context == "document" else ([s] for s in sentences)


def join_sentences(group: list[Sentence]) -> Sentence:
    """A document's sentences as one, in running text."""
    if len(group) == 1:
        return group[0]
    spaces = [space for s in group for space in (s.spaces or guess_spaces(s.words))]
    return Sentence(tuple(word for s in group for word in s.words), spaces=tuple(spaces))


def chunk_groups(groups: Iterable[list[Sentence]], chunk_words: int) -> Iterator[list[list[Sentence]]]:
    """Groups until they hold `chunk_words` words: what is in memory at a time."""
    chunk, words = [], 0
    for group in groups:
        chunk.append(group)
        words += sum(len(s) for s in group)
        if words >= chunk_words:
            yield chunk
            chunk, words = [], 0
    if chunk:
        yield chunk
