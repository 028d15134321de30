"""A head that compares the vector of a text with one vector of each label: that of its examples, or of its name alone.

    p_c = x̄_c / ‖x̄_c‖                    x̄_c the mean of the label's texts
    score(c) = (x - m) · p_c / τ - b     m = 0, τ = 0.05, b = 0

Texts without a label, `adapt`, move both. m is their mean; p°_c is p_c less the mean of all p, of length 1, and counts
as five texts; three times p_c goes from there toward the texts that are probably its own (u = (x - m) / ‖x - m‖):

    p_c ∝ 5 · p°_c + Σ softmax_c(u · p / 0.05) · u        then τ = 0.12 / C^(1/8)

Texts are nearer to their own mean, so τ is larger then, and the more so with few labels, between which texts that are
near to none are parted.

Of labels of which a text may have several b is that of a cosine of 0.1; with texts, 0.4 of the way from the mean of all
scores to that of each text's best. A label is then probable where it is so by itself, and nearly the text's best:

    score'(c) = min(score(c), 3 · (score(c) - max score + 1))

A name counts as five texts because with a text or less for each label two lose to the name alone, and with many ten
or twenty learn less from them. Fewer than ten texts say too little of m, and change nothing (docs/log.md).

Source: Rocchio 1971 for classes by their mean; expectation maximisation from labelled and unlabelled texts is Nigam et
al. 2000. S texts, d width, C labels.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.inputs import Kinship
from boustro.heads.options import HeadOptions
from boustro.heads.pooled import SolvedHead, pool_mean

TEMPERATURE, ADAPTED_TEMPERATURE, FALL, SEVERAL_TEMPERATURE = 0.05, 0.12, 1 / 8, 0.07
"""τ before `adapt`; after it that of one label, the power of their number by which it falls, and that of texts with
several labels."""
NAME_COUNT = 5.0
"""Texts that p° counts as."""
PASSES = 3
LIKELY, LIKELY_SHARE = 0.1, 0.4
"""Where a text may have several labels: cosine at which one is as likely as not, and with texts, the place of that
between the two means. Names are near to all texts in Banking77 and to none in AG News, so the best of each text counts,
too: without it the F1 of two labels or one is 7 in place of 49 there (docs/log.md)."""
BEHIND, SLOPE = 1.0, 3.0
"""Of a score behind the best where it is as likely as not, and how fast it falls: the best has 95%, and no more."""
WITHOUT_TEXT = -1e4
"""The score of a label that no text has."""
FEWEST_TEXTS = 10
"""Texts that `adapt` needs."""


class Centroids(nn.Module):
    """The vector of each label, over τ, m, -b, and how far a label may be behind the best: inf for one label."""

    centre: Tensor
    bias: Tensor
    behind: Tensor

    def __init__(self, width: int, num_labels: int, options: HeadOptions) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("bias", torch.zeros(num_labels))
        self.register_buffer("behind", torch.tensor(torch.inf))
        self.weight = nn.Parameter(torch.zeros(num_labels, width), requires_grad=False)


class CentroidPool(SolvedHead):
    """Labels of texts by their centroids."""

    alone = True
    body: Centroids
    several = False
    """While it is trained, whether a text may have several labels."""

    def _pool(self, vectors: Tensor, lengths: Tensor) -> Float[Tensor, "S d"]:
        return pool_mean(vectors, lengths)

    @torch.no_grad()
    def solve(self, pooled: Float[Tensor, "S d"], targets: Any, lengths: Tensor, kin: Kinship | None = None) -> None:
        """Train on texts, whatever their lengths; with several labels, a text is one of each. A label without a text
        is the least probable one of all texts."""
        self.several = targets.is_floating_point()
        member = (targets if self.several else nn.functional.one_hot(targets, len(self.labels))).to(pooled)
        counts = member.sum(0)
        means = member.T @ pooled / counts.clamp_min(1)[:, None]
        self.body.centre.zero_()
        self.body.weight.copy_(unit_rows(means) / TEMPERATURE)
        self.body.bias.fill_(-LIKELY / TEMPERATURE if self.several else 0)
        self.body.bias[counts == 0] = WITHOUT_TEXT
        self.body.behind.fill_(BEHIND if self.several else torch.inf)

    @torch.no_grad()
    def adapt(self, pooled: Float[Tensor, "S d"]) -> bool:
        """Learn from texts without labels, see the module; whether there are enough of them."""
        if len(pooled) < FEWEST_TEXTS:
            return False
        known = self.body.weight.any(1)
        moved, centre = move_names(self.body.weight * TEMPERATURE, pooled)
        self.body.centre.copy_(centre)
        self.body.weight.copy_(moved / (SEVERAL_TEMPERATURE if self.several else adapted_temperature(int(known.sum()))))
        if self.several:
            scores = self._alone(pooled)[:, known] - self.body.bias[known]
            self.body.bias[known] = -torch.lerp(scores.mean(), scores.amax(1).mean(), LIKELY_SHARE)
        return True

    def linear(self) -> tuple[Float[Tensor, "C d"], Float[Tensor, " C"]]:
        """Return the score of each label by itself, as weight and constant of x."""
        return self.body.weight, self.body.bias - self.body.weight @ self.body.centre

    @torch.no_grad()
    def fill(self, weight: Float[Tensor, "C d"], constant: Float[Tensor, " C"]) -> None:
        """Be another linear map, see `linear`, by which each label is judged by itself."""
        self.body.weight.copy_(weight)
        self.body.bias.copy_(constant)
        self.body.centre.zero_()
        self.body.behind.fill_(torch.inf)

    def _scores(self, x: Float[Tensor, "S d"]) -> Float[Tensor, "S C"]:
        alone = self._alone(x)
        return torch.minimum(alone, SLOPE * (alone - alone.amax(1, keepdim=True) + self.body.behind))

    def _alone(self, x: Float[Tensor, "S d"]) -> Float[Tensor, "S C"]:
        weight, constant = self.linear()
        return x @ weight.T + constant


def move_names(
    names: Float[Tensor, "C d"], texts: Float[Tensor, "S d"]
) -> tuple[Float[Tensor, "C d"], Float[Tensor, " d"]]:
    """p and m of the module, of the vectors of names, 0 for a label without one, and of texts without labels."""
    known = names.any(1)
    common = names[known].mean(0) if known.sum() > 1 else 0  # a label alone would be nothing beside itself
    own = unit_rows(torch.where(known[:, None], names - common, 0))
    absent, centre = torch.where(known, 0.0, WITHOUT_TEXT), texts.mean(0)
    read, moved = unit_rows(texts - centre), own
    for _ in range(PASSES):
        shares = (read @ moved.T / TEMPERATURE + absent).softmax(1)
        moved = unit_rows(NAME_COUNT * own + shares.T @ read)
    return torch.where(known[:, None], moved, 0), centre


def adapted_temperature(count: int) -> float:
    """τ of so many labels after `adapt`."""
    return ADAPTED_TEMPERATURE / max(count, 1) ** FALL


def unit_rows(x: Float[Tensor, "S d"]) -> Float[Tensor, "S d"]:
    """Rows of length 1, and those of length 0 as they are."""
    return nn.functional.normalize(x, dim=1)
