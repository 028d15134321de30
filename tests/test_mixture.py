"""Several corpora as one stream: shares, order, epochs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.text.mixture import Mixture, interleave, smoothed_shares
from boustro.text.segments import Example, SegmentStream


class Numbers:
    """Segments that hold their own number, and 100 times the corpus's."""

    def __init__(self, corpus: int, size: int) -> None:
        self.corpus, self.size = corpus, size

    def __len__(self) -> int:
        return self.size

    def example(self, epoch: int, index: int) -> Example:
        return Example(epoch, index, np.array([100 * self.corpus + index]))


def mixture(sizes, shares, length=60):
    return Mixture([SegmentStream(Numbers(i, n), 1, length) for i, n in enumerate(sizes)], shares)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=5), st.integers(1, 300))
def test_every_beginning_of_a_run_holds_the_shares(shares, length):
    owners = interleave(shares, length)
    assert len(owners) == length
    counts = np.cumsum(np.eye(len(shares))[owners], 0)
    wanted = np.arange(1, length + 1)[:, None] * np.array(shares) / sum(shares)
    assert np.abs(counts - wanted).max() <= len(shares)


def test_two_thirds_and_one_third():
    assert interleave([2, 1], 6).tolist() == [0, 1, 0, 0, 1, 0]


def test_a_small_corpus_begins_again_and_a_large_one_goes_on():
    examples = [mixture([40, 5], [1, 1])[i] for i in range(60)]
    small = [e for e in examples if e.pieces[0] >= 100]
    large = [e for e in examples if e.pieces[0] < 100]
    assert len(small) == len(large) == 30
    assert len({e.index for e in large}) == 30 and {e.epoch for e in large} == {0}
    for epoch in range(6):
        assert sorted(e.index for e in small if e.epoch == epoch) == [40, 41, 42, 43, 44]
    assert [e.index for e in small[:5]] != [e.index for e in small[5:10]]
    assert all(e.pieces[0] == e.index if e.index < 40 else e.pieces[0] == 100 + e.index - 40 for e in examples)


def test_shares_by_size_smoothed():
    assert smoothed_shares([900, 100], 1) == pytest.approx([0.9, 0.1])
    assert smoothed_shares([900, 100], 0.5) == pytest.approx([0.75, 0.25])
    assert smoothed_shares([900, 100], 0) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("shares", [[1.0], [1.0, 0.0], [1.0, -1.0]])
def test_shares_that_do_not_fit_are_refused(shares):
    with pytest.raises(ValueError, match="2 corpora need as many shares"):
        mixture([3, 3], shares)
    with pytest.raises(ValueError, match="alpha"):
        smoothed_shares([1], -1)
