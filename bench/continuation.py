"""Continuation choice, a benchmark that small models can do, and multiple choice from files, with their controls.

    python bench/continuation.py --data ../shared/data --items 500 --seeds 1 2 3
    python bench/continuation.py --data ../shared/data --out continuation      # writes the items as JSON lines
    python bench/continuation.py --questions ../shared/data/multiple_choice/openbookqa-train.jsonl

The context is `--prefix` pieces of a held-back Wikipedia article, the choices are its true continuation and three
others of the same number of pieces, all from the start of a word on: from other articles (easy), or from later in the
same article (hard). Files hold `question`, `choices` and `answer`, the number of the right choice from 0. Scores are
those of `boustro.lab.judges`, their intervals from a bootstrap over questions. `--masked DIR` adds a masked LM
over the same vocabulary, with those of `boustro.lab.generation.scores` that `--masked-scores` names, each with and
without PMI: one-shot takes one reading, duel and the others as many as pieces.
"""

import bz2
import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from boustro.lab.generation.both_ends.pair import LMPair, nearest_left
from boustro.lab.judges import CONTROLS, SCORES, MaskedJudge, best, weigh
from boustro.metrics.significance import Difference, bootstrap, difference
from boustro.output import as_json, check_output
from boustro.store import write_file

CHOICES = 4
SLACK = 8
"""Pieces within which the first word of a choice is looked for."""
BASELINE = "forward"


class Item(NamedTuple):
    """Piece ids of a context and of its choices, their texts, and which is right."""

    context: list[int]
    choices: list[list[int]]
    texts: list[str]
    answer: int


def main(
    data: Path | None = None,
    questions: tuple[Path, ...] = (),
    model: str = "starter",
    masked: str | None = None,
    masked_scores: tuple[str, ...] = ("one-shot", "duel"),
    items: int = 500,
    seeds: tuple[int, ...] = (1, 2, 3),
    prefix: int = 96,
    continuation: int = 32,
    out: Path | None = None,
    json: Path | None = None,
) -> None:
    """Print a table for each set.

    Args:
        data: The folder of the data sets.
        questions: Files of questions, instead.
        model: Spec of the pair.
        masked: A masked LM over the pair's vocabulary, which answers too.
        masked_scores: Its scores: one-shot, duel, left-to-right, gold-order, pseudo-log-likelihood or bound.
        items: Items of each draw.
        seeds: Seeds of the draws of items.
        prefix: Pieces of a context.
        continuation: Pieces of a choice.
        out: Write easy.jsonl and hard.jsonl, of the first seed, into this folder, and stop.
        json: Write the figures to this file.
    """
    check_output(json)
    pair, sets = LMPair.load(model), {}
    for path in questions:
        sets[path.stem] = [read_questions(pair, path)]
    if data is not None:
        with bz2.open(data / "wikipedia" / "validation.jsonl.bz2", "rt", encoding="utf-8") as file:
            texts = [jsonlib.loads(line)["text"] for line in file]
        articles = pair.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        for name in ("easy", "hard"):
            draws = [draw_items(pair, articles, name == "hard", items, prefix, continuation, seed) for seed in seeds]
            sets[name] = draws
    if out is not None:
        for name, draws in sets.items():
            rows = (
                {"question": pair.tokenizer.decode(i.context), "choices": i.texts, "answer": i.answer} for i in draws[0]
            )
            write_file(out / f"{name}.jsonl", "".join(as_json(row) + "\n" for row in rows))
        return
    judges = [MaskedJudge(masked, name, None) for name in masked_scores] if masked else []
    for judge in judges:
        refuse_other_pieces(judge.tokenizer, pair)
    figures = {name: measure(pair, draws, judges) for name, draws in sets.items()}
    if json:
        write_file(json, as_json({"model": model, "sets": figures}, 1))
    for name, rows in figures.items():
        show(f"{name}: {sum(map(len, sets[name])):,} questions", rows)


