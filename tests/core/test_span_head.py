"""The span head: scores against a loop over spans, decoding and thresholds against brute force."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from boustro.heads.options import SpanOptions
from boustro.heads.span import choose_threshold, count_unreachable, crosses, propose_max_span, resolve
from boustro.heads.span.head import FLOOR, SpanScorer, inside_sentence

WIDTH, LABELS = 6, 3
positions = st.tuples(st.integers(0, 9), st.integers(1, 5))
found_spans = st.lists(
    st.builds(
        lambda p, label, score: (p[0], p[0] + p[1], label, score / 8),
        positions,
        st.integers(0, 2),
        st.integers(1, 8),  # few values, so that many are equal
    ),
    max_size=12,
)
gold_spans = st.lists(
    st.builds(lambda p, label: (p[0], p[0] + p[1], label), positions, st.integers(0, 2)), max_size=5, unique=True
)


def random_head(max_span=4, seed=1, scale=1.0) -> SpanScorer:
    """Double precision, all weights random (those that begin at zero too), predictions far from null."""
    torch.manual_seed(seed)
    head = SpanScorer(WIDTH, LABELS, SpanOptions(hidden=5, max_span=max_span)).double().eval()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(0, scale)
    return head


def naive_scores(head: SpanScorer, x: torch.Tensor, start: int, end: int) -> torch.Tensor:
    """One span by the paper's equations: the representation concatenated, then the feedforward network."""
    z = torch.relu(head.project(x))
    weights = head.attention(z[start:end]).squeeze(-1).softmax(0)
    one_hot = torch.eye(head.max_span, dtype=x.dtype)[end - start - 1]
    representation = torch.cat([z[start], z[end - 1], weights @ z[start:end], one_hot])
    first_map = torch.cat([head.start.weight, head.end.weight, head.inside.weight, head.width.T], dim=1)
    return head.out(torch.relu(first_map @ representation + head.inside.bias))


@pytest.mark.parametrize("num_words", [1, 3, 4, 9])
def test_scores_of_all_spans_equal_the_papers_equations_one_span_at_a_time(num_words):
    head, x = random_head(max_span=4), torch.randn(num_words, WIDTH, dtype=torch.float64)
    scores = head(x)
    assert scores.shape == (num_words, 4, LABELS + 1)
    for start, width in itertools.product(range(num_words), range(1, 5)):
        if start + width <= num_words:
            torch.testing.assert_close(scores[start, width - 1], naive_scores(head, x, start, start + width))


def test_attention_scores_far_apart_neither_overflow_nor_cancel():
    head = random_head(max_span=4).float()
    with torch.no_grad():
        head.attention.weight.mul_(500)
    x = torch.randn(12, WIDTH)
    attention = head.attention(torch.relu(head.project(x)))
    assert attention.max() - attention.min() > 500  # exp of it is no float32
    scores = head(x)
    for start in range(9):
        torch.testing.assert_close(scores[start, 3], naive_scores(head, x, start, start + 4), rtol=1e-4, atol=1e-4)
    scores.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())


@given(st.lists(st.integers(0, 6), max_size=6), st.integers(1, 5))
def test_spans_end_within_the_sentence_they_begin_in(lengths, max_span):
    inside = inside_sentence(torch.tensor(lengths, dtype=torch.int64), max_span)
    first, wanted = 0, set()
    for length in lengths:
        wanted |= {(first + i, w) for i in range(length) for w in range(1, max_span + 1) if i + w <= length}
        first += length
    assert {(i, w + 1) for i, w in inside.nonzero().tolist()} == wanted


def test_loss_is_the_mean_cross_entropy_over_the_spans_of_every_sentence():
    head, lengths, gold = random_head(max_span=3), torch.tensor([4, 0, 2]), [[(0, 3, 2), (1, 2, 0)], [], [(0, 2, 1)]]
    x, losses, first = torch.randn(6, WIDTH, dtype=torch.float64), [], 0
    for length, spans in zip(lengths.tolist(), gold, strict=True):
        labels = {span[:2]: span[2] + 1 for span in spans}
        for start, end in itertools.combinations(range(length + 1), 2):
            if end - start <= 3:
                scores = naive_scores(head, x, first + start, first + end)
                losses.append(-scores.log_softmax(0)[labels.get((start, end), 0)])
        first += length
    torch.testing.assert_close(head.loss(x, lengths, gold), torch.stack(losses).mean())


