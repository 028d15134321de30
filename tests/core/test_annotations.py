"""Exports of Label Studio and Argilla are read exactly, and suggestions for them come back as they were."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boustro
from annotated import TEXT, choice, found, record, region, span, task
from boustro.tasks.data import annotations, load_data, read_data
from boustro.tasks.data.annotations import TOOLS, plain_records
from boustro.tasks.data.reading import NOT_READ
from boustro.tasks.data.texts import read_texts
from boustro.tasks.data.units import CODECS, CONVERTED, UTF_16, position
from boustro.types import Entity
from labelled import rows

GOLD = [Entity("PER", 9, 19), Entity("LOC", 25, 35)]

BOTH = pytest.mark.parametrize(
    "entities",
    [
        lambda *all, text=TEXT: task(*(region(e.start, e.end, e.label, text) for e in all), text=text),
        lambda *all, text=TEXT: record(text, ner=[span(e.start, e.end, e.label) for e in all]),
    ],
    ids=["labelstudio", "argilla"],
)


@BOTH
def test_entities_of_an_export_are_read_exactly(entities, file):
    path = file("export.json", json.dumps([entities(*GOLD), entities()]))
    assert found(path) == ([("PER", "Ada Brandt"), ("LOC", "Port Lisse")], {})
    assert [len(s) for s in read_data(path)] == [9, 3, 9, 3]
    assert found(file("export.jsonl", rows(entities(*GOLD)))) == found([entities(*GOLD)])


@BOTH
def test_overlapping_and_misaligned_entities_are_counted(entities, file):
    path = file("e.json", json.dumps([entities(Entity("ORG", 9, 35), Entity("PER", 9, 17), Entity("LOC", 25, 28))]))
    read = load_data(path)
    assert read.counts() == {
        "entities that overlap another one; the tags contain only the outermost": 2,
        "entities widened to whole words": 2,
    }
    assert any("widened to 'Ada Brandt'" in str(note) for note in read.notes)
    with pytest.raises(ValueError, match=r"e.json:1.* is outside the"):
        load_data(file("e.json", json.dumps([entities(Entity("PER", 9, 900), text=TEXT.replace("🚀", "x"))])))


@pytest.mark.parametrize("unit", CODECS)
@given(text=st.text(max_size=12), place=st.integers(0, 12))
def test_positions_in_every_unit(unit, text, place):
    codec, width = CODECS[unit]
    units = len(text[:place].encode(codec)) // width
    assert position(text, units, unit) == min(place, len(text))
    assert position(text, len(text.encode(codec)) // width + 1, unit) is None
    if len(text[place : place + 1].encode(codec)) > width:
        assert position(text, units + 1, unit) is None


def test_regions_as_label_studio_writes_them():
    across = "of Ada\n\n  Brandt"
    text = f"It is {across}."
    start = text.index("Ada")
    shown = task(region(start, start + 13, "PER", text, own="Ada\\n\\n Brandt"), text=text)
    assert found([shown])[0] == [("PER", "Ada Brandt")]
    bare = task(region(9, 19, "PER", None))
    assert found([bare]) == ([("PER", "Ada Brandt")], {})
    both = task({**region(9, 19, "PER"), "value": {"start": 9, "end": 19, "labels": ["PER", "HERO"]}})
    assert found([both])[1] == {"entities that overlap another one; the tags contain only the outermost": 1}
    with pytest.raises(ValueError, match="record 1 of the given data: the entity 'Ada' differs from the text at 9:12"):
        found([task(region(9, 12, "PER", own="Ada"), text=TEXT.replace("Ada", "Eve"))])
    with pytest.raises(ValueError, match="a region has a start and an end in characters"):
        found([task({**region(0, 3, "PER"), "value": {"start": "/p[1]", "end": "/p[1]", "labels": ["PER"]}})])


def placed(kind, value, names=("PER",), **more):
    """A region as Label Studio writes it for a page, a dialogue, …"""
    value = {**value, kind: list(names)}
    return {"id": "r", "from_name": "ner", "to_name": "text", "type": kind, "value": value} | more


NODE = {"start": "/text()[1]", "end": "/text()[1]", "startOffset": 9, "endOffset": 19}
GLOBAL = {"start": "/p[1]/text()[1]", "end": "/p[2]/text()[1]", "startOffset": 2, "endOffset": 4}
GLOBAL |= {"globalOffsets": {"start": 9, "end": 19}}
OWN = {"text": "Ada Brandt"}
PAGE = "<p>The 🚀 of</p><p>Ada Brandt left.</p>"


@pytest.mark.parametrize(
    "part",
    [
        placed("hypertextlabels", GLOBAL | OWN),
        placed("hypertextlabels", GLOBAL),
        placed("hypertextlabels", NODE | OWN),
        placed("hypertextlabels", NODE),
        placed("hypertextlabels", NODE | OWN | {"startOffset": 10, "endOffset": 20}),  # in UTF-16 units
        placed("hypertextlabels", NODE | OWN | {"globalOffsets": {"start": 10, "end": 20}}),
        placed("htmllabels", GLOBAL | OWN),
        placed("labels", GLOBAL | OWN),
        placed("labels", NODE),
        placed("paragraphlabels", {"start": "0", "end": "0", "startOffset": 9, "endOffset": 19} | OWN),
        placed("taxonomy", GLOBAL | OWN, [["PER"]]),
    ],
)
def test_regions_of_pages_are_read_where_their_text_stands(part, file):
    """HyperText, older HTML labels, Labels over HyperText, Paragraphs, Taxonomy; by all or by a node's offsets."""
    read, counts = found(file("e.json", json.dumps([task(part), task(text="It rained.")])))
    assert read == [("PER", "Ada Brandt")] and set(counts) <= {CONVERTED.format(UTF_16)}


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (placed("hypertextlabels", GLOBAL | OWN), PAGE),
        (placed("hypertextlabels", GLOBAL), PAGE),
        (placed("hypertextlabels", {k: v for k, v in GLOBAL.items() if k != "globalOffsets"}), TEXT),
        (placed("labels", GLOBAL), PAGE),
        (placed("htmllabels", NODE | {"text": "Eve"}), TEXT),
        (placed("paragraphlabels", {"start": "1", "end": "2", "startOffset": 0, "endOffset": 4}), TEXT),
        (placed("taxonomy", NODE | {"text": "Eve"}, [["Living", "PER"]]), TEXT),
    ],
)
def test_a_text_with_a_region_that_has_no_place_in_it_is_not_gold_and_is_counted(part, text, file):
    """One such region among others is enough; a text that learned "no entity" from it would be a false negative."""
    records = [task(part, region(9, 19, "PER", text), text=text), task(region(9, 19, "PER"))]
    assert found(file("e.json", json.dumps(records))) == ([("PER", "Ada Brandt")], {annotations.UNREAD: 1})
    only = file("f.json", json.dumps([task(part, text=text)]))
    with pytest.raises(ValueError, match=rf"f.json:1: none of the 1 records .*{part['type']}, .* has no offsets in"):
        load_data(only)


