"""A causal LM with its loss, as one module: piece ids and targets in, mean cross-entropy out.

In a small model the head dominates: its logits are (pieces x vocabulary). They are computed in chunks of rows, each
with its loss and gradients at once, so that a chunk stays in the processor's cache and all logits are never in memory
together. Some architectures change the logits after the head (`FINISHES`):

    Gemma 2   30 · tanh(logits / 30)        Granite   logits / 8        Cohere   logits · 0.0625

Which one a model uses is found by a trial: two pieces go through the whole model (`find_finish`).

A loss whose cost does not grow with the vocabulary: the softmax over a sample of the pieces.

The sum over all pieces in the softmax is estimated from the batch's own pieces, which are certain, and from pieces that
are drawn independently, each with its probability π (Horvitz and Thompson 1952):

    Z = Σ exp(s)  over the batch's own pieces  +  Σ exp(s) / π  over the other pieces that were drawn

so a drawn piece's logit is s - ln π, "logQ correction". The estimate of Z has no bias for any π above 0, and where all
pieces are drawn (π = 1) the loss is the plain one. Frequent pieces are drawn more often: π grows with count^0.75.

Sources: Bengio and Senécal 2003 (importance sampling); Jean et al. 2015, section 3; the power is word2vec's.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel

Finish = Callable[[Tensor], Tensor]


class LMWithLoss(nn.Module):
    """Wraps a transformers causal LM; `forward` returns {"loss": mean over targets that are not -100}.

    Raises `ValueError` for a model whose logits are not its head's output, or a known function of it.
    """

    def __init__(self, lm: PreTrainedModel) -> None:
        super().__init__()
        self.lm, self.finish = lm, find_finish(lm)

    def forward(self, input_ids: Int[Tensor, "B T"], targets: Int[Tensor, "B T"]) -> dict[str, Float[Tensor, ""]]:
        states = self.lm.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
        return {"loss": self.loss(states, targets)}

    def loss(self, states: Float[Tensor, "B T D"], targets: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        """Return the mean loss of the last states."""
        head = self.lm.get_output_embeddings()
        assert head is not None, "a causal LM has a head"
        return lm_loss(states, head, targets, finish=self.finish)


def lm_loss(
    states: Float[Tensor, "B T D"],
    head: nn.Module,
    targets: Int[Tensor, "B T"],
    chunk_rows: int | None = None,
    finish: Finish | None = None,
    num_targets: Float[Tensor, ""] | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy of `finish(head(states))` against `targets`, `chunk_rows` rows of logits at a time.

    By default as many rows as suit the device. Only the states and the head's own parameters get gradients. The sum is
    divided by `num_targets`, by default the number of targets here that are not -100.
    """
    rows, wanted = states.flatten(0, 1), targets.flatten()

    def logits_of(part: Tensor) -> Tensor:
        logits = head(part).float()
        return logits if finish is None else finish(logits)

    total = summed_loss(rows, logits_of, head.parameters(), wanted, chunk_rows)
    return total / ((wanted != -100).sum().clamp_min(1) if num_targets is None else num_targets)


def best_chunk_rows(device: torch.device) -> int:
    """512 rows of logits at a time on a CPU, whose cache they should fit, and 4,096 elsewhere."""
    return 512 if device.type == "cpu" else 4096


@torch.compiler.disable()  # the compiler would unroll the chunks
def summed_loss(
    rows: Float[Tensor, "N D"],
    logits_of: Callable[[Tensor], Tensor],
    parameters: Iterable[Tensor],
    targets: Int[Tensor, " N"],
    chunk_rows: int | None = None,
) -> Float[Tensor, ""]:
    """Sum of the cross-entropies; `parameters` are what `logits_of` reads and what gets gradients besides the rows."""
    known = targets != -100
    if not bool(known.all()):
        rows, targets = rows[known], targets[known]
    chunk_rows = chunk_rows or best_chunk_rows(rows.device)
    if torch.is_grad_enabled():
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        return _SummedLoss.apply(logits_of, chunk_rows, targets, rows, *trained)
    chunks = zip(rows.split(chunk_rows), targets.split(chunk_rows), strict=True)
    losses = [F.cross_entropy(logits_of(x), y, reduction="sum") for x, y in chunks]
    return torch.stack(losses).sum()


