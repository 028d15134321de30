"""Fine-tunes a masked or a causal LM on pairs of a prompt and a target text, such as summaries; a model folder out.

    masked    reads   prompt E  the M left M      E: end of text, which ends a prompt; M: the mask piece
              loss    of the hidden pieces of the target, a share ~ U(0, 1) of them, and 0.1 · that of its length
    causal    reads   prompt E  the ferry left    loss of the target and of the end-of-text piece after it

The prompt is read whole and nothing of it is hidden. The folder's config says `prompt_end`, so that `boustro generate`
puts the end-of-text piece after a prompt too. A masked LM without the prefix mask gets no length head, because its
prompt would see how long the target is. Sources: Ghazvininejad et al. 2019, section 3; BiGLM, section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from boustro.generation.models import CausalLM, MaskedLM, open_lm
from boustro.models.hardware import uses_bf16
from boustro.models.length import LengthHead
from boustro.models.loss import find_finish, lm_loss
from boustro.models.masked import at, encode, prediction_head
from boustro.objectives.examples import IGNORED, PADDING, keyed_generator
from boustro.pretrain.batches import Batches
from boustro.pretrain.checkpoints import finished_run
from boustro.pretrain.config import run_facts
from boustro.pretrain.distributed import say
from boustro.roads.options import Seq2SeqConfig
from boustro.roads.training import finish, train
from boustro.store import fingerprint
from boustro.text.documents import read_values
from boustro.text.tokenizers import end_of_text_id

KIND = "model"
DECIDING = ("model", "epochs", "batch_pairs", "length_weight", "prompt_pieces")
"""Options that decide the weights, besides those of every run."""


@dataclass(frozen=True)
class Pair:
    """Piece ids of a prompt, with its frame and its end, and of its target."""

    prompt: list[int]
    target: list[int]


class Seq2Seq(nn.Module):
    """What is trained: the LM and, for a masked one with the prefix mask, the head of lengths."""

    def __init__(self, model: MaskedLM | CausalLM, longest: int) -> None:
        super().__init__()
        self.lm: Any = model.lm
        width = model.lm.config.get_text_config().hidden_size
        knows_length = isinstance(model, MaskedLM) and model.has_prefix_mask
        self.length = LengthHead(width, longest) if knows_length else None


def train_seq2seq(config: Seq2SeqConfig) -> dict[str, Any]:
    """Fine-tune; returns `training.json`. `ValueError` for a model or pairs that do not fit."""
    model = open_lm(config.model)
    pairs = read_pairs(config.train, config, model)
    dev = read_pairs(config.dev, config, model) if config.dev else []
    facts = run_facts(config, DECIDING, train=fingerprint([vars(pair) for pair in pairs]))
    if finished := finished_run(config, KIND, facts):
        return finished
    torch.manual_seed(config.seed)
    trained = Seq2Seq(model, max(len(pair.target) for pair in (*pairs, *dev))).to(model.device)
    trained.lm.float().requires_grad_(True)
    size, count = config.batch_pairs, len(pairs)
    steps = -(-count // size) * config.epochs

    def batch(step: int) -> dict[str, Tensor]:
        epoch, number = divmod(step, -(-count // size))
        order = keyed_generator(config.seed, epoch, 0).permutation(count)[number * size : (number + 1) * size]
        return make_batch(model, [(pairs[i], (config.seed, 1 + epoch, int(i))) for i in order])

    def dev_batch(number: int) -> tuple[dict[str, Tensor], float]:
        chosen = range(number * size, min(len(dev), (number + 1) * size))
        return make_batch(model, [(dev[i], (0, 0, i)) for i in chosen]), len(chosen)

    def loss_of(**given: Tensor) -> Tensor:
        return pair_loss(model, trained.length, config.length_weight, given)

    say(f"{config.model}: {sum(p.numel() for p in trained.parameters()) / 1e6:.1f}M parameters, {steps:,} steps")
    measured = Batches(-(-len(dev) // size), dev_batch) if dev else None
    how: Any = {"step_size": size, "unit": "pairs", "bf16": uses_bf16(model.device)}
    result = train(config, facts, trained, loss_of, Batches(steps, batch), measured, **how)

    def save(folder: Path) -> None:
        model.lm.config.prompt_end = True
        model.lm.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        if trained.length is not None:
            trained.length.save(folder)

    return finish(config, KIND, result | {"pairs": count}, save)


def read_pairs(path: Path, config: Seq2SeqConfig, model: MaskedLM | CausalLM) -> list[Pair]:
    """The pairs of a JSON-lines file. Says how many are left out, longer than the window, and how many prompts are cut.

    Raises `ValueError`, with file and line, for a line without both texts, and where no pair is left.
    """
    found, long, cut = [], 0, 0
    for place, record in read_values(path):
        texts = _texts(record, place, config)
        prompt, target = (model.pieces(text) for text in texts)
        if not prompt or not target:
            raise ValueError(f"{place}: the {'target' if prompt else 'prompt'} is empty")
        if config.prompt_pieces and len(prompt) > config.prompt_pieces:
            prompt, cut = prompt[: config.prompt_pieces], cut + 1
        pair = Pair([*model.before, *prompt, end_of_text_id(model.tokenizer)], target)
        if model.window is not None and len(pair.prompt) + len(target) + len(model.after) + 1 > model.window:
            long += 1
        else:
            found.append(pair)
    if cut:
        say(f"{path}: {cut:,} prompts were cut to their first {config.prompt_pieces:,} pieces")
    if long:
        say(f"{path}: {long:,} pairs are longer than the window of {model.window:,} pieces and left out")
    if not found:
        raise ValueError(f"{path}: no pair is left that fits into the window; give --prompt-pieces to cut the prompts")
    return found


def make_batch(model: MaskedLM | CausalLM, pairs: Sequence[tuple[Pair, tuple[int, int, int]]]) -> dict[str, Tensor]:
    """Pairs, each with the key of its random numbers, as the tensors of `pair_loss`; padding is on the right.

    `wanted` (B, T) has the piece to predict from each position's state, -100 where there is none.
    """
    if isinstance(model, CausalLM):
        end = [end_of_text_id(model.tokenizer)]
        rows = [[*pair.prompt, *pair.target] for pair, _ in pairs]
        wanted = [[IGNORED] * (len(p.prompt) - 1) + p.target + end for p, _ in pairs]
        return {"input_ids": _padded(rows, 0), "wanted": _padded(wanted, IGNORED)}
    rows, wanted, documents, suffix = [], [], [], []
    for pair, key in pairs:
        rng, size = keyed_generator(*key), len(pair.target)
        hidden = rng.permutation(size) < max(1, int(rng.random() * size + 0.5))
        own = zip(pair.target, hidden, strict=True)
        rows.append(pair.prompt + [model.mask_id if hide else piece for piece, hide in own] + list(model.after))
        own = zip(pair.target, hidden, strict=True)
        wanted.append([IGNORED] * len(pair.prompt) + [piece if hide else IGNORED for piece, hide in own])
        documents.append([0] * len(rows[-1]))
        suffix.append([0] * len(pair.prompt) + [1] * (size + len(model.after)))
    ids = _padded(rows, model.mask_id)
    found = {"documents": _padded(documents, PADDING), "suffix": _padded(suffix, 0).bool()}
    lengths = torch.tensor([len(pair.target) for pair, _ in pairs])
    return {"input_ids": ids, "wanted": _padded(wanted, IGNORED, ids.shape[1]), "lengths": lengths, **found}


def pair_loss(
    model: MaskedLM | CausalLM, length: LengthHead | None, length_weight: float, batch: dict[str, Tensor]
) -> Tensor:
    """Mean loss of the pieces asked for, and of the lengths."""
    wanted = batch["wanted"]
    if isinstance(model, CausalLM):
        states = model.lm.base_model(input_ids=batch["input_ids"], use_cache=False).last_hidden_state
        return lm_loss(states, model.lm.get_output_embeddings(), wanted, finish=find_finish(model.lm))
    seen = batch["suffix"] if model.has_prefix_mask else None
    states = encode(model.lm, batch["input_ids"], batch["documents"], seen)
    places = torch.arange(wanted.shape[1], device=wanted.device).expand_as(wanted)
    loss = lm_loss(at(states, places), prediction_head(model.lm), wanted)
    if length is None:
        return loss
    prompts = (batch["documents"] != PADDING) & ~batch["suffix"]
    return loss + length_weight * length.loss(states, prompts, batch["lengths"])


def _padded(rows: Sequence[Sequence[int]], value: int, width: int = 0) -> Tensor:
    width = max(width, *map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


def _texts(record: Any, place: str, config: Seq2SeqConfig) -> tuple[str, str]:
    found = []
    for key, option in ((config.prompt_key, "prompt"), (config.target_key, "target")):
        value = record.get(key) if isinstance(record, dict) else None
        value = value[0] if isinstance(value, list) and value else value  # of several references the first
        if not isinstance(value, str):
            raise ValueError(f"{place}: no text under the key {key!r}; name it with --{option}-key")
        found.append(value)
    return found[0], found[1]
