"""What options may be: every range is checked before anything is loaded."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

import boustro
from boustro.heads.registry import HEADS
from boustro.options import (
    Count,
    DropoutRate,
    Positive,
    Range,
    Seed,
    check_options,
    option_words,
    part_values,
    quote_value,
)
from boustro.tasks.config import TaggerConfig
from boustro.text.tokenizers import train_tokenizer

DATA = [(["Ada", "left", "Vellmar", "."], ["B-PER", "O", "B-LOC", "O"])] * 4


@dataclass(frozen=True, kw_only=True)
class Some:
    count: Count = 1
    rate: Positive | None = None
    drop: DropoutRate = 0.0
    many: tuple[Count, ...] = ()
    two: tuple[str, str] | None = None
    kind: Literal["mix", "concat"] = "mix"
    on: bool = True
    either: Annotated[int, Range(1)] | str = 1
    name: str = ""
    place: Path = Path()


@pytest.mark.parametrize(
    "given",
    [{}, {"count": np.int64(3)}, {"rate": 1}, {"rate": np.float32(0.5)}, {"drop": 0}, {"many": (1, 2)}, {"on": False},
     {"either": "word"}, {"place": "out"}, {"place": Path("out")}, {"kind": "concat"}, {"count": 10**30}],
)  # fmt: skip
def test_what_fits_passes(given):
    check_options(Some(**given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "count must be at least 1, not 0"),
        ({"count": 1.5}, "count must be a whole number, not 1.5"),
        ({"count": True}, "count must be a whole number, not True"),
        ({"count": "3"}, "count must be a whole number, not '3'"),
        ({"rate": 0}, "rate must be above 0, not 0"),
        ({"rate": math.inf}, "rate must be above 0, not inf"),
        ({"rate": math.nan}, "rate must be above 0, not nan"),
        ({"drop": 1}, "drop must be at least 0 and below 1, not 1"),
        ({"drop": "lots"}, "drop must be a number, not 'lots'"),
        ({"many": (1, 0)}, r"many must be at least 1, not \(1, 0\)"),
        ({"kind": "sum"}, "kind must be one of mix, concat, not 'sum'"),
        ({"on": "false"}, "on must be True or False, not 'false'"),
        ({"on": 0}, "on must be True or False, not 0"),
        ({"many": 5}, "many must be a list, not 5"),
        ({"two": ("a",)}, r"two must be 2 values, not \('a',\)"),
        ({"many": "12"}, "many must be a list, not '12'"),
        ({"name": b"gpt2"}, "name must be a text, not b'gpt2'"),
        ({"name": None}, "name must be a text, not None"),
        ({"place": 3}, "place must be a path, not 3"),
    ],
)
def test_what_does_not_is_one_sentence(given, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_options(Some(**given))


def test_parameters_of_a_function_are_checked_alike():
    def run(seed: Seed, other: Count | None = None) -> None: ...

    check_options(run, {"seed": 5, "other": None, "else": -1})
    with pytest.raises(ValueError, match=r"seed must be at least 0 and at most 4,294,967,295, not 4294967296"):
        check_options(run, {"seed": 2**32})


@pytest.mark.parametrize(
    "options",
    [{"epochs": 0}, {"epochs": -1}, {"batch_sentences": -1},
     {"hidden": 0}, {"hidden": -1},
     {"hidden": 10**12}, {"dropout": 2}, {"dropout": 1}, {"lr": math.inf}, {"lr": 0},
     {"mix_epochs": -1}, {"max_span": 0}, {"context": "page"}, {"combine": "sum"}, {"crf": "False"},
     {"spacing": "none"}, {"decode": "best"}, {"tag_scheme": "iob"}, {"dtype": "int8"}, {"start_piece": 7}],
)  # fmt: skip
def test_a_tagger_says_at_once_what_it_cannot_take(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"^{name} must be "):
        boustro.Tagger("no/such-model", **options)
    with pytest.raises(ValueError, match=f"^{name} must be "):
        (TaggerConfig if name in TaggerConfig.__dataclass_fields__ else HEADS["mlp"].options)(**options)


@pytest.mark.parametrize("value", [-1, 2**64, 10**30])
def test_so_do_its_training_and_a_vocabulary(value):
    with pytest.raises(ValueError, match=r"^seed must be "):
        boustro.Tagger("no/such-model").fit(DATA, seed=value)
    for size in (value, 256):
        with pytest.raises(ValueError, match="257 to 4,000,000 pieces"):
            train_tokenizer(["some text"], size)


def test_options_as_words_of_a_command_line():
    given = {"text_column": ("my text",), "crf": False, "pool_mentions": True, "task": None, "dev": (), "lr": 0.1}
    assert option_words(given) == ["--text-column", "my text", "--no-crf", "--pool-mentions", "--lr", "0.1"]
    assert option_words({"labels": ("a", "b c")}) == ["--labels", "a,b c"]
    assert option_words({"labels": ("a", "b: c, d")}) == ["--labels", "a", "--labels", "b: c, d"]


@drawn(st.text())
def test_values_between_commas_come_back(value):
    """As in a line of CSV, whatever a value holds."""
    assert part_values(",".join(map(quote_value, ["a", value, "b"]))) == ["a", value, "b"]
    assert part_values('a, "Food, drink" ,b "c",') == ["a", "Food, drink", 'b "c"', ""]
