"""The mean vector of each word in raw text: the text is read once to count its words, and once by the encoder.

Only the sums are in memory, of the words that are kept: 4 bytes for each dimension of each.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tqdm import tqdm

from boustro.encoders.means import KIND, WordMeans, save_means
from boustro.encoders.memory import reading_facts
from boustro.encoders.spec import exact_spec, load_encoder
from boustro.roads.options import MemoryConfig
from boustro.store import write_folder
from boustro.text.documents import chunk_by_size
from boustro.types import Sentence

Document = list[Sentence]
CHUNK_WORDS = 20_000


def write_memory(documents: Callable[[bool], Iterable[Document]], config: MemoryConfig) -> dict[str, Any]:
    """Write the folder; returns what was read. `ValueError` for text without words.

    Args:
        documents: Called twice, with whether it shows a progress bar: the first time alone.
        config: The options.
    """
    encoder = load_encoder(config.encoder, **config.reading())
    found = Counter(word for document in documents(True) for sentence in document for word in sentence.words)
    if not found:
        raise ValueError("the corpus has no words")
    rows = {word: row for row, (word, _) in enumerate(found.most_common(config.words))}
    sums = [np.zeros((len(rows), stream.width), np.float32) for stream in encoder.streams]
    counts = np.zeros(len(rows), np.float32)
    with tqdm(total=found.total(), desc="reading", unit=" words", unit_scale=True, disable=None) as bar:
        for chunk in chunk_by_size(documents(False), lambda document: sum(map(len, document)), CHUNK_WORDS):
            sentences = [sentence for document in chunk for sentence in document]
            words = [word for sentence in sentences for word in sentence.words]
            read = np.array([rows.get(word, -1) for word in words], np.int64)
            kept = np.flatnonzero(read >= 0)
            order = kept[np.argsort(read[kept], kind="stable")]
            own, starts, sizes = np.unique(read[order], return_index=True, return_counts=True)
            counts[own] += sizes
            for total, vectors in zip(sums, encoder.encode_all(sentences).streams, strict=True):
                if len(own):
                    total[own] += np.add.reduceat(vectors[order, -1].astype(np.float32), starts, axis=0)
            bar.update(len(words))
    means = [(total / counts[:, None]).astype(np.float16) for total in sums]
    record = {"words": found.total(), "different": len(found), "kept": len(rows)}
    names = {"encoder": exact_spec(config.encoder, encoder.identity()), "reading": reading_facts(encoder)}
    with write_folder(config.out, KIND) as folder:
        save_means(folder, WordMeans(rows, counts, means), {**names, "record": record})
    return record
