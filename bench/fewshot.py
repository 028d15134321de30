"""Many few-shot heads trained in one `train_many` or in one each: same heads, same steps.

    one by one    a run each, as `boustro fit --preset few` trains it; every head is compared with its twin
    at once       all runs in one call, as `boustro fewshot` trains them

    OMP_NUM_THREADS=2 python bench/fewshot.py --train train.txt

Two sets of 30 heads over the vectors of one encoder: `draws`, each with its own sentences, seed and learning rate; and
`search`, ten learning rates over 3 draws. Wall-clock of training alone, in one run, one after the other, in float32.
"""

import time
from pathlib import Path

import numpy as np
import torch
import tyro

import boustro
from boustro.apps.studies.core.draws import draw_all
from boustro.heads.inputs import HeadInputs
from boustro.heads.registry import HEADS
from boustro.heads.solve import HeadRun, TrainingJob, train_heads, train_many
from boustro.tasks.data import read_data
from boustro.tasks.fitting.training import new_head
from boustro.tasks.labellings import make_labelling

TRAINED = (("linear", None, False), ("mlp", 64, False), ("mlp", 64, True), ("mlp", 512, True))
"""Kind, hidden width, CRF. Matrix products dominate a wide mlp, so two cores limit its gain."""


def alike(together: list, alone: list) -> float:
    """The largest difference of a parameter."""
    pairs = ((a.head.parameters(), b.head.parameters()) for a, b in zip(together, alone, strict=True))
    return max(float((one - other).abs().max().detach()) for pair in pairs for one, other in zip(*pair, strict=True))


def main(
    train: Path,
    encoder: str = "starter",
    shots: int = 16,
    heads: int = 30,
    epochs: int = 20,
    batch_sentences: int = 4,
    dropout: float = 0.1,
) -> None:
    """Measure both, and print the ratios."""
    data = read_data(train)
    draws = [[data[n] for n in draw] for draw in draw_all(data, [shots], heads)[shots]]
    tagger = boustro.Tagger(encoder, preset="few", context="sentence")
    read: list[HeadInputs] = [tagger.plan.reader.read(draw, cached=True) for draw in draws]
    rates = [1e-4 * 1.5**n for n in range(10)]
    print(f"{heads} heads, K = {shots}, {epochs} epochs of {batch_sentences}, {torch.get_num_threads()} threads")
    print("| head | runs | one by one | at once | ratio | alike |\n|---|---|---:|---:|---:|---:|")
    for kind, hidden, crf in TRAINED:
        for name, chosen in {"draws": range(heads), "search": np.arange(heads) // 10}.items():
            jobs = []
            for m, draw in enumerate(map(int, chosen)):
                settings = {"epochs": epochs, "batch_sentences": batch_sentences, "dropout": dropout, "crf": crf}
                settings |= {"lr": rates[m % 10], "mix_epochs": 0, **({"hidden": hidden} if hidden else {})}
                options, labelling = (
                    HEADS[kind].options(**settings),
                    make_labelling(kind, draws[draw], HEADS[kind].options()),
                )
                plan = boustro.Tagger(encoder, kind, context="sentence").plan
                shape = new_head(plan, labelling, draws[draw]).shape
                jobs.append(TrainingJob(shape, read[draw], labelling.targets(draws[draw]), HeadRun(options, m)))
            train_many(jobs[:2], bf16=False)  # warm up
            marks = [time.perf_counter()]
            together = train_many(jobs, bf16=False)
            marks.append(time.perf_counter())
            alone = [train_heads(*job[:3], [job.run], bf16=False)[0] for job in jobs]
            marks.append(time.perf_counter())
            at_once, one_by_one = np.diff(marks)
            label = (kind if hidden is None else f"{kind} {hidden}") + (" + CRF" if crf else "")
            print(
                f"| {label} | {name} | {one_by_one:.1f} s | {at_once:.2f} s | {one_by_one / at_once:.1f} "
                f"| {alike(together, alone):.0e} |",
                flush=True,
            )


if __name__ == "__main__":
    tyro.cli(main)