def test_an_empty_batch_costs_nothing():
    head, x, lengths = random_head(), torch.zeros(0, WIDTH), torch.tensor([0, 0])
    loss = head.loss(x, lengths, [[], []])
    loss.backward()
    assert loss.item() == 0 and head.predict(x, lengths) == [[], []]


def test_gold_out_of_reach_teaches_nothing_and_is_counted():
    head, x, lengths = random_head(max_span=2), torch.randn(5, WIDTH, dtype=torch.float64), torch.tensor([5])
    gold = [[(0, 2, 0), (0, 5, 1), (0, 2, 1), (1, 3, 2), (3, 4, 1)]]
    taught = [[(0, 2, 0), (1, 3, 2), (3, 4, 1)]]
    assert torch.equal(head.loss(x, lengths, gold), head.loss(x, lengths, taught))
    assert count_unreachable(gold, 2) == {
        "gold spans of more than 2 words": 1,
        "gold spans with a second label": 1,
        "gold spans that cross another one": 1,
    }
    assert count_unreachable([[(0, 5, 1), (1, 2, 0)], []], 5) == {}


def test_max_span_covers_nearly_all_spans_up_to_the_cap():
    gold = [[(0, 1, 0)] * 990, [(0, 4, 0)] * 9, [(2, 22, 0)]]
    assert propose_max_span(gold) == 4
    assert propose_max_span([[(0, 1, 0)] * 990, [(0, 20, 0)] * 10]) == 16
    with pytest.raises(ValueError, match="no gold span"):
        propose_max_span([[], []])


@given(found_spans)
def test_what_is_left_does_not_cross_and_what_is_gone_crossed_something_better(found):
    left = resolve(found)
    assert not any(crosses(a, b) for a, b in itertools.combinations(left, 2))
    for span in set(found) - set(left):
        assert any(crosses(span, other) and other[3] >= span[3] for other in left)
    assert left == sorted(left) == resolve(found[::-1])


@given(found_spans)
def test_crossing_is_sharing_words_when_each_has_words_of_its_own(found):
    for a, b in itertools.combinations(found, 2):
        first, second = set(range(*a[:2])), set(range(*b[:2]))
        wanted = first == second or bool(first & second and first - second and second - first)
        assert crosses(a, b) == crosses(b, a) == wanted


@given(found_spans, st.floats(0, 1))
def test_a_higher_threshold_cuts_the_answer_of_a_lower_one(found, threshold):
    at_once = resolve([span for span in found if span[3] >= threshold])
    assert at_once == [span for span in resolve(found) if span[3] >= threshold]


def f1_at(threshold, found, gold):
    kept = [resolve([s for s in spans if s[3] >= threshold]) for spans in found]
    correct = sum(len({s[:3] for s in spans} & set(g)) for spans, g in zip(kept, gold, strict=True))
    both = sum(map(len, kept)) + sum(map(len, gold))
    return 200 * correct / both if both else 0.0


@given(st.lists(st.tuples(found_spans, gold_spans), min_size=1, max_size=4))
@settings(max_examples=60)
def test_the_threshold_is_the_best_of_all(data):
    found, gold = [list(column) for column in zip(*data, strict=True)]
    chosen = choose_threshold([resolve(spans) for spans in found], gold)
    candidates = {span[3] for spans in found for span in spans} | {0.0, 0.5, 1.1}
    best = max(f1_at(t, found, gold) for t in candidates)
    assert f1_at(chosen, found, gold) == pytest.approx(best)
    resolved = [span[3] for spans in found for span in resolve(spans)]
    for threshold in candidates:  # the highest among the best: whatever keeps fewer is worse
        if best and sum(p >= threshold for p in resolved) < sum(p >= chosen for p in resolved):
            assert f1_at(threshold, found, gold) < best - 1e-9


