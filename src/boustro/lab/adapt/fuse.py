"""Trains a fusion of two LMs: every piece is predicted from all others; shards in, a fusion folder out.

The fusion and its output head are trained (`models.fusion`); the LMs are frozen. With `tokens=0` nothing is trained:
the folder has the fusion's random initial weights, the control for its training.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from boustro.encoders.fused import fusion_facts, lms_of, tower_window, towers_of
from boustro.encoders.spec import Spec, load_encoder
from boustro.hardware import best_device, uses_bf16
from boustro.lab.adapt.options import FuseConfig
from boustro.lab.adapt.training import open_segments, train, write_run
from boustro.lab.pretrain.batches import Batches, HeldOut, stack
from boustro.lab.pretrain.checkpoints import finished_run
from boustro.lab.pretrain.config import run_facts
from boustro.lab.pretrain.distributed import say
from boustro.lab.pretrain.shards import Shards
from boustro.models.fusion import FUSION_KIND, FUSIONS, Cloze, FusionShape, TiedHead, save_fusion

FUSION_FACTS = ("kind", "width", "tokens", "segment_length", "batch_segments")
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
    names = {
        "forward": Spec.parse(config.forward).exact(forward.identity()),
        "backward": Spec.parse(config.backward).exact(backward.identity()),
        "trained": [],
        "start_piece": config.start_piece,
        "towers": fusion_facts(forward, backward),
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

    def batch(step: int) -> dict[str, Tensor]:
        numbers = range(step * size, (step + 1) * size)
        return {"pieces": stack([segments.example(0, n % len(segments)) for n in numbers])}

    num_parameters = sum(p.numel() for p in cloze.fusion.parameters())  # without the output head
    step_pieces = size * length
    what = f"{config.kind} fusion: {num_parameters / 1e6:.2f}M parameters"
    say(f"{what}, {steps:,} steps of {step_pieces:,} pieces on {device}")
    batches = Batches(steps, batch)
    measured = HeldOut(validation, lambda examples: {"pieces": stack(examples)}, config, size) if validation else None

    def loss_of(pieces: Tensor) -> Tensor:
        lengths = torch.full((len(pieces),), pieces.shape[1], device=pieces.device)
        return cloze(towers.states(pieces, lengths), pieces)

    result = train(config, facts, cloze, loss_of, batches, measured, step_size=step_pieces, bf16=uses_bf16(device))
    counts = {"num_parameters": num_parameters, "pieces_seen": steps * step_pieces}
    result |= {"shards_fingerprint": fingerprint, **counts}

    def save(folder: Path) -> None:
        save_fusion(folder, cloze, shape, names)

    return write_run(config, FUSION_KIND, result, save, shards=fingerprint)


def _make_cloze(config: FuseConfig, towers: Any, shards: Shards, device: torch.device) -> tuple[Cloze, FusionShape]:
    """Return the fusion with random weights and its output head, and its shape; the towers are moved to the device
    too."""
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
