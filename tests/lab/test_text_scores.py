"""lab.generation.scores: probabilities that sum to 1, each score by its definition, the bound in expectation."""

from itertools import permutations, product

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from boustro.lab.generation import draws
from boustro.lab.generation.canvas import Canvas
from boustro.lab.generation.draws import Draws
from boustro.lab.generation.models import MaskedLM, open_lm
from boustro.lab.generation.options import ScoreConfig
from boustro.lab.generation.scores import MASKED_SCORES
from boustro.lab.generation.strategies import causal_log_probs
from boustro.lab.judges import best
from generators import SamePlaces, Table, write_masked_lm
from test_masked import make_lm

PIECES, PLACES, MASK = 5, 3, 5
TEXTS = torch.tensor(list(product(range(PIECES), repeat=PLACES)))  # all 125
ROWS = list(range(len(TEXTS)))


def score(name: str, read, texts: torch.Tensor = TEXTS, **options) -> torch.Tensor:
    draws = Draws(options.get("seed", 1), list(range(len(texts))))
    return MASKED_SCORES[name](read, texts, torch.full_like(texts, MASK), ScoreConfig(**options), draws).log_probs


def tiny_vocabulary() -> MaskedLM:
    """A EuroBERT in which five pieces can be written."""
    lm = make_lm("biglm")
    lm.config.prefix_attention = "prefix"
    writable = torch.zeros(60, dtype=torch.bool)
    writable[10 : 10 + PIECES] = True
    common = {"name": "tiny", "lm": lm, "tokenizer": None, "writable": writable, "window": 24}
    return MaskedLM(**common, mask_id=59, before=(), after=(), prompt_end=())


@pytest.mark.parametrize("name", ["duel", "left-to-right", "one-shot"])
def test_likelihoods_sum_to_one_over_all_texts_also_with_an_lm_and_a_prompt(name):
    for seed in range(5):
        assert score(name, Table(seed, PIECES)).double().exp().sum().item() == pytest.approx(1, abs=1e-5)
    model = tiny_vocabulary()
    canvas = Canvas.of(model, [[7, 30, 12, 41]] * len(TEXTS), PLACES)
    found = MASKED_SCORES[name](canvas.reader(), TEXTS + 10, canvas.blank(), ScoreConfig(), Draws(1, ROWS)).log_probs
    assert found.double().exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert found.std() > 0.1


def along(table: Table, text: tuple[int, ...], order: tuple[int, ...]) -> float:
    """Σ of the log-probabilities of a text's pieces as they are revealed in an order."""
    pieces, total = [MASK] * len(text), 0.0
    for place in order:
        total += table.row(tuple(pieces))[place, text[place]].item()
        pieces[place] = text[place]
    return total


def in_order(table: Table, text: tuple[int, ...], prefer) -> float:
    order: list[int] = []
    for _ in text:
        rows = table.row(tuple(piece if place in order else MASK for place, piece in enumerate(text)))
        left = [place for place in range(len(text)) if place not in order]
        order.append(max(left, key=lambda place: (prefer(rows, place), -place)))
    return along(table, text, tuple(order))


@pytest.mark.parametrize("seed", range(3))
def test_orders_are_those_of_the_definitions(seed):
    table = Table(seed, PIECES)
    found = {name: score(name, table) for name in ("duel", "gold-order", "left-to-right", "one-shot")}
    for row, text in zip(ROWS, map(tuple, TEXTS.tolist()), strict=True):
        wanted = {
            "duel": in_order(table, text, lambda rows, place: rows[place].max().item()),
            "gold-order": in_order(table, text, lambda rows, place, text=text: rows[place, text[place]].item()),
            "left-to-right": along(table, text, (0, 1, 2)),
            "one-shot": sum(table.row((MASK,) * 3)[place, piece].item() for place, piece in enumerate(text)),
        }
        assert {name: totals[row].item() for name, totals in found.items()} == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("name", ["duel", "gold-order"])
def test_equal_places_are_in_order_whatever_rounding_adds(name):
    """The other scores order no places: left-to-right, one-shot, pseudo-log-likelihood, bound."""
    table = SamePlaces(3, PIECES)
    first, *others = [score(name, table) for _ in range(5)]
    for other in others:
        torch.testing.assert_close(other, first, atol=1e-4, rtol=0)
    if name == "duel":  # all places hidden are equally sure
        wanted = [along(table, tuple(text), (0, 1, 2)) for text in TEXTS.tolist()]
        torch.testing.assert_close(first, torch.tensor(wanted), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["duel", "gold-order"])
def test_a_score_without_a_prompt_does_not_depend_on_the_batch(name, tmp_path, tiny_tokenizer):
    """Wide enough for mask pieces in other places, and in another batch, to be read with other rounding errors."""
    shape = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = open_lm(str(write_masked_lm(tmp_path / "lm", tiny_tokenizer, **shape)))
    rows = torch.randint(0, len(model.writable) - 1, (16, 6), generator=torch.Generator().manual_seed(0)).repeat(1, 2)

    def of(texts: torch.Tensor) -> torch.Tensor:
        canvas = Canvas.of(model, [[]] * len(texts), texts.shape[1])
        draws = Draws(1, list(range(len(texts))))
        return MASKED_SCORES[name](canvas.reader(), texts, canvas.blank(), ScoreConfig(), draws).log_probs

    rows = rows[model.writable[rows].all(1)]
    together = of(rows)
    for size in (1, 3):
        assert (torch.cat([of(part) for part in rows.split(size)]) - together).abs().max() < 1e-2


