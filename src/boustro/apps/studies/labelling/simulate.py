"""What an order is worth: an annotator who answers with the gold, and the tagger's F1 by the words that were read.

    uncertain, diverse   as in a session (`pool`), each answer before the next choice
    random               the sentences in a random order
    in-order             the sentences of the file from a random place on

Every run has sentences of its own to choose from, drawn from the training set, the same for all orders except in-order.
After so many words the tagger is scored on the development set, which decides nothing. The cost of a goal is the number
of words at which the curve first reaches it, interpolated between two scores.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from boustro.apps.label.incremental import LiveTagger
from boustro.apps.label.pool import Order, Pool
from boustro.apps.studies.labelling.options import SimulateOptions
from boustro.encoders.options import Context
from boustro.encoders.windows import group_numbers
from boustro.features.vectors import VectorReader, Vectors, vector_source
from boustro.metrics.score import spread
from boustro.metrics.spans import score_entities
from boustro.progress import Progress
from boustro.tasks import read_examples
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.data.schemes import gold_entities
from boustro.tasks.tagger import Tagger
from boustro.types import Entity, Sentence

FIRST_WORDS = 200
CHOOSING: dict[str, Order] = {"uncertain": "uncertain", "diverse": "diverse"}


@dataclass(frozen=True, slots=True)
class Gold:
    """Sentences, their vectors, and the right entities."""

    sentences: Sequence[Sentence]
    entities: list[tuple[Entity, ...]]
    vectors: Vectors

    @classmethod
    def of(cls, sentences: Sequence[Sentence], vectors: Vectors) -> "Gold":
        """With the entities that the sentences name."""
        return cls(sentences, [gold_entities(s) for s in sentences], vectors)

    def select(self, numbers: Sequence[int]) -> Vectors:
        """The vectors of some sentences, in this order."""
        starts = self.vectors.starts
        words = [self.vectors.words[starts[n] : starts[n + 1]] for n in numbers]
        return Vectors(np.concatenate(words), np.cumsum([0, *map(len, words)]))


def simulate(
    train: Sequence[Sentence], dev: Sequence[Sentence], options: SimulateOptions, pool: int, **how: Any
) -> dict[str, Any]:
    """The curves of all encoders and orders, as JSON can hold them; `how` are options of `vector_source`.

    Raises `ValueError` where no sentence of the training set has an entity.
    """
    labels = sorted({e.label for s in train for e in gold_entities(s)})
    if not labels:
        raise ValueError("the training set has no entities, so there is nothing to label")
    budgets = _budgets(options.words, options.growth)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    runs = []
    with Progress("simulating", "runs", total=len(options.encoders) * len(options.orders) * len(seeds)) as bar:
        for encoder in options.encoders:
            reader = VectorReader(vector_source(encoder, train, **how), train)
            gold = Gold.of(train, reader.train_vectors(np.arange(len(train))))
            judged = Gold.of(dev, reader.vectors(dev))
            for order in options.orders:
                curves, started = [], time.perf_counter()
                for seed in seeds:
                    curves.append([*run(gold, judged, labels, order, seed, budgets, pool)])
                    bar.update()
                runs.append(_summary(encoder, order, curves, options.goal, time.perf_counter() - started))
    facts = {"train": len(train), "dev": len(dev), "labels": labels, "goal": options.goal, "seeds": [*seeds]}
    return {**facts, "pool": pool, "budgets": budgets, "runs": runs}


def run(
    gold: Gold, judged: Gold, labels: Sequence[str], order: str, seed: int, budgets: Sequence[int], pool: int
) -> Iterator[dict[str, Any]]:
    """The points of one run: words read, sentences, entities, F1 on `judged`."""
    squares = np.square(gold.vectors.words[:4096].astype(np.float32)).sum(1).mean()
    tagger = LiveTagger(gold.vectors.words.shape[1], float(squares), labels)
    waiting, left = [*budgets], _choices(gold, order, seed, pool)
    ready, answered, words = Pool(), set[int](), 0
    chooses = order in CHOOSING
    if chooses:
        ready.attach(left, gold.select(left), tagger)
    while waiting and len(answered) < len(left):
        chosen = ready.choose(CHOOSING[order], len(answered), tagger, answered) if chooses else None
        number = left[len(answered)] if chosen is None else chosen
        changes = tagger.learn(number, gold.select([number]).words.astype(np.float32), gold.entities[number])
        if chooses:
            ready.update(*changes)
        answered.add(number)
        words += len(gold.sentences[number])
        if words >= waiting[0]:
            waiting = [budget for budget in waiting if budget > words]
            yield _point(tagger, gold, judged, words)


def cost(curve: Sequence[Mapping[str, Any]], goal: float) -> float | None:
    """The words at which a curve first reaches the goal; `None` where it does not."""
    for before, point in zip([None, *curve], curve, strict=False):
        if point["f1"] >= goal:
            if before is None:
                return float(point["words"])
            share = (goal - before["f1"]) / (point["f1"] - before["f1"])
            return before["words"] + share * (point["words"] - before["words"])
    return None


def at(curve: Sequence[Mapping[str, Any]], words: float) -> float:
    """F1 after so many words, interpolated."""
    return float(np.interp(words, [p["words"] for p in curve], [p["f1"] for p in curve]))


def _point(tagger: LiveTagger, gold: Gold, judged: Gold, words: int) -> dict[str, Any]:
    known = {number: gold.entities[number] for number in tagger.learned}
    tagger.rescale(tagger.held_out(known), known)
    found = tagger.decode(tagger.scores(judged.vectors.words.astype(np.float32)), judged.sentences)
    f1 = round(score_entities(judged.entities, found, {}).value, 2)
    return {"words": words, "sentences": len(known), "entities": sum(map(len, known.values())), "f1": f1}


def _choices(gold: Gold, order: str, seed: int, pool: int) -> list[int]:
    """The sentences of a run, in the order of a run that does not choose."""
    full = np.flatnonzero(np.diff(gold.vectors.starts))
    generator = np.random.default_rng(seed)
    drawn = generator.permutation(full)[:pool]
    if order == "in-order":
        drawn = np.roll(full, -int(generator.integers(len(full))))[:pool]
    return drawn.tolist()


def _budgets(most: int, growth: float) -> list[int]:
    """200 words, growing by a factor, and the most."""
    if growth <= 1:
        raise ValueError(f"--growth must be above 1, not {growth}")
    count = max(0, int(np.ceil(np.log(max(most, FIRST_WORDS) / FIRST_WORDS) / np.log(growth))))
    return sorted({min(most, round(FIRST_WORDS * growth**n)) for n in range(count + 1)})


def _summary(
    encoder: str, order: str, curves: list[list[dict[str, Any]]], goal: float, seconds: float
) -> dict[str, Any]:
    costs = [cost(curve, goal) for curve in curves]
    reached = [c for c in costs if c is not None]
    return {
        "encoder": encoder,
        "order": order,
        "curves": curves,
        "words_to_goal": {**(spread(reached) if reached else {"mean": None, "sd": None, "values": []}), "all": costs},
        "seconds": round(seconds, 1),
    }


def read_gold(
    train: Path, dev: Path | None, reading: DataOptions, context: Context
) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences to answer and those to score on; without a second file a fifth of the documents of the first.

    Raises as `load_data`, and `ValueError` where there are too few sentences.
    """
    answered = read_examples(Tagger, train, reading)
    if dev is not None:
        return answered, read_examples(Tagger, dev, reading)
    documents = group_numbers(answered, context)
    held = np.random.default_rng(0).permutation(len(documents))[: len(documents) // 5]
    kept = {n for place in held for n in documents[place]}
    if not kept:
        raise ValueError(f"{train}: too few sentences to keep a fifth for scoring; name a file with --dev")
    left, scored = ([s for n, s in enumerate(answered) if (n in kept) == own] for own in (False, True))
    return left, scored
