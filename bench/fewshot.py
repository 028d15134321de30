"""Many few-shot heads trained in one `solve` or in one each: same heads, same steps.

    plain         a loop in plain PyTorch, with pytorch-crf: modules, autograd, AdamW, padded batches
    one by one    a run each, as `boustro fit` trains it; every head is compared with its twin
    at once       all runs in one call, as `boustro fewshot` trains them

    OMP_NUM_THREADS=2 python bench/fewshot.py --train train.txt --dev dev.txt

Two sets of 30 heads over the vectors of one encoder: `draws`, each with its own sentences, seed and learning rate;
and `search`, ten learning rates over 3 draws. Measured are training, and training with tagging the dev set (30 passes
over its vectors, or one). Wall-clock, in one run, one after the other.
"""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import tyro
from boustro.apps.studies.fewshot.heads import train_by_steps
from boustro.apps.studies.fewshot.options import ShotOptions
from boustro.apps.studies.fewshot.scoring import tag_ids
from boustro.heads.tag_all import tag_all
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torchcrf import CRF

from boustro.apps.studies.core.draws import draw_all, entity_types
from boustro.features.vectors import VectorReader, Vectors, vector_source
from boustro.heads.base import Head
from boustro.heads.factored import factored_tags
from boustro.heads.inputs import Inputs
from boustro.heads.training import predict_inputs
from boustro.tasks.data import read_data

TRAINED = (("linear", None, False), ("mlp", 64, False), ("mlp", 64, True))
"""Kind, hidden width, CRF. Matrix products dominate a wider mlp, so two cores limit its gain."""


Run = tuple[ShotOptions, np.ndarray, int]
"""Options, the numbers of the sentences, the seed."""


def steps_of(run: Run) -> int:
    options, sentences, _ = run
    return options.epochs * -(-len(sentences) // options.batch_sentences)


def plain(hidden: int | None, taught: Vectors, tags: np.ndarray, labels: list[str], runs: list[Run], crf: bool):
    """A plain PyTorch loop without Boustro."""
    vectors, width = torch.from_numpy(taught.words).float(), taught.words.shape[1]
    for run in runs:
        options, sentences, seed = run
        torch.manual_seed(seed)
        inner = [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(options.dropout)] if hidden else []
        body = nn.Sequential(nn.Dropout(options.dropout), *inner, nn.Linear(hidden or width, len(labels)))
        chain = CRF(len(labels), batch_first=True)
        parameters = [*body.parameters(), *(chain.parameters() if crf else ())]
        optimizer = torch.optim.AdamW(parameters, options.lr, weight_decay=0.01)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps_of(run))
        order = np.random.default_rng(seed)
        for _ in range(options.epochs):
            for batch in np.array_split(order.permutation(sentences), steps_of(run) // options.epochs):
                spans = [slice(taught.starts[s], taught.starts[s + 1]) for s in batch]
                x = pad_sequence([vectors[span] for span in spans], batch_first=True)
                y = pad_sequence([torch.from_numpy(tags[span]) for span in spans], batch_first=True, padding_value=-100)
                scores = body(x)
                if crf:
                    loss = -chain(scores, y.clamp_min(0), y != -100, reduction="token_mean")
                else:
                    loss = nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()


def tag_one_by_one(heads: list[Head], asked: Vectors) -> np.ndarray:
    """(heads, words): each head computes scores from the features and decodes the best valid sequences."""
    lengths = np.diff(asked.starts)
    answers = [predict_inputs(head, Inputs([asked.words[:, None]], lengths)) for head in heads]
    return np.stack([np.concatenate([ids for ids, _ in one]) for one in answers])


def check(together: list[Head], heads: list[Head], ours: np.ndarray, theirs: np.ndarray) -> str:
    """The largest difference of a parameter, and the share of words with equal tags."""
    worst = max(
        float((own - other).abs().max())
        for pair in zip(together, heads, strict=True)
        for own, other in zip(*(head.parameters() for head in pair), strict=True)
    )
    return f"{worst:.0e}, {100 * (ours == theirs).mean():.3f}%"


def main(
    train: Path,
    dev: Path,
    encoder: str = "starter",
    shots: int = 16,
    heads: int = 30,
    epochs: int = 20,
    batch_sentences: int = 4,
    dropout: float = 0.1,
) -> None:
    """Measure both, and print the ratios."""
    train_data, dev_data = read_data(train), read_data(dev)
    types = entity_types(train_data)
    labels = factored_tags(types)
    draws = draw_all(train_data, [shots], heads)[shots]
    every = np.unique(np.concatenate(draws))
    reader = VectorReader(vector_source(encoder, train_data), train_data)
    taught, asked = reader.train_vectors(every), reader.vectors(dev_data)
    tags = tag_ids([train_data[s] for s in every], types)
    own = [np.searchsorted(every, draw) for draw in draws]

    def options(m: int) -> ShotOptions:
        return ShotOptions(epochs=epochs, batch_sentences=batch_sentences, dropout=dropout, lr=rates[m % 10])

    rates = [1e-4 * 1.5**n for n in range(10)]
    sets = {
        "draws": [(options(m), own[m], m) for m in range(heads)],
        "search": [(options(m), own[m // 10], 1) for m in range(heads)],
    }
    sentences = sum(map(len, draws)) / heads
    print(
        f"{heads} heads, K = {shots} ({sentences:.0f} sentences), {epochs} epochs of batches of {batch_sentences}, "
        f"width {taught.words.shape[1]}, {len(asked.words):,} dev words, {torch.get_num_threads()} threads"
    )
    titles = "head | runs | plain: training | one by one: training | and tagging | at once: training | and tagging"
    print(f"| {titles} | ratio to plain | to one by one | alike |")
    print("|---|---|" + "---:|" * 8)
    for kind, hidden, crf in TRAINED:
        for name, runs in sets.items():
            own_runs = [(replace(how, hidden=hidden), *rest) for how, *rest in runs]
            given = kind, taught.words, taught.starts, tags, labels
            train_by_steps(*given, own_runs[:2], crf)  # warm up
            marks = [time.perf_counter()]
            together = train_by_steps(*given, own_runs, crf)
            marks.append(time.perf_counter())
            ours = tag_all(together, asked.words, asked.starts)
            marks.append(time.perf_counter())
            single = [head for run in own_runs for head in train_by_steps(*given, [run], crf)]
            marks.append(time.perf_counter())
            theirs = tag_one_by_one(single, asked)
            marks.append(time.perf_counter())
            plain(hidden, taught, tags, labels, runs, crf)
            marks.append(time.perf_counter())
            a, b, c, d, e = np.diff(marks)
            label = (kind if hidden is None else f"{kind} {hidden}") + (" + CRF" if crf else "")
            print(
                f"| {label} | {name} | {e:.1f} s | {c:.1f} s | {c + d:.1f} s | {a:.2f} s | {a + b:.2f} s "
                f"| {e / a:.1f} | {c / a:.1f}, {(c + d) / (a + b):.1f} | {check(together, single, ours, theirs)} |",
                flush=True,
            )


if __name__ == "__main__":
    tyro.cli(main)
