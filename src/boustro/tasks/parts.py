"""The sentences that examples consist of, each once: a passage with twenty questions is encoded once."""

from collections.abc import Iterable

import numpy as np

from boustro.types import Sentence


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
    return sentences, np.array(rows, np.int64).reshape(len(rows), -1)
