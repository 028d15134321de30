"""Labels of texts: every encoder under the same head, beside what needs no encoder.

    python bench/texts.py --data ../shared/data --minilm $MINILM --sets trec banking77 --seeds 1 2 3
    python bench/texts.py --data ../shared/data --minilm $MINILM --sets trec banking77 clinc150 sample \
        --shots 2 4 8 16 --num-draws 3 --rows folder folder+starter-memory folder+starter-words

    trec, banking77, clinc150, agnews, sst    their own development sets
    sample                  with --shots: the messages of the package, five parts left out in turn, in each of the draws
    cola                    every tenth training sentence; the Matthews correlation beside the accuracy
    phrases                 sst, and in training the phrases of GLUE's SST-2 too, if they stand in a training sentence
                            and in no development sentence

Rows: the majority class, TF-IDF of words and word pairs with logistic regression, the head over the embeddings alone
(layer 0 of the pair), over the forward LM, the pair, MiniLM, and `default`: what `Classifier()` is; `folder` is
`Classifier(encoder=MINILM)`, which reads the vector of a text too, also beside others. The epoch, and for TF-IDF the
strength, is chosen on the development set, for every system.

With `--shots` the same from K texts per label without a development set, in the draws of `boustro fewshot`; the
strength of TF-IDF is chosen on thirds of them left out, or halves. `three lines` are scikit-learn's: MiniLM's own
vectors (`SentenceTransformer.encode`) under a logistic regression, C = 10. Behind a row of a folder is the difference
to them in the same draws. Seconds are those of the processor.
"""

import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import accuracy_score, matthews_corrcoef
from sklearn.model_selection import StratifiedKFold

import boustro
from boustro.apps.studies.core.draws import draw_all
from boustro.tasks.data.texts import read_texts
from pairs import encoders, hold_out, read_records, shown

Examples = list[tuple[str, str]]
Split = tuple[Examples, Examples]
Fit = Callable[[Examples, Examples], float]
FOLDER = "text_classification"
EPOCHS = {"sst": 6, "phrases": 6}
STRENGTHS = (1, 3, 10, 30)
BASE = "three lines"
FOLDERS = ("folder", "folder+starter", "folder+starter-memory", "folder+starter-words")


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
    warnings.filterwarnings("ignore", category=FutureWarning)
    systems = {name: (spec, {**how, "words": False}) for name, (spec, how) in encoders(minilm).items()}
    systems["default"] = (None, {})
    systems |= {name: (name.replace("folder", str(minilm)), {}) for name in FOLDERS}
    for name in sets:
        if shots:
            print(f"\n{name}", flush=True)
            parts = {"4 of 5": folds(num_draws)} if name == "sample" else drawn(*read(data, name), shots, num_draws)
            found: dict[Any, list[float]] = {}
            for row, how in {**few(minilm), **{row: fitting(*systems[row]) for row in rows or systems}}.items():
                for k, splits in parts.items():
                    found[row, k] = own = [how(train, dev) for train, dev in splits]
                    gap = np.subtract(own, found[BASE, k]) if row in FOLDERS else None
                    behind = "" if gap is None else f"  {gap.mean():+.1f} ± {gap.std(ddof=1):.1f}"
                    print(f"{row}, K = {k:<12} {shown([[one] for one in own])}{behind}", flush=True)
            continue
        train, dev = read(data, name)
        print(f"\n{name}: {len(train):,} texts for training, {len(dev):,} for development", flush=True)
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


def drawn(train: Examples, dev: Examples, shots: Sequence[int], num_draws: int) -> dict[int, list[Split]]:
    """For every K the draws, each with the whole development set."""
    draws = draw_all(read_texts(train), shots, num_draws)
    return {k: [([train[n] for n in own], dev) for own in each] for k, each in draws.items()}


def folds(num_draws: int) -> list[Split]:
    """The messages of the package, each fifth left out, parted so many times."""
    lines = (files("boustro") / "data" / "sample" / "topics.jsonl").read_text("utf-8").splitlines()
    given = [(record["text"], record["label"]) for record in map(json.loads, lines)]
    splits = []
    for seed in range(num_draws):
        for kept, left in StratifiedKFold(5, shuffle=True, random_state=seed).split(
            given, [label for _, label in given]
        ):
            splits.append(([given[n] for n in kept], [given[n] for n in left]))
    return splits


def few(minilm: Path) -> dict[str, Fit]:
    """What needs no encoder of ours, from few texts: the accuracy on other texts."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm), device="cpu")
    known: dict[str, Any] = {}

    def words(train: Examples, dev: Examples) -> float:
        (x, y), gold = tfidf(train, dev), [label for _, label in train]
        how: dict[str, Any] = {"Cs": STRENGTHS, "cv": min(3, *Counter(gold).values()), "max_iter": 2000}
        return accuracy(LogisticRegressionCV(**how).fit(x, gold).predict(y), dev)

    def encode(examples: Examples) -> np.ndarray:
        new = list(dict.fromkeys(text for text, _ in examples if text not in known))
        known.update(zip(new, model.encode(new), strict=True))
        return np.stack([known[text] for text, _ in examples])

    def three_lines(train: Examples, dev: Examples) -> float:
        fitted = LogisticRegression(C=10, max_iter=2000).fit(encode(train), [label for _, label in train])
        return accuracy(fitted.predict(encode(dev)), dev)

    return {"TF-IDF": words, BASE: three_lines}


def fitting(encoder: str | None, options: dict[str, Any]) -> Fit:
    """The same of a classifier of ours."""

    def fit(train: Examples, dev: Examples) -> float:
        classifier = boustro.Classifier(encoder, **options).fit(train, seed=1)
        answers = classifier.answer(read_texts(dev), cached=True)  # so each set is encoded once, whatever is trained
        return accuracy([answer.tags[0] for answer in answers], dev)

    return fit


def accuracy(answers: Sequence[str], dev: Examples) -> float:
    """In percent."""
    return 100 * float(accuracy_score([label for _, label in dev], list(answers)))


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
