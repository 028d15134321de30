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

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch.utils.flop_counter import FlopCounterMode

from boustro.encoders.spec import Spec, load_encoder
from boustro.metrics.significance import bootstrap, difference, entity_counts, f1
from boustro.metrics.spans import score_entities
from boustro.store import read_json
from boustro.tasks.data.schemes import gold_entities
from ner import BUCKETS, Figures, by_bucket, fit_tagger, found_entities, read_part, spread

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
BASE = "forward"
"""The row that the others are compared with."""


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
    cells = Figures(figures)
    heads = ("F1", "gain", *BUCKETS, *PLACES, "trained", "MFLOP/word", "words/s", "bytes/word")
    print("| row | set | " + " | ".join(heads) + " |\n|---|---|" + "---:|" * len(heads), flush=True)
    for name in rows:
        label, _, spec = name.partition("=")
        encoder, options = (spec, {}) if spec else ROWS[name]
        encoder = encoder.format(llm=llm, half=half)
        for set_name in sets:
            for seed in seeds:
                if (key := f"{label} {set_name} {seed}") not in cells:
                    cells[key] = run(encoder, options, SETS[set_name], data, seed)
            runs = [cells[f"{label} {set_name} {seed}"] for seed in seeds]
            shown = [spread([cell[column] for cell in runs]) for column in ("f1", *BUCKETS, *PLACES)]
            shown.insert(1, gain([cells.get(f"{BASE} {set_name} {seed}") for seed in seeds], runs))
            cost = cost_of(encoder, options, data, cells)
            trained = f"{runs[0]['parameters'] + cost['parameters']:,}"
            costs = [f"{cost['flops'] / 1e6:,.0f}", f"{cost['speed']:,.0f}", f"{cost['bytes']:,}"]
            print(f"| {label} | {set_name} | " + " | ".join([*shown, trained, *costs]) + " |", flush=True)


def run(
    encoder: str, options: Mapping[str, Any], chosen: tuple[str, int | None, dict[str, Any]], data: Path, seed: int
) -> dict[str, Any]:
    """F1 of a tagger on the development set, of all entities, by bucket and by place; what else the table needs."""
    folder, number, settings = chosen
    train, dev = read_part(data, folder, "train", number), read_part(data, folder, "dev")
    tagger = fit_tagger(encoder, {**settings, **options}, train, dev, seed)
    predicted, gold = found_entities(tagger, dev), [gold_entities(sentence) for sentence in dev]

    def f1_at(first: bool) -> float:
        return score_entities([only(spans, first) for spans in gold], [only(spans, first) for spans in predicted]).f1

    return {
        **by_bucket(train, dev, predicted),
        **{place: f1_at(place == PLACES[0]) for place in PLACES},
        "parameters": tagger.record["head_parameters"],
        "counts": entity_counts(gold, predicted).tolist(),
    }


def gain(base: Sequence[dict[str, Any] | None], runs: Sequence[dict[str, Any]]) -> str:
    """Points above the base row of the same seeds, and the 95% interval over sentences and seeds."""
    before = [cell["counts"] for cell in base if cell]
    if len(before) < len(runs) or before == [cell["counts"] for cell in runs]:
        return ""
    one, other = bootstrap(f1, [np.array(before), np.array([cell["counts"] for cell in runs])])
    gap = difference(one, other)
    assert gap is not None
    return f"{gap.points:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"


def only(entities: Sequence[Any], first: bool) -> list[Any]:
    """Those that begin with the sentence's first word, or all others."""
    return [entity for entity in entities if (entity.start == 0) == first]


def cost_of(encoder: str, options: Mapping[str, Any], data: Path, cells: Figures) -> dict[str, float]:
    """Of reading, measured once: words a second, floating-point operations a word, bytes of features a word; and the
    parameters that were trained before the head."""
    key = f"cost {encoder} {options.get('layers', 'auto')}"
    if key not in cells:
        opened = load_encoder(encoder, options.get("layers", "auto"), context="document")
        sentences = read_part(data, "crossner_politics", "dev")
        words, began = sum(map(len, sentences)), time.perf_counter()
        opened.encode_all(sentences)
        speed = words / (time.perf_counter() - began)
        some = sentences[:50]
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            opened.encode_all(some)
        records = [Path(part.place) / "training.json" for part in Spec.parse(encoder).parts]
        cells[key] = {
            "speed": speed,
            "flops": counter.get_total_flops() / sum(map(len, some)),
            "bytes": opened.bytes_per_word,
            "parameters": sum(read_json(record)["num_parameters"] for record in records if record.is_file()),
        }
    return cells[key]


if __name__ == "__main__":
    tyro.cli(main)
