"""Relations between two places of a text: what is read, the score, the head, and the task from data to a folder."""

import numpy as np
import pytest
import torch

import boustro
from boustro.heads.options import RelationOptions
from boustro.heads.registry import make_head
from boustro.heads.relation import mean_of, words_between
from boustro.metrics.relations import macro_f1, relation_counts, score_relations
from boustro.metrics.score import score_table
from boustro.tasks.data.units import WIDENED
from boustro.tasks.relation import NONE_TAKEN, OVERLAPPING, TAKEN, mark_text, read_relations
from labelled import rows

RAIN = {"text": "Rain caused the flood.", "head": [0, 4], "tail": [16, 21], "label": "Cause-Effect(e1,e2)"}
FLOOD = {"text": "The flood followed rain.", "head": [4, 9], "tail": [19, 23], "label": "Cause-Effect(e2,e1)"}
LISSE = {"text": "Ada left Port Lisse.", "head": [0, 3], "tail": [9, 19], "label": "Other"}


def refused(file, message, **changed):
    path = file("train.jsonl", rows(RAIN, {**FLOOD, **changed}))
    with pytest.raises(ValueError, match=rf"train\.jsonl:2: {message}"):
        read_relations(path)


def test_places_become_words(file):
    first, second, third = read_relations(file("train.jsonl", rows(RAIN, FLOOD, LISSE)))
    assert (first.head, first.tail, first.label) == ((0, 1), (3, 4), "Cause-Effect(e1,e2)")
    assert first.marked() == ("Rain", "flood") and third.marked() == ("Ada", "Port Lisse") and third.tail == (2, 4)
    assert second.where.endswith("train.jsonl:2") and len(second) == 5
    (again,) = read_relations([("Rain caused the flood.", (0, 4), (16, 21), "x")])
    assert again.marks == first.marks and read_relations([first]) == [first]
    dicts = read_relations([{**LISSE, "tail": {"start": 9, "end": 19}, "label": 7}])
    assert dicts[0].tail == (2, 4) and dicts[0].label == "7"


def test_bad_places_are_refused_with_their_line(file):
    refused(file, r"the entity tail \[19, 99\) is outside the 24 characters", tail=[19, 99])
    refused(file, r"the entity head \[9, 4\) is outside", head=[9, 4])
    refused(file, r"the entity head \[3, 4\) covers no word", head=[3, 4])
    refused(file, r"head and tail are the same words, 'flood'", tail=[4, 9])
    refused(file, r"head and tail are the same words, 'flood'", tail=[5, 8])
    refused(file, r"head is \[1, 2, 3\]; expected \[start, end\)", head=[1, 2, 3])
    refused(file, r"tail is \[True, 4\]; expected", tail=[True, 4])
    refused(file, r"the label under 'label' is \[\]; expected the name of a relation", label=[])
    refused(file, "the text is 3, which is not a string", text=3)
    path = file("train.jsonl", rows({"text": "Ada left.", "head": [0, 3], "label": "x"}))
    with pytest.raises(ValueError, match=r"train\.jsonl:1: no tail under 'tail' \(found: text, head, label\)"):
        read_relations(path)


def test_places_inside_words_and_overlapping_ones_are_counted():
    notes = []
    text = "The old city-hall of Lisse fell."
    inside, nested = read_relations(
        [
            {"text": text, "head": [8, 12], "tail": [21, 26], "label": "x"},
            {"text": text, "head": [8, 26], "tail": [21, 26], "label": "y"},
        ],
        notes=notes,
    )
    assert inside.marked() == ("city-hall", "Lisse") and nested.marked() == ("city-hall of Lisse", "Lisse")
    assert [note.what for note in notes] == [WIDENED, OVERLAPPING]


def test_places_in_another_unit_are_converted():
    """A rocket is one character, two UTF-16 units."""
    notes = []
    record = {"text": "🚀 Ada left Lisse.", "head": [3, 6], "tail": [12, 17], "label": "x"}
    (example,) = read_relations([record], notes=notes)
    assert example.marked() == ("Ada", "Lisse") and len(notes) == 2
    assert mark_text({**record, "head": [2, 5], "tail": [11, 16]}, "here").marked() == ("Ada", "Lisse")


def test_the_score_is_the_official_one_worked_by_hand():
    """Cause-Effect: 2 gold, 2 answered (one in the wrong direction), 1 right. Entity-Origin: 1 gold, 1 answered, 0."""
    gold = ["Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Other", "Entity-Origin(e1,e2)"]
    found = ["Cause-Effect(e1,e2)", "Cause-Effect(e1,e2)", "Entity-Origin(e1,e2)", "Other"]
    score = score_relations(gold, found)
    assert score.f1 == score.value == 25 and score.accuracy == 25
    shown = score.to_dict()
    assert (shown["precision"], shown["recall"]) == (25, 25)
    assert shown["per_label"]["Cause-Effect"] == {"f1": 50, "precision": 50, "recall": 50, "num_texts": 2}
    assert shown["per_label"]["Entity-Origin"]["f1"] == 0 and "Other" not in shown["per_label"]
    assert shown["micro_f1"] == pytest.approx(100 * 2 * 1 / (3 + 3))
    assert score_table(shown)[-1] == ["all", "25.00", "25.00", "25.00", "3"]


