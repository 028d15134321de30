"""What a second reading of a text is worth to a tagger, and how much of it a better beginning gives.

    python bench/second_reading.py --data ../shared/data --llm LLM --work DIR --figures figures.json
    python bench/second_reading.py --data ../shared/data --llm LLM --work DIR --rows forward repeated --sets politics

For each set a tagger with default settings, the epoch chosen on dev. A row is a way to read, in front of which stands
nothing but the start piece, or a run-up too ("+ run-up"). Adapters and the backward half are trained first, from
--text, into --work; what is there is not trained again. The controls put something else before the sentence: another
sentence of the data, the sentence's own words in another order, the half of its pieces that the LM predicts worst.
Columns: F1, the gain over the LM with its start piece (95% interval over sentences and seeds), F1 of entities that
begin at a sentence's first word and elsewhere, pieces computed a word, minutes trained. A cell in --figures is not
computed again. --draw makes a picture of the gains against the pieces, of the first of the sets and of all LMs in the
figures.
"""

import hashlib
import statistics
import time
from collections.abc import Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import tyro

from boustro.apps import drawing as svg
from boustro.encoders.base import Identity
from boustro.encoders.lm import RepeatedEncoder
from boustro.encoders.loading import load_config
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import KINDS, Kind, open_encoder
from boustro.lab.adapt import adapters
from boustro.lab.adapt.backward import build_backward
from boustro.lab.adapt.options import AdaptConfig, BackwardConfig, TextAdaptOptions
from boustro.lab.pretrain.shards import tokenize
from boustro.store import write_file
from llm import PLACES, SETS, gain, run
from ner import Figures, read_part, spread

BASE = "forward"
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing before": ("{llm}", {"start_piece": "none"}),
    "forward": ("{llm}", {}),
    "another sentence": ("other-first:{llm}", {}),
    "own words shuffled": ("shuffled-first:{llm}", {}),
    "surprising half": ("surprising-first:{llm}", {}),
    "repeated": ("repeated:{llm}", {}),
    "mask off, upper half": ("unmasked:{upper}:{llm}", {}),
    "second reading learned": ("unmasked:{work}/{name}-second-reading", {}),
    "LLM2Vec": ("unmasked:{work}/{name}-hidden-pieces", {}),
    "backward half": ("{llm}+{work}/{name}-half", {}),
}
"""By name: the encoder, and options that are not the default."""
PREPARED = " + run-up"
PREFIX = {True: "auto", False: "none"}
"""`--prefix` of a row with a run-up, and of one without."""


