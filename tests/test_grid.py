"""What a comparison compares: variants, names that say what differs, and the folders that cells lie in."""

import mmap
import shutil
import sys
import time

import pytest

from boustro.apps.studies.compare.comparison import Comparison
from boustro.apps.studies.core import systems
from boustro.apps.studies.core.systems import short_specs, variant_labels
from boustro.models.peak_memory import PeakMemory
from boustro.tasks.config import TaggerConfig
from boustro.tasks.data import read_data


def parse_variants(vary):
    return systems.parse_variants(vary, TaggerConfig)


DATA = read_data([(["Ada", "spoke"], ["B-PER", "O"])])


def grid(**changed):
    given = {"encoders": ("starter",), "heads": ("mlp",), "seeds": 1, "options": {}, "train": DATA, "dev": DATA}
    return Comparison(**given | changed)


def test_variants_are_every_combination_with_values_of_their_type():
    assert parse_variants([]) == ({},)
    found = parse_variants(["pooling=exit,exit+before", "layers=all/0,2,4", "dropout=0.1", "standardise=False"])
    assert len(found) == 4
    assert found[1] == {"pooling": "exit", "layers": "0,2,4", "dropout": 0.1, "standardise": False}
    assert parse_variants(["hidden=64,256", "preset=paper"])[1] == {"hidden": 256, "preset": "paper"}


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ("poolings=exit", "unknown option 'poolings': known are .*; did you mean 'pooling'"),
        ("pooling", "expected an option and its values"),
        ("dropout=none", "dropout: expected float, got 'none'"),
        ("standardise=perhaps", "expected true or false"),
        ("context=documents", "unknown value 'documents': known are sentence, document; did you mean 'document'"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_words(vary, message):
    with pytest.raises(ValueError, match=message):
        parse_variants([vary])


def test_an_option_is_varied_once():
    with pytest.raises(ValueError, match="pooling is given twice"):
        parse_variants(["pooling=exit", "pooling=before"])


def test_systems_are_called_by_what_tells_them_apart():
    assert [s.name for s in grid().systems()] == ["starter"]
    assert [s.name for s in grid(heads=("linear", "mlp", "mlp")).systems()] == ["linear", "mlp"]
    many = grid(encoders=("starter", "starter-forward"), variants=parse_variants(["layers=last,all", "epochs=3"]))
    assert [s.name for s in many.systems()] == [
        "starter · last",
        "starter · all",
        "starter-forward · last",
        "starter-forward · all",
    ]
    assert many.systems()[0].variant == {"layers": "last", "epochs": 3}


def test_a_value_stands_alone_only_where_it_can_mean_one_option():
    assert variant_labels(parse_variants(["pooling=exit,before", "dropout=0,0.3"])) == [
        ["exit", "dropout=0.0"],
        ["exit", "dropout=0.3"],
        ["before", "dropout=0.0"],
        ["before", "dropout=0.3"],
    ]
    assert variant_labels(parse_variants(["layers=last,all", "pooling=last,exit"]))[0] == [
        "layers=last",
        "pooling=last",
    ]
    assert variant_labels(parse_variants(["standardise=true,false"])) == [["standardise=true"], ["standardise=false"]]
    assert variant_labels(parse_variants(["layers=all/0,2"])) == [["layers=all"], ["layers=0,2"]]


def test_paths_are_cut_as_far_as_they_stay_apart():
    assert short_specs(["gpt2", "gpt2+./models/back", "backward:/old/back"]) == ["gpt2", "gpt2+back", "backward:back"]
    assert short_specs(["/a/one/model", "/a/two/model"]) == ["one/model", "two/model"]
    assert short_specs(["same/x", "same/x"]) == ["x", "x"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seeds": 0}, "nothing to compare"),
        ({"encoders": ()}, "nothing to compare"),
        ({"heads": ("mpl",)}, "unknown head 'mpl': known are .*; did you mean 'mlp'"),
        ({"options": {"poling": "exit"}}, "unknown option 'poling'; did you mean 'pooling'"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_loaded(changed, message):
    with pytest.raises(ValueError, match=message):
        grid(**changed)


def test_a_cells_folder_changes_with_all_that_changes_its_numbers_and_with_nothing_else(tiny_lm, tmp_path):
    def name(seed=1, **changed):
        chosen = grid(**{"encoders": (str(lm),)} | changed)
        return chosen.cell(chosen.systems()[0], seed, tmp_path).folder.name.rpartition("-")[2]

    lm = shutil.copytree(tiny_lm("llama"), tmp_path / "lm")
    moved = shutil.copytree(lm, tmp_path / "elsewhere" / "other-name")
    other = read_data([(["Ada", "spoke"], ["B-LOC", "O"])])
    first = name()
    assert (
        name() == first == name(encoders=(str(moved),)) == name(encoders=(str(lm), "starter"), heads=("mlp", "linear"))
    )
    changes = [
        name(seed=2),
        name(options={"layers": "last"}),
        name(variants=({"layers": "last"}, {"layers": "all"})),
        name(heads=("linear",)),
        name(train=other),
        name(dev=other),
        name(test=DATA),
        name(encoders=(f"backward:{lm}",)),
    ]
    assert first not in changes and len(set(changes)) == len(changes) - 1  # `layers: last` by either way is the same
    weights = next(lm.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert name() != first


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux only")
def test_the_peak_holds_what_is_gone_when_the_block_ends():
    with PeakMemory() as before:
        pass
    with PeakMemory() as peak:
        held = mmap.mmap(-1, 60_000_000, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # new pages, none that were given back
        held.write(b"x" * len(held))
        deadline = time.monotonic() + 30  # it is sampled: give the sampler its turn, however busy the machine is
        while (peak.bytes or 0) < (before.bytes or 0) + 50_000_000 and time.monotonic() < deadline:
            time.sleep(0.01)
        held.close()
    assert before.bytes and peak.bytes and peak.bytes > before.bytes + 50_000_000
