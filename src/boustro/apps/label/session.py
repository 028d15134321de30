"""A labelling session: the sentence that is shown, what was answered, and what the tagger makes of it; without HTTP.

    session = LabellingSession(texts, file, labels=["PER", "LOC"])
    session.attach(numbers, vectors)      sentences that have been encoded: the first one is shown
    session.view()                        the sentence on the screen, with suggestions
    session.answer(number, entities)      on the disk, learned; the next one is shown
    session.undo(); session.redo()        without end, also over a restart

Every answer is on the disk before anything else changes: where that fails, the session is as it was. `number` names a
sentence by its place among the texts. Whoever calls from several threads holds `lock`. What a person gives is the
session's `LabelMode`, by what the heads of a task learn.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boustro.apps.label.answers import SPANS, Annotation, AnswerFile, LabelMode, SessionState, check_label
from boustro.apps.label.groups import GroupLabels, Mention, NameGroup, group_names
from boustro.apps.label.incremental import LiveTagger, LiveTopics
from boustro.apps.label.pool import ORDERS, Order, SentencePool
from boustro.apps.label.texts import TextToLabel, find_texts, text_beside
from boustro.apps.label.vectors import Start, WordVectors
from boustro.choose import choose
from boustro.text.languages import language_of, language_of_words
from boustro.types import Entity, Sentence

EARNED = 0.5
"""The trust from which on probabilities are shown."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change to one sentence, with its answer before and after; None is unanswered."""

    number: int
    before: Annotation | None
    after: Annotation | None
    """None for a sentence that was skipped."""


class Stale(ValueError):
    """A request about a sentence that is no longer on the screen."""


