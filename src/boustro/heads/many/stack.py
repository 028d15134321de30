"""Many trained heads of one kind in one stack, which tags words in one pass over their vectors.

M heads, N words, d width of a vector, C tags; n words of a block.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from boustro.heads.bodies import PerWord, linear, mlp
from boustro.heads.crf.decode import best_path, best_valid, make_chain
from boustro.heads.crf.tags import valid_transitions
from boustro.heads.many.losses import CRF_NAMES
from boustro.heads.options import HiddenOptions
from boustro.heads.rows import length_blocks, sentence_rows

SCORED_WORDS, DECODED_WORDS = 2048, 8192
"""Words scored at once, so that scores fit the cache; decoded at once, so that a time step has many sentences."""
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StackedHeads:
    """M trained heads of one kind over the same tags; `parameters` maps the names in a `TaggingHead` to (M, ...)."""

    kind: str
    labels: tuple[str, ...]
    parameters: dict[str, Tensor]

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __getitem__(self, head: int) -> "StackedHeads":
        """One of them, as a stack of one."""
        own = {name: stack[head : head + 1] for name, stack in self.parameters.items()}
        return StackedHeads(self.kind, self.labels, own)

    def best_tags(self, vectors: np.ndarray | Tensor, starts: np.ndarray | None = None) -> np.ndarray:
        """(M, N) uint16: the tags of N words by each head, in one pass over vectors (N, d).

        With `starts` (sentences + 1,) the best valid sequence of each sentence, under the CRF if there is one;
        without, the best tag of each word.
        """
        vectors = torch.as_tensor(vectors)
        best = np.empty((len(self), len(vectors)), np.uint16)

        def scores(rows: np.ndarray) -> Tensor:  # (n, M, C)
            return _scores(self.parameters, vectors[torch.from_numpy(rows)].float())

        def tag_words(rows: np.ndarray) -> None:
            best[:, rows] = scores(rows).argmax(-1).T.numpy()

        def tag_sentences(sentences: np.ndarray) -> None:
            rows, bounds = sentence_rows(starts, sentences)  # type: ignore[arg-type]
            parts = [scores(part) for part in split(rows)]
            best[:, rows] = self._decode(torch.cat(parts), torch.from_numpy(np.diff(bounds)))

        def split(rows: np.ndarray) -> list[np.ndarray]:
            return np.split(rows, range(SCORED_WORDS, len(rows), SCORED_WORDS))

        if starts is None:
            in_parallel(tag_words, split(np.arange(len(vectors))))
        else:
            in_parallel(tag_sentences, length_blocks(np.diff(starts), DECODED_WORDS))
        return best

    def _decode(self, scores: Tensor, lengths: Tensor) -> np.ndarray:
        """(M, n) from scores (n, M, C)."""
        words, sizes = (own.numpy() for own in scores.unbind(1)), lengths.numpy()
        if CRF_NAMES[0] not in self.parameters:
            return np.stack([best_valid(own, sizes, self.labels) for own in words])
        valid = valid_transitions(self.labels)
        chains = zip(*(self.parameters[name].numpy() for name in CRF_NAMES), strict=True)
        pairs = zip(words, chains, strict=True)
        return np.stack([best_path(own.astype(np.float64), sizes, make_chain(valid, *chain)) for own, chain in pairs])


def _scores(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """(n, M, C) of the affine maps that the parameters of the bodies are, ReLU between them."""
    names = [name.removesuffix(".weight") for name in parameters if name.startswith("body.") and "weight" in name]
    (weight, bias), *others = [(parameters[f"{name}.weight"], parameters[f"{name}.bias"]) for name in names]
    found = torch.addmm(bias.flatten(), x, weight.flatten(0, 1).T).view(len(x), *bias.shape)
    for weight, bias in others:
        found = torch.baddbmm(bias.unsqueeze(1), found.relu_().transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1)
    return found


SPELLED_OUT: dict[str, Callable[[int, int, HiddenOptions], PerWord]] = {"linear": linear, "mlp": mlp}
"""The bodies whose passes are written out (`many.passes`)."""


def stack_linear(weights: np.ndarray, biases: np.ndarray, labels: Sequence[str]) -> StackedHeads:
    """Linear heads that are solved already: weights (M, C, d), biases (M, C)."""
    (name,) = linear(1, 1, HiddenOptions()).maps()
    stack = {f"{name}.weight": torch.from_numpy(weights), f"{name}.bias": torch.from_numpy(biases)}
    return StackedHeads("linear", tuple(labels), stack)


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
