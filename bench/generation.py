"""Writing with and without the prefix cache, the same texts from the same model, in one process with the same threads.

    OMP_NUM_THREADS=1 python bench/generation.py --model my-biglm --data validation.txt

Every round writes with each in turn, so other load on the machine affects both equally; the best round counts. The
uncached run is what a masked LM without the prefix mask must do: every step reads prompt and text. Also measured: that
both write the same pieces, and the share of repeated pieces (equal to the one before) by the number of steps, without
and with `hide_repeats`.
"""

import time
from pathlib import Path

import numpy as np
import torch
import tyro

from boustro.lab.generation.canvas import Canvas
from boustro.lab.generation.draws import Draws
from boustro.lab.generation.models import MaskedLM, open_lm
from boustro.lab.generation.options import GenerationConfig
from boustro.lab.generation.strategies import mask_predict, repeats
from boustro.text.documents import read_documents


def read_prompts(model: MaskedLM, data: Path, length: int, count: int) -> list[list[int]]:
    """The first `length` pieces of `count` documents that have so many."""
    prompts = []
    for document in read_documents([str(data)]):
        pieces = model.pieces(document[: 40 * length])
        if len(pieces) >= length:
            prompts.append(pieces[:length])
        if len(prompts) == count:
            return prompts
    raise ValueError(f"{data}: only {len(prompts)} documents have {length} pieces")


def write(
    model: MaskedLM, prompts: list[list[int]], length: int, steps: int, cached: bool, hide_repeats: bool = False
) -> torch.Tensor:
    """Mask-predict after every prompt (B, S)."""
    canvas = Canvas.of(model, prompts, length)
    config = GenerationConfig(length=length, steps=steps, hide_repeats=hide_repeats)
    return mask_predict(canvas.reader(cached), canvas.blank(), config, Draws(1, range(len(prompts)))).pieces


def main(
    model: str, data: Path, prefix: int = 192, length: int = 32, steps: int = 10, batch: int = 8, rounds: int = 5,
    prompts: int = 64,
) -> None:  # fmt: skip
    """Measure, and print two tables."""
    lm = open_lm(model)
    if not isinstance(lm, MaskedLM):
        raise SystemExit(f"{model} is no masked LM")
    lm.refuse_cache()
    given = read_prompts(lm, data, prefix, prompts)
    seconds = {True: np.inf, False: np.inf}
    for _ in range(rounds):
        for cached in seconds:
            started = time.perf_counter()
            write(lm, given[:batch], length, steps, cached)
            seconds[cached] = min(seconds[cached], time.perf_counter() - started)
    batches = [given[start : start + batch] for start in range(0, len(given), batch)]
    same = [(write(lm, part, length, steps, True) == write(lm, part, length, steps, False)).float() for part in batches]
    print(f"prefix {prefix}, text {length}, {steps} steps, {batch} rows, {torch.get_num_threads()} thread(s)\n")
    print("| | seconds a batch | ratio |\n|---|---:|---:|")
    for cached, name in ((False, "prompt and text in every step"), (True, "prompt once")):
        print(f"| {name} | {seconds[cached]:.3f} | {seconds[False] / seconds[cached]:.2f} |")
    print(f"\nequal pieces: {torch.cat(same).mean():.2%} of {len(given) * length:,}\n")
    print("| steps | repeated pieces | with hide_repeats |\n|---:|---:|---:|")
    for own_steps in sorted({1, 4, 10, length}):
        texts = [
            torch.cat([write(lm, part, length, own_steps, True, hide) for part in batches]) for hide in (False, True)
        ]
        shares = (f"{repeats(ids)[:, 1:].float().mean():.1%}" for ids in texts)
        print(f"| {own_steps} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
