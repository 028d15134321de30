"""`boustro fewshot` from the command line: draws, cells, a table, a report; and both protocols."""

import json
import re
import shutil

import numpy as np
import pytest

from boustro.apps.cli.main import main
from boustro.apps.studies.fewshot.heads import resolve_head
from boustro.apps.studies.fewshot.options import ShotOptions
from boustro.apps.studies.fewshot.report import curve_figure, scores, shots_table, summary, verdict
from boustro.apps.studies.fewshot.study import ShotStudy, compare_points
from boustro.apps.studies.report.blocks import Figure
from boustro.features.vectors import VectorReader, vector_source
from boustro.heads.closed_form import CLOSED_FORMS
from boustro.heads.registry import HEADS
from boustro.tasks.data.conll import format_conll
from boustro.tasks.labellings.tags import TagLabelling
from boustro.types import Sentence

NAMES = ["Ada Brandt", "Port Lisse", "Vellmar Calloway", "Okonkwo", "Brandt & Sons", "<b>Lisse", "Ada", "Vellmar"]
DATA = [
    (words.split(), tags)
    for name in NAMES
    for words, tags in (
        (f"{name} said boats cost 3 million .", ["B-PER", *["I-PER"] * name.count(" "), *"OOOOOO"]),
        (f"{name} closes on Mondays .", ["B-LOC", *["I-LOC"] * name.count(" "), *"OOOO"]),
    )
]


@pytest.fixture(scope="module")
def study(tiny_lm, tmp_path_factory):
    """A finished study: the arguments that made it, and its folder."""
    folder = tmp_path_factory.mktemp("shots")
    (folder / "data.conll").write_text(format_conll(DATA), "utf-8")
    forward, backward = tiny_lm("llama", sentinel=True), tiny_lm("llama", "backward", seed=1, sentinel=True)
    arguments = ["fewshot", "--encoders", str(forward), f"{forward}+{backward}", "--shots", "2", "6", "--draws", "3"]
    arguments += ["--train", str(folder / "data.conll"), "--dev", str(folder / "data.conll")]
    arguments += ["--heads", "ridge", "mlp", "--tags", "factored", "bio", "--epochs", "12", "--lr", "0.01"]
    arguments += ["--out", str(folder / "out")]
    assert main(arguments) == 0
    return arguments, folder / "out"


def without(arguments, *options):
    """Arguments without some options and their values."""
    kept, words = True, []
    for word in arguments:
        kept = word not in options if word.startswith("--") else kept
        words += [word] * kept
    return words


def read(out):
    return json.loads((out / "results.json").read_text("utf-8"))


def test_there_is_a_point_for_every_encoder_system_and_number_of_shots(study):
    _, out = study
    results = read(out)
    assert len(results["points"]) == len(list((out / "cells").iterdir())) == 2 * 2 * 4
    for point in results["points"]:
        assert len(point["score"]["values"]) == 3
        assert point["score"]["mean"] == pytest.approx(np.mean(point["score"]["values"]))
        assert set(point["per_type"]) == {"PER", "LOC"}
        assert len(point["strengths"]) == (3 if point["head"].startswith("ridge") else 0)
        assert point["sentences"] == [len(d) for d in results["draws"][str(point["shots"])]]


def test_the_draws_are_written_down_and_hold_enough_of_every_type(study):
    _, out = study
    for shots, draws in read(out)["draws"].items():
        for draw in draws:
            for label in ("PER", "LOC"):
                assert sum(f"B-{label}" in DATA[i][1] for i in draw) == min(int(shots), 8)


def test_the_pair_reads_what_follows_the_name(study):
    _, out = study
    points = {(p["name"].count("+"), p["shots"], p["head"]): p["score"]["mean"] for p in read(out)["points"]}
    assert points[1, 6, "ridge, factored"] > points[0, 6, "ridge, factored"] + 10
    assert points[1, 6, "mlp, factored"] > 60


def test_after_a_kill_only_the_missing_cells_are_computed(study, capsys):
    arguments, out = study
    before = {name: (out / name).read_bytes() for name in ("results.json", "report.md", "report.html")}
    cells = sorted((out / "cells").iterdir())
    stamps = {cell: cell.stat().st_mtime_ns for cell in cells}
    shutil.rmtree(cells[3])
    capsys.readouterr()
    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert said.count("(computed in") == 1 and said.count("(known already)") == len(cells) - 1
    assert [c for c in cells if c.stat().st_mtime_ns != stamps[c]] == [cells[3]]
    assert {name: (out / name).read_bytes() for name in before} == before


