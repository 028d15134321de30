"""What an order of labelling is worth: an annotator who answers with the gold, and the tagger's F1 by the words read.

    python bench/simulate.py --train train.txt --dev dev.txt --encoders starter starter-memory --seeds 3 --svg curve.svg

    uncertain, diverse   as in a session (`pool`), each answer before the next choice
    random               the sentences in a random order
    in-order             the sentences of the file from a random place on

Every run has sentences of its own to choose from, drawn from the training set, the same for all orders except in-order.
After so many words the tagger is scored on the development set, which decides nothing. The cost of a goal is the number
of words at which the curve first reaches it, interpolated between two scores.
"""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from boustro.apps.drawing import (
    AXIS,
    BOLD_LETTER,
    CAPTION,
    WIDTH,
    Panel,
    Scale,
    dots,
    path,
    picture,
    shorten_name,
    standalone,
    text_line,
    ticks,
)
from boustro.apps.label.curve import TrainingAnswers
from boustro.apps.label.incremental import LiveTagger
from boustro.apps.label.pool import Order, SentencePool
from boustro.apps.label.vectors import VectorReader, WordVectors, vector_source
from boustro.encoders.options import Context
from boustro.encoders.reading import group_numbers
from boustro.metrics.score import spread
from boustro.metrics.spans import score_entities
from boustro.options import Count, Positive, Range, Seed
from boustro.progress import Progress
from boustro.store import write_file
from boustro.tasks import read_examples
from boustro.tasks.data.reading import DEFAULT_OPTIONS
from boustro.tasks.data.schemes import gold_entities
from boustro.tasks.tagger import Tagger
from boustro.types import Entity, Sentence

FIRST_WORDS = 200
CHOOSING: dict[str, Order] = {"uncertain": "uncertain", "diverse": "diverse"}


HEIGHT, FOOT, KEY = 170, 44, 18
COLUMNS = (500, 1000, 2000, 4000, 8000)


@dataclass(frozen=True, kw_only=True)
class SimulateOptions:
    """What is compared, and where the figures go."""

    train: Path
    """Labelled sentences, with whose gold the annotator answers."""
    dev: Path | None = None
    """Labelled sentences to score on. By default a fifth of --train, which is not answered."""
    encoders: tuple[str, ...] = ("starter-memory",)
    """Encoders to compare."""
    orders: tuple[Literal["uncertain", "diverse", "in-order", "random"], ...] = ("uncertain", "random", "in-order")
    """Orders to compare."""
    seeds: Count = 10
    """Runs of every order, each with sentences of its own to choose from."""
    words: Count = 6000
    """Words that the annotator reads at most."""
    goal: Annotated[float, Range(0, 100)] = 70.0
    """Entity F1 whose cost in words is reported."""
    growth: Positive = 1.2
    """Factor from one number of words at which the tagger is scored to the next; above 1."""
    first_seed: Seed = 1
    """The first of the seeds, which follow each other."""
    pool: Count = 4000
    """Sentences that a run chooses from."""
    context: Context = "document"
    """What an encoder reads at once."""
    pool_mentions: bool = True
    """Read a word also by the mean vector of its mentions in the document."""
    spelling: bool = False
    """Read a word also by its letters."""
    cache: bool = True
    """Keep the vectors on disk."""
    svg: Path | None = None
    """Write the curves to this file."""
    json: Path | None = None
    """Write the figures to this file."""


def main(options: SimulateOptions) -> None:
    """Simulate, and print the table."""
    train, dev = read_gold(options.train, options.dev, options.context)
    how = {"context": options.context, "pool_mentions": options.pool_mentions, "spelling": options.spelling}
    results = simulate(train, dev, options, options.pool, cache=options.cache, **how)
    if options.svg:
        write_file(options.svg, standalone(simulation_curves(results)))
    if options.json:
        write_file(options.json, json.dumps(results))
    Console(width=160).print(simulation_table(results))


@dataclass(frozen=True, slots=True)
class Gold:
    """Sentences, their vectors, and the right entities."""

    sentences: Sequence[Sentence]
    entities: list[tuple[Entity, ...]]
    vectors: WordVectors

    @classmethod
    def of(cls, sentences: Sequence[Sentence], vectors: WordVectors) -> "Gold":
        """With the entities that the sentences name."""
        return cls(sentences, [gold_entities(s) for s in sentences], vectors)

    def select(self, numbers: Sequence[int]) -> WordVectors:
        """The vectors of some sentences, in this order."""
        starts = self.vectors.starts
        words = [self.vectors.words[starts[n] : starts[n + 1]] for n in numbers]
        return WordVectors(np.concatenate(words), np.cumsum([0, *map(len, words)]))


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
    ready, answered, words = SentencePool(), set[int](), 0
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
    given = TrainingAnswers([gold.sentences[n] for n in known], [*known])
    tagger.rescale(tagger.held_out(given.parts()), known)
    predicted = tagger.decode(tagger.scores(judged.vectors.words.astype(np.float32)), judged.sentences)
    f1 = round(score_entities(judged.entities, predicted, {}).value, 2)
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


