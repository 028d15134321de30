"""Raw text as sentences, for the commands that train on words. torch is not imported here."""

import itertools
from collections.abc import Iterator, Sequence

from boustro.progress import Progress
from boustro.roads.options import CorpusOptions, RawTextOptions
from boustro.text.documents import read_documents
from boustro.text.words import split_text
from boustro.types import Sentence


def train_and_held_out(options: CorpusOptions) -> tuple[Iterator[list[Sentence]], Iterator[list[Sentence]]]:
    """The documents to train on and those to measure on, as sentences; `ValueError` where no corpus is named."""
    if not options.corpus:
        raise ValueError("no corpus given; name at least one file, folder or dataset")
    held_out = read_sentences(options, [str(options.validation)], None) if options.validation else iter(())
    return read_sentences(options, options.corpus, options.max_documents), held_out


def read_sentences(
    options: RawTextOptions, corpora: Sequence[str], most: int | None, bar: bool = True
) -> Iterator[list[Sentence]]:
    """The sentences of each document, of the first `most`; `bar` shows how far it has come."""
    documents = itertools.islice(read_documents(corpora, options.text_key, options.split), most)
    progress = Progress("splitting", "documents", total=most, shown=None if bar else False)
    for number, text in enumerate(progress.over(documents)):
        yield [placed.sentence for placed in split_text(text, f"document {number}")]
