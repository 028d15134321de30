"""Kinds of mistakes: the identities that make them add up, and small cases worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.studies.report.buckets import MISTAKES, OUTCOMES, count_confusions, count_kinds, match_entities
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
