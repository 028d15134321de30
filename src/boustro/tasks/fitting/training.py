"""Train the head of a task, and record how it went.

    fit(plan, Examples(train=…, dev=…), seed)      →  Fitted
    fit_many(plan, [Examples(train=…), …], seeds)  →  a Fitted for each, many times as fast for small heads

Nothing that is given changes. What a task adds is asked of `plan.task`, see `tasks.base`, and of `plan.companions`.

    stage 1   gold + weak examples, the loss of a weak one times `weight`     only where there are weak ones
    stage 2   gold, from the weights of stage 1                               always; it chooses the epoch

How much the silver labels are worth is not known, so `weight` is the one with the best score on parts of the gold
examples that were left out, 0 (no stage 1) among those tried. A weak example with the text of a gold one that is left
out is left out with it: else the part would show how well the silver labels were learned by heart.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np

from boustro.encoders.cache import tell_cost
from boustro.encoders.reading import group_sentences
from boustro.encoders.spec import Spec
from boustro.features.reader import Reader
from boustro.heads.base import Head
from boustro.heads.factored import aliases
from boustro.heads.inputs import HeadInputs, Kinship, NamedLabels
from boustro.heads.options import FEW_EXAMPLES, HeadOptions
from boustro.heads.registry import head_class, make_head
from boustro.heads.solve import HeadRun, Solved, TrainingJob, train_heads, train_many
from boustro.heads.training import Dev, TrainLog, predict_inputs
from boustro.names import SHIPPED_SENTENCES, is_shipped
from boustro.tasks.data import data_name
from boustro.tasks.data.reading import data_fingerprint
from boustro.tasks.folds import TooFew, firsts, kin, num_different, unlearned
from boustro.tasks.labellings import Labelling, make_labelling
from boustro.tasks.plan import DevSet, Examples, Fitted, Plan, Then, TrainingFeatures, TrainingSet, head_facts
from boustro.text.languages import ForeignTexts

SHARED = "weak examples with the text of a training example, not learned from where that one is left out"
LEARNED = "dev examples with a text of the training set, which scores count, but no threshold, weight or promise does"
COPIES = "copies of dev examples, which scores count, but no threshold, weight or promise does"
ALONE = "training sentences without a document, whose mentions are not pooled"
NOT_LEARNED = "training examples, of which no part can be left out, so --{} has no effect"
NO_SUCH_LABEL = "descriptions of labels that no text has: {}"
BY_NAME = "labels without an example, known by their names alone: {}"
NEVER_ANSWERED = "labels without an example, which this head never answers: {}"
FROM_TEXTS = "texts without a label, which say what texts are like"
UNREAD = "sentences without labels, not read, because no labelled sentence is read with them"


def fit_head(plan: Plan[Any], given: Examples, seed: int, then: Sequence[Then] = ()) -> Fitted:
    """Return a head that learned from examples, see `Task.fit`; what is asked of it `then` is in its record."""
    plan = _settled(plan, given)
    Spec.parse(plan.reader.spec).refuse_unread(plan.reader.reading)
    if given.weak:
        _refuse_weak(plan)
    if given.weak and given.weight == 0:
        return _fit_without(plan, given, seed, {}, then)
    started = time.monotonic()
    begun, data = begin_training(plan, given, seed)
    fitted, plan, labelling = begun.fitted, begun.fitted.plan, begun.fitted.labelling
    dev_inputs = plan.reader.read(given.dev, cached=True, side=labelling.side(given.dev)) if given.dev else None
    if dev_inputs:
        data = replace(
            data, dev=Dev(dev_inputs, lambda outputs: fitted.score(given.dev, fitted.answers(outputs, given.dev)).value)
        )
    learning = time.monotonic()
    begun = replace(begun, encode_seconds=learning - started)
    weight, tried = (given.weight or 0.0), {}
    if given.weak and given.weight is None:
        weight, tried = choose_weight(fitted, data)
        if not weight:
            choosing = time.monotonic() - learning
            without = _fit_without(plan, given, seed, tried, then)
            seconds = round(without.record["train_seconds"] + choosing, 2)
            return replace(without, record=without.record | {"train_seconds": seconds})
    data = replace(data, weight=weight)
    head, log = train_stages(fitted, data)
    trained, facts = replace(fitted, head=head), {"calibration": None}
    held = None
    if dev_inputs:
        known = ~unlearned(data.examples, given.dev)
        copies = np.ones(len(given.dev), bool)
        copies[[*firsts(given.dev)]] = False
        held = DevSet(given.dev, dev_inputs, ~known & ~copies)
        counts = {LEARNED: int(known.sum()), COPIES: int((copies & ~known).sum())}
        begun = replace(begun, notices={**begun.notices, **{what: count for what, count in counts.items() if count}})
    trained, learned, unlearned_by = train_companions(trained, data, held)
    facts, begun = facts | learned, replace(begun, notices={**begun.notices, **unlearned_by})
    scores, errors = scores_of(trained, held) if held else (None, {})
    train_seconds = time.monotonic() - learning
    asked = {name: value for ask in then for name, value in ask(trained, data, train_seconds).items()}
    extra = {"dev_scores": scores, "dev_calibration": errors, **facts, **asked}
    weak = weak_facts(given.weak, weight, tried) if given.weak else {}
    return replace(trained, record=_record(begun, trained.head, log, train_seconds, weak, extra))


def train_companions(
    fitted: Fitted, data: TrainingSet, held: DevSet | None
) -> tuple[Fitted, dict[str, Any], dict[str, int]]:
    """Return a model with what stands beside its head, facts for its record, and notices of what too few examples
    taught nothing."""
    facts, notices = {}, {}
    for other in fitted.plan.companions:
        try:
            fitted, extra = other.train(fitted, data, held)
            facts |= extra
        except TooFew:
            notices[NOT_LEARNED.format(other.name)] = len(data.gold)
    return fitted, facts, notices


def fit_many(
    plan: Plan[Any], given: Sequence[Examples], seeds: Sequence[int], options: Sequence[HeadOptions] | None = None
) -> list[Fitted]:
    """Train from each set of examples, as `fit`, of training examples alone; heads that can take their steps together
    do (`heads.solve`).

    `options` are those of each head, which teach the same labels as the plan's. Heads that are trained together are
    trained in float32, also where `fit` has products in bf16.
    """
    plans = [plan] * len(seeds) if options is None else [replace(plan, head_options=chosen) for chosen in options]
    asked = [(_settled(p, split), split, seed) for p, split, seed in zip(plans, given, seeds, strict=True)]
    if any(other.learns_left_out for settled, _, _ in asked for other in settled.companions) or any(
        split.dev or split.weak for split in given
    ):
        return [fit_head(*each) for each in asked]
    Spec.parse(plan.reader.spec).refuse_unread(plan.reader.reading)
    kept: list[BegunTraining] = []

    def jobs() -> Iterator[TrainingJob]:
        latest: tuple[Any, ...] = (None, None, None)
        for settled, examples, seed in asked:
            if latest[0] is not examples:
                latest = examples, *begin_training(settled, examples, seed)
            _, begun, data = latest
            fitted = replace(begun.fitted, plan=replace(begun.fitted.plan, head_options=settled.head_options))
            kept.append(replace(begun, fitted=fitted, seed=seed))
            targets, shape = fitted.labelling.targets(data.examples), fitted.head.shape
            head_options = settled.head_options.for_data(fitted.head.options.longest)
            yield TrainingJob(shape, data.inputs, targets, _run(plan, data, head_options, None, seed=seed))

    started = time.monotonic()
    solved = train_many(jobs(), plan.device, bf16=False)
    seconds = (time.monotonic() - started) / max(1, len(asked))
    scores = {"dev_scores": None, "dev_calibration": {}, "calibration": None}
    return [
        replace(start.fitted, head=head, record=_record(start, head, log, seconds, {}, scores))
        for start, (head, log) in zip(kept, solved, strict=True)
    ]


def _settled(plan: Plan[Any], given: Examples) -> Plan[Any]:
    """Return the plan with what its options leave to the examples."""
    return plan.config.settled(plan, given.labelled, bool(given.weak))


def with_head(begun: Fitted, plan: Plan[Any], data: TrainingSet) -> Fitted:
    """Replace the head by an untrained one of another plan that reads the same examples."""
    labelling = _learn_labels(plan, data.examples)
    plan = replace(begun.plan, head_kind=plan.head_kind, head_options=plan.head_options)
    return Fitted(plan, labelling, new_head(plan, labelling, data.examples, data.inputs.side_width))


@dataclass(frozen=True)
class BegunTraining:
    """State of a training before the head is trained."""

    given: Examples
    fitted: Fitted
    seed: int
    encode_seconds: float
    notices: Mapping[str, int]


def begin_training(plan: Plan[Any], given: Examples, seed: int) -> tuple[BegunTraining, TrainingSet]:
    """Return the plan as its training data want it, their features, what they teach, and an untrained head."""
    started = time.monotonic()
    plan = replace(plan, reader=plan.reader.of_weights(None))
    train = given.labelled
    plan = plan.suited_to(train)
    if plan.reader.cache:
        sets = [*given.train, *given.weak], given.dev or ()
        tell_cost(plan.reader.encoder(cached=True), [plan.reader.sentences(some)[0] for some in sets])
    labelling = _learn_labels(plan, [*train, *given.weak])
    plan, data, notices = _read_training(plan, labelling, given, train, seed)
    fitted = Fitted(plan, labelling, new_head(plan, labelling, train, data.inputs.side_width))
    return BegunTraining(given, fitted, seed, time.monotonic() - started, notices), data


def _learn_labels(plan: Plan[Any], examples: Sequence[Any]) -> Labelling:
    """Return the labelling of examples, and of the labels that the options name."""
    types = getattr(plan.config, "types", ())
    return make_labelling(plan.head_kind, examples, plan.head_options, types).for_config(plan.config)


def _record(
    begun: BegunTraining,
    head: Head,
    log: TrainLog,
    train_seconds: float,
    weak: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Make the record of a training; `extra` are its scores and what else was found."""
    given, train, plan, labelling = begun.given, begun.given.labelled, begun.fitted.plan, begun.fitted.labelling
    encoder = plan.reader.encoder(cached=True)
    return {
        "seed": begun.seed,
        "train": describe(given.train) | ({"labelled": len(train)} if len(given.train) > len(train) else {}),
        "dev": describe(given.dev) if given.dev else None,
        **weak,
        **learned_languages(plan, train),
        "encode_seconds": round(begun.encode_seconds, 2),
        "train_seconds": round(train_seconds, 2),
        **extra,
        "notices": dict(begun.notices)
        | _shared(train, given.weak)
        | dict(+encoder.counts)
        | labelling.unpredictable([*train, *given.weak], given.dev, head.options.longest),
        **head_facts(encoder, head, log),
    }


