"""The mean vector of each word in raw text: the text is read once to count its words, and once by the encoder."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from boustro.encoders.codes import check_parts
from boustro.encoders.means import KIND, MeanSums, save_means
from boustro.encoders.memory import reading_facts
from boustro.encoders.spec import exact_spec, load_encoder
from boustro.roads.options import MemoryConfig
from boustro.store import write_file, write_folder
from boustro.types import Sentence

Document = list[Sentence]


def write_memory(documents: Callable[[bool], Iterable[Document]], config: MemoryConfig) -> dict[str, Any]:
    """Write the folder; returns what was read. `ValueError` for text without words.

    Args:
        documents: Called twice, with whether it shows a progress bar: the first time alone.
        config: The options.
    """
    encoder = load_encoder(config.encoder, **config.reading())
    for stream in encoder.streams if config.code_bytes else ():
        check_parts(stream.width, config.code_bytes)
    found = Counter(word for document in documents(True) for sentence in document for word in sentence.words)
    if not found:
        raise ValueError("the corpus has no words")
    sums = MeanSums(found, config.words, encoder.streams)
    sums.read(encoder, documents(False), found.total())
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
