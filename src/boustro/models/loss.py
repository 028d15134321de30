"""A language model with its loss, as one module: piece ids and targets in, mean cross-entropy out.

In a small model the head dominates: (pieces x vocabulary) logits. They are made in chunks of rows, so
that a chunk stays near the processor and all of them never stand in memory together. Some families do
something to the logits after the head (`FINISHES`); which one a model does is not looked up but found by
trying: two pieces go through the whole model, and the finish that gives its logits is the one.

    Gemma 2   30 · tanh(logits / 30)        Granite   logits / 8        Cohere   logits · 0.0625
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

Finish = Callable[[Tensor], Tensor]


class LMWithLoss(nn.Module):
    """Wraps a transformers causal LM; `forward` returns {"loss": mean over targets that are not -100}.

    Raises `ValueError` for a model whose logits are not its head's, finished in one of the known ways.
    """

    def __init__(self, lm: PreTrainedModel, chunk_rows: int = 4096) -> None:
        super().__init__()
        self.lm, self.chunk_rows = lm, chunk_rows
        self.finish = find_finish(lm)
        self._no_split_modules = lm._no_split_modules  # what FSDP is to keep together

    def forward(self, input_ids: Int[Tensor, "B T"], targets: Int[Tensor, "B T"]) -> dict[str, Float[Tensor, ""]]:
        states = self.lm.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
        head = self.lm.get_output_embeddings()
        assert head is not None, "a causal LM has a head"
        return {"loss": lm_loss(states, head, targets, self.chunk_rows, self.finish)}


def lm_loss(
    states: Float[Tensor, "B T D"],
    head: nn.Module,
    targets: Int[Tensor, "B T"],
    chunk_rows: int = 4096,
    finish: Finish | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy of `finish(head(states))` against `targets`, `chunk_rows` rows of logits at a time."""
    rows, wanted = states.flatten(0, 1), targets.flatten()
    total = rows.new_zeros((), dtype=torch.float32)
    for start in range(0, len(rows), chunk_rows):
        logits = head(rows[start : start + chunk_rows]).float()
        logits = logits if finish is None else finish(logits)
        total = total + F.cross_entropy(logits, wanted[start : start + chunk_rows], ignore_index=-100, reduction="sum")
    return total / (wanted != -100).sum().clamp_min(1)


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