class FirstCopy(RepeatedEncoder):
    """The text is read once, after something that is as long (or half as long) as a first copy of it."""

    def __init__(self, *read: Any, what: str, **common: Any) -> None:
        self._what = what
        super().__init__(*read, **common)
        self._first = cache({"other": self._other, "shuffled": self._shuffled, "surprising": self._surprising}[what])

    def identity(self) -> Identity:
        return super().identity().with_facts(first=self._what)

    def _row(self, pieces: Sequence[int]) -> list[int]:
        return [*self._prefix, *self._first(tuple(pieces)), *self._between, *pieces]

    def _origin(self, num_pieces: int) -> int:
        first = (num_pieces + 1) // 2 if self._what == "surprising" else num_pieces
        return len(self._prefix) + first + len(self._between)

    def _shuffled(self, pieces: tuple[int, ...]) -> list[int]:
        words: list[list[int]] = []
        for piece, text in zip(pieces, self.tokenizer.convert_ids_to_tokens(list(pieces)), strict=True):
            if not words or text[:1] in "Ġ▁":
                words.append([])
            words[-1].append(piece)
        return [piece for n in generator_of(pieces).permutation(len(words)) for piece in words[n]]

    def _other(self, pieces: tuple[int, ...]) -> list[int]:
        """Sentences of `POOL`, as many as needed."""
        generator, found = generator_of(pieces), list[int]()
        while len(found) < len(pieces):
            text = POOL[generator.integers(len(POOL))]
            found += self.tokenizer(text + "\n", add_special_tokens=False)["input_ids"]
        return found[: len(pieces)]

    @torch.inference_mode()
    def _surprising(self, pieces: tuple[int, ...]) -> list[int]:
        """In their order."""
        ids = torch.tensor([[*self._prefix, *pieces]], device=self.device)
        logits = self._whole_lm(input_ids=ids, use_cache=False).logits[0, len(self._prefix) - 1 : -1].float()
        losses = torch.nn.functional.cross_entropy(logits, ids[0, len(self._prefix) :], reduction="none")
        kept = losses.topk((len(pieces) + 1) // 2).indices.sort().values
        return [pieces[n] for n in kept.tolist()]

    @cached_property
    def _whole_lm(self) -> Any:
        return self.language_model()


POOL: list[str] = []
"""Sentences of the training set."""


def generator_of(pieces: tuple[int, ...]) -> np.random.Generator:
    """The same for the same pieces."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(np.array(pieces).tobytes()).digest()[:8]))


for kind in ("other", "shuffled", "surprising"):
    KINDS[f"{kind}-first"] = Kind(partial(FirstCopy, what=kind), KINDS["repeated"].options, "copies")


def main(
    data: Path,
    llm: str,
    work: Path,
    figures: Path | None = None,
    text: tuple[str, ...] = (),
    rows: tuple[str, ...] = (),
    sets: tuple[str, ...] = ("politics", "wnut17"),
    seeds: tuple[int, ...] = (1, 2, 3),
    tokens: int = 500_000,
    minutes: float = 30,
    draw: Path | None = None,
) -> None:
    """Print a row per way of reading and set as it is ready.

    Args:
        data: The folder of the data sets.
        llm: Folder or name of the LLM.
        work: Folder of what is trained.
        figures: File of the figures, which is continued.
        text: Raw text that adapters and the backward half learn from.
        rows: Names of rows; by default all, each with and without the run-up.
        sets: Names of sets of `bench/llm.py`.
        seeds: Random seeds of the head.
        tokens: Pieces that an adapter learns from.
        minutes: Of the backward half.
        draw: Where to write the picture.
    """
    cells, name = Figures(figures), Path(llm).name
    depth = load_config(llm, None).get_text_config().num_hidden_layers
    places = {"llm": llm, "work": work, "name": name, "upper": f"{depth // 2 + 1}-{depth}"}
    head = ("row", "set", "F1", "gain", *PLACES, "pieces/word", "minutes")
    print("| " + " | ".join(head) + " |\n|---|---|" + "---:|" * (len(head) - 2), flush=True)
    for row in rows or [row + more for row in ROWS for more in ("", PREPARED)]:
        prepared = row.endswith(PREPARED)
        spec, options = ROWS[row.removesuffix(PREPARED)]
        options = {**options, "prefix": PREFIX[prepared]}
        what = spec.partition("{name}-")[2]
        if prepared and what not in ("", "half"):
            spec, what = f"{spec}-run-up", f"{what}-run-up"
        trained = train(llm, what, work, text, tokens, minutes) if what else 0.0
        encoder = spec.format_map(places)
        for chosen in sets:
            POOL[:] = [" ".join(s.words) for s in read_part(data, SETS[chosen][0], "train", SETS[chosen][1])]
            for seed in seeds:
                if (key := f"{name} {row} {chosen} {seed}") not in cells:
                    cells[key] = run(encoder, {**options, "dtype": "bfloat16"}, SETS[chosen], data, seed)
            found = [cells[f"{name} {row} {chosen} {seed}"] for seed in seeds]
            if (key := f"{name} {row} {chosen} pieces") not in cells:
                cells[key] = pieces_a_word(encoder, options, read_part(data, SETS[chosen][0], "dev"))
            base = [cells.get(f"{name} {BASE} {chosen} {seed}") for seed in seeds]
            shown = [chosen, spread([cell["f1"] for cell in found]), gain(base, found)]
            shown += [spread([cell[place] for cell in found]) for place in PLACES]
            shown += [f"{cells[f'{name} {row} {chosen} pieces']:.2f}", f"{trained:.1f}"]
            print(f"| {row} | " + " | ".join(shown) + " |", flush=True)
    if draw is not None:
        write_file(draw, svg.standalone(drawing(cells, sets[0])))


HEIGHT, LEFT, TOP, BETWEEN, LINE = 200, 34, 40, 58, 16
SIDES = ((10, 0), (-10, 0), (9, 9), (9, -9), (-9, 9), (-9, -9))
"""Where a letter may stand beside its dot."""


def drawing(cells: dict[str, Any], chosen: str) -> str:
    """A panel an LM: points above the LM with its start piece, by pieces computed a word; a letter for each row."""
    end, found = f" {chosen} pieces", dict[str, list[tuple[float, float, str]]]()
    for key in (key for key in cells if key.endswith(end)):
        name, _, row = key.removesuffix(end).partition(" ")
        values = [[c["f1"] for n in range(9) if (c := cells.get(f"{name} {r} {chosen} {n}"))] for r in (row, BASE)]
        if all(values):
            value, base = map(statistics.fmean, values)
            found.setdefault(name, []).append((cells[key], value - base, row))
    costs, gains = ([point[axis] for own in found.values() for point in own] for axis in (0, 1))
    up, across = svg.ticks(min(gains), max(gains)), svg.Scale(1, max(costs) + 0.1, LEFT + 4, svg.WIDTH)
    shown = [row for row in ROWS if any(row in point[2] for own in found.values() for point in own)]
    letters, parts = {row: chr(ord("a") + n) for n, row in enumerate(shown)}, list[str]()
    for x, style, when in ((LEFT, "s0", "after the start piece"), (LEFT + 160, "s1", "after the run-up too")):
        parts += [svg.dots([(x + 6, 8)], style, 7), svg.text_line(x + 14, 12, when)]
    for number, (name, own) in enumerate(found.items()):
        top, taken = TOP + number * (HEIGHT + BETWEEN), list[tuple[float, float]]()
        height = svg.Scale(up[0], up[-1], top + HEIGHT, top)
        parts.append(svg.text_line(LEFT, top - 8, name, style="b"))
        for mark in up:
            parts.append(svg.path([(LEFT, height(mark)), (svg.WIDTH, height(mark))], "g"))
            parts.append(svg.text_line(LEFT - 6, height(mark) + 4, f"{mark:g}", "end", "m"))
        for mark in svg.ticks(1, max(costs), 5)[:-1]:
            parts.append(svg.text_line(across(mark), top + HEIGHT + 16, f"{mark:g}", "middle", "m"))
        parts.append(svg.text_line((LEFT + svg.WIDTH) / 2, top + HEIGHT + 32, "pieces computed a word", "middle", "m"))
        places = {row: (across(cost), height(gain)) for cost, gain, row in own}
        for row, (x, y) in places.items():
            sides = [(x + right, y + down) for right, down in SIDES]
            others = [*places.values(), *taken]
            free = [(a, b) for a, b in sides if all(abs(a - c) > 8 or abs(b - d) > 8 for c, d in others)]
            taken.append((free or sides)[0])
            letter = svg.text_line(taken[-1][0], taken[-1][1] + 4, letters[row.removesuffix(PREPARED)], "middle")
            parts += [svg.dots([(x, y)], f"s{int(row.endswith(PREPARED))}", 7), letter]
    below = TOP + len(found) * (HEIGHT + BETWEEN)
    for number, (row, letter) in enumerate(letters.items()):
        parts.append(svg.text_line(LEFT + 160 * (number % 2), below + LINE * (number // 2), f"{letter}  {row}"))
    title = f"F1 gained on {chosen}, by pieces computed a word"
    return svg.picture(svg.WIDTH, below + LINE * (len(letters) + 1) // 2, title, *parts)


def pieces_a_word(encoder: str, options: dict[str, Any], sentences: Sequence[Any]) -> float:
    """How many pieces are computed for a word; a run-up that is computed once for all counts nothing, nor does the
    choice of the surprising half."""
    opened = open_encoder(encoder, ReadingOptions(**options))
    parts: Any = getattr(opened, "parts", [opened])
    total = sum(len(row.ids) - len(part.before) * bool(part.run_up) for part in parts for row in part.rows(sentences))
    return total / sum(map(len, sentences))


def train(llm: str, what: str, work: Path, text: Sequence[str], tokens: int, minutes: float) -> float:
    """Train an adapter ("second-reading" or "hidden-pieces") or a backward half ("half"), and write it into `work`;
    returns the minutes that it took. What is there is not trained again."""
    out = work / f"{Path(llm).name}-{what}"
    taken = work / f"{out.name}.minutes"
    if taken.exists():
        return float(taken.read_text())
    shards = work / f"{Path(llm).name}-shards"
    if what != "half" and not shards.exists():
        tokenize(tuple(text), out=shards, tokenizer=llm)
    began = time.perf_counter()
    if what == "half":
        build_backward(BackwardConfig(model=llm, text=tuple(text), out=out, minutes=minutes))
    else:
        learn: Any = what.removesuffix("-run-up")
        depth = load_config(llm, None).get_text_config().num_hidden_layers
        blocks = "all" if learn == "hidden-pieces" else f"{depth // 4 + 1}-{depth}"
        learned = TextAdaptOptions(shards=shards, learn=learn, segment_length=64, tokens=tokens)
        reading = partial(ReadingOptions, prefix=PREFIX[what.endswith("-run-up")])  # adapt has no option for it
        with patch.object(adapters, "ReadingOptions", reading):
            adapters.adapt_to_text(AdaptConfig(lm=llm, out=out, blocks=blocks, lr=1e-3, dropout=0.0, text=learned))
    taken.write_text(str((time.perf_counter() - began) / 60))
    return float(taken.read_text())


if __name__ == "__main__":
    tyro.cli(main)
