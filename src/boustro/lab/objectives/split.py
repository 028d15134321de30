"""How `prefix-suffix` divides a document and hides its pieces. torch is not imported here: a command lists the options.

With β the share of hidden pieces:  β_Y ~ U(0, 1) of the suffix,  β_X = λ1 - λ2 · β_Y of the prefix.

Source: Xiao et al. 2025 (BiGLM), section 2.1 and appendix C: α = 0.2, λ1 = 0.3, λ2 = 0.2.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from boustro.options import Range, check_options

SPLIT_MARGIN = 0.2
"""α: the least share of a document in its prefix, and in its suffix."""
PREFIX_RATE, PREFIX_RATE_DROP = 0.3, 0.2
"""λ1 and λ2: the share of hidden pieces in the prefix if none of the suffix is hidden, and how much lower it is if all
of the suffix is."""
HIDDEN_RUN = 3
"""The longest run of pieces hidden together; a run of n has a probability ∝ 1/n."""


@dataclass(frozen=True, kw_only=True)
class PrefixSuffixOptions:
    """The options of the objective prefix-suffix."""

    prefix_attention: Literal["prefix", "full"] = "prefix"
    """The prefix sees only itself (prefix), or the suffix too (full)."""
    least_pieces: Annotated[int, Range(2)] = 12
    """A document (or the part of one in a segment) of fewer pieces is read, but not hidden."""

    __post_init__ = check_options
