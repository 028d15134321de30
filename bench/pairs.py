"""Pairs of texts: every encoder under the same head, beside what needs no encoder.

    python bench/pairs.py --data ../shared/data --minilm $MINILM --sets mrpc stsb --seeds 1 2 3

Development sets: every tenth pair of MRPC's and RTE's training data, the others their own. The epoch is chosen there,
for every system. Rows: the majority class (for scores none), logistic or ridge regression on word overlap and on the
TF-IDF of both texts, the head over the embeddings alone (layer 0 of the pair), over the forward LM, the pair, MiniLM.
"""

import json
import lzma
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import f1_score

import boustro
from boustro.metrics.score import score_correlation

FILES = {
    "mrpc": ("glue/mrpc/train.jsonl", None),
    "rte": ("glue/rte/train.jsonl", None),
    "stsb": ("glue/stsb/train.jsonl", "glue/stsb/dev.jsonl"),
    "sick": ("text_classification/sick-train.jsonl.xz", "text_classification/sick-dev.jsonl.xz"),
    "wic": ("word_in_context/mclwic-en-train.jsonl.xz", "word_in_context/mclwic-en-dev.jsonl.xz"),
}
SCORED, ORDERED = ("stsb",), ("rte", "sick")
HELD_OUT = 10


def main(
    data: Path,
    minilm: Path,
    sets: tuple[str, ...] = tuple(FILES),
    seeds: tuple[int, ...] = (1, 2, 3),
    rows: tuple[str, ...] = (),
) -> None:
    """Print a row per system and set as it is ready.

    Args:
        data: The folder of the data sets.
        minilm: The folder of all-MiniLM-L6-v2.
        sets: Names of data sets.
        seeds: Random seeds.
        rows: Names of systems with an encoder; all by default.
    """
    warnings.filterwarnings("ignore", category=FutureWarning)
    systems = encoders(minilm)
    for name in sets:
        train, dev = read(data, name)
        print(f"\n{name}: {len(train):,} pairs for training, {len(dev):,} for development", flush=True)
        for row, figures in baselines(train, dev, name in SCORED).items():
            print(f"{row:24} {figures}", flush=True)
        for row in rows or systems:
            encoder, options = systems[row]
            started, results = time.monotonic(), []
            for seed in seeds:
                task: Any = boustro.PairRegressor if name in SCORED else boustro.PairClassifier
                model = task(encoder, symmetric=name not in ORDERED, **options).fit(train, dev, seed=seed)
                results.append(figures_of(model, dev, name in SCORED))
            print(f"{row:24} {shown(results)}  ({time.monotonic() - started:.0f} s)", flush=True)


def encoders(minilm: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """The rows with an encoder: its spec, and options."""
    return {
        "static": ("starter", {"layers": "0"}),
        "starter-forward": ("starter-forward", {}),
        "starter": ("starter", {}),
        "MiniLM": (f"masked:{minilm}", {}),
    }


def shown(rows: Sequence[Sequence[float]]) -> str:
    """Each figure with its mean and, of several seeds, its standard deviation: `rows` has a list a seed."""
    columns = list(zip(*rows, strict=True))
    return "  ".join(
        f"{statistics.mean(x):.2f}" + (f" ± {statistics.stdev(x):.2f}" if len(x) > 1 else "") for x in columns
    )


def read(data: Path, name: str) -> tuple[list[dict], list[dict]]:
    """The training and the development set, as records."""
    first, second = FILES[name]
    train = read_records(data / first)
    return (train, read_records(data / second)) if second else hold_out(train)


def hold_out(train: list[Any]) -> tuple[list[Any], list[Any]]:
    """All but every tenth example, and every tenth."""
    return [r for i, r in enumerate(train, 1) if i % HELD_OUT], train[HELD_OUT - 1 :: HELD_OUT]


def read_records(path: Path) -> list[dict]:
    """The objects of a file of JSON lines."""
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def figures_of(model: Any, dev: Sequence[dict], scored: bool) -> list[float]:
    """Spearman's and Pearson's correlation, or accuracy and, of two classes, F1 of the second."""
    score = model.evaluate(dev)
    if scored:
        return [score.spearman, score.pearson]
    return [score.accuracy, score.per_label[max(score.per_label)].f1] if len(score.per_label) == 2 else [score.accuracy]


def baselines(train: Sequence[dict], dev: Sequence[dict], scored: bool) -> dict[str, str]:
    """What needs no encoder."""
    if scored:
        gold, wanted = ([r["score"] for r in side] for side in (train, dev))
    else:
        gold, wanted = ([str(r["label"] if "label" in r else r["same"]) for r in side] for side in (train, dev))
    texts = [[r[key] for r in (*train, *dev) for key in ("sentence1", "sentence2")]]
    vectors = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)).fit_transform(texts[0])
    u, v = vectors[0::2], vectors[1::2]
    overlap = np.array([_overlap(r["sentence1"], r["sentence2"]) for r in (*train, *dev)])
    cosine = np.asarray(u.multiply(v).sum(1))
    inputs = {
        "word overlap": csr_matrix(overlap),
        "TF-IDF": hstack([abs(u - v), u.multiply(v), csr_matrix(np.hstack([cosine, overlap]))]).tocsr(),
    }
    rows = {}
    if not scored:
        most = Counter(gold).most_common(1)[0][0]
        rows["majority"] = _shown(wanted, [most] * len(wanted))
    for name, x in inputs.items():
        model: Any = RidgeCV(np.logspace(-2, 2, 9)) if scored else LogisticRegressionCV(cv=5, max_iter=2000)
        predicted = model.fit(x[: len(train)].toarray() if name == "word overlap" else x[: len(train)], gold)
        guesses = predicted.predict(x[len(train) :])
        rows[name] = f"{score_correlation(wanted, guesses).spearman:.1f}" if scored else _shown(wanted, guesses)
    return rows


def _overlap(first: str, second: str) -> list[float]:
    a, b = set(first.lower().split()), set(second.lower().split())
    shared = len(a & b)
    return [shared / len(a | b), shared / max(1, len(a)), shared / max(1, len(b)), len(a) - len(b)]


def _shown(gold: Sequence[str], predicted: Sequence[str]) -> str:
    accuracy = 100 * float(np.mean(np.array(gold) == np.array(predicted)))
    if len(set(gold)) > 2:
        return f"{accuracy:.1f}"
    return f"{accuracy:.1f}  {100 * f1_score(gold, predicted, pos_label=max(set(gold))):.1f}"


if __name__ == "__main__":
    tyro.cli(main)
