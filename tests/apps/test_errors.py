"""What a report counts of entities: kinds of mistakes, and the buckets they stand in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.studies.report.buckets import (
    DIMENSIONS,
    ELSEWHERE,
    INITIAL,
    MISTAKES,
    OUTCOMES,
    Training,
    count_buckets,
    count_confusions,
    count_kinds,
    match_entities,
)
from boustro.metrics.spans import extract_spans, score_entities, score_spans
from boustro.types import Entity

TAGS = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"]
PAIRS = st.integers(1, 14).flatmap(
    lambda n: st.tuples(*(st.lists(st.sampled_from(TAGS), min_size=n, max_size=n) for _ in range(2)))
)
SWAPPED = {"missed": "spurious", "spurious": "missed"}


@pytest.mark.parametrize(
    ("gold", "predicted", "kinds"),
    [
        ([("PER", 0, 2)], [("PER", 0, 2)], ["correct"]),
        ([("PER", 0, 2)], [("LOC", 0, 2)], ["type"]),
        ([("PER", 0, 2)], [("PER", 1, 3)], ["boundary"]),
        ([("PER", 0, 2)], [("LOC", 1, 2)], ["both"]),
        ([("PER", 0, 2)], [("PER", 2, 3)], ["missed", "spurious"]),
        ([("PER", 0, 2)], [], ["missed"]),
        ([], [("PER", 0, 2)], ["spurious"]),
        ([("ORG", 1, 5)], [("ORG", 1, 2), ("LOC", 3, 5)], ["boundary", "spurious"]),  # the module's example
        ([("ORG", 0, 4)], [("ORG", 0, 1), ("ORG", 1, 4)], ["spurious", "boundary"]),  # the larger overlap wins
        ([("ORG", 0, 4)], [("LOC", 0, 3), ("ORG", 3, 4)], ["spurious", "boundary"]),  # the type wins over the size
        ([("ORG", 0, 2), ("ORG", 2, 4)], [("ORG", 0, 4)], ["boundary", "missed"]),  # a tie goes to the earlier
    ],
)
def test_small_cases(gold, predicted, kinds):
    matches = match_entities([Entity(*g) for g in gold], [Entity(*p) for p in predicted])
    assert [m.kind for m in matches] == kinds


@given(PAIRS)
def test_every_entity_is_accounted_for_once(pair):
    gold, predicted = map(extract_spans, pair)
    matches = match_entities(gold, predicted)
    assert sorted(m.gold for m in matches if m.gold) == sorted(gold)
    assert sorted(m.predicted for m in matches if m.predicted) == sorted(predicted)
    counts = count_kinds(matches)
    assert tuple(counts) == OUTCOMES and set(MISTAKES) == set(OUTCOMES) - {"correct"}
    met = sum(counts[kind] for kind in ("correct", "type", "boundary", "both"))
    assert met + counts["missed"] == len(gold) and met + counts["spurious"] == len(predicted)
    assert counts["correct"] == score_spans([pair[0]], [pair[1]]).total.correct


@given(PAIRS)
def test_what_overlaps_nothing_that_is_free_stays_alone_and_only_that(pair):
    gold, predicted = map(extract_spans, pair)
    matches = match_entities(gold, predicted)
    for lost in (m.gold for m in matches if m.kind == "missed"):
        for extra in (m.predicted for m in matches if m.kind == "spurious"):
            assert min(lost.end, extra.end) <= max(lost.start, extra.start)  # else they would have met


@given(PAIRS)
def test_seen_from_the_other_side_missed_is_spurious(pair):
    gold, predicted = map(extract_spans, pair)
    there = sorted(
        (SWAPPED.get(m.kind, m.kind), m.predicted, m.gold) for m in match_entities(gold, predicted) if m.gold
    )
    back = sorted((m.kind, m.gold, m.predicted) for m in match_entities(predicted, gold) if m.predicted)
    assert [str(row) for row in there] == [str(row) for row in back]


@given(PAIRS)
def test_rows_and_columns_of_the_confusions_are_the_entities_of_a_type(pair):
    gold, predicted = map(extract_spans, pair)
    confusions = count_confusions(match_entities(gold, predicted))
    for label in ("PER", "LOC", "ORG"):
        assert sum(n for (g, _), n in confusions.items() if g == label) == sum(e.label == label for e in gold)
        assert sum(n for (_, p), n in confusions.items() if p == label) == sum(e.label == label for e in predicted)
    assert (None, None) not in confusions


NESTED = st.lists(
    st.builds(lambda label, start, size: Entity(label, start, start + size), st.sampled_from(["PER", "LOC"]),
              st.integers(0, 6), st.integers(1, 5)),
    unique=True, max_size=7,
)  # fmt: skip


@given(NESTED, NESTED, st.randoms(use_true_random=False))
def test_entities_that_hold_and_cross_each_other_are_accounted_for_once_whatever_their_order(gold, predicted, shuffle):
    matches = match_entities(gold, predicted)
    assert sorted(m.gold for m in matches if m.gold) == sorted(gold)
    assert sorted(m.predicted for m in matches if m.predicted) == sorted(predicted)
    assert count_kinds(matches)["correct"] == score_entities([gold], [predicted]).total.correct
    for lost in (m.gold for m in matches if m.kind == "missed"):
        for extra in (m.predicted for m in matches if m.kind == "spurious"):
            assert min(lost.end, extra.end) <= max(lost.start, extra.start)
    other = [shuffle.sample(side, len(side)) for side in (gold, predicted)]
    assert {str(m) for m in match_entities(*other)} == {str(m) for m in matches}


def test_the_entity_that_fits_closer_is_met_where_one_holds_the_other():
    """Both overlap by one word; the inner one leaves fewer words outside."""
    outer, inner, predicted = Entity("ORG", 0, 5), Entity("ORG", 3, 4), Entity("LOC", 3, 4)
    crossing = Entity("ORG", 2, 4)
    assert match_entities([outer, inner], [predicted])[1].gold == inner
    kinds = {m.gold: m.kind for m in match_entities([outer, Entity("ORG", 2, 6)], [crossing])}
    assert kinds == {outer: "missed", Entity("ORG", 2, 6): "boundary"}


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
        ("position", 0, 2, INITIAL),
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
    assert (counts[INITIAL].gold, counts[INITIAL].predicted) == (1, 0)
    assert (counts[ELSEWHERE].gold, counts[ELSEWHERE].predicted) == (0, 1)
