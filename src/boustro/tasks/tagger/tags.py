"""Labels of words: BIO, BIOES or IO tags of entities, or one label per word, such as a part of speech."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from boustro.heads.factored import aliases
from boustro.heads.inputs import HeadInputs, Targets
from boustro.heads.options import HeadOptions, TagOptions
from boustro.metrics.spans import REPAIR_RULE, extract_spans, is_span_tag, parse_tag
from boustro.names import LARGE
from boustro.tasks.answers import Answer
from boustro.tasks.data import data_name
from boustro.tasks.data.schemes import BARE, Scheme, encode_tags, to_bio
from boustro.tasks.labellings import says_nothing
from boustro.tasks.labellings.base import Labelling, Units
from boustro.tasks.tagger.entities import EntityLabelling
from boustro.text.languages import IN_NAMES, MISSED_NAMES, TITLES, small_words
from boustro.types import Entity, Sentence

if TYPE_CHECKING:
    from boustro.metrics.labels import LabelScore

UNSEEN_WORDS = "dev words with a label that the training data never show"


class TagLabelling(EntityLabelling):
    """Entities as tags of a scheme: bio, bioes or io."""

    by_label = True

    @classmethod
    def suiting(cls, examples: Sequence[Sentence]) -> type[Labelling]:
        """That of labels of words where these are no tags."""
        return cls if all(is_span_tag(tag) for s in examples for tag in s.tags or ()) else WordLabelling

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], options: HeadOptions) -> "TagLabelling":
        """O first, then the tags of the types of the training set in alphabetical order: a name of two words has tags
        where all that were learned from are of one."""
        assert isinstance(options, TagOptions)
        types = {e.label for s in sentences for e in extract_spans(s.tags or ())}
        tags = {tag for own in types for n in (1, 3) for tag in encode_tags([Entity(own, 0, n)], n, options.tag_scheme)}
        return cls(options.tag_scheme, ["O", *sorted(tags - {"O"})])

    def known_by_names(self, fitted: Any) -> Any:
        reader = fitted.plan.reader
        if type(self) is not TagLabelling or reader.spec != LARGE or reader.is_wide:
            return None
        if all(map(says_nothing, self.types)):
            return None
        from boustro.tasks.label_types import from_types

        with suppress(ValueError):  # two that are read alike
            return from_types(fitted.plan.task, self.types, reader.device, reader.encoder(cached=True)).fitted
        return None

    def answers_by_names(
        self, fitted: Any, named: Any, examples: Sequence[Any], inputs: HeadInputs
    ) -> list[Answer] | None:
        if (known := named or self.known_by_names(fitted)) is None:
            return None
        last = [stream[:, -1:] for stream in inputs.streams]
        return known.answers(known.head.outputs(HeadInputs(last, inputs.lengths, inputs.parts)), examples)

    @property
    def types(self) -> tuple[str, ...]:
        bare = self.scheme in BARE  # no prefix to remove: person-actor is a type
        return tuple(sorted({label if bare else parse_tag(label)[1] for label in self.labels} - {"O", ""}))

    @property
    def rules(self) -> dict[str, str]:
        return {"scheme": self.scheme.upper(), "repair": REPAIR_RULE}

    @staticmethod
    def tags(sentence: Sentence, scheme: Scheme) -> tuple[str, ...]:
        """`B-PER I-PER B-LOC` in the scheme: io `PER PER LOC`, bioes `B-PER E-PER S-LOC`."""
        return encode_tags(extract_spans(sentence.tags or ()), len(sentence), scheme)

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        import torch

        ids = {tag: i for i, tag in enumerate(self.labels)}
        tags = torch.tensor([ids[t] for s in sentences for t in self.tags(s, self.scheme)], dtype=torch.int64)
        return lambda _, rows: tags.to(rows.device)[rows]

    def read(self, output: tuple[np.ndarray, ...], example: Sentence) -> Answer:
        ids, scores, *beside = output
        scores = tuple(float(s) for s in scores)
        tags = self._tags(ids)
        if beside:
            own, of_names = beside
            tags = without_lone_words(tags, extract_spans(self._tags(own)), of_names, example.words)
        entities = [Entity(e.label, e.start, e.end, score=_mean(scores[e.start : e.end])) for e in extract_spans(tags)]
        return Answer(tags, scores, tuple(entities))

    def _tags(self, ids: np.ndarray) -> tuple[str, ...]:
        return to_bio(tuple(self.labels[i] for i in ids), self.scheme)


CLOSED_WORDS = frozenset(
    "the a we us it he she they them i you me my our your his their its this that these those who what which where "
    "when why how and or but if because although while with from into of for at by as is are was were been being does "
    "did not nobody somebody everybody anybody nothing something everything anything yes please thanks hello "
    "someone everyone anyone mine yours hers ours theirs there here then now again today tomorrow yesterday hi".split()
)
"""English words of closed classes, and of greeting, that are no names; without those that some people are called."""
SELDOM_NAMES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays "
    "sundays dear hey sorry ask tell let mailto".split()
)
"""English words that begin a message, and days: written with a capital, and hardly ever names."""
CONTRACTION = re.compile(
    r"(?:i|you|he|she|it|we|they|there|here|that|this|these|those|who|what|where|when|why|how|let)['’](?:m|re|ve|ll|d|s)"
    r"|\w+n['’]t|ain['’]t|(?:today|tomorrow|yesterday)['’]s",
    re.IGNORECASE,
)
QUOTES = ("'", '"', "’", "”")
LONGEST_INITIALS = 3
"""Letters of a function word in capitals that may be initials: US, WHO, but no AGAIN."""
NOUN_WITHIN = 2
"""Words behind a name that the noun of its type stands in."""


def may_be_name(word: str) -> bool:
    """Return whether a word that stands alone may be a name: it has letters, and is no function word; US may."""
    is_closed = word in small_words() or word.lower() in CLOSED_WORDS or bool(CONTRACTION.fullmatch(word))
    return any(map(str.isalpha, word)) and (
        not is_closed or (word.isupper() and word.isalpha() and 1 < len(word) <= LONGEST_INITIALS)
    )


def without_lone_words(
    tags: Sequence[str], own: Iterable[Entity], of_names: Iterable[bool], words: Sequence[str]
) -> tuple[str, ...]:
    """BIO tags without words that alone are no names (`may_be_name`), but where one of the `own` entities has them
    beside a word that may be one; and without words that are seldom names, and keys of fields, but where one of these
    has them.

    `20 7946 0112 after`, all of them unlikely persons → `after`; `14 Mill Lane`, a place → `14 Mill Lane`
    """
    lettered = [may_be_name(word) for word in words]
    beside = {n for entity in own for n in range(entity.start, entity.end) if any(lettered[entity.start : entity.end])}
    seldom = _keys(words) | {n for n, word in enumerate(words) if word.lower() in SELDOM_NAMES or not lettered[n]}
    gone = [
        of_name and number in seldom and number not in beside and any(map(str.isalnum, words[number]))
        for number, of_name in enumerate(of_names)
    ]
    return to_bio(tuple("O" if out else tag for out, tag in zip(gone, tags, strict=True)), "bio")


def _keys(words: Sequence[str]) -> set[int]:
    """Words that fields are called by; a single one before a colon may be whoever speaks.

    `city: Leeds; by=Ada`, `"city": "Leeds"`
    """
    signs = {n: [*words[n + 1 : n + 3], "", ""] for n, word in enumerate(words) if word[0].islower()}
    found = {n: then[0] == ":" for n, then in signs.items() if then[then[0] in QUOTES] in (":", "=")}
    return {n for n, is_bare in found.items() if len(found) > 1 or not is_bare}


class NameLabelling(TagLabelling):
    """Names that a network found in English, with what belongs to them: a title before a person's name, and what an
    institution is of or for."""

    missed = MISSED_NAMES
    """What is said of texts in another language."""

    def __init__(self, scheme: str, labels: Sequence[str]) -> None:
        super().__init__("bio", labels)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"scheme": "names"}

    def read(self, output: tuple[np.ndarray, ...], example: Sentence) -> Answer:
        answer = super().read(output, example)
        found = join_names(example.words, answer.entities, self.types)
        if found == list(answer.entities):
            return answer
        entities = [replace(e, score=_mean(answer.scores[e.start : e.end])) for e in found]
        return Answer(encode_tags(entities, len(example), "bio"), answer.scores, tuple(entities))


class NamedTypes(NameLabelling):
    """Names and nouns whose types are known by what they are called; those of the types `others` are no entities.

    A name goes on to the noun of a type that follows it: [Norwegian] parliamentary election → an election. That noun
    alone, "diseases", is no entity.
    """

    def __init__(self, scheme: str, labels: Sequence[str], others: Sequence[str] = ()) -> None:
        super().__init__(scheme, labels)
        self.others = tuple(others)
        parts = [(part, name) for name in self.types if name[-1:].isalpha() for part in name.lower().split(" or ")]
        self.nouns = {part.split()[-1]: name for part, name in parts if part.strip()}

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"scheme": "named", "others": self.others}

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(label for label in super().types if label not in self.others)

    def read(self, output: tuple[np.ndarray, ...], example: Sentence) -> Answer:
        answer = super().read(output, example)
        found, free = list[Entity](), 0
        for e, then in zip_longest(answer.entities, answer.entities[1:]):
            until = min(e.end + NOUN_WITHIN, then.start if then else len(example))
            end, label = self._noun(example.words, e.end, until) or (e.end, e.label)
            dated = end > e.end and e.start > free and bool(re.fullmatch(r"1\d{3}|20\d\d", example.words[e.start - 1]))
            found.append(replace(e, label=label, start=e.start - dated, end=end))
            free = end
        found = [e for e in found if e.label not in self.others and not self._is_noun(example.words, e)]
        return Answer(encode_tags(found, len(example), "bio"), answer.scores, tuple(found))

    def _is_noun(self, words: Sequence[str], e: Entity) -> bool:
        return e.end == e.start + 1 and self._noun(words, e.start, e.end) is not None

    def _noun(self, words: Sequence[str], start: int, stop: int) -> tuple[int, str] | None:
        """Where the noun of a type ends, and that type, if only small words stand before it."""
        for place in range(start, stop):
            if not words[place].isalpha() or words[place] != words[place].lower() or words[place] in CLOSED_WORDS:
                return None
            if (label := self.nouns.get(words[place].removesuffix("s"), self.nouns.get(words[place]))) is not None:
                return place + 1, label
        return None


TITLES_BEFORE = frozenset(word.capitalize() for word in TITLES["English"].split())
"""Words before a person's name that belong to it."""
INSTITUTIONS = frozenset(
    "University Bank Ministry Department Institute College School Society Academy Museum Court House Church Office "
    "Association Federation Council Board Committee Union Bureau Commission League Chamber Centre Center Agency "
    "Foundation Faculty Confederation Alliance".split()
)
"""Nouns whose names go on behind "of" or "for"."""
PARTICLES = (IN_NAMES - {"y", "e", "i"}) | frozenset("bin ibn bint ter ten degli dal dalla af av".split())
"""Words inside of a name, before a capital."""


