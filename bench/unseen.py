"""What an encoder is worth where the training data do not help: entities never seen, or seen with another type only.

    python bench/unseen.py --data ../shared/data --encoders starter-forward starter masked:$MINILM --figures unseen.json

For each set a tagger with default settings, the epoch chosen on dev; F1 of all entities, and of those in two buckets of
`report.buckets`. `across` is trained on CoNLL-2003 as the set of that name is, and scored on persons, locations and
organisations in the sentences of Few-NERD's development set that have any: another kind of text, other annotators. MISC
is left out of both sides there. A cell in the file at --figures is not computed again. Mean ± standard deviation.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tyro

from boustro.types import Entity, Sentence
from ner import BUCKETS, Figures, by_bucket, fit_tagger, found_entities, read_part, spread

SETS: dict[str, tuple[str, int | None, dict[str, Any]]] = {
    "wnut17": ("wnut17", None, {"epochs": 10}),
    "politics": ("crossner_politics", None, {}),
    "bc5cdr": ("bc5cdr", None, {"epochs": 10}),
    "conll2003": ("conll2003", 4000, {"epochs": 8}),
}
"""By name: the folder, the number of training sentences, and options that are not the default."""
ACROSS = {"person": "PER", "location": "LOC", "organization": "ORG"}


def main(
    data: Path,
    encoders: tuple[str, ...],
    figures: Path | None = None,
    sets: tuple[str, ...] = (*SETS, "across"),
    seeds: tuple[int, ...] = (1, 2, 3),
    sentences: int | None = None,
    memory: bool = False,
) -> None:
    """Print a row per encoder and set as it is ready.

    Args:
        data: The folder of the data sets.
        encoders: Specs of encoders.
        figures: File of the figures, which is continued.
        sets: Names of sets.
        seeds: Random seeds of the head.
        sentences: At most so many sentences of every file, for a quick look.
        memory: Taggers remember their training data, as with `boustro fit --memory`.
    """
    cells = Figures(figures)
    print(f"{'encoder':40} {'set':10} {'F1':>14} {'never seen':>14} {'other type':>14}", flush=True)
    for encoder in encoders:
        for name in (name for name in SETS if _scored(name, sets)):
            runs = [score(encoder, seed, data, _scored(name, sets), cells, sentences, memory) for seed in seeds]
            for scored in _scored(name, sets):
                shown = (spread([run[scored][key] for run in runs]) for key in ("f1", *BUCKETS))
                print(f"{encoder:40} {scored:10} " + " ".join(f"{value:>14}" for value in shown), flush=True)


def score(
    encoder: str,
    seed: int,
    data: Path,
    sets: Sequence[str],
    cells: Figures,
    sentences: int | None = None,
    memory: bool = False,
) -> dict[str, dict[str, float]]:
    """By set: F1 of a tagger over this encoder, of all entities and by bucket."""
    system = f"{encoder} --memory" if memory else encoder
    for name in SETS:
        scored = _scored(name, sets)
        if any(f"{system} {n} {seed}" not in cells for n in scored):
            for n, figures in _run(encoder, name, seed, data, sets, sentences, memory):
                cells[f"{system} {n} {seed}"] = figures
    return {name: cells[f"{system} {name} {seed}"] for name in (*SETS, "across") if name in sets}


def _scored(name: str, sets: Sequence[str]) -> list[str]:
    """What the tagger of a training set is scored on, of these sets."""
    return [n for n in ((name, "across") if name == "conll2003" else (name,)) if n in sets]


def _run(
    encoder: str, name: str, seed: int, data: Path, sets: Sequence[str], most: int | None, memory: bool
) -> Iterator[tuple[str, dict[str, float]]]:
    folder, number, options = SETS[name]
    train, dev = read_part(data, folder, "train", most)[:number], read_part(data, folder, "dev", most)
    tagger = fit_tagger(encoder, {**options, "memory": memory}, train, dev, seed)
    for scored in _scored(name, sets):
        examples = dev if scored == name else few_nerd(data / "ner/fewnerd_inter/dev.txt")[:most]
        predicted = found_entities(tagger, examples)
        if scored != name:
            wanted = set(ACROSS.values())
            predicted = [[entity for entity in spans if entity.label in wanted] for spans in predicted]
        yield scored, by_bucket(train, examples, predicted)


def few_nerd(path: Path) -> list[Sentence]:
    """The sentences with a person, location or organisation; neighbouring words of one fine type are one entity."""
    sentences = []
    for block in path.read_text("utf-8").split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if "\t" in line]
        types, entities, start = [row[1] for row in rows], [], 0
        for end in range(1, len(rows) + 1):
            if end == len(rows) or types[end] != types[start]:
                label = ACROSS.get(types[start].partition("-")[0])
                entities += [Entity(label, start, end)] if label else []
                start = end
        if entities:
            sentences.append(Sentence(tuple(row[0] for row in rows), entities=tuple(entities)))
    return sentences


if __name__ == "__main__":
    tyro.cli(main)
