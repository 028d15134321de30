"""boustro elmo: a corpus is split into sentences of words, and an ELMo is trained on them.

Here and not in `pretrain`, because splitting raw text is what the tasks know. All sentences stand in memory.
What is slow to import is imported when the command runs, so that its help need not wait.
"""

import itertools
from pathlib import Path
from typing import Any

from tqdm import tqdm
from tyro.conf import Positional

from boustro.options import Count, check_options
from boustro.pretrain.config import ElmoConfig
from boustro.text.documents import Split, read_documents
from boustro.text.words import split_text


def elmo(
    corpus: Positional[tuple[str, ...]],
    config: ElmoConfig,
    validation: Path | None = None,
    text_key: str = "text",
    split: Split = "blank-line",
    max_documents: Count | None = None,
) -> dict[str, Any]:
    """Train an ELMo on raw text.

    Args:
        corpus: Text or JSONL files (.gz, .bz2, .xz too), folders of them, or names of datasets on the hub.
        validation: Text whose loss is measured.
        text_key: The key of the text in JSONL files and datasets.
        split: What ends a document in a text file.
        max_documents: How many documents of the corpus, from its beginning, to train on; all by default.
    """
    from boustro.models.elmo import KIND
    from boustro.pretrain.elmo import train_elmo
    from boustro.pretrain.output import run_output

    check_options(elmo, locals())
    if not corpus:
        raise ValueError("no corpus given; name at least one file, folder or dataset")

    def sentences(corpora: tuple[str, ...], most: int | None) -> list[tuple[str, ...]]:
        documents = itertools.islice(read_documents(corpora, text_key, split), most)
        bar = tqdm(documents, desc="splitting", unit=" documents", disable=None)
        return [placed.sentence.words for document in bar for placed in split_text(document)]

    with run_output(config, KIND, config.checkpoint):
        held_out = sentences((str(validation),), None) if validation else []
        return train_elmo(sentences(corpus, max_documents), held_out, config)
