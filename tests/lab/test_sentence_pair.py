"""boustro.lab.objectives.sentence_pair, lab.masked: BERT's examples by hand and over many draws, BERT's loss."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from transformers import AutoModelForPreTraining

from boustro.lab.masked import PairLMWithLoss
from boustro.lab.objectives.examples import collate, keyed_generator
from boustro.lab.objectives.sentence_pair import Frame, PairPlan, SentencePair, sentence_pair, truncate
from boustro.lab.presets import make_masked_config
from test_masked import VOCABULARY, make_pieces
from test_masked_objective import END, MASK, Scripted, dense_targets, make_masking, table

CLS, SEP, PAD = 47, 48, 46
SPECIAL = table(END, MASK, CLS, SEP, PAD)
MASKING = make_masking(special=SPECIAL)


def make_frame(**options) -> Frame:
    return Frame(**{"cls_id": CLS, "sep_id": SEP, "pad_id": PAD, "length": 12, "short_share": 0.0, **options})


@pytest.mark.parametrize(("draw", "second", "label"), [(0.7, [4, 5, 6], 0), (0.2, [31, 32, 33], 1)])
def test_by_hand(draw, second, label):
    """Both cut in the middle; one of six is hidden, the second of the first text, by the mask piece."""
    rng = Scripted(choice=[[2]], random=[0.5, draw, 0.5, [0.0], []])
    found = sentence_pair(np.arange(1, 7), np.array([29, 30, 31, 32, 33]), rng, MASKING, make_frame())
    assert found.input_ids.tolist() == [CLS, 1, MASK, 3, SEP, *second, SEP, PAD, PAD, PAD]
    assert found.segment_ids.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0]
    assert found.documents.tolist() == [0] * 9 + [-1] * 3
    assert (found.positions.tolist(), found.targets.tolist()) == ([2, 0], [2, -100])
    assert found.is_random == label


def bert_truncate(first, second, room):
    """The lengths that BERT's own loop leaves."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return len(first), len(second)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(2, 40))
def test_the_longer_text_is_truncated_piece_by_piece(num_first, num_second, room):
    first, second = np.arange(num_first), np.arange(100, 100 + num_second)
    found = truncate(first, second, room, np.random.default_rng(0))
    assert (len(found[0]), len(found[1])) == bert_truncate(first, second, room)
    for text in found:  # a run of the text
        assert text.tolist() == list(range(text[0], text[0] + len(text)))


def test_pieces_go_from_either_end():
    starts = [truncate(np.arange(50), np.arange(5), 15, np.random.default_rng(i))[0][0] for i in range(300)]
    assert np.mean(starts) == pytest.approx(20, abs=0.6) and np.std(starts) == pytest.approx(10**0.5, rel=0.15)


@given(st.integers(2, 12), st.integers(2, 12), st.integers(5, 14), st.integers(0, 50))
def test_what_holds_of_every_pair(num_chunk, num_other, length, seed):
    chunk, other = np.arange(1, num_chunk + 1), np.arange(21, 21 + num_other)
    found = sentence_pair(
        chunk, other, keyed_generator(0, 0, seed), MASKING, make_frame(length=length, short_share=0.5)
    )
    asked = found.targets != -100
    text = found.input_ids.copy()
    text[found.positions[asked]] = found.targets[asked]
    real = found.documents == 0
    assert len(text) == length and (text[~real] == PAD).all() and not (text[real] == PAD).any()
    assert text[0] == CLS and (text == SEP).sum() == 2 and text[real][-1] == SEP
    first, second = (text[(found.segment_ids == s) & real & ~SPECIAL[text]] for s in (0, 1))
    assert len(first) and len(second) and asked.sum() >= 1
    assert set(first.tolist()) <= set(chunk.tolist())
    assert set(second.tolist()) <= set((other if found.is_random else chunk).tolist())
    assert len(found.positions) == MASKING.num_predictions(length)
    if not found.is_random:
        assert first[-1] < second[0]


