"""Gaps in text that no model has read: how many of the pieces are right, and what the choices inside are worth.

    python bench/gaps.py --data ../shared/data --pieces 4 --gaps 1000 --seeds 1 2 3

A gap is `--pieces` pieces within a paragraph of a held-back Wikipedia article. Every variant fills the same gaps, with
`--context` pieces on each side. Differences are those to the forward LM with the same closing, with a paired bootstrap
over gaps and draws of gaps. Seconds are of one processor, without reading the contexts, which are read once for all
systems (a masked LM and a fusion read them each time). `--masked` and `--fusion` add one of these. `--lengths` instead
measures how often each ranking finds a gap of unknown length, and `--unigrams` how the source of the unigram
distribution and its weight matter.
"""

import bz2
import json as jsonlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from boustro.lab.generation.both_ends.filling import (
    BATCH_GAPS,
    Gap,
    Side,
    find_fillings,
    of_writers,
)
from boustro.lab.generation.both_ends.pair import Ends, LMPair
from boustro.lab.generation.both_ends.reader import Ids
from boustro.lab.generation.canvas import between
from boustro.lab.generation.draws import Draws
from boustro.lab.generation.models import MaskedLM, open_lm
from boustro.lab.generation.options import GenerationConfig, InfillOptions
from boustro.lab.generation.strategies import mask_predict
from boustro.metrics.significance import bootstrap, difference
from boustro.output import as_json, check_output
from boustro.store import write_file
from cloze import Close, ClozeHead

BASELINE = "forward-closed"
MARGIN = 16  # pieces of the article on each side of a gap, at least
Drawn = list[tuple[Gap, tuple[int, ...]]]
"""Gaps and what stands in them."""


def main(
    data: Path,
    model: str = "starter",
    pieces: int = 4,
    gaps: int = 1000,
    seeds: tuple[int, ...] = (1, 2, 3),
    context: int = 120,
    unigrams: bool = False,
    lengths: bool = False,
    masked: str | None = None,
    fusion: Path | None = None,
    json: Path | None = None,
) -> None:
    """Print a table.

    Args:
        data: The folder of the data sets.
        model: Spec of the pair.
        pieces: Pieces of a gap; with --lengths the longest.
        gaps: Gaps of each draw.
        seeds: Seeds of the draws of gaps.
        context: Pieces on each side.
        unigrams: Compare sources and weights of the unigram distribution.
        masked: A masked LM over the pair's vocabulary, to be compared and combined with the pair.
        fusion: A fusion of the pair (boustro lab fuse), whose cloze head is compared and combined with the pair.
        lengths: Compare rankings of lengths from 1 to --pieces, all equally frequent.
        json: Write the figures to this file.
    """
    check_output(json)
    pair = LMPair.load(model)
    articles = list(_articles(pair, data / "wikipedia" / "validation.jsonl.bz2"))
    sizes = range(1, pieces + 1) if lengths else range(pieces, pieces + 1)
    draws = [draw_gaps(pair, articles, sizes, gaps, context, seed) for seed in seeds]
    systems = _rankings(pieces) if lengths else _unigrams(pair, data, pieces) if unigrams else _variants(pieces)
    if masked:
        systems |= _masked(pair, masked, pieces)
    if fusion:
        systems |= _cloze(pair, fusion, pieces)
    seconds, fills = Counter(), {name: [[] for _ in seeds] for name in systems}
    for number, drawn in enumerate(draws):
        for start in tqdm(range(0, gaps, BATCH_GAPS), desc=f"draw {seeds[number]}"):
            part = drawn[start : start + BATCH_GAPS]
            ends = Ends(pair, [(gap.left, gap.right) for gap, _ in part])  # read once for all systems
            known, costs = {}, {}
            for name, system in systems.items():
                system.prepare()
                key = system._replace(ranking="")  # ranked in several ways
                if key not in known:
                    started = time.process_time()
                    known[key] = system.find(ends, [gap for gap, _ in part], system.options)
                    costs[key] = time.process_time() - started
                started = time.process_time()
                best = likeliest(ends, known[key], system)
                seconds[name] += time.process_time() - started + costs[key]
                fills[name][number] += [(middle, gold) for middle, (_, gold) in zip(best, part, strict=True)]
    rows = {name: {"seconds": seconds[name], **_figures(row)} for name, row in fills.items()}
    right = {name: np.array([[_right(*one) for one in draw] for draw in row])[..., None] for name, row in fills.items()}
    _compare(rows, right, next(iter(systems)) if BASELINE not in systems else BASELINE)
    if json:
        write_file(json, as_json({"model": model, "pieces": pieces, "gaps": gaps, "rows": rows}, 1))
    _show(rows)


