"""A linear-chain conditional random field over a head's scores, valid transitions, and Viterbi without a CRF.

    p(y | x) = exp score(x, y) / Σ_y' exp score(x, y'),   over valid sequences y' only

score adds to the word scores a learned score for each pair of adjacent tags, for each first tag and
each last one. `valid_transitions` says which are valid; `crf.chain` computes the sums.

    tags O B-X I-X, scores of two words (0 0 3), (0 0 3)   →   decode: B-X I-X, since I-X cannot begin

Everything is computed in float64, also under autocast; no gradient is NaN while the scores are finite.

Source: Lafferty, McCallum and Pereira 2001; Jurafsky and Martin, chapter 11.4.3.

N words of a batch, end to end; S sentences (some may be empty); C tags.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from boustro.heads.crf.chain import Chain, Expected, best_path, exact, expectations, log_partition, posteriors
from boustro.heads.crf.spans import PREFIXED, Spans, entity_forms, span_posteriors
from boustro.heads.layout import Edges, edges

LOWEST = -1e6  # instead of log 0, so that a valid sequence is found even where all have probability 0


class Transitions(NamedTuple):
    """Valid tags to begin a sentence, valid pairs (tag, next tag), and valid tags to end a sentence."""

    starts: Bool[Tensor, " C"]
    pairs: Bool[Tensor, "C C"]
    ends: Bool[Tensor, " C"]


class CRF(nn.Module):
    """Learned transitions between `tags`, whose order is that of the scores' columns.

    The parameters `starts` (C,), `transitions` (C, C; from, to) and `ends` (C,) are initialised to 0: before training,
    this is the softmax of each word, restricted to valid sequences.
    Raises `ValueError` if no tag is valid on its own, and for scores or lengths that do not fit.
    """

    valid_starts: Bool[Tensor, " C"]
    valid_pairs: Bool[Tensor, "C C"]
    valid_ends: Bool[Tensor, " C"]

    def __init__(self, tags: Sequence[str]) -> None:
        super().__init__()
        self.tags = tuple(tags)
        self.starts = nn.Parameter(torch.zeros(len(tags)))
        self.transitions = nn.Parameter(torch.zeros(len(tags), len(tags)))
        self.ends = nn.Parameter(torch.zeros(len(tags)))
        for name, valid in valid_transitions(self.tags)._asdict().items():
            self.register_buffer(f"valid_{name}", valid, persistent=False)

    def loss(
        self, scores: Float[Tensor, "N C"], tags: Int[Tensor, " N"], lengths: Int[Tensor, " S"]
    ) -> Float[Tensor, ""]:
        """Negative log-likelihood of the gold `tags`, mean over words.

        Raises `ValueError`, with the number of the sentence in the batch (from 1), where they are not valid.
        """
        words, lengths, chain = self._prepare(scores, lengths)
        tags, at = tags.to(words.device), edges(lengths, len(words))
        begun, ended = chain.starts[tags[at.first]], chain.ends[tags[at.last]]
        linked = chain.transitions[tags[at.followed], tags[at.followed + 1]]
        around = begun.sum() + linked.sum() + ended.sum()
        if around.isneginf():
            raise ValueError(self._first_fault(tags, lengths, at, (begun, linked, ended)))
        gold = words.gather(1, tags[:, None]).sum() + around
        mean = (log_partition(words, lengths, chain) - gold) / max(1, len(words))
        return mean.float().to(scores.device)

    def loss_to(self, scores: Float[Tensor, "N C"], wanted: Expected, lengths: Int[Tensor, " S"]) -> Float[Tensor, ""]:
        """Cross-entropy to another distribution over the sequences of the same tags, mean over words; exact.

        `wanted` is `expect` of that distribution; that of a single sequence gives `loss`.
        """
        words, lengths, chain = self._prepare(scores, lengths)
        used = (wanted.tags * words).sum()
        for share, own in zip((wanted.starts, wanted.transitions, wanted.ends), chain, strict=True):
            used = used + (share * own.masked_fill(share == 0, 0.0)).sum()
        return ((log_partition(words, lengths, chain) - used) / max(1, len(words))).float().to(scores.device)

    @torch.no_grad()
    def expect(self, scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], temperature: float = 1.0) -> Expected:
        """How often each tag and each pair of tags is expected, summed over the sentences."""
        return expectations(*self._prepare(scores, lengths, temperature))

    @torch.no_grad()
    def decode(self, scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"]) -> Int[Tensor, " N"]:
        """The most probable valid sequence of each sentence."""
        return best_path(*self._prepare(scores, lengths)).to(scores.device)

    @torch.no_grad()
    def marginals(
        self, scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], temperature: float = 1.0
    ) -> Float[Tensor, "N C"]:
        """The probability of each tag at each word, summed over all valid sequences of its sentence.

        With a temperature τ, p(y)^(1/τ), normalised, stands in the place of p(y); the best sequence stays the best.
        """
        return posteriors(*self._prepare(scores, lengths, temperature)).float().to(scores.device)

    @torch.no_grad()
    def spans(
        self,
        scores: Float[Tensor, "N C"],
        lengths: Int[Tensor, " S"],
        longest: int,
        least: float,
        temperature: float = 1.0,
    ) -> Spans:
        """All entities of at most `longest` words and a probability of at least `least`; see `crf.spans`."""
        return span_posteriors(*self._prepare(scores, lengths, temperature), entity_forms(self.tags), longest, least)

    def _prepare(self, scores: Tensor, lengths: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor, Chain]:
        if scores.shape[1] != len(self.tags):
            raise ValueError(f"the scores have {scores.shape[1]} columns, but there are {len(self.tags)} tags")
        valid = Transitions(self.valid_starts, self.valid_pairs, self.valid_ends)
        words, chain = exact(scores), make_chain(valid, self.starts, self.transitions, self.ends)
        if temperature != 1:
            words, chain = words / temperature, Chain(*(part / temperature for part in chain))
        return words, lengths.to(words.device), chain

    def _first_fault(self, tags: Tensor, lengths: Tensor, at: Edges, parts: tuple[Tensor, Tensor, Tensor]) -> str:
        """The first error in gold tags: `parts` are the scores of beginnings, of pairs and of endings, some -∞."""
        names = [self.tags[tag] for tag in tags.tolist()]
        begun, linked, ended = (part.isneginf() for part in parts)
        faults = [(row, f"begins with {names[row]}") for row in at.first[begun].tolist()]
        faults += [(row + 1, f"has {names[row + 1]} after {names[row]}") for row in at.followed[linked].tolist()]
        faults += [(row, f"ends with {names[row]}") for row in at.last[ended].tolist()]
        row, fault = min(faults)
        number = int((lengths.cumsum(0) <= row).sum()) + 1
        return (
            f"sentence {number} of the batch {fault}, which is not valid: a CRF learns from valid tags only, "
            "so convert them to BIO or BIOES first"
        )


def valid_transitions(tags: Sequence[str]) -> Transitions:
    """The transitions of a set of tags in any mixture of schemes, from the names of the tags.

    A tag may open (begin a sentence, or follow a finished tag) or not, and is finished (may end a sentence) or not. An
    unfinished entity is continued by a tag of its own type.

        BIO    B-X and O open, all are finished         O I-X is not valid, B-X I-Y is not valid
        BIOES  B-X, S-X and O open; B-X, I-X are not    B-X O is not valid, S-X I-X is not valid
        IO     all open, all are finished               I-X I-Y is valid

    If there is a B-X, an I-X (or E-X) must be opened by it; if there is an E-X, an entity must be closed by it. Names
    without B-, I-, E- or S- open and are finished. IOB1 is not supported: there I-X may begin an entity although there
    is a B-X. Raises `ValueError` where a sentence of one word has no valid tag.
    """
    parsed = [(tag[0], tag[2:]) if PREFIXED.match(tag) else ("O", tag) for tag in tags]
    known = set(parsed)
    opens = [prefix not in "IE" or ("B", label) not in known for prefix, label in parsed]
    finished = [prefix not in "BI" or ("E", label) not in known for prefix, label in parsed]
    if not any(map(all, zip(opens, finished, strict=True))):
        raise ValueError(
            f"none of the tags {', '.join(tags) or '(none)'} can stand alone: add O, or the missing S- tags"
        )
    pairs = [
        [
            (finished[before] and opens[after]) or (prefix in "BI" and next_prefix in "IE" and label == next_label)
            for after, (next_prefix, next_label) in enumerate(parsed)
        ]
        for before, (prefix, label) in enumerate(parsed)
    ]
    return Transitions(torch.tensor(opens), torch.tensor(pairs), torch.tensor(finished))


@torch.no_grad()
def viterbi(
    log_probabilities: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], tags: Sequence[str]
) -> Int[Tensor, " N"]:
    """The best valid sequence of a head without a CRF; a constant added to all scores of a word changes nothing."""
    words = exact(log_probabilities).clamp_min(LOWEST)
    valid = valid_transitions(tags)
    chain = make_chain(valid, *(torch.zeros(allowed.shape, device=words.device) for allowed in valid))
    return best_path(words, lengths.to(words.device), chain).to(log_probabilities.device)


def make_chain(valid: Transitions, starts: Tensor, transitions: Tensor, ends: Tensor) -> Chain:
    """The scores where they are valid, -∞ elsewhere, in float64; of many heads if there is a first axis of heads."""
    parts = zip(map(exact, (starts, transitions, ends)), valid, strict=True)
    return Chain(*(part.masked_fill(~allowed.to(part.device), -torch.inf) for part, allowed in parts))
