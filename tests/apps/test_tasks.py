"""Every task learns, answers, is saved and opens again on every kind of encoder."""

import json

import pytest

from boustro.apps.cli.arguments import guess_task
from boustro.apps.explain import explain
from boustro.heads.registry import HEADS
from boustro.tasks import TASKS, task_class

SPECS = ("{lm}", "{back}", "{lm}+{back}", "masked:{masked}", "unmasked:{lm}", "repeated:{lm}", "elmo:{elmo}",
         "fused:{fusion}", "unmasked:{adapted}")  # fmt: skip
CONTEXT = "Ada Brandt left Vellmar in May."
RECORDS = {
    "tag": [{"words": ["Ada", "left"], "tags": ["B-PER", "O"]}, {"words": ["It", "rained"], "tags": ["O", "O"]}],
    "classify": [{"text": "Ada left.", "label": "news"}, {"text": "It rained.", "label": "weather"}],
    "pair": [
        {"sentence1": "Ada left.", "sentence2": "Ada went.", "label": 1},
        {"sentence1": "Ada left.", "sentence2": "It rained.", "label": 0},
    ],
    "similarity": [
        {"sentence1": "Ada left.", "sentence2": "Ada went.", "score": 4.5},
        {"sentence1": "Ada left.", "sentence2": "It rained.", "score": 0.5},
    ],
    "regress": [{"text": "Ada left.", "score": 2}, {"text": "It rained.", "score": 4.5}],
    "qa": [
        {"context": CONTEXT, "question": "Who left?", "answers": [{"text": "Ada Brandt", "start": 0}]},
        {"context": CONTEXT, "question": "When?", "answers": [{"text": "May", "start": 27}]},
    ],
    "relation": [
        {"text": CONTEXT, "head": [0, 10], "tail": [16, 23], "label": "left(e1,e2)"},
        {"text": CONTEXT, "head": [0, 10], "tail": [27, 30], "label": "Other"},
    ],
    "sense": [
        {"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NN", [f"bank%{n}"]]], "document": f"d{n}"}
        for n in (1, 2)
    ],
    "embed": [
        {"sentence1": "Ada left.", "sentence2": "Ada went.", "score": 4.5},
        {"sentence1": "Ada left.", "sentence2": "It rained.", "score": 0.5},
    ],
}
"""A training set for each task."""
INPUTS = {
    "tag": "Ada left.",
    "classify": "Ada left.",
    "pair": ("Ada left.", "It rained."),
    "similarity": ("Ada left.", "It rained."),
    "regress": "Ada left.",
    "qa": {"context": CONTEXT, "question": "Who?"},
    "relation": {"text": CONTEXT, "head": [0, 10], "tail": [16, 23]},
    "sense": {"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NOUN"], [2, "rise", "VERB"]]},
    "embed": "Ada left.",
}
EMPTY = {
    name: ("", " ") if isinstance(given, tuple) else " " for name, given in INPUTS.items() if type(given) is not dict
}
"""Inputs without a word; those that are objects are refused without one."""
GUESSED = {"embed": "similarity"}
"""Data that may be for several tasks, and what they are taken for."""


def small(name):
    """Options that make a training quick."""
    head = HEADS[TASKS[name].config.default_head]
    return {option: value for option, value in {"epochs": 1, "hidden": 8}.items() if head.has(option)}


def test_every_task_is_tried():
    assert RECORDS.keys() == INPUTS.keys() == TASKS.keys()


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        pytest.param(name, spec, marks=() if name == "tag" or spec == "{lm}+{back}" else pytest.mark.long)
        for name in RECORDS
        for spec in SPECS
    ],
)
@pytest.mark.bf16
def test_a_task_on_every_encoder(name, spec, world, tmp_path):
    cls = task_class(name)
    task = cls(world.fill(spec), cache=False, **small(name)).fit(RECORDS[name], RECORDS[name], seed=1)
    score = task.evaluate(RECORDS[name])
    assert -100 <= score.value <= 100 and task.record["dev_scores"] == score.to_dict()
    task.save_pretrained(tmp_path / "task")
    again = cls.from_pretrained(tmp_path / "task", cache=False)
    assert repr(again.predict(INPUTS[name])) == repr(task.predict(INPUTS[name]))
    assert task.predict([]) == task.answer([]) == []
    if name in EMPTY:
        empty = EMPTY[name]
        assert len(task.predict([empty, INPUTS[name], empty])) == 3
        assert all("streams" not in why or why["streams"] for why in explain(task, task.answer_inputs([empty])))
    assert len(again.predict([INPUTS[name]] * 2)) == 2
    for form in cls.formats:
        shown = again.show(again.answer_inputs([INPUTS[name]])[0], form)
        assert isinstance(shown, str) if form in ("text", "conll", "html") else json.dumps(shown)


@pytest.mark.parametrize("name", RECORDS)
def test_the_task_is_found_in_the_data(name, tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS[name]))
    assert guess_task(path) == GUESSED.get(name, name)


@pytest.mark.parametrize("name", [name for name in RECORDS if name not in ("tag", "sense")])
def test_texts_without_a_word_and_very_long_ones_are_answered(name, world):
    task = task_class(name)(world["lm"], cache=False, **small(name)).fit(RECORDS[name], seed=1)
    for text in ("", " \n", "word " * 3000):
        objects = {"qa": {"context": text, "question": "Who?"}, "relation": {**INPUTS["relation"], "text": text}}
        if name in objects and not text.strip():
            with pytest.raises(ValueError, match=r"the context is empty|is outside"):
                task.predict(objects[name])
            continue
        given = {"classify": text, **objects}.get(name, (text, "Ada left."))
        assert task.predict(given) is not None


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_no_input_is_refused_with_its_place(name, world):
    task = task_class(name)(world["lm"], cache=False, **small(name)).fit(RECORDS[name], seed=1)
    with pytest.raises(ValueError, match=r" 2\b"):
        task.predict([INPUTS[name], 7])
