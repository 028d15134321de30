"""No option is without effect: what a head does not read is refused, and what it takes is read."""

import json
import sys
from dataclasses import fields
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import Spec
from boustro.heads.registry import HEADS, owners
from boustro.options import OptionError, Where
from boustro.tasks import TASKS, task_class
from boustro.tasks.config import TaskConfig
from boustro.tasks.data.reading import DataOptions
from labelled import INPUTS, RECORDS

KINDS = [(task, kind) for task, entry in TASKS.items() for kind in entry.config.heads()]
NOT_IN_A_FIT = {"max_span": "read with a promise of recall", "decode": "read without a CRF"}
OFF = {"combine": ["concat"], "crf": [True, False], "mix_epochs": [0], "text_pooling": ["mean"], "words": [False]}
"""Values of options with which others are not read."""
OTHERS = {bool: False, int: 3, float: 0.25, str: "x"}


def other(kind: str, option: str):
    """A value of an option that is not its default."""
    hint, default = get_type_hints(HEADS[kind].options)[option], getattr(HEADS[kind].options(), option)
    arguments = getattr(hint, "__args__", (hint,))
    choices = [*arguments, *(OTHERS.get(each) for each in arguments)]
    return next(c for c in choices if c is not None and not isinstance(c, type) and c != default)


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_options_that_only_other_heads_of_the_task_read_are_refused(task, kind):
    kinds = TASKS[task].config.heads()
    foreign = {option for other in kinds for option in HEADS[other].option_names()} - HEADS[kind].option_names()
    for option in sorted(foreign):
        value = other(owners(option, kinds)[0], option)
        with pytest.raises(OptionError, match=f"{option} is not an option of a {kind} head"):
            task_class(task)("no/such-model", kind, **{option: value})


@pytest.mark.parametrize("kind", HEADS)
def test_options_that_another_option_turns_off_are_refused(kind):
    options = HEADS[kind].options
    for name, hint in get_type_hints(options, include_extras=True).items():
        for where in (extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Where)):
            unsuited = next(value for value in OFF[where.option] if value not in where.values)
            with pytest.raises(OptionError, match="is not read where"):
                options(**{where.option: unsuited, name: other(kind, name)})


@pytest.mark.parametrize("task", [task for task in TASKS if task != "embed"])
def test_a_separator_is_refused_where_nothing_is_separated(task, tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in [{"text": "Ada left."}]))
    with pytest.raises(OptionError, match=r"--delimiter is not read with .*jsonl"):
        task_class(task).collect(str(file), DataOptions(delimiter="tab"), [])


def test_what_one_part_of_an_encoder_reads_is_taken():
    always = ReadingOptions(spacing="always", start_piece="bos")
    Spec.parse("elmo:no/such+starter-forward").refuse_unread(always)
    with pytest.raises(OptionError, match="start_piece, spacing is not read by elmo:no/such; remove it"):
        Spec.parse("elmo:no/such").refuse_unread(always)
    with pytest.raises(OptionError, match="weak_weight is not read"):
        task_class("tag")("no/such").fit([(["Ada"], ["B-PER"])], weak_weight=0.3)


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_every_option_of_a_head_is_read(task, kind, tiny_lm, monkeypatch):
    """Where not by its class alone: `fields`, `asdict` and `replace` read all of them."""
    read, options = set(), HEADS[kind].options

    def noting(self, name):
        if name in options.__dataclass_fields__ and sys._getframe(1).f_globals["__name__"] != "dataclasses":
            read.add(name)
        return object.__getattribute__(self, name)

    trained = {"epochs": 2} if HEADS[kind].has("epochs") else {}
    made = task_class(task)(str(tiny_lm("llama")), kind, cache=False, **trained)
    monkeypatch.setattr(options, "__getattribute__", noting)
    made.fit(RECORDS[task] * 6, seed=1).predict([INPUTS[task]])
    assert {f.name for f in fields(options)} - NOT_IN_A_FIT.keys() <= read


CHANGED = {"layers": "1", "pooling": "first+last", "start_piece": "none", "prefix": "Two words:"}
CHANGED |= {"calibrate": 2, "table": "starter-words", "words": True}
CHANGED["no_relation_label"] = "none of them"
CHANGED |= {"describe": {"1": "a thing"}, "types": ("politics",)}
"""Values of options that are texts or numbers."""
NAMES = [
    {"words": ["Ada", "saw", "Bo", "."], "tags": ["B-PER", "O", "B-PER", "O"], "document": "d"},
    {"words": ["Lisse", "saw", "Ada", "."], "tags": ["B-LOC", "O", "B-LOC", "O"], "document": "d"},
]
"""With a document, other names of a type, and a name that is two things."""
INPUT = {"tag": "Ada saw Bo. Lisse saw Ada."}


def changed(config: type[TaskConfig], option: str):
    """A value of an option of a task that is not its default."""
    hint, default = get_type_hints(config)[option], getattr(config(), option)
    choices = [c for one in (hint, *get_args(hint)) if get_origin(one) is Literal for c in get_args(one)]
    choices += {bool: [True], float: [0.9]}.get(hint, [])
    return CHANGED[option] if option in CHANGED else next(c for c in choices if c not in (None, default))


@pytest.fixture(scope="module")
def outcome(tiny_pair):
    """outcome(task, kind, option) → all that an option can change: what is read, learned and answered."""

    @cache
    def found(task, kind, option):
        own = {"epochs": 2, "lr": 0.05, "dropout": 0.0, "hidden": 8, "prior": 0.5}
        own = {name: value for name, value in own.items() if HEADS[kind].has(name)}
        chosen = {option: changed(TASKS[task].config, option)} if option else {}
        model = task_class(task)(tiny_pair, kind, cache=False, **own, **chosen)
        model.fit((NAMES if task == "tag" else RECORDS[task]) * 3, seed=1)
        answers = list(model.answer_inputs([INPUT.get(task, INPUTS[task])]))
        weights = {name: value.tolist() for name, value in model.fitted.head.state_dict().items()}
        learned = weights, model.fitted.labelling.to_dict(), model.record["calibration"]
        return repr((model.encoder().identity().to_dict(), learned, answers))

    return found


@pytest.mark.parametrize(
    ("task", "kind", "option"),
    [(task, kind, f.name) for task, kind in KINDS for f in fields(TASKS[task].config)
     if kind == TASKS[task].config.default_head or f.name not in ReadingOptions.__dataclass_fields__],
)  # fmt: skip
def test_every_option_of_a_task_changes_something_or_is_refused(task, kind, option, outcome):
    try:
        found = outcome(task, kind, option)
    except (ValueError, ImportError) as refused:
        assert (option in str(refused) or str(CHANGED[option]) in str(refused)) and "\n" not in str(refused)
    else:
        assert found != outcome(task, kind, None)