def draw_gaps(
    pair: LMPair, articles: Sequence[Sequence[int]], sizes: Sequence[int], count: int, context: int, seed: int
) -> Drawn:
    """Gaps of all sizes in turn, at random places; none holds a special piece or one of white space alone."""
    rng, writable = np.random.default_rng(seed), pair.writable.cpu().numpy()
    drawn: Drawn = []
    while len(drawn) < count:
        size, article = sizes[len(drawn) % len(sizes)], articles[rng.integers(len(articles))]
        if len(article) < size + 2 * MARGIN:
            continue
        start = int(rng.integers(MARGIN, len(article) - size - MARGIN + 1))
        gold = tuple(article[start : start + size])
        if writable[list(gold)].all():
            left, right = article[max(0, start - context) : start], article[start + size : start + size + context]
            drawn.append((Gap(left, right), gold))
    return drawn


def _right(pieces: Sequence[int], gold: Sequence[int]) -> float:
    """The share of pieces that are right, of gaps of known length; else whether the whole gap is."""
    if len(pieces) != len(gold):
        return 0.0
    return sum(a == b for a, b in zip(pieces, gold, strict=True)) / len(gold)


def _figures(runs: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]]) -> dict[str, float]:
    shares = [100 * np.mean([_right(*one) for one in run]) for run in runs]
    whole = [100 * np.mean([tuple(a) == tuple(b) for a, b in run]) for run in runs]
    length = [100 * np.mean([len(a) == len(b) for a, b in run]) for run in runs]
    names = {"right": shares, "whole": whole, "length": length}
    spread = {f"{name}_sd": float(np.std(values, ddof=min(1, len(values) - 1))) for name, values in names.items()}
    return {name: float(np.mean(values)) for name, values in names.items()} | spread


Finder = Callable[[Ends, Sequence[Gap], InfillOptions], list[list[tuple[int, ...]]]]
"""Finds fillings of gaps."""


class System(NamedTuple):
    """How fillings are found and ranked; `prepare` is called before each batch."""

    options: InfillOptions
    find: Finder = find_fillings
    ranking: str = "around"
    prepare: Callable[[], None] = lambda: None


RANKINGS = ("joint", "mean", "around")
"""The score of both LMs, the sum over pieces; the same divided by their number; and what `lab infill` compares."""


def likeliest(ends: Ends, middles: list[list[tuple[int, ...]]], system: System) -> list[tuple[int, ...]]:
    """The best filling of each gap."""
    flat = [middle for found in middles for middle in found]
    rows = [row for row, found in enumerate(middles) for _ in found]
    if system.ranking == "around":
        scores = ends.around(flat, rows, system.options.read_on)
    else:
        scores = ends.joint(flat, rows, system.options.unigram_weight)
    if system.ranking == "mean":
        scores = scores / torch.tensor([len(middle) for middle in flat], device=scores.device)
    parts = scores.split([len(found) for found in middles])
    return [found[int(part.argmax())] for found, part in zip(middles, parts, strict=True)]


Turn = Callable[[int, Side, Side], list[bool]]
"""(step, left, right) → for each row whether the forward LM writes, at the left."""


def surer(step: int, left: Side, right: Side) -> list[bool]:
    """The LM whose likeliest piece is likelier writes."""
    return (left.log_probs().amax(-1) >= right.log_probs().amax(-1)).tolist()


def alternate(step: int, left: Side, right: Side) -> list[bool]:
    """Forward, backward, forward, …"""
    return [step % 2 == 0] * len(left.written)


def always(forward: bool, step: int, left: Side, right: Side) -> list[bool]:
    """One LM in every step."""
    return [forward] * len(left.written)


