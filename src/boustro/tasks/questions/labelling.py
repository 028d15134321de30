"""Labelling of questions: spans of a context as answers, and, where the training data have such questions, no answer.

How the words of a question and of its context match is given to the head as features of words, which no encoder sees:

    question  Who painted the old harbour ?      context  The harbour was painted by Ada Brandt in 1907 .
    "painted"   same word 1, weight 1.0 (it is rare)         "Ada"    share of the question nearby 0.9, capital 1, who 1

For a word of the context: whether it stands in the question (as it is, in lower case, by its stem), how rare it is
there, the weighted share of the question's words in windows around it and in its sentence, the distance to the nearest
match, its shape, the kind of the question, and products of kind and shape. A word of the question has the first four,
its shape and the kind. n words of the context, k words of the question, F features.

Sources: Chen et al. 2017 (DrQA), section 3.2, for matches as features; Richardson, Burges and Renshaw 2013, for the
sliding window of inverse counts. The stems are cruder than Porter's: endings are cut.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from boustro.heads.decoding import ContextSpans
from boustro.heads.inputs import Targets
from boustro.heads.options import HeadOptions
from boustro.metrics.questions import AnswerScore, best_threshold, score_answers
from boustro.tasks.answers import Answer
from boustro.tasks.labellings.base import Labelling, Units
from boustro.tasks.questions.data import Question
from boustro.text.words import join_words
from boustro.types import NO_ANSWER, Entity

WINDOWS = ((2, 2), (5, 5), (10, 10), (20, 20), (5, -1), (-1, 5), (12, -1), (-1, 12))
"""Words to the left and to the right that count as near; -1 leaves the word itself out, too."""
RARE = 0.01
"""Stems in more than this share of the training contexts have a weight below 1."""
HEAVY = 0.45
"""The least weight of a match that distances are measured to."""
ENDINGS = re.compile(r"(?:ations?|ings?|ions?|ers?|ies|ied|ed|es|ly|s|e|y)$")
MONTHS = frozenset("january february march april may june july august september october november december".split())
NUMBERS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve dozen twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million billion half once twice both several".split()
)
AMOUNTS = frozenset("many much long old far often large big tall high deep fast heavy".split())
# one column each; who, whom and whose ask for a person alike
QUESTION_KINDS = {"who": 0, "whom": 0, "whose": 0, "when": 1, "where": 2, "why": 3, "which": 6, "what": 7}
HOW_MANY, HOW, OTHER = 4, 5, 8  # columns that no single word names
ENDERS = frozenset({".", "!", "?"})


class TextFacts(NamedTuple):
    """Facts of a text by itself: stems, words in lower case, shapes (n, 8), the sentence of each word."""

    stems: list[str]
    lower: list[str]
    shapes: np.ndarray
    sentences: np.ndarray


def stem(word: str) -> str:
    """In lower case without its ending: painted, paints → paint."""
    word = word.lower()
    cut = ENDINGS.sub("", word) if len(word) > 3 else word
    if len(cut) < 3:
        return word
    return cut[:-1] if cut[-1] == cut[-2] and cut[-1] not in "sl" else cut


def stem_weights(contexts: Iterable[Sequence[str]]) -> dict[str, float]:
    """Return the weights below 1 of frequent stems: log(1 / share of contexts), in units of log(1 / RARE)."""
    stem_sets = [{stem(word) for word in words} for words in contexts]
    counts = Counter(s for stems in stem_sets for s in stems)
    weights = {s: math.log((len(stem_sets) + 1) / (n + 0.5)) / -math.log(RARE) for s, n in counts.items()}
    return {s: round(w, 3) for s, w in sorted(weights.items()) if w < 1 and counts[s] > 1}


@lru_cache(maxsize=64)
def read_contexts_once(words: tuple[str, ...]) -> TextFacts:
    """A context is read once for all its questions."""
    lower = [word.lower() for word in words]
    first = [i == 0 or words[i - 1] in ENDERS for i in range(len(words))]
    shapes = [
        [
            word[:1].isupper(),
            word.isupper() and len(word) > 1,
            word[:1].isdigit(),
            len(word) == 4 and word.isdigit(),
            low in NUMBERS,
            low in MONTHS,
            not any(map(str.isalnum, word)),
            begins,
        ]
        for word, low, begins in zip(words, lower, first, strict=True)
    ]
    return TextFacts(list(map(stem, words)), lower, np.array(shapes, np.float32), np.cumsum(first) - 1)


def question_kind(lower: Sequence[str]) -> int:
    """Return the first question word's number; see `QUESTION_KINDS`."""
    for word, following in zip(lower, [*lower[1:], ""], strict=True):
        if word == "how":
            return HOW_MANY if following in AMOUNTS else HOW
        if word in QUESTION_KINDS:
            return QUESTION_KINDS[word]
    return OTHER


