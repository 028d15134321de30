"""Trains a fusion of two LMs: every piece is predicted from all others; shards in, a fusion folder out.

The fusion and its output head are trained (`models.fusion`). The LMs are frozen unless `train_lms` says otherwise;
then their own losses are added, so that they remain LMs. With `tokens=0` nothing is trained: the folder has the
fusion's random initial weights, the control for its training.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from boustro.encoders.fused import SIDES, fusion_facts, lms_of, tower_window, towers_of
from boustro.encoders.spec import Spec, load_encoder
from boustro.hardware import best_device, uses_bf16
from boustro.lab.adapt.options import FuseConfig
from boustro.lab.adapt.training import open_segments, train, write_run
from boustro.lab.pretrain.batches import Batches, HeldOut, stack
from boustro.lab.pretrain.checkpoints import finished_run
from boustro.lab.pretrain.config import run_facts
from boustro.lab.pretrain.distributed import say
from boustro.lab.pretrain.shards import Shards
from boustro.models.fusion import FUSION_KIND, FUSIONS, Cloze, FusionShape, TiedHead, Towers, save_fusion
from boustro.models.loss import find_finish, lm_loss

FUSION_FACTS = ("kind", "width", "train_lms", "tokens", "segment_length", "batch_segments")
"""Options that decide the weights, besides those of every run."""


def train_fusion(config: FuseConfig) -> dict[str, Any]:
    """Train a fusion; returns `training.json`. `ValueError` for LMs that do not fit each other or the shards."""
    if config.start_piece == "none":
        raise ValueError("a fusion needs a piece before every text; give another --start-piece than none")
    pair = load_encoder(f"{config.forward}+{config.backward}", layers="last", start_piece=config.start_piece)
    forward, backward = lms_of(pair)
    window, length = tower_window(forward, backward), config.segment_length
    if length > window:
        raise ValueError(f"the two LMs read {window:,} pieces together; lower --segment-length {length:,}")
    sides = SIDES[config.train_lms]
    names = {
        "forward": Spec.parse(config.forward).exact(forward.identity()),
        "backward": Spec.parse(config.backward).exact(backward.identity()),
        "trained": sides,
        "start_piece": config.start_piece,
        "towers": fusion_facts(forward, backward, sides),
        "starts": list(towers_of(forward, backward).starts),
    }
    whose = (forward.vocabulary(), "the two LMs", "the forward one")
    segments, validation, steps = open_segments(config.shards, config, config.seed, *whose)
    size, fingerprint = config.batch_segments, segments.shards.fingerprint
    facts = run_facts(config, FUSION_FACTS, shards=fingerprint, **names)
    if finished := finished_run(config, FUSION_KIND, facts):
        return finished

    device, towers = best_device(), towers_of(forward, backward)
    cloze, shape = _make_cloze(config, towers, segments.shards, device)
    lms = {side: {"forward": forward, "backward": backward}[side].language_model() for side in sides}
    for lm in lms.values():
        lm.float().to(device)  # type: ignore[arg-type]
        lm.base_model.requires_grad_(True)
    trained = nn.ModuleDict({"cloze": cloze, **{f"{side}_lm": lm.base_model for side, lm in lms.items()}})

    def batch(step: int) -> dict[str, Tensor]:
        numbers = range(step * size, (step + 1) * size)
        return {"pieces": stack([segments.example(0, n % len(segments)) for n in numbers])}

    kept = (cloze.fusion, *(lm.base_model for lm in lms.values()))  # without the output head
    num_parameters = sum(p.numel() for module in kept for p in module.parameters())
    step_pieces = size * length
    along = f" and the {' and the '.join(lms)} LM" if lms else ""
    what = f"{config.kind} fusion{along}: {num_parameters / 1e6:.2f}M parameters"
    say(f"{what}, {steps:,} steps of {step_pieces:,} pieces on {device}")
    batches, loss_of = Batches(steps, batch), _make_loss(towers, cloze, lms)
    measured = HeldOut(validation, lambda examples: {"pieces": stack(examples)}, config, size) if validation else None
    result = train(config, facts, trained, loss_of, batches, measured, step_size=step_pieces, bf16=uses_bf16(device))
    counts = {"num_parameters": num_parameters, "pieces_seen": steps * step_pieces}
    result |= {"shards_fingerprint": fingerprint, **counts}

    starts = dict(zip(SIDES["both"], towers.starts, strict=True))

    def save(folder: Path) -> None:
        save_fusion(folder, cloze, shape, names)
        for side, lm in lms.items():
            lm.config.direction, lm.config.sentinel = side, starts[side]
            lm.save_pretrained(folder / side)
            forward.tokenizer.save_pretrained(folder / side)

    return write_run(config, FUSION_KIND, result, save, shards=fingerprint)


def _make_loss(towers: Towers, cloze: Cloze, lms: Mapping[str, Any]) -> Callable[[Tensor], Tensor]:
    """The fusion's loss; in training plus the losses of the LMs trained along."""
    heads = {side: (lm.get_output_embeddings(), find_finish(lm)) for side, lm in lms.items()}

    def loss_of(pieces: Tensor) -> Tensor:
        lengths = torch.full((len(pieces),), pieces.shape[1], device=pieces.device)
        states = towers.states(pieces, lengths)
        fused = cloze(states, pieces)
        if not cloze.training:
            return fused
        blind = {"forward": states.forward[:, :-1], "backward": states.backward[:, 1:]}
        losses = [lm_loss(blind[side], head, pieces, finish=end) for side, (head, end) in heads.items()]
        return fused + sum(losses)

    return loss_of


def _make_cloze(config: FuseConfig, towers: Any, shards: Shards, device: torch.device) -> tuple[Cloze, FusionShape]:
    """The fusion with random weights and its output head, and its shape; the towers are moved to the device too."""
    towers.forward.to(device)
    towers.backward.to(device)
    widths = [tower.config.get_text_config().hidden_size for tower in (towers.forward, towers.backward)]
    shape = FusionShape(
        kind=config.kind,
        forward_width=widths[0],
        backward_width=widths[1],
        width=config.width or widths[0],
    )
    torch.manual_seed(config.seed)
    embeddings = towers.forward.get_input_embeddings().weight
    head = TiedHead(shape.width, embeddings, shards.counts(len(embeddings)))
    return Cloze(FUSIONS[shape.kind](shape), head).to(device), shape
