"""Training a fusion over two frozen towers: every piece is predicted from all others, shards in, a fusion folder out.

A loop of its own, not the transformers Trainer's: a step is one batch, nothing is random but the first weights and
the order of the documents, so that a step's number and the state of module and optimiser are all that a
checkpoint needs. It lies in `OUT.checkpoint` until the folder is written, replaced as a whole each time.

With `tokens=0` nothing is trained: the folder holds the fusion's first weights, the control for its training.
"""

import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from boustro.models.fusion import FUSIONS, KIND, Cloze, FusionShape, TiedHead, save_fusion
from boustro.models.hardware import best_device, has_fast_bf16
from boustro.models.towers import Towers
from boustro.pretrain.optimizer import MuonAdamW
from boustro.store import open_folder, refuse_foreign, write_file, write_folder
from boustro.text.segments import Segments
from boustro.text.shards import Shards
from boustro.text.tokenizers import load_tokenizer

CHECKPOINT = "fusion checkpoint"
LOG_EVENTS = 20


@dataclass(frozen=True, kw_only=True)
class FuseConfig:
    """Everything that decides what a run computes."""

    forward: str
    """Spec of the forward LM, such as gpt2 or starter-forward."""
    backward: str
    """Spec of the backward LM, over the same vocabulary."""
    shards: Path
    """Token shards to train on, as written by `boustro tokenize` with the tokenizer of the two."""
    out: Path
    """Where the fusion folder is written; fused:OUT names it as an encoder."""
    kind: Literal["attention", "linear"] = "attention"
    """attention, or linear: the control that sees the two nearest states only."""
    width: int | None = None
    """Of the fused states; by default the forward LM's."""
    num_heads: int = 4
    validation: Path | None = None
    """Token shards for the validation loss."""
    tokens: int | None = None
    """Pieces to train on; by default one pass over the shards; 0 leaves the first, random weights."""
    segment_length: int = 256
    """Pieces a segment."""
    batch_segments: int = 16
    """Segments a step."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """Muon + AdamW, or AdamW alone."""
    lr: float = 2e-3
    """Peak learning rate."""
    weight_decay: float = 0.1
    warmup: float = 0.03
    """Share of the steps spent warming up."""
    decay: float = 0.4
    """Share of the steps spent decaying to 0, at the end."""
    seed: int = 1
    save_minutes: float = 10.0
    """Minutes between checkpoints."""
    validation_pieces: int = 200_000
    """How much of the validation shards, from their beginning, is measured."""
    evaluations: int = 8
    """How often to measure the validation loss during the run."""
    resume: bool = False
    """Go on from the checkpoint."""


def train_fusion(
    towers: Towers, vocabulary: dict[str, int], config: FuseConfig, facts: dict[str, Any]
) -> dict[str, Any]:
    """Train a fusion over `towers`, whose pieces are `vocabulary`; `facts` (their exact specs) go into the folder.

    Returns what is written to `training.json`. Raises `ValueError` for shards or options that do not fit.
    """
    refuse_foreign(config.out, KIND)
    shards = _open(config.shards, vocabulary)
    held_out = _open(config.validation, vocabulary) if config.validation else None
    segments = Segments(shards, config.segment_length, config.seed)
    step_pieces = config.batch_segments * config.segment_length
    wanted = len(segments) * config.segment_length if config.tokens is None else config.tokens
    steps = round(wanted / step_pieces) if wanted < step_pieces else wanted // step_pieces

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
    cloze = Cloze(FUSIONS[shape.kind](shape), TiedHead(shape.width, embeddings)).to(device)
    optimizer = _optimizer(cloze, config)
    run = _Run(towers, cloze, optimizer, config, steps, device)
    run.identify(shards, facts)
    if config.resume:
        run.resume()
    else:
        shutil.rmtree(run.checkpoint, ignore_errors=True)
    num_parameters = sum(p.numel() for p in cloze.fusion.parameters())
    _say(
        f"{config.kind} fusion: {num_parameters / 1e6:.2f}M parameters, {steps:,} steps of {step_pieces:,} pieces "
        f"on {device}"
    )

    validation = Segments(held_out, config.segment_length, seed=None) if held_out else None
    run.train(segments, validation)
    result = {
        "config": {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()},
        "shards_fingerprint": shards.fingerprint,
        "num_parameters": num_parameters,
        "pieces_seen": steps * step_pieces,
        "validation_loss": run.evaluate(validation) if validation else None,
        "history": run.history,
    }
    with write_folder(config.out, KIND, {"shards": shards.fingerprint}) as folder:
        save_fusion(folder, cloze, shape, facts)
        write_file(folder / "training.json", json.dumps(result, indent=1))
    shutil.rmtree(run.checkpoint, ignore_errors=True)
    loss = result["validation_loss"]
    _say(f"{config.out}: done" + (f", validation cloze loss {loss:.4f}" if loss is not None else ""))
    return result


class _Run:
    """The state of a run: what is trained, how far, and what was measured on the way."""

    def __init__(
        self,
        towers: Towers,
        cloze: Cloze,
        optimizer: torch.optim.Optimizer,
        config: FuseConfig,
        steps: int,
        device: torch.device,
    ) -> None:
        self.towers, self.cloze, self.optimizer, self.config = towers, cloze, optimizer, config
        self.steps, self.device, self.step = steps, device, 0
        self.history: list[dict[str, float]] = []
        self.checkpoint = config.out.with_name(config.out.name + ".checkpoint")
        self.facts: dict[str, Any] = {}

    def identify(self, shards: Shards, facts: dict[str, Any]) -> None:
        """What decides the weights: a checkpoint of other facts is another run's."""
        names = "kind width num_heads tokens segment_length batch_segments optimizer lr weight_decay warmup decay seed"
        own = {name: getattr(self.config, name) for name in names.split()}
        self.facts = {**own, "shards": shards.fingerprint, **facts}

    def train(self, segments: Segments, validation: Segments | None) -> None:
        config = self.config
        self.cloze.train()
        saved = time.monotonic()
        log_every = max(1, self.steps // LOG_EVENTS)
        evaluate_every = max(1, self.steps // max(1, config.evaluations))
        with tqdm(total=self.steps, initial=self.step, unit=" steps", disable=None) as bar:
            while self.step < self.steps:
                first = self.step * config.batch_segments
                numbers = range(first, first + config.batch_segments)
                pieces = self._pieces([segments[n % len(segments)] for n in numbers])
                loss = self._loss(pieces)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.cloze.parameters(), 1.0)
                for group in self.optimizer.param_groups:
                    group["lr"] = config.lr * share_of_lr(self.step, self.steps, config.warmup, config.decay)
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.step += 1
                bar.update(1)
                if self.step % log_every == 0:
                    self._log(loss=loss.item())
                if validation and self.step % evaluate_every == 0 and self.step < self.steps:
                    self._log(validation_loss=self.evaluate(validation))
                if time.monotonic() - saved > 60 * config.save_minutes:
                    self.save()
                    saved = time.monotonic()

    @torch.no_grad()
    def evaluate(self, validation: Segments) -> float:
        """Mean loss a piece, in nats, over the first validation pieces."""
        self.cloze.eval()
        count = max(1, min(len(validation), self.config.validation_pieces // self.config.segment_length))
        size = self.config.batch_segments
        losses = []
        for start in range(0, count, size):
            batch = [validation[n] for n in range(start, min(start + size, count))]
            losses += [self._loss(self._pieces(batch)).item()] * len(batch)
        self.cloze.train()
        return float(np.mean(losses))

    def save(self) -> None:
        with write_folder(self.checkpoint, CHECKPOINT, {"run": self.facts}) as folder:
            save_file({n: t.contiguous() for n, t in self.cloze.state_dict().items()}, folder / "cloze.safetensors")
            torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")
            write_file(folder / "state.json", json.dumps({"step": self.step, "history": self.history}))

    def resume(self) -> None:
        """Go on from the checkpoint, from the beginning where there is none; `ValueError` for another run's."""
        try:
            made_by = open_folder(self.checkpoint, CHECKPOINT, verify=True)["made_by"]
        except FileNotFoundError:
            _say(f"{self.checkpoint}: no checkpoint, starting from the beginning")
            return
        given = json.loads(json.dumps(self.facts))
        differing = [name for name, value in given.items() if made_by.get("run", {}).get(name) != value]
        if differing:
            raise ValueError(
                f"{self.checkpoint} is of a run with another {', '.join(differing)}; leave out --resume to start anew"
            )
        self.cloze.load_state_dict(load_file(self.checkpoint / "cloze.safetensors"))
        self.optimizer.load_state_dict(torch.load(self.checkpoint / "optimizer.pt", weights_only=True))
        state = json.loads((self.checkpoint / "state.json").read_text("utf-8"))
        self.step, self.history = state["step"], state["history"]
        _say(f"going on from step {self.step:,} of {self.checkpoint}")

    def _pieces(self, segments: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(segments)).to(self.device)

    def _loss(self, pieces: Tensor) -> Tensor:
        lengths = torch.full((len(pieces),), pieces.shape[1], device=pieces.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=has_fast_bf16(self.device)):
            states = self.towers.states(pieces, lengths)
            return self.cloze(states, pieces)

    def _log(self, **measured: float) -> None:
        self.history.append({"step": self.step, **measured})
        (name, value), *_ = measured.items()
        tqdm.write(f"step {self.step:,}/{self.steps:,} · {name.replace('_', ' ')} {value:.4f}", file=sys.stderr)


def share_of_lr(step: int, steps: int, warmup: float, decay: float) -> float:
    """The share of the peak learning rate at a step (0, 1, …): up, along, and down to 0 in straight lines."""
    up, down = round(warmup * steps), round(decay * steps)
    return min(1.0, (step + 1) / max(1, up), (steps - step) / max(1, down))


def _optimizer(cloze: Cloze, config: FuseConfig) -> torch.optim.Optimizer:
    if config.optimizer == "muon":
        return MuonAdamW(cloze, config.lr, config.weight_decay)
    return torch.optim.AdamW(cloze.parameters(), config.lr, weight_decay=config.weight_decay, fused=True)


def _width(tower: Any) -> int:
    return tower.config.get_text_config().hidden_size


def _open(path: Path, vocabulary: dict[str, int]) -> Shards:
    shards = Shards.open(path)
    if load_tokenizer(shards.tokenizer_path).get_vocab() != vocabulary:
        raise ValueError(
            f"{path} was made with another tokenizer than that of the two LMs; make it anew: boustro tokenize ... "
            f"--tokenizer with the forward LM's folder or name"
        )
    return shards


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
