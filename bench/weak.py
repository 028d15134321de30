"""What silver labels of a gazetteer are worth beside K labelled sentences per type.

    python bench/weak.py --train ../shared/data/ner/crossner_politics/train.txt \
        --dev ../shared/data/ner/crossner_politics/dev.txt --shots 16 64 --draws 5 --figures weak.json

Each draw of K sentences per type (`studies.core.draws`) is gold; the other training sentences lose their labels and
get those of a gazetteer, which has a share of the training set's names (`--coverage`), each with its most frequent
label. So the gazetteer has no wrong names, but ambiguous and missing ones; a real one is worse. Rows: gold alone, and
weak then gold with the weight that `fit` chooses. No development set in training; F1 on --dev, mean ± sd over draws.
"""

import json
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tyro

import boustro
from boustro.apps.studies.core.draws import draw_all
from boustro.metrics.spans import extract_spans
from boustro.store import write_file
from boustro.tasks.data.schemes import entities_to_bio, gold_entities
from boustro.types import Entity, Sentence

Names = dict[tuple[str, ...], str]


def main(
    train: Path,
    dev: Path,
    encoder: str = "starter",
    shots: tuple[int, ...] = (16, 64),
    draws: int = 5,
    coverage: float = 0.5,
    sentences: int | None = None,
    figures: Path | None = None,
) -> None:
    """Print a row per K and system.

    Args:
        train: Labelled sentences that gold and silver ones are drawn from.
        dev: Labelled sentences to score on.
        encoder: Spec of the encoder.
        shots: K.
        draws: Draws of each K.
        coverage: Share of the training set's names that the gazetteer has.
        sentences: At most so many sentences of each file, for a quick look.
        figures: File of the figures.
    """
    given, scored = (boustro.read_data(path)[:sentences] for path in (train, dev))
    names = gazetteer(given, coverage)
    silver = [relabelled(s, names) for s in given]
    print(f"{len(names):,} names; {agreement(given, silver)}", flush=True)
    rows: dict[str, Any] = {}
    for k, drawn in draw_all(given, shots, draws).items():
        for name in ("gold", "weak then gold"):
            scores, weights = [], []
            for seed, draw in enumerate(drawn, 1):
                chosen = set(draw.tolist())
                rest = [s for n, s in enumerate(silver) if n not in chosen] if name != "gold" else None
                tagger = boustro.Tagger(encoder).fit([given[n] for n in draw], seed=seed, weak=rest)
                scores.append(tagger.evaluate(scored).value)
                weights.append(tagger.record.get("weak", {}).get("weight"))
            rows[f"{k} {name}"] = {"f1": scores, "weights": weights}
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            shown = "" if rest is None else f"  weights {dict(Counter(weights))}"
            print(f"K = {k:<4} {name:16} {statistics.fmean(scores):6.2f} ± {spread:.2f}{shown}", flush=True)
    if figures:
        write_file(figures, json.dumps(rows, indent=1))


def gazetteer(sentences: Sequence[Sentence], coverage: float) -> Names:
    """A share of the names, each with its most frequent label."""
    labels: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for s in sentences:
        for e in gold_entities(s):
            labels[s.words[e.start : e.end]][e.label] += 1
    kept = random.Random(0).sample(sorted(labels), round(coverage * len(labels)))
    return {name: labels[name].most_common(1)[0][0] for name in kept}


def relabelled(sentence: Sentence, names: Names) -> Sentence:
    """The sentence with the gazetteer's labels: the longest name from left to right, over the sentence's own words."""
    longest, entities, start = max(map(len, names)), [], 0
    while start < len(sentence):
        sizes = range(min(longest, len(sentence) - start), 0, -1)
        size = next((n for n in sizes if sentence.words[start : start + n] in names), 0)
        if size:
            entities.append(Entity(names[sentence.words[start : start + size]], start, start + size))
        start += size or 1
    return replace(sentence, tags=entities_to_bio(entities, len(sentence)), entities=None)


def agreement(gold: Sequence[Sentence], silver: Sequence[Sentence]) -> str:
    """Precision and recall of the silver labels."""
    pairs = [(set(gold_entities(g)), set(extract_spans(s.tags or ()))) for g, s in zip(gold, silver, strict=True)]
    right, said, wanted = (sum(len(f) for f in sets) for sets in zip(*((a & b, b, a) for a, b in pairs), strict=True))
    return f"silver labels: precision {100 * right / max(1, said):.1f}, recall {100 * right / max(1, wanted):.1f}"


if __name__ == "__main__":
    tyro.cli(main)
