"""Masked objectives: integers by hand, rates over many draws, whole words, gaps, and which state predicts a piece."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boustro.lab.generation.canvas import Canvas, between
from boustro.lab.generation.models import open_lm
from boustro.lab.objectives.examples import IGNORED, document_ids, keyed_generator
from boustro.lab.objectives.masked import masked
from boustro.lab.objectives.masked_next import masked_next
from boustro.lab.objectives.masking import Masking, choose_words, special_pieces
from boustro.lab.objectives.words import sentence_ends, word_bounds, word_ids, word_starts
from gaps import fill_masked
from generators import write_masked_lm
from tokenizer_kinds import TINY

VOCABULARY, END, MASK = 50, 0, 49


def table(*identifiers: int, size: int = VOCABULARY) -> np.ndarray:
    found = np.zeros(size, bool)
    found[list(identifiers)] = True
    return found


def make_masking(**options) -> Masking:
    return Masking(**{"mask_id": MASK, "end_id": END, "special": table(END, MASK), **options})


segments = st.lists(st.integers(0, 48), min_size=1, max_size=60).map(np.array)
"""(T,) pieces, end-of-text ones among them."""


class Scripted(np.random.Generator):
    """A generator whose draws are written down beforehand."""

    def __init__(self, **draws) -> None:
        super().__init__(np.random.PCG64(0))
        self.draws = {name: iter(values) for name, values in draws.items()}

    def choice(self, *_, **__):
        return np.array(next(self.draws["choice"]))

    def permutation(self, *_):
        return np.array(next(self.draws["permutation"]))

    def integers(self, *_):
        return np.array(next(self.draws["integers"]))

    def random(self, *_):
        return np.array(next(self.draws["random"]))


def dense_targets(positions, targets, length: int) -> np.ndarray:
    """Targets (T,) as transformers takes them for `labels`: -100 where nothing is predicted."""
    labels = np.full(length, IGNORED, np.int64)
    labels[positions[targets != IGNORED]] = targets[targets != IGNORED]
    return labels


def test_by_hand():
    """Three of eight are chosen; the draws .1, .85 and .95 mask, keep and replace."""
    pieces = np.array([8, 3, 4, END, 1, 9, 7, 2, 6])
    rng = Scripted(choice=[[6, 2, 5]], random=[[0.1, 0.85, 0.95], [0.5]])
    found = masked(pieces, rng, make_masking(rate=0.375))
    assert found.input_ids.tolist() == [8, 3, MASK, END, 1, 9, 25, 2, 6]  # half of 48 pieces lie below 25: 1 … 24
    assert found.positions.tolist() == [2, 5, 6]
    assert found.targets.tolist() == [4, 9, 7]
    assert found.documents.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert dense_targets(found.positions, found.targets, 9).tolist() == [-100, -100, 4, -100, -100, 9, 7, -100, -100]


def test_whole_words_by_hand():
    """Words of 2, 1, 3 and 1 pieces; with room for three the first fits, the long one not, the last does."""
    words = np.array([0, 0, 1, 2, 2, 2, 3])
    chosen = choose_words(words, np.ones(7, bool), 3, Scripted(permutation=[[0, 2, 3, 1]]))
    assert chosen.tolist() == [0, 1, 6]


@given(segments, st.sampled_from([0.15, 0.4, 1.0]), st.booleans(), st.integers(0, 99))
def test_what_holds_of_every_draw(pieces, rate, whole, seed):
    starts = np.arange(VOCABULARY) % 3 == 0 if whole else None
    masking = make_masking(rate=rate, word_starts=starts)
    before = pieces.copy()
    found = masked(pieces, keyed_generator(1, 2, seed), masking)
    assert (pieces == before).all(), "the segment is left as it was"
    asked = found.targets != -100
    positions = found.positions[asked]
    eligible = ~masking.special[pieces]
    assert len(set(positions.tolist())) == len(positions), "every position is predicted at most once"
    assert (found.targets[asked] == pieces[positions]).all()
    assert eligible[positions].all(), "special pieces are never chosen"
    changed = np.flatnonzero(found.input_ids != pieces)
    assert set(changed.tolist()) <= set(positions.tolist())
    assert len(found.positions) == len(found.targets) == masking.num_predictions(len(pieces))
    budget = masking.num_predictions(int(eligible.sum())) if eligible.any() else 0
    if not whole:
        assert len(positions) == budget
        return
    assert len(positions) <= budget
    words = masking.words(pieces)
    assert not set(words[positions].tolist()) & set(words[np.setdiff1d(np.arange(len(pieces)), positions)].tolist())
    left = budget - len(positions)
    sizes = np.diff(word_bounds(words))
    untouched = set(words[eligible].tolist()) - set(words[positions].tolist())
    assert all(sizes[w] > left for w in untouched), "a word that still fits is chosen"


def test_the_shares_are_80_10_10_and_every_position_is_chosen_alike():
    masking, pieces = make_masking(), np.tile(np.arange(1, 41), 5)  # 200 pieces, none of them 41 … 48
    counts, fates, drawn = np.zeros(200), np.zeros(3), []
    for index in range(1000):
        found = masked(pieces, keyed_generator(0, 0, index), masking)
        counts[found.positions] += 1
        read = found.input_ids[found.positions]
        fates += [(read == MASK).sum(), (read == found.targets).sum(), 0]
        drawn += read[(read != MASK) & (read != found.targets)].tolist()
    total = counts.sum()
    assert total == 30 * 1000
    # A random piece is the original itself in 1 of 48 draws: 10 % + 10 %/48 stay as they are.
    assert fates[0] / total == pytest.approx(0.8, abs=0.01)
    assert fates[1] / total == pytest.approx(0.1 + 0.1 / 48, abs=0.008)
    assert len(drawn) / total == pytest.approx(0.1 * 47 / 48, abs=0.008)
    assert counts.std() / counts.mean() == pytest.approx((0.85 / 150) ** 0.5, rel=0.25)  # as the binomial has it
    assert set(drawn) == set(range(1, 49)), "every piece is drawn, but neither the mask piece nor the sentinel"


def test_random_pieces_come_by_their_frequency():
    frequencies = np.zeros(VOCABULARY)
    frequencies[[END, 3, 7, MASK]] = [100, 1, 3, 100]  # special pieces are not drawn, however frequent
    drawn = make_masking(frequencies=frequencies).draw(8000, np.random.default_rng(0))
    assert set(drawn.tolist()) == {3, 7}
    assert (drawn == 7).mean() == pytest.approx(0.75, abs=0.02)


def test_a_draw_depends_on_seed_epoch_and_index_and_nothing_else():
    pieces, masking = np.arange(1, 41), make_masking()
    draw = lambda *key: masked(pieces, keyed_generator(*key), masking).input_ids.tolist()  # noqa: E731
    keys = [(seed, epoch, index) for seed in range(3) for epoch in range(3) for index in range(3)]
    draws = [tuple(draw(*key)) for key in keys]
    assert len(set(draws)) == 27
    assert [tuple(draw(*key)) for key in reversed(keys)] == draws[::-1]
    with pytest.raises(ValueError, match="count from 0"):
        keyed_generator(0, -1, 0)


def test_a_segment_without_any_piece_to_hide_asks_for_nothing():
    found = masked(np.array([END, END, MASK]), keyed_generator(0, 0, 0), make_masking())
    assert found.targets.tolist() == [-100] and found.input_ids.tolist() == [END, END, MASK]


def test_the_sentinel_belongs_to_the_document_that_it_ends():
    pieces = np.array([5, 7, END, END, 4, END, 9])
    assert document_ids(pieces, END).tolist() == [0, 0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "share above 0"),
        ({"mask_share": 0.8, "random_share": 0.3}, "together they are at most 1"),
        ({"mask_id": 50}, "mask_id 50"),
        ({"end_id": 5}, "end_id 5"),
        ({"word_starts": np.ones(49, bool)}, "word_starts has 49"),
        ({"frequencies": np.zeros(50)}, "no piece can be drawn"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_masking(**options)


TEXT = ["The ferry to Vellmar leaves at seven, unbelievably late.", "Nobody reads the harbour bulletin!"] * 3


@pytest.mark.parametrize("kind", TINY)
def test_the_table_of_word_starts_finds_the_words_of_running_text(kind):
    tokenizer = TINY[kind](TEXT)
    starts, special = word_starts(tokenizer), special_pieces(tokenizer)
    ids = np.array(tokenizer(" Nobody leaves the harbour, ferry!", add_special_tokens=False)["input_ids"])
    bounds = word_bounds(word_ids(ids, starts, special))
    words = [tokenizer.decode(ids[a:b]).strip() for a, b in pairwise(bounds)]
    expected = ["Nobody", "leaves", "the", "harbour", ",", "ferry", "!"]
    assert [w for w in words if w] == (expected if kind != "word_piece_uncased" else [w.lower() for w in expected])
    ends = sentence_ends(tokenizer)
    assert [int(i) for i in np.flatnonzero(ends[ids])] == [len(ids) - 1]


def test_word_ids_by_hand():
    """Pieces 3, 6, 9 … begin words; the sentinel is a word by itself, and what follows it begins one."""
    starts, special = np.arange(VOCABULARY) % 3 == 0, table(END, MASK)
    assert word_ids(np.array([4, 5, 6, 7, END, 8, 9]), starts, special).tolist() == [0, 0, 1, 1, 2, 3, 4]


def test_a_script_without_spaces_is_cut_between_characters():
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({"中": 0, "国": 1, "▁a": 2, "b": 3, "<0xE4>": 4, "ภ": 5}, unk_token="b"))
    backend.decoder = decoders.Metaspace()  # type: ignore[assignment]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    assert word_starts(tokenizer).tolist() == [True, True, True, False, False, True]


def test_a_tokenizer_that_does_not_show_its_words_is_refused():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a")))
    with pytest.raises(ValueError, match="do not show where words begin"):
        word_starts(tokenizer)


M, S, END_PIECE = 9, 7, 0  # the mask piece, the start piece and the end-of-text piece of a vocabulary of ten


def masking(rate=0.4, also_special=(), **shares):
    special = np.zeros(10, bool)
    special[[M, S, END_PIECE, *also_special]] = True
    return Masking(mask_id=M, end_id=END_PIECE, special=special, rate=rate, **shares)


@pytest.mark.parametrize(
    ("direction", "start", "input_ids", "positions", "targets"),
    [
        ("forward", [S], [S, 8, M, 4, M], [1, 3], [3, 6]),
        ("backward", [S], [S, M, 4, M, 8], [0, 2], [6, 3]),
        ("forward", [S, 2], [S, 2, 8, M, 4, M], [2, 4], [3, 6]),
        ("forward", (), [8, M, 4, M], [0, 2], [3, 6]),
        ("backward", (), [6, 4, M, 8], [1], [3]),  # nothing stands before the 6
    ],
)
def test_a_hidden_piece_is_asked_of_the_state_before_it_worked_by_hand(direction, start, input_ids, positions, targets):
    """Every piece that may be is hidden: 3 and 6."""
    hide = masking(1.0, also_special=[8, 4], mask_share=1.0, random_share=0.0)
    example = masked_next(np.array([8, 3, 4, 6]), np.random.default_rng(0), hide, direction, start)
    empty = (3 if not start else 4) - len(targets)
    assert example.input_ids.tolist() == input_ids
    assert example.positions.tolist() == positions + [0] * empty
    assert example.targets.tolist() == targets + [IGNORED] * empty


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=20),
    st.sampled_from(["forward", "backward"]),
    st.sampled_from([(), (S,)]),
    st.integers(0, 5),
)
def test_every_target_stands_right_after_its_position_in_the_reading(pieces, direction, start, seed):
    pieces = np.array(pieces)
    example = masked_next(pieces, np.random.default_rng(seed), masking(), direction, start)
    reading = pieces[::-1].tolist() if direction == "backward" else pieces.tolist()
    framed = [*start, *reading]
    asked = example.targets != IGNORED
    chosen = example.positions[asked] + 1
    assert [framed[i] for i in chosen] == example.targets[asked].tolist()
    untouched = np.delete(np.arange(len(framed)), chosen)
    assert example.input_ids[untouched].tolist() == [framed[i] for i in untouched]
    assert not {M, S, END_PIECE} & set(example.targets[asked].tolist())
    assert len(example.input_ids) == len(framed) and len(set(chosen.tolist())) == asked.sum()


CONTEXTS = [([5, 7, 300], [9]), ([8], [12, 44, 90, 31]), ([21, 22], [23, 24])]


@pytest.fixture(scope="module", params=["full", "prefix"])
def model(request, tmp_path_factory, tiny_tokenizer):
    folder = tmp_path_factory.mktemp("masked") / request.param
    write_masked_lm(folder, tiny_tokenizer, request.param)
    return open_lm(str(folder))


def test_a_gap_is_read_as_if_it_were_alone(model):
    read, blank = between(model, CONTEXTS, 3)
    written = blank.clone()
    written[:, 1] = 40
    for suffix in (blank, written):
        found = read(suffix)
        for row, context in enumerate(CONTEXTS):
            alone, _ = between(model, [context], 3)
            torch.testing.assert_close(found[row], alone(suffix[row : row + 1])[0], atol=1e-4, rtol=0)
            if not model.has_prefix_mask:
                ids = torch.tensor([[*context[0], *suffix[row].tolist(), *context[1]]])
                with torch.inference_mode():
                    logits = model.lm(ids).logits[0, len(context[0]) :][:3].masked_fill(~model.writable, -torch.inf)
                torch.testing.assert_close(found[row], logits.log_softmax(-1), atol=1e-4, rtol=0)
    places = torch.tensor([[2], [0], [1]])
    torch.testing.assert_close(read(blank, places)[:, 0], read(blank)[torch.arange(3), places[:, 0]], atol=1e-4, rtol=0)


def test_without_a_right_context_it_is_the_canvas(model):
    lefts = [left for left, _ in CONTEXTS]
    canvas = Canvas.of(model, lefts, 3)
    read, blank = between(model, [(left, []) for left in lefts], 3)
    torch.testing.assert_close(read(blank), canvas.reader(cached=False)(canvas.blank()), atol=1e-4, rtol=0)


def test_steps_write_the_least_confident_again(model):
    read, blank = between(model, CONTEXTS, 4)
    assert [list(own) for own in fill_masked(model, CONTEXTS, 4, steps=1)] == read(blank).argmax(-1).tolist()
    allowed = torch.zeros(400, dtype=torch.bool)
    allowed[30:34] = True
    found = fill_masked(model, CONTEXTS, 4, steps=4, writable=allowed)
    assert {piece for own in found for piece in own} <= {30, 31, 32, 33}
    with pytest.raises(ValueError, match="the window of"):
        fill_masked(model, [([5] * 300, [6] * 300)], 4, steps=1)
