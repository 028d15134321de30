"""How good the tagger of a session is, and the folders that it leaves.

    measure(live, answers, texts)                a point of the curve: each answered sentence, by a tagger that learned
                                                 all others but those of its document, and its copies
    make_tagger(live, reader, spec, answers)     head linear with a CRF: the very scores that the session showed
    finish(model, answers, live, texts, …)       head mlp (or another) by gradient descent, if it is better

A closed form gives the curve without training again (`LiveTagger.held_out`). The sentences that `uncertain` chooses are
harder than the average, so it is a lower bound of what the tagger does on the rest. Whether the trained head is better
is decided on answers that neither has seen: five parts, each tagged by both after they learned the other four.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from boustro.apps.drawing import AXIS, WIDTH, Panel, Scale, dots, path, picture, text
from boustro.apps.label.answers import Answer, Text
from boustro.apps.label.incremental import LiveTagger
from boustro.apps.label.vectors import VectorReader
from boustro.encoders.base import Encoder
from boustro.encoders.options import Context
from boustro.encoders.reading import group_numbers
from boustro.features.reader import itself
from boustro.heads.bodies import PerWord
from boustro.heads.factored import factored_tags
from boustro.heads.mix import LayerMix
from boustro.heads.registry import make_head
from boustro.heads.tagging import TaggingHead
from boustro.heads.training import TrainLog
from boustro.metrics.spans import score_entities
from boustro.tasks.base import Task
from boustro.tasks.estimate import answers_left_out
from boustro.tasks.fitting import describe, fit, head_facts
from boustro.tasks.folds import kin, left_out
from boustro.tasks.labellings.tags import TagLabelling
from boustro.tasks.plan import Examples, Fitted, TrainingSet
from boustro.tasks.tagger import Tagger
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
    """Whether there is enough that is new since the last point."""
    return sentences >= FEWEST_TO_MEASURE and (not points or words >= GROWTH * points[-1].words)


def measure(tagger: LiveTagger, answers: Mapping[int, Answer], texts: Sequence[Text] = ()) -> Point:
    """The point of a tagger that has learned these answers, perhaps besides other sentences. Sets its scales.

    `texts` are those that the answers number, which know their documents.
    """
    asked = [texts[number].sentence if texts else answer.sentence for number, answer in answers.items()]
    groups: dict[int, list[int]] = {}
    for number, group in zip(answers, kin(asked, itself).groups, strict=True):
        groups.setdefault(int(group), []).append(number)
    found = tagger.held_out(groups.values())
    scores = {number: found[number] for number in answers}
    gold = {number: answer.entities for number, answer in answers.items()}
    tagger.rescale(scores, gold)
    sentences = [answer.sentence for answer in answers.values()]
    tagged = tagger.decode(np.concatenate(list(scores.values())), sentences)
    f1 = score_entities(list(gold.values()), tagged, {}).value
    return Point(len(answers), sum(map(len, sentences)), round(f1, 1))


def retrace(tagger: LiveTagger, answers: Mapping[int, Answer], texts: Sequence[Text] = ()) -> Iterator[Point]:
    """The points that a session made on its way to these answers, in their order."""
    again, points, so_far = tagger.without(answers), list[Point](), dict[int, Answer]()
    words = 0
    for number, answer in answers.items():
        so_far[number], words = answer, words + len(answer.sentence)
        again.learn(number, tagger.learned[number].words, answer.entities, tagger.learned[number].prior)
        if is_due(points, words, len(so_far)):
            points.append(measure(again, so_far, texts))
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
        text(panel.left, 126, "0", "start", "m"),
        text(panel.right, 126, f"{last.words:,} words read", "end", "m"),
    ]
    title = f"F1 by words read: {last.f1:.1f} after {last.words:,} words"
    return picture(WIDTH, 132, title, *parts)


FOLDS = 5
FEWEST_TO_FINISH = 10
"""Answers with an entity that `finish` needs."""
NEVER = -1e4  # the weight, before softmax, of a layer that is not read


def make_tagger(live: LiveTagger, reader: VectorReader, spec: str, train: Sequence[Sentence], **options: Any) -> Tagger:
    """The tagger as an ordinary one; `options` are Tagger's.

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
    streams = tuple((s.num_layers, s.width) for s in reader.encoder.streams)
    head = make_head("linear", tagger.head_options, streams, labelling.labels)
    assert isinstance(head, TaggingHead) and isinstance(head.body, PerWord) and head.crf
    with torch.no_grad():
        for mix, (first, fitted) in zip(head.mixes, reader.mixes, strict=True):
            mix.mean[first:].copy_(fitted.mean)
            mix.scale[first:].copy_(fitted.scale)
            if isinstance(mix, LayerMix) and mix.weights is not None:
                mix.weights[:first] = NEVER
    head.body.fill(*live.linear())
    head.crf.load_state_dict(live.make_crf().state_dict())
    head.to(tagger.device)
    tagger.fitted = Fitted(tagger.plan, labelling, head, _record(reader.encoder, head, train))
    return tagger


