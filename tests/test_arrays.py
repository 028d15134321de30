"""Entities counted from arrays are those of `metrics.spans`, on any tag sequence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.metrics.arrays import compare_spans, find_spans
from boustro.metrics.spans import extract_spans, score_spans, total_counts

TAGS = ("O", "B-A", "I-A", "B-B", "I-B")
SENTENCES = st.lists(st.lists(st.tuples(*[st.integers(0, 4)] * 2), max_size=6), max_size=6)


@given(SENTENCES)
def test_they_agree_with_conlleval_on_any_sequence(sentences):
    starts = np.concatenate([[0], np.cumsum([len(s) for s in sentences], dtype=int)])
    ids = np.array([pair for s in sentences for pair in s], int).reshape(-1, 2)
    gold, predicted = (find_spans(column, TAGS, starts, "AB") for column in ids.T)
    texts = [[[TAGS[pair[side]] for pair in s] for s in sentences] for side in (0, 1)]
    expected = [
        (e.label, e.start + start, e.end + start)
        for tags, start in zip(texts[0], starts, strict=False)
        for e in extract_spans(tags)
    ]
    found = list(zip([gold.labels[i] for i in gold.label], gold.first, gold.stop, strict=True))
    assert found == expected
    per_label, wanted = compare_spans(gold, predicted), score_spans(*texts)
    assert {k: v for k, v in per_label.items() if v.gold or v.predicted} == wanted.per_type
    assert total_counts(per_label) == wanted.total


def test_the_example_of_the_module():
    found = find_spans(np.array([0, 2, 2, 1]), ["O", "B-PER", "I-PER"], np.array([0, 4]), ["PER"])
    assert found.first.tolist() == [1, 3] and found.stop.tolist() == [3, 4]


@pytest.mark.parametrize("tag", ["S-A", "B-C"])
def test_other_tags_are_refused(tag):
    with pytest.raises(ValueError, match="cannot be counted:"):
        find_spans(np.zeros(1, int), [tag], np.array([0, 1]), ["A"])
