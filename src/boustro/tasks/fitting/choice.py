"""Which kind of head learns from few examples, and whether names of labels know more than it.

Each kind answers parts of the training set that it has not learned; the one whose answers are best learns all of it.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from boustro.heads.factored import kind_names
from boustro.heads.options import FEW_EXAMPLES
from boustro.heads.registry import head_class, head_kind
from boustro.tasks.answers import Answer
from boustro.tasks.config import AUTO
from boustro.tasks.fitting.estimate import (
    BY_NAMES,
    CHOICE,
    FEWEST,
    KEY,
    PARTS,
    answers_left_out,
    dev_names,
    estimate,
    judge_names,
)
from boustro.tasks.fitting.training import begin_training, fit_head, with_head
from boustro.tasks.folds import num_different
from boustro.tasks.plan import Examples, Fitted, Plan, Then, TrainingSet

CHOICE_SECONDS = 120.0
"""Seconds that a further kind of head may take to be tried."""
LEAST_LABELS, WELL = 50, 50.0
"""Labels in all, such as entities, below which no head is tried that is trained by steps where one that is solved at
once has such a score: it takes half of a `fit`, and is worse then (docs/log.md)."""
NAMES_WELL = 25.0
"""Of examples that are too few to be parted: names that score so on them score 6 more than a head on others
(docs/log.md)."""


def fit_best(plan: Plan[Any], head: str | None, given: Examples, seed: int, seconds: float) -> Fitted:
    """Train with the kind of head that was asked for, else with the one that `choose_head` takes; the record says why,
    and has the estimate that may take `seconds`, 0 for none, and names of columns."""
    plans = plans_to_choose(plan, head)
    choice = choose_head(plans, given, seed)
    how = {"seconds": seconds, "heads": choice.heads, "known": choice.known}
    then: list[Then] = [partial(estimate, **how)] if seconds else []
    then += [partial(dev_names, given.dev)] if given.dev else []
    then += [partial(judge_names, choice.known)] if choice.known else []
    fitted = fit_head(choice.plan, given, seed, then)
    fitted = replace(fitted, record=fitted.record | {CHOICE: choice.told}) if choice.told else fitted
    return _by_names(fitted, choice).with_columns(given.columns)


def plans_to_choose(plan: Plan[Any], head: str | None) -> list[Plan[Any]]:
    """Return the plan; and where neither a kind of head nor an option of it was asked for, those with the other kinds
    that `choose_head` tries."""
    if head is not None or plan.head_options != head_kind(plan.head_kind).options():
        return [plan]
    plans = [plan]
    for kind in plan.config.named_heads([AUTO]):
        with suppress(ValueError):  # which says what cannot stand beside this kind, such as a temperature
            for other in plan.companions:
                other.check(kind)
            options = head_kind(kind).options()
            plans += [replace(plan, head_kind=kind, head_options=options)] if kind != plan.head_kind else []
    return plans


@dataclass(frozen=True)
class HeadChoice:
    """The plan whose head answers examples best that it has not learned, and what to say of the choice.

    Attributes:
        heads: For each example the plan that is chosen by the parts that it is not in; empty where nothing was chosen.
        score: That of the plan's answers; `None` where nothing was chosen.
        known: What knows the labels by their names, if it may be kept in place of a head.
    """

    plan: Plan[Any]
    told: str = ""
    heads: Sequence[Plan[Any]] = ()
    score: float | None = None
    known: Fitted | None = None


def choose_head(plans: Sequence[Plan[Any]], given: Examples, seed: int) -> HeadChoice:
    """Choose one of the plans by five parts left out in turn.

    Those that are solved at once are tried first, and another one while there is time for it; of fewer than
    `LEAST_LABELS` only where those do not answer `WELL` and the encoder knows no names. There is nothing to say where
    there are `FEW_EXAMPLES` different examples or more, of which the first plan learns, or fewer than `FEWEST`, of
    which one does that is solved at once, if these examples suit it.
    """
    train = given.labelled
    different = num_different(train, FEW_EXAMPLES)
    if len(plans) < 2 or given.dev or given.weak or different >= FEW_EXAMPLES:
        return HeadChoice(plans[0])
    answered: dict[str, dict[int, Answer]] = {}
    untried, started = dict[str, str](), time.monotonic()
    training, data = begin_training(plans[0], given, seed)
    begun, known = training.fitted, _known_by_names(training.fitted)
    if different < FEWEST:
        chosen = next((plan for plan in plans if _solved_at_once(begun, plan, data)), plans[0])
        return HeadChoice(chosen, known=known)
    parts, units = list(data.parts(PARTS[0])), begun.labelling.units
    asked = np.sort(np.concatenate([left for _, left in parts]))

    def scores(some: np.ndarray) -> dict[str, float]:
        examples = [train[n] for n in some]
        return {kind: round(units.score(examples, [own[n] for n in some]), 1) for kind, own in answered.items()}

    too_few = len(begun.labelling.gold_labels(train)) < LEAST_LABELS
    knows = any(stream.tells for stream in begun.plan.reader.encoder(cached=True).streams)
    for plan in sorted(plans, key=lambda plan: not head_class(plan.head_kind).closed_form):
        if too_few and answered and (knows or any(score >= WELL for score in scores(asked).values())):
            untried[plan.head_kind] = f"fewer than {LEAST_LABELS} labels"
            continue
        try:
            fitted = with_head(begun, plan, data)
            answers = answers_left_out(fitted, data, parts[:1])
            if answered and (time.monotonic() - started) * len(parts) > CHOICE_SECONDS:
                untried[plan.head_kind] = "no time"
            else:
                answers |= answers_left_out(fitted, data, parts[1:])
                answered[plan.head_kind] = answers
        except ValueError as why:
            untried[plan.head_kind] = str(why)
        started = time.monotonic()
    rest = "".join(f"; {kind} was not tried: {why}" for kind, why in untried.items())
    if not answered:
        return HeadChoice(plans[0], f"head: {plans[0].head_kind}{rest}", known=known)

    def best(some: np.ndarray) -> Plan[Any]:
        kind = max(found := scores(some), key=lambda kind: found[kind])
        return next(plan for plan in plans if plan.head_kind == kind)

    plan, heads = best(asked), [plans[0]] * len(train)
    for _, left in parts:
        chosen = best(np.setdiff1d(asked, left))
        for n in left:
            heads[n] = chosen
    tried = ", ".join(f"{kind} {score}" for kind, score in scores(asked).items())
    how = f", of {len(answered)} by cross-validation ({units.metric}: {tried}{rest})" if len(answered) > 1 else rest
    how += "; --head takes another"
    return HeadChoice(plan, f"head: {plan.head_kind}{how}", heads, scores(asked)[plan.head_kind], known)


def _solved_at_once(begun: Fitted, plan: Plan[Any], data: TrainingSet) -> bool:
    """Return whether a plan's head is solved at once and suits the examples."""
    with suppress(ValueError):
        return head_class(plan.head_kind).closed_form and bool(with_head(begun, plan, data))
    return False