def join_names(words: Sequence[str], entities: Sequence[Entity], types: Sequence[str]) -> list[Entity]:
    """Join names of persons with the titles before them, institutions with what they are of or for, and the two sides
    of particles and of "&"; no name begins with a contraction.

    [I'm Amit]                       →  I'm [Amit]
    [Councillor] [Amit Rao]          →  [Councillor Amit Rao]
    [University] of [Ibadan]         →  [University of Ibadan]
    [Ulrike] von [Trotha]            →  [Ulrike von Trotha], a person, though Trotha alone is a place
    [Johnson] & [Johnson]            →  [Johnson & Johnson]
    """
    entities = [replace(e, start=start) for e in entities if (start := _behind_contractions(words, e)) < e.end]
    found = list[Entity]()
    organisation = next((label for label in types if "ORGANISATION" in aliases(label)), None)
    for e in entities:
        start, label = e.start, e.label
        before = next((f for f in reversed(found) if not all(map(_joins, words[f.start : f.end]))), None)
        if before and (joined := _across(words, before, e)):
            start, label = before.start, joined
        elif "PERSON" in aliases(label):
            start = _before_titles(words, start)
        elif organisation and (noun := _institution(words, start)) is not None:
            start = next((other.start for other in found if other.start <= noun < other.end), noun)
            label = organisation
        found = [other for other in found if other.end <= start]
        found.append(replace(e, start=start, label=label))
    return found


