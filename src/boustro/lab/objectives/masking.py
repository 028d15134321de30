"""Which pieces are hidden, and what replaces them: BERT's 80/10/10, at any rate.

Of the pieces that an objective has chosen, `mask_share` become the mask piece, `random_share` a random piece, drawn
by its frequency in the corpus (uniformly without frequencies), and the rest are kept:

    chosen [2, 5, 6]  of  [8, 3, 4, 1, 1, 9, 7]  →  [8, 3, M, 1, 1, 6, 7]     masked, random, kept

Special pieces are neither chosen nor drawn. Source: BERT, section 3.1; Jurafsky & Martin, 11.2.1.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from boustro.lab.objectives.words import word_bounds, word_ids, word_starts
from boustro.text.tokenizers import num_ids


@dataclass(frozen=True, kw_only=True, eq=False)
class Masking:
    """Vocabulary (V pieces) and rates of a masked objective; `ValueError` if they do not fit."""

    mask_id: int
    end_id: int
    """The end-of-text piece, which follows each document."""
    special: Bool[np.ndarray, " V"]
    """Pieces that are never chosen nor drawn; the mask piece and the end-of-text piece are among them."""
    word_starts: Bool[np.ndarray, " _"] | None = None
    """Which pieces begin a word, to hide words whole; None: single pieces are hidden."""
    frequencies: Float[np.ndarray, " _"] | Int[np.ndarray, " _"] | None = None
    """How often each piece is drawn as a random one, to any scale; None: uniformly."""
    rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"the masking rate is a share above 0, at most 1, not {self.rate}")
        # 0.8 + 0.2 may round to a little more than 1
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1 + 1e-9:
            raise ValueError(
                f"mask_share {self.mask_share} and random_share {self.random_share} are shares of the chosen pieces; "
                "together they are at most 1"
            )
        for name, identifier in (("mask_id", self.mask_id), ("end_id", self.end_id)):
            if not 0 <= identifier < len(self.special) or not self.special[identifier]:
                raise ValueError(f"{name} {identifier} must be one of the {len(self.special):,} pieces, and special")
        for name in ("word_starts", "frequencies"):
            table = getattr(self, name)
            if table is not None and len(table) != len(self.special):
                raise ValueError(f"{name} has {len(table):,} pieces and special {len(self.special):,}; both need all")
        if self.random_share and not self._cumulative[-1] > 0:
            raise ValueError("no piece can be drawn: every piece is special or has a frequency of 0")

    def num_predictions(self, num_pieces: int) -> int:
        """Return how many of `num_pieces` are chosen: their share, rounded, but at least one, as in BERT."""
        return min(num_pieces, max(1, int(self.rate * num_pieces + 0.5)))

    def eligible(self, pieces: Int[np.ndarray, " T"]) -> tuple[Bool[np.ndarray, " T"], int]:
        """Return which pieces may be chosen, and how many of them to choose: 0 if there are none."""
        eligible = ~self.special[pieces]
        count = int(eligible.sum())
        return eligible, self.num_predictions(count) if count else 0

    def words(self, pieces: Int[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
        """Word ids from the table, or every piece as a word of its own."""
        if self.word_starts is None:
            return np.arange(len(pieces))
        return word_ids(pieces, self.word_starts, self.special)

    def hide(
        self,
        pieces: Int[np.ndarray, " T"],
        chosen: Int[np.ndarray, " N"],
        rng: np.random.Generator,
        groups: Int[np.ndarray, " N"] | None = None,
    ) -> Int[np.ndarray, " T"]:
        """Return a copy of `pieces` with those at `chosen` masked, replaced or kept; those of one group (0, 1, …)
        together."""
        draws = rng.random(len(chosen) if groups is None else int(groups.max(initial=-1)) + 1)
        draw = draws if groups is None else draws[groups]
        masked, random = draw < self.mask_share, draw >= 1 - self.random_share
        hidden = pieces.copy()
        hidden[chosen[masked]] = self.mask_id
        hidden[chosen[random]] = self.draw(int(random.sum()), rng)
        return hidden

    def draw(self, count: int, rng: np.random.Generator) -> Int[np.ndarray, " N"]:
        """Random pieces, by frequency."""
        places = rng.random(count) * self._cumulative[-1]
        return np.searchsorted(self._cumulative, places, side="right").astype(np.int64)

    @cached_property
    def _cumulative(self) -> np.ndarray:
        weights = np.ones(len(self.special)) if self.frequencies is None else self.frequencies.astype(np.float64)
        return np.cumsum(np.where(self.special, 0.0, weights))


def special_pieces(tokenizer: Any, vocab_size: int | None = None) -> Bool[np.ndarray, " V"]:
    """Return a table of the tokenizer's special pieces; unused ids (a padded vocabulary) count as special."""
    size = max(vocab_size or 0, num_ids(tokenizer))
    special = np.ones(size, bool)
    special[list(tokenizer.get_vocab().values())] = False
    special[list(tokenizer.all_special_ids)] = True
    return special


def make_masking(
    tokenizer: Any,
    end_id: int,
    unit: Literal["piece", "word"] = "piece",
    vocab_size: int | None = None,
    frequencies: np.ndarray | None = None,
    **rates: float,
) -> Masking:
    """Return the masking of a tokenizer; `unit` is what is hidden as a unit, `rates` are `rate` and the shares.

    `end_id` separates documents, `vocab_size` is the model's if it has more pieces than the tokenizer. Raises
    `ValueError` for a tokenizer without a mask piece, or (for words) whose pieces do not show where words begin.
    """
    mask, special = tokenizer.mask_token_id, special_pieces(tokenizer, vocab_size)
    if mask is None:
        raise ValueError("the tokenizer has no mask piece; give it one with add_special_tokens({'mask_token': ...})")
    special[end_id] = True
    starts = word_starts(tokenizer, vocab_size) if unit == "word" else None
    return Masking(mask_id=mask, end_id=end_id, special=special, word_starts=starts, frequencies=frequencies, **rates)


def choose_words(
    words: Int[np.ndarray, " T"], eligible: Bool[np.ndarray, " T"], budget: int, rng: np.random.Generator
) -> Int[np.ndarray, " N"]:
    """Pieces of whole words, all eligible, drawn in random order until `budget` pieces are reached, ascending.

    A word that is longer than the remaining budget is skipped, as in BERT, so the budget is met unless no word fits.
    """
    bounds = word_bounds(words)
    lengths = np.diff(bounds)
    if lengths.max(initial=1) == 1:
        return np.sort(rng.choice(np.flatnonzero(eligible), budget, replace=False))
    whole = np.flatnonzero(np.add.reduceat(eligible.astype(np.int64), bounds[:-1]) == lengths)
    order = rng.permutation(whole)
    chosen = np.zeros(len(lengths), bool)
    for word, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        if length <= budget:
            chosen[word] = True
            budget -= length
            if not budget:
                break
    return np.flatnonzero(np.repeat(chosen, lengths))
