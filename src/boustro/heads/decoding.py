"""From scores to answers, without torch: tags of sentences, their probabilities, candidates, spans of a context.

A trained head and an exported one read their scores here. N words of a batch, end to end; S sentences, `lengths` (S,);
W words of a sentence; C tags; L words of the longest span.

The probability that a span is an entity of a type, under a CRF, is the sum over all tag sequences that say so:

    tags of a sentence   O B-X I-X O   →   the span [1, 3) of type X is an entity in this sequence, [1, 2) is not

    log p = into(i, first tag) + Σ scores and transitions inside + out of(j, last tag) - log Z

`into` and `out of` sum over everything to the left and to the right; a tag that would continue the entity is left out.

Source: Lafferty, McCallum and Pereira 2001, section 3; Culotta and McCallum 2004 (confidence of a segment).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from boustro.heads.crf import (
    LOWEST,
    Chain,
    TagForm,
    best_path,
    best_valid,
    entity_forms,
    log_sum_exp,
    messages,
    posteriors,
    softmax,
    split_tag,
)
from boustro.heads.inputs import sentence_starts
from boustro.heads.options import SequenceOptions
from boustro.heads.span import FoundSpan, overlaps, overlaps_or_joins, resolve

LONGEST_SPAN, LEAST_PROBABLE = 12, 1e-5
"""Words and probability of a candidate."""


@dataclass(frozen=True)
class LikelyWords:
    """Words that are answered besides those of the best answer: all whose probability of being in an entity with one
    of the types is at least `least`; without `types`, in any entity. In entities of the types `names` a number or a
    function word is only where the best answer has it beside another word: an output then has what `tasks.tagger.tags`
    needs for it.
    """

    least: float
    types: frozenset[str] | None = None
    names: frozenset[str] = frozenset()

    def counts(self, types: Sequence[str]) -> np.ndarray:
        """Return which of the types of entities count, (T,)."""
        return np.array([self.types is None or one in self.types for one in types], bool)

    def beside(self, own: np.ndarray, ids: np.ndarray, labels: Sequence[str]) -> tuple[np.ndarray, ...]:
        """Return (N,) the best answer, and whether each word is in an entity of `names`; nothing without `names`."""
        of_names = np.array([split_tag(tag)[1] in self.names for tag in labels], bool)
        return (own, of_names[ids]) if self.names else ()


@dataclass(frozen=True)
class TagDecoder:
    """Decoder of scores to tags: `chain` of a head with a CRF, and the temperature of its probabilities; `words` that
    are answered although they are unlikely."""

    labels: tuple[str, ...]
    options: SequenceOptions
    chain: Chain | None
    temperature: float = 1.0
    words: LikelyWords | None = None

    def predict(self, scores: np.ndarray, lengths: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        """Per sentence the tag ids (W,) and their probabilities (W,), from scores (N, C); see `TaggingHead`."""
        if self.chain:
            probabilities = self._marginals(scores, lengths)
        else:
            probabilities = softmax(scores / np.float32(self.temperature))
        if self.chain and self.options.threshold is not None:
            ids, chosen = self._likely(scores, lengths, probabilities, self.options.threshold)
        else:
            ids = self.best(scores, lengths)
            chosen = np.take_along_axis(probabilities, ids[:, None], 1)[:, 0]
        own = ids
        if (allowed := self.allowed(probabilities, ids)) is not None:
            more = self.best(np.where(allowed, scores, LOWEST), lengths)
            chosen = np.where(more == ids, chosen, np.take_along_axis(probabilities, more[:, None], 1)[:, 0])
            ids = more
        return per_sentence(lengths, ids, chosen, *(self.words.beside(own, ids, self.labels) if self.words else ()))

    def allowed(self, probabilities: np.ndarray, ids: np.ndarray) -> np.ndarray | None:
        """Return (N, C) the tags among which the best sequence has all `words`, and whatever tags `ids` (N,) are of
        entities; `None` where these have them already. Every word has all tags of a type or none, so a sequence is
        valid there.
        """
        if self.words is None:
            return None
        kinds = [split_tag(tag)[1] for tag in self.labels]
        same = np.array([[one == other for other in kinds] for one in kinds])
        counts = self.words.counts(kinds) & (np.array(kinds) != "")
        likely = probabilities[:, counts].sum(1) >= self.words.least
        if counts[ids[likely]].all():
            return None
        return np.where(likely[:, None], counts, same[ids])

    def best(self, scores: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return (N,) the ids of the best sequence of tags, whatever the threshold."""
        if self.chain:
            return best_path(scores.astype(np.float64), lengths, self.chain)
        return best_valid(scores, lengths, self.labels) if self.options.decode == "valid" else scores.argmax(-1)

    def candidates(self, scores: np.ndarray, lengths: np.ndarray) -> list[Any]:
        """Per sentence (start, end, number of the type, probability) of every entity that is not very improbable.

        None without a CRF, since entities then have no probabilities.
        """
        return self._spans(scores, lengths, LEAST_PROBABLE) if self.chain else [[] for _ in lengths]

    def _warm(self, scores: np.ndarray) -> tuple[np.ndarray, Chain]:
        assert self.chain is not None
        return scores.astype(np.float64) / self.temperature, self.chain.over(self.temperature)

    def _marginals(self, scores: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        words, chain = self._warm(scores)
        return posteriors(words, lengths, chain).astype(np.float32)

    def _spans(self, scores: np.ndarray, lengths: np.ndarray, least: float) -> "FoundSpans":
        words, chain = self._warm(scores)
        return span_posteriors(
            words, lengths, chain, entity_forms(self.labels), self.options.max_span or LONGEST_SPAN, least
        )

    def _likely(
        self, scores: np.ndarray, lengths: np.ndarray, probabilities: np.ndarray, least: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tags of the entities that are probable enough; the words of an entity have its probability."""
        outside, forms = self.labels.index("O"), entity_forms(self.labels)
        conflict = overlaps_or_joins if forms[0].joined else overlaps
        ids, chosen = np.full(len(scores), outside), probabilities[:, outside].copy()
        by_sentence = self._spans(scores, lengths, least)
        for begin, spans in zip(sentence_starts(lengths).tolist(), by_sentence, strict=False):
            for start, end, kind, p in resolve(spans, conflict):
                ids[begin + start : begin + end] = forms[kind].tags(end - start)
                chosen[begin + start : begin + end] = p
        return ids, chosen


def per_sentence(lengths: np.ndarray, *arrays: np.ndarray) -> list[Any]:
    """Return the tag ids of each sentence, their probabilities, and what stands beside them."""
    ends = np.cumsum(lengths)[:-1]
    return list(zip(*(np.split(array, ends) for array in arrays), strict=True))


FoundSpans = list[list[FoundSpan]]
"""Per sentence, in order of position."""


def span_posteriors(
    scores: np.ndarray, lengths: np.ndarray, chain: Chain, forms: Sequence[TagForm], longest: int, least: float
) -> FoundSpans:
    """Return all spans of at most `longest` words whose probability for a type is at least `least`, from scores (N,
    C)."""
    ahead, back = messages(scores, lengths, chain)
    starts = sentence_starts(lengths)
    full = np.flatnonzero(lengths)
    first, last = starts[:-1][full], starts[1:][full] - 1
    norm = np.repeat(log_sum_exp(ahead[last] + chain.ends), lengths[full])
    sentence = np.repeat(full, lengths[full])
    begin = starts[:-1][sentence]
    left = begin + lengths[sentence] - np.arange(len(scores))  # words to the end
    spans: FoundSpans = [[] for _ in lengths]
    for kind, form in enumerate(forms):
        into, out = _into(form, ahead, chain, first), _out(form, back, chain, last)
        for size, log_p in enumerate(_log_sums(form, scores, chain, into, out, longest), start=1):
            inside = np.flatnonzero(left[: len(log_p)] >= size)  # the others cross the end of their sentence
            p = np.exp(log_p[inside] - norm[inside])
            rows, p = inside[p >= least], np.minimum(p[p >= least], 1)
            places = (rows - begin[rows]).tolist()
            for s, start, q in zip(sentence[rows].tolist(), places, p.tolist(), strict=True):
                spans[s].append((start, start + size, kind, q))
    return [sorted(sentence_spans) for sentence_spans in spans]


def _into(form: TagForm, ahead: np.ndarray, chain: Chain, first: np.ndarray) -> dict[int, np.ndarray]:
    """By opening tag (N,): the log of the sum over all that may stand before it, without its own score."""
    by_tag = {}
    for tag in {form.single, form.first} - {-1}:
        links = chain.transitions[:, tag].copy()
        if form.joined:
            links[form.continues] = -np.inf
        log_sums = np.full(len(ahead), -np.inf)
        log_sums[1:] = log_sum_exp(ahead[:-1] + links)
        log_sums[first] = chain.starts[tag]
        by_tag[tag] = log_sums
    return by_tag


def _out(form: TagForm, back: np.ndarray, chain: Chain, last: np.ndarray) -> dict[int, np.ndarray]:
    """By closing tag (N,): the log of the sum over all that may follow it."""
    by_tag = {}
    for tag in {form.single, form.last} - {-1}:
        links = chain.transitions[tag].copy()
        if form.continues >= 0:
            links[form.continues] = -np.inf
        log_sums = np.full(len(back), -np.inf)
        log_sums[:-1] = log_sum_exp(back[1:] + links)
        log_sums[last] = chain.ends[tag]
        by_tag[tag] = log_sums
    return by_tag


def _log_sums(
    form: TagForm,
    scores: np.ndarray,
    chain: Chain,
    into: dict[int, np.ndarray],
    out: dict[int, np.ndarray],
    longest: int,
) -> list[np.ndarray]:
    """For 1, 2, … words, by first word: the unnormalised log probability of the span."""
    missing = np.full(len(scores), -np.inf)
    single = form.single
    sums = [missing if single < 0 else into[single] + scores[:, single] + out[single]]
    if form.first < 0 or form.last < 0:
        return sums
    path, before = into[form.first] + scores[:, form.first], form.first
    for size in range(2, min(longest, len(scores)) + 1):
        if size > 2:  # one more inner word
            if form.inner < 0:
                break
            path = path[:-1] + chain.transitions[before, form.inner] + scores[size - 2 :, form.inner]
            before = form.inner
        ended = chain.transitions[before, form.last] + scores[size - 1 :, form.last] + out[form.last][size - 1 :]
        sums.append(path[: len(ended)] + ended)
    return sums


BEST = 5


class ContextSpans(NamedTuple):
    """The best spans of a context, `(start, end, probability)`, the most probable first.

    `null` is log p(no answer) - log p(the best span), -inf where every question has an answer; `refused` tells whether
    it is above the threshold.
    """

    spans: list[tuple[int, int, float]]
    null: float
    refused: bool


def read_scores(scores: np.ndarray, longest: int, threshold: float) -> list[ContextSpans]:
    """Return the answers to questions, from scores (S, T): span [i, i + w) at i · `longest` + w - 1, and no answer
    last."""
    logs = scores - log_sum_exp(scores)[:, None]
    answers = []
    for row in logs:
        best = np.argsort(-row[:-1], kind="stable")[:BEST].tolist()
        null = float(row[-1] - row[best[0]])
        likely = [(*divmod(k, longest), math.exp(row[k])) for k in best if row[k] > -1e9]
        answers.append(ContextSpans([(i, i + w + 1, p) for i, w, p in likely], null, null > threshold))
    return answers
