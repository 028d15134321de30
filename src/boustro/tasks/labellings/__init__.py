"""The ways of labelling examples, by what a head learns:

    tags     a tag or a label for every word    TagLabelling, WordLabelling
    spans    entities, which may be nested      SpanLabelling
    class    one label per text, or several     TextLabelling, LabelSetLabelling; with marked places MarkedLabelling
    pair     one label per pair of texts        PairLabelling
    score    a number per text                  ScoreLabelling; per pair ("pair-score") PairScoreLabelling
    answers  the words that answer a question   QuestionLabelling
    relation one label per pair of places       RelationLabelling
    vectors  a vector of a text                 VectorLabelling; of pairs ("pair-vectors") PairVectorLabelling
    senses   the sense of a word                SenseLabelling

Every answer has entities over words, so that whatever counts, compares or shows entities serves all of them: the label
of a word or of a text is an entity that covers it.
"""

import re
from collections.abc import Sequence
from typing import Any

from boustro.choose import choose, named
from boustro.given import refuse_no_texts
from boustro.heads.options import HeadOptions
from boustro.heads.registry import head_kind
from boustro.tasks.data import data_name
from boustro.tasks.labellings.base import Labelling
from boustro.text.words import EXTENDERS, LOWER, UPPER
from boustro.types import compose

LEARNED = {
    "tags": "tagger.tags:TagLabelling",
    "spans": "tagger.entities:SpanLabelling",
    "class": "labellings.texts:TextLabelling",
    "pair": "pairs:PairLabelling",
    "score": "labellings.scores:ScoreLabelling",
    "pair-score": "pairs:PairScoreLabelling",
    "answers": "questions.labelling:QuestionLabelling",
    "relation": "relation:RelationLabelling",
    "senses": "sense.labelling:SenseLabelling",
    "vectors": "embed.labelling:VectorLabelling",
    "pair-vectors": "embed.labelling:PairVectorLabelling",
}
"""By what a head learns (`heads.registry.HeadKind.labelling`): module:name in `tasks`, imported when it is used."""
SAVED = {
    **LEARNED,
    **dict.fromkeys(("bio", "io", "bioes"), "tagger.tags:TagLabelling"),
    "names": "tagger.tags:NameLabelling",
    "named": "tagger.tags:NamedTypes",
    "labels": "tagger.tags:WordLabelling",
    "label-set": "labellings.texts:LabelSetLabelling",
    "marked": "labellings.texts:MarkedLabelling",
}
"""By the scheme that a folder names."""

VAGUE = frozenset("category class group kind label misc no none number other rest tag topic type unknown".split())
"""Words that say nothing of a topic."""
SPOKEN = "+#%&@<>=$€£¥"
"""Marks that make another name of one: C++, C#, <18, R&D."""


def labelling_class(learned: str, examples: Sequence[Any] = ()) -> type[Labelling]:
    """Return the labelling of heads that learn this, a key of `LEARNED`, from these examples."""
    return named(f"boustro.tasks.{LEARNED[learned]}").suiting(examples)


def make_labelling(kind: str, examples: Sequence[Any], options: HeadOptions, types: Sequence[str] = ()) -> Labelling:
    """Return the labelling that a kind of head learns from the training data and from the `types` that options name;
    `ValueError` for data that do not suit it."""
    learned = labelling_class(head_kind(kind).labelling, examples)
    examples = [*examples, *learned.named(types)]
    learned.check(examples)
    labelling = learned.learn(examples, options)
    labelling.values = values_of(examples)
    return labelling


def open_labelling(scheme: Any, labels: Sequence[str], **own: Any) -> Labelling:
    """Return a saved labelling; `own` is what else its `to_dict` has. `ValueError` for an unknown scheme."""
    name = choose(scheme if isinstance(scheme, str) else repr(scheme), SAVED, "labelling")
    refuse_no_texts(labels, "label")
    values = own.pop("values", ())
    if values:  # folders of earlier versions have labels such as "1.0", under which no whole number is read any more
        given = zip(labels, values, strict=True)
        labels = [str(int(v)) if isinstance(v, float) and v.is_integer() else label for label, v in given]
    labelling = named(f"boustro.tasks.{name}")(scheme, labels, **own)
    labelling.values = dict(zip(labels, values, strict=bool(values)))
    return labelling


def values_of(examples: Sequence[Any]) -> dict[str, Any]:
    """Return the labels as they were given, by their names; none where each is its name.

    Raises `ValueError`, with two of them, where some are texts, numbers or booleans and others are not.
    """
    given = {
        (str(label), getattr(label, "value", str(label)))
        for example in examples
        for label in (getattr(example, "label", None), *(getattr(example, "labels", None) or ()))
        if label is not None
    }
    kinds = {float if type(value) is int else type(value): value for _, value in given}
    equal = {value: [raw for _, raw in given if raw == value] for _, value in given}
    for both in (list(kinds.values()), *equal.values()):
        if len(both) > 1:
            shown = " and ".join(f"{value!r} ({type(value).__name__})" for value in both[:2])
            what = f"labels of several types, {shown}; write all as text, or all as numbers"
            raise ValueError(f"{data_name(examples)}: {what}")
    values = dict(sorted(given, key=lambda pair: pair[0] == pair[1]))  # of a label in two forms its name
    return {} if all(name == value for name, value in values.items()) else values


def readable(name: str) -> str:
    """Return the words of a name: "card_arrival", "cardArrival" and "card-arrival" are "card arrival", and "C++" is
    "C++"."""
    parted = re.sub(rf"(?<=[{LOWER}])(?=[{UPPER}])|(?<=[^\W\d_])(?=\d)|_", " ", compose(name))
    return " ".join(re.findall(rf"[\w{SPOKEN}][\w{SPOKEN}{EXTENDERS}]*", parted))


def says_nothing(text: str) -> bool:
    """Return whether no word of a name has a meaning: all are numbers, marks, single letters of an alphabet, or
    `VAGUE`."""
    words = [word for word in readable(text).lower().split() if word.strip(SPOKEN)]
    return all(word.strip(SPOKEN).isdigit() or (len(word) == 1 and word.isascii()) or word in VAGUE for word in words)