def test_the_mean_is_of_the_f1_and_not_of_precision_and_recall():
    """A: 1 of 1 answered right, 1 of 2 gold: P 100, R 50, F1 66.7. B: 1 of 2 answered, 1 of 1 gold: the same."""
    score = score_relations(["A", "A", "B", "Other"], ["A", "B", "B", "Other"])
    assert score.f1 == pytest.approx(200 / 3) and score.to_dict()["precision"] == 75


def test_relations_that_the_reference_lacks_count_as_none():
    """In the official scorer they are answers of Other: only the recall of the relation that was missed suffers."""
    lost, other = (score_relations(["A(e1,e2)", "A(e1,e2)"], ["A(e1,e2)", said]) for said in ("B(e1,e2)", "Other"))
    assert lost.to_dict() == other.to_dict() and lost.f1 == pytest.approx(200 / 3)
    assert score_relations(["Other"], ["no_relation"]).f1 == score_relations([], []).f1 == 0


@pytest.mark.parametrize(
    "label", ["no-relation", "No Relation", "NO_RELATION", "none", "N/A", "_Other", "null", "Nota"]
)
def test_no_relation_has_many_spellings(label):
    """A: 1 of 1 answered right, 1 of 2 gold, so F1 66.7; the pair without a relation is no relation of its own."""
    score = score_relations(["A", "A", label], ["A", label, label])
    assert score.f1 == pytest.approx(200 / 3) and score.signature["no_relation"] == label
    named = score_relations(["A", "A", "nothing", label], ["A", "nothing", "nothing", label], None, "nothing")
    assert set(named.per_relation) == {"A", label} and named.signature["no_relation"] == "nothing"


def test_the_label_of_no_relation_is_named_and_said(tiny_pair):
    train, small = [*PAIRS[:3], {**PAIRS[3], "label": "nothing here"}], {"epochs": 1, "hidden": 8, "cache": False}
    with pytest.raises(ValueError, match=r"there are left\(e1,e2\), left\(e2,e1\), nothing here"):
        boustro.RelationClassifier(tiny_pair, no_relation_label="Nothing", **small).fit(train)
    plain, named = (
        boustro.RelationClassifier(tiny_pair, no_relation_label=label, **small).fit(train)
        for label in (None, "nothing here")
    )
    assert [model.record["notices"] for model in (plain, named)] == [{NONE_TAKEN: 4}, {f"{TAKEN}: nothing here": 1}]
    score = named.evaluate(train)
    assert score.signature["no_relation"] == "nothing here" and "nothing here" not in score.per_relation


def test_a_direction_is_only_one_of_two():
    """A label that ends otherwise is a relation by itself."""
    score = score_relations(["born(in)", "born(at)"], ["born(in)", "born(in)"])
    assert set(score.per_relation) == {"born(in)", "born(at)"}


def test_the_bootstrap_has_the_same_score():
    labels = ["A(e1,e2)", "A(e2,e1)", "B(e1,e2)", "Other"]
    generator = np.random.default_rng(1)
    gold, found = ([labels[i] for i in generator.integers(0, 4, 40)] for _ in range(2))
    values = relation_counts(gold, found)
    assert macro_f1(values[None], np.ones((1, 40)))[0, 0] == pytest.approx(score_relations(gold, found).f1)
    times = generator.integers(0, 3, 40)
    drawn = [[label for label, n in zip(side, times, strict=True) for _ in range(n)] for side in (gold, found)]
    assert macro_f1(values[None], times[None].astype(float))[0, 0] == pytest.approx(score_relations(*drawn).f1)
    assert macro_f1(relation_counts(["Other"], ["Other"])[None], np.ones((1, 1))).tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("first", "second", "between"),
    [
        ([0, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, 1, 0]),
        ([0, 0, 0, 0, 1], [0, 1, 0, 0, 0], [0, 0, 1, 1, 0]),
        ([1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]),
        ([0, 1, 1, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]),
    ],
)
def test_the_words_between_two_places(first, second, between):
    twice = (torch.tensor([*own, *own], dtype=torch.float) for own in (first, second))
    assert words_between(*twice, torch.tensor([5, 5])).tolist() == [*between, *between]


def test_a_place_is_the_mean_of_its_words():
    z = torch.tensor([[1.0], [3.0], [5.0], [7.0]])
    chosen, lengths = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([3, 1])
    assert mean_of(z, chosen, lengths).tolist() == [[2.0], [0.0]]


