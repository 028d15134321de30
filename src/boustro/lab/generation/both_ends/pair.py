"""A forward and a backward LM over one vocabulary, which choose the pieces of a gap together.

Each piece of a gap is judged by both: by the forward LM from the text on its left (f), by the backward LM from the
text on its right (b). Both include how frequent the piece is at all, which should count once, so its unigram
log-probability u is taken off again, weighted by γ: f + b − γ · u. If the two sides were independent given the piece,
γ = 1 would be exact (Bayes). u is what the LMs predict after their start piece alone (the mean of both), which needs no
counts of a corpus: training segments begin anywhere in a text.

`TextPieces` turns texts with gaps, `The ___ sat on the ___.`, into pieces and back, exactly. A gap is a run of three or
more underscores. The text on either side is tokenized on its own:

    "The capital is ___ , here"     left "The capital is"     the gap begins with a space     right " , here"
    "an un___able man"              left "an un"              it begins without one           right "able man"

A space before a gap belongs to the first piece that is written there, because tokenizers keep a word and the space
before it together; without one, what is written continues the word before it. A gap ends where the text on its right
begins: `able` above continues what was written.
"""

from collections.abc import Sequence
from math import log
from typing import Any

import torch
from torch import Tensor

from boustro.encoders.fused import lms_of
from boustro.encoders.loading import load_config
from boustro.encoders.options import Precision
from boustro.encoders.spec import Spec, load_encoder
from boustro.lab.generation.both_ends.reader import EndReader, Ids, ReadContexts
from boustro.models.pretrained import architecture_kind
from boustro.text.alignment import without_mark
from boustro.text.start import AUTO
from boustro.text.tokenizers import num_ids


class LMPair:
    """Both LMs, the unigram log-probabilities (V,), and which pieces may be written.

    Attributes:
        writable: (V,) False for special pieces and those of white space alone.
        spaced: (V,) True for pieces that begin with a space, or the tokenizer's mark for one.
        window: Most pieces of a context and a gap together.
    """

    def __init__(self, forward: EndReader, backward: EndReader, tokenizer) -> None:
        self.forward, self.backward, self.tokenizer = forward, backward, tokenizer
        self.device, self.window = forward.device, min(forward.room, backward.room)
        # segments begin anywhere in a text, so an LM of ours has the unigram distribution after its start piece
        unigrams = [lm.read([[]]).next([[]])[0] for lm in (forward, backward)]
        self.unigram = torch.stack(unigrams).logsumexp(0) - log(2)
        strings = [tokenizer.decode([i], clean_up_tokenization_spaces=False) for i in range(num_ids(tokenizer))]
        special = set(tokenizer.all_special_ids)
        writable = [i not in special and bool(text.strip()) for i, text in enumerate(strings)]
        self.writable, self.spaced = torch.zeros(2, len(self.unigram), dtype=torch.bool, device=self.device)
        self.writable[: len(writable)] = torch.tensor(writable, device=self.device)
        self.spaced[: len(writable)] = torch.tensor(begin_with_space(tokenizer), device=self.device)

    @classmethod
    def load(
        cls, spec: str = "starter", device: str | None = None, dtype: Precision = "float32", start_piece: str = AUTO
    ) -> "LMPair":
        """Return the pair that a spec names. Raises as `load_encoder`, and `ValueError` for anything but such a
        pair."""
        parts = Spec.parse(spec).parts
        for part in parts:
            path = part.place
            is_lm = path.kind in (None, "model")
            if is_lm and architecture_kind(load_config(path, part.revision)) == "masked":
                raise ValueError(f"{part.name} is a masked LM; {NEEDED}")
        if len(parts) != 2:
            raise ValueError(f"{spec} is {'one model' if len(parts) == 1 else f'{len(parts)} models'}; {NEEDED}")
        forward, backward = lms_of(load_encoder(spec, "last", device=device, dtype=dtype, start_piece=start_piece))
        return cls(EndReader(forward), EndReader(backward), forward.tokenizer)


NEEDED = "a gap is filled by a forward and a backward LM over one vocabulary, such as starter or gpt2+./backward"


