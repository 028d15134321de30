import re

import numpy as np
import pytest
import torch

from boustro.lab.generation.both_ends.filling import Gap, beam_search, context_room, fill_gaps, write
from boustro.lab.generation.both_ends.pair import Ends, LMPair
from boustro.lab.generation.both_ends.reader import EndReader
from boustro.lab.generation.draws import draw_pieces
from boustro.lab.generation.options import InfillOptions
from conftest import KINDS

CONTEXTS = [([5, 7, 9, 300, 41], [12, 380]), ([77, 8], [6, 6, 6, 250, 90, 31]), ([], [14]), ([390] * 9, [])]
GAPS = [Gap(*CONTEXTS[n], spaced, (n,)) for n, spaced in enumerate([None, True, False, True])]


@pytest.fixture(scope="module")
def pair(tiny_pair) -> LMPair:
    return LMPair.load(tiny_pair, dtype="float32")


def log_probs(reader: EndReader, context, written) -> torch.Tensor:
    """(W + 1, V) of every piece written and of the next, by one pass over everything, without padding or cache."""
    reading = [*(reversed(context) if reader.backward else context)]
    if reader.lm.config.sentinel or not reading:
        reading = [reader.lm.config.eos_token_id, *reading]
    with torch.inference_mode():
        found = reader.lm(torch.tensor([[*reading, *written]])).logits[0].float().log_softmax(-1)
    return found[len(reading) - 1 :]


@pytest.mark.parametrize(("kind", "sentinel"), zip(KINDS, [True, False] * 2, strict=True))
def test_cached_and_padded_reading_is_plain_reading(tiny_lm, kind, sentinel):
    pair = LMPair.load(
        f"{tiny_lm(kind, sentinel=sentinel)}+{tiny_lm(kind, 'backward', seed=1, sentinel=sentinel)}", dtype="float32"
    )
    written = [[4], [], [3, 5, 6], [9, 9]]
    for reader, side in ((pair.forward, 0), (pair.backward, 1)):
        contexts = [own[side] for own in CONTEXTS]
        read = reader.read(contexts)
        for rows in ([0, 1, 2, 3], [3, 0, 0, 1]):
            following, scores = read.next(written, rows), read.scores(written, rows)
            for n, row in enumerate(rows):
                plain = log_probs(reader, contexts[row], written[n])
                torch.testing.assert_close(following[n], plain[-1], atol=1e-4, rtol=0)
                own = torch.stack([plain[i, piece] for i, piece in enumerate(written[n])] or [torch.tensor(0.0)])
                torch.testing.assert_close(scores[n].sum(), own.sum(), atol=2e-4, rtol=0)


def surer_first(pair: LMPair, gap: Gap, length: int, weight: float) -> list[int]:
    """One gap, one pass over everything for every decision, in the words of the definition."""
    left: list[int] = []
    right: list[int] = []
    for step in range(length):
        f = log_probs(pair.forward, gap.left, left)[-1].clone()
        b = log_probs(pair.backward, gap.right, right)[-1].clone()
        f[~pair.writable] = b[~pair.writable] = -torch.inf
        if gap.spaced is not None:
            wrong = pair.spaced != gap.spaced
            if not left:
                f[wrong] = -torch.inf
            if len(right) == length - 1:
                b[wrong] = -torch.inf
        if step == length - 1:
            left.append(int((f + b - weight * pair.unigram).argmax()))
        elif f.max() >= b.max():
            left.append(int(f.argmax()))
        else:
            right.append(int(b.argmax()))
    return left + right[::-1]


def test_surer_first_is_its_definition_and_a_beam_of_one(pair):
    ends = Ends(pair, [(gap.left, gap.right) for gap in GAPS], [gap.spaced for gap in GAPS])
    for length in (1, 2, 3, 5):
        found = write(ends, length, range(len(GAPS)), lambda scores: scores.argmax(-1).tolist(), 0.5)
        assert found == [surer_first(pair, gap, length, 0.5) for gap in GAPS]
        assert [list(pieces) for _, pieces in beam_search(ends, length, 1, 0.5)] == found


def test_a_wide_beam_finds_the_best_of_all_fillings(tiny_pair):
    pair, few = LMPair.load(tiny_pair, dtype="float32"), [30, 31, 32, 33]
    pair.writable[:] = False
    pair.writable[few] = True
    gap = Gap(*CONTEXTS[0])
    (found,) = fill_gaps(pair, [gap], InfillOptions(beam=200, tokens_per_gap="3", candidates=64))
    scores = {}
    for middle in np.ndindex(4, 4, 4):
        pieces = [few[i] for i in middle]
        f, b = log_probs(pair.forward, gap.left, pieces), log_probs(pair.backward, gap.right, pieces[::-1])
        sides = sum(f[i, p] + b[2 - i, p] for i, p in enumerate(pieces))
        scores[tuple(pieces)] = float(sides - 0.75 * pair.unigram[pieces].sum())
    assert {own.pieces for own in found} == {*scores}
    np.testing.assert_allclose([own.joint for own in found], [scores[own.pieces] for own in found], atol=1e-3)
    ends = Ends(pair, [(gap.left, gap.right)])
    assert {pieces for _, pieces in beam_search(ends, 3, 8, 0.75)} <= {*scores}
    assert max(scores, key=lambda pieces: scores[pieces]) in {p for _, p in beam_search(ends, 3, 16, 0.75)}


