"""How text is written: one file a strategy, one line here.

A strategy of a masked LM writes on places (`base`); that of a causal LM continues a prompt by itself.
"""

from collections.abc import Callable
from typing import Any

from boustro.choose import choose
from boustro.generation.strategies.blocks import blocks
from boustro.generation.strategies.causal import causal
from boustro.generation.strategies.gibbs import gibbs
from boustro.generation.strategies.left_to_right import left_to_right
from boustro.generation.strategies.mask_predict import mask_predict
from boustro.models.pretrained import Kind

STRATEGIES: dict[str, tuple[Kind, Callable[..., Any]]] = {
    "mask-predict": ("masked", mask_predict),
    "blocks": ("masked", blocks),
    "gibbs": ("masked", gibbs),
    "left-to-right": ("masked", left_to_right),
    "causal": ("causal", causal),
}
"""The kind of LM that a strategy writes with, and its function; the first of a kind is the default."""


def find_strategy(name: str | None, kind: Kind, model: str) -> Callable[..., Any]:
    """The strategy of this name, by default the first of the kind; `ValueError` for one of the other kind."""
    fitting = [known for known, (own, _) in STRATEGIES.items() if own == kind]
    own, strategy = choose(name or fitting[0], STRATEGIES, "strategy")
    if own != kind:
        raise ValueError(
            f"strategy {name!r} writes with a {own} LM, and {model} is a {kind} one, which writes with "
            f"{', '.join(fitting)}"
        )
    return strategy
