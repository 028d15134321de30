"""A causal LM's ordinary writing, through transformers' own `generate`, and the likelihood of what it wrote.

It ends at the end-of-text piece, which is not part of the text, or after `length` pieces. Sampling writes one text at a
time, so that a row's random numbers do not depend on the rows beside it.
"""

from collections.abc import Sequence

import torch
from transformers import GenerationConfig as HuggingFaceConfig

from boustro.generation.models import CausalLM
from boustro.generation.options import GenerationConfig
from boustro.generation.scores.causal import causal_log_probs
from boustro.generation.strategies.base import Written
from boustro.objectives.examples import keyed_generator


def causal(
    model: CausalLM, prompts: Sequence[list[int]], rows: Sequence[int], length: int, config: GenerationConfig
) -> list[Written]:
    """Continue every prompt; `rows` are their numbers in the input."""
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
