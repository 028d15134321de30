"""How good the tagger of a session is, and the folders that it leaves.

    measure(live, answers, given)                a point of the curve: each answer, by a tagger that learned other parts
    make_tagger(live, reader, spec, answers)     head linear with a CRF: the very scores that the session showed
    make_classifier(live, model, answers)        the same of topics over the vectors of texts
    finish(model, answers, live, given)          the head that `boustro fit` would train, if it is better

A closed form gives the curve without training again (`LiveTagger.held_out`). What `uncertain` chooses is harder than
the average, so it is a lower bound of what the tagger does on the rest. Every figure is of the same five parts that
`boustro fit` leaves out (`TrainingAnswers.parts`): each is tagged by what learned the other four.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from boustro.apps.drawing import AXIS, WIDTH, Panel, Scale, dots, path, picture, text_line
from boustro.apps.label.answers import Annotation
from boustro.apps.label.incremental import LiveTagger, LiveTopics
from boustro.apps.label.texts import whole_sentence
from boustro.apps.label.vectors import VectorReader
from boustro.encoders.base import Encoder
from boustro.encoders.options import Context
from boustro.encoders.reading import group_numbers
from boustro.heads.base import LayerMix
from boustro.heads.bodies import PerWord
from boustro.heads.centroid_pool import CentroidPool
from boustro.heads.factored import factored_tags
from boustro.heads.registry import make_head
from boustro.heads.tagging import TaggingHead
from boustro.heads.training import TrainLog
from boustro.metrics.spans import score_entities
from boustro.tasks import task_class
from boustro.tasks.base import Task
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.fitting.estimate import KEY
from boustro.tasks.fitting.training import describe, learned_languages
from boustro.tasks.folds import kin, left_out, num_different
from boustro.tasks.labellings import make_labelling
from boustro.tasks.plan import Examples, Fitted, Plan, head_facts
from boustro.tasks.tagger import Tagger
from boustro.tasks.tagger.tags import TagLabelling
from boustro.types import Entity, Sentence

FEWEST_TO_MEASURE = 4  # answers
GROWTH = 1.2  # of the words, from one point to the next


@dataclass(frozen=True, slots=True)
class Point:
    """After so many answered sentences with so many words: entity F1 in percent."""

    sentences: int
    words: int
    f1: float


def is_due(points: list[Point], words: int, sentences: int) -> bool:
    """Return whether there is enough that is new since the last point."""
    return sentences >= FEWEST_TO_MEASURE and (not points or words >= GROWTH * points[-1].words)


@dataclass(frozen=True)
class TrainingAnswers:
    """The answers as `boustro fit` reads them: examples, and the number of the answer or text that each is of."""

    examples: list[Any]
    numbers: list[int]

    @classmethod
    def of(
        cls, task: str, answers: Mapping[int, Annotation], texts: Sequence[Sentence] = (), context: Context = "sentence"
    ) -> "TrainingAnswers":
        """Whole texts, read as the file of answers is; or sentences, with the others of their documents."""
        if not answers:
            return cls([], [])
        order, sentences = [*answers], [*texts] or [answer.sentence for answer in answers.values()]
        parted = any(s.document for s in sentences) and len({s.document for s in sentences}) < len(sentences)
        if not parted and all(answer.text for answer in answers.values()):
            read = task_class(task).collect([answer.to_dict() for answer in answers.values()], DataOptions(), [])
            places = (int(s.document.rpartition(" ")[2]) - 1 if s.document else n for n, s in enumerate(read))
            return cls(read, [order[place] for place in places])
        by_number = answers if texts else dict(enumerate(answers.values()))
        documents = (group for group in group_numbers(sentences, context) if not by_number.keys().isdisjoint(group))
        numbers = [n for group in documents for n in group]

        def read_one(n: int) -> Sentence:
            return replace(by_number[n].labelled(), document=sentences[n].document) if n in by_number else sentences[n]

        return cls([read_one(n) for n in numbers], numbers if texts else [order[n] for n in numbers])

    def parts(self, seed: int = 1) -> list[tuple[list[int], list[int]]]:
        """Return the numbers of the answers in each part that is left out, and of all that are not learned then.

        An answer is where its first sentence is.
        """
        asked = [(e, n) for e, n in zip(self.examples, self.numbers, strict=True) if e.is_labelled]
        first: dict[int, int] = {}
        for place, (_, number) in enumerate(asked):
            first.setdefault(number, place)
        numbers, places = (np.array([*some], np.int64) for some in (first, first.values()))
        parts = []
        for learned, left in left_out(kin([example for example, _ in asked]), FINISH_FOLDS, seed):
            answered, unlearned = numbers[np.isin(places, left)], numbers[~np.isin(places, learned)]
            parts += [(answered.tolist(), unlearned.tolist())] if len(answered) else []
        return parts


def measure_tagger(
    tagger: LiveTagger, answers: Mapping[int, Annotation], given: TrainingAnswers | None = None
) -> Point:
    """Return the point of a tagger that has learned these answers, perhaps besides other sentences. Sets its scales.

    `given` is how they are read; by default each by itself.
    """
    given = given or TrainingAnswers([answer.labelled() for answer in answers.values()], [*answers])
    held_out = tagger.held_out(given.parts())
    scores = {number: held_out[number] for number in answers}
    gold = {number: answer.entities for number, answer in answers.items()}
    whole = isinstance(tagger, LiveTopics)
    tagger.rescale({n: own for n, own in scores.items() if not whole or tagger.judges(answers[n].sentence)}, gold)
    sentences = [answer.sentence for answer in answers.values()]
    tagged = tagger.decode(np.concatenate(list(scores.values())), sentences)
    f1 = score_entities(list(gold.values()), tagged, {}).value
    return Point(len(answers), sum(map(len, sentences)), round(f1, 1))


def retrace(
    tagger: LiveTagger,
    answers: Mapping[int, Annotation],
    given: Callable[[Mapping[int, Annotation]], TrainingAnswers | None] = lambda answers: None,
) -> Iterator[Point]:
    """Yield the points that a session made on its way to these answers, in their order."""
    again, points, so_far = tagger.without(answers), list[Point](), dict[int, Annotation]()
    words = 0
    for number, answer in answers.items():
        so_far[number], words = answer, words + len(answer.sentence)
        again.learn(number, tagger.learned[number].words, answer.entities, tagger.learned[number].prior)
        if is_due(points, words, len(so_far)):
            points.append(measure_tagger(again, so_far, given(so_far)))
            yield points[-1]


def session_curve(points: Sequence[Point]) -> str:
    """F1 by words read, for the side panel; empty without points."""
    if not points:
        return ""
    panel = Panel(AXIS, 10, WIDTH - 8, 110, [0, 25, 50, 75, 100])
    across = Scale(0, max(points[-1].words, 1), panel.left, panel.right)
    line = [(across(p.words), panel.scale(p.f1)) for p in points]
    last = points[-1]
    parts = [*panel.grid([0, 50, 100]), path(line, "l s0"), dots(line, "s0", 4)]
    parts += [
        text_line(panel.left, 126, "0", "start", "m"),
        text_line(panel.right, 126, f"{last.words:,} words read", "end", "m"),
    ]
    title = f"F1 by words read: {last.f1:.1f} after {last.words:,} words"
    return picture(WIDTH, 132, title, *parts)


FINISH_FOLDS = 5
FINISH_SECONDS = 600.0
"""Seconds that `finish` may take for its figure."""
FEWEST_TO_FINISH = 10
"""Answers with an entity that `finish` needs."""
NEVER = -1e4  # the weight, before softmax, of a layer that is not read


def make_tagger(live: LiveTagger, reader: VectorReader, spec: str, train: Sequence[Sentence], **options: Any) -> Tagger:
    """Return the tagger as an ordinary one; `options` are Tagger's.

    Raises `ValueError` for a tagger without labels, and for one that corrects another tagger.
    """
    if not live.labels or not live.learned:
        raise ValueError("there is no tagger yet: answer a sentence first")
    if any(example.prior is not None for example in live.learned.values()):
        raise ValueError(
            "this session corrects the tagger it was started from, which makes no folder of its own; finish training, "
            "and save the result"
        )
    tagger = Tagger(spec, "linear", **options)
    labelling = TagLabelling("bio", factored_tags(live.labels))
    streams = [stream.shape for stream in reader.encoder.streams]
    head = make_head("linear", tagger.plan.head_options, streams, labelling.labels)
    assert isinstance(head, TaggingHead) and isinstance(head.body, PerWord) and head.crf
    with torch.no_grad():
        for mix, (first, fitted) in zip(head.mixes, reader.mixes, strict=True):
            mix.mean[first:].copy_(fitted.mean)
            mix.scale[first:].copy_(fitted.scale)
            if isinstance(mix, LayerMix) and mix.weights is not None:
                mix.weights[:first] = NEVER
    head.body.fill(*live.linear())
    head.crf.load_state_dict(live.make_crf().state_dict())
    head.to(tagger.plan.device)
    tagger.fitted = Fitted(tagger.plan, labelling, head, _record(tagger.plan, reader.encoder, head, train))
    return tagger


def make_classifier(live: LiveTopics, model: Task[Any, Any], train: Sequence[Sentence]) -> Task[Any, Any]:
    """Topics over the vectors of texts as an ordinary classifier: its centroids answer what the session showed."""
    named = [whole_sentence(label, label) for label in live.labels]
    named = [replace(s, labels=(s.where,)) if live.several else replace(s, label=s.where) for s in named]
    plan = model.plan
    labelling = make_labelling(plan.head_kind, named, plan.head_options).for_config(plan.config)
    encoder = plan.reader.encoder(cached=True)
    streams = [stream.shape for stream in encoder.streams]
    head = make_head(plan.head_kind, plan.head_options, streams, labelling.labels)
    assert isinstance(head, CentroidPool)
    order = [live.labels.index(label) for label in labelling.labels]
    weight, constant = (torch.from_numpy(part[order]) for part in live.linear())
    head.fill(weight, constant)
    head.to(plan.device)
    model.fitted = Fitted(plan, labelling, head, _record(plan, encoder, head, train))
    return model


def _record(plan: Plan[Any], encoder: Encoder, head: Any, train: Sequence[Sentence]) -> dict[str, Any]:
    """Return a training record in the form of `fitting.training`."""
    facts = {"seed": 0, "encode_seconds": 0.0, "train_seconds": 0.0, "notices": {}}
    return {
        **facts,
        **learned_languages(plan, train),
        "train": describe(train),
        "dev": None,
        "dev_scores": None,
        **head_facts(encoder, head, TrainLog([0.0], [], 1, len(train))),
    }


@dataclass(frozen=True, slots=True)
class FinishedTagger:
    """A trained model, and F1 in percent of it and of the live one on answers that neither had learned.

    Where each text has one label, this is the share of right answers.
    """

    tagger: Task[Any, Any]
    f1: float
    live_f1: float
    sentences: int

    @property
    def better(self) -> bool:
        """Whether it is kept."""
        return self.f1 > self.live_f1


def finish_training(
    model: Task[Any, Any],
    answers: Mapping[int, Annotation],
    live: LiveTagger,
    given: TrainingAnswers,
    seed: int = 1,
    seconds: float = FINISH_SECONDS,
) -> FinishedTagger:
    """Train on the answers what `boustro fit` trains, and say how good it is on parts left out,
    as `fit` does; takes a minute or so.

    Raises `ValueError` where there are too few answers.
    """
    labelled = [answer.sentence for answer in answers.values() if answer.entities]
    if num_different(labelled) < FEWEST_TO_FINISH:
        raise ValueError(f"finish training when answers to at least {FEWEST_TO_FINISH} different texts have a label")
    model.learn(Examples(train=given.examples), seed, seconds)
    facts = model.record[KEY]
    if why := facts.get("why_not"):
        raise ValueError(f"the model that was trained cannot be judged: {why}")
    predicted: dict[int, tuple[Entity, ...]] = {}
    for part, unlearned in given.parts(seed):
        rest = live.without(unlearned)
        rest.scales = live.scales
        scores = np.concatenate([rest.full_scores(live.learned[n]) for n in part])
        predicted |= zip(part, rest.decode(scores, [answers[n].sentence for n in part]), strict=True)
    gold = [answers[n].entities for n in predicted]
    live_f1 = round(score_entities(gold, [*predicted.values()], {}).value, 1)
    return FinishedTagger(model, round(facts["score"], 1), live_f1, len(answers))
