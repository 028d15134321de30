"""What a causal LM does by itself: it continues prompts, through transformers' own `generate`, and scores texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import GenerationConfig as HuggingFaceConfig

from boustro.generation.models import CausalLM
from boustro.generation.options import GenerationConfig
from boustro.objectives.examples import keyed_generator


@dataclass(frozen=True)
class Written:
    """What was written after one prompt."""

    pieces: list[int]
    log_prob: float
    steps: int
    """How often the LM read the text; for a causal LM its pieces."""


@torch.inference_mode()
def causal_log_probs(
    model: CausalLM, prompts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]]
) -> Float[Tensor, " B"]:
    """Σ log p(y_i | x, y_(<i)), over all pieces that can be written; one reading.

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


def write_causal(
    model: CausalLM, prompts: Sequence[list[int]], rows: Sequence[int], length: int, config: GenerationConfig
) -> list[Written]:
    """Continue every prompt, each with the likelihood of what was written; `rows` are their numbers in the input.

    A text ends at the end-of-text piece, which is not part of it, or after `length` pieces. Sampling writes one text at
    a time, so that a row's random numbers do not depend on the rows beside it.
    """
    temperature = config.sampling_temperature()
    if not temperature:
        return _write(model, prompts, length, {"do_sample": False})
    found, sampled = [], {"do_sample": True, "temperature": temperature, "top_p": config.top_p, "top_k": 0}
    for prompt, row in zip(prompts, rows, strict=True):
        with torch.random.fork_rng():
            torch.manual_seed(int(keyed_generator(config.seed, 0, row).integers(2**63)))
            found += _write(model, [prompt], length, sampled)
    return found


def _write(model: CausalLM, prompts: Sequence[list[int]], length: int, options: dict) -> list[Written]:
    readings = [[*model.before, *prompt] for prompt in prompts]
    longest = max(map(len, readings))
    model.refuse_longer(longest + length)
    end = model.tokenizer.eos_token_id
    fill = 0 if end is None else end
    ids = torch.tensor([[fill] * (longest - len(r)) + r for r in readings], device=model.device)
    mask = torch.tensor([[0] * (longest - len(r)) + [1] * len(r) for r in readings], device=model.device)
    special = [n for n in torch.nonzero(~model.writable).flatten().tolist() if n != end]
    settings = HuggingFaceConfig(
        max_new_tokens=length, pad_token_id=fill, eos_token_id=end, suppress_tokens=special or None, **options
    )
    with torch.inference_mode():
        found = model.lm.generate(input_ids=ids, attention_mask=mask, generation_config=settings)[:, longest:].tolist()
    texts = [row[: row.index(end)] if end in row else row for row in found]
    return [
        Written(text, float(causal_log_probs(model, [prompt], [text])[0]) if text else 0.0, len(text))
        for prompt, text in zip(prompts, texts, strict=True)
    ]
