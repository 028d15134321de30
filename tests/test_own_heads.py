"""`boustro fewshot` for tasks without few-shot heads: K examples in all, the task's own head, once a draw."""

import json

import pytest

import boustro
from boustro.cli.main import main
from boustro.tasks.data.texts import read_texts

PLACES = ("Port Lisse", "Vellmar", "Okonkwo", "Brandt Hill", "Ada Bridge", "Calloway", "Mossend", "Tarn")
ROWS = {
    "similarity": [
        {"sentence1": f"{place} is open.", "sentence2": f"{place} is {word}.", "score": score}
        for place in PLACES
        for word, score in (("open", 5 - len(place) / 10), ("closed", 1 + PLACES.index(place) / 10))
    ],
    "qa": [
        {
            "context": f"Ada flew to {place}.",
            "question": "Where did Ada fly?",
            "answers": [{"text": place, "start": 12}],
        }
        for place in PLACES
    ],
    "classify": [
        {"text": f"{place} {what}.", "labels": labels}
        for place in PLACES
        for what, labels in (("sank", ["ship"]), ("sank at dawn", ["ship", "time"]), ("rang", ["bell"]))
    ],
}
METRICS = {"similarity": "Spearman", "qa": "F1", "classify": "micro F1"}


@pytest.fixture(scope="module")
def given(tiny_pair, tmp_path_factory):
    """By task, the arguments of a study, up to --out."""
    folder = tmp_path_factory.mktemp("own")
    for task, rows in ROWS.items():
        (folder / f"{task}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def arguments(task, out):
        file = str(folder / f"{task}.jsonl")
        study = ["--shots", "2", "6", "--draws", "2", "--train", file, "--dev", file, "--task", task]
        return ["fewshot", "--encoders", tiny_pair, *study, "--out", str(out)]

    return arguments


@pytest.mark.parametrize("task", ROWS)
def test_every_draw_has_k_examples_and_those_of_a_smaller_k_are_among_them(task, given, tmp_path, capsys):
    assert main(given(task, tmp_path / "a")) == 0
    results = json.loads((tmp_path / "a/results.json").read_text("utf-8"))
    assert results["protocol"] == "own" and results["task"]["metric"] == METRICS[task]
    for small, large in zip(results["draws"]["2"], results["draws"]["6"], strict=True):
        assert len(small) == 2 and len(large) == 6 and {*small} < {*large}
    assert results["draws"]["6"][0] != results["draws"]["6"][1]
    for point in results["points"]:
        assert len(point["score"]["values"]) == 2 and point["sentences"] == [point["shots"]] * 2
        assert all(-100 <= value <= 100 for value in point["score"]["values"])
    report = (tmp_path / "a/report.md").read_text("utf-8")
    assert "K examples in all" in report and "By type" not in report
    assert f"dev {METRICS[task]}" in capsys.readouterr().err


def test_a_point_is_what_fit_gives_on_its_draw(given, tiny_pair, tmp_path):
    assert main(given("classify", tmp_path / "a")) == 0
    results = json.loads((tmp_path / "a/results.json").read_text("utf-8"))
    texts = read_texts([(row["text"], row["labels"]) for row in ROWS["classify"]])
    point = next(p for p in results["points"] if p["shots"] == 6)
    for seed, (draw, value) in enumerate(zip(results["draws"]["6"], point["score"]["values"], strict=True), 1):
        model = boustro.Classifier(tiny_pair, cache=False).fit([texts[n] for n in draw], seed=seed)
        assert model.evaluate(texts).value == pytest.approx(value)


def test_what_few_shot_heads_have_is_refused(given, tmp_path, capsys):
    for more in (["--heads", "ridge"], ["--epochs", "3"], ["--tags", "label"], ["--protocol", "paper"]):
        assert main([*given("qa", tmp_path / "a"), *more]) in (1, 2)
        said = capsys.readouterr().err
        assert any(what in said for what in ("its defaults", "--tags label: for qa", "--draws is not read by"))
    assert not (tmp_path / "a").exists()


def test_more_examples_than_there_are_is_noticed(given, tmp_path):
    words = [*given("qa", tmp_path / "a"), "--shots", "100"]
    words = [w for n, w in enumerate(words) if not (w in ("2", "6") and words[n - 1] != "--draws")]
    words.remove("--shots")
    assert main(words) == 0
    results = json.loads((tmp_path / "a/results.json").read_text("utf-8"))
    assert "K = 100: there are 8 training examples only" in results["notices"]


def test_a_plan_names_the_cells_and_computes_none(given, tmp_path, capsys):
    assert main([*given("similarity", tmp_path / "a"), "--dry-run", "--no-cache"]) == 0
    assert "2 cells: 0 known, 2 to compute" in capsys.readouterr().out
    assert not (tmp_path / "a/cells").exists()


def test_a_draw_from_which_nothing_can_be_learned_is_named(given, tmp_path, capsys):
    words = given("similarity", tmp_path / "a")
    words[words.index("2")] = "1"
    assert main(words) == 1
    assert "draw 1 of 1 examples" in capsys.readouterr().err