def write_in_turn(
    turn: Turn,
    closed: bool,
    close: Callable[[Ends], Close] | None,
    ends: Ends,
    gaps: Sequence[Gap],
    options: InfillOptions,
) -> list[list[tuple[int, ...]]]:
    """The likeliest piece of the LM whose turn it is; where `closed`, both choose the last one, or `close` does."""
    (length,), rows = options.lengths(), range(len(gaps))
    left, right = Side(ends.ahead, rows), Side(partial(ends.behind, length=length), rows)
    last = close(ends) if close else None
    for step in range(length):
        if closed and step == length - 1:
            forward = [True] * len(rows)
            scores = left.log_probs() + right.log_probs() - options.unigram_weight * ends.pair.unigram
            scores = last(scores, left.written, right.written) if last else scores
        else:
            forward = turn(step, left, right)
            scores = of_writers(forward, left, right)
        for row, (at_left, piece) in enumerate(zip(forward, scores.argmax(-1).tolist(), strict=True)):
            (left if at_left else right).write(row, piece)
    return [[(*pieces, *other[::-1])] for pieces, other in zip(left.written, right.written, strict=True)]


VARIANTS: dict[str, tuple[Turn, bool]] = {
    "surer-first": (surer, True),
    "alternate": (alternate, True),
    "forward-closed": (partial(always, True), True),
    "backward-closed": (partial(always, False), True),
    "forward": (partial(always, True), False),
    "backward": (partial(always, False), False),
}
"""Who writes next, and whether both LMs choose the last piece."""


def _variants(pieces: int) -> dict[str, System]:
    """Every order of writing, then the beam under two rankings."""
    options = InfillOptions(tokens_per_gap=str(pieces))
    turns = {
        name: System(options, partial(write_in_turn, turn, closed, None)) for name, (turn, closed) in VARIANTS.items()
    }
    return turns | {f"beam, {rank}": System(options, ranking=rank) for rank in ("joint", "around")}


def _rankings(pieces: int) -> dict[str, System]:
    """Lengths that are searched, by every ranking; the fillings are the same."""
    return {name: System(InfillOptions(tokens_per_gap=f"1-{pieces}"), ranking=name) for name in RANKINGS}


def _masked(pair: LMPair, name: str, pieces: int) -> dict[str, System]:
    """Mask-predict by a masked LM, its drafts ranked by the pair, and together with the pair's own fillings."""
    model = open_lm(name)
    vocabulary = pair.tokenizer.get_vocab()
    if any(model.tokenizer.get_vocab().get(piece) != i for piece, i in vocabulary.items()):
        raise ValueError(f"{name} has another vocabulary than the pair")

    def draft(steps: int, ends: Ends, gaps: Sequence[Gap], options: InfillOptions) -> list[list[tuple[int, ...]]]:
        return [[middle] for middle in fill_masked(model, ends.contexts, pieces, steps, pair.writable)]

    def drafts(ends: Ends, gaps: Sequence[Gap], options: InfillOptions) -> list[list[tuple[int, ...]]]:
        drafted = [draft(steps, ends, gaps, options) for steps in range(1, pieces + 1)]
        return [sorted({middle for (middle,) in row}) for row in zip(*drafted, strict=True)]

    def both(ends: Ends, gaps: Sequence[Gap], options: InfillOptions) -> list[list[tuple[int, ...]]]:
        pairs = zip(drafts(ends, gaps, options), find_fillings(ends, gaps, options), strict=True)
        return [sorted({*first, *second}) for first, second in pairs]

    options = InfillOptions(tokens_per_gap=str(pieces))
    steps = {f"mask-predict, T = {n}": System(options, partial(draft, n)) for n in sorted({1, pieces})}
    return steps | {"drafts, around": System(options, drafts), "drafts and beam, around": System(options, both)}


def fill_masked(
    model: MaskedLM, contexts: Sequence[tuple[Ids, Ids]], length: int, steps: int, writable: torch.Tensor | None = None
) -> list[tuple[int, ...]]:
    """`length` pieces for each gap, after `steps` readings.

    `contexts` are the pieces on the left and on the right of each gap; `writable` (V',) says which of the first V'
    pieces may be written, by default all but special ones. Raises `ValueError` for what does not fit into the window.
    """
    read, blank = between(model, contexts, length, writable)
    config = GenerationConfig(strategy="mask-predict", length=length, steps=steps)
    text = mask_predict(read, blank, config, Draws(config.seed, range(len(contexts))))
    return [tuple(pieces) for pieces in text.pieces.tolist()]


