"""The probability that a span is an entity of a type, under a CRF: the sum over all tag sequences that say so.

    tags of a sentence   O B-X I-X O   →   the span [1, 3) of type X is an entity in this sequence, [1, 2) is not

    log p = into(i, first tag) + Σ scores and transitions inside + out of(j, last tag) - log Z

`into` and `out of` sum over everything to the left and to the right; a tag that would continue the entity is left out.

Source: Lafferty, McCallum and Pereira 2001, section 3; Culotta and McCallum 2004 (confidence of a segment).
N words of a batch, end to end; S sentences; C tags; L words of the longest span.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.heads.crf.chain import Chain, messages
from boustro.heads.layout import edges
from boustro.heads.span.decoding import FoundSpan

PREFIXED = re.compile("[BIES]-.")

Spans = list[list[FoundSpan]]
"""Per sentence, in order of position."""


class Form(NamedTuple):
    """The tags of a type, as ids: of a single word, of the first, an inner and the last word of several; -1 for none.

    `continues` is the tag that would continue an entity that could end; `joined`, whether it may not stand before, too.
    """

    single: int
    first: int
    inner: int
    last: int
    continues: int
    joined: bool

    def tags(self, size: int) -> list[int]:
        """Those of an entity of so many words."""
        return [self.single] if size == 1 else [self.first, *[self.inner] * (size - 2), self.last]


def split_tag(tag: str) -> tuple[str, str]:
    """`B-PER` → `("B", "PER")`, `PER` (of the IO scheme) → `("*", "PER")`, `O` → `("", "")`."""
    if PREFIXED.match(tag):
        return tag[0], tag[2:]
    return ("", "") if tag == "O" else ("*", tag)


def entity_types(tags: Sequence[str]) -> list[str]:
    """The types that tags of any scheme name, sorted."""
    return sorted({label for prefix, label in map(split_tag, tags) if prefix})


def entity_forms(tags: Sequence[str]) -> list[Form]:
    """One per type of `entity_types`."""
    number = {split_tag(tag): i for i, tag in enumerate(tags)}
    forms = []
    for label in entity_types(tags):
        b, i, e, s, bare = (number.get((prefix, label), -1) for prefix in "BIES*")
        if bare >= 0:
            forms.append(Form(bare, bare, bare, bare, bare, joined=True))
        elif e >= 0 or s >= 0:
            forms.append(Form(s, b, i, e, -1, joined=False))
        else:
            forms.append(Form(b, b, i, i, i, joined=False))
    return forms


@torch.no_grad()
def span_posteriors(
    scores: Float[Tensor, "N C"],
    lengths: Int[Tensor, " S"],
    chain: Chain,
    forms: Sequence[Form],
    longest: int,
    least: float,
) -> Spans:
    """All spans of at most `longest` words whose probability for a type is at least `least`."""
    ahead, back = messages(scores, lengths, chain)
    at = edges(lengths, len(scores))
    log_z = (ahead[at.last] + chain.ends).logsumexp(-1)
    full = lengths > 0
    sentence = torch.arange(len(lengths), device=scores.device)[full].repeat_interleave(lengths[full])
    begin = (lengths.cumsum(0) - lengths)[sentence]
    left = (begin + lengths[sentence]) - torch.arange(len(scores), device=scores.device)  # words to the end
    found: Spans = [[] for _ in lengths]
    norm = torch.zeros(len(scores), dtype=scores.dtype, device=scores.device)
    norm += log_z.repeat_interleave(lengths[full])
    for kind, form in enumerate(forms):
        into, out = _into(form, ahead, chain, at.first), _out(form, back, chain, at.last)
        for size, log_p in enumerate(_log_sums(form, scores, chain, into, out, longest), start=1):
            p = (log_p - norm[: len(log_p)]).exp()
            rows = ((p >= least) & (left[: len(p)] >= size)).nonzero()[:, 0]
            places = (rows - begin[rows]).tolist()
            for s, start, q in zip(sentence[rows].tolist(), places, p[rows].clamp(max=1).tolist(), strict=True):
                found[s].append((start, start + size, kind, q))
    return [sorted(own) for own in found]


def _into(form: Form, ahead: Tensor, chain: Chain, first: Tensor) -> dict[int, Tensor]:
    """By opening tag (N,): the log of the sum over all that may stand before it, without its own score."""
    found = {}
    for tag in {form.single, form.first} - {-1}:
        links = chain.transitions[:, tag].clone()
        if form.joined:
            links[form.continues] = -torch.inf
        own = torch.full_like(ahead[:, 0], -torch.inf)
        own[1:] = (ahead[:-1] + links).logsumexp(-1)
        own[first] = chain.starts[tag]
        found[tag] = own
    return found


def _out(form: Form, back: Tensor, chain: Chain, last: Tensor) -> dict[int, Tensor]:
    """By closing tag (N,): the log of the sum over all that may follow it."""
    found = {}
    for tag in {form.single, form.last} - {-1}:
        links = chain.transitions[tag].clone()
        if form.continues >= 0:
            links[form.continues] = -torch.inf
        own = torch.full_like(back[:, 0], -torch.inf)
        own[:-1] = (back[1:] + links).logsumexp(-1)
        own[last] = chain.ends[tag]
        found[tag] = own
    return found


def _log_sums(
    form: Form, scores: Tensor, chain: Chain, into: dict[int, Tensor], out: dict[int, Tensor], longest: int
) -> list[Tensor]:
    """For 1, 2, … words, by first word: the unnormalised log probability of the span."""
    missing = torch.full((len(scores),), -torch.inf, dtype=scores.dtype, device=scores.device)
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