def test_the_order_of_scores_by_hand():
    """Equal within the rounding of a dtype, in a chain; nothing for impossible ones, and for certain ones."""
    scores = torch.tensor([[-1.0000002, -1.0, -3.0, -1.0000001], [-2.0, -1.0, -torch.inf, -1.05]])
    assert draws.in_order(scores).tolist() == [[0, 1, 3, 2], [1, 3, 0, 2]]
    assert draws.in_order(-scores).tolist() == [[2, 0, 1, 3], [2, 0, 3, 1]]
    assert draws.in_order(torch.tensor([[-1.05, -1.0, -1.1]]), torch.bfloat16).tolist() == [[0, 1, 2]]
    assert draws.in_order(torch.full((1, 3), -torch.inf)).tolist() == [[0, 1, 2]]


def test_of_equal_choices_the_first_is_chosen():
    """A choice that is asked twice is scored in two rows of a batch."""
    assert best(torch.tensor([-2.0, -1.0000001, -1.0, -1.0, -1.0000001]), [3, 2]) == [1, 0]


def test_the_pseudo_log_likelihood_hides_one_piece_at_a_time():
    table = Table(4, PIECES)
    found = score("pseudo-log-likelihood", table)
    for row, text in zip(ROWS, map(tuple, TEXTS.tolist()), strict=True):
        hidden = [table.row(tuple(MASK if i == place else piece for i, piece in enumerate(text))) for place in range(3)]
        wanted = sum(rows[place, text[place]].item() for place, rows in enumerate(hidden))
        assert found[row].item() == pytest.approx(wanted, abs=1e-4)


def test_the_bound_is_the_mean_over_all_orders_and_below_the_mixture():
    """Of 40 texts: the errors are within four standard errors on average; below the mixture by Jensen's inequality."""
    table, texts = Table(6, PIECES), TEXTS[::3][:40]
    one = torch.stack([score("bound", table, texts, samples=1, seed=seed) for seed in range(60)])
    many = torch.stack([score("bound", table, texts, samples=20, seed=seed) for seed in range(20)])
    orders = [[along(table, tuple(text), order) for order in permutations(range(3))] for text in texts.tolist()]
    wanted = torch.tensor(orders)
    for drawn in (one, many):
        error = (drawn.mean(0) - wanted.mean(1)) / (drawn.std(0) / len(drawn) ** 0.5 + 1e-6)
        assert error.mean().abs() < 4 / 40**0.5 and error.abs().max() < 5
    assert many.std(0).mean() < one.std(0).mean() / 3
    assert (wanted.mean(1) < wanted.logsumexp(1) - np.log(6)).all()


def test_the_bound_repeats_by_seed_and_does_not_depend_on_the_texts_beside():
    table = Table(2, PIECES)
    assert torch.equal(score("bound", table, seed=3), score("bound", table, seed=3))
    assert not torch.equal(score("bound", table, seed=3), score("bound", table, seed=4))
    torch.testing.assert_close(score("bound", table)[:7], score("bound", table, TEXTS[:7]))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_causal_lm_scores_as_transformers_does(tiny_lm, kind):
    """Prompts and texts of different lengths in one batch; special pieces cannot be written."""
    model = open_lm(str(tiny_lm(kind, sentinel=True)))
    prompts, texts = [[5, 9, 200], [7], []], [[17, 3], [44, 90, 61, 2], [8]]
    found = causal_log_probs(model, prompts, texts)
    lm = AutoModelForCausalLM.from_pretrained(tiny_lm(kind, sentinel=True), dtype=torch.float32).eval()
    for row, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        with torch.no_grad():
            logits = lm(input_ids=torch.tensor([[0, *prompt, *text]])).logits[0, -len(text) - 1 : -1]
        logits[:, 0] = -torch.inf  # end of text
        wanted = logits.log_softmax(-1).gather(1, torch.tensor(text)[:, None]).sum()
        torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-4)


def test_a_causal_lm_without_a_start_piece_cannot_score_a_text_alone(tiny_lm):
    with pytest.raises(ValueError, match="no start piece, so nothing comes before a text without a prompt"):
        causal_log_probs(open_lm(str(tiny_lm("gpt2"))), [[]], [[5]])


def test_pieces_that_cannot_be_written_have_no_share(tmp_path, tiny_tokenizer):
    model = open_lm(str(write_masked_lm(tmp_path / "lm", tiny_tokenizer)))
    canvas = Canvas.of(model, [[5, 9]], 2)
    found = canvas.reader()(canvas.blank()).exp()
    assert (found[..., ~model.writable] == 0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(1, 2))
