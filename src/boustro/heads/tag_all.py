"""Tag words by many heads in one pass over their vectors.

M heads, N words, d width of a vector, C tags; n words of a block.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.bodies import PerWord
from boustro.heads.options import SequenceOptions
from boustro.heads.registry import make_head
from boustro.heads.rows import length_blocks, sentence_rows
from boustro.heads.tagging import TaggingHead

SCORED_WORDS, DECODED_WORDS = 2048, 8192
"""Words scored at once, so that scores fit the cache; decoded at once, so that a time step has many sentences."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def tag_all(heads: Sequence[Head], vectors: np.ndarray | Tensor, starts: np.ndarray | None = None) -> np.ndarray:
    """(M, N) uint16: the tags of N words by each head, from vectors (N, d) that are mixed already.

    The heads have bodies of affine maps, all with as many maps and the same labels. With `starts` (sentences + 1,) the
    best valid sequence of each sentence, under the CRF if there is one; without, the best tag of each word.
    """
    vectors, maps = torch.as_tensor(vectors), _stacked_maps(heads)
    best = np.empty((len(heads), len(vectors)), np.uint16)

    def scores(rows: np.ndarray) -> Tensor:  # (n, M, C)
        return _scores(maps, vectors[torch.from_numpy(rows)].float())

    def split(rows: np.ndarray) -> list[np.ndarray]:
        return np.split(rows, range(SCORED_WORDS, len(rows), SCORED_WORDS))

    def tag_words(rows: np.ndarray) -> None:
        best[:, rows] = scores(rows).argmax(-1).T.numpy()

    def tag_sentences(starts: np.ndarray, sentences: np.ndarray) -> None:
        rows, bounds = sentence_rows(starts, sentences)
        every = torch.cat([scores(part) for part in split(rows)])
        for own, head, found in zip(best, heads, every.unbind(1), strict=True):
            assert isinstance(head, TaggingHead)
            own[rows] = head.decoder.best(found.numpy(), np.diff(bounds))

    if starts is None:
        in_parallel(tag_words, split(np.arange(len(vectors))))
    else:
        in_parallel(partial(tag_sentences, starts), length_blocks(np.diff(starts), DECODED_WORDS))
    return best


def _stacked_maps(heads: Sequence[Head]) -> list[tuple[Tensor, Tensor]]:
    """Weights (M, out, in) and biases (M, out) of each affine map of the bodies."""
    bodies = [head.body for head in heads]
    own = [body.maps() for body in bodies if isinstance(body, PerWord)]
    assert len(own) == len(heads), "only bodies of affine maps score words together"
    return [
        (torch.stack([layer.weight for layer in layers]), torch.stack([layer.bias for layer in layers]))
        for layers in zip(*own, strict=True)
    ]


def _scores(maps: Sequence[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    """(n, M, C) of the affine maps, ReLU between them."""
    (weight, bias), *others = maps
    found = torch.addmm(bias.flatten(), x, weight.flatten(0, 1).T).view(len(x), *bias.shape)
    for weight, bias in others:
        found = torch.baddbmm(bias.unsqueeze(1), found.relu_().transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1)
    return found


def linear_head(weight: np.ndarray, bias: np.ndarray, labels: Sequence[str]) -> Head:
    """A linear head without a CRF that is solved already: weight (C, d), bias (C,)."""
    head = make_head("linear", SequenceOptions(standardise=False, crf=False), ((1, weight.shape[1]),), labels)
    assert isinstance(head.body, PerWord)
    head.body.fill(weight, bias)
    return head


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The work on each item, in threads: two cores gain more from two small items than from halves of one."""
    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    each = torch.inference_mode()(work)
    if workers <= 1:
        return [each(item) for item in items]
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            return list(pool.map(each, items))
    finally:
        torch.set_num_threads(threads)