def test_half_of_the_pairs_are_random_and_a_tenth_short():
    chunk, other, frame = np.arange(1, 21), np.arange(21, 41), make_frame(length=23, short_share=0.1)
    pairs = [sentence_pair(chunk, other, keyed_generator(0, 0, i), MASKING, frame) for i in range(800)]
    assert np.mean([pair.is_random for pair in pairs]) == pytest.approx(0.5, abs=0.055)
    assert np.mean([(pair.documents < 0).any() for pair in pairs]) == pytest.approx(0.1 * 18 / 19, abs=0.035)


def lengths_of(pair: SentencePair) -> tuple[int, int]:
    """Pieces of the first text and of the second."""
    second = int(((pair.segment_ids == 1) & (pair.documents == 0)).sum()) - 1
    return int((pair.documents == 0).sum()) - second - 3, second


@pytest.mark.parametrize(
    ("typical", "ends"),
    [
        (60, table(3, 14, 25)),
        *(pytest.param(*case, marks=pytest.mark.long) for case in ((250, None), (900, table(3, 14, 25)))),
    ],
)
def test_a_classifier_that_sees_lengths_alone_is_no_better_than_chance(typical, ends):
    """At 256 pieces an example: documents much shorter than that, about as long, and much longer."""
    rng, frame = np.random.default_rng(0), make_frame(length=256, short_share=0.1, sentence_ends=ends)
    documents = [rng.integers(1, 45, max(int(n), 2)) for n in rng.lognormal(np.log(typical), 1.0, 800)]
    plan = PairPlan(np.array([len(d) for d in documents]), frame.room)
    lengths, labels = [], []
    for index in rng.choice(len(plan), 4000):
        given = keyed_generator(1, 0, len(labels))
        texts = [documents[run.document][run.start : run.stop] for run in plan.draw(int(index), given)]
        pair = sentence_pair(*texts, given, MASKING, frame)
        lengths.append(lengths_of(pair))
        labels.append(int(pair.is_random))
    first, second = np.array(lengths).T
    seen = np.stack([first, second, first + second, first - second], 1)
    forest = RandomForestClassifier(30, min_samples_leaf=10, random_state=0)
    right = cross_val_score(forest, seen, np.array(labels), cv=4)
    assert right.mean() < 0.5 + 3 * 0.5 / len(labels) ** 0.5


@given(st.integers(2, 40), st.integers(2, 40), st.integers(5, 60), st.integers(0, 99))
def test_the_lengths_are_the_same_whichever_text_follows(num_chunk, num_other, length, seed):
    def lengths(coin):
        rng = Coin(seed, coin)
        pair = sentence_pair(
            np.arange(1, num_chunk + 1), np.arange(1, num_other + 1), rng, MASKING, make_frame(length=length)
        )
        assert pair.is_random == (coin < 0.5)
        return lengths_of(pair)

    assert lengths(0.1) == lengths(0.9)


class Coin(np.random.Generator):
    """A generator whose second call of `random`, which decides what follows, gives `coin`."""

    def __init__(self, seed: int, coin: float) -> None:
        super().__init__(np.random.PCG64(seed))
        self.coins = iter([None, coin])

    def random(self, *given, **options):
        drawn, coin = super().random(*given, **options), next(self.coins, None)
        return drawn if coin is None else coin


def test_a_second_text_from_elsewhere_begins_where_a_sentence_does_as_a_true_one_does():
    frame = make_frame(length=40, sentence_ends=table(9))
    sentences = [np.array([1, *[2] * n, 9]) for n in range(3, 9)]  # 1 begins a sentence and 9 ends it
    for index in range(200):
        rng = keyed_generator(0, 0, index)
        chunk, other = (np.concatenate([sentences[i] for i in rng.integers(0, 6, n)]) for n in (3, 4))
        pair = sentence_pair(chunk, other[2:], rng, make_masking(special=SPECIAL, rate=0.01), frame)
        place = int(np.flatnonzero(pair.segment_ids == 1)[0])
        assert pair.input_ids[place] == 1 or place in pair.positions


