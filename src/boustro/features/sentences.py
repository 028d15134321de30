"""The sentences that examples consist of, each once: a passage with twenty questions is encoded once.

    (q1, passage), (q2, passage)    →   sentences q1 passage q2, examples (0, 1) and (2, 1)

An example that is a sentence itself stands for its own place in the text, so it is never taken for another one. Of the
sentences inside examples those that stand alone are the same where their words and spaces are; in a document, which may
repeat itself, they are the same where they are one object: two pairs of entities of a sentence share it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from boustro.text.documents import chunk_by_size
from boustro.types import Sentence

Parts = Callable[[Any], tuple[Sentence, ...]]
"""The sentences of an example; as many for each."""
MOST_BYTES = 512 * 2**20


def distinct_sentences(examples: Sequence[Any], parts: Parts) -> tuple[list[Sentence], np.ndarray]:
    """The different sentences, and (examples, parts) which of them each example has."""
    numbers: dict[Any, int] = {}
    sentences: list[Sentence] = []
    rows: list[list[int]] = []
    for example in examples:
        rows.append([])
        for part in parts(example):
            number = len(sentences)
            if part is not example:
                number = numbers.setdefault(id(part) if part.document else (part.words, part.spaces), number)
            if number == len(sentences):
                sentences.append(part)
            rows[-1].append(number)
    return sentences, np.array(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 1)


def within_memory(examples: Sequence[Any], parts: Parts, bytes_per_word: int) -> Iterator[list[Any]]:
    """Consecutive examples until the features of their words take about `MOST_BYTES`; no document is divided."""
    sizes = chunk_by_size(
        _by_document(examples, parts),
        lambda group: sum(len(s) for e in group for s in parts(e)),
        max(MOST_BYTES // bytes_per_word, 1),
    )
    for chunk in sizes:
        yield [example for group in chunk for example in group]


def _by_document(examples: Sequence[Any], parts: Parts) -> Iterator[list[Any]]:
    for name, run in groupby(examples, key=lambda example: next((s.document for s in parts(example)), "")):
        group = list(run)
        yield from [group] if name else ([example] for example in group)