def test_other_settings_are_other_cells(study, capsys):
    arguments, out = study
    changed = [*without(arguments, "--out", "--epochs", "--lr"), "--layers", "last", "--out", str(out)]
    assert main([*changed, "--heads", "lda", "--tags", "io", "--shots", "2"]) == 0
    said = capsys.readouterr().err
    assert said.count("(computed in") == 2
    assert main(arguments) == 0
    assert "(computed" not in capsys.readouterr().err


def test_the_report_is_one_safe_file(study):
    _, out = study
    text = (out / "report.html").read_text("utf-8")
    assert len(text) < 500_000 and text.count("<script") == 1 and "<b>Lisse" not in text
    assert text.count("<table") == text.count("<caption") >= 4 and text.count("<svg") == 4  # a panel a system
    assert not re.findall(r'(?:src|href)="?(?!#)[^>\s]+', text)
    markdown = (out / "report.md").read_text("utf-8")
    assert verdict(read(out)) in markdown and "K = 6" in markdown


def test_the_papers_protocol_reports_the_best_runs_of_its_search(study, tmp_path, capsys):
    arguments, _ = study
    given = [
        *arguments[: arguments.index("--shots")],
        *arguments[arguments.index("--train") : arguments.index("--heads")],
    ]
    given += ["--protocol", "paper", "--shots", "1", "--budget", "5", "--epochs", "2", "--out", str(tmp_path)]
    assert main(given) == 0
    results = read(tmp_path)
    assert len(results["points"]) == 2
    for point in results["points"]:
        assert point["head"] == "mlp, bio" and point["to_best"]["p"] is None
        assert len(point["score"]["values"]) == len(point["runs"]) == 3
        assert point["score"]["values"] == [run["dev_score"] for run in point["runs"]]  # judged on dev itself
        assert all(10 <= run["seed"] < 20 and 1e-4 <= run["lr"] <= 9e-3 for run in point["runs"])
    assert "these scores are optimistic" in (tmp_path / "report.md").read_text("utf-8")


def test_the_test_set_judges_and_dev_is_left_alone(study, tmp_path):
    arguments, _ = study
    (tmp_path / "test.conll").write_text(format_conll(DATA[:6]), "utf-8")
    given = [*arguments[:-2], "--test", str(tmp_path / "test.conll"), "--shots", "2", "--out", str(tmp_path / "out")]
    assert main(given) == 0
    results = read(tmp_path / "out")
    assert results["judged_on"] == "test" and set(results["data"]) == {"train", "test"}
    assert results["points"][0]["per_type"]["PER"][0] == 3 * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [({"shots": ()}, "nothing to compare"), ({"seeds": 0}, "nothing to compare"), ({"train": []}, "nothing to")],
)
def test_a_study_of_nothing_is_refused(change, message):
    sentences = [Sentence(("Ada",), ("B-PER",), where="f:1")]
    given = {"encoders": ("x",), "shots": (1,), "seeds": 1, "heads": (("auto", "auto"),)}
    given |= {"train": sentences, "dev": sentences}
    ShotStudy(**given)
    with pytest.raises(ValueError, match=message):
        ShotStudy(**{**given, **({"train": [Sentence(("a",), ("O",), where="f:1")]} if "train" in change else change)})


def test_auto_changes_with_the_number_of_shots_and_gives_way_to_what_is_asked_for():
    for fewest, (head, tags) in TagLabelling.shot_heads:
        assert resolve_head(TagLabelling, "auto", "auto", max(fewest, 1)) == (head, tags)
        assert head.removesuffix("+crf") in {*CLOSED_FORMS, *HEADS} and tags in TagLabelling.shot_tags
    assert resolve_head(TagLabelling, "lda", "auto", 4) == ("lda", TagLabelling.shot_heads[-1][1][1])


def test_a_protocol_is_a_preset():
    assert ShotOptions.make("sound") == ShotOptions()
    options = ShotOptions.make("paper", pooling="exit", epochs=3)
    assert (options.layers, options.pooling, options.epochs, options.hidden) == ("last", "exit", 3, None)