def test_what_is_about_a_picture_or_about_a_region_does_not_make_a_text_unread():
    box = {"x": 1, "y": 2, "width": 3, "height": 4}
    series = {"start": 1, "end": 9, "instant": False}
    relation = {"from_id": "x", "to_id": "r", "type": "relation", "direction": "right"}
    rating = {"id": "x", "from_name": "sure", "to_name": "text", "type": "rating", "value": NODE | OWN | {"rating": 3}}
    others = [placed("rectanglelabels", box), placed("timeserieslabels", series), relation, rating]
    left = {NOT_READ.format("relation, sure"): 1}
    assert found([task(region(9, 19, "PER"), *others)]) == ([("PER", "Ada Brandt")], left)
    about = placed("taxonomy", NODE | OWN, [["a", "b"]], id="x", from_name="more")
    (note,) = load_data([task(region(9, 19, "PER"), about)]).notes
    assert note.what == "choices about a region and not about the text, left out"


def test_a_question_that_nobody_answered_is_not_answered_with_nothing():
    two = [record(ner=[span(9, 19, "PER")], topic="news"), record(topic="news"), record(ner=[])]
    assert found(two) == ([("PER", "Ada Brandt")], {annotations.UNANNOTATED: 1, NOT_READ.format("topic"): 2})
    for other in (record(topic="news"), task(choice("news"))):
        with pytest.raises(ValueError, match="no entities, but answers of another kind under 'topic'"):
            found([other, task(text="It rained.") if "data" in other else record(text="It rained.")])


