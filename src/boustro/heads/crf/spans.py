"""The probability that a span is an entity of a type, under a CRF: the sum over all tag sequences that say so.

    tags of a sentence   O B-X I-X O   →   the span [1, 3) of type X is an entity in this sequence, [1, 2) is not

    log p = into(i, first tag) + Σ scores and transitions inside + out of(j, last tag) - log Z

`into` and `out of` sum over everything to the left and to the right; a tag that would continue the entity is left out.

Source: Lafferty, McCallum and Pereira 2001, section 3; Culotta and McCallum 2004 (confidence of a segment).
N words of a batch, end to end; S sentences; C tags; L words of the longest span.
"""

from collections.abc import Sequence

import numpy as np

from boustro.heads.crf.decode import Chain, log_sum_exp, messages
from boustro.heads.crf.tags import Form
from boustro.heads.rows import sentence_starts
from boustro.heads.span.decoding import FoundSpan

Spans = list[list[FoundSpan]]
"""Per sentence, in order of position."""


def span_posteriors(
    scores: np.ndarray, lengths: np.ndarray, chain: Chain, forms: Sequence[Form], longest: int, least: float
) -> Spans:
    """All spans of at most `longest` words whose probability for a type is at least `least`, from scores (N, C)."""
    ahead, back = messages(scores, lengths, chain)
    starts = sentence_starts(lengths)
    full = np.flatnonzero(lengths)
    first, last = starts[:-1][full], starts[1:][full] - 1
    norm = np.repeat(log_sum_exp(ahead[last] + chain.ends), lengths[full])
    sentence = np.repeat(full, lengths[full])
    begin = starts[:-1][sentence]
    left = begin + lengths[sentence] - np.arange(len(scores))  # words to the end
    found: Spans = [[] for _ in lengths]
    for kind, form in enumerate(forms):
        into, out = _into(form, ahead, chain, first), _out(form, back, chain, last)
        for size, log_p in enumerate(_log_sums(form, scores, chain, into, out, longest), start=1):
            p = np.exp(log_p - norm[: len(log_p)])
            rows = np.flatnonzero((p >= least) & (left[: len(p)] >= size))
            places = (rows - begin[rows]).tolist()
            for s, start, q in zip(sentence[rows].tolist(), places, np.minimum(p[rows], 1).tolist(), strict=True):
                found[s].append((start, start + size, kind, q))
    return [sorted(own) for own in found]


def _into(form: Form, ahead: np.ndarray, chain: Chain, first: np.ndarray) -> dict[int, np.ndarray]:
    """By opening tag (N,): the log of the sum over all that may stand before it, without its own score."""
    found = {}
    for tag in {form.single, form.first} - {-1}:
        links = chain.transitions[:, tag].copy()
        if form.joined:
            links[form.continues] = -np.inf
        own = np.full(len(ahead), -np.inf)
        own[1:] = log_sum_exp(ahead[:-1] + links)
        own[first] = chain.starts[tag]
        found[tag] = own
    return found


def _out(form: Form, back: np.ndarray, chain: Chain, last: np.ndarray) -> dict[int, np.ndarray]:
    """By closing tag (N,): the log of the sum over all that may follow it."""
    found = {}
    for tag in {form.single, form.last} - {-1}:
        links = chain.transitions[tag].copy()
        if form.continues >= 0:
            links[form.continues] = -np.inf
        own = np.full(len(back), -np.inf)
        own[:-1] = log_sum_exp(back[1:] + links)
        own[last] = chain.ends[tag]
        found[tag] = own
    return found


def _log_sums(
    form: Form,
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
