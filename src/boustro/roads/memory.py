"""The mean vector of each word in raw text: the text is read once to count its words, and once by the encoder."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from boustro.encoders.codes import check_parts
from boustro.encoders.means import KIND, MeanSums, save_means
from boustro.encoders.memory import reading_facts
from boustro.encoders.spec import exact_spec, load_encoder
from boustro.encoders.windows import group_sentences
from boustro.roads.corpus import read_sentences
from boustro.roads.options import MemoryConfig
from boustro.store import write_file, write_folder
from boustro.tasks.data import read_raw
from boustro.types import Sentence


def write_memory(config: MemoryConfig) -> dict[str, Any]:
    """Write the folder; returns what was read. `ValueError` for text without words."""
    encoder = load_encoder(config.encoder, **config.reading())
    for stream in encoder.streams if config.code_bytes else ():
        check_parts(stream.width, config.code_bytes)
    found = Counter(word for document in _documents(config) for sentence in document for word in sentence.words)
    if not found:
        raise ValueError("the corpus has no words")
    sums = MeanSums(found, config.words, encoder.streams)
    sums.read(encoder, _documents(config, bar=False), found.total())
    record = {"words": found.total(), "different": len(found), "kept": len(sums.rows)}
    facts = {
        "encoder": exact_spec(config.encoder, encoder.identity()),
        "reading": reading_facts(encoder),
        "record": record,
    }
    with write_folder(config.out, KIND) as folder:
        save_means(folder, sums.means(config.code_bytes))
        write_file(folder / "config.json", json.dumps(facts, indent=1, ensure_ascii=False))
    return record


def _documents(config: MemoryConfig, bar: bool = True) -> Iterator[list[Sentence]]:
    """The sentences of each document of the corpus, then of the labelled files."""
    yield from read_sentences(config, config.corpus, config.max_documents, bar)
    for name in config.data:
        yield from group_sentences(read_raw(name).sentences, "document")
