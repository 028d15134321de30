"""Strategies of writing: a function for each, and one line in `STRATEGIES`.

A strategy of a masked LM is a function `(read, blank, config, draws) → Text`: it calls `read` with pieces on some
places and the mask piece on the others, and gets log-probabilities for the places that it names. It knows nothing of
the prompt. A causal LM continues a prompt by itself, through transformers' own `generate` (`write_causal`), and scores
texts (`causal_log_probs`). B rows, S places, V pieces.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import GenerationConfig as HuggingFaceConfig

from boustro.choose import choose
from boustro.lab.generation.canvas import SuffixReader
from boustro.lab.generation.draws import Draws, in_order, write_pieces
from boustro.lab.generation.models import CausalLM
from boustro.lab.generation.options import GenerationConfig
from boustro.lab.objectives.examples import keyed_generator
from boustro.models.pretrained import ModelKind


@dataclass(frozen=True)
class WrittenText:
    """Text that was written after one prompt."""

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
    scores = log_probs.gather(2, ids[:, 1:, None])[..., 0]
    places = torch.arange(1, longest, device=model.device)
    ends = torch.tensor([len(row) for row in rows], device=model.device)[:, None]
    starts = ends - torch.tensor([len(text) for text in texts], device=model.device)[:, None]
    return scores.masked_fill((places < starts) | (places >= ends), 0.0).sum(1)


def write_causal(
    model: CausalLM, prompts: Sequence[list[int]], rows: Sequence[int], length: int, config: GenerationConfig
) -> list[WrittenText]:
    """Continue every prompt, each with the likelihood of what was written; `rows` are their numbers in the input.

    A text ends at the end-of-text piece, which is not part of it, or after `length` pieces. Sampling writes one text at
    a time, so that a row's random numbers do not depend on the rows beside it.
    """
    temperature = config.sampling_temperature()
    if not temperature:
        return _write(model, prompts, length, {"do_sample": False})
    written, sampled = [], {"do_sample": True, "temperature": temperature, "top_p": config.top_p, "top_k": 0}
    for prompt, row in zip(prompts, rows, strict=True):
        with torch.random.fork_rng():
            torch.manual_seed(int(keyed_generator(config.seed, 0, row).integers(2**63)))
            written += _write(model, [prompt], length, sampled)
    return written


def _write(model: CausalLM, prompts: Sequence[list[int]], length: int, options: dict) -> list[WrittenText]:
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
        rows = model.lm.generate(input_ids=ids, attention_mask=mask, generation_config=settings)[:, longest:].tolist()
    texts = [row[: row.index(end)] if end in row else row for row in rows]
    return [
        WrittenText(text, float(causal_log_probs(model, [prompt], [text])[0]) if text else 0.0, len(text))
        for prompt, text in zip(prompts, texts, strict=True)
    ]


Blank = Int[Tensor, "B S"]
"""The places, all with the mask piece."""


class WrittenBatch(NamedTuple):
    """Text that was written on a batch of places."""

    pieces: Int[Tensor, "B S"]
    log_probs: Float[Tensor, " B"]
    readings: int
    """How often the LM read them."""


def mask_predict(read: SuffixReader, blank: Blank, config: GenerationConfig, draws: Draws) -> WrittenBatch:
    """All places are written at once; then the least confident are hidden and written again, in as many readings.

        step 1 of 2   M   M    M   M      →   the ship ship left     confidence -0.2, -1.1, -2.5, -0.9
        step 2 of 2   the M    M   left   →   the ship had left      ⌊4 · (1 - 1/2)⌋ = 2 places were hidden again

    After step t of T, ⌊N (1 - t / T)⌋ of N places are hidden again, those that were kept before included; the other
    pieces keep the confidence of the step in which they were written. Of equal places the first are hidden. The sum of
    the confidences ranks texts of one length; it is no likelihood. Places that are written at once do not know of each
    other, so they often get the same piece; with `hide_repeats` a piece that is equal to the one before it counts as
    the least confident. Source: Ghazvininejad et al. 2019, section 3; repeats are ours.
    """
    num_places = blank.shape[1]
    steps, temperature = config.num_steps(num_places), config.sampling_temperature()
    pieces, confidence = write_pieces(read(blank), draws, temperature, config.top_p)
    for step in range(1, steps):
        doubt = confidence.masked_fill(repeats(pieces), -torch.inf) if config.hide_repeats else confidence
        hidden = in_order(-doubt, read.dtype)[:, : num_places * (steps - step) // steps]
        log_probs = read(pieces.scatter(1, hidden, blank), hidden)
        again, sure = write_pieces(log_probs, draws, temperature, config.top_p)
        pieces, confidence = pieces.scatter(1, hidden, again), confidence.scatter(1, hidden, sure)
    return WrittenBatch(pieces, confidence.sum(1), steps)


def repeats(pieces: Int[Tensor, "B S"]) -> Bool[Tensor, "B S"]:
    """Return which pieces are equal to the one before them."""
    same = pieces[:, 1:] == pieces[:, :-1]
    return torch.cat([torch.zeros_like(pieces[:, :1], dtype=torch.bool), same], dim=1)


def blocks(read: SuffixReader, blank: Blank, config: GenerationConfig, draws: Draws) -> WrittenBatch:
    """Return a block of places after the other, each in `steps` readings: its most confident places first, and for
    good.

        block_length 4, steps 2    M M M M | M M M M   →   the M M left | M M M M   →   the ship had left | M M M M  → …

    Each step writes its share of the places: of 4 in 3 steps 2, 1 and 1. With as many steps as places, the sum of the
    log-probabilities is the likelihood of the text under the order that the LM's confidence chooses. Source: the
    semi-autoregressive decoding of masked diffusion LMs (Arriola et al. 2025; Nie et al. 2025, section 2.4).
    """
    length, num_places = min(config.block_length, blank.shape[1]), blank.shape[1]
    steps, readings = config.num_steps(length), 0
    pieces, total = blank.clone(), torch.zeros(len(blank), device=blank.device)
    for start in range(0, num_places, length):
        places = torch.arange(start, min(start + length, num_places), device=blank.device).expand(len(blank), -1)
        for count in shares(places.shape[1], steps):
            drawn, sure = write_pieces(read(pieces, places), draws, config.sampling_temperature(), config.top_p)
            order = in_order(sure, read.dtype)
            best, rest = order[:, :count], order[:, count:].sort(dim=1).values
            pieces = pieces.scatter(1, places.gather(1, best), drawn.gather(1, best))
            total, readings = total + sure.gather(1, best).sum(1), readings + 1
            places = places.gather(1, rest)
    return WrittenBatch(pieces, total, readings)


def shares(num_places: int, steps: int) -> list[int]:
    """Return how many places each step writes: 4 in 3 steps → [2, 1, 1]; never none."""
    steps = min(steps, num_places)
    return [num_places // steps + (step < num_places % steps) for step in range(steps)]


def gibbs(read: SuffixReader, blank: Blank, config: GenerationConfig, draws: Draws) -> WrittenBatch:
    """One place at a time is hidden and drawn from what the LM expects there, given all the others.

    Each step visits every place once, in an order of its own; a visit is a reading. The first visit sees the places
    that were not visited yet as mask pieces. Temperature 0 takes the likeliest piece, which climbs to a text that no
    single change improves. The log-probability is the sum of those of the last draws, which is no likelihood. Source:
    Wang and Cho 2019, section 3.
    """
    num_places = blank.shape[1]
    pieces, chances = blank.clone(), torch.zeros(blank.shape, device=blank.device)
    steps = config.steps or 10
    for _ in range(steps):
        for place in draws.orders(num_places).to(blank.device).T[..., None]:  # (B, 1)
            pieces.scatter_(1, place, blank)
            piece, chance = write_pieces(read(pieces, place), draws, config.sampling_temperature(1.0), config.top_p)
            pieces.scatter_(1, place, piece)
            chances.scatter_(1, place, chance)
    return WrittenBatch(pieces, chances.sum(1), steps * num_places)


def left_to_right(read: SuffixReader, blank: Blank, config: GenerationConfig, draws: Draws) -> WrittenBatch:
    """Place after place, with all later places hidden; the sum is the likelihood of the text under this order."""
    pieces, total = blank.clone(), torch.zeros(len(blank), device=blank.device)
    for number in range(blank.shape[1]):
        place = torch.full_like(blank[:, :1], number)
        piece, chance = write_pieces(read(pieces, place), draws, config.sampling_temperature(), config.top_p)
        pieces, total = pieces.scatter(1, place, piece), total + chance[:, 0]
    return WrittenBatch(pieces, total, blank.shape[1])


STRATEGIES: dict[str, tuple[ModelKind, Callable[..., Any]]] = {
    "mask-predict": ("masked", mask_predict),
    "blocks": ("masked", blocks),
    "gibbs": ("masked", gibbs),
    "left-to-right": ("masked", left_to_right),
    "causal": ("causal", write_causal),
}
"""The kind of LM that a strategy writes with, and its function; the first of a kind is the default."""


def find_strategy(name: str | None, kind: ModelKind, model: str) -> Callable[..., Any]:
    """Return the strategy of this name, by default the first of the kind; `ValueError` for one of the other kind."""
    fitting = [known for known, (lm_kind, _) in STRATEGIES.items() if lm_kind == kind]
    needed, strategy = choose(name or fitting[0], STRATEGIES, "strategy")
    if needed != kind:
        raise ValueError(
            f"strategy {name!r} writes with a {needed} LM, and {model} is a {kind} one, which writes with "
            f"{', '.join(fitting)}"
        )
    return strategy
