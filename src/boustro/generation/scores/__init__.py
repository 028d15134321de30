"""How a text is scored: one line a score.

Only duel, left-to-right and one-shot are logarithms of probabilities that sum to 1 over all texts of a length.
"""

from collections.abc import Callable

from boustro.generation.scores.bound import bound
from boustro.generation.scores.by_order import duel, gold_order, left_to_right
from boustro.generation.scores.one_shot import one_shot
from boustro.generation.scores.pseudo import pseudo_log_likelihood

SCORES: dict[str, Callable] = {
    "duel": duel,
    "left-to-right": left_to_right,
    "one-shot": one_shot,
    "gold-order": gold_order,
    "pseudo-log-likelihood": pseudo_log_likelihood,
    "bound": bound,
}
"""Of a masked LM; the first is the default. A causal LM has left-to-right."""
