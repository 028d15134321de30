"""Entities out of tags: worked examples, and agreement with seqeval on any sequence, valid or not.

seqeval's default reading is conlleval's; its strict mode reads valid sequences alone, and there they agree.
"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB1, IOB2, IOBES

from boustro.metrics.spans import extract_spans, is_span_tag, score_entities, score_spans
from boustro.tasks.data.schemes import encode_tags
from boustro.types import Entity

BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
BIOES = [*BIO, "E-PER", "S-PER", "E-LOC", "S-LOC"]
sequences = st.lists(st.sampled_from(BIO), min_size=1, max_size=12)
pairs = st.lists(
    st.integers(1, 10).flatmap(
        lambda n: st.tuples(*[st.lists(st.sampled_from(BIO), min_size=n, max_size=n) for _ in range(2)])
    ),
    min_size=1,
    max_size=6,
)


def spans(tags):
    return [(e.label, e.start, e.end) for e in extract_spans(tags)]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-PER I-PER O", [("PER", 1, 3)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("I-PER I-PER B-PER", [("PER", 0, 2), ("PER", 2, 3)]),
        ("O I-LOC I-PER", [("LOC", 1, 2), ("PER", 2, 3)]),
        ("B-ORG I-MISC", [("ORG", 0, 1), ("MISC", 1, 2)]),
        ("S-PER B-PER E-PER S-PER", [("PER", 0, 1), ("PER", 1, 3), ("PER", 3, 4)]),
        ("E-PER E-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-art-film I-art-film", [("art-film", 0, 2)]),
        ("O O", []),
        ("", []),
    ],
)
def test_spans_by_hand(tags, expected):
    assert spans(tags.split()) == expected


@given(sequences)
def test_any_bio_sequence_reads_as_seqeval_reads_it(tags):
    assert spans(tags) == [(label, start, end + 1) for label, start, end in get_entities(tags)]


@given(st.lists(st.sampled_from(BIOES), min_size=1, max_size=12))
def test_any_bioes_sequence_reads_as_seqeval_reads_it(tags):
    assert spans(tags) == [(label, start, end + 1) for label, start, end in get_entities(tags)]


@given(pairs)
@pytest.mark.filterwarnings("ignore")
def test_scores_equal_seqevals(data):
    gold, predicted = [list(a) for a, _ in data], [list(b) for _, b in data]
    score = score_spans(gold, predicted)
    for ours, theirs in ((score.f1, f1_score), (score.precision, precision_score), (score.recall, recall_score)):
        assert ours == pytest.approx(100 * theirs(gold, predicted, zero_division=0))


SCHEMES = {"bio": IOB2, "iob1": IOB1, "bioes": IOBES}


@st.composite
def entities_of_ten_words(draw):
    """Entities that do not overlap."""
    cuts = [0, *sorted(draw(st.sets(st.integers(1, 9)))), 10]
    spans = [(draw(st.sampled_from(["O", "PER", "LOC"])), *cut) for cut in itertools.pairwise(cuts)]
    return [Entity(*span) for span in spans if span[0] != "O"]


@st.composite
def valid_pairs(draw):
    """Entities of a few sentences as two annotators see them: the second as the first, some left out, or anew."""
    gold = draw(st.lists(entities_of_ten_words(), min_size=1, max_size=4))
    return [(g, draw(st.one_of(st.just(g), st.just(g[1:]), entities_of_ten_words()))) for g in gold]


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=valid_pairs())
@pytest.mark.filterwarnings("ignore")
def test_on_valid_sequences_of_any_scheme_conlleval_and_seqeval_agree(scheme, data):
    gold, predicted = ([list(encode_tags(pair[side], 10, scheme)) for pair in data] for side in (0, 1))
    for tags, (entities, _) in zip(gold, data, strict=True):
        assert extract_spans(tags) == entities
    ours = score_spans(gold, predicted)
    for figure, theirs in ((ours.f1, f1_score), (ours.precision, precision_score), (ours.recall, recall_score)):
        assert figure == pytest.approx(100 * theirs(gold, predicted, zero_division=0))
        strict = theirs(gold, predicted, mode="strict", scheme=SCHEMES[scheme], zero_division=0)
        assert figure == pytest.approx(100 * strict)
    assert (
        ours.to_dict()
        == score_entities([wanted for wanted, _ in data], [got for _, got in data], {"repair": "conlleval"}).to_dict()
    )


@pytest.mark.filterwarnings("ignore")
def test_strict_mode_differs_where_a_sequence_is_not_valid():
    gold, predicted = [["B-PER", "O"]], [["I-PER", "O"]]
    assert score_spans(gold, predicted).f1 == 100
    assert f1_score(gold, predicted, mode="strict", scheme=IOB2, zero_division=0) == 0


def test_overlapping_entities_are_scored_one_by_one():
    gold = [[Entity("ORG", 0, 4), Entity("LOC", 3, 4)], []]
    predicted = [[Entity("LOC", 3, 4, "Lisse", 0.9), Entity("ORG", 0, 3), Entity("LOC", 3, 4)], [Entity("PER", 0, 1)]]
    score = score_entities(gold, predicted, {"data": "x"})
    assert (score.total.gold, score.total.predicted, score.total.correct) == (2, 3, 1)
    assert score.per_type["LOC"].f1 == 100 and score.per_type["ORG"].f1 == 0 and score.num_sentences == 2
    assert score.signature == {"metric": "entity F1", "data": "x"}
    with pytest.raises(ValueError, match="2 gold sentences and 1 predicted"):
        score_entities(gold, predicted[:1])


@pytest.mark.parametrize("tag", ["NOUN", "", "B-", "PER", "B_PER", "X-PER", "-LRB-"])
def test_labels_that_are_no_spans_get_no_f1(tag):
    assert not is_span_tag(tag)
    with pytest.raises(ValueError, match="marks no span"):
        score_spans([["O", "B-PER"]], [["O", tag]])


def test_f1_is_about_entities_and_not_about_words():
    score = score_spans([["B-PER", "I-PER", "I-PER", "O"]], [["B-PER", "I-PER", "O", "O"]])
    assert (score.f1, score.total.gold, score.total.predicted) == (0.0, 1, 1)


def test_scores_carry_their_signature_and_counts():
    written = score_spans([["B-PER", "O"]], [["B-PER", "B-LOC"]], {"data": "x"}).to_dict()
    assert written["precision"] == 50 and written["recall"] == 100 and written["num_entities"] == 1
    assert written["signature"] == {"metric": "entity F1", "repair": "conlleval", "data": "x"}
    assert written["per_type"]["LOC"] == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "num_entities": 0}


def test_sequences_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="sentence 1: 2 gold tags and 1 predicted"):
        score_spans([["O", "O"]], [["O"]])


def test_entities_sort_and_compare_by_value():
    assert Entity("PER", 0, 2) == Entity("PER", 0, 2) != Entity("PER", 0, 3)
