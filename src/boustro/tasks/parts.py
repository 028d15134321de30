"""The sentences that examples consist of, each once: a passage with twenty questions is encoded once. And as many
examples at a time as their features fit into memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from boustro.encoders.windows import group_sentences
from boustro.text.documents import chunk_by_size
from boustro.types import Sentence

MOST_BYTES = 512 * 2**20


def sentences_of(
    examples: Sequence[Any], parts: Callable[[Any], tuple[Sentence, ...]]
) -> tuple[list[Sentence], np.ndarray]:
    """What is encoded, each sentence of examples of several parts once; (examples, parts) numbers of these."""
    own = [parts(example) for example in examples]
    if all(len(sentences) == 1 for sentences in own):
        return [sentences[0] for sentences in own], np.arange(len(own))[:, None]
    return distinct_parts(own)


def distinct_parts(examples: Iterable[tuple[Sentence, ...]]) -> tuple[list[Sentence], np.ndarray]:
    """The different sentences, without labels, and (examples, parts) which of them each example has."""
    numbers: dict[tuple, int] = {}
    sentences: list[Sentence] = []
    rows = []
    for parts in examples:
        rows.append([])
        for part in parts:
            key = part.words, part.spaces
            if key not in numbers:
                numbers[key] = len(sentences)
                sentences.append(Sentence(part.words, spaces=part.spaces))
            rows[-1].append(numbers[key])
    return sentences, np.array(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 0)


def within_memory(
    examples: Sequence[Any], parts: Callable[[Any], tuple[Sentence, ...]], bytes_per_word: int
) -> Iterator[list[Any]]:
    """Consecutive examples until the features of their words take about `MOST_BYTES`; no document is divided."""
    alone = examples and not isinstance(examples[0], Sentence)
    groups = ([example] for example in examples) if alone else group_sentences(examples, "document")
    sizes = chunk_by_size(
        groups, lambda group: sum(len(s) for e in group for s in parts(e)), max(MOST_BYTES // bytes_per_word, 1)
    )
    for chunk in sizes:
        yield [example for group in chunk for example in group]
