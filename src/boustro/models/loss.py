"""A causal LM with its loss, as one module: piece ids and targets in, mean cross-entropy out.

In a small model the head dominates: its logits are (pieces x vocabulary). They are computed in chunks of rows, each
with its loss and gradients at once, so that a chunk stays in the processor's cache and all logits are never in memory
together. Some architectures change the logits after the head (`FINISHES`):

    Gemma 2   30 · tanh(logits / 30)        Granite   logits / 8        Cohere   logits · 0.0625

Which one a model uses is found by a trial: two pieces go through the whole model (`find_finish`).
"""

from collections.abc import Callable, Iterable
from typing import Any

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
        """The mean loss of the last states."""
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
            for own, added in zip(by_parameter, gradients[1:], strict=True):
                own += added
        ctx.save_for_backward(by_row, *by_parameter)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        return None, None, None, *(own * gradient.to(own.dtype) for own in ctx.saved_tensors)


FINISHES: dict[str, Callable[[float], Finish]] = {
    "final_logit_softcapping": lambda most: lambda logits: most * torch.tanh(logits / most),
    "logits_scaling": lambda by: lambda logits: logits / by,
    "logit_scale": lambda by: lambda logits: logits * by,
}
"""What the value of a config's attribute does to the logits: Gemma 2 and 3, Granite, Cohere."""


def find_finish(lm: PreTrainedModel) -> Finish | None:
    """What a model does to its head's output, None for nothing.

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
    close = 32 * torch.finfo(logits.dtype).eps
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
