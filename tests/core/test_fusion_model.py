"""The fusion of two LMs: what its states know, and its loss, worked by hand."""

import math
from itertools import cycle

import numpy as np
import pytest
import torch

from boustro.encoders.fused import lms_of, towers_of
from boustro.encoders.spec import load_encoder
from boustro.models.fusion import CLOZE, FUSIONS, READING, Cloze, FusionShape, TiedHead

KINDS = ("gpt2", "llama", "qwen3", "gpt_neox")


def shape(kind="attention", **changed):
    return FusionShape(
        **{"kind": kind, "forward_width": 32, "backward_width": 32, "width": 16, "num_heads": 2, **changed}
    )


def random_fusion(kind, **changed):
    """With all weights drawn anew, the zeros of the distances too: at the usual start much looks alike."""
    torch.manual_seed(0)
    fusion = FUSIONS[kind](shape(kind, **changed))
    for parameter in fusion.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return fusion.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_the_states_of_the_towers_stand_in_text_order_and_ignore_padding(tiny_lm, kind):
    forward, backward = lms_of(load_encoder(f"{tiny_lm(kind)}+{tiny_lm(kind, 'backward', seed=1)}", dtype="float32"))
    towers = towers_of(forward, backward)
    pieces, lengths = torch.randint(5, 300, (3, 7), generator=torch.manual_seed(0)), torch.tensor([7, 4, 1])
    both = towers.states(pieces, lengths)
    for row, length in enumerate(lengths.tolist()):
        own = pieces[row, :length]
        start = torch.tensor(towers.starts[0])
        ahead = forward.model(input_ids=torch.cat([start, own])[None]).last_hidden_state[0]
        back = backward.model(input_ids=torch.cat([start, own.flip(0)])[None]).last_hidden_state[0].flip(0)
        torch.testing.assert_close(both.forward[row, : length + 1], ahead, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(both.backward[row, : length + 1], back, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("lms", "kind"), zip(KINDS, cycle(FUSIONS)))
def test_the_cloze_state_of_a_piece_knows_all_but_that_piece(tiny_lm, lms, kind):
    towers = towers_of(*lms_of(load_encoder(f"{tiny_lm(lms)}+{tiny_lm(lms, 'backward', seed=1)}", dtype="float32")))
    fusion, lengths = random_fusion(kind), torch.tensor([6, 6])
    pieces = torch.randint(5, 300, (1, 6), generator=torch.manual_seed(0)).expand(2, 6).clone()
    for changed in range(6):
        two = pieces.clone()
        two[1, changed] = 4
        for nearest in (CLOZE, READING):
            one, other = fusion(*towers.states(two, lengths), lengths, nearest)
            knows = ((one - other).abs().amax(-1) > 1e-4).tolist()
            assert knows == [nearest == READING or i != changed for i in range(6)]


def test_attention_is_the_softmax_over_what_may_be_seen_worked_by_hand():
    fusion = random_fusion("attention", width=8, num_heads=1)
    forward, backward = torch.randn(2, 1, 5, 32, generator=torch.manual_seed(1))
    lengths = torch.tensor([3])  # of the 4 pieces one is padding
    f, b = (norm(x)[0] for norm, x in zip(fusion.norms, (forward, backward), strict=True))
    for nearest in (CLOZE, READING):
        fused = fusion(forward, backward, lengths, nearest)[0]
        for i in range(3):
            query = fusion.queries[0](f[i]) + fusion.queries[1](b[i + 1])
            scores, values = [], []
            for j in range(4):  # state 4 is beyond the text
                for side, states, steps in ((0, f, i + 1 - j), (1, b, j - i)):
                    if steps >= nearest:
                        term = fusion.distance[side, 0, max(steps, 1) - 1]
                        scores.append(query @ fusion.keys[side](states[j]) / math.sqrt(8) + term)
                        values.append(fusion.values[side](states[j]))
            x = query + fusion.out(torch.softmax(torch.stack(scores), 0) @ torch.stack(values))
            torch.testing.assert_close(fused[i], fusion.final(x + fusion.feed_forward(x)), atol=1e-5, rtol=1e-4)


def test_the_head_begins_at_the_shares_of_the_pieces():
    head = TiedHead(8, torch.randn(3, 8), np.array([7, 1, 0]))
    torch.testing.assert_close(head(torch.zeros(1, 8)).softmax(-1), torch.tensor([[8, 2, 1]]) / 11)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("width", [16, 24])
def test_the_loss_is_the_cross_entropy_of_all_pieces_through_the_frozen_embeddings(width):
    embeddings = torch.randn(50, 24)
    fusion = random_fusion("attention", width=width)
    cloze = Cloze(fusion, TiedHead(width, embeddings))
    states = torch.randn(2, 3, 6, 32)
    pieces = torch.randint(50, (3, 5))
    from boustro.models.fusion import TowerStates

    fused = fusion(*states, torch.full((3,), 5), CLOZE)
    scores = cloze.head.project(fused) @ embeddings.T * cloze.head.scale + cloze.head.bias
    expected = torch.nn.functional.cross_entropy(scores.flatten(0, 1), pieces.flatten())
    torch.testing.assert_close(cloze(TowerStates(*states), pieces), expected)
    names = {name for name, _ in cloze.named_parameters()}
    assert ("head.project.weight" in names) == (width != 24) and "head.embeddings" not in cloze.state_dict()
