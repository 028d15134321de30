"""Question answering: every encoder under the same head, beside rules and match features, on three domains.

    python bench/questions.py --data ../shared/data --minilm $MINILM --seeds 1 2 3

    sentence   the sentence with the largest weighted share of the question's words (TF-IDF overlap)
    window     the six words with the most of the question's words around them, and few of their own (sliding window)

Trained on the questions of `qa/` in DATA, without a development set; scored on Wikipedia (other articles), reviews and
novels. Then the gain of the pair over the forward LM, with a paired bootstrap over questions, by the place of the cue:
the nearest word of the context that matches a rare word of the question. A forward LM has read it where the answer
follows. Sources: Richardson, Burges and Renshaw 2013 (sliding window); Rajpurkar et al. 2016, section 5.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tyro

from boustro.metrics.questions import match, score_answers
from boustro.metrics.significance import bootstrap, difference, f1
from boustro.tasks.questions import QuestionAnswerer
from boustro.tasks.questions.data import Question, read_questions
from boustro.tasks.questions.labelling import HEAVY, answer_text, match_features, read_contexts_once, stem_weights
from pairs import encoders, shown

WEIGHT, NEAR, COVERED = 3, 6, 12  # columns of `match_features`: weight of a match, ten words around, sentence
WORDS = 6
TRAIN = ("squad11-part-train", "newwiki-train")
DEV = {"Wikipedia": "newwiki-dev", "reviews": "amazon-dev", "novels": "novels-dev"}


def main(data: Path, minilm: Path, seeds: tuple[int, ...] = (1, 2, 3), rows: tuple[str, ...] = ()) -> None:
    """Print exact match and F1 of both rules and of each encoder, then the gain of the second direction.

    Args:
        data: The folder of the data sets.
        minilm: The folder of all-MiniLM-L6-v2.
        seeds: Random seeds.
        rows: Names of systems with an encoder; all by default.
    """
    systems = encoders(minilm)
    train = [q for name in TRAIN for q in read_questions(data / "qa" / f"{name}.jsonl.xz")]
    dev = {domain: read_questions(data / "qa" / f"{name}.jsonl.xz") for domain, name in DEV.items()}
    weights = stem_weights({q.context.words for q in train})
    features = {
        domain: [match_features(q.question.words, q.context.words, weights)[len(q.question) :] for q in questions]
        for domain, questions in dev.items()
    }
    print(
        f"{len(train):,} questions for training; EM and F1 on " + ", ".join(f"{d} ({len(q):,})" for d, q in dev.items())
    )
    for name, rule in (("sentence", best_sentence), ("window", best_window)):
        answered = {d: [rule(q, x) for q, x in zip(dev[d], features[d], strict=True)] for d in dev}
        show(name, [[v for d in dev for v in figures(dev[d], spans_text(dev[d], answered[d]))]], 0)
    values: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)  # by system and domain, a vector a seed
    for name in rows or systems:
        encoder, options = systems[name]
        started, scores = time.monotonic(), []
        for seed in seeds:
            answerer = QuestionAnswerer(encoder, **options).fit(train, seed=seed)
            scores.append([])
            for domain, questions in dev.items():
                given = zip(questions, answerer.answer(questions, cached=True), strict=True)
                answers = [answer_text(q, a) for q, a in given]
                scores[-1] += figures(questions, answers)
                values[name, domain].append(each_f1(questions, answers))
        show(name, scores, time.monotonic() - started)
    if ("starter", "Wikipedia") in values and ("starter-forward", "Wikipedia") in values:
        show_gain(dev, features, values)


def show_gain(
    dev: dict[str, list[Question]],
    features: dict[str, list[np.ndarray]],
    values: dict[tuple[str, str], list[np.ndarray]],
) -> None:
    """What the pair has above the forward LM, with the 95% interval, in all and by the place of the cue."""
    print("\nF1 of the pair minus F1 of the forward LM, over all seeds")
    for domain, questions in dev.items():
        order = np.array([cue_order(q, x) for q, x in zip(questions, features[domain], strict=True)])
        for name in ("all", *sorted(set(order))):
            chosen = np.full(len(order), True) if name == "all" else order == name
            first, second = bootstrap(
                f1, [np.stack(values[row, domain])[:, chosen] for row in ("starter-forward", "starter")]
            )
            gap = difference(first, second)
            interval = "" if gap is None else f"{gap.points:+5.1f} ({gap.low:.1f} to {gap.high:.1f})"
            print(f"    {domain:10} {name:24} {chosen.sum():6,} questions  {interval}", flush=True)


def show(name: str, scores: Sequence[Sequence[float]], seconds: float) -> None:
    """One row of the table: EM and F1 on each domain."""
    print(f"{name:16} {shown(scores)}  ({seconds:.0f} s)", flush=True)


def figures(questions: Sequence[Question], answers: Sequence[str]) -> list[float]:
    """Exact match and F1, in percent."""
    scores = score_answers([q.answers or () for q in questions], answers)
    return [scores.exact_match, scores.f1]


def each_f1(questions: Sequence[Question], answers: Sequence[str]) -> np.ndarray:
    """(questions, 3) values for `significance.f1`, which make it the mean of the answers' own F1."""
    return np.array([(1, 1, match(a, q.answers or ())[1]) for q, a in zip(questions, answers, strict=True)])


def spans_text(questions: Sequence[Question], spans: Sequence[tuple[int, int]]) -> list[str]:
    """The texts of spans of words."""
    return [q.text[q.places[a][0] : q.places[b - 1][1]] for q, (a, b) in zip(questions, spans, strict=True)]


def best_sentence(question: Question, features: np.ndarray) -> tuple[int, int]:
    """The words of the sentence that covers most of the question."""
    sentences = read_contexts_once(question.context.words).sentences
    inside = np.flatnonzero(sentences == sentences[features[:, COVERED].argmax()])
    return int(inside[0]), int(inside[-1]) + 1


def best_window(_question: Question, features: np.ndarray) -> tuple[int, int]:
    """The words whose neighbours are in the question, and that are not in it themselves."""
    value = features[:, NEAR] * (1 - features[:, WEIGHT]) - 0.3 * features[:, WEIGHT]
    size = min(WORDS, len(value))
    start = int(np.convolve(value, np.ones(size), "valid").argmax())
    return start, start + size


def cue_order(question: Question, features: np.ndarray) -> str:
    """Whether the first gold answer stands before or after the nearest match of a rare word of the question."""
    cues = np.flatnonzero(features[:, WEIGHT] > HEAVY)
    if not question.spans or not len(cues):
        return "no cue"
    start, end = min(question.spans)
    before, after = cues[cues < start], cues[cues >= end]
    left = start - before[-1] if len(before) else np.inf
    right = after[0] - end + 1 if len(after) else np.inf
    return "cue inside the answer" if left == right == np.inf else "cue first" if left <= right else "answer first"


if __name__ == "__main__":
    tyro.cli(main)