def draw_items(
    pair: LMPair, articles: Sequence[Sequence[int]], hard: bool, count: int, prefix: int, size: int, seed: int
) -> list[Item]:
    """Items from random places. All choices begin with a word, do not overlap, and stand in a random order."""
    rng, items = np.random.default_rng(seed), []
    slot, starts = size + SLACK, pair.spaced.tolist()
    long = [article for article in articles if len(article) >= prefix + (CHOICES if hard else 1) * slot]

    def first_word(article: Sequence[int], place: int) -> int:
        return next((n for n in range(place, place + SLACK) if starts[article[n]]), place)

    while len(items) < count:
        article = long[rng.integers(len(long))]
        at = prefix + int(rng.integers(len(article) - prefix - (CHOICES if hard else 1) * slot + 1))
        end = first_word(article, at)
        if hard:  # the rest of the article in slots of one continuation each
            slots = np.arange(at + slot, len(article) - slot + 1, slot)
            places = [(article, first_word(article, int(s))) for s in rng.choice(slots, CHOICES - 1, replace=False)]
        else:
            chosen = [long[n] for n in rng.choice(len(long), CHOICES - 1, replace=False)]
            places = [(other, first_word(other, int(rng.integers(len(other) - slot + 1)))) for other in chosen]
        choices = [list(source[begin : begin + size]) for source, begin in ((article, end), *places)]
        if not all(starts[choice[0]] for choice in choices):
            continue
        order = rng.permutation(CHOICES)
        shuffled = [choices[i] for i in order]
        texts = [pair.tokenizer.decode(ids) for ids in shuffled]
        items.append(Item(list(article[end - prefix : end]), shuffled, texts, int(np.flatnonzero(order == 0)[0])))
    return items


def read_questions(pair: LMPair, path: Path) -> list[Item]:
    """The questions of a file; a choice follows its question after a space."""
    items = []
    for line in path.read_text("utf-8").splitlines():
        row = jsonlib.loads(line)
        context, *choices = pair.tokenizer(
            [row["question"], *(f" {choice}" for choice in row["choices"])], add_special_tokens=False
        )["input_ids"]
        room = pair.window - max(map(len, choices))
        items.append(Item(list(nearest_left(context, room)), choices, row["choices"], row["answer"]))
    return items


def refuse_other_pieces(tokenizer: Any, pair: LMPair) -> None:
    """`ValueError` for a masked LM over another vocabulary than the pair's, whose pieces the items are."""
    known = tokenizer.get_vocab()
    if any(known.get(piece) != number for piece, number in pair.tokenizer.get_vocab().items()):
        raise ValueError("the masked LM has another vocabulary than the pair")


def measure(
    pair: LMPair, draws: Sequence[Sequence[Item]], judges: Sequence[MaskedJudge] = ()
) -> dict[str, dict[str, float]]:
    """Accuracy of every score in percent, with its interval and its difference to the forward LM."""
    right: dict[str, list[list[bool]]] = {}
    for items in draws:
        sizes = [len(item.choices) for item in items]
        contexts = [item.context for item in items for _ in item.choices]
        choices = [choice for item in items for choice in item.choices]
        evidence = weigh(contexts, choices, pair.forward, pair.backward)
        picked = {name: best(score.of(evidence), sizes) for name, score in {**CONTROLS, **SCORES}.items()}
        for judge in judges:
            totals, alone = judge.judge(contexts, choices)[0], judge.prior(choices)
            picked[f"masked {judge.score}"] = best(torch.tensor(totals), sizes)
            picked[f"masked {judge.score}-pmi"] = best(torch.tensor(totals) - torch.tensor(alone), sizes)
        picked["characters"] = [int(np.argmax([len(text) for text in item.texts])) for item in items]
        for name, chosen in picked.items():
            right.setdefault(name, []).append([c == item.answer for c, item in zip(chosen, items, strict=True)])
    values = {name: np.array(hits, float)[..., None] for name, hits in right.items()}
    drawn = dict(zip(values, bootstrap(accuracy, list(values.values())), strict=True))
    rows = {}
    for name, sample in drawn.items():
        low, high = np.quantile(sample.resampled.mean(1), [0.025, 0.975])
        gap: Difference | None = difference(drawn[BASELINE], sample)
        assert gap is not None
        rows[name] = {"accuracy": float(sample.scores.mean()), "low": float(low), "high": float(high)}
        rows[name] |= {"points": gap.points, "points_low": gap.low, "points_high": gap.high}
    masked = [name for name in rows if name.startswith("masked ")]
    return {name: rows[name] for name in ("characters", *CONTROLS, *SCORES, *masked)}


def accuracy(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Percent of questions answered rightly."""
    return 100 * np.einsum("bn,sn->bs", times, values[..., 0]) / times.sum(1, keepdims=True)


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    """Print a table."""
    table = Table("", "accuracy (95%)", f"against {BASELINE} (95%)", title=title)
    for name, row in rows.items():
        gap = f"{row['points']:+.1f} ({row['points_low']:+.1f} to {row['points_high']:+.1f})"
        shown = f"{row['accuracy']:.1f} ({row['low']:.1f} to {row['high']:.1f})"
        table.add_row(name, shown, "" if name == BASELINE else gap)
    Console(width=100).print(table)


if __name__ == "__main__":
    tyro.cli(main)
