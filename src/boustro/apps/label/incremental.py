"""Taggers that learn from every answer in milliseconds, and forget it again; `label.pool` chooses what is asked next.

`LiveTagger` is an ordinary `linear` tagger with a CRF:

    inside   how much a word is inside an entity: a ridge regression on 0 and 1
    kind     of which type: a ridge regression on one-hot types, learned from the mean vectors of entities

    score of B-X and I-X = a · (inside - 1/2) + b · kind[X] - c        score of O = 0

Both are linear in the word's vector, so their sum is a linear head over BIO tags. Over an encoder with names both begin
as what its network says of the word, and not as 0: names are suggested before anything is learned. The scales a and b
make the scores probabilities: they have the least cross-entropy on each answered sentence, scored without it. Entities
that overlap are learned as their outermost ones. Two adjacent entities of one type are suggested as one.

`LiveTopics` is the same for whole texts: each is one vector, and one word, inside. Over a sentence encoder it begins as
what the names of the labels say (`tasks.label_names`), and learns how far they are to be believed.

Sources: `label.updated_ridge` (updates), `heads.factored` (why two regressions), `heads.closed_form` (held-out scores).
Letters: N words of a sentence, d width, T types.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from boustro.apps.label.updated_ridge import BIAS, OnlineRidge, RidgeUpdate, times
from boustro.apps.label.vectors import Start, WordVectors
from boustro.heads.closed_form import best_scale
from boustro.heads.crf.layer import CRF
from boustro.heads.factored import Runs, factored_tags, mean_vectors
from boustro.tasks.data.schemes import flatten_entities
from boustro.tasks.tagger.tags import TagLabelling
from boustro.text.languages import language_of_words
from boustro.types import Entity, Sentence

STRENGTH = 0.3
"""Of both regressions, in units of the mean squared length of a vector: the best of 0.03 to 3 for 30 to 300 sentences
of CoNLL-2003 (docs/results.md)."""
LIVE_SCALES = tuple(float(s) for s in 2.0 ** np.arange(1, 6.5, 0.5))
FEWEST_TO_SCALE = 3  # answered sentences with an entity, before the scales are chosen
BY_ANSWERS, BY_NAME = slice(0, None, 2), slice(1, None, 2)
"""Outputs of `LiveTopics` for each label."""
CONSTANT_COUNT = 3.0
"""Answers that the constant of a label begins with, so that the first answer is not the label of all texts: five of AG
News then cost 1 point of accuracy instead of 4 (docs/log.md)."""
NAME_SHARES = (0.0, 0.25, 0.5, 1.0, 2.0)
NAMES_DOUBT, SCALE_DOUBT = 5.0, 10.0
"""In nats, see `LiveTopics`. With less, four answers by chance give up names that tell; with more, names that mislead
stay for twenty."""
FEW_DOUBT = 0.3
"""In nats, of the distance of both scales of entities from 8, as a Gaussian prior: without it, ten answers that are all
right make a wrong suggestion 100% sure; 0.3 and 1 do about as well (docs/log.md)."""
UNLIKELY = 1e-9  # a probability of 0 has no logarithm
SPLIT = -4.0  # the score of a new entity directly after one of its own type: the words' scores do not tell the two


@dataclass(frozen=True, slots=True)
class LearnedAnswer:
    """An answered sentence as the regressions have it: its words, its entities' mean vectors, and their targets."""

    words: np.ndarray  # (N, d)
    inside: np.ndarray  # (N, 1)
    means: np.ndarray  # (E, d)
    kinds: np.ndarray  # (E, T)
    prior: np.ndarray | None  # (N, T + 1): the part of its scores that is given
    labels: np.ndarray  # (E,): the numbers of its entities' labels


