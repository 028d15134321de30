"""A linear-chain conditional random field over a head's scores.

    p(y | x) = exp score(x, y) / Σ_y' exp score(x, y'),   over valid sequences y' only

score adds to the word scores a learned score for each pair of adjacent tags, for each first tag and
each last one. `heads.crf` says which are valid and computes the answers; here are the sums of training.

    tags O B-X I-X, scores of two words (0 0 3), (0 0 3)   →   decode: B-X I-X, since I-X cannot begin

Time is O(T · C²); all sentences are processed together, time step by time step, without padding. Messages are products
of odds, a matrix product and a multiplication a step; in float64 only tags less probable than e^-400 times the word's
best one lose precision. Where a product leaves the range of float64, the same is computed in logarithms, which takes
twice as long. There is no automatic differentiation through the recursion: the derivative of log Z by a score is the
expected number of times that it is used, which forward and backward messages give.

Everything is computed in float64, also under autocast; no gradient is NaN while the scores are finite.

Source: Lafferty, McCallum and Pereira 2001, section 3; Rabiner 1989 for the recursions; Jurafsky and Martin, chapter
11.4.3.

N words of a batch, end to end; S sentences (some may be empty); C tags.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from boustro.heads.crf import TINY, Chain, Transitions, best_path, posteriors, valid_transitions
from boustro.heads.layout import Edges, TimeMajor, by_length, check_lengths, edges, time_major

CELLS = 1 << 17  # a step's (sentences, C, C): small enough to stay in the processor's cache
SMALL = 1e-120  # a sum of products of odds whose least part float64 can still hold


def exact(x: Tensor) -> Tensor:
    """float64; on the CPU if the device has none (Apple's MPS)."""
    return (x.cpu() if x.device.type == "mps" else x).double()


class Expected(NamedTuple):
    """The derivatives of log Z: how often each score is used, in expectation, summed over the sentences."""

    log_z: Float[Tensor, ""]
    tags: Float[Tensor, "N C"]
    starts: Float[Tensor, " C"]
    transitions: Float[Tensor, "C C"]
    ends: Float[Tensor, " C"]


def log_partition(scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], chain: Chain) -> Float[Tensor, ""]:
    """Sum of the sentences' log Z, differentiable once by the scores and the chain."""
    total = _LogPartition.apply(scores, *chain, lengths)
    assert isinstance(total, Tensor)
    return total


@torch.no_grad()
def expectations(scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], chain: Chain) -> Expected:
    """Return the log partition and its derivatives."""
    ahead, back = log_messages(scores, lengths, chain)
    tags = (ahead + back - scores).softmax(-1)
    at = edges(lengths, len(scores))
    left, right = scaled(ahead[at.followed]), scaled(back[at.followed + 1])
    links = chain.transitions.exp()
    shares = ((left @ links) * right).sum(-1, keepdim=True).clamp_min(TINY)
    pairs = links * ((left / shares).T @ right)
    log_z = (ahead[at.last] + chain.ends).logsumexp(-1).sum()
    # Messages have no log 0: what is not valid has about e^-690, and times its score, -∞, a loss would be infinite.
    starts = tags[at.first].sum(0).masked_fill(chain.starts.isneginf(), 0.0)
    ends = tags[at.last].sum(0).masked_fill(chain.ends.isneginf(), 0.0)
    return Expected(log_z, tags, starts, pairs, ends)


class _LogPartition(torch.autograd.Function):
    """Forward computes the expected counts as well, which are all that backward needs."""

    @staticmethod
    def forward(ctx, scores: Tensor, starts: Tensor, transitions: Tensor, ends: Tensor, lengths: Tensor) -> Tensor:
        expected = expectations(scores, lengths, Chain(starts, transitions, ends))
        ctx.save_for_backward(*expected[1:])
        return expected.log_z

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor):
        return *(gradient * expected for expected in ctx.saved_tensors), None


def scaled(message: Float[Tensor, "n C"]) -> Float[Tensor, "n C"]:
    """exp of the message minus its maximum."""
    return (message - message.amax(-1, keepdim=True)).exp()


