"""BERT's two objectives at once: hidden pieces, and whether the second text follows the first or is from elsewhere.

    chunk        [11, 12, 13, 14, 15, 16]       consecutive pieces of one document, cut after 13
    input_ids    [C, 11, 12, 13, S, 14, 15, 16, S, P]     is_random 0: they do follow each other
    input_ids    [C, 11, 12, 13, S, 81, 82, 83, S, P]     is_random 1: from another document, in half of the pairs
    segment_ids  [0,  0,  0,  0, 0,  1,  1,  1, 1, 0]
    documents    [0,  0,  0,  0, 0,  0,  0,  0, 0, -1]    nothing attends to padding

C, S and P are the start, separator and padding pieces; pieces are then hidden as in `masked`. Both chunks, this one
and the other document's, are cut at the same share of their length: at the nearest end of a sentence, where
`Frame.sentence_ends` knows one, else between words. The texts after the two cuts are shortened to one length before
one of them is drawn, so that no length and no cut shows which it was. A tenth of the pairs is shorter than possible,
as in BERT; a pair that is too long loses pieces of its longer text, at either end, one by one.
Sources: BERT, section 3.1 and appendix A.2; Jurafsky & Martin, 11.2.2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from boustro.lab.objectives.examples import PADDING_DOCUMENT, pad_right
from boustro.lab.objectives.masked import masked
from boustro.lab.objectives.masking import Masking
from boustro.lab.objectives.words import word_bounds

NUM_FRAME_PIECES, MIN_CHUNK = 3, 2  # [CLS] a [SEP] b [SEP]; one piece is no text to tell apart


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """The special pieces around a pair of texts, and its length; `ValueError` without room for two pieces."""

    cls_id: int
    sep_id: int
    pad_id: int
    length: int
    """Pieces of an example, with the start, the separators and the padding."""
    sentence_ends: Bool[np.ndarray, " V"] | None = None
    """Which pieces end a sentence."""
    short_share: float = 0.1
    """How many pairs are cut to a random length."""

    def __post_init__(self) -> None:
        if self.length < NUM_FRAME_PIECES + 2:
            raise ValueError(f"a pair of texts needs at least {NUM_FRAME_PIECES + 2} pieces, not {self.length}")

    @property
    def room(self) -> int:
        """Pieces of text in an example."""
        return self.length - NUM_FRAME_PIECES


class SentencePair(NamedTuple):
    """One pair of texts as `BertForPreTraining` reads it, and what it must predict."""

    input_ids: Int[np.ndarray, " T"]
    segment_ids: Int[np.ndarray, " T"]
    positions: Int[np.ndarray, " K"]
    targets: Int[np.ndarray, " K"]
    documents: Int[np.ndarray, " T"]
    is_random: Int[np.ndarray, ""]


def sentence_pair(
    chunk: Int[np.ndarray, " N"], other: Int[np.ndarray, " M"], rng: np.random.Generator, masking: Masking, frame: Frame
) -> SentencePair:
    """Return a pair from `chunk` and, half of the time, `other`, a chunk of another document; of at least two pieces
    each.

    Neither has an end-of-text piece. Raises `ValueError` where a text is too short, or where the frame's pieces
    are not special to `masking`.
    """
    if min(len(chunk), len(other)) < 2:
        raise ValueError(f"a pair needs two pieces of each of two documents, not {len(chunk)} and {len(other)}")
    if not masking.special[[frame.cls_id, frame.sep_id, frame.pad_id]].all():
        raise ValueError("the start, separator and padding pieces of a pair must be special pieces of the masking")
    share = float(rng.random())
    (first, true), (_, foreign) = (_cut(text, share, masking, frame) for text in (chunk, other))
    is_random = bool(rng.random() < 0.5)  # half of the pairs, as BERT: else always saying "consecutive" would do
    second = (foreign if is_random else true)[: min(len(true), len(foreign))]
    room = int(rng.integers(2, frame.room + 1)) if rng.random() < frame.short_share else frame.room
    first, second = truncate(first, second, room, rng)
    framed = np.concatenate([[frame.cls_id], first, [frame.sep_id], second, [frame.sep_id]]).astype(np.int64)
    hidden = masked(pad_right(framed, frame.length, frame.pad_id), rng, masking)
    segment_ids = np.repeat([0, 1], [len(first) + 2, len(second) + 1])
    return SentencePair(
        input_ids=hidden.input_ids,
        segment_ids=pad_right(segment_ids, frame.length, 0),
        positions=hidden.positions,
        targets=hidden.targets,
        documents=pad_right(np.zeros(len(framed), np.int64), frame.length, PADDING_DOCUMENT),
        is_random=np.array(is_random, np.int64),
    )


def truncate(
    first: Int[np.ndarray, " N"], second: Int[np.ndarray, " M"], room: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]:
    """Return both texts in `room` pieces: the longer one (the second, if equal) loses pieces, at either end at
    random."""
    num_second = min(len(second), max(room // 2, room - len(first)))
    num_first = min(len(first), room - num_second)
    start, second_start = (int(rng.binomial(n, 0.5)) for n in (len(first) - num_first, len(second) - num_second))
    return first[start : start + num_first], second[second_start : second_start + num_second]


def _cut(
    chunk: np.ndarray, share: float, masking: Masking, frame: Frame
) -> tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]:
    """Return the two parts of a chunk, cut at the allowed place nearest to `share` of its length."""
    places = word_bounds(masking.words(chunk))[1:-1]
    if frame.sentence_ends is not None:
        # "... ends. '' Next": a closing quote is a word of its own, and the cut before it is good enough.
        after_sentences = places[frame.sentence_ends[chunk[places - 1]]]
        places = after_sentences if len(after_sentences) else places
    places = places if len(places) else np.arange(1, len(chunk))
    place = int(places[np.abs(places - share * len(chunk)).argmin()])
    return chunk[:place], chunk[place:]


class DocumentChunk(NamedTuple):
    """Pieces [start, stop) of a document."""

    document: int
    start: int
    stop: int


class PairPlan:
    """Which pieces of a corpus make the pairs: documents cut into chunks of at most `room` pieces.

    Example `index` is a chunk, and a chunk of another document, all equally likely; `num_left_out` pieces are in no
    example, each alone at the end of its document.

        PairPlan([5, 3], room=2)    chunks of 2 + 2 (1 is left out) and 2 (1 is left out): 3 examples
        plan.draw(1, rng)           DocumentChunk(0, start=2, stop=4), DocumentChunk(1, start=0, stop=2)

    `lengths` are the documents' pieces without end-of-text pieces; `room` is `Frame.room`. Raises `ValueError` for
    fewer than two documents with a chunk.
    """

    def __init__(self, lengths: Int[np.ndarray, " D"], room: int) -> None:
        self.lengths, self.room = lengths, room
        whole, rest = np.divmod(lengths, room)
        self._chunks = whole + (rest >= MIN_CHUNK)
        self._ends = np.cumsum(self._chunks)
        self.num_left_out = int(rest[rest < MIN_CHUNK].sum())
        count = int((self._chunks > 0).sum())
        if count < 2:
            raise ValueError(
                f"next-sentence prediction needs two documents of at least {MIN_CHUNK} pieces, and there are {count}; "
                "split the corpus into documents (boustro lab tokenize --split), or use the objective masked"
            )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def draw(self, index: int, rng: np.random.Generator) -> tuple[DocumentChunk, DocumentChunk]:
        """Return the chunk of an example, and one of another document. Raises `IndexError` beyond the last."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        chunk = self._chunk(index)
        num_chunks = int(self._chunks[chunk.document])
        other = int(rng.integers(len(self) - num_chunks))
        return chunk, self._chunk(other + num_chunks * (other >= int(self._ends[chunk.document]) - num_chunks))

    def _chunk(self, index: int) -> DocumentChunk:
        document = int(np.searchsorted(self._ends, index, side="right"))
        start = (index - int(self._ends[document] - self._chunks[document])) * self.room
        return DocumentChunk(document, start, min(start + self.room, int(self.lengths[document])))
