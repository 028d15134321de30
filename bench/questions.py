"""Question answering without training, and where a trained folder is right: does the answer stand before its cue?

    sentence   the sentence with the largest weighted share of the question's words (TF-IDF overlap)
    window     the six words with the most of the question's words around them, and few of their own (sliding window)

    python bench/questions.py --train train.jsonl --dev dev.jsonl --folders answerer-pair answerer-forward

The cue of an answer is the nearest word of the context that matches a rare word of the question. A forward LM has read
the cue where the answer follows it. Sources: Richardson, Burges and Renshaw 2013 (sliding window); Rajpurkar et al.
2016, section 5.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tyro

from boustro.metrics.questions import AnswerScore, match, score_answers
from boustro.tasks.data.questions import Question, read_questions
from boustro.tasks.labellings.matches import HEAVY, match_features, read_words, stem_weights
from boustro.tasks.labellings.questions import answer_text
from boustro.tasks.questions import QuestionAnswerer

WEIGHT, NEAR, COVERED = 3, 6, 12  # columns of `match_features`: weight of a match, ten words around, sentence
WORDS = 6


def main(train: Path, dev: Path, folders: tuple[Path, ...] = ()) -> None:
    """Print exact match and F1 of both rules and of each folder, and the F1 of each folder by the place of the cue."""
    questions = read_questions(dev)[0]
    weights = stem_weights({q.context.words for q in read_questions(train)[0]})
    features = [match_features(q.question.words, q.context.words, weights)[len(q.question) :] for q in questions]
    show("sentence", score(questions, [best_sentence(q, x) for q, x in zip(questions, features, strict=True)]))
    show("window", score(questions, [best_window(x) for x in features]))
    order = [cue_order(q, x) for q, x in zip(questions, features, strict=True)]
    for folder in folders:
        answerer = QuestionAnswerer.from_pretrained(folder)
        answers = [answer_text(q, a) for q, a in zip(questions, answerer.answer(questions, cached=True), strict=True)]
        show(str(folder), score_answers([q.answers or () for q in questions], answers))
        f1 = np.array([match(a, q.answers or ())[1] for q, a in zip(questions, answers, strict=True)])
        for name in sorted(set(order)):
            own = np.array([o == name for o in order])
            print(f"    {name:<24} {own.sum():6,} questions  F1 {100 * f1[own].mean():5.1f}")


def show(name: str, scores: AnswerScore) -> None:
    """One row of the table."""
    print(f"{name:<28} EM {scores.exact_match:5.1f}  F1 {scores.f1:5.1f}")


def score(questions: Sequence[Question], spans: Sequence[tuple[int, int]]) -> AnswerScore:
    """Scores of spans of words."""
    texts = [q.text[q.places[a][0] : q.places[b - 1][1]] for q, (a, b) in zip(questions, spans, strict=True)]
    return score_answers([q.answers or () for q in questions], texts)


def best_sentence(question: Question, features: np.ndarray) -> tuple[int, int]:
    """The words of the sentence that covers most of the question."""
    sentences = read_words(question.context.words).sentences
    inside = np.flatnonzero(sentences == sentences[features[:, COVERED].argmax()])
    return int(inside[0]), int(inside[-1]) + 1


def best_window(features: np.ndarray) -> tuple[int, int]:
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
