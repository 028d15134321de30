"""boustro.lab.generation.strategies: each against a plain reference, its share of places, and its random numbers."""

import itertools
from random import Random

import pytest
import torch

from boustro.lab.generation.draws import Draws
from boustro.lab.generation.options import GenerationConfig
from boustro.lab.generation.strategies import (
    STRATEGIES,
    blocks,
    find_strategy,
    gibbs,
    left_to_right,
    mask_predict,
    shares,
)
from generators import SamePlaces, Table

MASK = 5
CASES = 300


def blank(rows: int, places: int) -> torch.Tensor:
    return torch.full((rows, places), MASK)


def draw_case(number: int) -> tuple[Random, Table, int, int]:
    """A random table of 5 pieces, 1 to 7 places, and 1 to as many steps."""
    random = Random(number)
    places = random.randint(1, 7)
    return random, Table(number, 5, random.randint(0, 2)), places, random.randint(1, places)


def first_best(row: list[float]) -> int:
    return row.index(max(row))


def level(value: float, values: list[float]) -> int:
    """How many steps larger than rounding lead up to a value."""
    return sum(b - a > 1e-4 for a, b in itertools.pairwise(sorted(values)) if b <= value)


def mask_predicted(table: Table, places: int, steps: int, hide_repeats: bool = False) -> tuple[list[int], list[float]]:
    """Section 3 of the paper, place by place."""
    pieces, confidence = [MASK] * places, [0.0] * places
    for step in range(steps):
        count = places if step == 0 else int(places * (1 - step / steps) + 1e-9)
        fresh = [not (hide_repeats and n and pieces[n] == pieces[n - 1]) for n in range(places)]
        levels = [level(own, [c for c, f in zip(confidence, fresh, strict=True) if f]) for own in confidence]
        hidden = sorted(range(places), key=lambda place: (fresh[place], fresh[place] and levels[place], place))[:count]
        read = [MASK if place in hidden else piece for place, piece in enumerate(pieces)]
        rows = table.row(tuple(read)).tolist()
        for place in hidden:
            pieces[place] = first_best(rows[place])
            confidence[place] = rows[place][pieces[place]]
    return pieces, confidence


def test_mask_predict_is_the_reference_in_random_cases():
    equal = 0
    for number in range(CASES):
        _, table, places, steps = draw_case(number)
        other = draw_case(number + CASES)[1]
        config = GenerationConfig(strategy="mask-predict", length=places, steps=steps)
        found = mask_predict(table, blank(2, places), config, Draws(1, [0, 1]))
        wanted, confidence = mask_predicted(table, places, steps)
        assert found.pieces.tolist() == [wanted, wanted] and found.readings == table.readings == steps
        assert found.log_probs[0].item() == pytest.approx(sum(confidence), abs=1e-5)
        equal += wanted == mask_predicted(other, places, steps)[0]
    assert equal < CASES / 2, "another table gives another text, mostly"


def test_repeats_are_hidden_first():
    repeated = [0, 0]
    for number in range(200):
        _, table, places, steps = draw_case(number)
        for hide in (False, True):
            config = GenerationConfig(strategy="mask-predict", length=places, steps=steps, hide_repeats=hide)
            (found,) = mask_predict(table, blank(1, places), config, Draws(1, [0])).pieces.tolist()
            assert found == mask_predicted(table, places, steps, hide)[0]
            repeated[hide] += sum(a == b for a, b in itertools.pairwise(found))
    assert repeated[True] < repeated[False]


def written_in_blocks(table: Table, places: int, size: int, steps: int) -> tuple[list[int], float]:
    pieces, total = [MASK] * places, 0.0
    for start in range(0, places, size):
        left = list(range(start, min(start + size, places)))
        for count in shares(len(left), steps):
            rows = table.row(tuple(pieces)).tolist()
            sure = [max(rows[place]) for place in left]
            order = sorted(left, key=lambda place: (-level(max(rows[place]), sure), place))[:count]
            for place in order:
                pieces[place], total = first_best(rows[place]), total + max(rows[place])
                left.remove(place)
    return pieces, total


def test_blocks_are_the_reference_in_random_cases():
    for number in range(CASES):
        random, table, places, _ = draw_case(number)
        size = random.randint(1, places)
        steps = random.randint(1, size)
        config = GenerationConfig(strategy="blocks", length=places, block_length=size, steps=steps)
        found = blocks(table, blank(1, places), config, Draws(1, [0]))
        wanted, total = written_in_blocks(table, places, size, steps)
        assert found.pieces[0].tolist() == wanted and found.readings == table.readings
        assert found.log_probs[0].item() == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("strategy", ["mask-predict", "blocks"])
def test_equal_places_are_written_in_order_whatever_rounding_adds(strategy):
    """So do left-to-right and gibbs, whose orders do not look at scores."""
    config = GenerationConfig(strategy=strategy, length=6, block_length=6, steps=6)
    for number in range(20):
        table = SamePlaces(number, 5)
        found = [
            STRATEGIES[strategy][1](table, blank(rows, 6), config, Draws(1, range(rows))).pieces[0].tolist()
            for rows in (1, 2, 5)
        ]
        assert found[0] == found[1] == found[2]


