"""One shot: every piece from the prompt alone, all places hidden; one reading.

The sum of the log-probabilities of the pieces as if they were independent given the prompt. It is the likelihood of a
model that writes all places at once, and far below that of better writers. It is cheap and, with PMI, good for choosing
between texts.
"""

from boustro.generation.draws import Draws
from boustro.generation.options import ScoreConfig
from boustro.generation.scores.base import Gold, Read, Total, gold_log_probs


def one_shot(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """Σ log p(y_i | x)."""
    return Total(gold_log_probs(read(blank), gold).sum(1), 1)
