"""Buckets of entities: every one in exactly one bucket, the counts those of the whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.metrics.buckets import DIMENSIONS, ELSEWHERE, START, Training, count_buckets
from boustro.metrics.spans import extract_spans, score_spans
from boustro.types import Entity

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SENTENCES = st.lists(
    st.integers(1, 42).flatmap(
        lambda n: st.tuples(
            st.lists(st.sampled_from(["Ada", "Lisse", "Port", "said"]), min_size=n, max_size=n),
            *(st.lists(st.sampled_from(TAGS), min_size=n, max_size=n) for _ in range(3)),
        )
    ),
    min_size=1,
    max_size=3,
)


@given(SENTENCES)
def test_over_the_buckets_the_counts_add_up_to_the_whole(sentences):
    training = Training.of((words, extract_spans(shown)) for words, shown, _, _ in sentences[:2])
    words, _, gold, predicted = zip(*sentences, strict=True)
    whole = score_spans(gold, predicted).total
    sides = [[extract_spans(tags) for tags in side] for side in (gold, predicted)]
    for dimension in DIMENSIONS.values():
        counts = count_buckets(dimension, training, words, *sides)
        assert tuple(counts) == dimension.buckets
        for side in ("gold", "predicted", "correct"):
            assert sum(getattr(c, side) for c in counts.values()) == getattr(whole, side)


def place(name, entity, words, training=None):
    dimension = DIMENSIONS[name]
    return dimension.buckets[dimension.place(entity, words, training or Training())]


@pytest.mark.parametrize(
    ("name", "start", "end", "bucket"),
    [
        ("position", 0, 2, START),
        ("position", 1, 2, ELSEWHERE),
        ("before", 0, 1, "0"),
        ("before", 2, 3, "1–2"),
        ("before", 3, 4, "3–5"),
        ("before", 11, 12, "11+"),
        ("after", 11, 12, "0"),
        ("after", 10, 11, "1–2"),
        ("after", 0, 1, "11+"),
        ("length", 4, 5, "1"),
        ("length", 4, 7, "3"),
        ("length", 4, 10, "4+"),
        ("sentence", 0, 1, "10–19"),
    ],
)
def test_an_entity_of_a_sentence_of_twelve_words(name, start, end, bucket):
    assert place(name, Entity("PER", start, end), ["w"] * 12) == bucket


def test_what_training_has_shown_goes_by_the_exact_words_and_the_type():
    shown = [(["Port", "Lisse", "Jordan"], [Entity("LOC", 0, 2), Entity("PER", 2, 3)])] * 3
    training = Training.of(shown)
    words = ["Port", "Lisse", "and", "Lisse", "jordan", "Jordan"]
    for entity, seen, frequency in [
        (Entity("LOC", 0, 2), "seen with this type", "2–4"),
        (Entity("ORG", 0, 2), "seen with another type only", "0"),
        (Entity("LOC", 3, 4), "never seen", "0"),  # a part of what was seen
        (Entity("PER", 4, 5), "never seen", "0"),  # another case
        (Entity("PER", 5, 6), "seen with this type", "2–4"),
    ]:
        assert place("seen", entity, words, training) == seen
        assert place("frequency", entity, words, training) == frequency


def test_recall_goes_by_the_reference_and_precision_by_what_was_predicted():
    counts = count_buckets(
        DIMENSIONS["position"], Training(), [["w"] * 4], [[Entity("PER", 0, 1)]], [[Entity("PER", 1, 2)]]
    )
    assert (counts[START].gold, counts[START].predicted) == (1, 0)
    assert (counts[ELSEWHERE].gold, counts[ELSEWHERE].predicted) == (0, 1)
