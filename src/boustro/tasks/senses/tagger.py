"""SenseTagger: sense-tagged text in, the nearest centroid of a sense out.

    tagger = SenseTagger("starter", wordnet="/usr/share/wordnet").fit("semcor.jsonl.xz")
    tagger.evaluate("semeval2007.data.xml").value            # F1
    tagger.predict(SenseSentence(Sentence(("the", "bank", "rose")), (Target(1, "bank", "NOUN"),)))
    tagger.save_pretrained("senses"); SenseTagger.from_pretrained("senses")

A word gets the sense of its lemma and part of speech whose centroid is nearest (`centroids`). A lemma that was not seen
in training gets WordNet's first sense, where WordNet was given to the constructor, else no answer.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np

from boustro import __version__
from boustro.encoders.options import ReadingOptions
from boustro.features.reader import Reader
from boustro.heads.transforms import TRANSFORMS, Transform, unit
from boustro.metrics.senses import SenseScore, count_senses
from boustro.options import check_options
from boustro.tasks.senses.centroids import (
    BLOCK,
    DEFAULT_PRIOR,
    PRIORS,
    Centroids,
    group_occurrences,
    held_out_credit,
    make_centroids,
)
from boustro.tasks.senses.examples import SenseData, SenseSentence, Target, parts
from boustro.tasks.senses.folder import load_senses, save_senses
from boustro.tasks.senses.inventory import Entry, read_wordnet
from boustro.tasks.senses.options import SenseOptions
from boustro.tasks.senses.reading import read_senses

How = Literal["centroid", "first sense", "none"]


@dataclass(frozen=True, slots=True)
class Sense:
    """The answer for one target.

    `how` says where the key is from: the nearest centroid, or WordNet's first sense; for "none" there is no key.
    `ranked` are the senses that were compared, with their scores, the best first.
    """

    target: Target
    key: str | None
    how: How
    ranked: tuple[tuple[str, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        t = self.target
        own = {"name": t.name} if t.name else {}
        place = {"word": t.word, "lemma": t.lemma, "pos": t.pos}
        return {**own, **place, "key": self.key, "how": self.how, "ranked": self.ranked}


class SenseTagger:
    """An encoder, and centroids of senses.

    Attributes:
        options: `SenseOptions`.
        record: What training recorded: data, senses, the prior and how it was chosen, seconds, notices.
    """

    def __init__(
        self,
        encoder: str = "starter",
        *,
        wordnet: str | Path | None = None,
        cache: bool | str | Path = True,
        device: str | None = None,
        **options: Any,
    ) -> None:
        """Nothing is loaded yet but WordNet.

        Args:
            encoder: Spec of the encoder, see `boustro.load_encoder`.
            wordnet: A folder with WordNet's index.sense, for lemmas that the training data lack.
            cache: Keep the features on disk (a folder says where).
            device: cpu, cuda or mps; by default the best available.
            options: Fields of `SenseOptions`.

        Raises `FileNotFoundError` and `ValueError` for WordNet, and `OptionError` for an option.
        """
        check_options(SenseTagger.__init__, locals())
        self.options = SenseOptions(**options)
        reading = ReadingOptions(**self.options.reading())
        self.reader = Reader(
            encoder, reading, parts=parts, cache=cache, device=device, trained="this folder was trained on"
        )
        self.first: dict[Entry, str] = {}
        """WordNet's first sense of every entry."""
        if wordnet is not None:
            self.first = {entry: keys[0] for entry, keys in read_wordnet(wordnet).entries.items()}
        self.centroids: Centroids | None = None
        self.transform: Transform | None = None
        self.prior = 0.0
        self.record: dict[str, Any] = {}

    def fit(self, train: Any, keys: str | Path | None = None) -> Self:
        """Learn the centroids of sense-tagged text.

        Args:
            train: A file or Python objects, see `reading.read_senses`.
            keys: Gold keys of an XML file, where they are not beside it.

        Raises `ValueError` with file:line for bad data, and for data without any gold key.
        """
        data, started = read_senses(train, keys), time.monotonic()
        rows = [row for row, target in enumerate(data.targets()) if target.keys]
        if not rows:
            raise ValueError(f"{data.name}: no word has a gold key; name the file with the keys (--keys)")
        vectors = self._gather(data, rows)
        encoded = time.monotonic()
        self.transform = TRANSFORMS[self.options.transform].fit(vectors)
        for start in range(0, len(vectors), BLOCK):
            vectors[start : start + BLOCK] = unit(self.transform.apply(vectors[start : start + BLOCK]))
        targets, named = data.targets(), data.documents()
        grouped = group_occurrences([targets[row].entry for row in rows], [targets[row].keys for row in rows])
        self.centroids = make_centroids(vectors, grouped)
        held_out: dict[str, Any] = {}
        self.prior = DEFAULT_PRIOR if self.options.prior is None else self.options.prior
        if self.options.prior is None:
            documents = np.unique([named[row] for row in rows], return_inverse=True)[1]
            credit, total = held_out_credit(vectors, grouped, documents, PRIORS)
            if total:
                self.prior = PRIORS[int(credit[:-1].argmax())]
                *own, frequent = (round(100 * float(right) / total, 2) for right in credit)
                by_prior = dict(zip(map(str, PRIORS), own, strict=True))
                held_out = {"occurrences": total, "accuracy": by_prior, "most_frequent_sense": frequent}
        self.record = {
            "train": {"name": data.name, "sentences": len(data.sentences), "occurrences": len(rows)},
            "lemmas": len(self.centroids.entries),
            "senses": len(self.centroids.keys),
            "prior": self.prior,
            "held_out": held_out,
            "encode_seconds": round(encoded - started, 2),
            "train_seconds": round(time.monotonic() - encoded, 2),
            "notices": {**+data.notices, **+self.reader.encoder(cached=True).counts},
        }
        return self

    def answer(self, data: SenseData, cached: bool = False) -> list[Sense]:
        """The senses of all targets, in order; `ValueError` before `fit`."""
        centroids, transform = self.trained()
        known = [row for row, target in enumerate(data.targets()) if target.entry in centroids.entries]
        vectors = transform.apply(self._gather(data, known, cached)) if known else np.empty((0, 0))
        by_row = dict(zip(known, vectors, strict=True))
        return [self._sense(target, by_row.get(row)) for row, target in enumerate(data.targets())]

    @overload
    def predict(self, sentences: SenseSentence) -> list[Sense]: ...
    @overload
    def predict(self, sentences: Iterable[SenseSentence]) -> list[list[Sense]]: ...
    def predict(self, sentences: SenseSentence | Iterable[SenseSentence]) -> list[Sense] | list[list[Sense]]:
        """The senses of the targets of a sentence, or of several."""
        if isinstance(sentences, SenseSentence):
            return self.predict([sentences])[0]
        if not (sentences := list(sentences)):
            return []
        data = read_senses(sentences)
        answers = iter(self.answer(data))
        return [[next(answers) for _ in item.targets] for item in data.sentences]

    def evaluate(self, data: Any, keys: str | Path | None = None) -> SenseScore:
        """Precision, recall and F1 on gold keys, with the baselines; the arguments are those of `fit`."""
        read = read_senses(data, keys)
        return self.score(read, self.answer(read, cached=True))

    def score(self, data: SenseData, answers: list[Sense]) -> SenseScore:
        """Scores of answers to the targets of `data`; `ValueError` where no target has a gold key."""
        centroids, _ = self.trained()
        pairs = [(row, t) for row, t in enumerate(data.targets()) if t.keys]
        if not pairs:
            raise ValueError(f"{data.name}: no word has a gold key; name the file with the keys (--keys)")
        gold = {row: t.keys for row, t in pairs}
        given = {row: [key] for row, _ in pairs if (key := answers[row].key)}
        parts = {
            pos: {row: t.keys for row, t in pairs if t.entry[1] == pos}
            for pos in sorted({t.entry[1] for _, t in pairs})
        }
        baselines = {"most frequent sense": self._most_frequent}
        if self.first:
            baselines["WordNet's first sense"] = lambda entry: self.first.get(entry)
        return SenseScore(
            count_senses(gold, given),
            {pos: count_senses(own, given) for pos, own in parts.items()},
            sum(t.entry in centroids.entries for _, t in pairs),
            {
                name: count_senses(gold, {row: [key] for row, t in pairs if (key := choose(t.entry))}).f1
                for name, choose in baselines.items()
            },
            {"metric": "Raganato et al. 2017", "data": data.name, "version": f"boustro {__version__}"},
        )

    def save_pretrained(self, path: str | Path) -> None:
        """Write a folder with the centroids and which encoder they belong to; atomic."""
        check_options(SenseTagger.save_pretrained, locals())
        save_senses(self, path)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        encoder: str | None = None,
        cache: bool | str | Path = True,
        device: str | None = None,
    ) -> Self:
        """Open a saved folder.

        Args:
            path: The folder.
            encoder: Where the encoder is now, if it has moved.
            cache: As for the constructor.
            device: As for the constructor.

        Raises `FileNotFoundError` or `ValueError` when the folder is missing, incomplete, damaged or of another kind,
        or when the LMs are not the ones that it was trained with.
        """
        check_options(SenseTagger.from_pretrained, locals())
        return load_senses(cls, path, encoder=encoder, cache=cache, device=device)

    def _gather(self, data: SenseData, rows: list[int], cached: bool = True) -> np.ndarray:
        """(N, d) the vectors of the targets with these numbers, all streams and layers side by side, float16."""
        inputs = self.reader.read(data.sentences, cached)
        places = inputs.batch(np.arange(len(inputs))).rows.numpy()[np.array(data.positions(), np.int64)[rows]]
        return np.concatenate([s[places].reshape(len(rows), -1).astype(np.float16) for s in inputs.streams], axis=1)

    def _sense(self, target: Target, vector: np.ndarray | None) -> Sense:
        entry = target.entry
        if vector is not None:
            ranked = self.trained()[0].rank(vector, entry, self.prior)
            return Sense(target, ranked[0][0], "centroid", tuple(ranked))
        first = self.first.get(entry)
        return Sense(target, first, "first sense" if first else "none")

    def _most_frequent(self, entry: Entry) -> str | None:
        centroids, _ = self.trained()
        return centroids.most_frequent(entry) if entry in centroids.entries else self.first.get(entry)

    def trained(self) -> tuple[Centroids, Transform]:
        if self.centroids is None or self.transform is None:
            raise ValueError("this SenseTagger is not trained yet; call fit first, or open one with from_pretrained")
        return self.centroids, self.transform
