"""What all ways of adapting an LM share: the LM without its mask, the adapter's training.

The LM is frozen, without dropout of its own; only the adapter is trained, saved in checkpoints and written. With no
steps the folder has the adapter's initial weights, which change nothing: the LM with its mask removed, `unmasked:OUT`.
`adapt_text` trains on running text, `adapt_labels` on labelled sentences.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from boustro.encoders.adapted import facts_of
from boustro.encoders.lm import LMEncoder, UnmaskedEncoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import Spec
from boustro.models.lora import KIND, MASK_KEPT, Adaptation, LoraShape, LoraWeights, add_lora, save_adaptation
from boustro.pretrain.batches import Batches
from boustro.pretrain.checkpoints import finished_run
from boustro.pretrain.config import run_facts
from boustro.pretrain.distributed import say
from boustro.roads.options import AdaptConfig
from boustro.roads.training import finish, train
from boustro.text.segments import Example

ALPHA = 32.0
"""LoRA's scale: the change to a matrix is multiplied by alpha / rank."""


class TextObjective(NamedTuple):
    """What is learned from segments of running text."""

    make: Callable[[list[Example]], dict[str, Tensor]]
    """Segments → the batch of a step."""
    loss_of: Callable[..., Tensor]
    """A batch's tensors → the mean loss."""
    facts: dict[str, Any]
    """What training.json says of it."""
    perplexity: bool
    """Whether the loss has one."""


def open_lm(config: AdaptConfig, **options: Any) -> tuple[LMEncoder, Adaptation]:
    """The LM of `config`, without its mask in the chosen blocks, and what the folder says; `ValueError` if unfit."""
    (part, *others) = Spec.parse(config.lm).parts
    if others or part.prefix not in ("", "backward:"):
        raise ValueError(f"{config.lm}: only a single causal LM can be adapted; choose its blocks with --blocks")
    reading = ReadingOptions(**{"layers": "last", "pooling": "exit", "context": "sentence", **options})
    reading = replace(reading, start_piece=config.start_piece)
    given = {"spec": config.lm, "revision": part.revision, "direction": "backward" if part.prefix else None}
    if config.blocks == MASK_KEPT:
        encoder = LMEncoder(part.place, reading, **given)
    else:
        encoder = UnmaskedEncoder(
            part.place, reading, blocks=None if config.blocks == "all" else config.blocks, **given
        )
    facts = facts_of(encoder, part.exact(encoder.weights()).removeprefix(part.prefix))
    return encoder, replace(facts, start_piece=config.start_piece)


def train_adapter(
    config: AdaptConfig,
    base: Adaptation,
    model: nn.Module,
    head: nn.Module | None,
    loss_of: Callable[..., Tensor],
    batches: Batches,
    held_out: Iterable[tuple[dict[str, Any], float]] | None,
    *,
    facts: dict[str, Any],
    describe: Callable[[], dict[str, Any]],
    step_size: int,
    perplexity: bool = True,
) -> dict[str, Any]:
    """Train an adapter, and `head`, on a transformer without its own head, which is changed in place; write the folder.

    Returns what `training.json` says; `describe`, called after the training, adds to it. `facts` decide the weights,
    besides the options that both ways share; the rest is as in `roads.training.train`. Raises `ValueError` for an
    adapter that does not fit and `ImportError` without peft, before anything is computed.
    """
    torch.manual_seed(config.seed)
    shape = LoraShape(rank=config.rank, alpha=ALPHA, dropout=config.dropout)
    adapted = add_lora(model, shape)
    weights = LoraWeights(adapted, head).to(next(model.parameters()).device)
    facts = run_facts(config, (), **asdict(base), **asdict(shape), **facts)
    if finished := finished_run(config, KIND, facts):
        return finished
    num_parameters = sum(p.numel() for p in weights.parameters())
    what = f"{base.base}, mask removed in blocks {base.blocks}: {num_parameters / 1e6:.2f}M parameters"
    say(f"{what} trained in {len(batches):,} steps")
    result = train(config, facts, weights, loss_of, batches, held_out, step_size=step_size, perplexity=perplexity)
    result |= {"num_parameters": num_parameters, **describe()}
    return finish(config, KIND, result, lambda folder: save_adaptation(folder, adapted, base))