def test_the_head_reads_the_places():
    """The same text with other places has other scores; what else is in the batch changes nothing."""
    torch.manual_seed(1)
    head = make_head("relation", RelationOptions(hidden=8, dropout=0.0), ((1, 4),), ("a", "b", "c"), side=2)
    head, words = head.eval().requires_grad_(False), torch.randn(5, 4)
    marks = torch.tensor([[0, 1, 0, 0, 0], [0, 0, 0, 1, 0]], dtype=torch.float).T
    swapped = marks.flip(1)
    one, other = (torch.cat([words, own], 1) for own in (marks, swapped))
    lengths = torch.tensor([5])
    alone = head.predict(one, lengths)[0]
    assert not np.allclose(alone, head.predict(other, lengths)[0])
    both = head.predict(torch.cat([other, one]), torch.tensor([5, 5]))
    np.testing.assert_allclose(both[1], alone, rtol=1e-5, atol=1e-6)


TEXT = "Ada left Port Lisse, and Brandt left Vellmar."
PAIRS = [
    {"text": TEXT, "head": [0, 3], "tail": [9, 19], "label": "left(e1,e2)"},
    {"text": TEXT, "head": [9, 19], "tail": [0, 3], "label": "left(e2,e1)"},
    {"text": TEXT, "head": [25, 31], "tail": [37, 44], "label": "left(e1,e2)"},
    {"text": TEXT, "head": [0, 3], "tail": [37, 44], "label": "Other"},
]


@pytest.fixture(scope="module")
def classifier(tiny_pair):
    return boustro.RelationClassifier(tiny_pair, epochs=60, hidden=32, cache=False).fit([*PAIRS, RAIN, FLOOD], seed=1)


def test_pairs_in_one_text_have_their_own_answers(classifier):
    asked = [{key: pair[key] for key in ("text", "head", "tail")} for pair in PAIRS]
    assert [found.label for found in classifier.predict(asked)] == [pair["label"] for pair in PAIRS]
    alone, beside = classifier.predict((TEXT, (0, 3), (9, 19))), classifier.predict(asked)[0]
    assert alone == classifier.predict(asked[0]) and alone.score == pytest.approx(beside.score, abs=1e-5)
    assert classifier.evaluate(PAIRS).f1 == 100


def test_a_text_is_encoded_once_whatever_its_pairs(classifier, monkeypatch):
    """And it never sees its own copies: alone it has the same vectors."""
    examples = read_relations(PAIRS)
    inputs, alone = classifier.fitted.inputs(examples), classifier.fitted.inputs(examples[2:3])
    assert len(inputs) == 4 and len(inputs.lengths) == 1 and inputs.sizes.tolist() == [len(examples[0])] * 4
    for together, own in zip(inputs.streams, alone.streams, strict=True):
        np.testing.assert_array_equal(together, own)
    assert inputs.batch(np.array([1])).side.T.tolist() == [[0, 0, 1, 1, *[0] * 6], [1, *[0] * 9]]


def test_words_are_left_out_and_the_places_move_with_them():
    (example,) = read_relations(PAIRS[2:3])
    shorter = list(example.without_each())
    assert [shorter[i] for i in range(len(example)) if shorter[i] is None] == [None, None]
    assert all(own.marked() == ("Brandt", "Vellmar") for own in shorter if own)
    assert shorter[0].words[0] == "left" and shorter[0].tail == (7, 8) and shorter[-1].words[-1] == "Vellmar"


def test_a_folder_opens_agrees_and_shows_its_places(classifier, tmp_path):
    classifier.save_pretrained(tmp_path / "r")
    again = boustro.RelationClassifier.from_pretrained(tmp_path / "r", cache=False)
    assert again.predict(PAIRS) == classifier.predict(PAIRS)
    first, second = again.answer_inputs(PAIRS[:2])
    record = again.to_record(first)
    assert record["label"] == "left(e1,e2)" and 0 < record["score"] <= 1
    label, _, text = again.show(second, "text").split("\t")
    assert (label, text) == ("left(e2,e1)", "[Ada tail] left [Port Lisse head], and Brandt left Vellmar.")
    assert "<mark" in again.show(first, "html")
    score = again.evaluate([*PAIRS, RAIN])
    assert score.value == 100 and set(score.to_dict()["per_label"]) == {"left", "Cause-Effect"}


@pytest.mark.parametrize("unit", ["utf-16-le", "utf-8"])
def test_a_classifier_answers_places_in_another_unit(classifier, unit):
    """Two emoji before the names: 'Ada' is at [3, 6), at [5, 8) in UTF-16 units, at [9, 12) in bytes."""
    width = {"utf-16-le": 2, "utf-8": 1}[unit]
    records = [record | {"text": f"🚀🚀 {record['text']}"} for record in PAIRS]
    plain = [{**r, **{key: [place + 3 for place in r[key]] for key in ("head", "tail")}} for r in records]
    plain += PAIRS * 3  # texts in which all units are equal say nothing
    moved = [
        {**r, **{key: [len(r["text"][:place].encode(unit)) // width for place in r[key]] for key in ("head", "tail")}}
        for r in plain
    ]
    assert moved[0]["head"] == {2: [5, 8], 1: [9, 12]}[width] and plain[0]["head"] == [3, 6]
    with pytest.warns(UserWarning, match="8 places given in"):
        assert classifier.predict(moved) == classifier.predict(plain)
    with pytest.warns(UserWarning, match="2 places given in"):
        assert classifier.predict(moved[0]) == classifier.predict(plain[0])