def test_vectors_are_standardised_layers_averaged_and_joined(tiny_lm):
    pair = f"{tiny_lm('llama', sentinel=True)}+{tiny_lm('llama', 'backward', seed=1, sentinel=True)}"
    train = [Sentence(tuple(words), tuple(tags)) for words, tags in DATA]
    reader = VectorReader(vector_source(pair, train, dtype="float32", cache=False), train)
    features = reader.encoder.encode_all(train)
    expected = []
    for stream in features.streams:
        upper = stream[:, 1:].astype(np.float64)  # of layers 0, 1, 2
        expected.append(((upper - upper.mean(0)) / upper.std(0)).mean(1))
    found = reader.vectors(train)
    np.testing.assert_allclose(found.words, np.concatenate(expected, 1), atol=5e-3)
    some = reader.train_vectors(np.array([3, 0]))
    starts = features.starts
    rows = [*range(starts[3], starts[4]), *range(starts[0], starts[1])]
    np.testing.assert_array_equal(some.words, found.words[rows])
    assert some.starts.tolist() == [0, features.lengths[3], features.lengths[3] + features.lengths[0]]


def test_a_verdict_admits_that_there_is_no_difference():
    def point(name, mean, gap, p):
        return {
            "name": name,
            "shots": 4,
            "head": "ridge, factored",
            "score": {"mean": mean, "values": [mean], "sd": 0.0},
            "sentences": [9],
            "runs": [],
            "to_best": {"name": "a", "points": gap, "p_holm": p, "reliable": p is not None and p < 0.05},
        }

    results = {
        "judged_on": "dev",
        "task": {"metric": "F1"},
        "points": [point("a", 50.0, 0.0, None), point("b", 49.0, 1.0, 0.4)],
    }
    assert verdict(results) == "At K = 4 a reaches 50.0 dev F1, 1.0 points above b (p = 0.400, no reliable difference)."
    few = "1 draw cannot tell whether its lead over b is real, whatever it is: give --draws 6 or more"
    assert summary(results) == f"Use a. It reaches 50.0 F1 at K = 4; {few}."
    results["points"][1]["to_best"] |= {"p_holm": 0.002, "reliable": True}
    for point in results["points"]:
        point["score"]["values"], point["sentences"] = [50.0] * 6, [9] * 6
    assert summary(results) == "Use a. It reaches 50.0 F1 at K = 4; its lead over b is probably real."
    assert "no reliable" not in verdict(results)
    assert "<svg" in curve_figure(results["points"], "dev")
    assert [column.header for column in shots_table(results).columns] == ["encoder", "K = 4\nridge, factored"]
    turned = {**results, "points": results["points"][::-1]}
    assert [*shots_table(turned).columns[0].cells] == ["a", "b"]  # the best first, whatever the order of the command


def test_a_type_that_only_the_judged_sentences_hold_is_missed_and_said(study, tmp_path):
    arguments, _ = study
    unknown = [("Ada sold Vellmar Glass .".split(), ["B-PER", "O", "B-ORG", "I-ORG", "O"])] * 3
    (tmp_path / "dev.conll").write_text(format_conll([*DATA, *unknown]), "utf-8")
    given = [*arguments, "--dev", str(tmp_path / "dev.conll"), "--shots", "6", "--out", str(tmp_path / "out")]
    assert main(given) == 0
    results = read(tmp_path / "out")
    notice = "dev: 3 entities with a type that the training data lack (ORG); they count as missed"
    assert notice in results["notices"] and notice in (tmp_path / "out" / "report.md").read_text("utf-8")
    for point in results["points"]:
        assert point["per_type"]["ORG"] == [3 * 3, 0, 0]
        gold, predicted, correct = (sum(counts[i] for counts in point["per_type"].values()) for i in range(3))
        assert gold == 3 * (len(DATA) + 6)
        assert point["recall"]["mean"] == pytest.approx(100 * correct / gold) and predicted


def test_heads_know_the_types_of_the_training_data_alone():
    given = {"encoders": ("x",), "shots": (1,), "heads": (("ridge", "io"),), "seeds": 1}
    train, dev = (
        [Sentence((label,), (f"B-{label}",), where="f:1") for label in labels] for labels in (("A", "C"), ("B", "C"))
    )
    study = ShotStudy(**given, train=train, dev=dev)
    assert (study.types, study.judged_types) == (["A", "C"], ["A", "C", "B"])