class _SummedLoss(torch.autograd.Function):
    """The loss and its gradients in one pass: a chunk's probabilities become its gradient while they are in memory.

    Autograd would keep the logits of all chunks until the backward pass, and read them three more times.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits_of: Callable[[Tensor], Tensor],
        chunk_rows: int,
        targets: Int[Tensor, " N"],
        rows: Float[Tensor, "N D"],
        *parameters: Tensor,
    ) -> Float[Tensor, ""]:
        total = rows.new_zeros((), dtype=torch.float32)
        by_row, by_parameter = torch.empty_like(rows), [torch.zeros_like(p) for p in parameters]
        for start in range(0, len(rows), chunk_rows):
            part = rows[start : start + chunk_rows].detach().requires_grad_()
            target = targets[start : start + chunk_rows, None]
            with torch.enable_grad():
                logits = logits_of(part)
            errors = logits.detach().softmax(-1)
            log_sums = logits.detach().amax(-1, keepdim=True) - errors.amax(-1, keepdim=True).log()
            total += (log_sums - logits.detach().gather(1, target)).sum()
            errors.scatter_add_(1, target, errors.new_full(target.shape, -1.0))
            gradients = torch.autograd.grad(logits, (part, *parameters), errors)
            by_row[start : start + chunk_rows] = gradients[0]
            for summed, added in zip(by_parameter, gradients[1:], strict=True):
                summed += added
        ctx.save_for_backward(by_row, *by_parameter)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        return None, None, None, *(stored * gradient.to(stored.dtype) for stored in ctx.saved_tensors)


FINISHES: dict[str, Callable[[float], Finish]] = {
    "final_logit_softcapping": lambda most: lambda logits: most * torch.tanh(logits / most),
    "logits_scaling": lambda by: lambda logits: logits / by,
    "logit_scale": lambda by: lambda logits: logits * by,
}
"""What the value of a config's attribute does to the logits: Gemma 2 and 3, Granite, Cohere."""


def find_finish(lm: PreTrainedModel) -> Finish | None:
    """Find the function that a model applies to its head's output, `None` for none.

    While two pieces go through the model, the head's output is replaced by a ramp from -100 to 100, so that the result
    does not depend on the weights: the logits of a new model are too small to show a cap. Raises `ValueError` if no
    known function gives the result, or if the head's input is not the last states.
    """
    config, head = lm.config.get_text_config(), lm.get_output_embeddings()
    pieces = torch.arange(2, device=lm.device)[None] % config.vocab_size
    read: list[Tensor] = []
    ramp = torch.linspace(-100, 100, config.vocab_size, device=lm.device)

    def output_ramp(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        read.append(inputs[0])
        return ramp.to(output.dtype).expand_as(output) if output.shape[-1:] == ramp.shape else output

    if head is None:
        raise _unknown(lm)
    training, hook = lm.training, head.register_forward_hook(output_ramp)
    lm.eval()
    try:
        with torch.no_grad():
            logits = lm(input_ids=pieces, use_cache=False).logits
            states = lm.base_model(input_ids=pieces, use_cache=False).last_hidden_state
    except (TypeError, AttributeError) as error:
        raise _unknown(lm) from error
    finally:
        hook.remove()
        lm.train(training)
    close = 32 * torch.finfo(logits.dtype).eps  # the head reads the same states, up to a few roundings of its own type
    if len(read) != 1 or read[0].shape != states.shape or not torch.allclose(read[0], states, rtol=close, atol=close):
        raise _unknown(lm)
    values = {name: getattr(config, name, None) for name in FINISHES}
    named = [FINISHES[name](float(value)) for name, value in values.items() if value is not None]
    for finish in (None, *named):
        finished = ramp if finish is None else finish(ramp)
        if logits.shape[-1:] == ramp.shape and torch.allclose(logits.float(), finished, rtol=close, atol=100 * close):
            return finish
    raise _unknown(lm)


def _unknown(lm: PreTrainedModel) -> ValueError:
    return ValueError(
        f"{type(lm).__name__} changes its logits in an unknown way, so its loss cannot be computed in chunks; known "
        f"are a plain head and {', '.join(FINISHES)}. Choose another architecture"
    )


POWER = 0.75  # of the frequency, as word2vec draws: rare pieces are drawn more often than they occur
LOGIT_ROWS, TILE = 4096, 1024  # logits at a time, which should fit the processor's cache
VectorsOf = Callable[[Int[Tensor, " C"]], Float[Tensor, "C d"]]
"""Piece ids → the head's rows."""


def inclusion(counts: np.ndarray, num_drawn: int) -> Float[Tensor, " V"]:
    """Return the probability with which each piece is drawn, so that about `num_drawn` are; all 1 where there are
    fewer.

    A piece that was counted c times has weight (c + 1)^0.75, so every piece can be drawn.

        counts [15, 0, 0], 2 drawn   →   weights 8, 1, 1   →   [1, 0.5, 0.5]
    """
    weights = (np.asarray(counts, np.float64) + 1) ** POWER
    if num_drawn >= len(weights):
        return torch.ones(len(weights))
    low, high = 0.0, num_drawn / weights.min()
    for _ in range(100):  # the factor with which the probabilities add up to `num_drawn`
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * weights, 1).sum() < num_drawn else (low, middle)
    return torch.from_numpy(np.minimum(high * weights, 1)).float()


