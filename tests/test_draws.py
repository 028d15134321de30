"""Few-shot draws: enough of every type, nested, and the same whatever the order of the file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.studies.core.draws import draw_all, entity_types, paper_draw, short_types
from boustro.types import Sentence

TAGS = ("O", "B-A", "I-A", "B-B", "I-B", "B-C", "I-C")
CORPORA = st.lists(
    st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from(TAGS)), min_size=1, max_size=4), max_size=30
).map(lambda rows: [Sentence(tuple(w for w, _ in row), tuple(t for _, t in row)) for row in rows])


def draw_sentences(corpus, shots, draw):
    return draw_all(corpus, [shots], draw)[shots][draw - 1]


def holds(sentence, label):
    return any(tag.endswith(f"-{label}") for tag in sentence.tags)


@given(CORPORA, st.integers(1, 4), st.integers(1, 5))
def test_every_type_gets_its_shots_and_smaller_draws_lie_within_larger_ones(corpus, shots, draw):
    small, large = draw_sentences(corpus, shots, draw), draw_sentences(corpus, shots + 2, draw)
    assert set(small) <= set(large)
    assert list(small) == sorted(set(small))
    for label in entity_types(corpus):
        available = sum(holds(s, label) for s in corpus)
        found = sum(holds(corpus[i], label) for i in small)
        assert found >= min(shots, available)
        assert (label in short_types(corpus, small, shots)) == (available < shots)
    for i in small:
        assert entity_types([corpus[i]])


@given(CORPORA, st.randoms(use_true_random=False))
def test_a_draw_is_the_same_whatever_the_order_of_the_file(corpus, random):
    shuffled = corpus[:]
    random.shuffle(shuffled)

    def content(c):
        return sorted((s.words, s.tags) for s in (c[i] for i in draw_sentences(c, 2, 3)))

    assert content(corpus) == content(shuffled)


def test_draws_differ_and_are_published_for_good():
    corpus = [Sentence((f"w{i}",), (f"B-{'AB'[i % 2]}",)) for i in range(40)]
    first, second = (draw_sentences(corpus, 2, draw) for draw in (1, 2))
    assert not np.array_equal(first, second)
    # a change here breaks what others have drawn
    assert first.tolist() == [4, 6, 9, 17] and second.tolist() == [11, 17, 22, 38]


def test_the_papers_filter_takes_the_first_single_type_sentences_with_a_longer_mention():
    rows = ["B-A", "B-A I-A", "O B-A I-A B-B", "O B-A I-A", "B-B I-B O", "O O", "I-A B-A O", "B-B O I-B", "O B-A I-A"]
    corpus = [Sentence(tuple("x" * len(r.split())), tuple(r.split())) for r in rows]
    found = paper_draw(corpus, [1, 2, 9])
    assert {k: draws[0].tolist() for k, draws in found.items()} == {1: [3, 4], 2: [3, 4, 6, 7], 9: [3, 4, 6, 7, 8]}


@pytest.mark.parametrize("function", [draw_all, paper_draw])
def test_no_shots_are_refused(function):
    with pytest.raises(ValueError, match="at least 1"):
        function([], [4, 0], 1)
