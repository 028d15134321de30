"""Masked and causal LMs side by side: nats a piece of held-back text after a prompt, and multiple choice by each score.

    python bench/biglm.py --models my-biglm my-masked my-full my-cold --data validation.jsonl.bz2
    python bench/continuation.py --data ../shared/data --out continuation
    python bench/biglm.py --models my-biglm starter-forward --choices continuation/easy.jsonl continuation/hard.jsonl

Nats: `--examples` random places of the documents, `--prefix` pieces as the prompt and the next `--length` as the text,
the same for all models; differences to the first model with a paired bootstrap over the examples. Lower is better.
`bound` is the Monte Carlo bound, which only masked LMs have. Choices: JSON lines with question, choices (which begin
with their own space) and answer; beside every score stands the choice of the longest text.
"""

import json as jsonlib
from pathlib import Path

import numpy as np
import tyro

from boustro import Writer
from boustro.generation.models import CausalLM, open_lm
from boustro.metrics.significance import bootstrap, difference
from boustro.text.documents import read_documents

CAUSAL = {"left-to-right"}
CHOICE_SCORES = (("one-shot", False), ("one-shot", True), ("duel", False), ("duel", True), ("left-to-right", True))
CHOICE_SCORES += (("gold-order", False), ("gold-order", True))


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


def compare_nats(models: list[str], scores: tuple[str, ...], samples: int, prompts: list, texts: list) -> None:
    """Print nats a piece of every score and model."""
    lengths = np.array([len(text) for text in texts])
    print(f"{len(texts):,} texts of {lengths[0]} pieces after {len(prompts[0])} pieces\n")
    print("| score | model | nats a piece | against the first (95%) |\n|---|---|---:|---:|")
    for score in scores:
        found = {}
        for model in models:
            writer = Writer(model)
            if score not in CAUSAL and isinstance(writer.model, CausalLM):
                continue
            totals, _ = Writer(model, score=score, samples=samples).score_pieces(prompts, texts)
            found[model] = -np.array(totals)[None, :, None] / lengths[0]
        drawn = dict(zip(found, bootstrap(mean, list(found.values())), strict=True))
        first = next(iter(drawn.values()))
        for model, own in drawn.items():
            gap = difference(first, own)
            shown = "" if own is first or gap is None else f"{gap.points:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
            print(f"| {score} | {model} | {own.scores.mean():.3f} | {shown} |", flush=True)


def compare_choices(models: list[str], file: Path, most: int) -> None:
    """Print the accuracy of every score and model."""
    rows = [jsonlib.loads(line) for line in file.read_text("utf-8").splitlines()][:most]
    longest = np.mean([int(np.argmax([len(c) for c in row["choices"]])) == row["answer"] for row in rows])
    print(f"\n{file.stem}: {len(rows):,} questions; longest choice {longest:.1%}\n")
    print("| model | score | right | ± |\n|---|---|---:|---:|")
    pairs = [(row["question"], choice) for row in rows for choice in row["choices"]]
    for model in models:
        causal = isinstance(open_lm(model), CausalLM)
        for score, pmi in CHOICE_SCORES if not causal else (("left-to-right", False), ("left-to-right", True)):
            scored = iter(Writer(model, score=score, pmi=pmi).score(pairs))
            chosen = [int(np.argmax([next(scored).log_prob for _ in row["choices"]])) for row in rows]
            right = np.mean([own == row["answer"] for own, row in zip(chosen, rows, strict=True)])
            spread = (right * (1 - right) / len(rows)) ** 0.5
            print(f"| {model} | {score}{' PMI' if pmi else ''} | {right:.1%} | {spread:.1%} |", flush=True)


def main(
    models: list[str],
    data: Path | None = None,
    choices: tuple[Path, ...] = (),
    scores: tuple[str, ...] = ("bound",),
    prefix: int = 128,
    length: int = 64,
    examples: int = 300,
    samples: int = 16,
    questions: int = 500,
    seed: int = 1,
) -> None:
    """Measure, and print tables."""
    if data is not None:
        prompts, texts = draw_places(models[0], data, prefix, length, examples, seed)
        compare_nats(models, scores, samples, prompts, texts)
    for file in choices:
        compare_choices(models, file, questions)


if __name__ == "__main__":
    tyro.cli(main)
