"""Names of all texts in groups, each of which a person gives one label; without HTTP.

    group_names(found)             [NameGroup(["Ghent", "Utrecht"], 5, "PLACE"), …], the largest first
    told = GroupLabels((("PLACE", ("Ghent",)),))
    told.apply(words, entities)    "Ghent" is a PLACE wherever it stands; what is told no name ("") is none

A name is its words as they are written, with a space between them; its vector is the mean of its mentions'. The most
frequent name begins a group, and every other one joins the group whose mean is the nearest, if that is near enough,
or begins one. Of a label that is told nothing is learned: it is what the page suggests until the text is answered. What
is told no name leaves the answers too.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from boustro.arrays import unit
from boustro.types import Entity

NEAR = 0.5
"""The least cosine of a name and the mean of its group."""
MOST_NAMES = 1000
"""The most frequent names, which are grouped."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text, what is suggested for it, and its vector (d,)."""

    name: str
    label: str
    vector: np.ndarray


@dataclass(frozen=True, slots=True)
class NameGroup:
    """Names that are alike, the most frequent first, their mentions, and the label that most of these have."""

    names: list[str]
    mentions: int
    label: str


@dataclass(frozen=True)
class GroupLabels:
    """Labels given to groups of names, in order: a label, or "" for what is no name, and names. The last word
    counts."""

    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @cached_property
    def labels(self) -> dict[tuple[str, ...], str]:
        """The label of the words of a name."""
        return {tuple(name.split(" ")): label for label, names in self.steps for name in names}

    def apply(self, words: Sequence[str], entities: Iterable[Entity]) -> tuple[Entity, ...]:
        """Entities that were suggested for a text, as they are after what was told; a score is only a suggestion's."""
        if not self.steps:
            return tuple(entities)
        kept = list[Entity]()
        for e in self.without_rejected(words, entities):
            label = self.labels.get(tuple(words[e.start : e.end]))
            kept.append(e if label is None else Entity(label, e.start, e.end))
        taken = {n for e in kept for n in range(e.start, e.end)}
        for size in sorted({len(name) for name in self.labels}, reverse=True):
            for start in range(len(words) - size + 1):
                label = self.labels.get(tuple(words[start : start + size]))
                if label and taken.isdisjoint(own := range(start, start + size)):
                    kept.append(Entity(label, start, start + size))
                    taken |= {*own}
        return tuple(sorted(kept, key=lambda e: (e.start, e.end)))

    def without_rejected(self, words: Sequence[str], entities: Iterable[Entity]) -> tuple[Entity, ...]:
        """Entities of a text without those that were told to be no names."""
        return tuple(e for e in entities if self.labels.get(tuple(words[e.start : e.end])) != "")

    def clean(self, answers: Iterable[Any]) -> dict[int, tuple[Any, Any]]:
        """Return the answers (`Annotation`) that have what was told to be no name, as they are and without it, by their
        `id`."""
        changes = dict[int, tuple[Any, Any]]()
        for answer in answers:
            kept = self.without_rejected(answer.sentence.words, answer.entities)
            if len(kept) < len(answer.entities):
                changes.setdefault(id(answer), (answer, replace(answer, entities=kept)))
        return changes

    def without(self, step: tuple[str, tuple[str, ...]]) -> "GroupLabels":
        """Return what was told without the last of these steps."""
        place = len(self.steps) - 1 - self.steps[::-1].index(step)
        return GroupLabels((*self.steps[:place], *self.steps[place + 1 :]))


def group_names(mentions: Sequence[Mention]) -> list[NameGroup]:
    """Groups of the names of mentions, the one with the most mentions first."""
    if not mentions:
        return []
    counts = Counter(mention.name for mention in mentions)
    names = {name: number for number, (name, _) in enumerate(counts.most_common(MOST_NAMES))}
    kept = [mention for mention in mentions if mention.name in names]
    means = np.zeros((len(names), len(kept[0].vector)))
    np.add.at(means, [names[mention.name] for mention in kept], [mention.vector for mention in kept])
    sums, groups = list[np.ndarray](), list[list[str]]()
    for name, vector in zip(names, unit(means), strict=True):
        near = unit(np.array(sums)) @ vector if sums else np.zeros(1)
        if near.max() >= NEAR:
            place = int(near.argmax())
            sums[place] = sums[place] + vector
            groups[place].append(name)
        else:
            sums.append(vector)
            groups.append([name])
    of = {name: place for place, members in enumerate(groups) for name in members}
    votes = [Counter[str]() for _ in groups]
    for mention in kept:
        votes[of[mention.name]][mention.label] += 1
    made = [NameGroup(g, vote.total(), vote.most_common(1)[0][0]) for g, vote in zip(groups, votes, strict=True)]
    return sorted(made, key=lambda group: -group.mentions)
