"""boustro.heads.bodies and boustro.heads.layout: each sentence gets what it would get alone, and sees all of itself."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from boustro.heads.bodies import BiLSTM, Block
from boustro.heads.layout import by_length, edges, pad, restore, time_major
from boustro.heads.options import HiddenOptions

WIDTH, NUM_TAGS = 12, 5
BODIES = [Block, BiLSTM]
batches = st.lists(st.integers(0, 6), max_size=8)
bodies = pytest.mark.parametrize("kind", BODIES)


def make(kind, hidden: int | None = 8, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    body = kind(WIDTH, NUM_TAGS, HiddenOptions(hidden=hidden, dropout=dropout)).eval()
    with torch.no_grad():
        for parameter in body.parameters():  # larger than usual, so that what should differ differs
            parameter.normal_(0, 0.3)
    return body


def words(lengths, seed: int = 0) -> torch.Tensor:
    return torch.randn(sum(lengths), WIDTH, generator=torch.Generator().manual_seed(seed))


def test_the_layouts_by_hand():
    rows = torch.tensor([[0], [1], [2], [10], [20], [21]])  # a0 a1 a2 b0 c0 c1
    lengths = torch.tensor([3, 0, 1, 2])
    (first, second) = by_length(lengths, 6, max_sentences=2)
    assert rows[first.rows].squeeze(1).tolist() == [0, 1, 2, 20, 21] and first.lengths.tolist() == [3, 2]
    assert rows[second.rows].squeeze(1).tolist() == [10] and second.lengths.tolist() == [1]
    padded, mask = pad(rows, lengths)
    assert padded.squeeze(2).tolist() == [[0, 1, 2], [0, 0, 0], [10, 0, 0], [20, 21, 0]]
    assert mask.sum(1).tolist() == [3, 0, 1, 2]
    order = time_major(first.lengths)
    assert rows[first.rows[order.rows]].squeeze(1).tolist() == [0, 20, 1, 21, 2]
    assert rows[first.rows[order.flipped]].squeeze(1).tolist() == [2, 21, 1, 20, 0]
    assert order.sizes.tolist() == [2, 2, 1]
    at = edges(lengths, 6)
    assert (at.first.tolist(), at.last.tolist(), at.followed.tolist()) == ([0, 3, 4], [2, 3, 5], [0, 1, 4])


@given(batches, st.integers(1, 9))
def test_padding_and_grouping_can_be_undone(lengths, max_sentences):
    x, sizes = words(lengths), torch.tensor(lengths, dtype=torch.int64)
    padded, mask = pad(x, sizes)
    assert torch.equal(padded[mask], x)
    groups = by_length(sizes, len(x), max_sentences)
    assert torch.equal(restore([x[group.rows] for group in groups], groups), x)
    assert torch.cat([group.lengths for group in groups]).tolist() == sorted(filter(None, lengths), reverse=True)


@bodies
@given(lengths=batches, seed=st.integers(0, 1000))
def test_a_sentence_gets_the_same_alone_in_any_company_and_order(kind, lengths, seed):
    body, x, sizes = make(kind), words(lengths, seed), torch.tensor(lengths, dtype=torch.int64)
    together = body(x, sizes)
    assert together.shape == (len(x), NUM_TAGS)
    parts, found = x.split(lengths), together.split(lengths)
    for part, scores in zip(parts, found, strict=True):
        torch.testing.assert_close(body(part, torch.tensor([len(part)])), scores, rtol=1e-4, atol=1e-5)
    order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed)).tolist()
    shuffled = body(torch.cat([parts[i] for i in order] or [x]), sizes[order])
    torch.testing.assert_close(shuffled, torch.cat([found[i] for i in order] or [together]), rtol=1e-4, atol=1e-5)


@bodies
def test_more_sentences_than_attention_takes_at_once_change_nothing(kind):
    lengths = [1 + i % 7 for i in range(75)]
    body, x = make(kind), words(lengths)
    alone = torch.cat([body(part, torch.tensor([len(part)])) for part in x.split(lengths)])
    torch.testing.assert_close(body(x, torch.tensor(lengths)), alone, rtol=1e-4, atol=1e-5)


@bodies
@pytest.mark.parametrize("changed", [0, 2, 4])
def test_every_word_sees_every_other_word_of_its_sentence_and_no_other(kind, changed):
    lengths = [3, 5, 1, 4]
    body, x, sizes = make(kind), words(lengths), torch.tensor(lengths)
    other = x.clone()
    other[3 + changed] += 1
    moved = (body(other, sizes) - body(x, sizes)).abs().amax(1)
    assert (moved[3:8] > 1e-4).all()
    assert (torch.cat([moved[:3], moved[8:]]) < 1e-6).all()


def test_the_block_has_no_positions_of_its_own_and_the_lstm_reads_in_order():
    x, lengths = words([6]), torch.tensor([6])
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    block, lstm = make(Block), make(BiLSTM)
    torch.testing.assert_close(block(x[order], lengths), block(x, lengths)[order], rtol=1e-4, atol=1e-5)
    assert (lstm(x[order], lengths) - lstm(x, lengths)[order]).abs().max() > 0.01


def test_the_block_is_a_layer_of_bert():
    hidden = 128
    block = make(Block, hidden)
    config = BertConfig(hidden_size=hidden, num_attention_heads=2, intermediate_size=4 * hidden)
    config._attn_implementation = "eager"
    bert = BertLayer(config).eval()
    heads = bert.attention.self
    pairs = [
        (bert.attention.output.dense, block.attended[0]),
        (bert.attention.output.LayerNorm, block.attended_norm),
        (bert.intermediate.dense, block.feed_forward[0]),
        (bert.output.dense, block.feed_forward[2]),
        (bert.output.LayerNorm, block.norm),
    ]
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())
    for name in ("weight", "bias"):
        chunks = getattr(block.queries_keys_values, name).chunk(3)
        for projection, chunk in zip((heads.query, heads.key, heads.value), chunks, strict=True):
            getattr(projection, name).data.copy_(chunk)
    lengths = [7, 1, 4]
    x = words(lengths)
    wanted = []
    for part in x.split(lengths):
        out = bert(block.enter(part)[None])
        wanted.append(block.leave((out if isinstance(out, torch.Tensor) else out[0])[0]))
    torch.testing.assert_close(block(x, torch.tensor(lengths)), torch.cat(wanted), rtol=1e-4, atol=1e-5)


def test_the_bilstm_is_torchs_sentence_by_sentence():
    body, lengths = make(BiLSTM), [2, 6, 0, 1, 6]
    x = words(lengths)
    wanted = [body.leave(body.lstm(part)[0]) for part in x.split(lengths) if len(part)]
    torch.testing.assert_close(body(x, torch.tensor(lengths)), torch.cat(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("hidden", "num_heads"), [(768, 12), (256, 4), (64, 1), (32, 1), (96, 2), (100, 2), (130, 5), (67, 67)]
)
def test_heads_are_64_wide_where_that_divides_and_else_as_wide_as_can_be(hidden, num_heads):
    assert Block(WIDTH, NUM_TAGS, HiddenOptions(hidden=hidden)).num_heads == num_heads


@bodies
def test_the_width_of_the_input_is_the_hidden_width_unless_it_is_given(kind):
    wide, narrow = (kind(WIDTH, NUM_TAGS, HiddenOptions(hidden=hidden)) for hidden in (None, 4))
    assert wide.leave[1].in_features == WIDTH and narrow.leave[1].in_features == 4


@bodies
def test_gradients_reach_every_parameter_and_the_words(kind):
    body, lengths = make(kind, dropout=0.1).train(), [3, 0, 5, 1]
    x = words(lengths).requires_grad_()
    nn.functional.cross_entropy(body(x, torch.tensor(lengths)), torch.arange(9) % NUM_TAGS).backward()
    assert x.grad is not None and (x.grad.abs().sum(1) > 0).all()
    for name, parameter in body.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name


@bodies
def test_dropout_is_at_work_in_training_only_and_follows_the_seed(kind):
    body, x, lengths = make(kind, dropout=0.3), words([4, 3]), torch.tensor([4, 3])
    assert torch.equal(body(x, lengths), body(x, lengths))
    body.train()
    torch.manual_seed(1)
    first = body(x, lengths)
    torch.manual_seed(1)
    assert torch.equal(body(x, lengths), first) and not torch.equal(body(x, lengths), first)


@bodies
def test_a_saved_body_gives_the_same(kind):
    body, lengths = make(kind), torch.tensor([4, 3])
    other = kind(WIDTH, NUM_TAGS, HiddenOptions(hidden=8)).eval()
    other.load_state_dict(body.state_dict())
    assert torch.equal(other(words([4, 3]), lengths), body(words([4, 3]), lengths))


@bodies
def test_lengths_that_do_not_fit_are_refused(kind):
    with pytest.raises(ValueError, match="sum to 6, but there are 7 words"):
        make(kind)(words([7]), torch.tensor([4, 2]))
