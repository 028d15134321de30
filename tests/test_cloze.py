"""boustro.objectives.cloze: by hand, and no state that has read what it must predict or another document."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaModel

from boustro.models.packing import packed_positions
from boustro.objectives.causal import causal
from boustro.objectives.cloze import cloze

S = 0


def test_by_hand():
    found = cloze(torch.tensor([[5, 7, S, 4, 9]]), S)
    assert found.forward_ids.tolist() == [[S, 5, 7, S, 4]]
    assert found.backward_ids.tolist() == [[S, 9, 4, S, 7]]
    assert found.targets.tolist() == [[5, 7, -100, 4, 9]]
    assert found.forward_documents.tolist() == [[0, 0, 0, 1, 1]]
    assert found.backward_documents.tolist() == [[0, 0, 1, 1, 1]]


rows = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(rows)
def test_inputs_are_those_of_the_causal_objective_and_every_piece_is_asked_once(row):
    pieces = torch.tensor([row])
    found = cloze(pieces, S)
    assert torch.equal(found.forward_ids, causal(pieces, "forward", S).input_ids)
    assert torch.equal(found.backward_ids, causal(pieces, "backward", S).input_ids)
    assert torch.equal(found.targets != -100, pieces != S)
    assert torch.equal(found.targets[pieces != S], pieces[pieces != S])


@given(rows)
def test_a_mirrored_segment_is_read_in_mirrored_order(row):
    one, other = cloze(torch.tensor([row]), S), cloze(torch.tensor([row[::-1]]), S)
    assert torch.equal(one.forward_ids, other.backward_ids)
    assert torch.equal(packed_positions(one.forward_documents), packed_positions(other.backward_documents.flip(1)))


def make_tower(seed: int) -> LlamaModel:
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    tower = LlamaModel(LlamaConfig(vocab_size=400, **shape)).eval()
    with torch.no_grad():
        for parameter in tower.parameters():
            if parameter.ndim > 1:  # at the usual 0.02 all states look alike
                parameter.normal_(0, 0.3)
    return tower


@pytest.mark.parametrize("ends", [(), (4,), (3, 4, 7), (0, 9)])
def test_no_state_has_read_its_piece_or_another_document(ends):
    """Every piece is changed in turn, and whose states notice is compared with whose may, and must."""
    towers = [make_tower(0), make_tower(1)]
    length = 10
    pieces = torch.randint(1, 400, (1, length), generator=torch.Generator().manual_seed(1))
    pieces[:, list(ends)] = S
    changed = pieces.repeat(length, 1)
    changed[range(length), range(length)] = 1 + changed.diagonal() % 399
    changed = changed[[i for i in range(length) if i not in ends]]

    @torch.no_grad()
    def states(batch):
        found = cloze(batch, S)
        places = packed_positions(found.forward_documents), packed_positions(found.backward_documents.flip(1))
        forward = towers[0](input_ids=found.forward_ids, position_ids=places[0], use_cache=False)
        backward = towers[1](input_ids=found.backward_ids, position_ids=places[1], use_cache=False)
        return found, forward.last_hidden_state, backward.last_hidden_state.flip(1)

    found, before, after = states(pieces)
    _, changed_before, changed_after = states(changed)
    document = (pieces[0] == S).cumsum(0)
    for row, piece in enumerate(i for i in range(length) if i not in ends):
        for i in range(length):
            notices = not torch.allclose(before[0, i], changed_before[row, i], atol=1e-5)
            assert notices == (piece < i and found.forward_documents[0, i] == document[piece]), (piece, i)
            notices = not torch.allclose(after[0, i], changed_after[row, i], atol=1e-5)
            assert notices == (piece > i and found.backward_documents[0, i] == document[piece]), (piece, i)
    asked = found.targets != -100
    assert torch.equal(found.forward_documents[asked], found.backward_documents[asked])