def log_messages(scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], chain: Chain) -> Float[Tensor, "2 N C"]:
    """Log of the sums over all paths to a tag at a word, from either end; both include the word's own score."""
    edge = torch.stack([chain.starts, chain.ends])[:, None]
    links = torch.stack([chain.transitions, chain.transitions.T]).exp()
    result = scores.new_empty(2, *scores.shape)
    for group in by_length(lengths, len(scores), max(1, CELLS // scores.shape[1])):
        order = time_major(group.lengths)
        ahead, back = group.rows[order.rows], group.rows[order.flipped]
        words = torch.stack([scores[ahead], scores[back]])
        by_odds = _by_odds(words, edge, links, order, group.lengths)
        result[0, ahead], result[1, back] = _by_logs(words, edge, links, order) if by_odds is None else by_odds
    return result


def _by_odds(
    words: Float[Tensor, "2 n C"], edge: Tensor, links: Tensor, order: TimeMajor, lengths: Int[Tensor, " s"]
) -> Float[Tensor, "2 n C"] | None:
    """Messages in time-major order, as products of odds; `None` where these leave the range of float64.

    The odds of a word are those of its tags against its best one, so products change with the transitions alone.
    """
    sizes, peaks, edge_peak = order.sizes.tolist(), words.amax(-1, keepdim=True), edge.amax(-1, keepdim=True)
    products, reached = (words - peaks).exp_(), (edge - edge_peak).exp()
    parts = [products[:, :0]]
    for values, num_going_on in zip(products.split(sizes, dim=1), [*sizes, 0][1:], strict=True):
        parts.append(reached.expand_as(values))
        reached = torch.bmm(values.mul_(reached)[:, :num_going_on], links)
    total = products.sum(-1)
    if not bool(((total > SMALL) & (total < 1 / SMALL)).all()):
        return None
    values = torch.empty_like(peaks).index_copy(1, order.rows, peaks)  # sentence after sentence
    summed = values.cumsum(1)
    before = (summed - values)[:, lengths.cumsum(0) - lengths].repeat_interleave(lengths, dim=1)
    # A word's own score is added as it is: it is in both messages, and is subtracted once.
    others = torch.cat(parts, dim=1).clamp_min(TINY).log()
    return others + (words - peaks) + (summed - before)[:, order.rows] + edge_peak


def _by_logs(words: Float[Tensor, "2 n C"], edge: Tensor, links: Tensor, order: TimeMajor) -> Float[Tensor, "2 n C"]:
    """Sum messages in logarithms, for any scores."""
    sizes, reached, parts = order.sizes.tolist(), edge, [edge[:, :0]]
    for values, num_going_on in zip(words.split(sizes, dim=1), [*sizes, 0][1:], strict=True):
        parts.append(reached + values)
        message = parts[-1][:, :num_going_on]
        peak = message.amax(-1, keepdim=True)
        reached = torch.bmm((message - peak).exp(), links).clamp_min(TINY).log() + peak
    return torch.cat(parts, dim=1)


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
        for name, valid in valid_tensors(self.tags)._asdict().items():
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
        for share, chain_scores in zip((wanted.starts, wanted.transitions, wanted.ends), chain, strict=True):
            used = used + (share * chain_scores.masked_fill(share == 0, 0.0)).sum()
        return ((log_partition(words, lengths, chain) - used) / max(1, len(words))).float().to(scores.device)

    @torch.no_grad()
    def expect(self, scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], temperature: float = 1.0) -> Expected:
        """Return how often each tag and each pair of tags is expected, summed over the sentences."""
        words, lengths, chain = self._prepare(scores, lengths)
        return expectations(words if temperature == 1 else words / temperature, lengths, chain.over(temperature))

    @torch.no_grad()
    def decode(self, scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"]) -> Int[Tensor, " N"]:
        """Return the most probable valid sequence of each sentence."""
        return torch.from_numpy(best_path(*self._arrays(scores, lengths), self.chain)).to(scores.device)

    @torch.no_grad()
    def marginals(
        self, scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], temperature: float = 1.0
    ) -> Float[Tensor, "N C"]:
        """Return the probability of each tag at each word, summed over all valid sequences of its sentence.

        With a temperature τ, p(y)^(1/τ), normalised, stands in the place of p(y); the best sequence stays the best.
        """
        words, sizes = self._arrays(scores, lengths)
        probabilities = posteriors(words / temperature, sizes, self.chain.over(temperature))
        return torch.from_numpy(probabilities).float().to(scores.device)

    @property
    def chain(self) -> Chain:
        """The scores of transitions as arrays."""
        return Chain(*(part.detach().cpu().numpy() for part in self._chain()))

    @torch.no_grad()
    def _arrays(self, scores: Tensor, lengths: Tensor) -> tuple[np.ndarray, np.ndarray]:
        self._refuse_other(scores)
        check_lengths(lengths, len(scores))
        return scores.detach().cpu().double().numpy(), lengths.cpu().numpy()

    def _prepare(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Chain]:
        self._refuse_other(scores)
        words = exact(scores)
        return words, lengths.to(words.device), self._chain()

    def _refuse_other(self, scores: Tensor) -> None:
        if scores.shape[1] != len(self.tags):
            raise ValueError(f"the scores have {scores.shape[1]} columns, but there are {len(self.tags)} tags")

    def _chain(self) -> Chain:
        valid = Transitions(self.valid_starts, self.valid_pairs, self.valid_ends)
        return make_chains(valid, self.starts, self.transitions, self.ends)

    def _first_fault(self, tags: Tensor, lengths: Tensor, at: Edges, parts: tuple[Tensor, Tensor, Tensor]) -> str:
        """Return the first error in gold tags: `parts` are the scores of beginnings, of pairs and of endings, some
        -∞."""
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


def valid_tensors(tags: Sequence[str]) -> Transitions:
    """`crf.valid_transitions` as tensors."""
    return Transitions(*map(torch.from_numpy, valid_transitions(tags)))


def make_chains(valid: Transitions, starts: Tensor, transitions: Tensor, ends: Tensor) -> Chain:
    """Return the scores where they are valid, -∞ elsewhere, in float64; of many heads if there is a first axis of
    heads."""
    parts = zip(map(exact, (starts, transitions, ends)), valid, strict=True)
    return Chain(*(part.masked_fill(~allowed.to(part.device), -torch.inf) for part, allowed in parts))
