"""What a comparison compares, how its systems are named, and what it says of their differences."""

import io
import mmap
import re
import shutil
import sys
import time

import pytest
from rich.console import Console

from boustro.apps.studies.compare.comparison import Comparison
from boustro.apps.studies.compare.report import REPORT
from boustro.apps.studies.compare.results import DRAWS_EACH, LEAST_DRAWS, correct_gaps
from boustro.apps.studies.core import systems
from boustro.apps.studies.core.cells import find_cells
from boustro.apps.studies.core.run import write_report
from boustro.apps.studies.core.systems import short_specs, variant_labels
from boustro.heads.registry import HEADS
from boustro.lab.pretrain.progress import PeakMemory
from boustro.metrics.significance import Difference
from boustro.tasks.config import TaggerConfig
from boustro.tasks.data import read_data
from boustro.tasks.data.schemes import flatten_entities, gold_entities
from boustro.types import Entity, Sentence
from test_report import make_grid, write_cell

verdict = REPORT.verdict
FORWARD, PAIR, BACKWARD = "starter-forward", "starter", "starter-backward"
WORDS = ("The", "Bank", "of", "Port", "Lisse", "and", "Ada", "spoke")
NESTED = read_data(
    [
        Sentence(WORDS, entities=(Entity("ORG", 1, 5), Entity("LOC", 3, 5), Entity("PER", 6, 7)), where=f"n.jsonl:{i}")
        for i in range(1, 31)
    ]
)


def part(sentences, share):
    """The entities of the first so many sentences, and none of the others."""
    return [list(gold_entities(s)) if i < share * len(sentences) else [] for i, s in enumerate(sentences)]


def report(out, shares, grid=None):
    """Results of cells that have `shares[name][seed][data set]` of the entities right; a number stands for all."""
    grid = grid or make_grid(encoders=tuple(shares), seeds=3, dev=NESTED, train=NESTED[:10])
    for system in grid.systems():
        for seed, share in shares[system.name].items():
            sets = {name: s for name, s in grid.data().items() if name != "train"}
            answers = {name: part(s, share[name] if isinstance(share, dict) else share) for name, s in sets.items()}
            write_cell(grid, system, seed, out, answers)
    return write_report(grid, find_cells(grid, out), out)


def told(results):
    return {s["name"]: s for s in results["systems"]}


def test_a_head_that_finds_nested_entities_misses_none_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.setitem(HEADS, "boxes", HEADS["span"])
    grid = make_grid(encoders=(PAIR,), heads=("mlp", "boxes"), seeds=1, dev=NESTED, train=NESTED[:10])
    for system in grid.systems():
        write_cell(grid, system, 1, tmp_path, {"dev": part(NESTED, 1)})
    systems = write_report(grid, find_cells(grid, tmp_path), tmp_path)["systems"]
    hidden = {s["head"]: [n for what, n in s["notices"].items() if "inside or across" in what] for s in systems}
    assert hidden == {"mlp": [30], "boxes": []}


def test_nested_entities_are_judged_as_the_cells_were(tmp_path):
    grid = make_grid(dev=NESTED, train=NESTED[:10])
    flat = [list(flatten_entities(gold_entities(s))) for s in NESTED]
    for system in grid.systems():
        for seed in (1, 2, 3):
            answers = part(NESTED, 1) if system.name == PAIR else flat
            write_cell(grid, system, seed, tmp_path, {"dev": answers})
    results = write_report(grid, find_cells(grid, tmp_path), tmp_path)
    oracle, outermost = told(results)[PAIR], told(results)[FORWARD]
    assert results["data"]["dev"]["entities"] == 90 and results["data"]["train"]["entities"] == 30
    assert results["best"] == PAIR and oracle["dev"]["mean"] == 100
    assert oracle["errors"] == {"correct": 270, "type": 0, "boundary": 0, "both": 0, "missed": 0, "spurious": 0}
    assert outermost["errors"]["missed"] == 90 and outermost["errors"]["correct"] == 180
    assert outermost["to_best"]["points"] == pytest.approx(20) and outermost["to_best"]["reliable"]
    assert "20.0 points above starter-forward" in verdict(results)
    assert oracle["notices"]["entities of dev inside or across another one, which a head over tags cannot find"] == 30
    for buckets in oracle["buckets"].values():
        assert [sum(column) for column in zip(*buckets.values(), strict=True)] == [270] * 3
    assert oracle["buckets"]["seen"]["never seen"] == [0, 0, 0]  # the training data show the inner ones too
    assert results["pair_by_type"]["LOC"]["points"] == 100
    assert sum(group["fixed"] for group in results["cases"] if group["title"].startswith("before")) == 90
    assert oracle["calibration"]["bins"][0][4] == 1