def _behind_contractions(words: Sequence[str], entity: Entity) -> int:
    """Where an entity begins without "I'm" and the like; its end where it is nothing else."""
    places = range(entity.start, entity.end)
    return next((place for place in places if not CONTRACTION.fullmatch(words[place])), entity.end)


def _across(words: Sequence[str], before: Entity, after: Entity) -> str | None:
    """Return the label of a name that two entities are the sides of, that of a type of somebody's own before that of a
    kind; `None` where they are no such sides."""
    end, start, kinds = before.end, after.start, [aliases(before.label), aliases(after.label)]
    while end > before.start + 1 and _joins(words[end - 1]):
        end -= 1
    while start < after.end - 1 and _joins(words[start]):
        start += 1
    between = words[end:start]
    if not between or not words[start][:1].isupper():
        return None
    if all(word.lower() in PARTICLES for word in between):  # not the person from a firm: Ada von Siemens
        if before.label == after.label or ("PERSON" in kinds[0] and "PLACE" in kinds[1]):
            return before.label
        return next((e.label for e, kind in zip((before, after), kinds, strict=True) if len(kind) == 1), None)
    if tuple(between) != ("&",) or not words[end - 1][:1].isupper() or any("PLACE" in kind for kind in kinds):
        return None
    return after.label if "PERSON" in kinds[1] else before.label  # whoever leaves out persons leaves it out


