"""The backward-LM paper's few-shot protocol (section 3.4): one draw, a two-layer head, a random search.

The three runs that are best on the development set are reported, for comparison with the paper's Figure 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boustro.apps.studies.core.cells import Cell
from boustro.apps.studies.fewshot.heads import train_by_steps
from boustro.apps.studies.fewshot.scoring import JudgedSet, span_scores, training_words
from boustro.apps.studies.fewshot.study import ShotStudy
from boustro.features.vectors import VectorReader
from boustro.heads.factored import factored_tags
from boustro.heads.tag_all import tag_all
from boustro.metrics.arrays import compare_spans, find_spans

RATES = tuple(n * unit for unit in (1e-3, 1e-4) for n in range(9, 0, -1))
SEEDS, DROPOUTS, BEST = range(10, 20), (0.0, 0.1, 0.2, 0.3), 3
"""The grid of the random search, and how many of its runs are reported."""
SEARCHED = ("lr", "dropout")
PROBE_RUNS = 3


@dataclass(frozen=True, kw_only=True)
class PaperStudy(ShotStudy):
    """One draw for each K."""

    budget: int = 30
    heads: tuple[tuple[str, str], ...] = (("mlp", "bio"),)
    protocol: str = "paper"
    seeds: int = 1

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise ValueError("nothing to compare: give at least one run of the search")
        super().__post_init__()

    def shown_options(self) -> dict[str, Any]:
        return {name: value for name, value in super().shown_options().items() if name not in SEARCHED}

    def rows(
        self, cell: Cell, reader: VectorReader, judged: Mapping[str, JudgedSet], draws: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """One for each of the runs of the search that are best on dev."""
        train, (chosen,) = training_words(self, reader, draws)
        grid = [(r, s, d) for r in RATES for s in SEEDS for d in DROPOUTS]
        picked = np.random.default_rng(0).permutation(len(grid))[: self.budget]
        runs = [
            (replace(self.options, lr=rate, dropout=dropout), chosen, seed)
            for rate, seed, dropout in (grid[i] for i in picked)
        ]
        tags, words = factored_tags(self.types), train.vectors
        heads = train_by_steps("mlp", words.words, words.starts, train.tags, tags, runs)

        def scores(on: JudgedSet) -> list[dict[str, Any]]:
            every = tag_all(heads, on.vectors.words)
            found = (find_spans(ids, tags, on.vectors.starts, on.gold.labels) for ids in every)
            return [span_scores(compare_spans(on.gold, spans)) for spans in found]

        on_dev = scores(judged["dev"])
        on_judged = on_dev if self.judged_on == "dev" else scores(judged[self.judged_on])
        rows = []
        for m in sorted(range(len(runs)), key=lambda m: -on_dev[m]["score"])[:BEST]:
            options, _, seed = runs[m]
            run = {"lr": options.lr, "seed": seed, "dropout": options.dropout, "dev_score": on_dev[m]["score"]}
            rows.append({"draw": 1, **self.sizes(draws[0]), **on_judged[m], "run": run})
        return rows

    def estimate(self, known: Sequence[Cell], missing: Sequence[Cell]) -> tuple[float, str]:
        """As of other few-shot heads, from a few runs of the search."""
        few = replace(self, budget=min(self.budget, PROBE_RUNS))
        seconds, source = super(PaperStudy, few).estimate(known, missing)
        return seconds * self.budget / few.budget, source