def test_seeds_are_paired_by_their_number_and_not_by_their_place(tmp_path):
    """With seed 1, 2 and 3 a system has 20, 50 and 90% right, whichever it is; one lacks its seed 2."""
    same = {1: 0.2, 2: 0.5, 3: 0.9}
    results = report(tmp_path, {FORWARD: same, PAIR: {1: 0.2, 3: 0.9}})
    partial = told(results)[PAIR]
    assert results["pair_seeds"] == partial["seeds"] == [1, 3]
    for gap in (told(results)[FORWARD]["to_best"] or partial["to_best"], *results["pair_by_type"].values()):
        assert (gap["points"], gap["p"], gap["num_seeds"]) == (0, 1, 2) and gap["low"] <= 0 <= gap["high"]
    assert not any(group["fixed"] or group["broken"] for group in results["cases"])
    assert all(group["num_seeds"] == 2 for group in results["cases"])
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "2 systems, 2 to 3 of 3 seeds each" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(f"| {PAIR} (") or "best, seed 2" in line]
    assert rows and (row := next(r for r in rows if "best, seed 2" in r))[3].startswith("best, seed 2")
    below = text.partition("best, seed 3")[2].splitlines()
    curve = next(line.split(" | ") for line in below if line.startswith(f"| {PAIR} |"))
    assert len(row) == len(curve) and curve[3] == "–" and float(curve[2]) and float(curve[4].rstrip(" |"))


def test_systems_without_a_common_seed_are_not_set_side_by_side(tmp_path):
    results = report(tmp_path, {FORWARD: {1: 0.9, 2: 0.9}, PAIR: {3: 0.5}})
    assert told(results)[PAIR]["to_best"] is None and results["cases"] == []
    assert "no other system shares a seed with it" in verdict(results)
    assert "have no seed in common" in (tmp_path / "report.md").read_text("utf-8")


def test_the_best_is_chosen_over_the_seeds_that_all_have(tmp_path):
    results = report(tmp_path, {FORWARD: {1: 0.6, 2: 0.9, 3: 0.9}, PAIR: {1: 0.7}})
    assert results["best"] == PAIR  # 0.7 against 0.6 with seed 1, though 0.7 against 0.8 over unequal seeds
    assert verdict(results).startswith("Incomplete (4 of 6 cells): starter reaches")
    assert "(1 of 3 seeds)" in verdict(results)


def test_a_verdict_counts_the_seeds_that_are_there(tmp_path):
    results = report(tmp_path, {FORWARD: {1: 0.5, 3: 0.5}, PAIR: {1: 0.9, 3: 0.9}})
    assert "(mean of 2 of 3 seeds)" in verdict(results)


def test_one_seed_says_nothing_of_reliability(tmp_path):
    grid = make_grid(seeds=1, dev=NESTED)
    results = report(tmp_path, {FORWARD: {1: 0.4}, PAIR: {1: 1.0}}, grid)
    gap = told(results)[FORWARD]["to_best"]
    assert gap["low"] > 0 and gap["p"] is None and not gap["reliable"]
    assert "95% interval over examples only" in verdict(results)
    assert verdict(results).endswith("one seed: no statement about reliability).")
    cells = re.findall(r"<td[^>]*>", (tmp_path / "report.html").read_text("utf-8").partition("id=mistakes")[0])
    assert cells and not any("good" in cell or "bad" in cell for cell in cells)


def test_dev_chooses_the_best_also_where_test_is_judged(tmp_path):
    shares = {FORWARD: {"dev": 0.7, "test": 0.9}, PAIR: {"dev": 0.8, "test": 0.6}, BACKWARD: {"dev": 0.5, "test": 1.0}}
    grid = make_grid(encoders=tuple(shares), seeds=2, dev=NESTED, test=NESTED)
    results = report(tmp_path, {name: dict.fromkeys((1, 2), share) for name, share in shares.items()}, grid)
    assert results["judged_on"] == "test" and results["best"] == results["reference"] == results["pair"][1] == PAIR
    assert told(results)[FORWARD]["to_best"]["points"] < 0
    said = verdict(results)
    assert said.startswith("starter, best on dev, reaches") and "points below starter-forward" in said
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "The best system was selected on dev" in text and "| against the best |" in text


def test_an_interval_is_over_documents_where_there_are_any(tmp_path):
    """Of eight documents whose sentences are alike, half are right: of forty sentences that would look surer."""

    def width(name, documents):
        named = [f"d{i // 5}" if documents else "" for i in range(40)]
        data = [Sentence((f"w{i}", f"v{i}", "Ada"), ("O", "O", "B-PER"), document=d) for i, d in enumerate(named)]
        results = report(tmp_path / name, {FORWARD: {1: 0.5}, PAIR: {1: 1.0}}, make_grid(seeds=1, dev=data, train=data))
        gap = told(results)[FORWARD]["to_best"]
        return gap["high"] - gap["low"], results["pair_by_type"]["PER"]["high"] - results["pair_by_type"]["PER"]["low"]

    (alone, of_type), (together, of_type_together) = width("alone", False), width("together", True)
    assert together > 1.6 * alone and of_type_together > 1.6 * of_type


