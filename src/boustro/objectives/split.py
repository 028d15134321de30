"""How `prefix-suffix` divides a document and hides its pieces. torch is not imported here: a command lists the options.

With β the share of hidden pieces:  β_Y ~ U(0, 1) of the suffix,  β_X = λ1 - λ2 · β_Y of the prefix.

Source: Xiao et al. 2025 (BiGLM), section 2.1 and appendix C: α = 0.2, λ1 = 0.3, λ2 = 0.2.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from boustro.options import OptionError, Range, Share, check_options


@dataclass(frozen=True, kw_only=True)
class Split:
    """The options of the objective prefix-suffix."""

    prefix_attention: Literal["prefix", "full"] = "prefix"
    """The prefix sees only itself (prefix), or the suffix too (full)."""
    split_margin: Annotated[float, Range(0, 0.5, without_low=True, without_high=True)] = 0.2
    """The least share of a document in its prefix, and in its suffix (the paper's α)."""
    prefix_rate: Share = 0.3
    """Share of hidden pieces in the prefix if none of the suffix is hidden (the paper's λ1)."""
    prefix_rate_drop: Share = 0.2
    """How much lower that share is if all of the suffix is hidden (the paper's λ2)."""
    longest_span: Annotated[int, Range(1, 100)] = 3
    """The longest run of pieces hidden together; a run of n has a probability ∝ 1/n."""
    least_pieces: Annotated[int, Range(2)] = 12
    """A document (or the part of one in a segment) of fewer pieces is read, but not hidden."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)
        if self.prefix_rate_drop > self.prefix_rate:
            raise OptionError(
                f"prefix_rate_drop {self.prefix_rate_drop} is more than prefix_rate {self.prefix_rate}: the share of "
                "hidden pieces would be negative"
            )
