"""Many chains at once give each head what `chain.expectations` gives it alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boustro.heads.crf.decode import Chain
from boustro.heads.crf.layer import expectations, valid_tensors
from boustro.heads.lockstep.passes import expected_counts

TAG_SETS = [["O", "B-X", "I-X", "B-Y", "I-Y"], ["I-X", "O", "B-X", "E-X", "S-X"], ["O"], ["O", "I-X", "I-Y"]]


@given(
    st.sampled_from(TAG_SETS),
    st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=1, max_size=4),
    st.integers(0, 10_000),
    st.sampled_from([0.3, 3.0, 300.0]),
)
def test_each_head_has_the_counts_of_its_own_chain(tags, lengths, seed, scale):
    """`lengths` per head: some heads have no sentences, some sentences no words."""
    generator = torch.Generator().manual_seed(seed)
    heads, width = len(lengths), len(tags)
    shapes, valid = ((heads, width), (heads, width, width), (heads, width)), valid_tensors(tags)
    parts = (torch.randn(shape, generator=generator, dtype=torch.float64) * 2 for shape in shapes)
    chains = Chain(*(part.masked_fill(~ok, -torch.inf) for part, ok in zip(parts, valid, strict=True)))
    flat = torch.tensor([n for own in lengths for n in own], dtype=torch.int64)
    numbers = torch.tensor([m for m, own in enumerate(lengths) for _ in own], dtype=torch.int64)
    scores = torch.randn(int(flat.sum()), width, generator=generator, dtype=torch.float64) * scale
    tag_counts, counts = expected_counts(scores, flat, numbers, chains)
    for m, (own, words) in enumerate(zip(lengths, scores.split([sum(own) for own in lengths]), strict=True)):
        alone = expectations(words, torch.tensor(own, dtype=torch.int64), Chain(*(part[m] for part in chains)))
        rows = slice(before := sum(map(sum, lengths[:m])), before + len(words))
        torch.testing.assert_close(tag_counts[rows], alone.tags)
        for together, apart in zip(counts, alone[2:], strict=True):
            torch.testing.assert_close(together[m], apart)


def test_sentences_of_two_heads_may_alternate():
    """The order of sentences is the caller's: nothing asks for one head's to stand together."""
    generator = torch.Generator().manual_seed(2)
    chains = Chain(*(torch.randn(2, *shape, generator=generator).double() for shape in ((3,), (3, 3), (3,))))
    scores, lengths = torch.randn(9, 3, generator=generator).double(), torch.tensor([2, 3, 1, 3])
    _, counts = expected_counts(scores, lengths, torch.tensor([1, 0, 1, 0]), chains)
    for head, chosen in ((1, (0, 2)), (0, (1, 3))):
        words = torch.cat([scores.split(lengths.tolist())[s] for s in chosen])
        alone = expectations(words, lengths[list(chosen)], Chain(*(part[head] for part in chains)))
        torch.testing.assert_close(counts.transitions[head], alone.transitions)
        assert counts.starts[head].sum().item() == pytest.approx(2)
