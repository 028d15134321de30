"""How good a model is without a development set, and whether more labels would help: cross-validation.

    parts      every example is answered by a head that learned the others of the training set, in five parts
    head       of few examples each part is answered by the kind of head that answers the other parts best (`choice`)
    score      of all these answers, with its 95% interval over documents or texts
    curve      the same after a quarter and after half of what such a head learned from
    gain       the score with all minus that with half, with the interval of the paired differences
    rise       the same with a quarter: the advice looks at all points of the curve

It follows a training: what the encoder has read is read once, and heads train in seconds. Where all of it would take
longer than it may, one fifth is left out once; where that would too, there is no estimate. A head that learned four
fifths is a little worse than the one that is kept, which learned all. The kind of head that is kept is chosen by all
parts, so its own answers there would be too good. Beside the score of labels of texts stands that of
TF-IDF on the same parts, and beside each score that of the names of labels alone, where they are known by them.

Sources: Stone 1974 (cross-validation); `metrics.significance` (intervals).
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from boustro.errors import count_of
from boustro.heads.inputs import HeadInputs, Kinship, NamedLabels
from boustro.heads.options import FEW_EXAMPLES
from boustro.heads.training import predict_inputs
from boustro.metrics.significance import Drawn, bootstrap, difference, interval, interval_text, signed
from boustro.tasks.answers import Answer
from boustro.tasks.fitting.training import train_companions, train_on_parts, with_head
from boustro.tasks.folds import drawn_together, num_different
from boustro.tasks.plan import Fitted, Plan, TrainingSet
from boustro.types import Sentence

KEY, CHOICE, BY_NAMES, DEV_NAMES = "cross_validation", "head_choice", "types_by_name", "dev_names"
"""Keys in the record of a model: the estimate, how the kind of head was chosen, and what the names of labels alone
score, on few training examples and on the development set."""
PARTS, SHARES = (5, 1), (0.25, 0.5, 1.0)
FEWEST, ROUGH = 10, 30
"""Different examples, below which nothing is said, and documents or different texts, below which an interval is a rough
one."""
TOO_LONG = "it would take about {}, and may take {:.0f}; give it more with --cross-validate"
ONE_PART = "one of five parts was left out, once: all five would take about {}; give it more with --cross-validate"
NAMES_ALONE = "the names of the labels alone, on the same {}: {:.1f}"
LITTLE = 2.0
"""Points that are hardly worth the labels."""


def answers_left_out(
    fitted: Fitted, data: TrainingSet, parts: Sequence[tuple[np.ndarray, np.ndarray]], share: float = 1.0
) -> dict[int, Answer]:
    """Return the answer for each example of the parts left out, by a head that learned a share of what was kept.

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
    """Return some of the gold examples alone."""
    reread, others = data.reread, np.setdiff1d(data.numbers, some)
    further = reread and (lambda inner: reread(np.concatenate([others, some[inner]])).keep(some))
    gold, whole = [data.gold[n] for n in some], cache(partial(data.kin, some))

    def alike(inner: np.ndarray | None = None) -> Kinship:
        return whole() if inner is None else data.kin(some[inner])

    return replace(data, gold=gold, inputs=data.inputs.keep(some), kin=alike, weak=(), reread=further)


def estimate(
    fitted: Fitted,
    data: TrainingSet,
    trained: float,
    seconds: float,
    heads: Sequence[Plan[Any]] = (),
    known: Fitted | None = None,
) -> dict[str, Any]:
    """Estimate a model's score by cross-validation, for its record; see the module.

    Args:
        trained: The seconds that the training of its head took.
        seconds: How long this may take.
        heads: By which plan each example is answered, see `HeadChoice`; by default that of the model.
        known: What knows the labels by their names, where it is made already.
    """
    needed = {parts: trained * parts * 0.8 * sum(SHARES) for parts in PARTS}
    chosen = next((parts for parts in PARTS if needed[parts] <= seconds), None)
    cut = {"cut": round(needed[PARTS[0]])} if chosen != PARTS[0] else {}
    if (different := num_different(data.gold, FEWEST)) < FEWEST:
        return {KEY: {"why_not": f"it needs {FEWEST} different examples, and has {different}"}}
    if chosen is None:
        return {KEY: {"why_not": TOO_LONG.format(count_of(round(needed[1]), "seconds"), seconds)}}
    try:
        return {KEY: _judged(fitted, data, heads, chosen, known) | cut}
    except ValueError as why:
        return {KEY: {"why_not": str(why)}}