def learned_languages(plan: Plan[Any], examples: Sequence[Any]) -> dict[str, list[str]]:
    """Return the languages that a model of the package has learned, of which no note warns any more."""
    seen = ForeignTexts()
    if is_shipped(plan.reader.spec):
        seen.add(plan.running_texts(examples))
    return {"languages": seen.languages} if seen.languages else {}


def _read_training(
    plan: Plan[Any], labelling: Labelling, given: Examples, train: list[Any], seed: int
) -> tuple[Plan[Any], TrainingSet, dict[str, int]]:
    """Return the features of what is learned from, the plan with the reader of what is answered later, and notices."""
    read, unread = list(given.train), []
    if len(given.train) > len(train):  # what no labelled sentence is read with is not encoded
        read = []
        for group in group_sentences(given.train, plan.config.context):
            (read if any(example.is_labelled for example in group) else unread).extend(group)
    encoded = [*read, *given.weak]
    read_so = (other.read(plan, labelling, encoded, unread, seed) for other in plan.companions)
    taught = next(filter(None, read_so), None) or read_plainly(plan, labelling, encoded)
    labelled = np.flatnonzero([example.is_labelled for example in encoded])

    def keep(inputs: HeadInputs) -> HeadInputs:
        return inputs.keep(labelled) if len(read) > len(train) else inputs

    without = taught.without
    again = without and (lambda left: keep(without(labelled[left])))
    whole = cache(partial(kin, train))

    def alike(some: np.ndarray | None = None) -> Kinship:
        if some is None or len(some) == len(train):
            return whole()
        return kin([train[n] for n in some])

    named, unnamed = read_names(taught.reader, plan, labelling, train, unread)
    data = TrainingSet(
        gold=train, inputs=keep(taught.inputs), kin=alike, seed=seed, weak=given.weak, named=named, reread=again
    )
    skipped = unread and taught.reader is plan.reader and not (named and named.unlabelled)  # a memory has read them
    alone = plan.reader.widening.mentions and sum(not part.document for e in (*train, *given.weak) for part in e.parts)
    notices = {UNREAD: len(unread) if skipped else 0, ALONE: alone, **taught.notices, **unnamed}
    notices = {what: count for what, count in notices.items() if count}
    return replace(plan, reader=taught.reader), data, notices


