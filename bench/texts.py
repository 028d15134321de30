"""Labels of texts: every encoder under the same head, beside what needs no encoder.

    python bench/texts.py --data ../shared/data --minilm $MINILM --sets trec banking77 --seeds 1 2 3
    python bench/texts.py --data ../shared/data --minilm $MINILM --sets trec --shots 8 16

    trec, banking77, sst    their own development sets
    cola                    every tenth training sentence; the Matthews correlation beside the accuracy
    phrases                 sst, and in training the phrases of GLUE's SST-2 too, if they stand in a training sentence
                            and in no development sentence

Rows: the majority class, TF-IDF of words and word pairs with logistic regression, the head over the embeddings alone
(layer 0 of the pair), over the forward LM, the pair, MiniLM, and `default`: what `Classifier()` is, with words beside
the pair. The epoch, and for TF-IDF the strength, is chosen on the development set, for every system.

With `--shots` the same from K texts per label without a development set, in the draws of `boustro fewshot`; the
strength of TF-IDF is chosen on thirds of them left out. Seconds are those of the processor.
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import accuracy_score, matthews_corrcoef

import boustro
from boustro.apps.studies.core.draws import draw_all
from boustro.tasks.data.texts import read_texts
from pairs import encoders, hold_out, read_records, shown

Examples = list[tuple[str, str]]
FOLDER = "text_classification"
EPOCHS = {"sst": 6, "phrases": 6}
STRENGTHS = (1, 3, 10, 30)


def main(
    data: Path,
    minilm: Path,
    sets: tuple[str, ...] = ("trec", "banking77", "sst", "cola", "phrases"),
    seeds: tuple[int, ...] = (1, 2, 3),
    rows: tuple[str, ...] = (),
    shots: tuple[int, ...] = (),
    num_draws: int = 10,
) -> None:
    """Print a row per system and set as it is ready.

    Args:
        data: The folder of the data sets.
        minilm: The folder of all-MiniLM-L6-v2.
        sets: Names of data sets.
        seeds: Random seeds.
        rows: Names of systems with an encoder; all by default.
        shots: Texts per label.
        num_draws: Draws of so few texts.
    """
    systems = {name: (spec, {**how, "words": False}) for name, (spec, how) in encoders(minilm).items()}
    systems["default"] = ("starter", {})
    for name in sets:
        train, dev = read(data, name)
        print(f"\n{name}: {len(train):,} texts for training, {len(dev):,} for development", flush=True)
        if shots:
            for k, found in few(train, dev, shots, num_draws).items():
                print(f"TF-IDF, K = {k:<12} {shown(found)}", flush=True)
            for row in rows or systems:
                encoder, options = systems[row]
                for k, draws in draw_all(read_texts(train), shots, num_draws).items():
                    found = []
                    for own in draws:
                        classifier = boustro.Classifier(encoder, **options).fit([train[n] for n in own], seed=1)
                        found.append([classifier.evaluate(dev).value])
                    print(f"{row}, K = {k:<12} {shown(found)}", flush=True)
            continue
        for row, found in baselines(train, dev).items():
            print(f"{row:24} {shown([scores([label for _, label in dev], found)])}", flush=True)
        for row in rows or systems:
            encoder, options = systems[row]
            started, found = time.process_time(), []
            for seed in seeds:
                classifier = boustro.Classifier(encoder, epochs=EPOCHS.get(name, 10), **options)
                classifier.fit(train, dev, seed=seed)
                score: Any = classifier.evaluate(dev)
                found.append([score.accuracy, *([score.mcc] if len(score.per_label) == 2 else [])])
            print(f"{row:24} {shown(found)}  ({time.process_time() - started:.0f} s)", flush=True)


def read(data: Path, name: str) -> tuple[Examples, Examples]:
    """The training and the development set."""
    if name == "cola":
        return hold_out(examples_of(data / "glue" / "cola" / "train.jsonl"))
    known = "sst-sentences" if name in ("sst", "phrases") else name
    train, dev = (examples_of(data / FOLDER / f"{known}-{part}.jsonl.xz") for part in ("train", "dev"))
    if name == "phrases":
        whole = {text for text, _ in (*train, *dev)}
        learnt, kept = (spans([text for text, _ in side]) for side in (train, dev))
        more = examples_of(data / "glue" / "sst2" / "train.jsonl")
        train += sorted({(p, y) for p, y in more if p in learnt and p not in kept and p not in whole})
    return train, dev


def examples_of(path: Path) -> Examples:
    """Each text of a file with its label."""
    return [(str(r.get("text", r.get("sentence"))).strip(), str(r["label"])) for r in read_records(path)]


def spans(texts: Sequence[str]) -> set[str]:
    """Every sequence of words of every text."""
    split = [text.split() for text in texts]
    return {" ".join(w[i:j]) for w in split for i in range(len(w)) for j in range(i + 1, len(w) + 1)}


def baselines(train: Examples, dev: Examples) -> dict[str, list[str]]:
    """The answers of what needs no encoder."""
    gold = [label for _, label in train]
    x, y = tfidf(train, dev)
    found = [list(LogisticRegression(C=c, max_iter=2000).fit(x, gold).predict(y)) for c in STRENGTHS]
    best = max(found, key=lambda answers: accuracy_score([label for _, label in dev], answers))
    return {"majority": [Counter(gold).most_common(1)[0][0]] * len(dev), "TF-IDF": best}


def few(train: Examples, dev: Examples, shots: Sequence[int], num_draws: int) -> dict[int, list[list[float]]]:
    """Scores of TF-IDF, for every K and draw."""
    x, y = tfidf(train, dev)
    gold, wanted = ([label for _, label in side] for side in (train, dev))
    how: dict[str, Any] = {"Cs": STRENGTHS, "cv": 3, "max_iter": 2000}
    found: dict[int, list[list[float]]] = {k: [] for k in shots}
    for k, draws in draw_all(read_texts(train), shots, num_draws).items():
        for own in draws:
            answers = LogisticRegressionCV(**how).fit(x[own], [gold[n] for n in own]).predict(y)
            found[k].append(scores(wanted, answers))
    return found


def tfidf(train: Examples, dev: Examples) -> tuple[Any, Any]:
    """Vectors of both sets; the frequencies are those of the training texts."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]")
    return vectorizer.fit_transform(text for text, _ in train), vectorizer.transform([text for text, _ in dev])


def scores(gold: Sequence[str], answers: Sequence[str]) -> list[float]:
    """Accuracy and, of two labels, the Matthews correlation, in percent."""
    both = [accuracy_score(gold, answers), *([matthews_corrcoef(gold, answers)] if len({*gold}) == 2 else [])]
    return [100 * float(value) for value in both]


if __name__ == "__main__":
    tyro.cli(main)
