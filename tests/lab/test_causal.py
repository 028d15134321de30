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


@pytest.mark.parametrize(
    ("direction", "pieces", "input_ids", "targets"),
    [
        ("forward", [[5, 7, 9], [1, 2, 3]], [[S, 5, 7], [S, 1, 2]], [[5, 7, 9], [1, 2, 3]]),
        ("backward", [[5, 7, 9], [1, 2, 3]], [[S, 9, 7], [S, 3, 2]], [[9, 7, 5], [3, 2, 1]]),
        ("backward", [[5]], [[S]], [[5]]),
    ],
)
def test_by_hand(direction, pieces, input_ids, targets):
    batch = causal(torch.tensor(pieces), direction, S)
    assert (batch.input_ids.tolist(), batch.targets.tolist()) == (input_ids, targets)


@given(segments(), st.sampled_from(["forward", "backward"]))
def test_every_piece_is_predicted_once_in_its_reading_and_read_just_after(pieces, direction):
    before = pieces.clone()
    batch = causal(pieces, direction, S)
    assert torch.equal(pieces, before)
    assert torch.equal(batch.targets, pieces if direction == "forward" else pieces.flip(1))
    assert torch.equal(batch.input_ids[:, 1:], batch.targets[:, :-1])
    assert (batch.input_ids[:, 0] == S).all()