def test_the_score_around_is_the_probability_of_the_text_in_both_directions(pair):
    left, right, middle = [5, 7, 9, 300, 41], [12, 380, 44], [21, 33]
    found = Ends(pair, [(left, right)]).around([middle], [0], 2)
    ahead, behind = [21, 33, 12, 380], [33, 21, 41, 300]
    f, b = log_probs(pair.forward, left, ahead), log_probs(pair.backward, right, behind)
    wanted = sum(f[i, p] for i, p in enumerate(ahead)) + sum(b[i, p] for i, p in enumerate(behind))
    torch.testing.assert_close(found[0], wanted, atol=1e-3, rtol=0)


def test_the_joint_score_takes_the_unigram_off_again(pair):
    lefts, rights = zip(*CONTEXTS, strict=True)
    middles = [[21], [22, 23, 24], [25, 26], [27]]
    found = Ends(pair, CONTEXTS).joint(middles, range(4), 0.5)
    for score, left, middle, right in zip(found, lefts, middles, rights, strict=True):
        f, b = log_probs(pair.forward, left, middle), log_probs(pair.backward, right, middle[::-1])
        wanted = sum(f[i, p] + b[-2 - i, p] - 0.5 * pair.unigram[p] for i, p in enumerate(middle))
        torch.testing.assert_close(score, wanted, atol=1e-3, rtol=0)


def test_the_unigram_is_what_both_predict_after_their_start_piece(pair):
    both = [log_probs(reader, [], [])[-1].exp() for reader in (pair.forward, pair.backward)]
    torch.testing.assert_close(pair.unigram.exp(), sum(both) / 2)
    assert pair.unigram.exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_lengths_are_compared_and_the_best_is_first(pair):
    single = [fill_gaps(pair, GAPS, InfillOptions(tokens_per_gap=str(n), read_on=4)) for n in (1, 2, 3)]
    best = [max((own[row][0] for own in single), key=lambda filling: filling.score) for row in range(len(GAPS))]
    found = [own[0] for own in fill_gaps(pair, GAPS, InfillOptions(tokens_per_gap="1-3", read_on=4))]
    assert [own.pieces for own in found] == [own.pieces for own in best]


def test_what_is_drawn_depends_on_the_seed_and_the_gap_alone(pair):
    options = {"tokens_per_gap": "3", "temperature": 1.0, "candidates": 4, "read_on": 4}
    first, again, other = (fill_gaps(pair, GAPS, InfillOptions(seed=seed, **options)) for seed in (1, 1, 2))
    assert first == again and first != other and max(map(len, first)) > 1
    (alone,) = fill_gaps(pair, GAPS[1:2], InfillOptions(seed=1, **options))
    assert [own.pieces for own in alone] == [own.pieces for own in first[1]]


def test_draws_follow_the_probabilities():
    shares = torch.tensor([0.1, 0.6, 0.0, 0.3])
    uniforms = torch.linspace(0, 1, 10_001)[:-1]
    rows = shares.log().expand(10_000, -1)
    drawn = draw_pieces(rows, 1.0, 1.0, uniforms).bincount(minlength=4) / 10_000
    torch.testing.assert_close(drawn, shares, atol=2e-3, rtol=0)
    kept = draw_pieces(rows, 1.0, 0.61, uniforms).bincount(minlength=4) / 10_000
    torch.testing.assert_close(kept, torch.tensor([0.0, 2 / 3, 0.0, 1 / 3]), atol=2e-3, rtol=0)
    assert set(draw_pieces(rows, 1.0, 0.6, uniforms).tolist()) == {1}
    sharp = draw_pieces(rows, 0.5, 1.0, uniforms).bincount(minlength=4) / 10_000
    torch.testing.assert_close(sharp, shares**2 / (shares**2).sum(), atol=2e-3, rtol=0)
    assert draw_pieces(rows[:2]).tolist() == [1, 1]
    assert draw_pieces(rows[:1], 1.0, 1e-9, torch.tensor([0.999])).tolist() == [1]


def test_context_beyond_the_window_is_cut_to_what_is_nearest(pair):
    options = InfillOptions(tokens_per_gap="2", read_on=4)
    room = context_room(pair, options)
    assert room == pair.forward.room - 2 - 4
    left, right = [*range(20, 20 + 2 * room)], [*range(300, 300 + 2 * room)]
    right = [piece % 400 + 1 for piece in right]
    long, cut = fill_gaps(pair, [Gap(left, right), Gap(left[-room:], right[:room])], options)
    assert long == cut
    with pytest.raises(ValueError, match="and 16 pieces read on leave no room for a context"):
        context_room(pair, InfillOptions(tokens_per_gap="60"))


def test_options_that_do_not_fit_each_other():
    for wrong, said in (
        ({"tokens_per_gap": "0"}, "1 to 64"),
        ({"tokens_per_gap": "4-2"}, "1-4"),
        ({"tokens_per_gap": "a"}, "'a'"),
        ({"candidates": 9, "beam": 2}, "--beam of at least 9"),
        ({"top_p": 0.0}, "above 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            InfillOptions(**wrong)