def read_gold(train: Path, dev: Path | None, context: Context) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences to answer and those to score on; without a second file a fifth of the documents of the first.

    Raises as `load_data`, and `ValueError` where there are too few sentences.
    """
    answered = read_examples(Tagger, train, DEFAULT_OPTIONS)
    if dev is not None:
        return answered, read_examples(Tagger, dev, DEFAULT_OPTIONS)
    documents = group_numbers(answered, context)
    held = np.random.default_rng(0).permutation(len(documents))[: len(documents) // 5]
    kept = {n for place in held for n in documents[place]}
    if not kept:
        raise ValueError(f"{train}: too few sentences to keep a fifth for scoring; name a file with --dev")
    left, scored = ([s for n, s in enumerate(answered) if (n in kept) == wanted] for wanted in (False, True))
    return left, scored


def simulation_table(results: Mapping[str, Any]) -> Table:
    """One row per encoder and order, the best after most words first.

    The last column compares the words to the goal with random order's.
    """
    most = results["budgets"][-1]
    columns = [words for words in COLUMNS if words <= most] or [most]
    goal, num_seeds = results["goal"], len(results["seeds"])
    table = Table(title=f"Entity F1 by words read: mean and standard deviation of {num_seeds} runs")
    for name in (
        "encoder",
        "order",
        *(f"{words:,} words" for words in columns),
        f"words to F1 {goal:g}",
        "of random's",
    ):
        table.add_column(name, justify="left" if name in ("encoder", "order") else "right")
    for run in sorted(results["runs"], key=lambda run: -sum(c[-1]["f1"] for c in run["curves"]) / len(run["curves"])):
        scores = [_shown([at(curve, words) for curve in run["curves"]], "{:.1f}") for words in columns]
        table.add_row(run["encoder"], run["order"], *scores, _goal(run), _share(results, run))
    return table


def simulation_curves(results: Mapping[str, Any]) -> str:
    """One panel per encoder, one line per order through the means, one dot per run; words on a logarithmic axis."""
    encoders = list(dict.fromkeys(run["encoder"] for run in results["runs"]))
    orders = list(dict.fromkeys(run["order"] for run in results["runs"]))
    styles = {order: f"s{i}" for i, order in enumerate(orders)}
    values = [p["f1"] for run in results["runs"] for curve in run["curves"] for p in curve]
    words = [p["words"] for run in results["runs"] for curve in run["curves"] for p in curve]
    marks = ticks(min(values), max(*values, results["goal"]), 5)
    parts, x = [], 0.0
    for order in orders:
        parts += [dots([(x + 5, 12)], styles[order], 8), text_line(x + 13, 16, order)]
        x += 30 + BOLD_LETTER * len(order)
    for row, encoder in enumerate(encoders):
        top = KEY + CAPTION + row * (HEIGHT + CAPTION + FOOT)
        panel = Panel(AXIS, top, WIDTH - 8, top + HEIGHT, marks)
        across = LogScale(min(words), max(words), panel.left + 6, panel.right - 6)
        parts += [text_line(panel.left, top - 8, shorten_name(encoder, 44), style="b"), *panel.grid(marks)]
        goal = panel.scale(results["goal"])
        parts.append(path([(panel.left, goal), (panel.right, goal)], "d"))
        for mark in _marks(min(words), max(words)):
            parts.append(text_line(across(mark), panel.bottom + 16, f"{mark:,}", "middle", "m"))
        parts.append(text_line((panel.left + panel.right) / 2, panel.bottom + 32, "words read", "middle", "m"))
        for run in results["runs"]:
            if run["encoder"] == encoder:
                every = [(across(p["words"]), panel.scale(p["f1"])) for curve in run["curves"] for p in curve]
                line = [(across(p["words"]), panel.scale(p["f1"])) for p in mean_curve(run["curves"])]
                parts += [dots(every, styles[run["order"]], 2), path(line, f"l {styles[run['order']]}")]
    height = KEY + len(encoders) * (HEIGHT + CAPTION + FOOT)
    return picture(WIDTH, height, "Entity F1 by the words that an annotator read", *parts)


def mean_curve(curves: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, float]]:
    """The mean of curves that were scored after about the same numbers of words."""
    means = []
    for points in zip(*curves, strict=False):
        means.append({key: sum(p[key] for p in points) / len(points) for key in ("words", "f1")})
    return means


class LogScale(Scale):
    """A logarithmic map from data to pixels."""

    def __call__(self, value: float) -> float:
        shown = Scale(math.log(self.low), math.log(max(self.high, self.low * 1.01)), self.start, self.stop)
        return shown(math.log(value))


def _marks(low: float, high: float) -> list[int]:
    """250, 500, 1,000, …"""
    return [n for n in (250 * 2**i for i in range(12)) if low <= n <= high]


def _goal(run: Mapping[str, Any]) -> str:
    costs = run["words_to_goal"]["all"]
    reached = [c for c in costs if c is not None]
    if not reached:
        return "not reached"
    shown = _shown(reached, "{:,.0f}")
    return shown if len(reached) == len(costs) else f"{shown} ({len(reached)} of {len(costs)} runs)"


def _share(results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """The mean words to the goal as a share of random order's; only where every run of both reached it."""
    pair = [run, *(r for r in results["runs"] if r["encoder"] == run["encoder"] and r["order"] == "random")]
    if len(pair) < 2 or any(None in r["words_to_goal"]["all"] for r in pair):
        return "–"
    return f"{run['words_to_goal']['mean'] / pair[1]['words_to_goal']['mean']:.2f}"


def _shown(values: Sequence[float], form: str) -> str:
    figures = spread(values)
    return f"{form.format(figures['mean'])} ± {form.format(figures['sd'])}"


if __name__ == "__main__":
    main(tyro.cli(SimulateOptions))