def test_what_nobody_annotated_is_left_out_and_counted(file):
    skipped = task(region(9, 19, "PER")) | {"annotations": [{"result": [], "was_cancelled": True}]}
    empty = {
        "data": {"text": "It rained."},
        "annotations": [],
        "predictions": [{"result": [region(0, 2, "PER", None)]}],
    }
    path = file(
        "e.json",
        json.dumps(
            [empty, task(region(9, 19, "PER")), skipped, task({**region(9, 19, ""), "value": {"start": 9, "end": 19}})]
        ),
    )
    assert found(path) == (
        [("PER", "Ada Brandt")],
        {annotations.UNANNOTATED: 2, "regions without a label, left out": 1},
    )
    draft = record(ner=[span(9, 19, "PER")])
    draft["responses"]["ner"][0]["status"] = "draft"
    assert found([draft, record(ner=[span(9, 19, "PER")])])[1] == {annotations.UNANNOTATED: 1}
    with pytest.raises(ValueError, match=r"e.json:1: none of the 2 records is annotated for this task"):
        load_data(file("e.json", json.dumps([empty, skipped])))


def test_of_several_annotators_the_first_or_the_ground_truth_is_read():
    mine, other = {"result": [region(9, 19, "PER")]}, {"result": [region(25, 35, "LOC")]}
    two = task() | {"annotations": [mine, other]}
    assert found([two]) == ([("PER", "Ada Brandt")], {annotations.SEVERAL: 1})
    assert found([task() | {"annotations": [mine, mine]}])[1] == {}
    assert found([task() | {"annotations": [mine, other | {"ground_truth": True}]}])[0] == [("LOC", "Port Lisse")]
    three = record(ner=[]) | {"responses": {"ner": [{"value": [span(9, 19, "PER")]}, {"value": []}]}}
    assert found([three]) == ([("PER", "Ada Brandt")], {annotations.SEVERAL: 1})


def test_the_question_and_the_text_can_be_chosen():
    two = task(region(9, 19, "PER"), region(25, 35, "NP", name="chunks"), choice("news"))
    with pytest.raises(ValueError, match="answers under 'ner', 'chunks'; choose with --tag-column"):
        found([two])
    assert found([two], tag_column="chunks")[0] == [("NP", "Port Lisse")]
    with pytest.raises(ValueError, match="no entities under 'topic'"):
        found([two], tag_column="topic")
    odd = task(region(9, 19, "PER")) | {"data": {"body": TEXT, "source": "harbour", "n": 3}}
    with pytest.raises(
        ValueError, match="no text under 'text' \\(found: body, source, n\\); choose with --word-column"
    ):
        found([odd])
    assert found([odd], word_column="body")[0] == [("PER", "Ada Brandt")]
    only = task(region(9, 19, "PER")) | {"data": {"body": TEXT, "n": 3}}
    assert found([only])[0] == [("PER", "Ada Brandt")]
    assert found([record(ner=[span(9, 19, "PER")], topic="news", sure=[])], tag_column="ner")[0] == [
        ("PER", "Ada Brandt")
    ]


