"""Runs, their mean vectors, and the tags that they become."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from boustro.heads.factored import Runs, compose_tags, factored_tags, mean_vectors
from boustro.metrics.arrays import find_spans
from boustro.metrics.spans import extract_spans

SENTENCES = st.lists(st.lists(st.booleans(), max_size=6), max_size=6)


def lay_out(sentences):
    starts = np.concatenate([[0], np.cumsum([len(s) for s in sentences], dtype=int)])
    return np.array([w for s in sentences for w in s], bool), starts


def find_runs(inside, starts):
    spans = find_spans(inside.astype(int), ["O", "I-X"], starts, ["X"])
    return Runs(spans.first, spans.stop)


@given(SENTENCES, st.data())
def test_tags_say_what_runs_and_types_say(sentences, data):
    inside, starts = lay_out(sentences)
    runs = find_runs(inside, starts)
    types = np.array([data.draw(st.integers(0, 2)) for _ in runs.first], int)
    names = factored_tags(["A", "B", "C"])
    tags = [names[i] for i in compose_tags(runs, types, len(inside), 3)]
    found = [
        (e.label, e.start + start, e.end + start)
        for start, stop in pairwise(starts)
        for e in extract_spans(tags[start:stop])
    ]
    assert found == [("ABC"[t], a, b) for t, a, b in zip(types, *runs, strict=True)]
    assert [tag != "O" for tag in tags] == inside.tolist()
    expected = sum(sum(w and (not i or not s[i - 1]) for i, w in enumerate(s)) for s in sentences)
    assert len(runs.first) == expected


@given(SENTENCES)
def test_every_sentence_finds_its_own_runs(sentences):
    inside, starts = lay_out(sentences)
    runs = find_runs(inside, starts)
    bounds = runs.per_sentence(starts)
    for number in range(len(sentences)):
        own = slice(bounds[number], bounds[number + 1])
        assert (runs.first[own] >= starts[number]).all() and (runs.stop[own] <= starts[number + 1]).all()
    assert bounds[-1] == len(runs.first)


def test_the_mean_is_that_of_the_words():
    vectors = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float16)
    runs = Runs(np.array([0, 3, 4]), np.array([2, 4, 9]))
    expected = [vectors[a:b].astype(np.float32).mean(0) for a, b in zip(*runs, strict=True)]
    np.testing.assert_allclose(mean_vectors(vectors, runs), expected, atol=1e-6)
    assert mean_vectors(vectors, Runs(np.zeros(0, int), np.zeros(0, int))).shape == (0, 4)
