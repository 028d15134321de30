"""A linear model over words beside `boustro fit --task relation`: no LM, no vectors.

    python bench/relation.py --train semeval2010-task8-train.jsonl --dev semeval2010-task8-dev.jsonl

Features are TF-IDF of words and word pairs, in lower case, of four kinds that are kept apart: of the whole text, of the
head, of the tail, and of the words between them, with the word before and the word after. The classifier is a linear
support vector machine; its C has the best score on folds of the training set.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import tyro

from boustro.metrics.relations import score_relations
from boustro.output import give
from boustro.tasks.relation import MarkedText, read_relations

FOLDS = 5


def features(example: MarkedText) -> Iterator[str]:
    """Names of features, as often as they occur."""
    words = [word.lower() for word in example.words]
    first, second = sorted(example.marks)
    parts = {
        "text": words,
        "head": words[slice(*example.head)],
        "tail": words[slice(*example.tail)],
        "between": ["<", *words[first[1] : second[0]], ">"],
        "before": words[max(first[0] - 1, 0) : first[0]],
        "after": words[second[1] : second[1] + 1],
    }
    for name, part in parts.items():
        yield from (f"{name} {word}" for word in part)
        yield from (f"{name} {one} {other}" for one, other in pairwise(part))


def main(train: Path, dev: Path, costs: tuple[float, ...] = (0.1, 0.3, 1, 3, 10), json: Path | None = None) -> None:
    """Train on one file, and print the scores on another."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import StratifiedKFold
    from sklearn.svm import LinearSVC

    examples, asked = read_relations(train), read_relations(dev)
    gold = np.array([example.label for example in examples])
    vectorizer = TfidfVectorizer(analyzer=lambda example: list(features(example)), sublinear_tf=True)
    x, folds = vectorizer.fit_transform(examples), StratifiedKFold(FOLDS, shuffle=True, random_state=0)

    def held_out(cost: float) -> float:
        predicted = np.empty_like(gold)
        for kept, left in folds.split(x, gold):
            predicted[left] = LinearSVC(C=cost).fit(x[kept], gold[kept]).predict(x[left])
        return score_relations(gold.tolist(), predicted.tolist()).f1

    tried = {cost: held_out(cost) for cost in costs}
    best = max(tried, key=tried.__getitem__)
    answers = LinearSVC(C=best).fit(x, gold).predict(vectorizer.transform(asked))
    score = score_relations([str(example.label) for example in asked], answers.tolist())
    facts = {"features": x.shape[1], "cost": best, "held_out": tried, **score.to_dict()}
    give(facts, json, lambda: print(f"C = {best:g}, {x.shape[1]:,} features: macro F1 {score.f1:.2f}"), indent=1)


if __name__ == "__main__":
    tyro.cli(main)
