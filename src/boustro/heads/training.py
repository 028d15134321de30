"""Train a head on features: AdamW, linear decay, and the epoch that is best on the development set.

A batch is a number of examples, their words end to end (`heads.inputs`), so nothing is padded. The mix of layers
converges within a few epochs; it is then frozen and applied once to all words, so that the remaining epochs read one
vector per word instead of L per stream.

Source: backward-LM paper, section 3.2. The epoch is chosen by a score that the caller gives (entity F1), as the paper
says and its published code does not.

The steps are those of PyTorch's fused kernel: `torch.optim` is not used, as for a small head its bookkeeping takes
longer than the kernel, and its first step imports a compiler, which takes two seconds. Source: Loshchilov and Hutter
2019.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.hardware import forced_bf16, mixed_precision, uses_bf16
from boustro.heads.base import Head, LayerConcat
from boustro.heads.inputs import Batch, HeadInputs, Kinship, NamedLabels, Streams, Targets, length_blocks
from boustro.heads.options import FEW_EXAMPLES, TrainedOptions
from boustro.progress import Progress

WEIGHT_DECAY = 0.01  # the default of torch.optim.AdamW, which one head at a time is trained with
# the other defaults of torch.optim.AdamW
FIXED = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False}


def adamw_step(tensors: Sequence[list[Tensor]], done: Tensor, lr: float, weight_decay: float = WEIGHT_DECAY) -> None:
    """Change parameters in place.

    Args:
        tensors: The parameters, their gradients, and the running means of these and of their squares, 0 at first.
        done: How many steps there were with this one, on the parameters' device.
    """
    adamw: Callable[..., None] = torch._fused_adamw_  # pyright: ignore[reportPrivateImportUsage]
    adamw(*tensors, [], [done] * len(tensors[0]), lr=lr, weight_decay=weight_decay, **FIXED)


class AdamW:
    """Parameters with one peak learning rate, which decays to 0 in so many steps."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, steps: int, weight_decay: float = WEIGHT_DECAY) -> None:
        self._kept = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
        self._lr, self._steps, self._weight_decay = lr, steps, weight_decay
        self._taken, self._done = 0, torch.zeros((), device=self._kept[0][0].device if self._kept else None)

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient, and forget it."""
        lr = self._lr * max(0.0, 1 - self._taken / self._steps)
        self._taken += 1
        self._done += 1
        if moved := [(p, p.grad, *moments) for p, *moments in self._kept if p.grad is not None]:
            adamw_step([*map(list, zip(*moved, strict=True))], self._done, lr, self._weight_decay)
        for p, *_ in self._kept:
            p.grad = None


BLOCK_WORDS = 8192  # words that are scored at once: bounds the float32 copy of their vectors
BLOCK_EXAMPLES = 256
MIX_WORDS = 256  # so many words with all layers fit a CPU's caches
KEPT_BYTES = 31 << 20
"""A block of just below 32 MiB, allocated and freed: glibc keeps freed blocks up to that size for later ones from then
on, so that a step, which allocates some megabytes, does not ask the system for new pages each time."""
MIX_LR = 10.0
"""The learning rate of the mix of layers, as a multiple of the others'."""
Groups = Sequence[tuple[np.ndarray, float]]


@dataclass(slots=True)
class TrainLog:
    """The loss and the dev score of every epoch, which epoch was kept (from 1), and the examples of a step."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0
    batch_sentences: int = 0


@dataclass(frozen=True, slots=True)
class Dev:
    """The development set, and the function that scores the head's predictions for it."""

    inputs: HeadInputs
    score: Callable[[list[Any]], float]