def _record(encoder: Encoder, head: Any, train: Sequence[Sentence]) -> dict[str, Any]:
    """As `tasks.fitting` writes it."""
    facts = {"seed": 0, "encode_seconds": 0.0, "train_seconds": 0.0, "notices": {}}
    return {
        **facts,
        "train": describe(train),
        "dev": None,
        "dev_scores": None,
        **head_facts(encoder, head, TrainLog([0.0], [], 1, len(train))),
    }


@dataclass(frozen=True, slots=True)
class Finished:
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


def finish(
    model: Task[Any, Any],
    answers: Mapping[int, Answer],
    live: LiveTagger,
    texts: Sequence[Sentence],
    context: Context,
    seed: int = 1,
) -> Finished:
    """Train a model, untrained so far, on all answers, and say how good such heads are on parts left out; takes a
    minute or so.

    `texts` are the sentences that the answers number; those of their documents are read around them. Raises
    `ValueError` where there are too few answers.
    """
    if sum(bool(answer.entities) for answer in answers.values()) < FEWEST_TO_FINISH:
        raise ValueError(f"finish training when at least {FEWEST_TO_FINISH} answers have a label")
    answers = {number: answers[number] for number in sorted(answers)}
    gold = [answer.entities for answer in answers.values()]
    given = in_documents(answers, texts, context)
    asked = [sentence for sentence in given if sentence.is_labelled]
    sides, found = list(left_out(asked, FOLDS, seed, model.shared)), list[tuple[Entity, ...]]()

    def compare(fitted: Fitted, data: TrainingSet, seconds: float) -> dict[str, Any]:
        own = answers_left_out(fitted, data, sides)
        found.extend(own[n].entities for n in range(len(answers)))
        return {}

    model.fitted = fit(model.plan, Examples(train=given), seed, [compare])
    live_found = _live_left_out(live, answers, [left for _, left in sides])
    f1, live_f1 = (round(score_entities(gold, own, {}).value, 1) for own in (found, live_found))
    return Finished(model, f1, live_f1, len(answers))


def in_documents(answers: Mapping[int, Answer], texts: Sequence[Sentence], context: Context) -> list[Sentence]:
    """The labelled sentences, and between them, without labels, the others of their documents."""

    def read(n: int) -> Sentence:
        return replace(answers[n].labelled(), document=texts[n].document) if n in answers else texts[n]

    documents = (own for own in group_numbers(texts, context) if not answers.keys().isdisjoint(own))
    return [read(n) for own in documents for n in own]


def _live_left_out(
    live: LiveTagger, answers: Mapping[int, Answer], parts: Sequence[np.ndarray]
) -> list[tuple[Entity, ...]]:
    """The same of the live tagger, whose scales stay."""
    numbers = [*answers]
    found: list[tuple[Entity, ...]] = [()] * len(numbers)
    for part in parts:
        own = [numbers[n] for n in part]
        rest = live.without(own)
        rest.scales = live.scales
        scores = np.concatenate([rest.full_scores(live.learned[n]) for n in own])
        for place, entities in zip(part, rest.decode(scores, [answers[n].sentence for n in own]), strict=True):
            found[place] = entities
    return found
