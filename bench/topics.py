"""Topics from their names: accuracy and calibration without any label, alone and with the texts, and what fits none;
and micro F1 where a text may have several: a third of each set's texts, and the others in pairs, which are joined.

    python bench/topics.py --data ../shared/data

`--data` has text_classification/SET-dev.jsonl.xz for each set of `SETS`, and clinc150-oos-dev.jsonl.xz; each line is a
text and its label. Names are read as they stand; TREC's and SST's labels are numbers, so they are described. The
sample's topics are those of the package.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from sklearn.metrics import roc_auc_score

from boustro import Classifier
from boustro.metrics.score import reliability
from boustro.text.files import open_rows

SETS = ("banking77", "clinc150", "agnews", "trec", "sst-sentences")
MOST_JOINED = 900
"""Texts of a set from which those with several labels are made."""
MEANS = {
    "trec": [
        "description and abstract concept",
        "entity, thing",
        "abbreviation",
        "human being, person",
        "number",
        "place",
    ],
    "sst-sentences": ["negative", "positive"],
}


def read(path: Path) -> list[tuple[str, str]]:
    return [(row["text"], str(row["label"])) for _, row in open_rows(path, "json")]


def judge(name: str, labels: dict[str, str], texts: list[str], gold: list[str]) -> Any:
    for what, given in (("names alone", ()), ("with the texts", texts)):
        model = Classifier.from_labels(labels, given, none=0)
        answers = model.predict(texts)
        right = [answer.label == label for answer, label in zip(answers, gold, strict=True)]
        error = 100 * reliability([answer.score for answer in answers], right).error
        print(f"{name:14} {what:15} {100 * np.mean(right):5.1f}  ECE {error:4.1f}", flush=True)
    return model


def judge_several(name: str, labels: dict[str, str], rows: list[tuple[str, str]]) -> None:
    third = len(rows) // 3
    order = [rows[n] for n in np.random.default_rng(0).permutation(len(rows))[: 3 * third]]
    pairs = zip(order[third : 2 * third], order[2 * third :], strict=True)
    given = [(text, {label}) for text, label in order[:third]]
    given += [(f"{one} {other}", {first, second}) for (one, first), (other, second) in pairs]
    texts = [text for text, _ in given]
    for what, some in (("names alone", ()), ("with the texts", texts)):
        answers = Classifier.from_labels(labels, some, several=True).predict(texts)
        said = [(set(answer.labels), wanted) for answer, (_, wanted) in zip(answers, given, strict=True)]
        right, answered, gold = (sum(map(len, sets)) for sets in zip(*((a & b, a, b) for a, b in said), strict=True))
        print(f"{name:14} {what:15} several: F1 {200 * right / (answered + gold):5.1f}", flush=True)


def best_scores(model: Any, texts: list[str]) -> np.ndarray:
    examples = [part.example for text in texts for part in model.split(text, "text")]
    return np.stack(model.fitted.outputs(examples)).max(1)


def main(data: Path, sets: tuple[str, ...] = (*SETS, "sample")) -> None:
    folder = data / "text_classification"
    for name in sets:
        if name == "sample":
            sample = Path(str(files("boustro") / "data" / "sample"))
            rows = [row for part in ("topics", "dev-topics") for row in read(sample / f"{part}.jsonl")]
        else:
            rows = read(folder / f"{name}-dev.jsonl.xz")
        texts, gold = map(list, zip(*rows, strict=True))
        known = sorted(set(gold))
        means = dict(zip(known, MEANS.get(name, known), strict=True))
        model = judge(name, means, texts, gold)
        judge_several(name, means, rows[:MOST_JOINED])
        if name == "clinc150":
            other = [text for text, _ in read(folder / "clinc150-oos-dev.jsonl.xz")]
            mixed = Classifier.from_labels(known, [*texts, *other])
            for what, judged in (("own texts", model), ("both", mixed)):
                scores = [best_scores(judged, some) for some in (texts, other)]
                truth = np.repeat([1, 0], [len(texts), len(other)])
                print(f"  out of scope, knowing {what}: AUROC {roc_auc_score(truth, np.concatenate(scores)):.3f}")
            share = [np.mean([not answer.label for answer in mixed.predict(some)]) for some in (other, texts)]
            print(
                f"  no label: {100 * share[0]:.0f}% of those out of scope, {100 * share[1]:.1f}% of its own", flush=True
            )


if __name__ == "__main__":
    tyro.cli(main)
