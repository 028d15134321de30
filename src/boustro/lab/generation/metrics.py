"""Scores of written texts against references: ROUGE, BLEU, METEOR, variety and repetition, and two controls.

    rouge1 rouge2 rougeL   F1 of words, pairs of words and the longest common subsequence (rouge-score, with stemming)
    bleu                   of the whole set (sacrebleu)
    meteor                 exact words, then words with one Porter stem. The original also matches synonyms of WordNet,
                           which is not used here, so these figures are lower than published ones
    distinct1 distinct2    different words, and pairs of words, among all (Li et al. 2016)
    repetition             words that are the same as the word before

All in percent. With several references of a text ROUGE and METEOR take the best one. A summary is to be compared with
the controls: `lead` (the first sentence of the source) and `constant_text` (one text for all). The packages come with
`boustro[generation]`. Sources: Lin 2004; Papineni et al. 2002; Banerjee and Lavie 2005.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
ROUGE = ["rouge1", "rouge2", "rougeL"]
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class TextScore:
    """Scores of a set of texts, percent; `words` is the mean number of words of a text."""

    rouge1: float
    rouge2: float
    rougeL: float
    bleu: float
    meteor: float
    distinct1: float
    distinct2: float
    repetition: float
    words: float

    def to_dict(self) -> dict[str, float]:
        """Rounded to two decimals."""
        return {name: round(value, 2) for name, value in asdict(self).items()}


def score_texts(predicted: Sequence[str], references: Sequence[str | Sequence[str]]) -> TextScore:
    """Scores of texts, each against its reference or references.

    Raises `ValueError` for different numbers of both, none at all, a text without a reference, and an empty reference,
    and `ImportError` with the command that installs what is missing.
    """
    golds = [[given] if isinstance(given, str) else list(given) for given in references]
    if len(predicted) != len(golds):
        raise ValueError(f"{len(predicted):,} texts, but references of {len(golds):,}; give one for each")
    if not golds or not all(golds):
        raise ValueError("every text needs at least one reference, and there must be a text")
    if empty := next((n for n, given in enumerate(golds, 1) if not all(gold.strip() for gold in given)), None):
        raise ValueError(f"text {empty:,} has an empty reference; remove the reference")
    scorer, rouge = _import("rouge_score.rouge_scorer").RougeScorer(ROUGE, use_stemmer=True), []
    for text, given in zip(predicted, golds, strict=True):
        scores = [scorer.score(gold, text) for gold in given]
        rouge.append([max(score[name].fmeasure for score in scores) for name in ROUGE])
    words = [split_words(text) for text in predicted]
    return TextScore(
        *(100 * float(value) for value in np.mean(rouge, axis=0)),
        bleu=_bleu(predicted, golds),
        meteor=100 * float(np.mean([_best_meteor(text_words, g) for text_words, g in zip(words, golds, strict=True)])),
        distinct1=distinct_runs(words, 1),
        distinct2=distinct_runs(words, 2),
        repetition=repetition(words),
        words=float(np.mean([len(text_words) for text_words in words])),
    )


def split_words(text: str) -> list[str]:
    """Lower-case words and marks: "It's 3." → ["it", "'", "s", "3", "."]."""
    return WORD_OR_MARK.findall(text.lower())


def distinct_runs(texts: Sequence[Sequence[Any]], size: int) -> float:
    """Different runs of `size` words among all of them, percent; 0 where there is none."""
    runs = [tuple(words[start : start + size]) for words in texts for start in range(len(words) - size + 1)]
    return 100 * len(set(runs)) / max(1, len(runs))


def repetition(texts: Sequence[Sequence[Any]]) -> float:
    """Words (or pieces) that are the same as the one before, percent of those that have one before."""
    pairs = [same for words in texts for same in (a == b for a, b in pairwise(words))]
    return 100 * sum(pairs) / max(1, len(pairs))


def meteor(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """METEOR of words, 0 to 1: F = 10PR / (R + 9P), less half the cube of chunks / matches."""
    matches, chunks = align(predicted, reference)
    if not matches:
        return 0.0
    precision, recall = matches / len(predicted), matches / len(reference)
    f = 10 * precision * recall / (recall + 9 * precision)  # METEOR: recall counts nine times as much as precision
    return f * (1 - 0.5 * (chunks / matches) ** 3)  # METEOR's penalty for a broken order


def align(predicted: Sequence[str], reference: Sequence[str]) -> tuple[int, int]:
    """Return how many words are matched, first exact ones, then stems, and in how many chunks that are runs in both
    texts.

    The longest common run is matched first, then the next, which gives few chunks.
    """
    pairs: dict[int, int] = {}
    stem = _stemmer()
    for key in (lambda word: word, stem):
        ours, theirs = list(map(key, predicted)), list(map(key, reference))
        while run := _longest_run(ours, theirs, pairs):
            here, there, length = run
            pairs |= {here + i: there + i for i in range(length)}
    places = sorted(pairs.items())
    following = pairwise(places)
    breaks = sum(b != (a[0] + 1, a[1] + 1) for a, b in following)
    return len(pairs), breaks + bool(pairs)


def lead_sentences(source: str, sentences: int = 1) -> str:
    """Return the control lead-N: the first sentences of a source."""
    return " ".join(SENTENCE_END.split(source.strip())[:sentences])


def constant_text(training: Sequence[str], candidates: int = 200, seed: int = 0) -> str:
    """Return the control that ignores its input: of some training targets the one with the best mean word F1 to all
    others."""
    if not training:
        raise ValueError("no training target to choose a constant text from")
    bags = [Counter(split_words(text)) for text in training]
    chosen: list[int] = np.random.default_rng(seed).permutation(len(training))[:candidates].tolist()
    return training[max(chosen, key=lambda number: sum(_bag_f1(bags[number], other) for other in bags))]


def _bag_f1(first: Counter, second: Counter) -> float:
    return 2 * (first & second).total() / max(1, first.total() + second.total())


def _longest_run(ours: Sequence[str], theirs: Sequence[str], pairs: Mapping[int, int]) -> tuple[int, int, int] | None:
    """Start here, start there, and length of the longest common run with a free word; the first of equal ones.

    Words that are matched with each other already lengthen a run, so that a free word joins its neighbours.
    """
    taken = set(pairs.values())
    best, before = (0, 0, 0), [(0, False)] * (len(theirs) + 1)  # lengths, and whether there is a free word
    for here, word in enumerate(ours):
        row = [(0, False)] * (len(theirs) + 1)
        for there, other in enumerate(theirs):
            free = here not in pairs and there not in taken and word == other
            if free or pairs.get(here) == there:
                length, has_free = before[there]
                row[there + 1] = length + 1, has_free or free
                if (has_free or free) and length + 1 > best[2]:
                    best = (here - length, there - length, length + 1)
        before = row
    return best if best[2] else None


def _best_meteor(words: list[str], golds: Sequence[str]) -> float:
    return max(meteor(words, split_words(gold)) for gold in golds)


def _bleu(predicted: Sequence[str], golds: Sequence[Sequence[str]]) -> float:
    most = max(map(len, golds))
    # None: no such reference; "" would be one of no words, to which a short text is compared.
    columns = [[text_golds[n] if n < len(text_golds) else None for text_golds in golds] for n in range(most)]
    bleu = _import("sacrebleu").BLEU(force=True)  # no warning that the texts look tokenized
    return bleu.corpus_score(list(predicted), columns).score


@cache
def _stemmer() -> Any:
    return _import("nltk.stem.porter").PorterStemmer().stem


def _import(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"scores of written texts need {name.partition('.')[0]}; install it with: pip install 'boustro[generation]'"
        ) from error
