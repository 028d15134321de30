import pytest
import torch

from boustro.lab.generation.both_ends.pair import LMPair
from boustro.lab.judges import CONTROLS, SCORES, Evidence, best, weigh
from test_both_ends import log_probs

CONTEXTS = [[5, 7, 9], [5, 7, 9], [300, 41, 12, 90], []]
CHOICES = [[21, 22], [23], [24, 25, 26, 27], [28]]


@pytest.fixture(scope="module")
def pair(tiny_pair) -> LMPair:
    return LMPair.load(tiny_pair, dtype="float32")


def total(reader, context, written) -> float:
    found = log_probs(reader, context, written)
    return float(sum(found[i, piece] for i, piece in enumerate(written)))


def test_evidence_is_what_the_lms_say(pair, monkeypatch):
    monkeypatch.setattr("boustro.lab.judges.PADDED_PIECES", 12)  # several batches
    found = weigh(CONTEXTS, CHOICES, pair.forward, pair.backward)
    rows = list(zip(CONTEXTS, CHOICES, strict=True))
    wanted = {
        "forward": [total(pair.forward, context, choice) for context, choice in rows],
        "prior": [total(pair.forward, [], choice) for _, choice in rows],
        "backward": [total(pair.backward, choice, context[::-1]) for context, choice in rows],
        "pieces": [2.0, 1.0, 4.0, 1.0],
    }
    for name, values in wanted.items():
        torch.testing.assert_close(getattr(found, name), torch.tensor(values), atol=1e-3, rtol=0)
    alone = weigh(CONTEXTS, CHOICES, None, pair.backward)
    assert alone.forward is None and alone.prior is None and torch.equal(alone.backward, found.backward)


def test_greedy_is_what_the_forward_lm_would_write(pair):
    written = []
    for _ in range(3):
        written.append(int(log_probs(pair.forward, CONTEXTS[0], written)[-1].argmax()))
    found = weigh([CONTEXTS[0]] * 3, [written, [*written[:2], 1], written[:1]], pair.forward, wanted=("forward",))
    assert found.greedy is not None and found.greedy.tolist() == [True, False, True]


def test_scores_and_choices_by_hand():
    evidence = Evidence(
        pieces=torch.tensor([1.0, 2.0, 4.0, 2.0]),
        forward=torch.tensor([-2.0, -3.0, -8.0, -5.0]),
        prior=torch.tensor([-1.0, -6.0, -9.0, -7.0]),
        backward=torch.tensor([-9.0, -7.0, -7.5, -1.0]),
    )
    found = {name: score.of(evidence).tolist() for name, score in {**SCORES, **CONTROLS}.items()}
    assert found == {
        "forward": [-2, -3, -8, -5],
        "forward-mean": [-2, -1.5, -2, -2.5],
        "forward-pmi": [-1, 3, 1, 2],
        "backward": [-9, -7, -7.5, -1],
        "pair": [-11, -10, -15.5, -6],
        "pair-pmi": [-10, -4, -6.5, 1],
        "length": [1, 2, 4, 2],
        "prior": [-1, -6, -9, -7],
    }
    assert best(SCORES["forward"].of(evidence), [3, 1]) == [0, 0]
    assert best(SCORES["pair-pmi"].of(evidence), [2, 2]) == [1, 1]
    assert best(torch.tensor([1.0, 1.0]), [2]) == [0]  # the first of equals