@pytest.mark.parametrize(
    "made",
    [lambda *names: task(choice(*names)), lambda *names: record(topic=list(names) if len(names) != 1 else names[0])],
)
def test_labels_of_texts(made, file):
    path = file("e.json", json.dumps([made("news"), made("weather")]))
    assert [t.label for t in read_texts(path)] == ["news", "weather"]
    several = [made("news"), made("weather", "sport")]
    assert [t.labels for t in read_texts(several)] == [("news",), ("weather", "sport")]
    assert [t.labels for t in read_texts([record(topic=["news"]), record(topic=[])])] == [("news",), ()]
    notes: list = []
    assert [t.label for t in read_texts([made("news"), made()], notes=notes)] == ["news"]
    about = {**choice("true"), "value": {"choices": ["true"], "start": 9, "end": 19, "text": "Ada Brandt"}}
    assert [t.label for t in read_texts([task(choice("news"), about)], notes=notes)] == ["news"]
    assert [note.what for note in notes] == [
        annotations.LABELLESS,
        "choices about a region and not about the text, left out",
    ]
    with pytest.warns(UserWarning, match=r"data given in memory: 1 annotated record without a label, left out"):
        boustro.Classifier.read([made("news"), made()])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda r: {"text": "x"}, "expected a task with data and annotations"),
        (lambda r: r | {"annotations": [3]}, "an annotation is an object with a result"),
        (lambda r: r | {"annotations": [{"result": [3]}]}, "a result is an object"),
        (lambda r: r | {"annotations": [{"result": [{"type": "labels"}]}]}, "a result has a from_name and a value"),
        (lambda r: task(region(9, 19, "x") | {"value": {"start": 1, "end": 2, "labels": [3]}}), "a list of names"),
        (lambda r: task(placed("hypertextlabels", GLOBAL) | {"value": None}), "a result has a from_name and a value"),
        (lambda r: task(placed("htmllabels", GLOBAL) | {"from_name": ["x"]}), "a result has a from_name and a value"),
        (lambda r: r | {"data": {}}, r"no text under 'text' \(found: nothing\)"),
        (lambda _: {"fields": {"text": "x"}}, "expected a record with fields and responses"),
        (lambda _: record() | {"responses": {"ner": 3}}, "responses are a list of objects"),
        (lambda _: record(ner=[{"start": 0}]), "an entity is"),
    ],
)
def test_damaged_tasks_and_records_are_refused_with_their_place(damage, message, file):
    good = task(region(9, 19, "PER"))
    if "fields" in damage(good):
        good = record(ner=[span(9, 19, "PER")])
    with pytest.raises(ValueError, match=rf"e.json:\d: .*{message}"):
        load_data(file("e.json", json.dumps([good, damage(good)])))


def test_other_records_stay_as_they_are():
    plain = [(1, {"text": "x", "entities": []}), (2, 3)]
    assert list(plain_records(iter(plain), "entities", [])) == plain and list(plain_records([], "label", [])) == []


@pytest.fixture(scope="module")
def tagger(tagger_folder):
    return boustro.Tagger.from_pretrained(tagger_folder), tagger_folder


LINES = ["🚀 In Vellmar it rained.", "Nobody reads.", "Professor Ada Calloway sold umbrellas."]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("form", TOOLS)
def test_labels_are_suggested(form, several, tiny_pair):
    labels = [["news"], ["weather", "sport"]] if several else ["news", "weather"]
    model = boustro.Classifier(tiny_pair, hidden=8, epochs=1).fit(
        list(zip(("Ada left.", "It rained."), labels, strict=True))
    )
    (answer,) = model.answer_inputs(["It rained."])
    result, shown = model.result(answer), model.show(answer, form)
    assert "class" not in json.dumps(shown)
    expected = tuple(result.labels) if several else (result.label,)
    if form == "labelstudio" and expected:
        (part,) = shown["predictions"][0]["result"]
        assert (part["type"], part["from_name"], tuple(part["value"]["choices"])) == ("choices", "choice", expected)
        assert part["score"] == pytest.approx(min(result.probabilities[x] for x in expected), abs=1e-4)
    elif form == "argilla" and expected:
        own = shown["suggestions"]["labels" if several else "label"]
        assert own["value"] == (list(expected) if several else expected[0])


def test_argillas_own_client_reads_the_suggestions(tagger):
    rg = pytest.importorskip("argilla")
    model, _ = tagger
    (answer,) = model.answer_inputs([LINES[0]])
    shown = TOOLS["argilla"].carry(model.show(answer, "argilla"), {"id": 7})
    again = rg.Record.from_dict(shown).to_dict()
    assert {key: again[key] for key in shown} == shown and shown["suggestions"]["entities"]["value"]


def test_label_studios_own_checker_takes_the_suggestions(tagger):
    interface = pytest.importorskip("label_studio_sdk.label_interface").LabelInterface
    control = '<Labels name="label" toName="text"><Label value="PER"/><Label value="LOC"/></Labels>'
    project = interface(f'<View><Text name="text" value="$text"/>{control}</View>')
    model, _ = tagger
    for answer in model.answer_inputs(LINES):
        (prediction,) = model.show(answer, "labelstudio")["predictions"]
        assert project.validate_prediction(prediction, return_errors=True) == []
    assert project.validate_prediction({**prediction, "result": [choice("x")]}, return_errors=True)