def test_left_to_right_is_blocks_of_one_piece():
    for number in range(100):
        _, table, places, _ = draw_case(number)
        one = left_to_right(table, blank(2, places), GenerationConfig(length=places), Draws(1, [0, 1]))
        config = GenerationConfig(strategy="blocks", length=places, block_length=1)
        other = blocks(table, blank(2, places), config, Draws(1, [0, 1]))
        assert one.pieces.tolist() == other.pieces.tolist() and one.readings == places
        torch.testing.assert_close(one.log_probs, other.log_probs)


@pytest.mark.parametrize(("places", "steps", "wanted"), [(4, 3, [2, 1, 1]), (4, 9, [1, 1, 1, 1]), (5, 1, [5])])
def test_shares_of_places(places, steps, wanted):
    assert shares(places, steps) == wanted


class Pairs:
    """The true conditionals of two pieces of three with a known joint distribution."""

    dtype = torch.float32
    joint = torch.tensor([[0.30, 0.02, 0.08], [0.05, 0.20, 0.05], [0.02, 0.08, 0.20]])

    def __call__(self, suffix: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        first, second = (torch.where(column < 3, column, 0) for column in suffix.T)
        hidden = (suffix == MASK)[..., None]
        left = torch.where(hidden[:, 1], self.joint.sum(1).expand(len(suffix), -1), self.joint.T[second])
        right = torch.where(hidden[:, 0], self.joint.sum(0).expand(len(suffix), -1), self.joint[first])
        both = torch.stack([left, right], dim=1)
        return torch.take_along_dim((both / both.sum(-1, keepdim=True)).log(), places[..., None], 1)


def test_gibbs_draws_from_the_joint_distribution():
    rows = 4000
    config = GenerationConfig(strategy="gibbs", length=2, steps=4)
    found = gibbs(Pairs(), blank(rows, 2), config, Draws(1, range(rows)))
    counts = torch.zeros(3, 3).index_put_(tuple(found.pieces.T), torch.ones(rows), accumulate=True)
    assert (counts / rows - Pairs.joint).abs().max() < 0.03
    assert found.readings == 8
    independent = Pairs.joint.sum(1)[:, None] * Pairs.joint.sum(0)
    assert (independent - Pairs.joint).abs().max() > 0.1, "which pieces drawn alone would not be"


def test_gibbs_without_temperature_ends_where_no_single_change_helps():
    found = gibbs(
        Pairs(), blank(9, 2), GenerationConfig(strategy="gibbs", temperature=0.0, length=2), Draws(1, range(9))
    )
    for first, second in found.pieces.tolist():
        assert Pairs.joint[first, second] >= max(*Pairs.joint[:, second], *Pairs.joint[first])


SAMPLING = {"mask-predict": {"steps": 2}, "blocks": {"steps": 2, "block_length": 2}, "gibbs": {}, "left-to-right": {}}


@pytest.mark.parametrize("name", SAMPLING)
def test_sampling_repeats_by_seed_and_does_not_depend_on_the_rows_beside(name):
    strategy = find_strategy(name, "masked", "a model")

    def write(seed: int, rows: list[int]) -> dict[int, list[int]]:
        options = {"temperature": 1.5, "length": 4, **SAMPLING[name]}
        config = GenerationConfig(strategy=name, **options)
        found = strategy(Table(3, 5), blank(len(rows), 4), config, Draws(seed, rows)).pieces.tolist()
        return dict(zip(rows, found, strict=True))

    whole = write(1, [0, 1, 2, 3])
    assert whole == write(1, [3, 2, 1, 0]) == write(1, [0, 1]) | write(1, [2, 3])
    assert whole != write(2, [0, 1, 2, 3]) and len(set(map(tuple, whole.values()))) > 1


def test_every_strategy_of_a_masked_lm_is_tested_here():
    assert {name for name, (kind, _) in STRATEGIES.items() if kind == "masked"} == SAMPLING.keys()


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, not 0"),
        ({"steps": 5, "length": 4}, "steps must be at most length, 4, not 5"),
        ({"strategy": "blocks", "steps": 5, "block_length": 4}, "steps must be at most block_length, 4, not 5"),
        ({"length": 0}, "length must be at least 1"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"temperature": -1.0}, "temperature must be at least 0"),
        ({"num_length_candidates": 1}, "num_length_candidates must be at least 2"),
    ],
)
def test_options_have_ranges(options, message):
    with pytest.raises(ValueError, match=message):
        GenerationConfig(**options)


def test_gibbs_may_draw_more_often_than_there_are_places():
    assert GenerationConfig(strategy="gibbs", length=2, steps=50).steps == 50


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"length": 32}, [32]),
        ({"length": 32, "num_length_candidates": 4}, [8, 16, 24, 32]),
        ({"length": 2, "num_length_candidates": 5}, [1, 2]),
    ],
)
def test_lengths(options, wanted):
    assert GenerationConfig(**options).lengths() == wanted


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("mask-predct", "masked", "unknown strategy 'mask-predct': known are .*did you mean 'mask-predict'"),
        ("gibbs", "causal", "'gibbs' writes with a masked LM, and x is a causal one, which writes with causal"),
        ("causal", "masked", "'causal' writes with a causal LM, and x is a masked one, which writes with mask-predict"),
    ],
)
def test_a_strategy_of_the_other_kind_of_lm_is_refused(name, kind, message):
    with pytest.raises(ValueError, match=message):
        find_strategy(name, kind, "x")
