"""Texts with gaps in, filled texts out; any number of gaps a text, one after the other from left to right.

    >>> infiller = boustro.Infiller("starter", tokens_per_gap="1")
    >>> infiller.fill("He was born in ___ and died in London.").filled
    'He was born in London and died in London.'

A gap is filled from the text on its left, in which the gaps before it are filled already, and the text on its right up
to the next gap. Nothing outside the gaps changes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, overload

from boustro.encoders.options import Precision
from boustro.given import as_text, iterate
from boustro.lab.generation.both_ends.filling import Filling, Gap, context_room, fill_gaps
from boustro.lab.generation.both_ends.pair import LMPair, TextPieces
from boustro.lab.generation.options import InfillOptions
from boustro.lab.generation.templates import split_gaps
from boustro.options import check_options
from boustro.text.start import AUTO

TEXTS_AT_ONCE = 16  # a text may have several gaps, which are filled together
BROKEN_GAPS = "gaps with bytes that are no whole character, shown as \N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text for a gap; `joint` is f + b − γ · u of its pieces, in nats, which is not normalised."""

    text: str
    joint: float


@dataclass(frozen=True, slots=True)
class FilledGap:
    """Text written at `[start, end)` of the filled text, and the other candidates for the gap, the best first."""

    start: int
    end: int
    text: str
    joint: float
    others: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with gaps, the same filled, and its gaps."""

    text: str
    filled: str
    gaps: tuple[FilledGap, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them; `others` only where there are any."""
        gaps = [{name: value for name, value in asdict(gap).items() if value != ()} for gap in self.gaps]
        return {"text": self.text, "filled": self.filled, "gaps": gaps}


class Infiller:
    """A forward and a backward LM that fill the gaps (`___`) of texts from both ends.

    Attributes:
        options: An `InfillOptions`.
        pair: The two LMs.
        counts: What was noticed, such as contexts that were cut to the window, and how often.
    """

    def __init__(
        self,
        model: str = "starter",
        *,
        device: str | None = None,
        dtype: Precision = "float32",
        start_piece: str = AUTO,
        **options: Any,
    ) -> None:
        """Load the pair.

        Args:
            model: Spec of a forward and a backward LM over one vocabulary, see `boustro.load_encoder`.
            device: cpu, cuda or mps; by default the best available.
            dtype: Precision of the computation; log-probabilities in bfloat16 are too coarse to be compared closely.
            start_piece: What the LMs are given before every text (`text.start`).
            options: Fields of `InfillOptions`.

        Raises `ValueError` for an option outside its range, for anything but such a pair and for a gap that does not
        fit into its window, and `FileNotFoundError` for a missing model.
        """
        check_options(Infiller.__init__, locals())
        self.options = InfillOptions(**options)
        self.pair = LMPair.load(model, device, dtype, start_piece)
        self.pieces, self.counts = TextPieces(self.pair.tokenizer), Counter[str]()
        self._room = context_room(self.pair, self.options)

    @overload
    def fill(self, given: str) -> Filled: ...
    @overload
    def fill(self, given: Iterable[str]) -> list[Filled]: ...
    def fill(self, given: str | Iterable[str]) -> Filled | list[Filled]:
        """Fill the gaps of a text, or of several.

        Raises `ValueError`, with the text's number, for an empty text and for one without a gap.
        """
        return next(self.stream([given])) if isinstance(given, str) else list(self.stream(given))

    def stream(self, texts: Iterable[str]) -> Iterator[Filled]:
        """Yield the results of `fill`, text by text; `TEXTS_AT_ONCE` texts are filled together."""
        rest, number = iterate(texts, "a text or several"), 0
        while some := list(islice(rest, TEXTS_AT_ONCE)):
            places = [f"text {n}" for n in range(number + 1, number + 1 + len(some))]
            given = [(as_text(text, place), place) for text, place in zip(some, places, strict=True)]
            yield from self.fill_batch(given, number)
            number += len(some)

    def fill_batch(self, texts: Sequence[tuple[str, str]], first: int = 0) -> list[Filled]:
        """Fill (text, place for messages) pairs together; random numbers depend on the text's number, from `first`."""
        parts = [_checked(text, place) for text, place in texts]
        options = self.options
        if not options.temperature:  # one filling more than are shown where two may say the same in other pieces
            options = replace(options, candidates=options.beam)
        filled: list[str] = [text_parts[0] for text_parts in parts]
        gaps: list[list[FilledGap]] = [[] for _ in parts]
        for turn in range(max(map(len, parts), default=1) - 1):
            rows = [row for row, text_parts in enumerate(parts) if turn + 1 < len(text_parts)]
            asked = [self._gap(filled[row], parts[row], turn, (first + row, turn)) for row in rows]
            by_gap = fill_gaps(self.pair, asked, options)
            for row, gap, fillings in zip(rows, asked, by_gap, strict=True):
                best, *others = self._candidates(fillings, bool(gap.spaced))
                start = len(filled[row])
                gaps[row].append(FilledGap(start, start + len(best.text), best.text, best.joint, tuple(others)))
                filled[row] += best.text + parts[row][turn + 1]
        return [Filled(text, filled[row], tuple(gaps[row])) for row, (text, _) in enumerate(texts)]

    def _gap(self, left: str, parts: Sequence[str], turn: int, key: tuple[int, ...]) -> Gap:
        """Return the gap after `left`; what lies behind the next gap is not read."""
        right, more = parts[turn + 1], turn + 2 < len(parts)
        before, spaced = self.pieces.left(left)
        after = self.pieces.right(right.removesuffix(" ") if more else right)
        if max(len(before), len(after)) > self._room:
            self.counts[f"gaps with more text around them than the pair reads: the nearest {self._room} pieces"] += 1
        return Gap(before, after, spaced, key)

    def _candidates(self, fillings: Sequence[Filling], spaced: bool) -> list[Candidate]:
        texts: dict[str, float] = {}
        for filling in fillings:
            texts.setdefault(self.pieces.text(filling.pieces, spaced), filling.joint)
        candidates = [Candidate(text, joint) for text, joint in texts.items()][: self.options.candidates]
        self.counts[BROKEN_GAPS] += "\N{REPLACEMENT CHARACTER}" in candidates[0].text
        return candidates


def _checked(text: str, place: str) -> list[str]:
    """Return the parts between the gaps; `ValueError` where there are none."""
    parts = split_gaps(text)
    if not text.strip():
        raise ValueError(f"{place} is empty; give a text with a gap (___)")
    if len(parts) == 1:
        raise ValueError(f"{place} has no gap; mark each gap with three underscores (___)")
    return parts