def read_names(
    reader: Reader, plan: Plan[Any], labelling: Labelling, train: Sequence[Any], unlabelled: Sequence[Any]
) -> tuple[NamedLabels | None, dict[str, int]]:
    """Return the names or descriptions of labels as a head `takes_names`, of those that say something, with texts that
    have no label; and notices.

    `None` where no vector of a text is read. Raises `ValueError` for descriptions that nothing reads, and for those of
    other labels alone.
    """
    means: Mapping[str, str] = getattr(plan.config, "describe", None) or {}
    seen = {*labelling.gold_labels(train)} if (types := getattr(plan.config, "types", ())) else set()
    kinds = {kind for stream in reader.encoder(cached=True).streams for kind, _ in stream.tells}
    known = kinds if head_class(plan.head_kind).knows_kinds else set[str]()
    unseen = [str(label) for label in types if label not in seen and known.isdisjoint(aliases(label))]
    if not head_class(plan.head_kind).takes_names or not any(s.whole for s in reader.encoder(cached=True).streams):
        if means:
            raise ValueError(
                f"describe is read by an lda-pool head over the vector of a text, and not by {plan.head_kind} over "
                f"{reader.spec}; give --encoder {SHIPPED_SENTENCES} --head lda-pool"
            )
        return None, {NEVER_ANSWERED.format(", ".join(unseen)): len(unseen)}
    others = sorted(means.keys() - {*labelling.labels})
    if means and len(others) == len(means):
        known = ", ".join(labelling.labels[:5])
        raise ValueError(f"no text has a label that is described: {', '.join(others[:5])}; the labels are {known}")
    from boustro.tasks.label_names import MOST_TEXTS, readable_texts, spoken

    said = spoken({label: means.get(label, label) for label in labelling.labels})
    numbers = [n for n, label in enumerate(labelling.labels) if label in said]
    examples = [part.example for text in said.values() for part in plan.task.inputs.split(text, "label")]
    notices = {NO_SUCH_LABEL.format(", ".join(others)): len(others), BY_NAME.format(", ".join(unseen)): len(unseen)}
    if not numbers:
        return None, notices
    texts = [unlabelled[n] for n in islice(firsts(unlabelled), MOST_TEXTS)]
    texts = readable_texts(texts) if is_shipped(reader.spec) else texts
    read = reader.read(texts, cached=True) if texts else None
    notices |= {FROM_TEXTS: len(texts)}
    return NamedLabels(reader.read(examples, cached=True), np.array(numbers), read), notices


