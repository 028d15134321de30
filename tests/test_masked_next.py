"""Masked next-piece prediction: which pieces are hidden, and from which state each is predicted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.objectives.examples import IGNORED
from boustro.objectives.masked_next import masked_next
from boustro.objectives.masking import Masking

M, S, END = 9, 7, 0  # the mask piece, the start piece and the end-of-text piece of a vocabulary of ten


def masking(rate=0.4, also_special=(), **shares):
    special = np.zeros(10, bool)
    special[[M, S, END, *also_special]] = True
    return Masking(mask_id=M, end_id=END, special=special, rate=rate, **shares)


@pytest.mark.parametrize(
    ("direction", "start", "input_ids", "positions", "targets"),
    [
        ("forward", [S], [S, 8, M, 4, M], [1, 3], [3, 6]),
        ("backward", [S], [S, M, 4, M, 8], [0, 2], [6, 3]),
        ("forward", [S, 2], [S, 2, 8, M, 4, M], [2, 4], [3, 6]),
        ("forward", (), [8, M, 4, M], [0, 2], [3, 6]),
        ("backward", (), [6, 4, M, 8], [1], [3]),  # nothing stands before the 6
    ],
)
def test_a_hidden_piece_is_asked_of_the_state_before_it_worked_by_hand(direction, start, input_ids, positions, targets):
    """Every piece that may be is hidden: 3 and 6."""
    hide = masking(1.0, also_special=[8, 4], mask_share=1.0, random_share=0.0)
    example = masked_next(np.array([8, 3, 4, 6]), np.random.default_rng(0), hide, direction, start)
    empty = (3 if not start else 4) - len(targets)
    assert example.input_ids.tolist() == input_ids
    assert example.positions.tolist() == positions + [0] * empty
    assert example.targets.tolist() == targets + [IGNORED] * empty


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=20),
    st.sampled_from(["forward", "backward"]),
    st.sampled_from([(), (S,)]),
    st.integers(0, 5),
)
def test_every_target_stands_right_after_its_position_in_the_reading(pieces, direction, start, seed):
    pieces = np.array(pieces)
    example = masked_next(pieces, np.random.default_rng(seed), masking(), direction, start)
    reading = pieces[::-1].tolist() if direction == "backward" else pieces.tolist()
    framed = [*start, *reading]
    asked = example.targets != IGNORED
    chosen = example.positions[asked] + 1
    assert [framed[i] for i in chosen] == example.targets[asked].tolist()
    untouched = np.delete(np.arange(len(framed)), chosen)
    assert example.input_ids[untouched].tolist() == [framed[i] for i in untouched]
    assert not {M, S, END} & set(example.targets[asked].tolist())
    assert len(example.input_ids) == len(framed) and len(set(chosen.tolist())) == asked.sum()