def test_many_differences_are_corrected_together():
    gaps = [make_gap(p) for p in (0.02, 0.03, 0.04, None)]
    assert [gap["p_holm"] for gap in correct_gaps(gaps)] == pytest.approx([0.06, 0.06, 0.06, None])
    assert not any(gap["reliable"] for gap in correct_gaps(gaps)) and correct_gaps([make_gap(0.02)])[0]["reliable"]
    assert correct_gaps([None, make_gap(0.02)])[0] is None
    for comparisons in (1, 30, 1000):  # there are draws enough for a small p after the correction
        assert comparisons * 2 / (1 + LEAST_DRAWS + DRAWS_EACH * comparisons) < 0.011


def make_gap(p):
    return Difference(1.0, 0.5, 1.5, p, 1 if p is None else 3)


def test_the_report_colours_what_is_reliable_after_the_correction_alone(tmp_path):
    results = report(tmp_path, {FORWARD: dict.fromkeys((1, 2, 3), 0.2), PAIR: dict.fromkeys((1, 2, 3), 0.9)})
    assert told(results)[FORWARD]["to_reference"]["reliable"]
    scores = REPORT.html(results).partition("id=scores")[2].partition("</section>")[0]
    assert 'class="bad"' in scores
    told(results)[FORWARD]["to_reference"] |= {"p_holm": 0.06, "reliable": False}
    scores = REPORT.html(results).partition("id=scores")[2].partition("</section>")[0]
    assert 'class="bad"' not in scores and "p = 0.060" in scores


@pytest.mark.parametrize(("width", "hidden"), [(160, 0), (100, 4)])
def test_the_terminal_shows_the_largest_types_and_says_how_many_more_there_are(tmp_path, width, hidden):
    labels = [f"TYPE{letter}" for letter in "ABCDEFGHI"]
    rows = [(("x",), (f"B-{label}",)) for number, label in enumerate(labels, 1) for _ in range(number)]
    grid = make_grid(dev=read_data(rows), seeds=1)
    results = report(tmp_path, {FORWARD: {1: 0.4}, PAIR: {1: 1.0}}, grid)
    table, note = grid.table(results, width)
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    heads = console.file.getvalue().splitlines()[0]
    found = re.findall("TYPE.", heads)
    assert found == sorted(labels, reverse=True)[: len(found)] and "…" not in heads
    told = f"more in the report: {9 - len(found)}\n" in f"{note}\n"
    assert told == (len(found) < 9) == bool(hidden)


def parse_variants(vary):
    return systems.parse_variants(vary, TaggerConfig)


ONE = read_data([(["Ada", "spoke"], ["B-PER", "O"])])


def grid(**changed):
    given = {"encoders": ("starter",), "heads": ("mlp",), "seeds": 1, "options": {}, "train": ONE, "dev": ONE}
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
        ("pooling=exit pooling=before", "pooling is given twice"),
        ("poolings=exit", "unknown option 'poolings': known are .*; did you mean 'pooling'"),
        ("pooling", "expected an option and its values"),
        ("dropout=none", "dropout: expected float, got 'none'"),
        ("standardise=perhaps", "expected true or false"),
        ("context=documents", "unknown value 'documents': known are sentence, document; did you mean 'document'"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_words(vary, message):
    with pytest.raises(ValueError, match=message):
        parse_variants(vary.split())


def test_systems_are_called_by_what_tells_them_apart():
    assert [s.name for s in grid().systems()] == ["starter"]
    assert [s.name for s in grid(heads=("linear", "mlp", "mlp")).systems()] == ["linear", "mlp"]
    many = grid(encoders=("starter", "starter-forward"), variants=parse_variants(["layers=last,all", "epochs=3"]))
    names = [f"{encoder} · {layers}" for encoder in ("starter", "starter-forward") for layers in ("last", "all")]
    assert [s.name for s in many.systems()] == names
    assert many.systems()[0].variant == {"layers": "last", "epochs": 3}


def test_a_value_stands_alone_only_where_it_can_mean_one_option():
    found = variant_labels(parse_variants(["pooling=exit,before", "dropout=0,0.3"]))
    assert found == [[place, f"dropout={share}"] for place in ("exit", "before") for share in (0.0, 0.3)]
    twice = variant_labels(parse_variants(["layers=last,all", "pooling=last,exit"]))
    assert twice[0] == ["layers=last", "pooling=last"]
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
    assert name() == first == name(encoders=(str(moved),))
    assert first == name(encoders=(str(lm), "starter"), heads=("mlp", "linear"))
    both, back = ({"layers": "last"}, {"layers": "all"}), (f"backward:{lm}",)
    changes = [name(seed=2), name(options=both[0]), name(variants=both), name(heads=("linear",)), name(train=other)]
    changes += [name(dev=other), name(test=ONE), name(encoders=back)]
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
