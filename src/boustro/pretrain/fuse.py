"""Training a fusion over two towers: every piece is predicted from all others, shards in, a fusion folder out.

What is trained is the fusion and the head that it predicts by (`models.fusion`, `loop`). The towers only read, unless
`train_lms` says that they are trained along, which also keeps them LMs: their own losses are added.
With `tokens=0` nothing is trained: the folder holds the fusion's first weights, the control for its training.
"""

import json
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from boustro.models.fusion import FUSIONS, KIND, Cloze, FusionShape, TiedHead, save_fusion
from boustro.models.hardware import best_device, mixed_precision
from boustro.models.loss import find_finish, lm_loss
from boustro.models.towers import Towers
from boustro.pretrain.config import FuseConfig, options_as_json
from boustro.pretrain.loop import Loop, mean_loss, num_steps
from boustro.pretrain.processes import say
from boustro.store import write_file, write_folder
from boustro.text.segments import Example, Segments
from boustro.text.shards import open_shards_of

DECIDING = (
    "kind",
    "width",
    "num_heads",
    "train_lms",
    "lm_weight",
    "tokens",
    "segment_length",
    "batch_segments",
)
"""Options that decide the weights, besides those of every loop."""


def train_fusion(
    towers: Towers,
    vocabulary: dict[str, int],
    config: FuseConfig,
    facts: dict[str, Any],
    lms: dict[str, PreTrainedModel],
    tokenizer: Any,
) -> dict[str, Any]:
    """Train a fusion over `towers`, whose pieces are `vocabulary`; `facts` (their exact specs) go into the folder.

    `lms` are the whole LMs, by side, of those towers that are trained along; they are saved with `tokenizer`.
    Returns what is written to `training.json`. Raises `ValueError` for shards or options that do not fit.
    """
    whose = ("the two LMs", "the forward one")
    shards = open_shards_of(config.shards, vocabulary, *whose)
    validation = open_shards_of(config.validation, vocabulary, *whose) if config.validation else None
    segments = Segments(shards, config.segment_length, config.seed)
    step_pieces = config.batch_segments * config.segment_length
    steps = num_steps(config.tokens, len(segments) * config.segment_length, step_pieces)

    device = best_device()
    towers.forward.to(device)
    towers.backward.to(device)
    embeddings = towers.forward.get_input_embeddings().weight  # type: ignore[operator]
    shape = FusionShape(
        kind=config.kind,
        forward_width=_width(towers.forward),
        backward_width=_width(towers.backward),
        width=config.width or _width(towers.forward),
        num_heads=config.num_heads,
    )
    torch.manual_seed(config.seed)
    head = TiedHead(shape.width, embeddings, shards.counts(len(embeddings)))
    cloze = Cloze(FUSIONS[shape.kind](shape), head).to(device)
    held_out = Segments(validation, config.segment_length, seed=None) if validation else None

    for lm in lms.values():
        lm.float().to(device)  # type: ignore[arg-type]
        lm.base_model.requires_grad_(True)
    heads: dict[str, Any] = {side: (lm.get_output_embeddings(), find_finish(lm)) for side, lm in lms.items()}

    def losses_of(batch: list[np.ndarray]) -> list[Tensor]:
        """That of the fusion, then those of the LMs that are trained along."""
        pieces = torch.from_numpy(np.stack(batch)).to(device)
        lengths = torch.full((len(pieces),), pieces.shape[1], device=device)
        with mixed_precision(device):
            states = towers.states(pieces, lengths)
            blind = {"forward": states.forward[:, :-1], "backward": states.backward[:, 1:]}
            own = [lm_loss(blind[side], head, pieces, finish=end) for side, (head, end) in heads.items()]
            return [cloze(states, pieces), *own]

    def loss_at(step: int) -> Tensor:
        numbers = range(step * config.batch_segments, (step + 1) * config.batch_segments)
        fused, *own = losses_of([segments[n % len(segments)] for n in numbers])
        return fused + config.lm_weight * sum(own)

    def cloze_loss(batch: list[Example]) -> Tensor:
        return losses_of([example.pieces for example in batch])[0]

    trained = nn.ModuleDict({"cloze": cloze, **{f"{side}_lm": lm.base_model for side, lm in lms.items()}})
    loop = Loop(
        trained,
        loss_at,
        (lambda: mean_loss(held_out, config.validation_pieces, config.batch_segments, cloze_loss))
        if held_out
        else None,
        steps,
        config,
        {name: getattr(config, name) for name in DECIDING} | {"shards": shards.fingerprint, **facts},
    )
    if finished := loop.finished(KIND):
        return finished
    read = (cloze.fusion, *(lm.base_model for lm in lms.values()))  # what is trained and not left behind
    num_parameters = sum(p.numel() for module in read for p in module.parameters())
    along = f" and the {' and the '.join(lms)} LM" if lms else ""
    say(
        f"{config.kind} fusion{along}: {num_parameters / 1e6:.2f}M parameters, {steps:,} steps of {step_pieces:,} "
        f"pieces on {device}"
    )
    loss = loop.run()
    result = {
        "config": options_as_json(config),
        "run": loop.facts,
        "shards_fingerprint": shards.fingerprint,
        "num_parameters": num_parameters,
        "pieces_seen": steps * step_pieces,
        "validation_loss": loss,
        "history": loop.history,
    }
    with write_folder(config.out, KIND, {"shards": shards.fingerprint}) as folder:
        save_fusion(folder, cloze, shape, facts)
        for side, lm in lms.items():
            lm.config.direction, lm.config.sentinel = side, True
            lm.save_pretrained(folder / side)
            tokenizer.save_pretrained(folder / side)
        write_file(folder / "training.json", json.dumps(result, indent=1))
    loop.finish()
    say(f"{config.out}: done" + (f", validation cloze loss {loss:.4f}" if loss is not None else ""))
    return result


def _width(tower: Any) -> int:
    return tower.config.get_text_config().hidden_size
