"""Training sentences again, with other names in the same places: what stands around a name decides, not the name.

    Ada left Vellmar .    +  PER: Ada, Ines Calloway   LOC: Vellmar, Port Lisse
    →  Ines Calloway left Port Lisse .

A name is replaced by another of the same label from the training set, every different one equally probable. Whole
documents are copied where they are marked, so that the LM reads them in their context, and a name becomes the same one
throughout. Labels with one name only keep it. Documents in which entities overlap are not copied.

Source: mention replacement of Dai and Adel 2020, section 3. What is new must be encoded, so training takes longer.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from boustro.tasks.data.schemes import entities_to_bio, gold_entities
from boustro.types import Entity, Sentence

ADDED = "sentences added to the training set, copies with other names"
REPLACED = "names replaced in them"
OVERLAPPING = "training sentences not copied, because their document has entities that overlap"

Name = tuple[tuple[str, ...], tuple[bool, ...] | None]
"""Its words, and whether white space stands before each but the first."""


def replace_mentions(train: Sequence[Sentence], share: float, seed: int) -> tuple[list[Sentence], dict[str, int]]:
    """Copies of a share of the documents (or sentences) with other names, and how much was done, for notices."""
    rng = np.random.default_rng([seed, 7])
    names = _names(train)
    added: list[Sentence] = []
    counts = {ADDED: 0, REPLACED: 0, OVERLAPPING: 0}
    for group in _groups(train):
        if rng.random() >= share:
            continue
        if any(s.entities is not None for s in group):
            counts[OVERLAPPING] += len(group)
            continue
        chosen: dict[tuple[str, tuple[str, ...]], Name] = {}
        copies = []
        for sentence in group:
            copy, replaced = _copy(sentence, names, chosen, rng)
            copies.append(copy)
            counts[REPLACED] += replaced
        if chosen:
            added += copies
    return added, counts | {ADDED: len(added)}


def _names(train: Sequence[Sentence]) -> dict[str, list[Name]]:
    """By label, every different name."""
    found: dict[str, dict[tuple[str, ...], Name]] = defaultdict(dict)
    for s in train:
        for e in gold_entities(s) if s.entities is None else ():
            words = s.words[e.start : e.end]
            found[e.label].setdefault(words, (words, s.spaces and s.spaces[e.start + 1 : e.end]))
    return {label: [own[words] for words in sorted(own)] for label, own in found.items()}


def _groups(train: Sequence[Sentence]) -> list[list[Sentence]]:
    runs = [(name, list(run)) for name, run in groupby(train, key=lambda s: s.document)]
    return [group for name, run in runs for group in ([run] if name else [[s] for s in run])]


def _copy(
    sentence: Sentence,
    names: dict[str, list[Name]],
    chosen: dict[tuple[str, tuple[str, ...]], Name],
    rng: np.random.Generator,
) -> tuple[Sentence, int]:
    """The sentence with the names of its document's choice, and how many were replaced."""
    words: list[str] = []
    spaces: list[bool] = []
    entities, end, replaced = [], 0, 0
    known = sentence.spaces or (True,) * len(sentence)
    for e in gold_entities(sentence):
        own = sentence.words[e.start : e.end]
        others = [name for name in names[e.label] if name[0] != own]
        if others:
            key = e.label, own
            chosen.setdefault(key, others[int(rng.integers(len(others)))])
            new, inner = chosen[key]
            replaced += 1
        else:
            new, inner = own, known[e.start + 1 : e.end]
        words += [*sentence.words[end : e.start], *new]
        spaces += [*known[end : e.start], known[e.start], *(inner or (True,) * (len(new) - 1))]
        entities.append(Entity(e.label, len(words) - len(new), len(words)))
        end = e.end
    words += sentence.words[end:]
    spaces += known[end:]
    return Sentence(
        tuple(words),
        entities_to_bio(entities, len(words)),
        tuple(spaces) if sentence.spaces else None,
        f"{sentence.document} with other names" if sentence.document else "",
        sentence.where,
    ), replaced