def _cloze(pair: LMPair, path: Path, pieces: int) -> dict[str, System]:
    """A fusion's cloze head: alone, as what closes a gap, and as what ranks the beam's fillings.

    Alone it writes from the left, each piece as if it were the only one missing, so it takes as many readings as there
    are pieces, like surer first; the closing takes none more, the ranking one for each filling.
    """
    head = ClozeHead.load(path)
    if head.tokenizer.get_vocab() != pair.tokenizer.get_vocab():
        raise ValueError(f"{path} has another vocabulary than the pair")

    def alone(ends: Ends, gaps: Sequence[Gap], options: InfillOptions) -> list[list[tuple[int, ...]]]:
        return [[middle] for middle in head.fill(ends.contexts, pieces, pair.writable)]

    def closed(weight: float) -> Finder:
        return partial(write_in_turn, surer, True, lambda ends: head.closer(ends.contexts, weight))

    def ranked(around: bool, ends: Ends, gaps: Sequence[Gap], options: InfillOptions) -> list[list[tuple[int, ...]]]:
        filled = find_fillings(ends, gaps, options)
        flat = [middle for fillings in filled for middle in fillings]
        rows = [row for row, fillings in enumerate(filled) for _ in fillings]
        sides = [(ends.contexts[row][0], middle, ends.contexts[row][1]) for middle, row in zip(flat, rows, strict=True)]
        scores = head.scores(sides)
        if around:
            scores = scores + ends.around(flat, rows, options.read_on)
        parts = scores.split([len(fillings) for fillings in filled])
        return [[fillings[int(part.argmax())]] for fillings, part in zip(filled, parts, strict=True)]

    options = InfillOptions(tokens_per_gap=str(pieces))
    return {
        "cloze head alone": System(options, alone),
        "surer-first, closed by the cloze head": System(options, closed(0.0)),
        "surer-first, closed by both": System(options, closed(1.0)),
        "beam, ranked by the cloze head": System(options, partial(ranked, False)),
        "beam, around and cloze head": System(options, partial(ranked, True)),
    }


def _unigrams(pair: LMPair, data: Path, pieces: int) -> dict[str, System]:
    """What the LMs predict after their start piece, and counts of training text, at several weights."""
    predicted = pair.unigram
    counts = torch.ones_like(predicted)
    for article in islice(_articles(pair, data / "wikipedia" / "train-AA.jsonl.bz2"), 3000):
        counts += torch.bincount(torch.tensor(article), minlength=len(predicted)).to(predicted)
    counted = (counts / counts.sum()).log()
    print(f"counts against the LMs' own: {(counted.exp() * (counted - predicted)).sum():.3f} nats", file=sys.stderr)

    def use(unigram: torch.Tensor) -> Callable[[], None]:
        return lambda: setattr(pair, "unigram", unigram)

    return {
        f"{name}, γ {weight}": System(
            InfillOptions(tokens_per_gap=str(pieces), unigram_weight=float(weight)),
            partial(write_in_turn, surer, True, None),
            prepare=use(unigram),
        )
        for name, unigram in (("LMs", predicted), ("counts", counted))
        for weight in (0, 0.5, 0.75, 1)
    }


def _compare(rows: dict[str, dict[str, float]], right: dict[str, np.ndarray], baseline: str) -> None:
    """Add the difference to the baseline, in points, with its 95% interval."""

    def mean(values: np.ndarray, times: np.ndarray) -> np.ndarray:
        return 100 * np.einsum("bn,sn->bs", times, values[..., 0]) / times.sum(1, keepdims=True)

    for name, values in right.items():
        if name != baseline:
            gap = difference(*bootstrap(mean, [right[baseline], values]))
            assert gap is not None
            rows[name] |= {"points": gap.points, "low": gap.low, "high": gap.high}


def _show(rows: dict[str, dict[str, float]]) -> None:
    table = Table("", "pieces right", "whole gaps", "length right", "difference (95%)", "seconds")
    for name, row in rows.items():
        gap = f"{row['points']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f})" if "points" in row else ""
        cells = [f"{row[key]:.1f} ± {row[f'{key}_sd']:.1f}" for key in ("right", "whole", "length")]
        table.add_row(name, *cells, gap, f"{row['seconds']:.0f}")
    Console(width=120).print(table)


def _articles(pair: LMPair, path: Path) -> Iterator[list[int]]:
    """The pieces of the articles of a file."""
    with bz2.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            text = jsonlib.loads(line)["text"]
            yield pair.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


if __name__ == "__main__":
    tyro.cli(main)
