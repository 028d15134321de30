"""The letters of words, and what a convolution over them gives."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from boustro.models.elmo import CharCNN, ElmoShape, spell_bytes

SMALL = ElmoShape(width=8, cells=16, filters=((1, 4), (3, 8)), max_letters=12)


def test_words_are_spelt_as_bytes_and_cut_where_they_are_too_long():
    spelt, num_cut = spell_bytes(["Ada", "é"], 12)
    assert spelt.tolist() == [[256, 258, 257, 259, 259], [256, 65, 100, 97, 257], [256, 195, 169, 257, 259]]
    assert num_cut == 0
    spelt, num_cut = spell_bytes(["x" * 20, "\ud800"], 12)
    assert spelt.shape == (3, 12) and num_cut == 1


@given(st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=4))
def test_a_words_vector_is_the_same_whatever_words_are_spelt_beside_it(words):
    cnn = CharCNN(SMALL)
    together = cnn(spell_bytes([*words, "umbrellas"], 12)[0])[1:-1]
    alone = torch.cat([cnn(spell_bytes([word], 12)[0])[1:] for word in words])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


def test_the_cnn_takes_the_largest_of_all_windows_worked_by_hand():
    torch.manual_seed(0)
    cnn = CharCNN(SMALL)
    letters = cnn.letters(torch.tensor([256, 65, 100, 257]))
    found = []
    for convolution in cnn.convolutions:
        wide = convolution.kernel_size[0]
        padded = torch.cat([letters, torch.zeros(wide - 1, SMALL.letter_width)])
        windows = [(convolution.weight * padded[i : i + wide].T).sum((1, 2)) + convolution.bias for i in range(4)]
        found.append(torch.relu(torch.stack(windows).amax(0)))
    expected = cnn.project(cnn.highways(torch.cat(found)[None]))[0]
    torch.testing.assert_close(cnn(spell_bytes(["Ad", "longer"], 12)[0])[1], expected, atol=1e-5, rtol=1e-4)
