"""The measures of every layer and direction, and their table."""

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from boustro.encoders.base import Encoder
from boustro.heads.transforms import Standardised
from boustro.studies.geometry.measures import measure
from boustro.text.documents import read_documents
from boustro.text.words import split_text


def measure_layers(encoder: Encoder, data: Path, most: int) -> list[dict[str, Any]]:
    """The measures of each stream and layer over the first sentences of a corpus, raw and standardised.

    Raises `ValueError` for a corpus with fewer than two words.
    """
    texts = enumerate(read_documents([str(data)], split="line"))
    placed = (part for number, text in texts for part in split_text(text, f"document {number}"))
    sentences = [part.sentence for part in islice(placed, most)]
    words = [word for sentence in sentences for word in sentence.words]
    if len(words) < 2:
        raise ValueError(f"{data}: fewer than two words; expected running text")
    lengths, features = [len(s) for s in sentences], encoder.encode_all(sentences)
    rows = []
    for stream, array in zip(encoder.streams, features.streams, strict=True):
        for layer in range(stream.num_layers):
            x = np.asarray(array[:, layer], np.float32)
            figures = asdict(measure(x, words, lengths))
            standardised = measure(Standardised.fit(x).apply(x), words, lengths).anisotropy
            rows.append({"stream": stream.name, "layer": layer, **figures, "anisotropy_standardised": standardised})
    return rows


def print_figures(figures: dict[str, Any]) -> None:
    """The table that people read."""
    heads = ("cosine", "standardised", "rogue", "its share", "self", "intra")
    width = max(len(row["stream"]) for row in figures["layers"])
    print(f"{'stream':{width}} layer {' '.join(f'{head:>12}' for head in heads)}")
    for row in figures["layers"]:
        names = ("anisotropy", "anisotropy_standardised", "rogue_dimension", "rogue_share")
        cosine, standardised, rogue, share = (row[name] for name in names)
        shown = [f"{cosine:.3f}", f"{standardised:.3f}", f"{rogue}", f"{share:.0f}%"]
        shown += [f"{row[name]:.3f}" for name in ("self_similarity", "intra_sentence")]
        print(f"{row['stream']:{width}} {row['layer']:5} {' '.join(f'{value:>12}' for value in shown)}")
    for name, value in figures.get("spearman", {}).items():
        print(f"{name:{width}} Spearman {value:6.2f} over {figures['pairs']:,} pairs")
