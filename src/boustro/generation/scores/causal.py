"""The likelihood of a text under a causal LM: each piece given the prompt and the pieces before it; one reading."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from boustro.generation.models import CausalLM


@torch.inference_mode()
def causal_log_probs(
    model: CausalLM, prompts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]]
) -> Float[Tensor, " B"]:
    """Σ log p(y_i | x, y_(<i)), over all pieces that can be written.

    Without a prompt the model needs a start piece before the text; `ValueError` if it has none.
    """
    rows = [[*model.before, *prompt, *text] for prompt, text in zip(prompts, texts, strict=True)]
    if not all(len(row) > len(text) for row, text in zip(rows, texts, strict=True)):
        raise ValueError(f"{model.name} has no start piece, so nothing comes before a text without a prompt")
    longest = max(map(len, rows))
    model.refuse_longer(longest)
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=model.device)
    logits = model.lm(input_ids=ids, use_cache=False).logits[:, :-1].float()
    log_probs = logits.masked_fill(~model.writable, -torch.inf).log_softmax(-1)
    found = log_probs.gather(2, ids[:, 1:, None])[..., 0]
    places = torch.arange(1, longest, device=model.device)
    ends = torch.tensor([len(row) for row in rows], device=model.device)[:, None]
    starts = ends - torch.tensor([len(text) for text in texts], device=model.device)[:, None]
    return found.masked_fill((places < starts) | (places >= ends), 0.0).sum(1)
