"""A language model with its loss, as one module: piece ids and targets in, mean cross-entropy out.

In a small model the head dominates: (pieces x vocabulary) logits. They are made in chunks of rows, whose
loss and gradients are worked out together, so that a chunk stays near the processor and all of them never
stand in memory together. Some families do
something to the logits after the head (`FINISHES`); which one a model does is not looked up but found by
trying: two pieces go through the whole model, and the finish that gives its logits is the one.

    Gemma 2   30 · tanh(logits / 30)        Granite   logits / 8        Cohere   logits · 0.0625
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PretrainedConfig, PreTrainedModel

Finish = Callable[[Tensor], Tensor]


class LMWithLoss(nn.Module):
    """Wraps a transformers causal LM; `forward` returns {"loss": mean over targets that are not -100}.

    Raises `ValueError` for a model whose logits are not its head's, finished in one of the known ways.
    """

    def __init__(self, lm: PreTrainedModel, chunk_rows: int | None = None) -> None:
        super().__init__()
        self.lm, self.chunk_rows = lm, chunk_rows
        self.finish = find_finish(lm)

    def forward(self, input_ids: Int[Tensor, "B T"], targets: Int[Tensor, "B T"]) -> dict[str, Float[Tensor, ""]]:
        states = self.lm.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
        head = self.lm.get_output_embeddings()
        assert head is not None, "a causal LM has a head"
        return {"loss": lm_loss(states, head, targets, self.chunk_rows, self.finish)}


def lm_loss(
    states: Float[Tensor, "B T D"],
    head: nn.Module,
    targets: Int[Tensor, "B T"],
    chunk_rows: int | None = None,
    finish: Finish | None = None,
    num_targets: Float[Tensor, ""] | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy of `finish(head(states))` against `targets`, `chunk_rows` rows of logits at a time.

    By default as many rows as suit the device. Gradients go to the states and to
    the head's own parameters, not to anything else that `head` may reach. `num_targets` is what to divide by in place
    of the number of targets here.
    """
    rows, wanted = states.flatten(0, 1), targets.flatten()
    total = _summed_loss(rows, head, wanted, chunk_rows or best_chunk_rows(rows.device), finish)
    return total / ((wanted != -100).sum().clamp_min(1) if num_targets is None else num_targets)


def best_chunk_rows(device: torch.device) -> int:
    """512 rows of logits at a time on a CPU, whose cache they should fit, and 4,096 elsewhere."""
    return 512 if device.type == "cpu" else 4096


@torch.compiler.disable()  # it would unroll the chunks
def _summed_loss(
    rows: Float[Tensor, "N D"], head: nn.Module, targets: Int[Tensor, " N"], chunk_rows: int, finish: Finish | None
) -> Float[Tensor, ""]:
    def logits_of(part: Tensor) -> Tensor:
        logits = head(part).float()
        return logits if finish is None else finish(logits)

    if torch.is_grad_enabled():
        trained = [parameter for parameter in head.parameters() if parameter.requires_grad]
        return _SummedLoss.apply(logits_of, chunk_rows, targets, rows, *trained)  # type: ignore[return-value]
    chunks = zip(rows.split(chunk_rows), targets.split(chunk_rows), strict=True)
    losses = [F.cross_entropy(logits_of(x), y, ignore_index=-100, reduction="sum") for x, y in chunks]
    return torch.stack(losses).sum()


class _SummedLoss(torch.autograd.Function):
    """The loss with its gradients at once: a chunk's probabilities become its gradient while they are still at hand.

    Autograd would keep all chunks' logits until the backward pass, and go over them three times more.
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
        all_known = bool((targets != -100).all())
        total = rows.new_zeros((), dtype=torch.float32)
        by_row, by_parameter = torch.empty_like(rows), [torch.zeros_like(p) for p in parameters]
        for start in range(0, len(rows), chunk_rows):
            part = rows[start : start + chunk_rows].detach().requires_grad_()
            wanted = targets[start : start + chunk_rows, None]
            known, target = wanted != -100, wanted.clamp_min(0)
            with torch.enable_grad():
                logits = logits_of(part)
            slope = logits.detach().softmax(-1)
            log_sums = logits.detach().amax(-1, keepdim=True) - slope.amax(-1, keepdim=True).log()
            total += ((log_sums - logits.detach().gather(1, target)) * known).sum()
            slope.scatter_add_(1, target, slope.new_full(target.shape, -1.0))
            if not all_known:
                slope *= known
            slopes = torch.autograd.grad(logits, (part, *parameters), slope)
            by_row[start : start + chunk_rows] = slopes[0]
            for own, added in zip(by_parameter, slopes[1:], strict=True):
                own += added
        ctx.save_for_backward(by_row, *by_parameter)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return None, None, None, *(slope * gradient.to(slope.dtype) for slope in ctx.saved_tensors)


def cap(config: PretrainedConfig) -> Finish:
    """Gemma 2 and 3: no logit beyond ± `final_logit_softcapping`."""
    most = float(config.final_logit_softcapping)
    return lambda logits: most * torch.tanh(logits / most)


def divide(config: PretrainedConfig) -> Finish:
    """Granite: logits / `logits_scaling`."""
    by = float(config.logits_scaling)
    return lambda logits: logits / by


def multiply(config: PretrainedConfig) -> Finish:
    """Cohere: logits · `logit_scale`."""
    by = float(config.logit_scale)
    return lambda logits: logits * by


FINISHES: dict[str, Callable[[PretrainedConfig], Finish]] = {
    "final_logit_softcapping": cap,
    "logits_scaling": divide,
    "logit_scale": multiply,
}


def find_finish(lm: PreTrainedModel) -> Finish | None:
    """What a model does to its head's output, None for nothing.

    The head is made to put out a ramp from -100 to 100 while two pieces go through the model, so that what
    comes of it does not depend on the weights: those of a new model give logits too small to show a cap.
    Raises `ValueError` when none of the known ways gives what comes out, or when the head reads something
    other than the last states.
    """
    config, head = lm.config.get_text_config(), lm.get_output_embeddings()
    pieces = torch.arange(2, device=lm.device)[None] % config.vocab_size
    read: list[Tensor] = []
    ramp = torch.linspace(-100, 100, config.vocab_size, device=lm.device)

    def put_out_a_ramp(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        read.append(inputs[0])
        return ramp.to(output.dtype).expand_as(output) if output.shape[-1:] == ramp.shape else output

    if head is None:
        raise _unknown(lm)
    training, hook = lm.training, head.register_forward_hook(put_out_a_ramp)
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
    named = [make(config) for name, make in FINISHES.items() if getattr(config, name, None) is not None]
    for finish in (None, *named):
        finished = ramp if finish is None else finish(ramp)
        if logits.shape[-1:] == ramp.shape and torch.allclose(logits.float(), finished, rtol=close, atol=100 * close):
            return finish
    raise _unknown(lm)


def _unknown(lm: PreTrainedModel) -> ValueError:
    return ValueError(
        f"{type(lm).__name__} does something to its logits that is not known here, so its loss cannot be computed "
        f"in chunks; known are a plain head and {', '.join(FINISHES)}. Choose another architecture"
    )
