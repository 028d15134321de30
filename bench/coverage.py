"""How often the 95% interval of entity F1 holds the true F1, over simulated documents.

    python bench/coverage.py --documents 8 15 30 60 --sets 2000

A document has 1 to some hundred sentences (log-normal) and a recall of its own (beta); entities are Poisson, and so is
what is found besides. The true F1 is that of all sets together. Columns: the middle 95% of the draws of documents, the
same of sentences, and `metrics.significance.interval` of documents; in parentheses their mean width in points.
"""

import numpy as np
import tyro

from boustro.metrics.significance import Drawn, bootstrap, f1, interval


def main(
    documents: tuple[int, ...] = (8, 15, 30), sets: int = 1000, recall: float = 0.8, alike: float = 8.0, seed: int = 0
) -> None:
    """Print a row for each number of documents.

    Args:
        documents: How many a set has.
        sets: Simulated sets for each.
        recall: The mean recall of documents.
        alike: How alike they are: the sum of both parameters of the beta distribution.
        seed: Of all that is drawn.
    """
    generator = np.random.default_rng(seed)
    for count in documents:
        drawn = [draw(count, recall, alike, generator) for _ in range(sets)]
        gold, told, both = np.sum([values.sum(0) for values, _ in drawn], 0)
        true, found = 200 * both / (gold + told), []
        for number, (values, groups) in enumerate(drawn):
            by_document, by_sentence = (
                bootstrap(f1, [values[None]], draws=1000, seed=number, groups=own)[0] for own in (groups, None)
            )
            found.append([middle(by_document), middle(by_sentence), interval(by_document)])
        low, high = np.moveaxis(np.array(found), 2, 0)
        held = 100 * ((low <= true) & (true <= high)).mean(0)
        shown = " | ".join(f"{share:.1f} ({wide:.1f})" for share, wide in zip(held, (high - low).mean(0), strict=True))
        print(f"{count} documents, F1 {true:.1f}: {shown}", flush=True)


def draw(count: int, recall: float, alike: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(sentences, 3) gold, predicted and both, and (sentences,) the number of each one's document."""
    sizes = np.maximum(1, generator.lognormal(2.3, 0.8, count).round().astype(int))
    groups = np.repeat(np.arange(count), sizes)
    right = generator.beta(alike * recall, alike * (1 - recall), count)[groups]
    gold = generator.poisson(0.8, len(groups))
    both = generator.binomial(gold, right)
    return np.stack([gold, both + generator.poisson(0.8 * (1 - right)), both], 1), groups


def middle(drawn: Drawn) -> np.ndarray:
    """The middle 95% of the draws."""
    return np.quantile(drawn.resampled[:, 0], [0.025, 0.975])


if __name__ == "__main__":
    tyro.cli(main)
