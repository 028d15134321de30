"""`boustro check`: what is in labelled data, before anything is trained on it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tyro.conf import Positional

from boustro.metrics.spans import extract_spans, parse_tag
from boustro.tasks.conll import read_columns, read_conll
from boustro.tasks.schemes import Scheme, detect_scheme, word_place
from boustro.types import Sentence

SHOWN = 5


def check(data: Positional[tuple[Path, ...]], scheme: Scheme = "auto") -> None:
    """Report on labelled files: scheme, counts per type, repaired tags, duplicates, and leakage between files.

    Args:
        data: Labelled sentences in CoNLL columns; give training, development and test files together.
        scheme: The tag scheme of the files.
    """
    if not data:
        raise ValueError("no data given; name at least one file in CoNLL columns")
    seen: dict[tuple[str, ...], Path] = {}
    for path in data:
        sentences = read_conll(path, scheme)
        raw = read_columns(path)
        kind = detect_scheme(raw) if scheme == "auto" else scheme
        entities = [e for s in sentences for e in extract_spans(s.tags or ())]
        words = sum(len(s) for s in sentences)
        documents = len({s.document for s in sentences if s.document})
        print(f"{path}: {len(sentences):,} sentences, {words:,} words, {documents:,} documents, scheme {kind.upper()}")
        for label, count in sorted(Counter(e.label for e in entities).items()):
            print(f"  {label:12} {count:7,} entities")
        repaired = _repaired(raw, kind)
        for place in repaired[:SHOWN]:
            print(f"  {place}")
        if len(repaired) > SHOWN:
            print(f"  … and {len(repaired) - SHOWN:,} more of this kind")
        repeated = len(sentences) - len({s.words for s in sentences})
        leaked = Counter(str(seen[s.words]) for s in sentences if s.words in seen)
        print(f"  {repeated:,} sentences stand here more than once")
        for other, count in leaked.items():
            print(f"  {count:,} sentences stand in {other} too")
        for sentence in sentences:
            seen.setdefault(sentence.words, path)


def _repaired(sentences: Sequence[Sentence], scheme: str) -> list[str]:
    """Places where a BIO file goes on with an entity that has not begun."""
    if scheme != "bio":
        return []
    places = []
    for sentence in sentences:
        previous = ("O", "")
        for offset, tag in enumerate(sentence.tags or ()):
            prefix, label = parse_tag(tag)
            if prefix == "I" and (previous[0] == "O" or previous[1] != label):
                places.append(f"{word_place(sentence, offset)}: {tag} begins an entity; read as B-{label}")
            previous = (prefix, label)
    return places