class Ends:
    """The contexts of several gaps, read by both LMs; row `n` of its functions is about gap `rows[n]`."""

    def __init__(self, pair: LMPair, contexts: Sequence[tuple[Ids, Ids]], spaced: Sequence[bool | None] = ()) -> None:
        """`contexts` are the pieces on the left and on the right of each gap, in text order; with the gap, and with
        what `around` reads on, they must fit into the window. `spaced` says whether a gap's first piece begins with a
        space, None for either."""
        self.pair, self.contexts, self.spaced = pair, contexts, spaced or [None] * len(contexts)
        self.left: ReadContexts = pair.forward.read([left for left, _ in contexts])
        self.right: ReadContexts = pair.backward.read([right for _, right in contexts])

    def ahead(self, written: Sequence[Ids], rows: Sequence[int]) -> Tensor:
        """Return (N, V) f of the piece after what is written at the left; -inf for pieces that may not stand there."""
        first = [self.spaced[row] if not ids else None for ids, row in zip(written, rows, strict=True)]
        return self._allowed(self.left.next(written, rows), first)

    def behind(self, written: Sequence[Ids], rows: Sequence[int], length: int) -> Tensor:
        """Return (N, V) b of the piece before what is written at the right, which is in the order of writing; the
        same."""
        first = [self.spaced[row] if len(ids) == length - 1 else None for ids, row in zip(written, rows, strict=True)]
        return self._allowed(self.right.next(written, rows), first)

    def _allowed(self, log_probs: Tensor, first: Sequence[bool | None]) -> Tensor:
        pair = self.pair
        allowed = torch.stack([pair.writable if s is None else pair.writable & (pair.spaced == s) for s in first])
        return log_probs.masked_fill(~allowed, -torch.inf)

    def joint(self, middles: Sequence[Ids], rows: Sequence[int], unigram_weight: float) -> Tensor:
        """Return (N,) f + b − γ · u, summed over the pieces."""
        reversed_middles = [list(reversed(middle)) for middle in middles]
        log_probs = self.left.scores(middles, rows).sum(-1) + self.right.scores(reversed_middles, rows).sum(-1)
        unigram = torch.stack([self.pair.unigram[list(middle)].sum() for middle in middles])
        return log_probs - unigram_weight * unigram

    def around(self, middles: Sequence[Ids], rows: Sequence[int], read_on: int) -> Tensor:
        """Return (N,) log-probability of a middle and of `read_on` pieces behind it, in both directions, summed.

        log p(x, r₁…rₖ | left) of the forward LM + log p(x, lₖ…l₁ | right) of the backward LM. Both are probabilities of
        the same text whatever the length of x, so they compare middles of different lengths.
        """
        ahead, behind = [], []
        for middle, row in zip(middles, rows, strict=True):
            left, right = self.contexts[row]
            ahead.append([*middle, *right[:read_on]])
            behind.append([*reversed(middle), *nearest_left(left, read_on)[::-1]])
        return self.left.scores(ahead, rows).sum(-1) + self.right.scores(behind, rows).sum(-1)


def nearest_left(context: Ids, room: int) -> Ids:
    """Return the last `room` pieces."""
    return context[max(0, len(context) - room) :]


def nearest_right(context: Ids, room: int) -> Ids:
    """Return the first `room` pieces."""
    return context[:room]


SPACE_MARKS = ("Ġ", "▁", " ")
"""How a piece that begins with a space begins: GPT-2's bytes, SentencePiece, and plain."""


def begin_with_space(tokenizer: Any) -> list[bool]:
    """For every piece of the vocabulary whether it begins with a space."""
    return [piece.startswith(SPACE_MARKS) for piece in _pieces(tokenizer)]


def _pieces(tokenizer: Any) -> list[str]:
    """By id; an id that no piece has is ""."""
    pieces = {identifier: piece for piece, identifier in tokenizer.get_vocab().items()}
    return [pieces.get(identifier, "") for identifier in range(num_ids(tokenizer))]


class TextPieces:
    """Pieces of texts that begin or continue, and texts of pieces; `ValueError` where pieces do not know of spaces."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._marks_start = (tokenizer.tokenize("a") or [""])[0].startswith(
            SPACE_MARKS
        )  # as if a space came before a text
        self._unmarked = without_mark(tokenizer) if self._marks_start else None
        if self._ids("a") == self._ids(" a") and self._unmarked is None:
            raise ValueError(
                "the tokenizer does not keep spaces apart (as WordPiece does not), so a gap cannot be written exactly; "
                "use LMs over another vocabulary"
            )
        spaced = (piece for piece in _pieces(tokenizer) if piece and piece.startswith(SPACE_MARKS))
        self._has_spaced = any(piece.strip("".join(SPACE_MARKS)) for piece in spaced)
        self._anchor = self._ids("a")[-1]

    def left(self, text: str) -> tuple[list[int], bool]:
        """Return the pieces of the text on the left of a gap, and whether the gap's first piece begins with a space."""
        if not text:
            return [], self._marks_start
        spaced = text.endswith(" ") and self._has_spaced
        text = text[:-1] if spaced else text
        return (self._ids(text) if text else []), spaced

    def right(self, text: str) -> list[int]:
        """Return the pieces of the text on the right of a gap."""
        if not self._marks_start:
            return self._ids(text)
        if text.startswith(" "):  # the mark is this space
            return self._ids(text[1:])
        word, space, rest = text.partition(" ")
        ids = self._unmarked.encode(word, add_special_tokens=False).ids if self._unmarked else self._ids(word)
        return ids + (self._ids(rest) if space else [])

    def text(self, pieces: Sequence[int], spaced: bool) -> str:
        """Return the text of pieces in a gap, without the space that the first one begins with."""
        options = {"clean_up_tokenization_spaces": False}
        before = self.tokenizer.decode([self._anchor], **options)  # decoding drops a space at the start of a text
        text = self.tokenizer.decode([self._anchor, *pieces], **options)[len(before) :]
        return text[1:] if spaced and text.startswith(" ") else text

    def _ids(self, text: str) -> list[int]:
        try:
            return self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        except (TypeError, UnicodeEncodeError) as error:
            raise ValueError("the text holds half a character (a lone surrogate)") from error
