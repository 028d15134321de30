"""The senses of words: an inventory of what each lemma and part of speech had in training, with Raganato's score.

The labels are the senses of all entries, entry after entry, so that the candidates of a word are a range of them:

    entries {("bank", "NOUN"): (0, 2), ("sail", "VERB"): (2, 3)}
    labels  ("bank%1:14:00::", "bank%1:17:01::", "sail%2:38:00::")

A lemma that training lacks gets WordNet's first sense, where WordNet was given, else no answer.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from boustro.heads.inputs import SENSE_FEATURES, Targets
from boustro.heads.options import CentroidOptions, HeadOptions
from boustro.metrics.senses import SenseScore, count_senses
from boustro.tasks.answers import Answer
from boustro.tasks.data import data_name
from boustro.tasks.labellings.base import Labelling, Units
from boustro.tasks.sense.data import NO_GOLD
from boustro.tasks.sense.examples import LemmaEntry, Occurrence, read_wordnet
from boustro.types import Entity

How = Literal["centroid", "first sense", "none"]
UNANSWERED = "words without an answer: their lemma is not in the training data (nor in WordNet, where it was given)"


@dataclass(frozen=True, slots=True)
class SenseAnswer(Answer):
    """The key is the only tag, none where the lemma is unknown.

    Attributes:
        how: Where the key is from: the nearest centroid, or WordNet's first sense.
        ranked: The senses that were compared, with their scores, the best first.
    """

    how: How = "none"
    ranked: tuple[tuple[str, float], ...] = ()


class SenseUnits(Units):
    """The sense of a word, which may have several gold keys; its label is a key of the inventory."""

    metric, credit, label = "F1", "accuracy", "sense"
    has_labels = has_confusions = has_scores = False
    has_values = True
    rules = (("metric", "Raganato et al. 2017"),)

    def gold(self, example: Occurrence) -> list[Entity]:
        place = example.target.word if example.target else 0
        return [Entity(key, place, place + 1) for key in sorted(set(example.keys))]

    def values(self, examples: Sequence[Occurrence], answers: Sequence[Answer]) -> np.ndarray:
        """Return (N, 3): whether the word has a gold key, whether it has an answer, and whether that is right."""
        rows = []
        for example, answer in zip(examples, answers, strict=True):
            asked, given = bool(example.keys), bool(example.keys and answer.tags)
            rows.append((asked, given, given and answer.tags[0] in example.keys))
        return np.array(rows, float).reshape(-1, 3)


class SenseLabelling(Labelling):
    """Senses of marked words.

    Attributes:
        entries: The half-open range of an entry's senses among the labels.
        counts: (labels,) how often each sense occurs in training.
        first: WordNet's first sense of every entry, where WordNet was given.
    """

    units = SenseUnits()

    def __init__(
        self,
        scheme: Any,
        labels: Sequence[str],
        sizes: Mapping[str, int],
        counts: Sequence[int],
        first: Mapping[str, str] | None = None,
    ) -> None:
        """`sizes` are the numbers of senses of the entries, in the order of the labels; an entry is "bank NOUN"."""
        super().__init__(scheme, labels)
        self.entries: dict[LemmaEntry, tuple[int, int]] = {}
        stop = 0
        for name, size in sizes.items():
            self.entries[_entry(name)] = (stop, stop + size)
            stop += size
        if not stop == len(self.labels) == len(counts):
            raise ValueError(f"the entries have {stop} senses, but there are {len(self.labels)} keys")
        self.counts = np.array(counts, np.int64)
        self.first = {_entry(name): key for name, key in (first or {}).items()}

    @classmethod
    def learn(cls, examples: Sequence[Occurrence], options: HeadOptions) -> "SenseLabelling":
        """Return the senses of each entry, both sorted; an occurrence with several keys is one of each."""
        key_counts: dict[LemmaEntry, Counter[str]] = {}
        for example in examples:
            if example.target and example.keys:
                key_counts.setdefault(example.target.entry, Counter()).update(example.keys)
        if not key_counts:
            raise ValueError(NO_GOLD)
        senses = [(entry, sorted(key_counts[entry])) for entry in sorted(key_counts)]
        labels = [key for _, keys in senses for key in keys]
        counts = [key_counts[entry][key] for entry, keys in senses for key in keys]
        sizes = {" ".join(entry): len(keys) for entry, keys in senses}
        assert isinstance(options, CentroidOptions)
        wordnet = read_wordnet(options.wordnet).entries if options.wordnet else {}
        return cls("senses", labels, sizes, counts, {" ".join(entry): keys[0] for entry, keys in wordnet.items()})

    @property
    def types(self) -> tuple[str, ...]:
        """None: which senses an answer can have depends on the word's lemma."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        sizes = {" ".join(entry): stop - start for entry, (start, stop) in self.entries.items()}
        first = {" ".join(entry): key for entry, key in self.first.items()}
        return super().to_dict() | {"sizes": sizes, "counts": self.counts.tolist(), "first": first}

    def candidates(self, example: Occurrence) -> tuple[int, int]:
        """Return the range of the labels that the word can have; 0 and 0 where its lemma is unknown."""
        return self.entries.get(example.target.entry, (0, 0)) if example.target else (0, 0)

    def unknown(self, examples: Sequence[Occurrence]) -> dict[str, int]:
        """Words that get no answer."""
        asked = [example.target.entry for example in examples if example.target]
        count = sum(entry not in self.entries and entry not in self.first for entry in asked)
        return {UNANSWERED: count} if count else {}

    def side(self, examples: Sequence[Occurrence]) -> np.ndarray:
        """Return the candidates of the word that is asked for; 0 and 0 for all others."""
        rows = np.zeros((sum(map(len, examples)), SENSE_FEATURES), np.float32)
        start = 0
        for example in examples:
            if example.target:
                rows[start + example.target.word] = self.candidates(example)
            start += len(example)
        return rows

    def targets(self, examples: Sequence[Occurrence]) -> Targets:
        labels = [self._labels(example) for example in examples]

        from boustro.heads.centroids import SenseTargets

        def of(numbers: np.ndarray, rows: Any) -> SenseTargets:
            gold = [labels[number] for number in numbers]
            occurrences = np.repeat(np.arange(len(gold)), list(map(len, gold)))
            return SenseTargets(occurrences, np.array([x for some in gold for x in some], np.int64))

        return of

    def _labels(self, example: Occurrence) -> list[int]:
        start, stop = self.candidates(example)
        known = self.labels[start:stop]
        return [start + known.index(key) for key in example.keys if key in known]

    def read(self, output: np.ndarray, example: Occurrence) -> SenseAnswer:
        if example.target is None:
            return SenseAnswer()
        start, _ = self.candidates(example)
        if len(output):
            ranked = tuple(
                (self.labels[start + i], float(output[i])) for i in np.argsort(-output, kind="stable")
            )  # equal scores in the order of the keys
            return self._answer(example, ranked[0][0], "centroid", ranked)
        first = self.first.get(example.target.entry)
        return self._answer(example, first, "first sense") if first else SenseAnswer()

    @staticmethod
    def _answer(example: Occurrence, key: str, how: How, ranked: tuple[tuple[str, float], ...] = ()) -> SenseAnswer:
        assert example.target is not None
        place = example.target.word
        return SenseAnswer((key,), (), (Entity(key, place, place + 1),), how=how, ranked=ranked)

    def most_frequent(self, entry: LemmaEntry) -> str | None:
        """Return the sense of an entry with most occurrences, the first of several by key; WordNet's first for
        others."""
        if entry not in self.entries:
            return self.first.get(entry)
        start, stop = self.entries[entry]
        return self.labels[start + int(self.counts[start:stop].argmax())]

    def score(self, examples: Sequence[Occurrence], answers: Sequence[Answer], signature: dict[str, str]) -> SenseScore:
        """Scores of the words with a gold key; `ValueError` where there is none."""
        asked = [(n, e.target) for n, e in enumerate(examples) if e.target and e.keys]
        if not asked:
            raise ValueError(f"{data_name(examples)}: {NO_GOLD}")
        gold = {n: target.keys for n, target in asked}
        given = {n: answers[n].tags for n, _ in asked}
        per_pos = {
            pos: {n: target.keys for n, target in asked if target.entry[1] == pos}
            for pos in sorted({target.entry[1] for _, target in asked})
        }
        baselines: dict[str, Callable[[LemmaEntry], str | None]] = {"most frequent sense": self.most_frequent}
        if self.first:
            baselines["WordNet's first sense"] = self.first.get
        return SenseScore(
            count_senses(gold, given),
            {pos: count_senses(pos_gold, given) for pos, pos_gold in per_pos.items()},
            sum(target.entry in self.entries for _, target in asked),
            {
                name: count_senses(gold, {n: [key] for n, t in asked if (key := choose(t.entry))}).f1
                for name, choose in baselines.items()
            },
            {"metric": "Raganato et al. 2017"} | signature,
        )


def _entry(name: str) -> LemmaEntry:
    """`"bank NOUN"` → `("bank", "NOUN")`"""
    lemma, _, pos = name.rpartition(" ")
    return lemma, pos
