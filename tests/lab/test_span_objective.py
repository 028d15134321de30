"""boustro.lab.objectives.span and lab.masked: spans worked by hand, their lengths over many draws, the loss."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from boustro.lab.masked import SpanBoundaryHead, SpanLMWithLoss
from boustro.lab.objectives.examples import collate, keyed_generator
from boustro.lab.objectives.span import choose_spans, geometric, span
from test_masked import LENGTH, make_lm
from test_masked_objective import END, MASK, VOCABULARY, Scripted, make_masking, segments

WORDS = np.arange(VOCABULARY) % 2 == 0  # even pieces begin words


def test_by_hand():
    """Words 8, 4 3, 6 5, 2 …: the draw .3 is a length of two words, the draw .1 masks the span."""
    pieces = np.array([8, 4, 3, 6, 5, 2, END, 12, 14, 16])
    rng = Scripted(random=[0.3, [0.1], []], integers=[0])
    found = span(pieces, rng, make_masking(rate=0.45, word_starts=WORDS))
    assert found.input_ids.tolist() == [8, MASK, MASK, MASK, MASK, 2, END, 12, 14, 16]
    assert found.positions.tolist() == [1, 2, 3, 4, 0]
    assert found.targets.tolist() == [4, 3, 6, 5, -100]
    assert found.left.tolist() == [0, 0, 0, 0, 0] and found.right.tolist() == [5, 5, 5, 5, 0]
    assert found.places.tolist() == [0, 1, 2, 3, 0]
    assert found.documents.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]


def test_the_last_span_is_cut_at_the_last_word_that_fits():
    bounds, inside = np.array([0, 1, 3, 6, 7]), np.array([False, True, True, False])
    spans = choose_spans(bounds, inside, 4, Scripted(random=[0.3], integers=[0]))  # two words of 2 + 3 pieces
    assert spans.tolist() == [[1, 3]]


def test_the_lengths_are_those_of_the_paper():
    lengths = geometric(0.2, 10)
    assert lengths.sum() == pytest.approx(1) and lengths[1] / lengths[0] == pytest.approx(0.8)
    assert (lengths * np.arange(1, 11)).sum() == pytest.approx(3.797, abs=0.001)


@given(segments, st.sampled_from([0.15, 0.4]), st.booleans(), st.integers(0, 99))
def test_what_holds_of_every_draw(pieces, rate, whole, seed):
    masking = make_masking(rate=rate, word_starts=WORDS if whole else None)
    before = pieces.copy()
    found = span(pieces, keyed_generator(1, 0, seed), masking)
    assert (pieces == before).all()
    asked = found.targets != -100
    positions, left, right, places = (
        array[asked] for array in (found.positions, found.left, found.right, found.places)
    )
    assert len(set(positions.tolist())) == len(positions), "every position is predicted at most once"
    assert (found.targets[asked] == pieces[positions]).all()
    assert not masking.special[pieces[positions]].any()
    assert len(positions) <= len(found.positions) == masking.num_predictions(len(pieces))
    assert set(np.flatnonzero(found.input_ids != pieces).tolist()) <= set(positions.tolist())
    # Boundaries: outside every span, of the span's own document, and as far away as the place says.
    assert ((left >= 0) & (left < positions) & (positions < right)).all()
    assert (positions - left == places + 1).all()
    assert not set(left.tolist()) & set(positions.tolist()) and not set(right.tolist()) & set(positions.tolist())
    assert (found.documents[left] == found.documents[positions]).all()
    assert (found.documents[right] == found.documents[positions]).all()
    words = masking.words(pieces)
    assert not set(words[positions].tolist()) & set(words[left].tolist() + words[right].tolist()), (
        "spans are whole words"
    )


def choose_by_trying(bounds, inside, budget, rng, lengths):
    """The definition, with every start tried anew for every span; draws as `choose_spans` does."""
    free, spans, num_words = list(inside), [], len(inside)

    def fits(first, length):
        return first + length <= num_words and all(free[first : first + length])

    while budget:
        free = [f and bounds[w + 1] - bounds[w] <= budget for w, f in enumerate(free)]
        possible = [k for k in range(1, len(lengths) + 1) if any(fits(w, k) for w in range(num_words))]
        if not possible:
            break
        length = min(1 + int(np.searchsorted(lengths.cumsum(), rng.random() * lengths.sum(), "right")), max(possible))
        starts = [w for w in range(num_words) if fits(w, length)]
        first = starts[rng.integers(len(starts))]
        end = max(w for w in range(first, first + length + 1) if bounds[w] - bounds[first] <= budget)
        spans.append([bounds[first], bounds[end]])
        budget -= bounds[end] - bounds[first]
        for word in range(max(0, first - 1), min(num_words, end + 1)):
            free[word] = False
    return sorted(spans)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=30),
    st.integers(0, 20),
    st.integers(0, 99),
)
def test_spans_are_those_of_the_definition(words, budget, seed):
    inside, sizes = zip(*words, strict=True)
    case = np.cumsum([0, *sizes]), np.array(inside), budget
    for lengths in (geometric(), geometric(0.5, 3)):
        rngs = [np.random.default_rng(seed) for _ in range(2)]
        assert choose_spans(*case, rngs[0], lengths).tolist() == choose_by_trying(*case, rngs[1], lengths)


def draw_spans(pieces, masking, count):
    """(spans as sets of words' numbers, the batch's arrays) of many draws."""
    words = masking.words(pieces)
    for index in range(count):
        found = span(pieces, keyed_generator(0, 0, index), masking)
        asked = found.targets != -100
        starts = np.unique(found.left[asked])
        yield found, [np.unique(words[found.positions[asked & (found.left == s)]]) for s in starts], words


def test_one_fate_for_a_span():
    masking, pieces = make_masking(), np.random.default_rng(1).integers(1, 49, 512)
    fates = np.zeros(3)
    for found, spans, words in draw_spans(pieces, masking, 150):
        for one in spans:
            at = np.isin(words, one)
            masked, kept = found.input_ids[at] == MASK, found.input_ids[at] == pieces[at]
            assert masked.all() or not masked.any()
            fates += [masked.all(), not masked.any() and not kept.all(), kept.all()]
    assert fates[0] / fates.sum() == pytest.approx(0.8, abs=0.03)
    assert fates[1] / fates.sum() == pytest.approx(0.1, abs=0.025)


@pytest.mark.parametrize("pieces", [[5], [5, 6], [END], [5, END, 6], [END, 5, END]])
def test_a_segment_too_short_for_a_boundary_asks_for_nothing(pieces):
    found = span(np.array(pieces), keyed_generator(0, 0, 0), make_masking())
    assert (found.targets == -100).all() and found.input_ids.tolist() == pieces


def test_the_head_is_the_equations_of_the_chapter():
    torch.manual_seed(0)
    head, states = SpanBoundaryHead(8, num_places=3), torch.randn(1, 6, 8)
    left, right, places = torch.tensor([[0, 0, 0]]), torch.tensor([[5, 5, 5]]), torch.tensor([[0, 2, 9]])
    found = head(states, left, right, places)
    first, _, first_norm, second, _, second_norm = head.feed_forward
    for k, place in enumerate([0, 2, 2]):  # a place beyond the last shares its embedding
        h = torch.cat([states[0, 0], states[0, 5], head.places.weight[place]])
        h = first_norm(F.gelu(first.weight @ h + first.bias))
        torch.testing.assert_close(found[0, k], second_norm(F.gelu(second.weight @ h + second.bias)))


@pytest.mark.usefixtures("small_chunks")
def test_the_loss_is_the_sum_of_both_and_the_boundary_part_never_sees_the_inside():
    lm = make_lm("bert")
    pieces = np.random.default_rng(0).integers(1, 49, (2, LENGTH))
    batch = collate([span(row, keyed_generator(0, 0, i), make_masking(rate=0.3)) for i, row in enumerate(pieces)])
    module = SpanLMWithLoss(lm)
    states = lm.bert(input_ids=batch["input_ids"]).last_hidden_state.detach().requires_grad_()
    predicted = module.boundary(states, batch["left"], batch["right"], batch["places"])
    wanted = F.cross_entropy(lm.get_output_embeddings()(predicted).flatten(0, 1), batch["targets"].flatten())
    losses = module(**batch)
    torch.testing.assert_close(losses["boundary_loss"], wanted)
    torch.testing.assert_close(losses["loss"], losses["masked_loss"] + losses["boundary_loss"])
    wanted.backward()
    for row in range(2):
        asked = batch["targets"][row] != -100
        assert states.grad[row, batch["positions"][row][asked]].abs().sum() == 0
        assert states.grad[row, batch["left"][row][asked]].abs().sum() > 0
    losses["loss"].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.boundary.parameters())


def test_an_lm_with_narrow_embeddings_is_refused():
    lm = make_lm("electra")
    lm.config.hidden_size = 64
    with pytest.raises(ValueError, match="128 wide and its states 64"):
        SpanLMWithLoss(lm)
