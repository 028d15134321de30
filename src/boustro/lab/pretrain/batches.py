"""How a run's examples are read and become batches, by objective.

An example is known by (epoch, index), and everything random about it is drawn from a generator keyed by (seed, epoch,
index), so a batch is the same whichever process makes it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from boustro.lab.objectives.causal import causal
from boustro.lab.objectives.examples import IGNORED, collate, keyed_generator
from boustro.lab.objectives.masking import Masking, make_masking
from boustro.lab.objectives.prefix_suffix import prefix_suffix
from boustro.lab.objectives.sentence_pair import NUM_FRAME_PIECES, DocumentChunk, Frame, PairPlan, sentence_pair
from boustro.lab.objectives.words import sentence_ends
from boustro.lab.pretrain.config import PretrainConfig
from boustro.lab.pretrain.distributed import all_reduce_sum, num_processes, process_index, say, wait_for_parent
from boustro.lab.pretrain.segments import ExampleSource, SegmentExample, Segments, document_places
from boustro.lab.pretrain.shards import Shards
from boustro.text.tokenizers import num_ids, with_special_pieces


@dataclass(frozen=True)
class Collator:
    """Examples → a batch; picklable, so that data-loading processes can make batches."""

    config: PretrainConfig
    end_id: int
    """The end-of-text piece, which is a causal LM's sentinel too."""
    special: tuple[str, ...]
    """Special pieces that the tokenizer is given where it lacks them."""
    make_batch: Callable[[Sequence[Any], "Collator"], dict[str, Any]]

    def __call__(self, examples: Sequence[Any]) -> dict[str, Any]:
        if torch.utils.data.get_worker_info() is not None:
            wait_for_parent()
        return self.make_batch(examples, self)

    def generator(self, example: Any) -> np.random.Generator:
        """For what is drawn for one example."""
        return keyed_generator(self.config.seed, example.epoch, example.index)

    def tokenizer(self) -> Any:
        """That of the shards, with the special pieces."""
        return with_special_pieces(Shards.open(self.config.shards[0]).tokenizer_path, self.special)


@lru_cache(maxsize=1)
def run_masking(run: Collator) -> Masking:
    """Make the `Masking` of a run; random pieces are drawn by frequency in the corpora."""
    config, tokenizer = run.config, run.tokenizer()
    size = num_ids(tokenizer)
    counts = np.sum([Shards.open(path).counts(size) for path in config.shards], 0)
    return make_masking(tokenizer, run.end_id, config.hide, size, counts, rate=config.mask_rate)


