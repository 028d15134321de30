"""A classifier from the names of its labels, before there is any labelled text.

    classifier = from_labels(Classifier, {"delivery": "", "payment": "", "praise": "thanks or a compliment"}, texts)
    classifier.predict("The parcel came two days late.").label      # "delivery"

The sentence encoder of the package reads what each label is called, or is said to mean, and a `centroid-pool` head
takes the label whose vector is nearest to that of the text. Texts without labels move these vectors. Where a share
`none` of them is to fit no label, it is those whose best score is lowest.

A name such as "card_arrival" or "cardArrival" is read as words. One that says nothing, such as "3" or "class_b", is
never answered, and counted in a note.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float

from boustro.errors import shorten
from boustro.given import as_list, as_text, iterate, refuse_half_characters, refuse_no_texts
from boustro.heads.centroid_pool import TEMPERATURE, CentroidPool
from boustro.heads.registry import head_kind, make_head
from boustro.heads.training import pool_all
from boustro.names import is_shipped
from boustro.options import option_words, part_values
from boustro.output import print_notices
from boustro.tasks.data.texts import is_label, refuse_long, tidy_label
from boustro.tasks.folds import firsts
from boustro.tasks.labellings import readable, says_nothing
from boustro.tasks.labellings.texts import TextLabelling
from boustro.tasks.plan import Examples, make_plan
from boustro.text.languages import language_of_words, sentence_encoder
from boustro.types import Sentence, compose

if TYPE_CHECKING:
    from boustro.tasks.classifier import Classifier

OwnClassifier = TypeVar("OwnClassifier", bound="Classifier")
NEAREST = "centroid-pool"
LEAST_COSINE = 0.05
"""Where there are no texts. No text of CLINC150 and Banking77 is less near to every name, and 7% of AG News are."""
MOST_LABELS = 1000
MOST_TEXTS = 5000
"""Texts that the vectors of labels learn from; more change them little."""
SILENT = "labels whose name says nothing, which are never answered; describe them: {}"
CUT = "labels cut at the colon, behind which stands what the name means: {}"
WITH_COMMA = "labels with a comma in their name, as each value is one label where the option is given again: {}"
DESCRIBED = "NAME: MEANING on a command line, {'NAME': 'MEANING'} in Python"
ANOTHER = re.compile(r",(?=[^\s\d]|[^,:]+:)")
"""A comma in a description behind which another label may begin: no space is between them, or it is described too."""
TOO_FEW = "texts, which are too few to learn from: the names alone decide"
FAR_FROM_ALL = f"{TOO_FEW}, and none={{}} (--none {{}}) leaves out what is near to no name"


def parse_labels(given: Sequence[str], option: str = "labels") -> dict[str, str]:
    """Return the meaning of each label of a command line: `["delivery,praise: thanks, or a compliment"]` →
    `{"delivery": "delivery", "praise": "thanks, or a compliment"}`.

    Of one string, commas before the first colon part names (`part_values`); of several, each is one label. Raises
    `ValueError` where another label may begin behind the colon; `option` is where they are given.
    """
    pairs = [part.partition(":")[::2] for part in given]
    if len(pairs) == 1:
        *names, last = part_values(pairs[0][0])
        text, *others = ANOTHER.split(pairs[0][1])
        if others:
            parts = (*names, f"{last}:{text}", *map(str.strip, others))
            again = f"{shlex.join(option_words({option: parts}))}, in Python {{{last!r}: …, …}}"
            raise ValueError(f"{option} {given[0]!r}: a comma behind a colon parts no labels; give each alone: {again}")
        pairs = [*((name, "") for name in names), (last, text)]
    named = ((compose(name.strip()), text.strip()) for name, text in pairs)
    means = _each_once(named, "; a name ends at its first colon")
    if "" in means:
        raise ValueError(f"{option} {', '.join(map(repr, given))}: one is empty; write such as delivery,payment")
    return means


def told_labels(given: Sequence[str], option: str = "labels") -> dict[str, str]:
    """Return labels as `parse_labels` does, and say on standard error which are doubtful."""
    print_notices(doubtful_names(means := parse_labels(given, option)))
    return means


def doubtful_names(means: Mapping[str, str]) -> dict[str, int]:
    """Say of which labels of a command line one word was cut, which may have been meant as part of the name, and which
    may have been meant as several."""
    cut = [f"{name}: {text}" for name, text in means.items() if text != name and len(text.split()) == 1]
    joined = [name for name in means if re.search(r",\S", name)]
    return {said.format("; ".join(names)): len(names) for said, names in ((CUT, cut), (WITH_COMMA, joined)) if names}


def given_labels(given: Any, option: str = "labels") -> dict[str, str]:
    """Return the meaning of each label given from Python: a dict has them, and other names say what they mean, whatever
    marks they have. A string is read as on a command line. Names that are numbers are `TypedLabel`s.

    Raises `ValueError` for what names no label, for a label that is given twice, and for a description that is no text.
    """
    if isinstance(given, str):
        return parse_labels([given], option)
    described = isinstance(given, Mapping)
    pairs = [*given.items()] if described else [(label, "") for label in iterate(given, "names of labels")]
    for number, (label, text) in enumerate(pairs, start=1):
        if not is_label(label):
            raise ValueError(f"label {number} is {shorten(label)}; expected a name or a number")
        as_text(text, f"the description of the label {shorten(label)}")
    return _each_once((tidy_label(label, f"label {n}", []), text.strip()) for n, (label, text) in enumerate(pairs, 1))


def _each_once(pairs: Iterable[tuple[str, str]], why: str = "") -> dict[str, str]:
    means: dict[str, str] = {}
    for name, text in pairs:
        refuse_half_characters([name, text], "the labels")
        if name in means:
            raise ValueError(f"the label {str(name)!r} is given twice; remove one{why}")
        means[name] = text or str(name)
    return means


def check_labels(means: Mapping[str, str], several: bool) -> None:
    """`ValueError` for too few labels, too many, two that are read alike, and a description of too many words."""
    if len(means) < 2 - several:
        only = f"only the label {next(iter(means))!r}" if means else "no labels"
        least = "one" if several else "two"
        raise ValueError(f"{only}, so there is nothing to choose; give {least} at least, such as delivery,payment")
    if len(means) > MOST_LABELS:
        raise ValueError(f"{len(means):,} labels are more than names can tell apart; give {MOST_LABELS:,} at most")
    read: dict[str, str] = {}
    for name, text in means.items():
        refuse_long(name, text)
        words = readable(text).lower()
        if words in read and not says_nothing(text):
            raise ValueError(f"the labels {read[words]!r} and {name!r} are read alike; describe one: {DESCRIBED}")
        read[words] = name


def spoken(means: Mapping[str, str]) -> dict[str, str]:
    """Return the words that are read for each label, without labels whose name says nothing."""
    return {name: readable(text) or text for name, text in means.items() if not says_nothing(text)}


def start_of_names(
    names: Float[np.ndarray, "C d"], texts: Float[np.ndarray, "S d"], several: bool
) -> tuple[Float[np.ndarray, "C d"], Float[np.ndarray, " C"]]:
    """Scores of a text by the vectors of labels' names, moved by texts without labels: before softmax, or before the
    logistic function where a text may have several labels, as weight and constant of its vector."""
    labels, (count, width) = [*map(str, range(len(names)))], names.shape
    head = make_head(NEAREST, head_kind(NEAREST).options(), [(1, width, None, True)], labels)
    assert isinstance(head, CentroidPool)
    ids = torch.eye(count) if several else torch.arange(count)
    head.solve(torch.from_numpy(names), ids, torch.ones(count, dtype=torch.int64))
    head.adapt(torch.from_numpy(texts))
    weight, constant = head.linear()
    return weight.detach().numpy(), constant.detach().numpy()


def readable_texts(examples: Iterable[Sentence]) -> list[Sentence]:
    """Return those that an encoder of English reads; what it knows of the others is wrong for all."""
    return [example for example in examples if language_of_words(example.words) is None]


def from_labels(
    kind: type[OwnClassifier],
    labels: Iterable[Any] | Mapping[Any, str],
    texts: Iterable[str] = (),
    *,
    several: bool = False,
    none: float | None,
    encoder: str | None = None,
    device: str | None = None,
) -> OwnClassifier:
    """Make a classifier of a class; for the arguments and for errors see `Classifier.from_labels`."""
    from boustro.tasks.fitting.training import fit_head

    means = given_labels(labels)
    given = [texts] if isinstance(texts, str) else as_list(texts, "texts")
    refuse_no_texts(given, "text")
    check_labels(means, several)
    silent = sorted(means.keys() - spoken(means).keys())
    if len(silent) > len(means) - (2 - several):
        raise ValueError(f"the names {', '.join(silent)} say nothing of what they mean; describe them: {DESCRIBED}")
    noticed: dict[str, int] = {}
    if encoder is None:
        encoder, noticed = sentence_encoder(given)
    plan = make_plan(kind, encoder, NEAREST, words=False, device=device)
    made = kind.of(plan)
    told = [(text, getattr(name, "value", name)) for name, text in spoken(means).items()]
    named = made.read([(text, [label] if several else label) for text, label in told])
    fitted = fit_head(plan, Examples(train=named), seed=1)
    head = fitted.head
    assert isinstance(head, CentroidPool)
    asked = [part.example for text in dict.fromkeys(given) for part in made.inputs.split(text, "text")]
    english = is_shipped(plan.reader.spec)
    read = [asked[n] for n in islice(firsts(asked), MOST_TEXTS)]
    read = readable_texts(read) if english else read
    inputs = fitted.inputs(read) if read else None
    notices = dict(fitted.record["notices"]) | ({} if english else noticed)
    notices |= {SILENT.format(", ".join(silent)): len(silent)} if silent else {}
    least = LEAST_COSINE / TEMPERATURE if none else None
    if inputs is not None:
        adapted = head.adapt(pool_all(head, inputs))
        best = np.stack(head.outputs(inputs)).max(1)
        least = (float(np.quantile(best, none)) if adapted else least) if none else None
        notices |= {} if adapted else {FAR_FROM_ALL.format(none, none) if none else TOO_FEW: len(read)}
    notices |= doubtful_names(means) if isinstance(labels, str) else {}
    labelling = fitted.labelling
    assert isinstance(labelling, TextLabelling)
    labelling.english = none != 0 and english
    if type(labelling) is TextLabelling:
        labelling.least = least
    described = {name: text for name, text in means.items() if text != name}
    plan = replace(fitted.plan, config=replace(fitted.plan.config, describe=described or None))
    record = fitted.record | {"notices": notices, "unlabelled": len(read)}
    record.pop("languages", None)  # names are no texts of their language
    made.fitted = replace(fitted, plan=plan, head=head, labelling=labelling, record=record)
    return made
