"""Topics from their names: accuracy and calibration without any label, alone and with the texts, and what fits none;
and micro F1 where a text may have several: a third of each set's texts, and the others in pairs, which are joined.

    python bench/topics.py --data ../shared/data
    python bench/topics.py --data ../shared/data --sets few
    python bench/topics.py --data ../shared/data --shots 1 2 3 5 8 16 --draws 5

`few` are short messages with few labels: the sample, `messages.jsonl` beside this script (eighty of our own, in five
topics), five intents of CLINC150 and of Banking77 drawn at random, twenty times, and the intents of Banking77 whose
names share a word.

With `--shots` what `fit` makes of so many texts a label, and of as many drawn at random, whatever their labels: the
names alone, examples alone (labels that are numbers), both, and both with the texts that are asked as texts without a
label. At most 300 of the dev texts are asked; of the sample and the messages all that are not learned.

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
from boustro.text.files import DataFile

SETS = ("banking77", "clinc150", "agnews", "trec", "sst-sentences")
FEW, GROUPS = 5, ("card", "transfer", "top_up", "cash", "verify", "exchange")
"""Intents that are drawn together, and words of intents of Banking77."""
MOST_ASKED = 300
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
    return [(row["text"], str(row["label"])) for _, row in DataFile(path).open("json")]


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


def of_package(name: str) -> list[tuple[str, str]]:
    """The sample, or our own messages."""
    sample = Path(str(files("boustro") / "data" / "sample"))
    own = [sample / "topics.jsonl", sample / "dev-topics.jsonl"]
    return [
        row
        for path in (own if name == "sample" else [Path(__file__).with_name("messages.jsonl")])
        for row in read(path)
    ]


def judge_few(folder: Path) -> None:
    """Calibration of names where labels are few and messages short."""
    sets: dict[str, list[list[tuple[str, str]]]] = {name: [of_package(name)] for name in ("sample", "messages")}
    for name in ("clinc150", "banking77"):
        rows = read(folder / f"{name}-dev.jsonl.xz")
        known = sorted({label for _, label in rows})
        chosen = [set(np.random.default_rng(n).choice(known, FEW, replace=False)) for n in range(20)]
        sets[f"{name}, {FEW}"] = [[row for row in rows if row[1] in some] for some in chosen]
        if name == "banking77":
            groups = [{label for label in known if word in label} for word in GROUPS]
            sets["banking77 groups"] = [[row for row in rows if row[1] in some] for some in groups]
    for name, several in sets.items():
        for what, knowing in (("names alone", False), ("with the texts", True)):
            scores, right = list[float](), list[bool]()
            for rows in several:
                texts, gold = map(list, zip(*rows, strict=True))
                answers = Classifier.from_labels(sorted(set(gold)), texts if knowing else (), none=0).predict(texts)
                scores += [answer.score for answer in answers]
                right += [answer.label == label for answer, label in zip(answers, gold, strict=True)]
            wrong = np.mean([score for score, hit in zip(scores, right, strict=True) if not hit])
            error = 100 * reliability(scores, right).error
            print(
                f"{name:17} {what:15} {100 * np.mean(right):5.1f}  ECE {error:4.1f}  wrong at {wrong:.2f}", flush=True
            )


def judge_shots(name: str, folder: Path, shots: tuple[int, ...], draws: int) -> None:
    """Accuracy and calibration of `fit` from few texts, drawn equal and drawn at random."""
    whole = name in ("sample", "messages")
    pool = of_package(name) if whole else read(folder / f"{name}-train.jsonl.xz")
    asked = [] if whole else read(folder / f"{name}-dev.jsonl.xz")
    asked = [asked[n] for n in np.random.default_rng(0).permutation(len(asked))[:MOST_ASKED]]
    known = sorted({label for _, label in pool})
    means = dict(zip(known, MEANS.get(name, known), strict=True))
    numbers = {label: str(n) for n, label in enumerate(known)}
    for how in ("equal", "random"):
        for k in shots:
            found: dict[str, list[tuple[float, float]]] = {}
            for draw in range(draws):
                order = np.random.default_rng([draw, k]).permutation(len(pool)).tolist()
                own = {label: [n for n in order if pool[n][1] == label][:k] for label in known}
                some = [n for each in own.values() for n in each] if how == "equal" else order[: k * len(known)]
                rest = asked or [pool[n] for n in order if n not in some]
                if whole and (len(rest) < len(pool) / 4 or min(map(len, own.values())) < k):
                    continue
                given, texts = [pool[n] for n in some], [text for text, _ in rest]
                gold, unlabelled = [label for _, label in rest], [(text, None) for text, _ in rest]
                hidden = {label: numbers[label] for label in known}
                described = {"types": tuple(known), **({"describe": means} if name in MEANS else {})}
                models = {
                    "names": (Classifier.from_labels(means, none=0), {}),
                    "examples": (
                        Classifier(types=tuple(hidden.values())).fit([(t, hidden[y]) for t, y in given]),
                        hidden,
                    ),
                    "fit": (Classifier(**described).fit(given), {}),
                    "fit + texts": (Classifier(**described).fit([*given, *unlabelled]), {}),
                }
                for what, (model, names) in models.items():
                    examples = [part.example for text in texts for part in model.inputs.split(text, "text")]
                    answers = model.answer(examples, cached=True)
                    right = [a.tags[0] == names.get(y, y) for a, y in zip(answers, gold, strict=True)]
                    error = reliability([a.scores[0] for a in answers], right).error
                    found.setdefault(what, []).append((100 * float(np.mean(right)), 100 * error))
            means_of = {what: np.mean(values, 0) for what, values in found.items()}
            shown = "  ".join(f"{what} {right:5.1f} ({error:2.0f})" for what, (right, error) in means_of.items())
            print(f"{name:14} {how:6} {k:2}  {shown}", flush=True) if means_of else None


def best_scores(model: Any, texts: list[str]) -> np.ndarray:
    examples = [part.example for text in texts for part in model.inputs.split(text, "text")]
    return np.stack(model.fitted.outputs(examples)).max(1)


def main(
    data: Path, sets: tuple[str, ...] = (*SETS, "sample", "messages"), shots: tuple[int, ...] = (), draws: int = 5
) -> None:
    folder = data / "text_classification"
    for name in sets:
        if shots:
            judge_shots(name, folder, shots, draws)
            continue
        if name == "few":
            judge_few(folder)
            continue
        rows = of_package(name) if name in ("sample", "messages") else read(folder / f"{name}-dev.jsonl.xz")
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
