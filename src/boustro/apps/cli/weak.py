"""`boustro weak`: silver labels for running text, as JSON lines that `boustro fit --weak` reads.

With `--gazetteer` names with a label each are found (`text.gazetteer`).

Where in a text the entities are that were listed without offsets, as language models list them.

    {"text": "Ada met Ada.", "entities": [{"text": "Ada", "label": "PER"}]}   →   PER [0, 3), PER [8, 11)

What was listed once is labelled wherever it stands; what was listed several times is labelled so often, from left to
right. It must begin and end where words do, in the same case; a full stop of its last word is added. What does not
stand in the text, or not so often, is counted, not guessed.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from boustro.errors import count_of, shorten
from boustro.options import Positional, check_options
from boustro.output import as_json, keep_file, print_notices
from boustro.progress import Progress
from boustro.store import write_file
from boustro.text.documents import Split, read_documents
from boustro.text.files import DataFile
from boustro.text.gazetteer import Gazetteer
from boustro.text.places import Corpus, TextPath
from boustro.text.words import split_text
from boustro.types import Entity

CharacterSpan = tuple[int, int]
ABSENT = "listed entities that do not stand in their text, left out"
INSIDE_WORDS = "listed entities that stand only inside words of their text, left out"
SURPLUS = "entities listed more often than they stand in their text, left out"
TAKEN = "places of listed entities that overlap another one, left out"


def locate_entities(text: str, listed: Sequence[Any], where: str) -> tuple[list[Entity], Counter[str]]:
    """Return the entities over the characters of the text, in order, and what was left out, counted.

    Raises `ValueError`, with the place, for an item without `text` and `label`.
    """
    by_name: dict[str, list[str]] = {}
    for item in listed:
        name, label = _mention(item, where)
        by_name.setdefault(name, []).append(label)
    places = [place for placed in split_text(text) for place in placed.places]
    starts, ends = {start for start, _ in places}, {end for _, end in places}
    entities: list[Entity] = []
    counts: Counter[str] = Counter()
    for name, labels in sorted(by_name.items(), key=lambda item: -len(item[0])):
        places = _find(text, name)
        whole = _apart(_whole(text, place, ends) for place in places if place[0] in starts)
        free = [(start, end) for start, end in whole if not any(start < e.end and e.start < end for e in entities)]
        if not whole:
            counts[INSIDE_WORDS if places else ABSENT] += len(labels)
        elif len(labels) == 1:
            counts[TAKEN] += len(whole) - len(free)
            labels *= len(free)
        else:
            surplus = max(0, len(labels) - len(free))
            counts[TAKEN] += (taken := min(surplus, len(whole) - len(free)))
            counts[SURPLUS] += surplus - taken
        for (start, end), label in zip(free, labels, strict=False):
            entities.append(Entity(label, start, end, text[start:end]))
    return sorted(entities), +counts


def _mention(item: Any, where: str) -> tuple[str, str]:
    name, label = (item.get("text"), item.get("label")) if isinstance(item, Mapping) else (None, None)
    if not (isinstance(name, str) and isinstance(label, str) and name.strip() and label.strip()):
        raise ValueError(f'{where}: a listed entity is {{"text": …, "label": …}}, got {shorten(item)}')
    return name.strip(), label.strip()


def _find(text: str, name: str) -> list[CharacterSpan]:
    """Return every place of a name, whatever white space is between its words, from left to right; places may
    overlap."""
    pattern = r"\s+".join(map(re.escape, name.split()))
    return [match.span(1) for match in re.finditer(f"(?=({pattern}))", text)]


def _whole(text: str, place: CharacterSpan, ends: set[int]) -> CharacterSpan | None:
    """Return the place if it ends where a word does, or with the full stop that is of its last word there."""
    start, end = place
    end += end not in ends and text[end : end + 1] == "."
    return (start, end) if end in ends else None


def _apart(places: Iterable[CharacterSpan | None]) -> list[CharacterSpan]:
    """Those of the places, from left to right, that do not overlap the one before."""
    kept: list[CharacterSpan] = []
    for place in places:
        if place and (not kept or place[0] >= kept[-1][1]):
            kept.append(place)
    return kept


CROSSING = "names that begin inside another one and end after it, left out"
WITHOUT = "texts without a name"


def weak(
    texts: Positional[tuple[Corpus, ...]],
    out: Path,
    gazetteer: TextPath | None = None,
    ignore_case: bool = False,
    split: Split = "line",
    text_key: str = "text",
    overwrite: bool = False,
) -> None:
    """Label running text with the names of a gazetteer, or with what a language model listed.

    The result is JSON lines with text and entities for boustro fit --weak, which also takes the output of boustro
    predict --format jsonl.

    Args:
        texts: Files of text, JSON, CSV, TSV, parquet or Arrow (.gz, .bz2, .xz, .zst too). Without --gazetteer JSON
            lines whose objects have a text and a list of entities, each with its text and its label, which are found
            in the text.
        out: File to write.
        gazetteer: Names and their labels, with a tab between them on each line, or JSON or a table with the columns
            text (or name) and label (or type). The
            longest name counts, from left to right, over whole words.
        ignore_case: Find the names of the gazetteer in any case. By default the case must be the same.
        split: What ends a text in a text file.
        text_key: Key or column of the text in files that are not plain text.
        overwrite: Replace an existing file at --out.
    """
    check_options(weak, locals())
    if not texts:
        raise ValueError("no texts given; name at least one file")
    keep_file(out, overwrite)
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
        records = [{"start": e.start, "end": e.end, "label": e.label, "text": e.text} for e in entities]
        lines.append(as_json({"text": text, "entities": records}) + "\n")
    counts[CROSSING] = len(crossing)
    if not labels:
        raise ValueError(f"{', '.join(texts)}: no entity was found, so there is nothing to learn from")
    write_file(out, "".join(lines))
    print_notices(counts)
    totals = ", ".join(f"{count:,} {label}" for label, count in sorted(labels.items()))
    print(f"{out}: {count_of(len(lines), 'texts')}, {totals}", file=sys.stderr)


def _listed(files: tuple[str, ...], text_key: str, counts: Counter[str]) -> Iterator[tuple[str, list[Entity]]]:
    """Texts with the entities that were listed for them; what was left out is added to `counts`."""
    for file in files:
        for where, record in DataFile(file).open("json"):
            text: Any = record.get(text_key) if isinstance(record, dict) else None
            listed = record.get("entities") if isinstance(record, dict) else None
            if not isinstance(text, str) or not isinstance(listed, list):
                raise ValueError(
                    f"{where}: no {text_key!r} with a list of 'entities'; for other texts give --gazetteer FILE"
                )
            entities, left_out = locate_entities(text, listed, where)
            counts.update(left_out)
            yield text, entities
