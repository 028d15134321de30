"""Many few-shot heads trained at once (`train_stacked`) or one after another: same heads, same steps.

    plain         a loop in plain PyTorch, with pytorch-crf: modules, autograd, AdamW, padded batches
    one by one    `train_head`, as `boustro fit` runs it; every head is compared with its copy in the stack
    at once       `train_stacked`, as `boustro fewshot` runs it

    OMP_NUM_THREADS=2 python bench/fewshot.py --train train.txt --dev dev.txt

Two sets of 30 heads over the vectors of one encoder: `draws`, each with its own sentences, seed and learning rate;
and `search`, ten learning rates over 3 draws. Measured are training, and training with tagging the dev set (30 passes
over its vectors, or one). Wall-clock, in one run, one after the other.
"""

import time
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torchcrf import CRF

from boustro.features.vectors import VectorReader, Vectors, vector_source
from boustro.heads.base import Head
from boustro.heads.factored import factored_tags
from boustro.heads.inputs import Inputs
from boustro.heads.many.groups import HeadRun
from boustro.heads.many.stack import StackedHeads
from boustro.heads.many.training import train_stacked
from boustro.heads.registry import HEADS, make_head
from boustro.heads.rows import sentence_rows
from boustro.heads.training import predict_inputs, train_head
from boustro.studies.core.draws import draw_all, entity_types
from boustro.studies.fewshot.scoring import tag_ids
from boustro.tasks.data import read_data

TRAINED = (("linear", None, False), ("mlp", 64, False), ("mlp", 64, True))
"""Kind, hidden width, CRF. Matrix products dominate a wider mlp, so two cores limit its gain."""


def one_by_one(
    kind: str, hidden: int | None, taught: Vectors, tags: np.ndarray, labels: list[str], runs: list[HeadRun], crf: bool
):
    """Train the heads with `train_head`."""
    heads = []
    for run in runs:
        sentences = np.array(run.sentences)
        rows, _ = sentence_rows(taught.starts, sentences)
        own = torch.from_numpy(tags[rows])
        torch.manual_seed(run.seed)
        own = {"hidden": hidden, "crf": crf, "dropout": run.dropout, "standardise": False}
        own |= {"epochs": run.epochs, "lr": run.lr, "weight_decay": run.weight_decay, "mix_epochs": 0}
        own |= {"batch_sentences": run.batch_sentences}
        chosen = HEADS[kind].options.of_saved(own)
        head = make_head(kind, chosen, ((1, taught.words.shape[1]),), labels)
        lengths, targets = np.diff(taught.starts)[sentences], lambda _, batch, own=own: own[batch]
        inputs = Inputs([taught.words[rows][:, None]], lengths)
        train_head(head, inputs, targets, run.seed, bf16=False)  # heads that are trained together are in fp32
        heads.append(head)
    return heads


def plain(
    kind: str, hidden: int | None, taught: Vectors, tags: np.ndarray, labels: list[str], runs: list[HeadRun], crf: bool
):
    """A plain PyTorch loop without Boustro."""
    vectors, width = torch.from_numpy(taught.words).float(), taught.words.shape[1]
    for run in runs:
        torch.manual_seed(run.seed)
        inner = [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(run.dropout)] if hidden else []
        body = nn.Sequential(nn.Dropout(run.dropout), *inner, nn.Linear(hidden or width, len(labels)))
        chain = CRF(len(labels), batch_first=True)
        parameters = [*body.parameters(), *(chain.parameters() if crf else ())]
        optimizer = torch.optim.AdamW(parameters, run.lr, weight_decay=run.weight_decay)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, run.steps)
        order = np.random.default_rng(run.seed)
        for _ in range(run.epochs):
            for batch in np.array_split(order.permutation(run.sentences), run.steps // run.epochs):
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


def check(stacked: StackedHeads, heads: list[Head], ours: np.ndarray, theirs: np.ndarray) -> str:
    """The largest difference of a parameter, and the share of words with equal tags."""
    worst = max(
        float((own - head.state_dict()[name]).abs().max())
        for m, head in enumerate(heads)
        for name, own in stacked.state(m).items()
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
    own = [tuple(int(i) for i in np.searchsorted(every, draw)) for draw in draws]
    common = {"epochs": epochs, "batch_sentences": batch_sentences, "dropout": dropout}
    rates = [1e-4 * 1.5**n for n in range(10)]
    sets = {
        "draws": [HeadRun(sentences=own[m], seed=m, lr=rates[m % 10], **common) for m in range(heads)],
        "search": [HeadRun(sentences=own[m // 10], seed=1, lr=rates[m % 10], **common) for m in range(heads)],
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
            train_stacked(kind, taught.words, taught.starts, tags, labels, runs[:2], hidden, crf)  # warm up
            marks = [time.perf_counter()]
            stacked = train_stacked(kind, taught.words, taught.starts, tags, labels, runs, hidden, crf)
            marks.append(time.perf_counter())
            ours = stacked.best_tags(asked.words, asked.starts)
            marks.append(time.perf_counter())
            single = one_by_one(kind, hidden, taught, tags, labels, runs, crf)
            marks.append(time.perf_counter())
            theirs = tag_one_by_one(single, asked)
            marks.append(time.perf_counter())
            plain(kind, hidden, taught, tags, labels, runs, crf)
            marks.append(time.perf_counter())
            a, b, c, d, e = np.diff(marks)
            label = (kind if hidden is None else f"{kind} {hidden}") + (" + CRF" if crf else "")
            print(
                f"| {label} | {name} | {e:.1f} s | {c:.1f} s | {c + d:.1f} s | {a:.2f} s | {a + b:.2f} s "
                f"| {e / a:.1f} | {c / a:.1f}, {(c + d) / (a + b):.1f} | {check(stacked, single, ours, theirs)} |",
                flush=True,
            )


if __name__ == "__main__":
    tyro.cli(main)
