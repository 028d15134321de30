"""An LLM of one's own, its backward half, and the controls: F1 and what each costs.

    boustro backward LLM --text TEXT --out half
    python bench/llm.py --data ../shared/data --llm LLM --half half --figures llm.json
    python bench/llm.py --data ../shared/data --llm LLM --half half --rows forward pair small=LLM+other --sets politics

For each set a tagger with default settings, the epoch chosen on dev; F1 of all entities, of those in the buckets of
`bench/unseen.py`, and of those that begin with the first word of a sentence, and elsewhere. A row is a name of `ROWS`,
or NAME=SPEC for any other encoder. Costs are of the dev set of `politics`: words a second on this machine, features
not cached, and bytes of features a word. A cell in the file at --figures is not computed again. Mean ± standard
deviation over the seeds.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tyro

import boustro
from boustro.encoders.spec import load_encoder
from boustro.metrics.buckets import DIMENSIONS, Training, count_buckets
from boustro.metrics.spans import score_entities
from boustro.store import write_file
from boustro.tasks.data.schemes import gold_entities
from unseen import BUCKETS, spread

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "forward": ("{llm}", {}),
    "all layers": ("{llm}", {"layers": "all"}),
    "block": ("{llm}", {"head": "block"}),
    "bilstm": ("{llm}", {"head": "bilstm"}),
    "repeated": ("repeated:{llm}", {}),
    "pair": ("{llm}+{half}", {}),
    "half alone": ("{half}", {}),
    "pair, pooled mentions": ("{llm}+{half}", {"pool_mentions": True}),
    "forward, pooled mentions": ("{llm}", {"pool_mentions": True}),
    "forward, paper's settings": ("{llm}", {"preset": "paper"}),
    "pair, paper's settings": ("{llm}+{half}", {"preset": "paper"}),
}
"""By name: the encoder, and options that are not the default."""
SETS: dict[str, tuple[str, int | None, dict[str, Any]]] = {
    "politics": ("crossner_politics", None, {}),
    "science": ("crossner_science", None, {}),
    "wnut17": ("wnut17", None, {"epochs": 10}),
    "conll800": ("conll2003", 800, {"epochs": 10}),
    "conll4000": ("conll2003", 4000, {"epochs": 8}),
    "bc5cdr": ("bc5cdr", None, {"epochs": 10}),
}
"""By name: the folder, the number of training sentences, and options that are not the default."""
PLACES = ("first word", "elsewhere")


def main(
    data: Path,
    llm: str,
    half: str,
    figures: Path | None = None,
    rows: tuple[str, ...] = ("forward", "repeated", "pair"),
    sets: tuple[str, ...] = ("politics", "wnut17", "conll800"),
    seeds: tuple[int, ...] = (1, 2, 3),
) -> None:
    """Print a row per system and set as it is ready.

    Args:
        data: The folder of the data sets.
        llm: Folder or name of the LLM.
        half: Folder that boustro backward wrote.
        figures: File of the figures, which is continued.
        rows: Names of rows, or NAME=SPEC.
        sets: Names of sets.
        seeds: Random seeds of the head.
    """
    cells: dict[str, dict[str, float]] = json.loads(figures.read_text()) if figures and figures.exists() else {}
    heads = ("F1", *BUCKETS, *PLACES, "words/s", "bytes/word")
    print("| row | set | " + " | ".join(heads) + " |\n|---|---|" + "---:|" * len(heads), flush=True)
    for name in rows:
        label, _, spec = name.partition("=")
        encoder, options = (spec, {}) if spec else ROWS[name]
        encoder = encoder.format(llm=llm, half=half)
        for own in sets:
            found = []
            for seed in seeds:
                key = f"{label} {encoder} {own} {seed}"
                if key not in cells:
                    cells[key] = run(encoder, options, SETS[own], data, seed)
                    if figures:
                        write_file(figures, json.dumps(cells, indent=1) + "\n")
                found.append(cells[key])
            cost = cost_of(encoder, options, data, cells, figures)
            shown = [spread([cell[column] for cell in found]) for column in ("f1", *BUCKETS, *PLACES)]
            print(f"| {label} | {own} | " + " | ".join([*shown, *cost]) + " |", flush=True)


def run(
    encoder: str, options: Mapping[str, Any], chosen: tuple[str, int | None, dict[str, Any]], data: Path, seed: int
) -> dict[str, float]:
    """F1 of a tagger on the development set, of all entities and by bucket."""
    folder, number, own = chosen
    train, dev = (boustro.read_data(data / "ner" / folder / f"{part}.txt") for part in ("train", "dev"))
    train = train[:number]
    tagger = boustro.Tagger(encoder, **{**own, **options}).fit(train, dev, seed=seed)
    found = [answer.entities for answer in tagger.answer(dev, cached=True)]
    gold = [gold_entities(sentence) for sentence in dev]
    known = Training.of((sentence.words, gold_entities(sentence)) for sentence in train)
    counts = count_buckets(DIMENSIONS["seen"], known, [sentence.words for sentence in dev], gold, found)
    first, rest = (score_entities(*([only(own, at) for own in part] for part in (gold, found))) for at in (True, False))
    places = dict(zip(PLACES, (first.f1, rest.f1), strict=True))
    return {"f1": score_entities(gold, found).f1, **{key: counts[name].f1 for key, name in BUCKETS.items()}, **places}


def only(entities: Sequence[Any], first: bool) -> list[Any]:
    """Those that begin with the sentence's first word, or all others."""
    return [entity for entity in entities if (entity.start == 0) == first]


def cost_of(
    encoder: str, options: Mapping[str, Any], data: Path, cells: dict[str, Any], figures: Path | None
) -> tuple[str, str]:
    """Words a second and bytes of features a word, measured once."""
    key = f"cost {encoder} {options.get('layers', 'auto')}"
    if key not in cells:
        own = load_encoder(encoder, options.get("layers", "auto"), context="document")
        sentences = boustro.read_data(data / "ner" / "crossner_politics" / "dev.txt")
        words, began = sum(map(len, sentences)), time.perf_counter()
        own.encode_all(sentences)
        cells[key] = {"speed": words / (time.perf_counter() - began), "bytes": own.bytes_per_word}
        if figures:
            write_file(figures, json.dumps(cells, indent=1) + "\n")
    return f"{cells[key]['speed']:,.0f}", f"{cells[key]['bytes']:,}"


if __name__ == "__main__":
    tyro.cli(main)
