"""Every task learns, answers, is saved and opens again on every kind of encoder."""

import json

import pytest

from boustro.tasks import TASKS, task_class
from labelled import INPUTS, RECORDS, small

SPECS = ("{lm}", "{back}", "{lm}+{back}", "masked:{bert}", "unmasked:{lm}", "repeated:{lm}")
EMPTY = {
    name: ("", " ") if isinstance(given, tuple) else " " for name, given in INPUTS.items() if type(given) is not dict
}
"""Inputs without a word; those that are objects are refused without one."""


def test_every_task_is_tried():
    assert RECORDS.keys() == INPUTS.keys() == TASKS.keys()


@pytest.mark.parametrize(
    ("name", "spec"),
    [*(("tag", spec) for spec in SPECS), *((name, "{lm}+{back}") for name in RECORDS if name != "tag")],
)
@pytest.mark.bf16
def test_a_task_on_every_encoder(name, spec, tiny_pair, bert, tmp_path):
    cls = task_class(name)
    lm, back = tiny_pair.split("+")
    task = cls(spec.format(lm=lm, back=back, bert=bert), cache=False, **small(name)).fit(
        RECORDS[name], RECORDS[name], seed=1
    )
    score = task.evaluate(RECORDS[name])
    assert -100 <= score.value <= 100 and task.record["dev_scores"] == score.to_dict()
    task.save_pretrained(tmp_path / "task")
    again = cls.from_pretrained(tmp_path / "task", cache=False)
    assert repr(again.predict(INPUTS[name])) == repr(task.predict(INPUTS[name]))
    assert task.predict([]) == task.answer([]) == []
    if name in EMPTY:
        empty = EMPTY[name]
        assert len(task.predict([empty, INPUTS[name], empty])) == 3
    assert len(again.predict([INPUTS[name]] * 2)) == 2
    for form in cls.formats:
        shown = again.show(again.answer_inputs([INPUTS[name]])[0], form)
        assert isinstance(shown, str) if form in ("text", "conll", "html") else json.dumps(shown)


@pytest.mark.parametrize("name", [name for name in RECORDS if name not in ("tag", "sense")])
def test_texts_without_a_word_and_very_long_ones_are_answered(name, tiny_lm):
    task = task_class(name)(str(tiny_lm("llama")), cache=False, **small(name)).fit(RECORDS[name], seed=1)
    for text in ("", " \n", "word " * 3000):
        objects = {"qa": {"context": text, "question": "Who?"}, "relation": {**INPUTS["relation"], "text": text}}
        if name in objects and not text.strip():
            with pytest.raises(ValueError, match=r"the context is empty|is outside"):
                task.predict(objects[name])
            continue
        given = {"classify": text, **objects}.get(name, (text, "Ada left."))
        assert task.predict(given) is not None


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_no_input_is_refused_with_its_place(name, tiny_lm):
    task = task_class(name)(str(tiny_lm("llama")), cache=False, **small(name)).fit(RECORDS[name], seed=1)
    with pytest.raises(ValueError, match=r" 2\b"):
        task.predict([INPUTS[name], 7])