def _joins(word: str) -> bool:
    return word == "&" or word.lower() in PARTICLES


def _before_titles(words: Sequence[str], start: int) -> int:
    """Where the titles before a word begin: of "Mr and Mrs Boyle" at Mr."""
    is_title = [word.rstrip(".") in TITLES_BEFORE for word in words[: start + 1]]
    while start:
        if is_title[start - 1]:
            start -= 1
        elif start > 1 and is_title[start] and is_title[start - 2] and words[start - 1] in ("and", "&"):
            start -= 2
        else:
            break
    return start


def _institution(words: Sequence[str], start: int) -> int | None:
    """Return the noun of an institution that a name goes on from: of "Bank of the Wye" Bank, where Wye begins."""
    before = start - 1 - (words[start - 1 : start] == ("the",))
    return before - 1 if before > 0 and words[before] in ("of", "for") and words[before - 1] in INSTITUTIONS else None


class WordUnits(Units):
    """A label for every word, such as its part of speech: each is an entity of one word."""

    metric = credit = "accuracy"
    plural = "words"
    has_positions = True
    rules = (("metric", "accuracy of words"),)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(label, n, n + 1) for n, label in enumerate(example.tags or ())]


class WordLabelling(TagLabelling):
    """One label per word, such as parts of speech; scored by accuracy."""

    types = EntityLabelling.types
    units = WordUnits()
    by_label = False

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], options: HeadOptions) -> "WordLabelling":
        """Return the labels of the training set in alphabetical order."""
        assert isinstance(options, TagOptions)
        if options.tag_scheme != TagOptions().tag_scheme:
            raise ValueError(f"{data_name(sentences)}: a label per word, and tag_scheme is for entities; remove it")
        return cls("labels", sorted({tag for s in sentences for tag in s.tags or ()}))

    def gold_labels(self, sentences: Sequence[Sentence]) -> list[str]:
        return [tag for s in sentences for tag in s.tags or ()]

    def unpredictable(self, train: Sequence[Sentence], dev: Sequence[Sentence], max_span: int) -> dict[str, int]:
        known = set(self.gold_labels(train))
        count = sum(label not in known for label in self.gold_labels(dev))
        return {UNSEEN_WORDS: count} if count else {}

    def gold(self, examples: Sequence[Sentence]) -> None:
        """None: nothing is an entity."""

    @staticmethod
    def tags(sentence: Sentence, scheme: Scheme) -> tuple[str, ...]:
        """Unchanged."""
        return sentence.tags or ()

    def judge(self, examples: Sequence[Sentence], answers: Sequence[Answer]) -> tuple[list[float], list[bool]]:
        pairs = [p for s, a in zip(examples, answers, strict=True) for p in zip(s.tags or (), a.tags, strict=True)]
        return [score for a in answers for score in a.scores], [gold == predicted for gold, predicted in pairs]

    def read(self, output: tuple[np.ndarray, np.ndarray], example: Sentence) -> Answer:
        """Every word is an entity."""
        ids, scores = output
        tags, scores = tuple(self.labels[i] for i in ids), tuple(float(s) for s in scores)
        pairs = enumerate(zip(tags, scores, strict=True))
        return Answer(tags, scores, tuple(Entity(tag, i, i + 1, score=score) for i, (tag, score) in pairs))

    def score(
        self, sentences: Sequence[Sentence], answers: Sequence[Answer], signature: dict[str, str]
    ) -> "LabelScore":
        from boustro.metrics.labels import score_labels

        return score_labels([s.tags or () for s in sentences], [a.tags for a in answers], signature)


def _mean(scores: Sequence[float]) -> float:
    """Geometric mean, so that one uncertain word makes the entity uncertain."""
    # one impossible word must not give -inf
    return float(np.exp(np.log(np.maximum(scores, 1e-12)).mean()))
