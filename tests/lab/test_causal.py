"""boustro.lab.objectives.causal: inputs and targets of both directions, against integers worked by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boustro.lab.objectives.causal import causal

S = 99


@st.composite
def segments(draw) -> torch.Tensor:
    """(B, T) piece ids."""
    num_segments, length = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    pieces = st.lists(st.integers(0, 50), min_size=length, max_size=length)
    return torch.tensor(draw(st.lists(pieces, min_size=num_segments, max_size=num_segments)))


def test_forward_by_hand():
    batch = causal(torch.tensor([[5, 7, 9], [1, 2, 3]]), "forward", S)
    assert batch.input_ids.tolist() == [[S, 5, 7], [S, 1, 2]]
    assert batch.targets.tolist() == [[5, 7, 9], [1, 2, 3]]


def test_backward_by_hand():
    batch = causal(torch.tensor([[5, 7, 9], [1, 2, 3]]), "backward", S)
    assert batch.input_ids.tolist() == [[S, 9, 7], [S, 3, 2]]
    assert batch.targets.tolist() == [[9, 7, 5], [3, 2, 1]]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_segment_of_one_piece_is_predicted_from_the_sentinel_alone(direction):
    batch = causal(torch.tensor([[5]]), direction, S)
    assert (batch.input_ids.tolist(), batch.targets.tolist()) == ([[S]], [[5]])


@given(segments())
def test_backward_is_forward_over_the_flipped_segment(pieces):
    forward, backward = causal(pieces.flip(1), "forward", S), causal(pieces, "backward", S)
    assert torch.equal(forward.input_ids, backward.input_ids)
    assert torch.equal(forward.targets, backward.targets)


@given(segments())
def test_flipping_twice_is_nothing(pieces):
    assert torch.equal(causal(pieces, "backward", S).targets.flip(1), causal(pieces, "forward", S).targets)


@given(segments(), st.sampled_from(["forward", "backward"]))
def test_every_piece_is_predicted_once_and_read_just_after(pieces, direction):
    batch = causal(pieces, direction, S)
    assert torch.equal(batch.targets.sort(1).values, pieces.sort(1).values)
    assert torch.equal(batch.input_ids[:, 1:], batch.targets[:, :-1])
    assert (batch.input_ids[:, 0] == S).all()


@given(segments(), st.sampled_from(["forward", "backward"]))
def test_segments_are_independent_and_left_as_they_were(pieces, direction):
    before = pieces.clone()
    together = causal(pieces, direction, S)
    assert torch.equal(pieces, before)
    for row in range(len(pieces)):
        alone = causal(pieces[row : row + 1], direction, S)
        assert torch.equal(alone.input_ids[0], together.input_ids[row])
        assert torch.equal(alone.targets[0], together.targets[row])