def train_head(
    head: Head,
    inputs: HeadInputs,
    targets: Targets,
    seed: int,
    dev: Dev | None = None,
    device: torch.device | None = None,
    groups: Groups | None = None,
    started: bool = False,
    bf16: bool | None = None,
    kin: Callable[[], Kinship] | None = None,
    named: NamedLabels | None = None,
    different: int | None = None,
) -> TrainLog:
    """Train `head` in place, as its options say.

    Args:
        inputs: The examples.
        targets: Returns the targets of a batch, given the numbers of its examples and the rows of their words.
        dev: The epoch with the best score there is kept; without it, the last one.
        groups: Numbers of examples, and how much their loss counts; a batch is of one group. By default all are one.
        started: Go on from the weights and the standardisation that the head has.
        bf16: Compute the products of the loss and of its gradient in bf16, if the head is made for it; by default as
            `learns_in_bf16`. Predictions are computed in the precision of the weights.
        kin: Gives which examples belong together, for a head with a closed form, which leaves some out to choose by; by
            default each is by itself.
        named: What the labels are called, for a head that `takes_names`.
        different: How many examples are no copies; by default all.

    Raises `ValueError` if the loss becomes NaN or infinite.
    """
    device = device or torch.device("cpu")
    if not started:
        head.mixes.fit(inputs.streams, inputs.rows)
    head.to(device)
    if not started:
        head.begin(inputs, lambda: mix_all(head, inputs.streams))
    if head.closed_form:
        return _solve(head, inputs, targets, dev, kin and kin(), named)
    words = _Words(head, inputs, dev, device)
    torch.empty(KEPT_BYTES, dtype=torch.uint8)
    options = head.options
    assert isinstance(options, TrainedOptions), f"a {head.kind} head says nothing about its training"
    groups, batch_sentences = groups or [(np.arange(len(inputs)), 1.0)], options.batch(len(inputs))
    epochs, mix_epochs = options.passes(len(inputs)), options.mix_passes(len(inputs), different)
    steps = epochs * sum(-(-len(numbers) // batch_sentences) for numbers, _ in groups)
    optimizers = _make_optimizers(head, options, steps)
    generator = np.random.default_rng(seed)
    log, best, best_state = TrainLog(batch_sentences=batch_sentences), -float("inf"), copy.deepcopy(head.state_dict())
    learns_mix = any(mix.learned for mix in head.mixes)
    fast = head.mixed_precision and learns_in_bf16(device, len(inputs) if different is None else different, bf16)
    precision = mixed_precision(device, fast)
    num_words = int(inputs.starts[-1])  # of one version, where features have several (`heads.inputs`)
    progress = Progress("training", "steps", total=steps)
    for epoch in range(1, epochs + 1):
        if epoch > mix_epochs or not learns_mix:
            words.freeze()
        head.train()
        total = torch.zeros((), device=device)
        for examples, weight in _batches(groups, batch_sentences, generator):
            batch = inputs.batch(examples)
            with precision:
                loss = head.loss(words.of(batch), batch.lengths, targets(examples, batch.rows.to(device) % num_words))
            loss = loss if weight == 1 else loss * weight
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            progress.update()
            total += loss.detach() * len(batch.rows)
        log.losses.append(total.item() / max(1, int(inputs.sizes.sum())))
        if not np.isfinite(log.losses[-1]):
            raise ValueError(f"the loss is {log.losses[-1]} in epoch {epoch}; try a lower --lr")
        if dev:
            log.scores.append(dev.score(predict_mixed(head, words.of_dev(), dev.inputs)))
            progress.update(0, f"loss {log.losses[-1]:.3f}, dev {log.scores[-1]:.2f}")
        if not dev or log.scores[-1] > best:
            best = log.scores[-1] if dev else best
            log.best_epoch, best_state = epoch, copy.deepcopy(head.state_dict())
    progress.close()
    head.load_state_dict(best_state)
    head.requires_grad_(True)
    return log


def learns_in_bf16(device: torch.device, num_examples: int, chosen: bool | None = None) -> bool:
    """Return whether a head learns so many examples in bf16: as chosen, else as `hardware.uses_bf16`, but few
    (`options.FEW_EXAMPLES`) on a CPU only where $BOUSTRO_BF16 says so."""
    if chosen is not None:
        return chosen
    few = device.type == "cpu" and num_examples < FEW_EXAMPLES and forced_bf16() is None
    return not few and uses_bf16(device)


def _solve(
    head: Any, inputs: HeadInputs, targets: Targets, dev: Dev | None, kin: Kinship | None, named: NamedLabels | None
) -> TrainLog:
    """Train a head that has a closed form, in one epoch."""
    mixed, numbers = mix_all(head, inputs.streams), np.arange(len(inputs))
    with torch.no_grad():
        whole = inputs.batch(numbers)
        rows = whole.rows.to(mixed.device) % int(inputs.starts[-1])
        names = {}
        if named is not None:
            names["named"] = pool_all(head, named.inputs), named.labels
            names["unlabelled"] = None if named.unlabelled is None else pool_all(head, named.unlabelled)
        head.solve(pool_all(head, inputs, mixed), targets(numbers, rows), whole.lengths, kin, **names)
    scores = [dev.score(predict_mixed(head, mix_all(head, dev.inputs.streams), dev.inputs))] if dev else []
    return TrainLog([0.0], scores, 1, len(inputs))


def pool_all(head: Any, inputs: HeadInputs, mixed: Tensor | None = None) -> Tensor:
    """Pool all examples for a head with a closed form; `mixed` are its words, if they are mixed already."""
    mixed = mix_all(head, inputs.streams) if mixed is None else mixed
    batches = (
        inputs.batch(np.arange(start, min(start + BLOCK_EXAMPLES, len(inputs))))
        for start in range(0, len(inputs), BLOCK_EXAMPLES)
    )
    return torch.cat([head.pool(batch.to_words(mixed), batch.lengths) for batch in batches])


class _Words:
    """The vectors of words while a head learns: mixed batch by batch until the mixes are frozen, then once for all.

    A stream whose mix learns nothing is mixed once at the start."""

    def __init__(self, head: Head, inputs: HeadInputs, dev: Dev | None, device: torch.device) -> None:
        self.head, self.inputs, self.dev = head, inputs, dev
        self.mixed: Tensor | None = None
        self.dev_mixed: Tensor | None = None
        if not any(mix.learned for mix in head.mixes):
            self.freeze()
            return
        # on a CPU the memory-mapped features, elsewhere a copy
        streams = zip(head.mixes, inputs.streams, strict=True)
        self.held = [
            torch.from_numpy(stream if device.type == "cpu" else np.array(stream)).to(device)
            if mix.learned
            else _mix([mix], [stream], device)
            for mix, stream in streams
        ]

    def freeze(self) -> None:
        """Let the mixes learn no more."""
        if self.mixed is None:
            self.head.mixes.requires_grad_(False)
            self.mixed = mix_all(self.head, self.inputs.streams)
            self.dev_mixed = mix_all(self.head, self.dev.inputs.streams) if self.dev else None

    def of(self, batch: Batch) -> Tensor:
        """Return the words of a training batch, (N, d + F)."""
        if self.mixed is not None:
            return batch.to_words(self.mixed)
        rows = batch.rows.to(self.held[0].device)
        some = zip(self.head.mixes, (held.index_select(0, rows) for held in self.held), strict=True)
        mixed = (mix(part) if mix.learned else part for mix, part in some)
        return batch.beside(torch.cat([vectors.float() for vectors in mixed], dim=-1))

    def of_dev(self) -> Tensor:
        """Return the words of the development set, (words, d)."""
        assert self.dev is not None
        return mix_all(self.head, self.dev.inputs.streams) if self.dev_mixed is None else self.dev_mixed


def _make_optimizers(head: Head, options: TrainedOptions, steps: int) -> list[AdamW]:
    """The mixes have their own learning rate and no weight decay."""
    others = [parameter for name, parameter in head.named_parameters() if not name.startswith("mixes.")]
    mixes = AdamW(head.mixes.parameters(), options.lr * MIX_LR, steps, weight_decay=0.0)
    return [AdamW(others, options.lr, steps), mixes]


def mix_all(head: Head, streams: Streams) -> Tensor:
    """Return (words, d) float16: the mixed vectors of all words, on the head's device."""
    return _mix(list(head.mixes), streams, next(head.parameters()).device)


@torch.no_grad()
def _mix(mixes: Sequence[LayerConcat], streams: Streams, device: torch.device) -> Tensor:
    result = torch.empty(len(streams[0]), sum(mix.width for mix in mixes), dtype=torch.float16, device=device)
    for start in range(0, len(result), MIX_WORDS):
        some = slice(start, start + MIX_WORDS)
        mixed = [
            mix(torch.from_numpy(np.array(stream[some])).to(device)) for mix, stream in zip(mixes, streams, strict=True)
        ]
        result[some] = torch.cat(mixed, 1)
    return result


@torch.inference_mode()
def predict_mixed(head: Head, mixed: Tensor, inputs: HeadInputs, candidates: bool = False) -> list[Any]:
    """Return the head's prediction for every example, from mixed vectors (words, d); examples are batched by length.

    With `candidates`, what the head is calibrated on instead.
    """
    head.eval()
    read = head.candidates if candidates else head.predict
    answers: dict[int, Any] = {}
    for examples in length_blocks(inputs.sizes, BLOCK_WORDS):
        batch = inputs.batch(examples)
        outputs = read(batch.to_words(mixed), batch.lengths)
        answers.update(zip(examples.tolist(), outputs, strict=True))
    return [answers[example] for example in range(len(inputs))]


def predict_inputs(head: Head, inputs: HeadInputs, candidates: bool = False) -> list[Any]:
    """Predict from features, as `predict_mixed` does from mixed vectors."""
    return predict_mixed(head, mix_all(head, inputs.streams), inputs, candidates)


def _batches(
    groups: Groups, batch_sentences: int, generator: "np.random.Generator"
) -> Iterator[tuple[np.ndarray, float]]:
    """So many example numbers of one group at a time with the group's weight, in a new random order."""
    batches = []
    for numbers, weight in groups:
        order = generator.permutation(numbers)
        batches += [(order[i : i + batch_sentences], weight) for i in range(0, len(order), batch_sentences)]
    places = generator.permutation(len(batches)) if len(groups) > 1 else range(len(batches))
    yield from (batches[place] for place in places)