def _fit_without(
    plan: Plan[Any], given: Examples, seed: int, tried: Mapping[str, float], then: Sequence[Then]
) -> Fitted:
    """Weak examples that count nothing teach no label and no word either: the fit is as if there were none."""
    fitted = fit_head(plan, replace(given, weak=(), weight=None), seed, then)
    return replace(fitted, record=fitted.record | weak_facts(given.weak, 0.0, tried))


def weak_facts(weak: Sequence[Any], weight: float, tried: Mapping[str, float]) -> dict[str, Any]:
    """Return the part of a record about weak examples."""
    return {"weak": describe(weak) | {"weight": weight, "tried": tried}}


def _shared(train: Sequence[Any], weak: Sequence[Any]) -> dict[str, int]:
    known = {letters_of(example) for example in train} if weak else set()
    count = sum(letters_of(example) in known for example in weak)
    return {SHARED: count} if count else {}


def _refuse_weak(plan: Plan[Any]) -> None:
    """`ValueError` for what cannot learn in two stages."""
    if head_class(plan.head_kind).closed_form:
        raise ValueError(f"a {plan.head_kind} head is trained at once, and not first on weak labels; use another head")
    for other in plan.companions:
        if not other.takes_weak:
            raise ValueError(
                f"weak labels are not for --{other.name}, whose part would take them for gold; remove one of them"
            )


