"""Sentence embeddings on scored pairs: untrained ones, trained ones, and their controls.

    python bench/embeddings.py --train train.jsonl --dev dev.jsonl --rows untrained
    python bench/embeddings.py --train train.jsonl --dev dev.jsonl --rows trained --minilm FOLDER

Statistics are those of the training texts, without their scores. Spearman's correlation on the development pairs, in
percent; of trained rows the mean and the spread of three seeds, at the last epoch.
"""

import json
import time
from pathlib import Path

import numpy as np
import tyro
from sklearn.feature_extraction.text import TfidfVectorizer

import boustro
from boustro.metrics.score import score_correlation
from boustro.tasks.pairs import PAIRS

FORWARD = "starter-forward"
HALVES = FORWARD, "starter-backward"
UNTRAINED = [
    ("starter", "0", "sif", "raw"),
    ("starter", "0", "sif", "standardised"),
    ("starter", "0", "sif", "whitened"),
    ("starter", "0", "mean", "raw"),
    ("starter", "0", "mean", "whitened"),
    ("starter", "-1", "mean", "raw"),
    ("starter", "-1", "mean", "standardised"),
    ("starter", "-1", "mean", "whitened"),
    ("starter", "-1", "sif", "whitened"),
    ("starter", "-1", "echo", "raw"),
    ("starter", "-1", "echo", "whitened"),
    (FORWARD, "0", "sif", "whitened"),
    (FORWARD, "-1", "mean", "whitened"),
    ("minilm", "0", "sif", "whitened"),
    ("minilm", "-1", "mean", "raw"),
    ("minilm", "-1", "mean", "whitened"),
]
TRAINED = [
    ("starter", "0"),
    ("starter", "0,2"),
    (FORWARD, "0"),
    (FORWARD, "0,2"),
    (f"{FORWARD}+{FORWARD}", "0,2"),
    ("starter", "-1"),
    ("minilm", "-1"),
]


def main(
    train: Path,
    dev: Path,
    rows: str = "untrained",
    minilm: Path | None = None,
    seeds: int = 3,
    epochs: int = 5,
    only: tuple[int, ...] = (),
    model: Path | None = None,
) -> None:
    """Print one row per system."""
    pairs = PAIRS["similarity"].read(dev)
    texts, dev_texts = (texts_of(path) for path in (train, dev))
    if rows == "untrained":
        print(f"TF-IDF | {tf_idf(texts, dev_texts, [pair.score for pair in pairs]):.2f}", flush=True)
    table = UNTRAINED if rows == "untrained" else [(*row, "sif", "whitened") for row in TRAINED]
    for number, (spec, layers, pooling, transform) in enumerate(table):
        if (spec == "minilm" and minilm is None) or (only and number not in only):
            continue
        named = f"masked:{minilm}" if spec == "minilm" else spec
        started, values = time.monotonic(), []
        for seed in range(1, 1 + (seeds if rows == "trained" else 1)):
            read = "+".join(f"repeated:{part}" for part in HALVES) if pooling == "echo" else named
            how = {"layers": layers, "text_pooling": "sif" if pooling == "sif" else "mean", "transform": transform}
            head = "embedding" if rows == "trained" else "statistics"
            made = boustro.SentenceEncoder(read, head, cache=rows == "trained", epochs=epochs, **how)
            if model is not None:
                made = boustro.SentenceEncoder.from_pretrained(model)
            elif rows == "trained":
                made.fit(train, seed=seed)
            else:
                made.fit(list(dict.fromkeys(texts)))
            values.append(made.evaluate(pairs).value)
        spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        seconds = time.monotonic() - started
        print(
            f"{spec} | {layers} | {pooling} | {transform} | {np.mean(values):.2f}{spread} | {seconds:.0f} s", flush=True
        )


def texts_of(path: Path) -> list[str]:
    """The first and the second text of each pair, as they stand in the file."""
    records = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return [record[key] for record in records for key in ("sentence1", "sentence2")]


def tf_idf(texts: list[str], pairs: list[str], scores: list[float]) -> float:
    """Cosines of TF-IDF vectors of words in lower case."""
    vectors = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True).fit(texts)
    first, second = (vectors.transform(pairs[part::2]) for part in (0, 1))
    return score_correlation(scores, np.asarray(first.multiply(second).sum(1)).ravel()).spearman


if __name__ == "__main__":
    tyro.cli(main)
