"""Entities out of tags: worked examples, and agreement with seqeval on any sequence, valid or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2

from boustro.metrics.bootstrap import paired_bootstrap, sentence_counts
from boustro.metrics.spans import extract_spans, score_spans
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


@given(st.lists(st.lists(st.sampled_from(["O", "B-PER", "B-LOC"]), min_size=1), min_size=1, max_size=5))
@pytest.mark.filterwarnings("ignore")
def test_on_valid_sequences_strict_and_lenient_reading_agree(gold):
    predicted = [list(reversed(tags)) for tags in gold]
    strict = f1_score(gold, predicted, mode="strict", scheme=IOB2, zero_division=0)
    assert score_spans(gold, predicted).f1 == pytest.approx(100 * strict)


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


def test_bootstrap_finds_a_real_difference_and_no_false_one():
    gold = [["B-PER", "O"]] * 200
    good = gold
    bad = [["B-PER", "O"] if i % 2 else ["O", "O"] for i in range(200)]
    difference = paired_bootstrap(sentence_counts(gold, bad), sentence_counts(gold, good))
    assert difference.reliable and difference.low < difference.points < difference.high
    assert difference.points == pytest.approx(100 - 200 * 100 / 300)
    same = paired_bootstrap(sentence_counts(gold, bad), sentence_counts(gold, bad))
    assert not same.reliable and same.points == 0


def test_entities_sort_and_compare_by_value():
    assert Entity("PER", 0, 2) == Entity("PER", 0, 2) != Entity("PER", 0, 3)
