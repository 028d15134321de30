"""Which jobs of `heads.solve` may be trained at once, and the mixed words of all of them, end to end.

    head 0: sentences a b      head 1: sentences c d e      words   a b c d e     sentences of head 1: 2 3 4

Each head's layers are standardised by the words that it learns from, and mixed, as `heads.training` does; runs that
learn from the same examples share their words.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.inputs import HeadInputs, sentence_rows, sentence_starts
from boustro.heads.lockstep.batches import Member, TrainingWords
from boustro.heads.lockstep.train import takes_steps_with_others, train_together
from boustro.heads.options import TrainedOptions
from boustro.heads.training import mix_all

if TYPE_CHECKING:
    from boustro.heads.solve import TrainingJob


class Begun(NamedTuple):
    """An untrained head, the tags of all words, and the random numbers that follow."""

    head: Head
    tags: np.ndarray
    generator: Tensor


def begin(job: "TrainingJob") -> Begun | None:
    """Make the head of a job that takes its steps with others: nothing but steps, over sentences that are one example
    each, by fixed mixes. `None` for any other job."""
    shape, inputs, targets, run = job
    given = len(inputs) and job.num_examples
    alone = np.array_equal(inputs.parts, np.arange(len(inputs.lengths))[:, None]) and not inputs.side_width
    steps = isinstance(run.options, TrainedOptions) and run.dev is run.groups is run.head is None
    if not (given and alone and steps):
        return None
    assert isinstance(run.options, TrainedOptions)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        head = shape.make(run.options)
        after = torch.get_rng_state()
    if not takes_steps_with_others(head, run.options, job.num_different):
        return None
    tags = targets(np.arange(len(inputs)), torch.arange(int(inputs.starts[-1])))
    return Begun(head, tags.numpy(), after) if isinstance(tags, Tensor) else None


class HeadPool:
    """Heads of one shape, and the mixed words of all that they learn from, each once, end to end."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.members: list[Member] = []
        self._words: list[TrainingWords] = []
        self._latest: tuple[HeadInputs, Any] | None = None
        self._examples: np.ndarray | None = None
        self._sentences = 0

    def add(self, number: int, job: "TrainingJob", begun: Begun) -> None:
        """A head; one that learns from the examples of the one before reads the same words."""
        head, tags, generator = begun
        inputs, options, examples = job.inputs, job.run.options, job.run.examples
        assert isinstance(options, TrainedOptions)
        mixing = options.standardise, options.combine
        known = self._latest is not None and self._latest[0] is inputs and self._latest[1] == mixing
        if known and _are_equal(self._examples, examples):
            head.mixes.load_state_dict(self.members[-1].head.mixes.state_dict())
        else:
            own = inputs if examples is None else inputs.keep(examples)
            tags = tags if examples is None else tags[sentence_rows(inputs.starts, np.unique(examples))[0]]
            head.mixes.fit(own.streams)
            self._sentences += len(self._words[-1].starts) - 1 if self._words else 0
            self._words.append(TrainingWords(mix_all(head, own.streams), own.starts, tags))
            self._latest, self._examples = (inputs, mixing), examples
        count = len(self._words[-1].starts) - 1
        places = np.arange(count) if examples is None else np.searchsorted(np.unique(examples), examples)
        self.numbers.append(number)
        self.members.append(Member(head, options, places + self._sentences, job.run.seed, generator))

    def train(self) -> list[Member]:
        """Return all heads, in the order in which they came."""
        vectors, starts, tags = zip(*self._words, strict=True)
        lengths = np.concatenate([np.diff(head_starts) for head_starts in starts])
        words = TrainingWords(torch.cat(vectors), sentence_starts(lengths), np.concatenate(tags))
        train_together(self.members, words)
        return self.members


def _are_equal(some: np.ndarray | None, others: np.ndarray | None) -> bool:
    """Return whether both name the same examples; None are all."""
    if some is None or others is None:
        return some is others
    return np.array_equal(some, others)
