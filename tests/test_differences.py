"""What a comparison says of differences: over nested entities, over seeds that are there, chosen on dev, many at once.

Nothing is trained: the cells' answers are the reference, or the reference without some of its entities.
"""

import io
import re

import pytest
from rich.console import Console

from boustro.apps.studies.compare.report import REPORT
from boustro.apps.studies.compare.results import DRAWS, DRAWS_EACH, correct_gaps
from boustro.apps.studies.core.cells import find_cells
from boustro.apps.studies.core.run import write_report
from boustro.heads.registry import HEADS
from boustro.metrics.significance import Difference
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
        assert (gap["points"], gap["low"], gap["high"], gap["p"], gap["num_seeds"]) == (0, 0, 0, 1, 2)
    assert not any(group["fixed"] or group["broken"] for group in results["cases"])
    assert all(group["num_seeds"] == 2 for group in results["cases"])
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "2 systems, 2 to 3 of 3 seeds each" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(f"| {PAIR} (") or "best, seed 2" in line]
    assert rows and (row := next(r for r in rows if "best, seed 2" in r))[3].startswith("best, seed 2")
    curve = next(
        line.split(" | ") for line in text.partition("best, seed 3")[2].splitlines() if line.startswith(f"| {PAIR} |")
    )
    assert len(row) == len(curve) and curve[3] == "–" and float(curve[2]) and float(curve[4].rstrip(" |"))


def test_systems_without_a_common_seed_are_not_set_side_by_side(tmp_path):
    results = report(tmp_path, {FORWARD: {1: 0.9, 2: 0.9}, PAIR: {3: 0.5}})
    assert told(results)[PAIR]["to_best"] is None and results["cases"] == []
    assert "no other system shares a seed with it" in verdict(results)
    assert "have no seed in common" in (tmp_path / "report.md").read_text("utf-8")


def test_the_best_is_chosen_over_the_seeds_that_all_have(tmp_path):
    results = report(tmp_path, {FORWARD: {1: 0.6, 2: 0.9, 3: 0.9}, PAIR: {1: 0.7}})
    assert results["best"] == PAIR  # 0.7 against 0.6 with seed 1, though 0.7 against 0.8 over unequal seeds
    assert verdict(results).startswith("Incomplete (4 of 6 cells): starter reaches") and "(1 of 3 seeds)" in verdict(
        results
    )


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
    assert verdict(results).startswith("starter, best on dev, reaches") and "points below starter-forward" in verdict(
        results
    )
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "The best system was selected on dev" in text and "| against the best |" in text


def test_an_interval_is_over_documents_where_there_are_any(tmp_path):
    """Of eight documents whose sentences are alike, half are right: of forty sentences that would look surer."""

    def width(name, documents):
        words = [(f"w{i}", f"v{i}", "Ada") for i in range(40)]
        data = [
            Sentence(w, ("O", "O", "B-PER"), document=f"d{i // 5}" if documents else "") for i, w in enumerate(words)
        ]
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
        assert comparisons * 2 / (1 + DRAWS + DRAWS_EACH * comparisons) < 0.011


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
    assert (f"more in the report: {9 - len(found)}\n" in f"{note}\n") == bool(hidden) and (len(found) < 9) == bool(
        hidden
    )