def test_a_chunk_is_cut_after_a_sentence_else_between_words():
    ends = table(5, 9)
    chunk, other = np.array([1, 2, 5, 6, 9, 7, 8]), np.arange(31, 38)
    for frame, starts, wanted in (
        (make_frame(sentence_ends=ends), None, {3, 5}),
        (make_frame(sentence_ends=table(44)), table(5, 7, 8), {2, 5, 6}),
        (make_frame(), np.zeros(50, bool), {1, 2, 3, 4, 5, 6}),  # one long word: anywhere
    ):
        masking = make_masking(special=SPECIAL, word_starts=starts)
        pairs = [sentence_pair(chunk, other, keyed_generator(0, 0, i), masking, frame) for i in range(80)]
        cuts = {int((p.segment_ids[p.documents == 0] == 0).sum()) - 2 for p in pairs if not p.is_random}
        assert cuts == wanted


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.integers(2, 4), st.integers(0, 99))
def test_a_plan_reads_every_chunk_once_and_the_other_document_is_another(lengths, room, seed):
    lengths = np.array(lengths)
    if (lengths > 1).sum() < 2:
        with pytest.raises(ValueError, match="two documents of at least 2 pieces, and there are"):
            PairPlan(lengths, room)
        return
    plan = PairPlan(lengths, room)
    read = []
    for index in range(len(plan)):
        chunk, other = plan.draw(index, keyed_generator(0, 0, seed + index))
        assert other.document != chunk.document
        for run in (chunk, other):
            assert run.start % room == 0 and 2 <= run.stop - run.start <= room and run.stop <= lengths[run.document]
        read += [(chunk.document, piece) for piece in range(chunk.start, chunk.stop)]
    assert len(set(read)) == len(read) == lengths.sum() - plan.num_left_out
    with pytest.raises(IndexError):
        plan.draw(len(plan), np.random.default_rng(0))


def test_every_chunk_of_the_other_documents_is_drawn_alike():
    plan, counts = PairPlan(np.array([4, 0, 5, 8, 4]), 4), Counter()
    for i in range(1200):
        counts[plan.draw(1, keyed_generator(0, 0, i))[1][:2]] += 1
    assert set(counts) == {(0, 0), (3, 0), (3, 4), (4, 0)} and min(counts.values()) > 240


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least 5 pieces"):
        make_frame(length=4)
    with pytest.raises(ValueError, match="must be special"):
        sentence_pair(np.arange(3), np.arange(3), np.random.default_rng(0), make_masking(), make_frame())
    with pytest.raises(ValueError, match="not 1 and 3"):
        sentence_pair(np.arange(1), np.arange(3), np.random.default_rng(0), MASKING, make_frame())


@pytest.mark.usefixtures("small_chunks")
def test_the_loss_and_its_gradients_are_those_of_transformers():
    torch.manual_seed(0)
    config = make_masked_config("bert-tiny", make_pieces(), VOCABULARY, 12)
    lm = AutoModelForPreTraining.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in lm.parameters():
            parameter.normal_(0, 0.1)
    rng, frame = np.random.default_rng(0), make_frame()
    examples = [
        sentence_pair(*rng.integers(1, 45, (2, 9 - i % 3)), keyed_generator(0, 0, i), MASKING, frame) for i in range(8)
    ]
    batch = collate(examples)
    assert 0 < batch["is_random"].sum() < 8 and (batch["documents"] < 0).any()
    labels = np.stack([dense_targets(e.positions, e.targets, 12) for e in examples])
    wanted = lm(
        input_ids=batch["input_ids"],
        token_type_ids=batch["segment_ids"],
        attention_mask=(batch["documents"] >= 0).long(),
        labels=torch.from_numpy(labels),
        next_sentence_label=batch["is_random"],
    ).loss
    wanted.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in lm.named_parameters()}
    lm.zero_grad()
    losses = PairLMWithLoss(lm)(**batch)
    losses["loss"].backward()
    torch.testing.assert_close(losses["loss"], wanted)
    torch.testing.assert_close(losses["loss"], losses["masked_loss"] + losses["pair_loss"])
    for name, parameter in lm.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], msg=name, rtol=1e-4, atol=1e-6)