def match_features(question: tuple[str, ...], context: tuple[str, ...], weights: Mapping[str, float]) -> np.ndarray:
    """Return (k + n, F) float32: the words of the question, then those of the context. `weights` are of
    `stem_weights`."""
    asked, told = read_contexts_once(question), read_contexts_once(context)
    kind = question_kind(asked.lower)
    kinds = np.zeros((len(question) + len(context), OTHER + 1), np.float32)
    kinds[:, kind] = 1
    known = {s: weights.get(s, 1.0) for s, shape in zip(asked.stems, asked.shapes, strict=True) if not shape[6]}
    of_question = _matches(question, asked, context, told, known)
    of_context = [
        *_matches(context, told, question, asked, known),
        *_near(told, known),
        _neighbours(asked.stems, told.stems),
        *_distances(np.array([known.get(s, 0.0) for s in told.stems])),
        np.array([weights.get(s, 1.0) for s in told.stems]),
        *_expected(kind, told.shapes),
    ]
    matched = np.zeros((len(kinds), len(of_context)), np.float32)
    matched[: len(question), : len(of_question)] = np.stack(of_question, 1)
    matched[len(question) :] = np.stack(of_context, 1)
    return np.concatenate([matched, np.concatenate([asked.shapes, told.shapes]), kinds], axis=1)


def _matches(
    words: Sequence[str], read: TextFacts, others: Sequence[str], other: TextFacts, known: Mapping[str, float]
) -> list[np.ndarray]:
    """Return whether each word stands in the other text: as it is, in lower case, by its stem; the weight of that
    match."""
    exact, lower, stems = set(others), set(other.lower), set(other.stems)
    weights = [known.get(s, 0.0) if s in stems else 0.0 for s in read.stems]
    rows = ([w in exact for w in words], [w in lower for w in read.lower], [s in stems for s in read.stems], weights)
    return [np.array(row, np.float32) for row in rows]


def _near(told: TextFacts, known: Mapping[str, float]) -> list[np.ndarray]:
    """Return the weighted share of the question's stems in each window, in the sentence, and how far that is from the
    best."""
    numbers = {s: number for number, s in enumerate(known)}
    share = np.array(list(known.values()), np.float32) / max(sum(known.values()), 1e-6)
    size, at = len(told.stems), np.arange(len(told.stems))
    here = np.zeros((size, len(known)), np.float32)
    rows = np.array([numbers.get(s, -1) for s in told.stems])
    here[at[rows >= 0], rows[rows >= 0]] = 1
    counts = np.concatenate([np.zeros((1, len(known)), np.float32), here.cumsum(0)])
    columns = []
    for left, right in WINDOWS:
        start, stop = np.maximum(at - left, 0), np.minimum(at + right + 1, size)
        columns.append((counts[stop] > counts[np.minimum(start, stop)]) @ share)
    of_sentence = np.zeros((told.sentences[-1] + 1, len(known)), np.float32)
    np.maximum.at(of_sentence, told.sentences, here)
    covered = of_sentence @ share
    return [*columns, covered[told.sentences], covered[told.sentences] - covered.max()]


def _neighbours(asked: Sequence[str], told: Sequence[str]) -> np.ndarray:
    """Return whether a word and its neighbour are neighbours in the question, too."""
    pairs = set(pairwise(asked))
    follows = np.array([*(pair in pairs for pair in pairwise(told)), False])
    return follows | np.concatenate([[False], follows[:-1]])


def _distances(weights: np.ndarray) -> list[np.ndarray]:
    """Closeness to the nearest heavy match on the left, on the right, and on either side."""
    at, far = np.arange(len(weights)), 10**6  # so far away that its closeness is 0
    heavy = weights > HEAVY
    left = at - np.maximum.accumulate(np.where(heavy, at, -far))
    right = np.minimum.accumulate(np.where(heavy, at, far)[::-1])[::-1] - at
    # a few words away a match still counts on its side, a sentence away on either
    return [np.exp(-left / 4), np.exp(-right / 4), np.exp(-np.minimum(left, right) / 12)]


def _expected(kind: int, shapes: np.ndarray) -> list[np.ndarray]:
    """Shapes that the kind of question asks for: a name for who and where, a date for when, a number for how many."""
    name = shapes[:, 0] * (1 - shapes[:, 7])
    date, number = np.maximum(shapes[:, 2], shapes[:, 5]), np.maximum(shapes[:, 2], shapes[:, 4])
    return [name * (kind == 0), date * (kind == 1), name * (kind == 2), number * (kind == HOW_MANY)]