@lru_cache(maxsize=1)
def run_frame(run: Collator) -> Frame:
    """Make the `Frame` that surrounds a pair of texts."""
    tokenizer, ends = run.tokenizer(), None
    with suppress(ValueError):  # the pieces do not show sentence ends: a chunk is cut anywhere
        ends = sentence_ends(tokenizer)
    ids = {f"{name}_id": getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad")}
    return Frame(**ids, length=run.config.segment_length, sentence_ends=ends)


def stack(examples: Sequence[SegmentExample]) -> Tensor:
    """Return the pieces of segments (B, T)."""
    return torch.from_numpy(np.stack([example.pieces for example in examples]))


def causal_batch(examples: Sequence[SegmentExample], run: Collator) -> dict[str, Tensor]:
    """Next-piece prediction in the run's direction."""
    return causal(stack(examples), run.config.direction, run.end_id)._asdict()


def masked_batch(hide: Callable[..., Any], examples: Sequence[SegmentExample], run: Collator) -> dict[str, Any]:
    """Segments with pieces hidden by the objective `hide`."""
    masking = run_masking(run)
    return counted([hide(example.pieces, run.generator(example), masking) for example in examples])


def counted(examples: Sequence[Any]) -> dict[str, Any]:
    """Examples as a batch, and its number of targets as an int, so that no GPU has to be waited for."""
    batch = collate(examples)
    return {**batch, "num_targets": int((batch["targets"] != IGNORED).sum())}


def prefix_suffix_batch(examples: Sequence[SegmentExample], run: Collator) -> dict[str, Any]:
    """Segments whose documents are split in two, with pieces hidden in both parts."""
    return masked_batch(partial(prefix_suffix, split=run.config.split), examples, run)


def read_splits(shards: Shards, config: PretrainConfig, seed: int | None) -> Segments:
    """Return the segments of some shards, of which some documents must be long enough to be split; the others are
    counted."""
    start, stop, _ = document_places(shards)
    least, lengths = config.split.least_pieces, stop - start - 1  # without the end-of-text piece
    short = lengths < least
    if short.all() or config.segment_length < least:
        raise ValueError(
            f"{shards.path}: no document is long enough to be split in two: --least-pieces is {least:,}, the longest "
            f"has {lengths.max():,} and a segment {config.segment_length:,}; lower it, or choose another objective"
        )
    if short.any():
        say(f"{shards.path}: {short.sum():,} of {len(short):,} documents are not split: under {least:,} pieces")
    return Segments(shards, config.segment_length, seed)


class PairExample(NamedTuple):
    """Chunk `index`, read in `epoch`, and a chunk of another document; piece ids without end-of-text pieces."""

    epoch: int
    index: int
    chunk: np.ndarray
    other: np.ndarray


class Pairs:
    """A `ExampleSource` of chunks of at most `room` pieces within a document, each with a chunk of another document.

    Over an epoch every chunk is read once, in the order of the corpus.
    """

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

    def _pieces(self, chunk: DocumentChunk) -> np.ndarray:
        start = int(self._start[chunk.document])
        return self.shards.read(int(self._owner[chunk.document]), start + chunk.start, start + chunk.stop)


def read_shard_pairs(shards: Shards, config: PretrainConfig, seed: int | None) -> Pairs:
    """Return the pairs of some shards; None is seed 0, so validation pairs are the same whatever the run's seed."""
    if config.segment_length < NUM_FRAME_PIECES + 2:
        raise ValueError(
            f"--segment-length {config.segment_length}: a pair of texts needs at least {NUM_FRAME_PIECES + 2} pieces"
        )
    pairs = Pairs(shards, config.segment_length - NUM_FRAME_PIECES, seed or 0)
    if pairs.plan.num_left_out:
        say(f"{shards.path}: {pairs.plan.num_left_out:,} pieces, each alone at the end of a document, are in no pair")
    return pairs


def pair_batch(examples: Sequence[PairExample], run: Collator) -> dict[str, Any]:
    """Pairs of texts, in half of which the second is from another document, with pieces hidden in both."""
    masking, frame = run_masking(run), run_frame(run)
    return counted([sentence_pair(e.chunk, e.other, run.generator(e), masking, frame) for e in examples])


class Batches(Dataset):
    """`count` items, made when they are read: `make(0)`, `make(1)`, …"""

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self.count, self.make = count, make

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        if not 0 <= number < self.count:
            raise IndexError(number)
        return self.make(number)

    def __iter__(self) -> Iterator[Any]:
        return (self.make(number) for number in range(self.count))


@dataclass(frozen=True)
class HeldOut:
    """The first validation examples, `options.validation_pieces` pieces of them, shared out over the processes.

    Yields (batch, number of examples). Every process has as many batches as every other; the last may weigh 0.
    """

    source: ExampleSource
    collate: Callable[[list[Any]], dict[str, Any]]
    options: Any
    """Of the run: its `segment_length` and its `validation_pieces`."""
    size: int

    def __iter__(self) -> Iterator[tuple[dict[str, Any], int]]:
        count = min(len(self.source), max(1, self.options.validation_pieces // self.options.segment_length))
        first, stride = process_index() * self.size, self.size * num_processes()
        shares = [range(start, min(start + self.size, count)) for start in range(first, count + first, stride)]
        density = 0.0
        if "num_targets" in self._batch([0]):  # the number differs between examples: all batches are given the mean
            counts = [self._batch(numbers)["num_targets"] for numbers in shares if numbers]
            targets, num_examples = all_reduce_sum(sum(counts), sum(map(len, shares)))
            density = targets / num_examples
        for numbers in shares:
            batch = self._batch(numbers or [0])
            if "num_targets" in batch:
                batch["num_targets"] = torch.tensor(density * len(numbers) or 1.0)
            yield batch, len(numbers)

    def _batch(self, numbers: Sequence[int]) -> dict[str, Any]:
        return self.collate([self.source.example(0, number) for number in numbers])
