"""The mean vector of each word in raw text: the text is read once to count its words, and once by the encoder.

    OUT                     the memory (`encoders.word_means`); its config.json says what was read, and how
    OUT.checkpoints/sums    until the run is finished: the sums of the documents read so far

A run that was stopped goes on after the last document in the sums, and ends with the same bytes.
"""

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from boustro.encoders.base import Encoder
from boustro.encoders.extended import reading_facts
from boustro.encoders.reading import group_sentences
from boustro.encoders.spec import Spec, open_encoder
from boustro.encoders.word_means import (
    MEMORY_FILE,
    MEMORY_KIND,
    SUMMED_WORDS,
    MeanSums,
    check_parts,
    load_means,
    save_means,
)
from boustro.given import chunk_by_size
from boustro.lab.adapt.options import MemoryConfig, RawTextOptions
from boustro.lab.pretrain.checkpoints import is_usable
from boustro.lab.pretrain.config import OutputConfig
from boustro.lab.pretrain.distributed import Signals, say
from boustro.lab.pretrain.output import REPLACE, START_AGAIN, refuse_another_run, run_output
from boustro.lab.pretrain.progress import DryRun
from boustro.output import duration
from boustro.progress import Progress
from boustro.store import MANIFEST, Artefact, fingerprint, reading, remove_folder, write_file, write_folder
from boustro.tasks.data import read_raw
from boustro.text.documents import read_documents
from boustro.text.words import split_text
from boustro.types import Sentence

SUMS, SUM_FILES = "sums", (MEMORY_FILE,)
PROBED_WORDS = 3 * SUMMED_WORDS
"""How many words a dry run reads."""


def write_memory(config: MemoryConfig) -> dict[str, Any]:
    """Write the folder; returns what was read.

    Raises `ValueError` for text without words, `FileExistsError` for a memory or a checkpoint that is there already,
    and `SystemExit` when a signal stopped the run (143, 130) and after a dry run (0).
    """
    with run_output(config, MEMORY_KIND):
        encoder = open_encoder(config.encoder, config.reading())
        for stream in encoder.streams if config.code_bytes else ():
            check_parts(stream.width, config.code_bytes)
        counts = Counter(word for document in _documents(config) for sentence in document for word in sentence.words)
        if not counts:
            raise ValueError("the corpus has no words")
        sums = MeanSums(counts, config.words, encoder.streams)
        record = {"words": counts.total(), "different": len(counts), "kept": len(sums.rows)}
        if config.dry_run:
            _probe(config, sums, encoder, record)
        facts = {
            "encoder": Spec.parse(config.encoder).exact(encoder.identity()),
            "reading": reading_facts(encoder),
            "text": fingerprint(counts.most_common()),
            "words": config.words,
            "code_bytes": config.code_bytes,
        }
        if not is_finished(config, facts, lambda: load_means(Artefact(config.out))[1]):
            _read(config, sums, encoder, counts.total(), facts)
            with write_folder(config.out, MEMORY_KIND) as folder:
                save_means(folder, sums.means(config.code_bytes))
                told = facts | {"record": record}
                write_file(folder / "config.json", json.dumps(told, indent=1, ensure_ascii=False))
        remove_folder(config.checkpoints / SUMS)
        return record


def _documents(config: MemoryConfig, bar: bool = True) -> Iterator[list[Sentence]]:
    """Yield the sentences of each document of the corpus, then of the labelled files."""
    yield from read_sentences(config, config.corpus, config.max_documents, bar)
    for name in config.data:
        yield from group_sentences(read_raw(name).sentences, "document")


def _read(config: MemoryConfig, sums: MeanSums, encoder: Encoder, num_words: int, facts: dict[str, Any]) -> None:
    """Read the documents that are not in the sums yet, with checkpoints. `SystemExit` when a signal stopped it."""
    checkpoint, signals = config.checkpoints / SUMS, Signals()
    if config.resume:
        _restore(checkpoint, sums, facts)
    else:
        remove_folder(checkpoint, SUM_FILES)
    begun = sums.num_words
    signals.worth_saving = lambda: sums.num_words > begun

    def so_far() -> str:
        return f"{sums.num_words:,} of {num_words:,} words"

    with signals:
        after_chunk = saver(config, signals, SUMS, facts, sums.save, so_far)
        sums.read(encoder, _documents(config, bar=False), num_words, after_chunk)


def saver(
    config: OutputConfig,
    signals: Signals,
    kind: str,
    facts: dict[str, Any],
    save: Callable[[Path], None],
    so_far: Callable[[], str],
) -> Callable[[], None]:
    """Return a function that writes a checkpoint where one is due, and ends a run that a signal stopped, by
    `SystemExit`."""
    checkpoint, saved = config.checkpoints / kind, time.monotonic()

    def save_if_due() -> None:
        nonlocal saved
        if signals.received or time.monotonic() - saved >= 60 * config.save_minutes:
            with write_folder(checkpoint, kind, {"run": facts}) as folder:
                save(folder)
            saved = time.monotonic()
        if signals.received:
            say(f"stopped after {so_far()}; {checkpoint} is complete. To continue, give the same command with --resume")
            raise SystemExit(128 + signals.received)

    return save_if_due


def _restore(checkpoint: Path, sums: MeanSums, facts: dict[str, Any]) -> None:
    """Continue from a checkpoint where there is one; `ValueError` for one of another run."""
    if not checkpoint.is_dir() or not is_usable(checkpoint, SUMS, facts, SUM_FILES):
        return
    with reading(checkpoint, START_AGAIN):
        sums.restore(checkpoint)
    say(f"resuming from {checkpoint} after {sums.num_words:,} words")


def is_finished(config: OutputConfig, facts: dict[str, Any], known: Callable[[], Any]) -> bool:
    """Return whether `--resume` finds the folder complete; `known` opens it and gives its config. `ValueError` for one
    of another run."""
    if not config.resume or not (config.out / MANIFEST).is_file():
        return False
    refuse_another_run(config.out, {"run": known()}, facts, REPLACE)
    say(f"{config.out}: this run is finished; nothing to do")
    return True


def _probe(config: MemoryConfig, sums: MeanSums, encoder: Encoder, record: dict[str, Any]) -> NoReturn:
    """Read some documents, and print what the whole run will cost; raises `DryRun`."""
    ends = [(0, time.monotonic())]
    few = next(chunk_by_size(_documents(config, bar=False), lambda document: sum(map(len, document)), PROBED_WORDS))
    sums.read(encoder, few, PROBED_WORDS, lambda: ends.append((sums.num_words, time.monotonic())))
    (first, began), (last, ended) = ends[-2:]  # the first chunk is the slowest
    words, kept, widths = record["words"], record["kept"], [stream.width for stream in encoder.streams]
    time_needed = duration(words * (ended - began) / (last - first))
    size = sum(config.code_bytes or 2 * width for width in widths)
    say(f"dry run: {words:,} words, {record['different']:,} different; {time_needed}")
    say(f"disk: {kept * size / 2**20:,.1f} MB; a checkpoint has {4 * kept * sum(widths) / 2**20:,.1f} MB")
    raise DryRun(None)


def read_sentences(
    options: RawTextOptions, corpora: Sequence[str], most: int | None, bar: bool = True
) -> Iterator[list[Sentence]]:
    """Yield the sentences of each document, of the first `most`; `bar` shows how far it has come."""
    documents = itertools.islice(read_documents(corpora, options.text_key, options.split), most)
    progress = Progress("splitting", "documents", total=most, shown=None if bar else False)
    for number, text in enumerate(progress.over(documents)):
        yield [placed.sentence for placed in split_text(text, f"document {number}")]
