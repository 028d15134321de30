"""`boustro weak`: silver labels for running text, as JSON lines that `boustro fit --weak` reads."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from boustro.options import Positional, check_options
from boustro.output import as_json, print_notices
from boustro.progress import Progress
from boustro.store import check_file, write_file
from boustro.tasks.weak.gazetteer import Gazetteer
from boustro.tasks.weak.located import locate
from boustro.text.documents import Split, read_documents, read_values
from boustro.text.places import Corpus, TextPath
from boustro.types import Entity

CROSSING = "names that begin inside another one and end after it, left out"
WITHOUT = "texts without a name"


def weak(
    texts: Positional[tuple[Corpus, ...]],
    out: Path,
    gazetteer: TextPath | None = None,
    ignore_case: bool = False,
    split: Split = "line",
    text_key: str = "text",
) -> None:
    """Label running text with the names of a gazetteer, or with what a language model listed.

    The result is JSON lines with text and entities for boustro fit --weak, which also takes the output of boustro
    predict --format jsonl.

    Args:
        texts: Files of text, JSON, CSV, TSV, parquet or Arrow (.gz, .bz2, .xz, .zst too). Without --gazetteer JSON
            lines whose objects have a text and a list of entities, each with its text and its label, which are found
            in the text.
        out: File to write.
        gazetteer: Names and their labels, with a tab between them on each line, or JSON lines with text and label. The
            longest name counts, from left to right, over whole words.
        ignore_case: Find the names of the gazetteer in any case. By default the case must be the same.
        split: What ends a text in a text file.
        text_key: Key or column of the text in files that are not plain text.
    """
    check_options(weak, locals())
    if not texts:
        raise ValueError("no texts given; name at least one file")
    check_file(out)
    counts: Counter[str] = Counter()
    crossing: list[Entity] = []
    if gazetteer is not None:
        names = Gazetteer.read(gazetteer, ignore_case)
        counts["names given again with another label, left out"] = names.repeated
        labelled = ((text, names.entities(text, crossing)) for text in read_documents(texts, text_key, split))
    else:
        labelled = _listed(texts, text_key, counts)
    lines, labels = [], Counter()
    for text, entities in Progress("labelling", "texts").over(labelled):
        counts[WITHOUT] += not entities
        labels.update(e.label for e in entities)
        own = [{"start": e.start, "end": e.end, "label": e.label, "text": e.text} for e in entities]
        lines.append(as_json({"text": text, "entities": own}) + "\n")
    counts[CROSSING] = len(crossing)
    if not labels:
        raise ValueError(f"{', '.join(texts)}: no entity was found, so there is nothing to learn from")
    write_file(out, "".join(lines))
    print_notices(counts)
    found = ", ".join(f"{count:,} {label}" for label, count in sorted(labels.items()))
    print(f"{out}: {len(lines):,} texts, {found}", file=sys.stderr)


def _listed(files: tuple[str, ...], text_key: str, counts: Counter[str]) -> Iterator[tuple[str, list[Entity]]]:
    """Texts with the entities that were listed for them; what was left out is added to `counts`."""
    for file in files:
        for where, record in read_values(Path(file)):
            text: Any = record.get(text_key) if isinstance(record, dict) else None
            listed = record.get("entities") if isinstance(record, dict) else None
            if not isinstance(text, str) or not isinstance(listed, list):
                raise ValueError(
                    f"{where}: no {text_key!r} with a list of 'entities'; for other texts give --gazetteer FILE"
                )
            found, left_out = locate(text, listed, where)
            counts.update(left_out)
            yield text, found
