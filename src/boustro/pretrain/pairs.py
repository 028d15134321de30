"""Sentence pairs out of shards: BERT's own two objectives, as a run reads them.

An example is a chunk of a document, and one of another for the case that a random text follows. Which, follows from
(seed, epoch, index) alone; over an epoch no chunk comes twice and none is missed:

    documents of 5 and 3 pieces, 2 an example     example 0: pieces 0, 1 of the first · 1: its pieces 2, 3
                                                  example 2: pieces 0, 1 of the second

What makes a pair of the two, and hides pieces of it, is `objectives.sentence_pair`.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from boustro.objectives.catalogue import OBJECTIVES
from boustro.objectives.examples import collate, keyed_generator
from boustro.objectives.pairs import PairPlan, Run
from boustro.objectives.sentence_pair import NUM_FRAME_PIECES, Frame, sentence_pair
from boustro.objectives.words import sentence_ends
from boustro.pretrain.config import PretrainConfig
from boustro.pretrain.masked_objectives import counted, key_of, make_run_masking
from boustro.pretrain.processes import say
from boustro.text.segments import document_places
from boustro.text.shards import Shards
from boustro.text.tokenizers import with_special_pieces

NAME = "sentence-pair"


class PairExample(NamedTuple):
    """Chunk `index`, read in `epoch`, and one of another document; piece ids without end-of-text pieces."""

    epoch: int
    index: int
    chunk: np.ndarray
    other: np.ndarray


class Pairs:
    """A `Source` of chunks of at most `room` pieces, which no border of a document crosses."""

    def __init__(self, shards: Shards, room: int, seed: int) -> None:
        """Raises `ValueError` for fewer than two documents that are long enough."""
        self.shards, self.seed = shards, seed
        self._start, stop, self._owner = document_places(shards)
        self.plan = PairPlan(stop - self._start - 1, room)  # without the end-of-text piece

    def __len__(self) -> int:
        return len(self.plan)

    def example(self, epoch: int, index: int) -> PairExample:
        # A child of the example's generator: what is hidden is drawn from the generator itself, in the batch.
        (rng,) = keyed_generator(self.seed, epoch, index).spawn(1)
        chunk, other = self.plan.draw(index, rng)
        return PairExample(epoch, index, self._pieces(chunk), self._pieces(other))

    def _pieces(self, run: Run) -> np.ndarray:
        start = int(self._start[run.document])
        return self.shards.read(int(self._owner[run.document]), start + run.start, start + run.stop)


def read_pairs(shards: Shards, config: PretrainConfig, seed: int | None) -> Pairs:
    """The pairs of some shards, `seed` None being 0: validation pairs are the same whatever the run's seed."""
    if config.segment_length < NUM_FRAME_PIECES + 2:
        raise ValueError(
            f"--segment-length {config.segment_length}: a pair of texts needs at least {NUM_FRAME_PIECES + 2} pieces"
        )
    pairs = Pairs(shards, config.segment_length - NUM_FRAME_PIECES, seed or 0)
    if pairs.plan.num_left_out:
        say(f"{shards.path}: {pairs.plan.num_left_out:,} pieces, each alone at the end of a document, are in no pair")
    return pairs


def pair_batch(examples: Sequence[PairExample], config: PretrainConfig, sentinel: int) -> dict[str, Any]:
    """Pairs of texts, in half of which the second is from elsewhere, with pieces hidden in both."""
    masking, frame = make_run_masking(config, sentinel), _frame(config.shards[0], config.segment_length)
    return counted(collate([sentence_pair(e.chunk, e.other, key_of(e, config), masking, frame) for e in examples]))


@lru_cache(maxsize=1)
def _frame(path: Path, length: int) -> Frame:
    tokenizer = with_special_pieces(Shards.open(path).tokenizer_path, OBJECTIVES[NAME].special)
    ends = None
    with suppress(ValueError):  # pieces that do not show what they end: a chunk is cut anywhere
        ends = sentence_ends(tokenizer)
    ids = {f"{name}_id": getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad")}
    return Frame(**ids, length=length, sentence_ends=ends)