def _known_by_names(begun: Fitted) -> Fitted | None:
    """Return what knows the labels by their names; `None` where that is what a ridge head begins with."""
    are_kinds = all(len(kind_names(name)) > 1 for name in begun.labelling.types)
    return None if are_kinds else begun.labelling.known_by_names(begun)


def _by_names(fitted: Fitted, choice: HeadChoice) -> Fitted:
    """Return what knows the labels by their names, where it answers these few examples as well as heads that learned
    the others of them; of fewer than can be parted where its score is `NAMES_WELL`."""
    if (known := choice.known) is None:
        return fitted
    by_names, metric = fitted.record[BY_NAMES], fitted.labelling.units.metric
    if by_names < (NAMES_WELL if choice.score is None else choice.score):
        return fitted
    if choice.score is None:
        why = f"as these are too few examples to judge a head by ({metric} on them: {by_names})"
    else:
        why = f"which is as good as what was learned ({metric}: {by_names} beside {choice.score})"
    told = f"head: what the types are called, {why}; --head takes another"
    own = {
        name: known.record[name] for name in ("head_parameters", "layer_weights", "losses", "best_epoch", "dev_curve")
    }
    record = {name: value for name, value in fitted.record.items() if name != KEY}
    return replace(known, record=record | own | {CHOICE: told})
