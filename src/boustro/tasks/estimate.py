"""How good a model is without a development set, and whether more labels would help: cross-validation.

    parts      every example is answered by a head that learned the others of the training set, in five parts
    head       of few examples each part is answered by the kind of head that answers the other parts best
    score      of all these answers, with its 95% interval over documents or texts
    curve      the same after a quarter and after half of what such a head learned from
    gain       the score with all minus that with half, with the interval of the paired differences
    rise       the same with a quarter: the advice looks at all points of the curve

It follows a training: what the encoder has read is read once, and heads train in seconds. Where all of it would take
longer than it may, one fifth is left out once; where that would too, there is no estimate. A head that learned four
fifths is a little worse than the one that is kept, which learned all. The kind of head that is kept is chosen by all
parts (`choose_head`), so its own answers there would be too good. Beside the score of labels of texts stands that of
TF-IDF on the same parts.

Sources: Stone 1974 (cross-validation); `metrics.significance` (intervals).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from boustro.heads.inputs import Kinship
from boustro.heads.options import FEW_EXAMPLES
from boustro.heads.registry import head_class
from boustro.heads.training import pool_all, predict_inputs
from boustro.heads.words import fit_words
from boustro.metrics.significance import Drawn, bootstrap, difference, interval, interval_text, signed
from boustro.tasks.answers import Answer
from boustro.tasks.fitting import begin, fit, train_companions, train_on_parts, with_head
from boustro.tasks.folds import drawn_together, num_different
from boustro.tasks.labellings.texts import TextLabelling
from boustro.tasks.plan import Examples, Fitted, Plan, TrainingSet
from boustro.types import Sentence

KEY, CHOICE, BY_NAMES = "cross_validation", "head_choice", "types_by_name"
"""Keys in the record of a model: the estimate, how the kind of head was chosen, and what the names of types score."""
CHOICE_SECONDS = 120.0
"""Seconds that a further kind of head may take to be tried."""
LEAST_LABELS, WELL = 50, 50.0
"""Labels in all, such as entities, below which no head is tried that is trained by steps where one that is solved at
once has such a score: it takes half of a `fit`, and is worse then (docs/log.md)."""
PARTS, SHARES = (5, 1), (0.25, 0.5, 1.0)
FEWEST, ROUGH = 10, 30
"""Different examples, below which nothing is said, and documents or different texts, below which an interval is a rough
one."""
TOO_LONG = "it would take about {:.0f} seconds, and may take {:.0f}; give it more with --cross-validate"
ONE_PART = (
    "one of five parts was left out, once: all five would take about {:.0f} seconds; give it more with --cross-validate"
)
LITTLE = 2.0
"""Points that are hardly worth the labels."""


def answers_left_out(
    fitted: Fitted, data: TrainingSet, parts: Sequence[tuple[np.ndarray, np.ndarray]], share: float = 1.0
) -> dict[int, Answer]:
    """The answer for each example of the parts left out, by a head that learned a share of what was kept.

    `parts` are (kept, left out) numbers of `data.gold`.
    """
    answers = {}
    together = len(parts) if len(data.gold) < FEW_EXAMPLES else 1
    for first in range(0, len(parts), together):
        chosen, learned = parts[first : first + together], []
        for number, (kept, _) in enumerate(chosen, start=first):
            order = _in_groups(data.kin().groups, kept, (data.seed, number))  # the first ones are in every share
            some = np.sort(order[: max(1, round(share * len(kept)))])
            learned.append((replace(data.learning(some), dev=None), some))
        trained = train_on_parts(fitted, learned)
        for (_, left), (rest, some), part in zip(chosen, learned, trained, strict=True):
            outside = rest.inputs.select(left)
            if any(other.learns_left_out for other in fitted.plan.companions):
                part, _, _ = train_companions(part, _within(rest, some), None)
            examples = [data.gold[n] for n in left]
            outputs = predict_inputs(part.head, outside)
            answers |= zip(left.tolist(), part.answers(outputs, examples), strict=True)
    return answers


def _in_groups(groups: np.ndarray, numbers: np.ndarray, seed: tuple[int, int]) -> np.ndarray:
    """Numbers of examples, group after group in a random order."""
    some = np.random.default_rng(seed).permutation(np.unique(groups[numbers]))
    place = np.zeros(len(groups), np.int64)
    place[some] = np.arange(len(some))
    return numbers[np.argsort(place[groups[numbers]], kind="stable")]


def _within(data: TrainingSet, some: np.ndarray) -> TrainingSet:
    """Some of the gold examples alone."""
    reread, others = data.reread, np.setdiff1d(data.numbers, some)
    further = reread and (lambda inner: reread(np.concatenate([others, some[inner]])).keep(some))
    gold, whole = [data.gold[n] for n in some], cache(partial(data.kin, some))

    def alike(inner: np.ndarray | None = None) -> Kinship:
        return whole() if inner is None else data.kin(some[inner])

    return replace(data, gold=gold, inputs=data.inputs.keep(some), kin=alike, weak=(), reread=further)


def estimate(
    fitted: Fitted, data: TrainingSet, trained: float, seconds: float, heads: Sequence[Plan[Any]] = ()
) -> dict[str, Any]:
    """Estimate a model's score by cross-validation, for its record; see the module.

    Args:
        trained: The seconds that the training of its head took.
        seconds: How long this may take.
        heads: By which plan each example is answered, see `HeadChoice`; by default that of the model.
    """
    needed = {parts: trained * parts * 0.8 * sum(SHARES) for parts in PARTS}
    chosen = next((parts for parts in PARTS if needed[parts] <= seconds), None)
    cut = {"cut": round(needed[PARTS[0]])} if chosen != PARTS[0] else {}
    if (different := num_different(data.gold, fitted.plan.task.parts, FEWEST)) < FEWEST:
        return {KEY: {"why_not": f"it needs {FEWEST} different examples, and has {different}"}}
    if chosen is None:
        return {KEY: {"why_not": TOO_LONG.format(needed[1], seconds)}}
    try:
        return {KEY: _judged(fitted, data, heads, chosen) | cut}
    except ValueError as why:
        return {KEY: {"why_not": str(why)}}


def _judged(fitted: Fitted, data: TrainingSet, heads: Sequence[Plan[Any]], chosen: int) -> dict[str, Any]:
    """The facts of an estimate by so many parts; `ValueError` where one of them cannot be learned or judged."""
    parts = list(data.parts(chosen))
    tested = [data.gold[n] for n in sorted(n for _, left in parts for n in left.tolist())]
    groups = drawn_together(tested, fitted.plan.task.shared)
    kinds = {plan.head_kind: with_head(fitted, plan, data) for plan in heads}
    answering = [kinds[heads[left[0]].head_kind] if heads else fitted for _, left in parts]
    drawn, sizes = [], []
    for share in SHARES:
        answers: dict[int, Answer] = {}
        for own in {id(own): own for own in answering}.values():
            some = [part for part, other in zip(parts, answering, strict=True) if other is own]
            answers |= answers_left_out(own, data, some, share)
        units = fitted.labelling.units
        values = units.values(tested, [answers[n] for n in sorted(answers)])
        if not np.isfinite(values).all():
            raise ValueError("these examples have nothing that an answer can be compared with")
        drawn += bootstrap(units.statistic, [values[None]], groups=groups)
        sizes.append(round(share * float(np.mean([len(kept) for kept, _ in parts]))))
    facts = _facts(fitted, drawn, sizes)
    facts |= {"examples": len(tested), "parts": len(parts), "groups": int(groups.max()) + 1}
    return facts | {"divided": data.kin().divided, **_by_words(fitted, data, parts)}


def _by_words(fitted: Fitted, data: TrainingSet, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """The scores of TF-IDF and logistic regression on the same parts, and of the names of labels alone, where a whole
    text has labels."""
    labelling, units = copy(fitted.labelling), fitted.labelling.units
    if not isinstance(labelling, TextLabelling) or not all(isinstance(text, Sentence) for text in data.gold):
        return {}
    labelling.least = None  # it is of the head's scores
    tested = sorted(n for _, left in parts for n in left.tolist())
    gold, read = [data.gold[n] for n in tested], {}
    for kept, left in parts:
        ids, texts = labelling.ids([data.gold[n] for n in kept]), [data.gold[n].words for n in kept]
        scores = fit_words(texts, ids, len(labelling.labels)).scores([data.gold[n].words for n in left])
        read |= {n: labelling.read(row, data.gold[n]) for n, row in zip(left.tolist(), scores, strict=True)}
    found = {"words": _rounded(units.score(gold, [read[n] for n in tested]))}
    if fitted.head.takes_names and data.named is not None:
        named, head = data.named, fitted.head
        texts = None if named.unlabelled is None else pool_all(head, named.unlabelled)
        pooled = pool_all(head, data.inputs.select(np.array(tested)))
        scores = head.scores_by_name(pooled, (pool_all(head, named.inputs), named.labels), texts)
        found["names"] = _rounded(units.score(gold, [labelling.read(*one) for one in zip(scores, gold, strict=True)]))
    return found


@dataclass(frozen=True)
class HeadChoice:
    """The plan whose head answers examples best that it has not learned, and what to say of the choice.

    Attributes:
        heads: For each example the plan that is chosen by the parts that it is not in; empty where nothing was chosen.
        score: That of the plan's answers; `WELL` where nothing was chosen.
    """

    plan: Plan[Any]
    told: str = ""
    heads: Sequence[Plan[Any]] = ()
    score: float = WELL


def choose_head(plans: Sequence[Plan[Any]], given: Examples, seed: int) -> HeadChoice:
    """Choose one of the plans by five parts left out in turn.

    Those that are solved at once are tried first, and another one while there is time for it; of fewer than
    `LEAST_LABELS` only where those do not answer `WELL` and the encoder knows no names. There is nothing to say where
    there are `FEW_EXAMPLES` different examples or more, of which the first plan learns, or fewer than `FEWEST`, of
    which one does that is solved at once, if these examples suit it.
    """
    train = [example for example in given.train if plans[0].task.is_labelled(example)]
    if len(plans) < 2 or given.dev or given.weak:
        return HeadChoice(plans[0])
    different = num_different(train, plans[0].task.parts, FEW_EXAMPLES)
    if not FEWEST <= different < FEW_EXAMPLES:
        return HeadChoice(_solved_at_once(plans, given, seed) if different < FEWEST else plans[0])
    answered: dict[str, list[Answer]] = {}
    untried, started = dict[str, str](), time.monotonic()
    begun, data = begin(plans[0], given, seed)
    parts, units = list(data.parts(PARTS[0])), begun.labelling.units
    too_few = len(begun.labelling.gold_labels(train)) < LEAST_LABELS
    knows = any(stream.tells for stream in begun.plan.reader.encoder(cached=True).streams)
    for plan in sorted(plans, key=lambda plan: not head_class(plan.head_kind).closed_form):
        if too_few and answered and (knows or any(units.score(train, own) >= WELL for own in answered.values())):
            untried[plan.head_kind] = f"fewer than {LEAST_LABELS} labels"
            continue
        try:
            fitted = with_head(begun, plan, data)
            answers = answers_left_out(fitted, data, parts[:1])
            if answered and (time.monotonic() - started) * len(parts) > CHOICE_SECONDS:
                untried[plan.head_kind] = "no time"
            else:
                answers |= answers_left_out(fitted, data, parts[1:])
                answered[plan.head_kind] = [answers[n] for n in sorted(answers)]
        except ValueError as why:
            untried[plan.head_kind] = str(why)
        started = time.monotonic()
    rest = "".join(f"; {kind} was not tried: {why}" for kind, why in untried.items())
    if not answered:
        return HeadChoice(plans[0], f"head: {plans[0].head_kind}{rest}")

    def scores(some: np.ndarray) -> dict[str, float]:
        examples = [train[n] for n in some]
        return {kind: round(units.score(examples, [own[n] for n in some]), 1) for kind, own in answered.items()}

    def best(some: np.ndarray) -> Plan[Any]:
        kind = max(found := scores(some), key=lambda kind: found[kind])
        return next(plan for plan in plans if plan.head_kind == kind)

    everything, heads = np.arange(len(train)), [plans[0]] * len(train)
    for _, left in parts:
        chosen = best(np.setdiff1d(everything, left))
        for n in left:
            heads[n] = chosen
    plan = best(everything)
    tried = ", ".join(f"{kind} {score}" for kind, score in scores(everything).items())
    how = f"of {len(answered)} by cross-validation ({units.metric}: {tried}{rest})"
    told = f"head: {plan.head_kind}, {how}; --head takes another"
    return HeadChoice(plan, told, heads, scores(everything)[plan.head_kind])


def _solved_at_once(plans: Sequence[Plan[Any]], given: Examples, seed: int) -> Plan[Any]:
    """The first plan whose head is solved at once and suits the examples; else the first."""
    begun, data = begin(plans[0], given, seed)
    for plan in plans:
        with suppress(ValueError):
            if head_class(plan.head_kind).closed_form and with_head(begun, plan, data):
                return plan
    return plans[0]


def fit_best(plans: Sequence[Plan[Any]], given: Examples, seed: int, seconds: float) -> Fitted:
    """Train by the plan that `choose_head` takes; its record says why, and has the estimate that may take `seconds`, 0
    for none."""
    choice = choose_head(plans, given, seed)
    then = [partial(estimate, seconds=seconds, heads=choice.heads)] if seconds else []
    fitted = fit(choice.plan, given, seed, then)
    fitted = replace(fitted, record=fitted.record | {CHOICE: choice.told}) if choice.told else fitted
    return fitted if len(plans) < 2 or given.dev or given.weak else _by_names(fitted, given, choice.score)


def _by_names(fitted: Fitted, given: Examples, learned: float) -> Fitted:
    """Return what knows the labels by their names, where it answers these few examples as well as heads that learned
    the others of them; of fewer than can be parted where it answers them `WELL`."""
    train = [example for example in given.train if fitted.plan.task.is_labelled(example)]
    if num_different(train, fitted.plan.task.parts, FEW_EXAMPLES) >= FEW_EXAMPLES:
        return fitted
    if (known := fitted.plan.task.known_by_names(fitted)) is None:
        return fitted
    units = fitted.labelling.units
    by_names = round(units.score(train, known.answers(known.outputs(train, cached=False), train)), 1)
    if by_names < learned:
        return replace(fitted, record=fitted.record | {BY_NAMES: by_names})
    why = f"as good as what was learned ({units.metric}: {by_names} beside {learned:.1f})"
    told = f"head: what the types are called, which is {why}; --head takes another"
    own = {
        name: known.record[name] for name in ("head_parameters", "layer_weights", "losses", "best_epoch", "dev_curve")
    }
    record = {name: value for name, value in fitted.record.items() if name != KEY}
    return replace(known, record=record | own | {CHOICE: told, BY_NAMES: by_names})


def _facts(fitted: Fitted, drawn: Sequence[Drawn], sizes: Sequence[int]) -> dict[str, Any]:
    low, high = interval(drawn[-1])
    gain, rise = (_gap(one, drawn[-1]) for one in (drawn[-2], drawn[0]))
    return {
        "metric": fitted.labelling.units.metric,
        "score": _rounded(drawn[-1].scores[0]),
        "low": _rounded(low),
        "high": _rounded(high),
        "curve": [[size, _rounded(one.scores[0])] for size, one in zip(sizes, drawn, strict=True)],
        "gain": gain,
        "rise": rise,
    }


def _gap(first: Drawn, second: Drawn) -> dict[str, float]:
    gap = difference(first, second)
    assert gap is not None  # both have one seed
    return {name: _rounded(getattr(gap, name)) for name in ("points", "low", "high")}


def format_estimate(facts: Mapping[str, Any], examples: str) -> Iterator[str]:
    """Say what a record holds of the estimate, in sentences; `examples` is what the task calls its examples."""
    if why := facts.get("why_not"):
        yield f"no cross-validation: {why}"
        return
    gain, (*_, (half, _), (full, _)) = facts["gain"], facts["curve"]
    learned = ", ".join(f"{size} {examples}: {score:.1f}" for size, score in facts["curve"])
    yield (
        f"cross-validated {facts['metric']}: {facts['score']:.1f} ({interval_text(facts['low'], facts['high'])}) on "
        f"{facts['examples']:,} {examples}, each answered by a head that did not learn it"
    )
    if (words := facts.get("words")) is not None:
        yield f"TF-IDF and logistic regression on the same parts: {words:.1f}"
    if (names := facts.get("names")) is not None:
        yield f"the names of the labels alone, on the same {examples}: {names:.1f}"
    if (cut := facts.get("cut")) is not None:
        yield ONE_PART.format(cut)
    if divided := facts.get("divided"):
        yield f"{divided} stood on both sides, since nothing else was left to part, so this is more than new texts give"
    if (groups := facts.get("groups", ROUGH)) < ROUGH:
        yield f"the interval is a rough one: these are {groups} documents or different texts"
    yield f"learned from {learned}"
    points = f"{signed(gain['points'])} points, {interval_text(gain['low'], gain['high'], signs=True)}"
    yield f"{_verdict([gain, facts.get('rise', gain)], groups)} (from {half} to {full} {examples}: {points})"


def _verdict(gains: Sequence[Mapping[str, float]], groups: int) -> str:
    """Of the last doubling, and of all that came after the first point of the curve; of few groups, whose interval is
    rough, not that labels will not help."""
    if all(gain["low"] > 0 for gain in gains):
        return "more labels will probably help: the last doubling did"
    if groups >= ROUGH and all(gain["high"] < LITTLE for gain in gains):
        return "more labels will hardly help: the last doubling did not"
    return "whether more labels would help cannot be told: the last doubling may have helped or not"


def _rounded(value: float) -> float:
    return round(float(value), 2)
