"""How a masked LM scores a text after a prompt: one function a score, and one line in `MASKED_SCORES`.

A score is a function `(read, gold, blank, config, draws) → Total`: it calls `read` with pieces of the text on some
places and the mask piece on the others, and adds up log-probabilities of the text's own pieces. Only duel,
left-to-right and one-shot are logarithms of probabilities that sum to 1 over all texts of a length. N readings for N
pieces, but for one-shot and bound. B rows, S places, K of them, V pieces.

Sources: of duel DUEL's exact likelihood of a masked LM under its own deterministic order of unmasking; of gold-order
the zero-shot score of BiGLM's published code, with sums of logarithms in place of products; of the
pseudo-log-likelihood Salazar et al. 2020, section 2; of the bound Uria et al. 2014 and Hoogeboom et al. 2022, section
3.1.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.lab.generation.canvas import SuffixReader
from boustro.lab.generation.draws import Draws, in_order
from boustro.lab.generation.options import ScoreConfig

Gold = Int[Tensor, "B S"]
"""The pieces of the texts."""
Preference = Callable[[Float[Tensor, "B K V"], Int[Tensor, "B K"]], Float[Tensor, "B K"]]
"""Of the hidden places, log-probabilities and the text's pieces → what decides the next place, the highest first."""


class Total(NamedTuple):
    """The scores of a batch of texts."""

    log_probs: Float[Tensor, " B"]
    readings: int
    """How often the LM read them."""


def duel(read: SuffixReader, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """Return the likelihood of writing in the order of confidence: next is the place where the LM is surest of some
    piece.

    The order follows from what was read, never from the piece to come, so it is a likelihood.
    """
    return _revealed(read, gold, blank, lambda log_probs, gold: log_probs.amax(-1))


def left_to_right_score(read: SuffixReader, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """Return the likelihood of writing from left to right."""
    return _revealed(read, gold, blank, lambda log_probs, gold: torch.zeros_like(log_probs[..., 0]))


def gold_order(read: SuffixReader, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """Return the score along the order in which the text is easiest: next is the place where *its* piece is likeliest.

    The order looks at the answer, so the probabilities of all texts sum to more than 1.
    """
    return _revealed(read, gold, blank, _log_probs_of)


def _revealed(read: SuffixReader, gold: Gold, blank: Gold, prefer: Preference) -> Total:
    """Place after place is revealed, and each piece scored when it is; of equal places the first is next."""
    pieces, total = blank, torch.zeros(len(gold), device=gold.device)
    hidden = torch.arange(gold.shape[1], device=gold.device).expand(gold.shape)  # (B, K), from left to right
    for _ in range(gold.shape[1]):
        log_probs, wanted = read(pieces, hidden), gold.gather(1, hidden)
        order = in_order(prefer(log_probs, wanted), read.dtype)
        best, rest = order[:, :1], order[:, 1:].sort(dim=1).values
        total = total + _log_probs_of(log_probs, wanted).gather(1, best)[:, 0]
        pieces = pieces.scatter(1, hidden.gather(1, best), wanted.gather(1, best))
        hidden = hidden.gather(1, rest)
    return Total(total, gold.shape[1])


def one_shot(read: SuffixReader, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """Σ log p(y_i | x): every piece from the prompt alone, all places hidden.

    It is the likelihood of a model that writes all places at once, far below that of better writers. It is cheap and,
    with PMI, good for choosing between texts.
    """
    return Total(_log_probs_of(read(blank), gold).sum(1), 1)


def pseudo_log_likelihood(read: SuffixReader, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """Σ log p(y_i | x, y without i).

    It is no likelihood: every piece sees the pieces after it, and pieces of one word give each other away.
    """
    total = torch.zeros(len(gold), device=gold.device)
    for number in range(gold.shape[1]):
        place = torch.full_like(gold[:, :1], number)
        log_probs = read(gold.scatter(1, place, blank), place)
        total = total + _log_probs_of(log_probs, gold.gather(1, place))[:, 0]
    return Total(total, gold.shape[1])


def bound(read: SuffixReader, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """Return a bound below the log-likelihood: the mean over random orders of writing, from random sets of hidden
    pieces.

        log p(y | x)  ≥  E_σ Σ_t log p(y_σ(t) | x, y_σ(<t))  =  E_k E_H  N/k · Σ_(i in H) log p(y_i | x, y without H)

    with k uniform in 1 … N and H a random set of k of the N places. The estimate has no bias; its spread falls with
    `samples`, and the numbers k are spread evenly over 1 … N. p is the mixture over all orders, so models are compared
    by it, but not with a causal LM's likelihood as an equal.
    """
    num_places, total = gold.shape[1], torch.zeros(len(gold), device=gold.device)
    shifts = draws.uniforms(1).to(gold.device)  # (B, 1): one shift for all samples of a row
    for sample in range(config.samples):
        share = (sample + shifts) / config.samples
        count = (1 + (share * num_places).long()).clamp_max(num_places)  # (B, 1)
        hidden = draws.orders(num_places).to(gold.device).argsort(1) < count
        log_probs = _log_probs_of(read(torch.where(hidden, blank, gold)), gold)
        total = total + (log_probs * hidden).sum(1) * num_places / count[:, 0]
    return Total(total / config.samples, config.samples)


def _log_probs_of(log_probs: Float[Tensor, "B K V"], gold: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """Those of the texts' own pieces, or of those on the places that were read."""
    return log_probs.gather(2, gold[..., None])[..., 0]


MASKED_SCORES: dict[str, Callable[..., Total]] = {
    "duel": duel,
    "left-to-right": left_to_right_score,
    "one-shot": one_shot,
    "gold-order": gold_order,
    "pseudo-log-likelihood": pseudo_log_likelihood,
    "bound": bound,
}
"""Of a masked LM; the first is the default. A causal LM has left-to-right (`causal`)."""