def _judged(
    fitted: Fitted, data: TrainingSet, heads: Sequence[Plan[Any]], chosen: int, known: Fitted | None
) -> dict[str, Any]:
    """Return the facts of an estimate by so many parts; `ValueError` where one of them cannot be learned or judged."""
    parts = list(data.parts(chosen))
    numbers = np.sort(np.concatenate([left for _, left in parts]))
    tested = [data.gold[n] for n in numbers]
    groups = drawn_together(tested)
    kinds = {plan.head_kind: with_head(fitted, plan, data) for plan in heads}
    answering = [kinds[heads[left[0]].head_kind] if heads else fitted for _, left in parts]
    drawn, sizes = [], []
    for share in SHARES:
        answers: dict[int, Answer] = {}
        for own in {id(own): own for own in answering}.values():
            some = [part for part, other in zip(parts, answering, strict=True) if other is own]
            answers |= answers_left_out(own, data, some, share)
        units = fitted.labelling.units
        values = units.values(tested, [answers[n] for n in numbers])
        if not np.isfinite(values).all():
            raise ValueError("these examples have nothing that an answer can be compared with")
        drawn += bootstrap(units.statistic, [values[None]], groups=groups)
        sizes.append(round(share * float(np.mean([len(kept) for kept, _ in parts]))))
    facts = _facts(fitted, drawn, sizes)
    facts |= {"examples": len(tested), "parts": len(parts), "groups": int(groups.max()) + 1}
    names = score_by_names(fitted, known or data.named, tested, data.inputs.select(numbers))
    facts |= {"divided": data.kin().divided, **_by_words(fitted, data, parts)}
    return facts if names is None else facts | {"names": _rounded(names)}


def dev_names(dev: Sequence[Any], fitted: Fitted, data: TrainingSet, _: float) -> dict[str, float]:
    """Return what the names of labels alone score on a development set, for the record of what was trained with it."""
    score = None if data.dev is None else score_by_names(fitted, data.named, dev, data.dev.inputs)
    return {} if score is None else {DEV_NAMES: _rounded(score)}


def judge_names(known: Fitted, fitted: Fitted, data: TrainingSet, _: float) -> dict[str, float]:
    """Return what the names of labels alone score on the training examples, as these are learned from."""
    return {BY_NAMES: round(score_by_names(fitted, known, data.gold, data.inputs.select(data.numbers)) or 0.0, 1)}


def score_by_names(
    fitted: Fitted, named: NamedLabels | Fitted | None, examples: Sequence[Any], inputs: HeadInputs
) -> float | None:
    """Return what the names of labels alone score on examples with these features; see `Labelling.answers_by_names`."""
    answers = fitted.labelling.answers_by_names(fitted, named, examples, inputs)
    return None if answers is None else fitted.labelling.units.score(examples, answers)


def _by_words(fitted: Fitted, data: TrainingSet, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Return the score of TF-IDF and logistic regression on the same parts, where a whole text has labels."""
    from boustro.heads.words import fit_words
    from boustro.tasks.labellings.texts import TextLabelling

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
    return {"words": _rounded(units.score(gold, [read[n] for n in tested]))}


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


def tell_beside(record: Mapping[str, Any], examples: str) -> Iterator[str]:
    """Say what a record holds beside scores on a development set, in sentences: the estimate where there is none, else
    what the names of labels alone score. `examples` is what the task calls its examples."""
    if facts := record.get(KEY):
        yield from format_estimate(facts, examples)
    elif (names := record.get(DEV_NAMES)) is not None:
        yield NAMES_ALONE.format(examples, names)


def format_estimate(facts: Mapping[str, Any], examples: str) -> Iterator[str]:
    """Say what a record holds of the estimate, in sentences."""
    if why := facts.get("why_not"):
        yield f"no cross-validation: {why}"
        return
    gain, (*_, (half, _), (full, _)) = facts["gain"], facts["curve"]
    groups, said = facts.get("groups", ROUGH), interval_text(facts["low"], facts["high"])
    if groups < ROUGH and round(facts["low"]) < round(facts["high"]):
        few = f"{groups} different texts or documents tell no more"
        said = f"about {facts['low']:.0f} to {facts['high']:.0f}: {few}"
    learned = ", ".join(f"{size} {examples}: {score:.1f}" for size, score in facts["curve"])
    yield (
        f"cross-validated {facts['metric']}: {facts['score']:.1f} ({said}) on "
        f"{facts['examples']:,} {examples}, each answered by a head that did not learn it"
    )
    if (words := facts.get("words")) is not None:
        yield f"TF-IDF and logistic regression on the same parts: {words:.1f}"
    if (names := facts.get("names")) is not None:
        yield NAMES_ALONE.format(examples, names)
    if (cut := facts.get("cut")) is not None:
        yield ONE_PART.format(count_of(cut, "seconds"))
    if divided := facts.get("divided"):
        yield f"{divided} stood on both sides, since nothing else was left to part, so this is more than new texts give"
    yield f"learned from {learned}"
    points = f"{signed(gain['points'])} points"
    points += f", {interval_text(gain['low'], gain['high'], signs=True)}" if groups >= ROUGH else ""
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