def new_head(plan: Plan[Any], labelling: Labelling, train: Sequence[Any], side: int = 0) -> Head:
    """Return a head of the plan's kind, untrained, for what these examples teach and the vectors of the reader."""
    return make_head(
        plan.head_kind,
        plan.head_options.for_data(labelling.longest(train)),
        streams=[stream.shape for stream in plan.reader.encoder(cached=True).streams],
        labels=labelling.labels,
        side=side,
    )


def read_plainly(plan: Plan[Any], labelling: Labelling, examples: Sequence[Any]) -> TrainingFeatures:
    """Return the features of training examples, read as those are that are answered later."""
    return TrainingFeatures(plan.reader, plan.reader.read(examples, cached=True, side=labelling.side(examples)))


def scores_of(fitted: Fitted, held: DevSet) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the scores of a model on the development set, and how calibrated its answers there are."""
    from boustro.tasks.calibrate import calibration

    answers = fitted.answers(held.ask(fitted.head), held.examples)
    again = lambda: fitted.answers(held.ask(fitted.head, again=True), held.examples)  # noqa: E731
    return fitted.score(held.examples, answers).to_dict(), calibration(fitted, held.examples, answers, again)


def describe(examples: Sequence[Any]) -> dict[str, Any]:
    """Return the part of a record about a data set."""
    return {"name": data_name(examples), "sentences": len(examples), "fingerprint": data_fingerprint(examples)}


WEAK_WEIGHTS = (0.0, 0.1, 0.3, 1.0)  # 0 is tried too: silver labels may do harm
WEAK_FOLDS = 3  # each fold trains a head for each weight


def train_stages(
    like: Fitted, data: TrainingSet, numbers: np.ndarray | None = None, weak: np.ndarray | None = None
) -> Solved:
    """Return a head like that of a model, trained on the examples with these numbers, by default all but the weak ones.

    It learns from weak ones (all, or those with the numbers `weak`) first, where their weight is above 0.
    """
    plan, head = like.plan, like.head
    targets = like.labelling.targets(data.examples)

    def train(chosen: np.ndarray, **how: Any) -> Solved:
        run = _run(plan, data, head.options, chosen, **how)
        return train_heads(head.shape, data.inputs, targets, [run], plan.device)[0]

    numbers = data.numbers if numbers is None else numbers
    silver = data.weak_numbers if weak is None else weak
    if data.weight and len(silver):
        places = np.split(np.arange(len(numbers) + len(silver)), [len(numbers)])
        groups = list(zip(places, (1.0, data.weight), strict=True))
        first = train(np.concatenate([numbers, silver]), groups=groups)
        return train(numbers, dev=data.dev, head=first.head)
    return train(numbers, dev=data.dev)


def _run(plan: Plan[Any], data: TrainingSet, options: HeadOptions, chosen: np.ndarray | None, **how: Any) -> HeadRun:
    """Return a head that learns the examples with these numbers, by default all gold ones."""
    examples = data.gold if chosen is None else [data.examples[n] for n in chosen]
    how = {"seed": data.seed, "kin": partial(data.kin, chosen), "named": data.named} | how
    different = num_different(examples, FEW_EXAMPLES)
    return HeadRun(options, examples=chosen, different=different, **how)


def train_on_part(fitted: Fitted, data: TrainingSet, kept: np.ndarray) -> Fitted:
    """Return a model like the fitted one, trained on the gold examples with the numbers `kept`, and on weak ones.

    Weak examples with the text of a gold one that is not kept are left out.
    """
    hidden = {letters_of(data.gold[n]) for n in np.setdiff1d(np.arange(len(data.gold)), kept)}
    weak = np.array([n for n in data.weak_numbers if letters_of(data.examples[n]) not in hidden], np.int64)
    like = _like(fitted, [data.examples[n] for n in (*kept, *weak)])
    return replace(like, head=train_stages(like, data, kept, weak).head)


def train_on_parts(fitted: Fitted, chosen: Sequence[tuple[TrainingSet, np.ndarray]]) -> list[Fitted]:
    """Train on each of several parts, with heads that take their steps together where they may (`heads.solve`)."""
    if any(data.weight and len(data.weak_numbers) for data, _ in chosen):
        return [train_on_part(fitted, data, kept) for data, kept in chosen]
    parts = [_like(fitted, [data.gold[n] for n in kept]) for data, kept in chosen]
    jobs = (
        TrainingJob(
            part.head.shape,
            data.inputs,
            part.labelling.targets(data.examples),
            _run(fitted.plan, data, part.head.options, kept, dev=data.dev),
        )
        for part, (data, kept) in zip(parts, chosen, strict=True)
    )
    solved = train_many(jobs, fitted.plan.device)
    return [replace(part, head=own.head) for part, own in zip(parts, solved, strict=True)]


def _like(fitted: Fitted, examples: Sequence[Any]) -> Fitted:
    """Make an untrained model with the labels of the fitted one, and the statistics of these examples alone: weights of
    labels, the longest span, the mean and the deviation of numbers."""
    labelling = fitted.labelling.of_part(examples)
    options = fitted.plan.head_options.for_data(labelling.longest(examples))
    head = fitted.head if options == fitted.head.options else fitted.head.shape.make(options)
    return replace(fitted, labelling=labelling, head=head)


def letters_of(example: Any) -> tuple[str, ...]:
    """Return the letters of a text, which examples with the same text share, however it is split into words."""
    return tuple("".join(part.words) for part in example.parts)


def choose_weight(fitted: Fitted, data: TrainingSet) -> tuple[float, Mapping[str, float]]:
    """Return the weight of weak examples, and the score of each that was tried; among equals the smallest.

    `fitted` has an untrained head. Raises `ValueError` for fewer than two gold examples.
    """
    parts, scores = list(data.parts(WEAK_FOLDS)), {}
    for weight in WEAK_WEIGHTS:
        asked, answers = list[Any](), list[Any]()
        for kept, left in parts:
            part = replace(data.learning(kept), weight=weight, dev=None)
            trained = train_on_part(fitted, part, kept)
            asked += [data.gold[number] for number in left]
            outputs = predict_inputs(trained.head, part.inputs.select(left))
            answers += map(trained.labelling.read, outputs, asked[-len(left) :])
        scores[weight] = round(fitted.score(asked, answers).value, 3)
    return max(scores, key=lambda weight: (scores[weight], -weight)), {f"{w:g}": s for w, s in scores.items()}