def test_neighbouring_probabilities_are_told_apart():
    upper = torch.tensor(0.3)
    for _ in range(4):
        lower = torch.nextafter(upper, torch.tensor(0.0))
        chosen = choose_threshold([[(0, 1, 0, upper.item()), (2, 3, 0, lower.item())]], [[(0, 1, 0)]])
        assert lower.item() < torch.tensor(chosen).item() <= upper.item()
        upper = lower


def test_without_a_right_prediction_the_threshold_is_one_half():
    assert choose_threshold([[(0, 1, 0, 0.9)], []], [[], [(0, 1, 1)]]) == 0.5
    with pytest.raises(ValueError, match="1 sentences and gold spans of 2"):
        choose_threshold([[]], [[], []])


def test_the_threshold_is_saved_with_the_head_and_used():
    head, again = (random_head(seed=seed, scale=0.6) for seed in (1, 2))
    x, lengths = torch.randn(7, WIDTH, dtype=torch.float64), torch.tensor([7])
    head.threshold.fill_(0.6)
    again.load_state_dict(head.state_dict())
    assert again.predict(x, lengths) == head.predict(x, lengths, 0.6) != head.predict(x, lengths, FLOOR)


def test_an_uncalibrated_head_keeps_what_beats_null():
    head, x = random_head(max_span=3, scale=0.5), torch.randn(7, WIDTH, dtype=torch.float64)
    best, label = head(x).softmax(-1).max(-1)
    wanted = [
        (i, i + w + 1, label[i, w].item() - 1, best[i, w].item())
        for i, w in itertools.product(range(7), range(3))
        if label[i, w] > 0 and i + w < 7
    ]
    assert sum(span[3] < 0.5 for span in wanted) > 2  # the best of four need not reach one half
    assert head.predict(x, torch.tensor([7])) == [resolve(wanted)]


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=6).flatmap(
        lambda n: st.tuples(st.just(n), st.permutations(range(len(n))))
    ),
    st.integers(1, 9),
    st.sampled_from([None, 0.0, 0.2, 0.7]),
)
def test_predictions_depend_on_neither_batch_order_nor_blocks(sentences, max_words, threshold):
    lengths, order = sentences
    head = random_head(max_span=4, scale=0.7)
    torch.manual_seed(1)
    parts = [torch.randn(n, WIDTH, dtype=torch.float64) for n in lengths]
    alone = [head.predict(x, torch.tensor([len(x)]), threshold)[0] for x in parts]
    head.max_words = max_words
    shuffled = head.predict(torch.cat([parts[i] for i in order]), torch.tensor([lengths[i] for i in order]), threshold)
    for i, got in zip(order, shuffled, strict=True):
        assert [span[:3] for span in got] == [span[:3] for span in alone[i]]
        assert [span[3] for span in got] == pytest.approx([span[3] for span in alone[i]])
        assert all(0 <= a < b <= lengths[i] and b - a <= 4 and p >= (threshold or 0) for a, b, _, p in got)


def test_half_precision_features_are_read():
    head, x = random_head().float(), torch.randn(6, WIDTH).half()
    assert head.predict(x, torch.tensor([6])) == head.predict(x.float(), torch.tensor([6]))


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ([[], [(1, 4, 0)]], r"sentence 2 of the batch: span \[1, 4\) with label 0 does not fit 3 words"),
        ([[(1, 1, 0)], []], "sentence 1"),
        ([[(0, 1, LABELS)], []], r"label 3 .* 3 labels \(0 to 2\)"),
        ([[]], "gold spans of 1 sentences, but 2 lengths"),
    ],
)
def test_gold_that_does_not_fit_is_refused(gold, message):
    with pytest.raises(ValueError, match=message):
        random_head().loss(torch.zeros(5, WIDTH), torch.tensor([2, 3]), gold)


def test_other_misuse_is_refused():
    with pytest.raises(ValueError, match="sum to 4, but there are 5 words"):
        random_head().predict(torch.zeros(5, WIDTH), torch.tensor([2, 2]))