class LabellingSession:
    """Texts, their answers and the live tagger; see above."""

    def __init__(
        self,
        texts: Sequence[TextToLabel],
        file: AnswerFile,
        labels: Sequence[str] = (),
        order: Order = "uncertain",
        nested: bool = False,
        manner: LabelMode = SPANS,
        unit: str = "texts",
        offered: Sequence[str] = (),
        note: str = "",
        english: bool = False,
    ) -> None:
        """Goes on where the file ends, whose form is that of the mode; raises as `AnswerFile.read`.

        `unit` is what the page calls what is labelled: texts or sentences. `offered` are the labels where there are no
        others. `note` says that some of the texts are in a language that the encoder does not read. `english`:
        it reads English alone, so nothing is suggested for texts in a language of which there is no answer.
        """
        self.texts, self.file, self.nested, self.manner, self.unit = list(texts), file, nested, manner, unit
        self.order: Order = order
        self.note, self.english = note, english
        self._languages: dict[int, str | None] = {}
        # the page's requests and the encoding thread change the same texts; an answer calls what locks again
        self.lock = threading.RLock()
        self.pool = SentencePool()
        self.tagger: LiveTagger | None = None
        self.answers: dict[int, Annotation] = {}
        self.examples: dict[int, Annotation] = {}
        """Learned from the start, and not in the file."""
        self.skipped: set[int] = set()
        self.past: list[Step] = []
        self.future: list[Step] = []
        self.next: int | None = None
        """The sentence to answer next."""
        self.shown: int | None = None
        """An answered one that is looked at instead."""
        self.begun = 0
        """How often names of topics have been read since the start."""
        self.draft: Annotation | None = None
        """What an undone answer was, for the sentence on the screen."""
        self.resumed = self._resume(file.read(), beside := file.read_beside())
        self.told = GroupLabels(tuple((label, tuple(names)) for label, names in beside.groups))
        """What was said of groups of names."""
        self._cleaned: dict[tuple[str, tuple[str, ...]], list[tuple[Annotation, Annotation]]] = {}
        """The answers that had what was told to be no name, before and after."""
        used = sorted({e.label for answer in self.answers.values() for e in answer.entities})
        own = dict.fromkeys([*map(check_label, labels), *beside.labels, *used])
        self.labels = list(offered if own.keys() <= {*offered} else own)

    # What there is

    @property
    def current(self) -> int | None:
        """The sentence on the screen."""
        return self.next if self.shown is None else self.shown

    @property
    def sentences(self) -> list[Sentence]:
        """Those of all texts."""
        return [text.sentence for text in self.texts]

    @property
    def words_answered(self) -> int:
        """How many words a person has read."""
        return sum(len(answer.sentence) for answer in self.answers.values())

    def counts(self) -> dict[str, int]:
        """Entities of each label in the answers."""
        totals = Counter(e.label for answer in self.answers.values() for e in answer.entities)
        return {label: totals[label] for label in self.labels}

    def view(self) -> dict[str, Any]:
        """Return the sentence on the screen as JSON can hold it, and how far the session is."""
        number, last = self.current, self._cleaned.get(self.told.steps[-1], ()) if self.told.steps else ()
        state: dict[str, Any] = {
            "answered": len(self.answers),
            "words": self.words_answered,
            "skipped": len(self.skipped),
            "ready": len(self.pool),
            "total": len(self.texts),
            "labels": [*self.labels],
            "order": self.order,
            "nested": self.nested,
            "whole": self.manner.whole,
            "unit": self.unit,
            "note": self.note,
            "several": self.manner.several,
            "can_undo": bool(self.past),
            "can_redo": bool(self.future),
            "groups_told": len(self.told.steps),
            "cleaned": len({*map(id, self.answers.values())} & {id(new) for _, new in last}),
            "begun": self.begun,
            "sentence": None,
        }
        if number is None:
            return state
        sentence, known = self.texts[number].sentence, self.answers.get(number) or self.draft
        entities = self.suggest(number) if known is None else known.entities
        state["sentence"] = {
            "number": number,
            "words": list(sentence.words),
            "text": self.texts[number].text,
            "gaps": self.texts[number].gaps,
            "entities": [{"start": e.start, "end": e.end, "label": e.label, "score": e.score} for e in entities],
            "is": "suggested" if known is None else "answered" if number in self.answers else "undone",
            "note": "" if known is None else known.note,
            "source": sentence.where,
            "before": text_beside(self.sentences, number, -1),
            "after": text_beside(self.sentences, number, 1),
            "sure": self.tagger is not None and self.tagger.trust >= EARNED,
            "by_name": known is None and self._is_by_name(number, entities),
            "place": [*self.answers].index(number) + 1 if number in self.answers else None,
        }
        return state

    def suggest(self, number: int) -> tuple[Entity, ...]:
        """Return the tagger's entities for a sentence, with their probabilities; none before it is ready. Where a label
        cannot be told yet it is empty."""
        return self.suggest_all([number])[0] if number in self.pool else ()

    def _is_by_name(self, number: int, entities: Sequence[Entity]) -> bool:
        """Return whether these topics are suggested for their names, rather than for what was answered."""
        if not isinstance(self.tagger, LiveTopics) or number not in self.pool:
            return False
        return self.tagger.is_by_name(self.pool.scores(number), [e.label for e in entities])

    def _language(self, number: int) -> str | None:
        if number not in self._languages:
            self._languages[number] = language_of(self.texts[number].written)
        return self._languages[number]

    def _is_unread(self, number: int) -> bool:
        """Return whether nothing is known of the language of this text: the encoder does not read it, and nobody
        labelled."""
        if not self.english or (language := self._language(number)) is None:
            return False
        if not self.manner.whole:
            return not (self.answers or self.examples)
        written = (language_of_words(example.sentence.words) for example in self.examples.values())
        return language not in {*map(self._language, self.answers), *written}

    def suggest_all(self, numbers: Sequence[int]) -> list[tuple[Entity, ...]]:
        """Suggest entities for sentences that are all ready."""
        if self.tagger is None or not numbers:
            return [() for _ in numbers]
        scores = np.concatenate([self.pool.scores(number) for number in numbers])
        decoded = self.tagger.decode(scores, [self.texts[number].sentence for number in numbers])
        trust, blind, told = self.tagger.trust, 1 / (len(self.labels) + (not self.manner.whole)), self.tagger.told
        all_told = self.manner.whole or any(self.pool.prior(number) is not None for number in numbers)

        def modest(e: Entity) -> Entity:
            """Return an entity without a label of which nothing is known."""
            label, score = e.label if all_told or told[e.label] else "", e.score or 0.0
            return replace(e, label=label, score=trust * score + (1 - trust) * min(blind, score))

        read = [() if self._is_unread(number) else own for number, own in zip(numbers, decoded, strict=True)]
        sentences = (self.texts[number].sentence for number in numbers)
        return [self.told.apply(s.words, map(modest, own)) for s, own in zip(sentences, read, strict=True)]

    def groups(self) -> list[NameGroup]:
        """Names that are suggested for texts that have no answer, in groups, without those that were told."""
        numbers = [n for n in self.pool.numbers if n not in self.answers and n not in self.skipped]
        numbers = [n for n in numbers if not self._is_unread(n)]
        if self.tagger is None or self.manner.whole:
            return []
        mentions, alike = list[Mention](), self.tagger.alike
        for number, entities in zip(numbers, self.suggest_all(numbers), strict=True):
            words, vectors = self.texts[number].sentence.words, self.pool.vectors(number)[:, alike]
            for e in (e for e in entities if e.score is not None and words[e.start : e.end] not in self.told.labels):
                mentions.append(Mention(" ".join(words[e.start : e.end]), e.label, vectors[e.start : e.end].mean(0)))
        return group_names(mentions)

    # What happens

    def attach(
        self,
        numbers: Sequence[int],
        vectors: WordVectors,
        prior: np.ndarray | None = None,
        start: Start | Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Sentences have been encoded; `prior` (words, labels + 1) is that of `LiveTagger.learn`, and `start` what the
        tagger knows, if these are the first, or what the names of topics say."""
        if self.tagger is None:
            self.tagger = self._make(vectors.words, start)
        self.pool.attach(numbers, vectors, self.tagger, prior)
        for number in numbers:
            if number in self.answers:
                self._learn(number, self.answers[number])
        if self.next is None:
            self._choose()

    def _make(self, words: np.ndarray, start: Start | Mapping[str, np.ndarray] | None) -> LiveTagger:
        squared = float(np.square(words.astype(np.float32)).sum()) / max(1, len(words))
        made: LiveTagger = self.manner.live(words.shape[1], squared, self.labels, start)
        made.english = self.english
        return made

    def begin(self, names: Mapping[str, np.ndarray]) -> None:
        """Names of topics have been read, after the first `attach`; see `LiveTopics.begin`."""
        if isinstance(self.tagger, LiveTopics):
            self.tagger.begin(names)
            self.pool.rescore(self.tagger)
            self.begun += 1

    def begin_anew(self, priors: Sequence[np.ndarray | None], start: Start | None) -> None:
        """Learn the answers again, from what is given of each chunk now; examples are to be added again."""
        assert self.tagger is not None
        scales, chunks = self.tagger.scales, self.pool.chunks
        self.tagger = self._make(chunks[0].vectors, start)
        self.tagger.scales = scales
        self.pool, self.examples = SentencePool(), {}
        for chunk, prior in zip(chunks, priors, strict=True):
            self.attach(chunk.numbers.tolist(), WordVectors(chunk.vectors, chunk.starts), prior)
        self.begun += 1

    def add_examples(
        self, answers: Sequence[Annotation], vectors: WordVectors, prior: np.ndarray | None = None
    ) -> None:
        """Learn labelled sentences that are not in the file; after the first `attach`. `prior` as there."""
        for place, answer in enumerate(answers):
            for entity in answer.entities:
                if entity.label not in self.labels:
                    self.add_label(entity.label, keep=False)
            number = len(self.texts) + len(self.examples)
            self.examples[number] = answer
            rows = slice(vectors.starts[place], vectors.starts[place + 1])
            words, given = vectors.words[rows].astype(np.float32), None if prior is None else prior[rows]
            assert self.tagger is not None
            self.pool.update(*self.tagger.learn(number, words, answer.entities, given))
        self._choose()

    def answer(self, number: int, entities: Iterable[Any], note: str = "") -> None:
        """The answer for the sentence on the screen, as entities or dicts with start, end and label.

        Raises `Stale` for another sentence, `ValueError` for entities that cannot be, and `OSError` where the file
        cannot be written; then nothing has changed.
        """
        self._check_current(number)
        text = self.texts[number]
        kept = self.manner.entities(entities, len(text.sentence), self.labels, self.nested)
        answer = self.file.kind.of(text, kept, note.strip())
        self._do(Step(number, self.answers.get(number), answer))
        self.future.clear()

    def skip(self, number: int) -> None:
        """Put the sentence on the screen aside."""
        self._check_current(number)
        if number in self.answers:
            raise ValueError("an answered sentence cannot be skipped; undo its answer")
        self._do(Step(number, None, None))
        self.future.clear()

    def undo(self) -> None:
        """Take the last step back, and show its sentence; `ValueError` where there is none."""
        if not self.past:
            raise ValueError("there is nothing to undo")
        step = self.past[-1]
        self._set(step.number, step.before, skipped=False)
        self.future.append(self.past.pop())
        self.next, self.shown, self.draft = (step.number if step.before is None else self.next), None, step.after
        if step.before is not None:
            self.shown, self.draft = step.number, None

    def redo(self) -> None:
        """Take the last undone step again; `ValueError` where there is none."""
        if not self.future:
            raise ValueError("there is nothing to do again")
        self._do(self.future[-1])
        self.future.pop()

    def look_back(self) -> None:
        """Show the answered sentence before the one on the screen; the first one stays."""
        order = [*self.answers]
        place = order.index(self.shown) if self.shown in self.answers else len(order)
        if place:
            self.shown = order[place - 1]

    def look_ahead(self) -> None:
        """Show the answered sentence after the one on the screen, and after the last one the one to answer next."""
        if self.shown is not None:
            after = [*self.answers][[*self.answers].index(self.shown) + 1 :]
            self.shown = after[0] if after else None

    def show(self, number: int) -> None:
        """Show a sentence: an answered one to look at, another one to answer next. `ValueError` if it is not ready."""
        if number in self.answers:
            self.shown = number
        elif number in self.pool:
            self.skipped.discard(number)
            self.next, self.shown, self.draft = number, None, None
        else:
            raise ValueError(f"sentence {number} is not ready yet")

    def add_label(self, name: str, keep: bool = True) -> str:
        """Return one more label, which is returned; `ValueError` for a name that is none, or known."""
        name = check_label(name)
        if name in self.labels:
            raise ValueError(f"there is a label {name} already")
        if keep:
            self.file.write_beside(self._beside([*self.labels, name], self.skipped))
        self.labels.append(name)
        if self.tagger is not None:
            self.tagger.add_label(name)
            self.pool.rescore(self.tagger)
        return name

    def label_group(self, names: Sequence[str], label: str) -> None:
        """Names have a label wherever they are suggested or stand, or are none (""), also in the answers so far;
        `ValueError` for no label."""
        if label and label not in self.labels:
            raise ValueError(f"there is no label {label!r}; add it first")
        if not names:
            return
        before, step = self.told, (label, tuple(names))
        self._keep_told(GroupLabels((*before.steps, step)))
        if not label and not self.manner.whole:
            changes = GroupLabels((step,)).clean(self._given())
            try:
                self._change_answers(changes)
            except OSError:
                self._keep_told(before)
                raise
            self._cleaned.setdefault(step, []).extend(changes.values())

    def undo_group(self, names: Sequence[str] = (), label: str = "") -> None:
        """Take back what was told of these names, or the last group; `ValueError` where there is none.

        Answers that had the names have them again, unless they were changed since.
        """
        step = (label, tuple(names)) if names else self.told.steps[-1] if self.told.steps else None
        if step not in self.told.steps:
            raise ValueError("no group has a label")
        self._keep_told(self.told.without(step))
        cleaned = [] if step in self.told.steps else self._cleaned.pop(step, [])
        self._change_answers({id(is_now): (is_now, was) for was, is_now in cleaned})

    def set_order(self, order: str) -> None:
        """Another order, from the next sentence on; the one on the screen stays."""
        self.order = choose(order, ORDERS, "order")

    def restore_skipped(self) -> None:
        """Ask for the skipped sentences again."""
        self.file.write_beside(self._beside(self.labels, set()))
        self.skipped.clear()
        self._choose()

    # How

    def _do(self, step: Step) -> None:
        self._set(step.number, step.after, skipped=step.after is None)
        self.past.append(step)
        self.shown = self.draft = None
        if step.number == self.next or self.next is None:
            self._choose()

    def _set(self, number: int, answer: Annotation | None, skipped: bool) -> None:
        """Write, then learn; the answer of a sentence, or none."""
        after = {**self.answers, number: answer} if answer else {n: a for n, a in self.answers.items() if n != number}
        if after != self.answers:
            self.file.write([kept for kept in after.values() if kept])
        aside = self.skipped | {number} if skipped else self.skipped - {number}
        if aside != self.skipped:
            self.file.write_beside(self._beside(self.labels, aside))
        self.answers = {n: kept for n, kept in after.items() if kept}
        self.skipped = aside
        self._learn(number, answer)

    def _learn(self, number: int, answer: Annotation | None) -> None:
        """Learn an answer in the place of what was learned of its text, if anything."""
        if self.tagger is not None and number in self.tagger.learned:
            self.pool.update(*self.tagger.forget(number))
        if answer and self.tagger is not None and number in self.pool:
            changes = self.tagger.learn(number, self.pool.vectors(number), answer.entities, self.pool.prior(number))
            self.pool.update(*changes)

    def _choose(self) -> None:
        """Set the sentence to answer next."""
        self.draft = None
        if self.tagger is not None:
            left_out = self.answers.keys() | self.skipped
            known = len(self.answers) + len(self.examples)
            self.next = self.pool.choose(self.order, known, self.tagger, left_out)

    def _given(self) -> Iterator[Annotation]:
        """Return every answer that is shown, or can be by undo and redo."""
        steps = [*self.past, *self.future]
        found = [*self.answers.values(), self.draft, *(s.before for s in steps), *(s.after for s in steps)]
        return (answer for answer in found if answer is not None)

    def _change_answers(self, changes: Mapping[int, tuple[Annotation, Annotation]]) -> None:
        """Put other answers in the places of some, given by their `id`: write, then learn."""

        def new(answer: Any) -> Any:
            return changes[id(answer)][1] if id(answer) in changes else answer

        after = {number: new(answer) for number, answer in self.answers.items()}
        changed = [number for number, answer in after.items() if answer is not self.answers[number]]
        if changed:
            self.file.write([*after.values()])
        self.answers, self.draft = after, new(self.draft)
        for steps in (self.past, self.future):
            steps[:] = [Step(step.number, new(step.before), new(step.after)) for step in steps]
        for number in changed:
            self._learn(number, after[number])

    def _check_current(self, number: int) -> None:
        if number != self.current:
            raise Stale("this sentence is no longer on the screen; the page is loaded again")

    def _resume(self, answers: Sequence[Annotation], beside: SessionState) -> Counter[str]:
        """Take over what is on the disk; returns how much of it was found."""
        aside = [key.partition(" ") for key in beside.skipped]
        words = {text.key.partition(" ")[0]: text.sentence.words for text in self.texts if aside}
        places = [(answer.sentence.words, answer.sentence.where) for answer in answers]
        wanted = [*places, *((words.get(key, ()), where) for key, _, where in aside)]
        numbers = find_texts(self.sentences, wanted)
        skipped = [*zip(beside.skipped, numbers[len(answers) :], strict=True)]
        counts: Counter[str] = Counter()
        for answer, number in zip(answers, numbers, strict=False):
            if number is None:  # of another file of texts: kept, and learned as soon as it is encoded
                number = len(self.texts)
                self.texts.append(TextToLabel(answer.sentence, text=answer.text, columns=answer.columns))
                counts["elsewhere"] += 1
            self.answers[number] = answer
            self.past.append(Step(number, None, answer))
            counts["answers"] += 1
        self.skipped = {number for _, number in skipped if number is not None}
        self.skipped_elsewhere = [key for key, number in skipped if number is None]
        return counts

    def _keep_told(self, told: GroupLabels) -> None:
        """On the disk first."""
        before, self.told = self.told, told
        try:
            self.file.write_beside(self._beside(self.labels, self.skipped))
        except OSError:
            self.told = before
            raise

    def _beside(self, labels: Sequence[str], skipped: Iterable[int]) -> SessionState:
        groups = [[label, [*names]] for label, names in self.told.steps]
        return SessionState(list(labels), [self.texts[n].key for n in sorted(skipped)] + self.skipped_elsewhere, groups)