class SampledLMWithLoss(LMWithLoss):
    """An `LMWithLoss` whose softmax is over a sample of the pieces in training, and over all in evaluation."""

    probabilities: Tensor

    def __init__(self, lm: PreTrainedModel, probabilities: Float[Tensor, " V"]) -> None:
        super().__init__(lm)
        self.register_buffer("probabilities", probabilities, persistent=False)

    def loss(self, states: Float[Tensor, "B T d"], targets: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        vectors_of = self.lm.get_input_embeddings()  # the head is tied to them
        if self.training:
            return sampled_loss(states, vectors_of, targets, self.probabilities, self.finish)
        return exact_loss(states, vectors_of, targets, len(self.probabilities), self.finish)


@torch.compiler.disable()  # the number of pieces differs from batch to batch
def sampled_loss(
    states: Float[Tensor, "B T d"],
    vectors_of: VectorsOf,
    targets: Int[Tensor, "B T"],
    probabilities: Float[Tensor, " V"],
    finish: Finish | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy over a sample, drawn by torch's generator."""
    rows, wanted = states.flatten(0, 1), targets.flatten()
    is_target = torch.zeros_like(probabilities, dtype=torch.bool)
    is_target[wanted[wanted != -100]] = True
    chosen = is_target | (torch.rand_like(probabilities) < probabilities)
    pieces = chosen.nonzero()[:, 0]
    correction = torch.where(is_target, 0, -probabilities.log())[pieces]
    places = torch.where(wanted == -100, -100, (chosen.cumsum(0) - 1)[wanted.clamp_min(0)])
    vectors = vectors_of(pieces)

    def logits_of(part: Tensor) -> Tensor:
        logits = F.linear(part, vectors).float()
        return (logits if finish is None else finish(logits)) + correction

    return summed_loss(rows, logits_of, (vectors,), places) / (wanted != -100).sum().clamp_min(1)


@torch.compiler.disable()  # the compiler would unroll the tiles, and keep the logits of all
@torch.no_grad()
def exact_loss(
    states: Float[Tensor, "B T d"],
    vectors_of: VectorsOf,
    targets: Int[Tensor, "B T"],
    num_pieces: int,
    finish: Finish | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy over all pieces, `TILE` of them at a time, so that a tile's logits stay in the cache."""
    known = targets != -100
    total = states.new_zeros((), dtype=torch.float32)
    for rows, wanted in zip(states[known].split(LOGIT_ROWS), targets[known].split(LOGIT_ROWS), strict=True):
        log_sum, right = (rows.new_full((len(rows),), start, dtype=torch.float32) for start in (-torch.inf, 0.0))
        for pieces in torch.arange(num_pieces, device=rows.device).split(TILE):
            logits = F.linear(rows, vectors_of(pieces)).float()
            logits = logits if finish is None else finish(logits)
            torch.logaddexp(log_sum, logits.logsumexp(-1), out=log_sum)  # nothing small is kept between large tensors
            here = (wanted >= pieces[0]) & (wanted <= pieces[-1])
            right[here] = logits[here, wanted[here] - pieces[0]]
        total += (log_sum - right).sum()
    return total / known.sum()
