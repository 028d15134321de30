"""Masked and causal LMs side by side: nats a piece of held-back text after a prompt. Lower is better.

    python bench/biglm.py --models my-biglm my-masked my-full --data validation.jsonl.bz2
    python bench/biglm.py --models warm-1,warm-2,warm-3 cold-1,cold-2,cold-3 --data validation.jsonl.bz2

`--examples` random places of the documents, `--prefix` pieces as the prompt and the next `--length` as the text, the
same for all models. Folders joined by commas are training seeds of one system. Differences to the first system have a
paired bootstrap over examples and seeds. `bound` is the Monte Carlo bound, which only masked LMs have.
"""

from pathlib import Path

import numpy as np
import tyro

from boustro import Writer
from boustro.lab.generation.models import CausalLM, open_lm
from boustro.metrics.significance import bootstrap, difference
from boustro.text.documents import read_documents

CAUSAL = {"left-to-right"}


def mean(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Of one value per example, (B, S)."""
    return np.einsum("bn,sn->bs", times, values[..., 0]) / times.sum(1, keepdims=True)


def draw_places(model: str, data: Path, prefix: int, length: int, count: int, seed: int) -> tuple[list, list]:
    """Prompts and texts as pieces, from random documents."""
    lm, rng = open_lm(model), np.random.default_rng(seed)
    documents = [lm.pieces(text) for text in read_documents([str(data)])]
    long = [pieces for pieces in documents if len(pieces) >= prefix + length]
    prompts, texts = [], []
    for number in rng.choice(len(long), count, replace=count > len(long)):
        start = int(rng.integers(len(long[number]) - prefix - length + 1))
        prompts.append(long[number][start : start + prefix])
        texts.append(long[number][start + prefix : start + prefix + length])
    return prompts, texts


def compare(systems: list[str], score: str, samples: int, prompts: list, texts: list) -> None:
    """Print a row of nats a piece for every system that has the score."""
    length, losses = len(texts[0]), {}
    for system in systems:
        folders = system.split(",")
        if score not in CAUSAL and isinstance(open_lm(folders[0]), CausalLM):
            continue
        totals = [Writer(folder, score=score, samples=samples).score_pieces(prompts, texts)[0] for folder in folders]
        losses[system] = -np.array(totals)[..., None] / length
    drawn = dict(zip(losses, bootstrap(mean, list(losses.values())), strict=True))
    first = next(iter(drawn.values()), None)
    for system, sample in drawn.items():
        gap = None if sample is first or first is None else difference(first, sample)
        shown = f"{gap.points:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" if gap else ""
        spread = f" ± {sample.scores.std(ddof=1):.3f}" if len(sample.scores) > 1 else ""
        print(f"| {score} | {system} | {sample.scores.mean():.3f}{spread} | {shown} |", flush=True)


def main(
    models: list[str],
    data: Path,
    scores: tuple[str, ...] = ("bound",),
    prefix: int = 128,
    length: int = 64,
    examples: int = 300,
    samples: int = 16,
    seed: int = 1,
) -> None:
    """Measure, and print a table."""
    prompts, texts = draw_places(models[0].split(",")[0], data, prefix, length, examples, seed)
    print(f"{len(texts):,} texts of {length} pieces after {prefix} pieces\n")
    print("| score | system | nats a piece | against the first (95%) |\n|---|---|---:|---:|")
    for score in scores:
        compare(models, score, samples, prompts, texts)


if __name__ == "__main__":
    tyro.cli(main)
