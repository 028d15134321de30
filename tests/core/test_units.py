"""Offsets in code points, UTF-16 units or bytes: the file proves which, or a note says that it cannot be told.

Tried in every notation of entities over characters: doccano (two), spaCy, Prodigy, our own JSON lines, words with a
text, Argilla, Label Studio; each with and without the entities' own text.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated import FORMS, marked
from boustro.tasks.data import load_data
from boustro.tasks.data.units import CODE_POINTS, CODECS, CONVERTED, UNCLEAR, UTF_16, WIDENED, Span, find_unit
from boustro.tasks.pairs import PAIRS
from boustro.tasks.questions.data import read_questions
from labelled import rows, spans

TEXTS = ["Ada Brandt réside à Port Lisse.", "🚒🚒 Ada Brandt left Port Lisse, été 1990.", "It rained."]
GOLD = [("PER", "Ada Brandt"), ("LOC", "Port Lisse")] * 2


@pytest.mark.parametrize(
    ("form", "unit", "own"), [(f, unit, (n + m) % 2) for n, f in enumerate(FORMS) for m, unit in enumerate(CODECS)]
)
def test_the_unit_that_a_file_proves_is_read_throughout(form, unit, own, file):
    records = [FORMS[form](t, [(*one[:3], one[3] if own else None) for one in marked(t, unit)]) for t in TEXTS]
    path = file("a.jsonl", rows(*records))
    labelled = load_data(path)
    assert [pair for s in labelled.sentences for pair in spans(s)] == GOLD
    moved = sum(marked(t, unit)[i] != one for t in TEXTS for i, one in enumerate(marked(t, CODE_POINTS)))
    counts = {what: n for what, n in labelled.counts().items() if "widened" not in what}
    assert counts == ({CONVERTED.format(unit): moved} if moved else {})


@pytest.mark.parametrize("unit", CODECS)
def test_words_that_are_marked_in_pairs_are_read_in_the_unit_of_the_file(unit, file):
    """The words of "word in context", which were read in code points without a note."""
    texts = ["🚒🚒 The bank rose.", "Été: the bank failed."]
    made = {}
    for number, text in enumerate(texts, start=1):
        codec, width = CODECS[unit]
        start, end = (len(text[:at].encode(codec)) // width for at in (text.index("bank"), text.index("bank") + 4))
        made |= {f"sentence{number}": text, f"start{number}": start, f"end{number}": end}
    notes: list = []
    (pair,) = PAIRS["pair"].read(file("a.jsonl", rows(made | {"same": False})), notes=notes)
    assert pair.marks is not None
    marked = [[s.words[i] for i in own] for s, own in zip(pair.parts, pair.marks, strict=True)]
    assert marked == [["bank"], ["bank"]]
    moved = {CODE_POINTS: 0, UTF_16: 1}.get(unit, 2)
    assert [note.what for note in notes] == [CONVERTED.format(unit)] * moved
    blank = {"sentence1": "a b", "start1": 1, "end1": 2, "sentence2": "b", "start2": 0, "end2": 1, "same": True}
    with pytest.raises(ValueError, match="start1 and end1 mark no word of sentence1"):
        PAIRS["pair"].read([blank])


@pytest.mark.parametrize("unit", CODECS)
def test_answers_are_read_in_the_unit_in_which_they_stand_at_their_offset(unit, file):
    context = "🚒🚒 Été: Ada left in May."
    codec, width = CODECS[unit]
    start = len(context[: context.index("in May")].encode(codec)) // width
    asked = {"context": context, "question": "When?", "answers": [{"text": "in May", "start": start}]}
    (question,) = read_questions(file("a.jsonl", rows(asked)), notes=(notes := []))
    assert [question.context.words[a:b] for a, b in question.spans] == [("in", "May")]
    assert [note.what for note in notes] == ([] if unit == CODE_POINTS else [CONVERTED.format(unit)])


def read(*records):
    """(the entities, the number of notes of each kind)."""
    labelled = load_data(list(records))
    return [pair for s in labelled.sentences for pair in spans(s)], dict(labelled.counts())


EITHER = {"text": "🚒🚒🚒🚒🚒 Elsa Ada! left", "entities": [[11, 15, "PER"]]}  # Elsa in UTF-16 units, else Ada!
UTF16 = {"text": "🚒 Brandt left", "entities": [[3, 9, "PER"]]}
POINTS = {"text": "🚒 Brandt left", "entities": [[2, 8, "PER"]]}
LOOSE = {"text": "🚒 Brandts left", "entities": [[2, 8, "PER"]]}  # inside a word in every unit


def test_an_entity_that_fits_several_units_is_read_in_that_of_its_file_or_noted():
    assert read(EITHER) == ([("PER", "Ada !")], {UNCLEAR: 1})
    assert read(EITHER, UTF16) == ([("PER", "Elsa"), ("PER", "Brandt")], {CONVERTED.format(UTF_16): 2})
    assert read(EITHER, POINTS) == ([("PER", "Ada !"), ("PER", "Brandt")], {})
    (note,) = load_data([EITHER]).notes
    assert str(note).endswith("PER 'Ada!', read in code points, would be 'Elsa' in UTF-16 units")


def test_most_entities_decide_and_the_others_are_noted():
    assert read(UTF16, UTF16, POINTS) == (
        [("PER", "Brandt")] * 2 + [("PER", "Brandt")],
        {CONVERTED.format(UTF_16): 3, UNCLEAR: 1, WIDENED: 1},
    )
    found, counts = read(POINTS, POINTS, UTF16)
    assert found[:2] == [("PER", "Brandt")] * 2 and counts == {UNCLEAR: 1, WIDENED: 1}
    assert read(LOOSE, POINTS) == ([("PER", "Brandts"), ("PER", "Brandt")], {WIDENED: 1})
    assert read(LOOSE)[1] == {WIDENED: 1}


def test_a_file_of_argilla_may_have_both_units():
    both = [FORMS["Argilla"](own["text"], [(*own["entities"][0], None)]) for own in (UTF16, UTF16, POINTS)]
    assert read(*both) == ([("PER", "Brandt")] * 3, {CONVERTED.format(UTF_16): 2})


def test_an_offset_inside_a_character_is_outside_every_text():
    with pytest.raises(
        ValueError, match=r"record 1 of the given data: the entity PER \[0, 12\) is outside the 10 char"
    ):
        load_data([{"text": "🚒 Ada left", "entities": [[0, 12, "PER"]]}])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=4))
def test_the_own_text_of_entities_decides(texts):
    given_spans = [(text, [Span("X", 0, len(text), text)]) for text in texts if text.strip()]
    assert find_unit(given_spans).name == CODE_POINTS