@dataclass(frozen=True, slots=True)
class Scales:
    """a, b and c of the module. Without c the kinds of each word are normalised: `inside` alone finds entities."""

    inside: float = 8.0
    kind: float = 8.0
    offset: float | None = None
    names: float = 1.0
    """How much the names of topics count."""

    def tag_scores(self, inside: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Return (N, 2 T + 1): the scores of O, B-… and I-…, from inside (N,) and kinds (N, T)."""
        offset = _log_sum(self.kind * kinds)[:, None] if self.offset is None else self.offset
        by_type = self.inside * (inside[:, None] - 0.5) + self.kind * kinds - offset
        return np.hstack([np.zeros((len(by_type), 1), by_type.dtype), by_type, by_type])


class LiveTagger:
    """A tagger that learns sentence by sentence. What `snapshot` gives does not change while this one goes on
    learning."""

    english = False
    """Whether its encoder reads English alone."""
    num_named = 0
    """Of topics, how many are known by name."""

    def __init__(self, width: int, squared_length: float, labels: Sequence[str], start: Start | None = None) -> None:
        """`squared_length` is the mean squared length of the vectors that it will read, `start` what it knows."""
        strength = STRENGTH * max(squared_length, 1e-6)
        self.labels, self.start = list[str](), start
        self.inside, self.kinds = OnlineRidge(width, 0, strength), self._ridge(width, strength)
        self.inside.widen(start and start.inside)
        for label in labels:
            self.add_label(label)
        self.learned: dict[int, LearnedAnswer] = {}
        self.scales = Scales()

    def _ridge(self, width: int, strength: float) -> OnlineRidge:
        """Return the regression of kinds."""
        return OnlineRidge(width, 0, strength)

    def snapshot(self) -> "LiveTagger":
        """The tagger as it is now; cheap, since updates replace arrays and do not change them."""
        tagger = copy(self)
        tagger.inside, tagger.kinds = copy(self.inside), copy(self.kinds)
        tagger.labels, tagger.learned = [*self.labels], {**self.learned}
        return tagger

    @property
    def trust(self) -> float:
        """How far its probabilities are believed, near 1 where each label has been answered `FEWEST_TO_SCALE` times; a
        label that it has never seen is one that it cannot tell, unless it knew it at the start.

        n entities that were all right say no more than (n + 1) / (n + 2) of the next (Laplace's rule of succession), so
        nothing is surer than that by more than what a guess has.
        """
        seen, entities = self._seen, sum(len(example.labels) for example in self.learned.values())
        counted = (seen > 0) | ~self._known
        each = float(np.minimum(seen, FEWEST_TO_SCALE)[counted].sum()) / FEWEST_TO_SCALE / max(1, int(counted.sum()))
        return each * entities / (entities + 2)

    def judges(self, sentence: Sentence) -> bool:
        """Return whether an answer says how far names of labels are to be believed; that of a text in another language
        does not."""
        return not self.english or language_of_words(sentence.words) is None

    @property
    def alike(self) -> slice:
        """The values of a vector by which names of one type are near to each other."""
        return slice(None) if self.start is None else slice(*self.start.alike)

    @property
    def told(self) -> dict[str, bool]:
        """Whether it has seen a label, or knew its kind at the start."""
        return dict(zip(self.labels, (self._known | (self._seen > 0)).tolist(), strict=True))

    @property
    def _seen(self) -> np.ndarray:
        """(T,): answers that have each label."""
        numbers = [np.unique(example.labels) for example in self.learned.values()]
        return np.bincount(np.concatenate([*numbers, np.zeros(0, np.int64)]), minlength=len(self.labels))

    @property
    def _known(self) -> np.ndarray:
        return np.array([self.start is not None and self.start.knows(label) for label in self.labels], bool)

    def without(self, numbers: Iterable[int]) -> "LiveTagger":
        """A tagger as this one was before it learned these sentences."""
        tagger = self.snapshot()
        tagger.scales = Scales()
        for number in numbers:
            tagger.forget(number)
        return tagger

    def add_label(self, label: str) -> None:
        """One more type, which no answer has so far."""
        self.labels.append(label)
        self.kinds.widen(self.start and self.start.of(label))

    def learn(
        self, number: int, words: np.ndarray, entities: Sequence[Entity], prior: np.ndarray | None = None
    ) -> tuple[RidgeUpdate, RidgeUpdate]:
        """Learn sentence `number` with its vectors (N, d); returns what changed in `inside` and in `kinds`.

        `prior` (N, T + 1) are scores, inside and then kinds, that are given, perhaps before labels were added: what
        lacks to the answer is learned.
        """
        assert number not in self.learned
        flat = flatten_entities(entities)
        runs = Runs(np.array([e.start for e in flat], np.int64), np.array([e.end for e in flat], np.int64))
        inside = np.zeros((len(words), 1))
        for entity in flat:
            inside[entity.start : entity.end] = 1
        labels = np.array([self.labels.index(e.label) for e in flat], np.int64)
        kinds = np.eye(len(self.labels))[labels]
        if prior is not None:
            given = self.given(prior)
            inside = inside - given[:, :1]
            kinds = kinds - mean_vectors(given[:, 1:], runs)
        example = self.learned[number] = LearnedAnswer(words, inside, mean_vectors(words, runs), kinds, prior, labels)
        return self.inside.add(example.words, example.inside), self.kinds.add(example.means, example.kinds)

    def forget(self, number: int) -> tuple[RidgeUpdate, RidgeUpdate]:
        """Undo the learning of a sentence, as if it had never been answered."""
        example = self.learned.pop(number)
        kinds = self._padded(example.kinds)
        return self.inside.remove(example.words, example.inside), self.kinds.remove(example.means, kinds)

    def scores(self, words: np.ndarray) -> np.ndarray:
        """Return (N, T + 1): inside and kinds of words (N, d)."""
        return times(words, np.hstack([self.inside.weight, self.kinds.weight]))

    def uncertainty(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N,) whether words are inside, and (N,) of which type: in nats, from scores (N, T + 1)."""
        inside = 1 / (1 + np.exp(-self.scales.inside * np.clip(scores[:, 0] - 0.5, -4, 4)))
        boundary = entropy(np.stack([inside, 1 - inside], 1))
        if scores.shape[1] < 3:
            return boundary, np.zeros_like(boundary)
        kinds = np.exp(self.scales.kind * (scores[:, 1:] - scores[:, 1:].max(1, keepdims=True)))
        return boundary, inside * entropy(kinds / kinds.sum(1, keepdims=True))

    def decode(self, scores: np.ndarray, sentences: Sequence[Sentence]) -> list[tuple[Entity, ...]]:
        """Entities, with their probabilities, of sentences whose words end to end have these scores (N, T + 1)."""
        if not self.labels or not len(scores):
            return [() for _ in sentences]
        tags = self.scales.tag_scores(scores[:, 0], scores[:, 1:])
        lengths = torch.tensor([len(s) for s in sentences])
        crf, emissions = self.make_crf(), torch.from_numpy(tags)
        ids, marginals = crf.decode(emissions, lengths).numpy(), crf.marginals(emissions, lengths).numpy()
        labelling, ends = TagLabelling("bio", factored_tags(self.labels)), np.cumsum(lengths.numpy())[:-1]
        answers = []
        for tag_ids, p, sentence in zip(np.split(ids, ends), np.split(marginals, ends), sentences, strict=True):
            chosen = p[np.arange(len(p)), tag_ids]
            found = labelling.read((tag_ids, chosen), sentence).entities
            answers.append(tuple(replace(e, score=self._sureness(e, chosen, p)) for e in found))
        return answers

    def _sureness(self, e: Entity, chosen: np.ndarray, marginals: np.ndarray) -> float:
        """Return the probability of the least sure word of an entity, or of its end: the next word may belong to it."""
        inner = 1 + len(self.labels) + self.labels.index(e.label)
        goes_on = marginals[e.end, inner] if e.end < len(marginals) else 0.0
        return float(min(chosen[e.start : e.end].min(), 1 - goes_on))

    def make_crf(self) -> CRF:
        """Return the CRF over the tags of the labels."""
        crf = CRF(factored_tags(self.labels))
        with torch.no_grad():
            crf.transitions[1:, 1 : 1 + len(self.labels)] = SPLIT
        return crf

    def held_out(self, parts: Iterable[tuple[Sequence[int], Sequence[int]]]) -> dict[int, np.ndarray]:
        """Return the scores (N, T + 1) of learned sentences, from parts of them: those that are scored, and those, they
        among them, that the scores are without; and what is given. Exact."""
        scores = {}
        for numbers, without in parts:
            examples = [self.learned[number] for number in without]
            words, inside = (np.concatenate([getattr(e, name) for e in examples]) for name in ("words", "inside"))
            kinds = np.concatenate([self._padded(example.kinds) for example in examples])
            left = (
                self.inside.leave_out(words, inside),
                self.kinds.leave_out(np.concatenate([example.means for example in examples]), kinds),
            )
            for number in numbers:
                example = self.learned[number]
                scores[number] = times(example.words, np.hstack(left))
                if example.prior is not None:
                    scores[number] = scores[number] + self.given(example.prior)
        return scores

    def rescale(self, held_out: Mapping[int, np.ndarray], gold: Mapping[int, Sequence[Entity]]) -> None:
        """Choose the scales on held-out scores with their answers; not with few entities."""
        if not self.labels or sum(bool(gold[n]) for n in held_out) < FEWEST_TO_SCALE:
            return
        inside = np.concatenate([scores[:, 0] for scores in held_out.values()])
        masks = [np.zeros(len(scores), np.int64) for scores in held_out.values()]
        means, kinds, within = [], [], []
        for mask, (number, scores) in zip(masks, held_out.items(), strict=True):
            for entity in flatten_entities(gold[number]):
                mask[entity.start : entity.end] = 1
                within.append(scores[entity.start : entity.end, 1:])
                means.append(within[-1].mean(0))
                kinds.append(self.labels.index(entity.label))
        outside = np.stack([np.zeros_like(inside), inside - 0.5], 1)
        a = _likely_scale(outside, np.concatenate(masks), len(masks))
        b = _likely_scale(np.stack(means), np.array(kinds), len(masks)) if len(self.labels) > 1 else 1.0
        self.scales = Scales(a, b, float(_log_sum(b * np.concatenate(within)).mean()))

    def given(self, prior: np.ndarray) -> np.ndarray:
        """Return given scores (N, T + 1), with 0 for labels that are newer."""
        return np.hstack([prior[:, :1], self._padded(prior[:, 1:])])

    def _padded(self, kinds: np.ndarray) -> np.ndarray:
        """Return (…, T), with 0 for labels that are newer than the answer."""
        return np.pad(kinds, ((0, 0), (0, self.kinds.weight.shape[1] - kinds.shape[1])))


class LiveTopics(LiveTagger):
    """One ridge regression learns the label of a whole text. Vectors are of texts, (1, d).

    Each label has two outputs, one for the answers and one for its name, whose target is always 0:

        score = A + names · N        A = P Xᵀ y        N = P Λ w₀

    With `names` = 1 it is that of the regression that begins at w₀, with 0 that of one that begins at 0. `rescale`
    chooses it with the scale, by the cross-entropy of answers that are left out:

        Σ -log p(answer) + 5 · (1 - names)² + 10 · log²(kind / 8)

    so that five answers or so outweigh names that mislead, and two or three do not outweigh names that tell.
    """

    several = False

    def __init__(
        self, width: int, squared_length: float, labels: Sequence[str], start: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """`start` has what the names of labels say, see `begin`; `None` where vectors cannot be compared with names."""
        self.names: Mapping[str, np.ndarray] | None = start
        super().__init__(width, squared_length, labels)
        if start is not None:
            self.begin(start)

    def _ridge(self, width: int, strength: float) -> OnlineRidge:
        return OnlineRidge(width, 0, strength, 0.0 if self.names is None else CONSTANT_COUNT)

    def add_label(self, label: str) -> None:
        self.labels.append(label)
        for _ in ("answers", "name"):
            self.kinds.widen()

    def begin(self, names: Mapping[str, np.ndarray]) -> None:
        """Begin at what the names of labels say, whatever has been learned: weights (d + 1,) of a score that the
        softmax, or the logistic function, makes a probability. Labels without a name begin at 0."""
        self.names, nothing = names, np.zeros(len(self.kinds.weight))
        start = np.array([names.get(label, nothing) / Scales().kind for label in self.labels])
        start = start.reshape(len(self.labels), len(nothing)).T
        if self.several:  # half of a score is as likely as not, see `probabilities`
            start[-1] += [0.5 / BIAS * (label in names) for label in self.labels]
        self.kinds.restart(BY_NAME, start)

    @property
    def trust(self) -> float:
        if not self.labels:
            return 0.0
        answered = np.minimum(self._seen, FEWEST_TO_SCALE) / FEWEST_TO_SCALE
        return float(np.maximum(answered, self._known * min(1.0, self.scales.names)).mean())

    @property
    def _known(self) -> np.ndarray:
        return np.array([label in (self.names or ()) for label in self.labels], bool)

    def learn(
        self, number: int, words: np.ndarray, entities: Sequence[Entity], prior: np.ndarray | None = None
    ) -> tuple[RidgeUpdate, RidgeUpdate]:
        assert number not in self.learned and prior is None
        kinds = np.zeros((1, self.kinds.weight.shape[1]))
        labels = np.array([self.labels.index(entity.label) for entity in entities], np.int64)
        kinds[:, BY_ANSWERS][0, labels] = 1
        example = self.learned[number] = LearnedAnswer(words, np.ones((1, 1)), words, kinds, None, labels)
        return self.inside.add(example.words, example.inside), self.kinds.add(example.means, example.kinds)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return (S, T): of each label, from scores (S, 2 T + 1)."""
        scaled = self.scales.kind * self._sum(scores)
        raised = np.exp(scaled - scaled.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)

    @property
    def num_named(self) -> int:
        return int(self._known.sum())

    def fit_of_names(self, scores: np.ndarray, turn: int) -> np.ndarray:
        """Return (S,): how probable one of the topics that are known by name is for texts; each topic in its turn."""
        return self.probabilities(scores)[:, np.flatnonzero(self._known)[turn % self.num_named]]

    def is_by_name(self, scores: np.ndarray, labels: Collection[str]) -> bool:
        """Return whether these labels of a text, of scores (1, 2 T + 1), are rather what their names say than what was
        answered."""
        chosen = [self.labels.index(label) for label in labels]
        answers, names = (scores[0, 1:][part][chosen].sum() for part in (BY_ANSWERS, BY_NAME))
        return bool(chosen and self.scales.names * names > answers)

    def decode(self, scores: np.ndarray, sentences: Sequence[Sentence]) -> list[tuple[Entity, ...]]:
        """Return the most probable label of each text; none before anything is learned or known by name."""
        if not self.labels or not (self.learned or self._known.any()):
            return [() for _ in sentences]
        answers = []
        for row, sentence in zip(self.probabilities(scores), sentences, strict=True):
            chosen = np.flatnonzero(row > 0.5) if self.several else [int(row.argmax())]
            answers.append(tuple(Entity(self.labels[n], 0, len(sentence), score=float(row[n])) for n in chosen))
        return answers

    def rescale(self, held_out: Mapping[int, np.ndarray], gold: Mapping[int, Sequence[Entity]]) -> None:
        if len(self.labels) < 2 or len(held_out) < FEWEST_TO_SCALE:
            return
        scores = np.concatenate([*held_out.values()])
        truth = np.array([[label in {e.label for e in gold[n]} for label in self.labels] for n in held_out])
        known, tried = bool(self._known.any()), list[tuple[float, Scales]]()
        for names, kind in product(NAME_SHARES if known else (1.0,), LIVE_SCALES):
            self.scales = Scales(kind=kind, names=names)
            doubt = NAMES_DOUBT * (1 - names) ** 2 + SCALE_DOUBT * math.log(kind / Scales().kind) ** 2
            tried.append((self._loss(self.probabilities(scores), truth) + known * doubt, self.scales))
        self.scales = min(tried, key=lambda pair: pair[0])[1]

    def uncertainty(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(scores)), entropy(self.probabilities(scores)) if self.labels else np.zeros(len(scores))

    def _sum(self, scores: np.ndarray) -> np.ndarray:
        """Return (S, T): with what the names say."""
        return scores[:, 1:][:, BY_ANSWERS] + self.scales.names * scores[:, 1:][:, BY_NAME]

    @staticmethod
    def _loss(p: np.ndarray, truth: np.ndarray) -> float:
        """In nats, of all texts."""
        return float(-np.log(p[truth] + UNLIKELY).sum())


class LiveTopicSets(LiveTopics):
    """Topics with any number of labels per text, each with a probability of its own."""

    several = True

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-self.scales.kind * np.clip(self._sum(scores) - 0.5, -4, 4)))

    def uncertainty(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = self.probabilities(scores)
        return np.zeros(len(scores)), entropy(np.stack([p, 1 - p], 2).reshape(len(p), -1))

    @staticmethod
    def _loss(p: np.ndarray, truth: np.ndarray) -> float:
        return float(-np.log(np.where(truth, p, 1 - p) + UNLIKELY).sum())


def pool_texts(vectors: WordVectors) -> WordVectors:
    """Return one vector per text: the mean and the maximum of its words'."""
    words, starts = vectors.words.astype(np.float32), vectors.starts[:-1]
    means = np.add.reduceat(words, starts) / np.diff(vectors.starts)[:, None]
    both = np.hstack([means, np.maximum.reduceat(words, starts)])
    return WordVectors(both.astype(np.float16), np.arange(len(starts) + 1))


def _likely_scale(scores: np.ndarray, ids: np.ndarray, answers: int) -> float:
    """Return the scale of `LIVE_SCALES` of scores (N, C) for ids (N,) of so many answers; few answers that are all
    right are no reason for certainty."""
    doubt = FEW_DOUBT / answers
    return best_scale(scores, ids, LIVE_SCALES, lambda scale: doubt * math.log(scale / Scales().kind) ** 2)


def _log_sum(scores: np.ndarray) -> np.ndarray:
    """Return (N,): log Σ exp of each row."""
    highest = scores.max(1)
    return highest + np.log(np.exp(scores - highest[:, None]).sum(1))


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Return (N,): of each row, in nats."""
    return -(probabilities * np.log(probabilities + UNLIKELY)).sum(1)
