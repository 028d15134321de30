"""Scores of word sense disambiguation: precision, recall and F1 as the scorer of Raganato et al. computes them.

    gold {a: x or y, b: z, c: z}, answers {a: y, b: x}    →  precision 1/2, recall 1/3, F1 0.4

An instance may have several gold keys; an answer with one of them is correct. Of an answer with several keys the share
of correct keys counts. An instance without an answer lowers recall only.

Source: Raganato, Camacho-Collados and Navigli 2017, *Word sense disambiguation: a unified evaluation framework*.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from boustro.errors import shorten
from boustro.metrics.score import ShownScore
from boustro.metrics.spans import SpanCounts

Name = TypeVar("Name", bound=Hashable)


def _to_dict(counts: SpanCounts) -> dict[str, Any]:
    """Percent, and the numbers of instances."""
    figures = {name: getattr(counts, name) for name in ("precision", "recall", "f1")}
    return figures | {"num_gold": counts.gold, "num_answered": counts.predicted}


@dataclass(frozen=True, slots=True, repr=False)
class SenseScore(ShownScore):
    """The scores of a system, and what they are compared with.

    `per_pos` has the same by part of speech; `covered` is the number of instances whose lemma the
    system knows from its training data; `baselines` are the F1 of other answers to the same instances.
    """

    total: SpanCounts
    per_pos: dict[str, SpanCounts]
    covered: int = 0
    baselines: dict[str, float] = field(default_factory=dict)
    signature: dict[str, str] = field(default_factory=dict)
    measure: ClassVar[str] = "F1"

    @property
    def value(self) -> float:
        """F1, by which systems are compared."""
        return self.total.f1

    @property
    def coverage(self) -> float:
        """Percent of the instances whose lemma is known from training data."""
        return 100 * self.covered / self.total.gold if self.total.gold else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `--json`."""
        return {
            **_to_dict(self.total),
            "coverage": self.coverage,
            "baselines": self.baselines,
            "per_pos": {name: _to_dict(counts) for name, counts in self.per_pos.items()},
            "signature": self.signature,
        }


def count_senses(gold: Mapping[Name, Collection[str]], answers: Mapping[Name, Collection[str]]) -> SpanCounts:
    """Compare answers with gold keys by instance; answers to instances without a gold key are not counted.

    Raises `ValueError` for keys that are one string, whose letters would be taken for keys.
    """
    for named in (gold, answers):
        for name, keys in named.items():
            if isinstance(keys, str):
                raise ValueError(f"the keys of {shorten(name)} are {shorten(keys)}; give a list of keys")
    credit, answered = 0.0, 0
    for name, right in gold.items():
        if given := [*answers.get(name, ())]:
            answered += 1
            credit += sum(key in right for key in given) / len(given)
    return SpanCounts(len(gold), answered, credit)
