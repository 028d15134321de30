"""Words of raw text, how often each was read, and its mean vector; in a folder, which `boustro memory` writes:

    config.json           the encoder's exact spec, how it read, and what it read
    words.json            the words, the most frequent first
    memory.safetensors    counts (V,), and per stream the mean vectors (V, D), float16

V words, D width of a stream.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from boustro.store import read_folder, read_json, write_file

KIND, WEIGHTS = "memory", "memory.safetensors"
WORDS, COUNTS = "words.json", "counts"


@dataclass(frozen=True)
class WordMeans:
    """How often each word was read, and its mean vector in each stream."""

    rows: Mapping[str, int]
    """Word → its row, in order."""
    counts: np.ndarray  # (V,) float32
    means: Sequence[np.ndarray]  # (V, D) per stream

    def of(self, words: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each stream the counts (K,) of K words, 0 for one that was never read, and the mean vectors (K, D)."""
        rows = np.array([self.rows.get(word, -1) for word in words], np.int64)
        counts = np.where(rows < 0, np.float32(0), self.counts[rows])
        return ((counts, means[rows]) for means in self.means)


def save_means(folder: Path, known: WordMeans, config: Mapping[str, Any]) -> None:
    """Write the files; `config` has the encoder's exact spec and its `memory.reading_facts`."""
    save_file({COUNTS: known.counts, **{str(n): means for n, means in enumerate(known.means)}}, folder / WEIGHTS)
    write_file(folder / WORDS, json.dumps(list(known.rows), ensure_ascii=False))
    write_file(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))


def load_means(path: Path) -> tuple[WordMeans, dict[str, Any]]:
    """The words and `config.json`; `FileNotFoundError` or `ValueError` where the folder is missing or damaged."""
    with read_folder(path, KIND, needs=(WEIGHTS, WORDS, "config.json")):
        arrays, words = load_file(path / WEIGHTS), read_json(path / WORDS)
        counts = arrays.pop(COUNTS)
        means = [arrays[str(number)] for number in range(len(arrays))]
        config = read_json(path / "config.json")
        if not isinstance(config["encoder"], str) or "reading" not in config:
            raise ValueError("no encoder is named")
        rows = {word: row for row, word in enumerate(words)}
        if any(len(array) != len(rows) for array in (counts, *means)):
            raise ValueError("the words are not those of the vectors")
        return WordMeans(rows, counts, means), config