def test_entities_inside_others_are_counted(study, tmp_path):
    arguments, _ = study
    records = [
        {"words": words, "entities": [[0, len(words) - 2, "LOC"], [0, 1, "PER"]] if "closes" in words else []}
        for words, _ in DATA
    ]
    (tmp_path / "nested.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
    given = without(arguments, "--out", "--epochs", "--lr")
    given += ["--dev", str(tmp_path / "nested.jsonl"), "--shots", "2", "--heads", "ridge", "--out"]
    assert main([*given, str(tmp_path / "out")]) == 0
    (notice,) = [n for n in read(tmp_path / "out")["notices"] if "inside" in n]
    assert notice.startswith(f"dev: {len(NAMES)} entities are inside or across another one") and "outermost" in notice


def test_p_values_are_corrected_for_all_that_stand_in_the_table():
    def point(name, shots, values, runs=()):
        f1 = {"mean": float(np.mean(values)), "values": values}
        return {"name": name, "shots": shots, "head": "ridge, io", "score": f1, "runs": list(runs), "sentences": [9]}

    better, worse = [50.0 + i for i in range(10)], [49.0 + i for i in range(10)]
    points = [point(n, k, v) for k in range(1, 31) for n, v in (("a", better), ("b", worse))]
    compare_points(points, tested=True)
    tested = [p["to_best"] for p in points if p["name"] == "b"]
    assert all(gap["p"] == pytest.approx(2 / 1024) for gap in tested)
    assert all(gap["p_holm"] == pytest.approx(60 / 1024) and not gap["reliable"] for gap in tested)
    assert "(p = 0.059, no reliable difference)" in verdict(
        {"judged_on": "dev", "task": {"metric": "F1"}, "points": points}
    )
    assert all(p["to_best"]["p_holm"] is None for p in points if p["name"] == "a")
    compare_points(points[:4], tested=True)
    assert points[1]["to_best"]["p_holm"] == pytest.approx(4 / 1024) and points[1]["to_best"]["reliable"]
    searched = [point("a", 1, [50.0], [{"dev_score": 40.0}]), point("b", 1, [45.0], [{"dev_score": 60.0}])]
    compare_points(searched, tested=False)  # runs were searched for on dev, so dev chooses
    assert searched[0]["to_best"] == {"name": "b", "points": -5.0, "p": None, "p_holm": None, "reliable": False}
    assert "b reaches 45.0 test F1, 5.0 points below a." in verdict(
        {"judged_on": "test", "task": {"metric": "F1"}, "points": searched}
    )


def test_one_k_is_one_picture_and_several_are_a_panel_a_system(study):
    _, out = study
    results = json.loads((out / "results.json").read_text("utf-8"))
    shots = sorted({p["shots"] for p in results["points"]})
    systems = {p["head"] for p in results["points"]}
    assert len(shots) > 1 and len(systems) > 1

    def drawn(points):
        blocks = scores({**results, "points": points}).blocks
        return next(block.svg for block in blocks if isinstance(block, Figure))

    assert drawn(results["points"]).count("<svg ") == len(systems)
    points = [p for p in results["points"] if p["shots"] == shots[0]]
    alone = drawn(points)
    assert alone.count("<svg ") == 1 and all(system in alone for system in systems)
    assert alone.count("h0") == sum(len(p["score"]["values"]) for p in points)


def test_a_dry_run_computes_nothing_and_counts_what_is_missing(study, tmp_path, capsys):
    arguments, _ = study
    assert main([*arguments, "--dry-run"]) == 0
    assert "16 cells: 16 known, 0 to compute\nonly the report is left to write" in capsys.readouterr().out
    elsewhere = [*arguments, "--out", str(tmp_path / "out"), "--dry-run", "--json", "-"]
    assert main(elsewhere) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["cells"] == {"of": 16, "known": 0}
    assert {row["name"].split(" · ", 1)[1] for row in plan["systems"]} == {
        "ridge · factored",
        "ridge · bio",
        "mlp · factored",
        "mlp · bio",
    }
    assert all(row["missing"] == 2 and row["train_seconds"] > 0 for row in plan["systems"])
    assert plan["feature_bytes"] == 0  # the cache has them from the study before
    assert main([*arguments, "--out", str(tmp_path / "out"), "--dry-run", "--no-cache"]) == 0
    assert "features to write: 0 MB, about" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_dry_run_of_the_papers_protocol_knows_the_size_of_the_search(study, tmp_path, capsys):
    arguments, _ = study
    words = without(arguments, "--heads", "--tags", "--lr", "--draws", "--out")
    seconds = []
    for budget in ("3", "300"):
        given = [*words, "--protocol", "paper", "--budget", budget, "--out", str(tmp_path / "out"), "--dry-run"]
        assert main([*given, "--json", "-"]) == 0
        seconds.append(sum(row["train_seconds"] for row in json.loads(capsys.readouterr().out)["systems"]))
    assert seconds[1] > 5 * seconds[0] > 0