class AnswerUnits(Units):
    """Answers to questions: spans of a context, one of them or none."""

    metric = credit = "F1"
    has_labels = has_confusions = False
    has_values = True
    rules = (("metric", "mean F1 of questions, with SQuAD's normalisation"),)

    def words(self, example: Any) -> Sequence[str]:
        return example.context.words

    def spaces(self, example: Any) -> list[bool]:
        return super().spaces(example.context)

    def title(self, example: Any) -> str:
        return join_words(example.question.words, example.question.spaces)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity("answer", start, end) for start, end in sorted(set(example.spans))]

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        return answer.entities[:1] if answer_text(example, answer) else ()

    def reference(self, example: Any) -> str:
        return " / ".join(dict.fromkeys(example.answers or (NO_ANSWER,)))

    def describe_answer(self, example: Any, answer: Answer) -> str:
        return answer_text(example, answer) or NO_ANSWER

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """Return (N, 4): 1, 1, the F1 of the answer, and whether it matches exactly."""
        from boustro.metrics.questions import match

        rows = []
        for example, answer in zip(examples, answers, strict=True):
            exact, overlap = match(answer_text(example, answer), example.answers or ())
            rows.append((1.0, 1.0, overlap, exact))
        return np.array(rows).reshape(-1, 4)

    def right(
        self, gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]], values: np.ndarray
    ) -> list[list[bool]]:
        return [[bool(exact)] * len(got) for got, exact in zip(predicted, values[:, 3], strict=True)]


def answer_text(question: Any, answer: Answer) -> str:
    """Return the text of the best span of a `Question`'s context, "" where there is no answer."""
    best = answer.entities[0]
    return "" if answer.tags == (NO_ANSWER,) else question.passage(best.start, best.end)


ANSWER = "answer"
# scores grow with the longest span: one answer in a hundred is given up, and none of 20 words
MOST_WORDS, COVERED = 20, 0.99


class QuestionLabelling(Labelling):
    """The words of the answer; scored by exact match and F1.

    An `Answer` has the best spans, in words, as `entities`; `value` is log p(no answer) - log p(the best span), and
    `tags` tell which of the labels it is.
    """

    units = AnswerUnits()

    def __init__(self, scheme: Any, labels: Sequence[str], weights: Mapping[str, float] | None = None) -> None:
        super().__init__(scheme, labels)
        self.weights = dict(weights or {})

    @classmethod
    def learn(cls, examples: Sequence[Question], options: HeadOptions) -> "QuestionLabelling":
        """Return whether questions may have no answer, and the weights of frequent words."""
        if not any(q.spans for q in examples):
            raise ValueError("no question of the training data has an answer at its offset, so nothing is to learn")
        labels = [ANSWER] + [NO_ANSWER] * any(q.answers == () for q in examples)
        return cls("answers", labels, stem_weights({q.context.words for q in examples}))

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"weights": self.weights}

    def gold_labels(self, examples: Sequence[Question]) -> list[str]:
        return [ANSWER if q.answers else NO_ANSWER for q in examples if q.answers is not None]

    def longest(self, examples: Sequence[Question]) -> int:
        """Return the length that covers 99% of the answers, at most 20 words."""
        lengths = sorted(min(b - a for a, b in q.spans) for q in examples if q.spans)
        return min(MOST_WORDS, lengths[int(COVERED * (len(lengths) - 1))])

    def unpredictable(self, train: Sequence[Question], dev: Sequence[Question], max_span: int) -> dict[str, int]:
        count = sum(bool(q.spans) and min(b - a for a, b in q.spans) > max_span for q in train)
        return {f"answers of more than {max_span} words, never found": count} if count else {}

    def side(self, examples: Sequence[Question]) -> np.ndarray:
        features = [match_features(q.question.words, q.context.words, self.weights) for q in examples]
        return np.concatenate(features) if features else np.zeros((0, 0), np.float32)

    def targets(self, examples: Sequence[Question]) -> Targets:
        """Gold spans; `None` where the answer is known, but not its place."""
        gold = [None if q.answers and not q.spans else list(q.spans) for q in examples]
        return lambda numbers, rows: [gold[n] for n in numbers]

    def gold(self, examples: Sequence[Question]) -> Any:
        """Return the function that chooses the threshold from the head's outputs; `None` where every question has an
        answer."""
        if NO_ANSWER not in self.labels or not any(q.answers == () for q in examples):
            return None

        def choose(answers: Sequence[ContextSpans]) -> float:
            texts = [q.passage(*f.spans[0][:2]) for q, f in zip(examples, answers, strict=True)]
            return best_threshold([q.answers or () for q in examples], texts, [f.null for f in answers])[1]

        return choose

    def read(self, output: ContextSpans, example: Question) -> Answer:
        label = NO_ANSWER if output.refused else ANSWER
        entities = tuple(Entity(ANSWER, start, end, score=p) for start, end, p in output.spans)
        return Answer((label,), (entities[0].score or 0.0,), entities, value=output.null)

    def score(self, examples: Sequence[Question], answers: Sequence[Answer], signature: dict[str, str]) -> AnswerScore:
        texts = [answer_text(q, answer) for q, answer in zip(examples, answers, strict=True)]
        return score_answers([q.answers or () for q in examples], texts, signature)
