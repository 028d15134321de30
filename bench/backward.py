"""Training a backward LM over a large vocabulary: seconds a step, side by side, in one process.

    python bench/backward.py                           # 262,144 pieces, 640 wide, body mini
    python bench/backward.py --pieces 50257 --steps 20

    sampled   the LM's frozen embeddings through a projection, the softmax over a sample (`boustro backward`)
    small     the same body with its own embeddings over 8,192 pieces, the softmax over all (`boustro lab pretrain`)
    plain     the same body with its own embeddings over all pieces, transformers' own loss and AdamW

The steps of the systems alternate; a figure is the median over steps. Pieces are drawn with Zipf's frequencies, in the
order of no text: a step's cost does not depend on what can be learned.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Annotated

import numpy as np
import torch
import tyro
from torch import Tensor
from transformers import AutoModelForCausalLM

from boustro.hardware import best_device, mixed_precision, uses_bf16
from boustro.lab.objectives.causal import causal
from boustro.lab.presets import make_config
from boustro.lab.pretrain.projected import project_embeddings
from boustro.lab.pretrain.trainer import make_optimizer
from boustro.models.loss import LMWithLoss, SampledLMWithLoss, inclusion

SMALL = 8192
Step = Callable[[Tensor], None]


def trained(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    """A step with Boustro's losses."""

    def step(pieces: Tensor) -> None:
        batch = causal(pieces, "backward", 1)
        with mixed_precision(pieces.device):
            module(*batch)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def make_steps(pieces: int, width: int, drawn: int, preset: str, plain: bool) -> dict[str, tuple[int, Step]]:
    """Name → (size of the vocabulary, step)."""
    device = best_device()

    def lm_of(vocabulary: int):
        return AutoModelForCausalLM.from_config(make_config(preset, vocabulary, 256, 1)).train()

    def muon(module: torch.nn.Module) -> Step:
        return trained(module.to(device), make_optimizer(module, "muon", 5e-3, 0.1, uses_bf16(device)))

    counts = (1e6 / np.arange(1, pieces + 1)).astype(np.int64)
    large = lm_of(pieces)
    project_embeddings(large, torch.randn(pieces, width).bfloat16(), torch.from_numpy(counts))
    steps = {
        "sampled": (pieces, muon(SampledLMWithLoss(large, inclusion(counts, drawn)))),
        "small": (SMALL, muon(LMWithLoss(lm_of(SMALL)))),
    }
    if plain:
        whole = lm_of(pieces).to(device)
        optimizer = torch.optim.AdamW(whole.parameters(), 1e-3)

        def plain_step(ids: Tensor) -> None:
            with mixed_precision(ids.device):
                whole(input_ids=ids.flip(1), labels=ids.flip(1), use_cache=False).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        steps["plain"] = (pieces, plain_step)
    return steps


def main(
    pieces: Annotated[int, "size of the large vocabulary"] = 262_144,
    width: Annotated[int, "width of the large LM's embeddings"] = 640,
    drawn: Annotated[int, "pieces of the sample"] = 4096,
    preset: Annotated[str, "body"] = "mini",
    segments: Annotated[int, "segments of 256 pieces a step"] = 16,
    steps: Annotated[int, "steps of each system"] = 12,
    plain: Annotated[bool, "transformers' full softmax too, for 3 steps"] = True,
) -> None:
    """Measure the systems."""
    torch.manual_seed(1)
    systems = make_steps(pieces, width, drawn, preset, plain)
    rng, seconds = np.random.default_rng(1), {name: [] for name in systems}
    for number in range(steps):
        for name, (vocabulary, step) in systems.items():
            if name == "plain" and number >= 3:
                continue
            frequencies = 1 / np.arange(1, vocabulary + 1)
            ids = rng.choice(vocabulary, (segments, 256), p=frequencies / frequencies.sum())
            began = time.process_time(), time.perf_counter()
            step(torch.from_numpy(ids).to(best_device()))
            seconds[name].append((time.process_time() - began[0], time.perf_counter() - began[1]))
    precision = "bf16" if uses_bf16(best_device()) else "fp32"
    print(f"{preset}, {segments * 256:,} pieces a step, {torch.get_num_threads()} threads, {precision}")
    print("| system | vocabulary | CPU seconds a step | seconds a step |\n|---|---:|---:|---:|")
    for name, times in seconds.items():
        cpu, wall = (median(column) for column in zip(*times[1:], strict=True))  # the first one warms up
        print(f"| {name} | {systems[name][0]:,} | {cpu:.2f} | {wall:.2f} |")
    ratio = median(a[0] / b[0] for a, b in zip(seconds["sampled"][1:], seconds["small"][1:], strict=True))
    print(f"sampled over {pieces:,} / small over {SMALL:,}: {ratio:.2f} (paired, CPU seconds)")


if __name__ == "__main__":
    tyro.cli(main)
