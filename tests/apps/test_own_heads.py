"""K as an axis of a comparison, which `boustro fewshot` is; here where `auto` is the task's own head."""

import json

import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.studies.compare.comparison import Comparison
from boustro.tasks.data.texts import read_texts
from boustro.types import Sentence
from world import run

PLACES = ("Port Lisse", "Vellmar", "Okonkwo", "Brandt Hill", "Ada Bridge", "Calloway", "Mossend", "Tarn")
ROWS = {
    "similarity": [
        {"sentence1": f"{place} is open.", "sentence2": f"{place} is {word}.", "score": score}
        for place in PLACES
        for word, score in (("open", 5 - len(place) / 10), ("closed", 1 + PLACES.index(place) / 10))
    ],
    "qa": [
        {"context": f"Ada flew to {place}.", "question": "Where?", "answers": [{"text": place, "start": 12}]}
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
        study = ["--shots", "2,6", "--seeds", "2", "--train", file, "--dev", file, "--task", task]
        return ["fewshot", "--encoders", tiny_pair, *study, "--out", str(out)]

    return arguments


@pytest.fixture(scope="module")
def study(given, tmp_path_factory):
    """study(task) → its results, its report and what it said, computed once."""
    made = {}

    def of(task):
        if task not in made:
            out = tmp_path_factory.mktemp(task) / "a"
            code, _, errors = run(given(task, out))
            assert code == 0, errors
            texts = [(out / name).read_text("utf-8") for name in ("results.json", "report.md")]
            made[task] = json.loads(texts[0]), texts[1], errors
        return made[task]

    return of


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=pytest.mark.long if task in ("classify", "similarity") else ()) for task in ROWS]
)
def test_every_draw_has_k_examples_and_those_of_a_smaller_k_are_among_them(task, study):
    results, report, errors = study(task)
    assert results["varied"] == {"K": [2, 6]} and results["task"]["metric"] == METRICS[task]
    for small, large in zip(results["draws"]["2"], results["draws"]["6"], strict=True):
        assert len(small) == 2 and len(large) == 6 and {*small} < {*large}
    assert results["draws"]["6"][0] != results["draws"]["6"][1]
    found = [(s["name"], s["shots"], len(s["dev"]["values"])) for s in results["systems"]]
    assert found == [("K=2", 2, 2), ("K=6", 6, 2)]
    assert "K in all" in report and "Scores by the number of examples" in report and "K = 6" in report
    assert f"dev {METRICS[task]}" in errors


def test_a_point_is_what_fit_gives_on_its_draw(study, tiny_pair):
    results, *_ = study("classify")
    texts = read_texts([(row["text"], row["labels"]) for row in ROWS["classify"]])
    system = next(s for s in results["systems"] if s["shots"] == 6)
    for seed, (draw, value) in enumerate(zip(results["draws"]["6"], system["dev"]["values"], strict=True), 1):
        model = boustro.Classifier(tiny_pair, cache=False).fit([texts[n] for n in draw], seed=seed)
        assert model.evaluate(texts).value == pytest.approx(value)


def test_more_examples_than_there_are_is_noticed(given, tmp_path):
    assert main(["100" if word == "2,6" else word for word in given("qa", tmp_path / "a")]) == 0
    results = json.loads((tmp_path / "a/results.json").read_text("utf-8"))
    assert "K = 100: only 8 training examples" in results["notices"]


def test_a_draw_from_which_nothing_can_be_learned_is_named(given, tmp_path, capsys):
    words = given("similarity", tmp_path / "a")
    words[words.index("2,6")] = "1,6"
    assert main(words) == 1
    assert "draw 1, of 1 example:" in capsys.readouterr().err


@pytest.mark.long
def test_systems_are_compared_at_the_same_k(tiny_pair, tiny_lm, tmp_path, capsys):
    names = [["Ada", "Brandt"], ["Port", "Lisse"], ["Mira"], ["Okonkwo"], ["Tarn", "Hill"], ["Vellmar"]]
    lines = [[(w, "IB"[n == 0] + "-PER") for n, w in enumerate(own)] + [("left", "O")] for own in names]
    files = ["".join("".join(f"{w} {tag}\n" for w, tag in own) + "\n" for own in lines[a:]) for a in (0, 1)]
    train, dev = (tmp_path / name for name in ("train.txt", "dev.txt"))
    train.write_text("-DOCSTART- O\n\n" + files[0], "utf-8")
    dev.write_text(files[1], "utf-8")
    words = ["compare", "--encoders", f"{tiny_pair},{tiny_lm('llama', sentinel=True)}", "--heads", "mlp,ridge"]
    words += ["--shots", "4,1", "--seeds", "2", "--epochs", "2", "--hidden", "8", "--train", str(train)]
    assert main([*words, "--dev", str(dev), "--out", str(tmp_path / "a")]) == 0
    results = json.loads((tmp_path / "a/results.json").read_text("utf-8"))
    systems = {(s["encoder"], s["head"], s["shots"]): s for s in results["systems"]}
    assert len(systems) == 8 and len({s["line"] for s in results["systems"]}) == 4
    assert results["best"] in [s["name"] for s in results["systems"]]
    for shots in (1, 4):
        rivals = [s for s in results["systems"] if s["shots"] == shots]
        best = max(rivals, key=lambda s: s["dev"]["mean"])
        assert best["to_best"] is None
        for other in (s for s in rivals if s["to_best"]):
            assert other["to_best"]["points"] == pytest.approx(best["dev"]["mean"] - other["dev"]["mean"], abs=0.01)
    again = [*words, "--dev", str(dev), "--out", str(tmp_path / "a"), "--reference", results["systems"][0]["name"]]
    assert main(again) == 0
    told = json.loads((tmp_path / "a/results.json").read_text("utf-8"))["systems"]
    same_line = [s["name"] for s in told if s["line"] == told[0]["line"]]
    assert [s["name"] for s in told if s["to_reference"] is None] == same_line
    assert "computed in" in capsys.readouterr().err


def test_a_draw_is_read_in_its_documents_and_learned_from_alone(tiny_pair):
    texts = [["Ada", "left"], ["Mira", "sang"], ["It", "rained"], ["Tarn", "rose"]]
    tags = [["B-PER", "O"], ["B-PER", "O"], ["O", "O"], ["B-LOC", "O"]]
    given = enumerate(zip(map(tuple, texts), map(tuple, tags), "aaab", strict=True))
    train = [Sentence(words, own, document=name, where=f"f:{n}") for n, (words, own, name) in given]
    grid = Comparison(encoders=(tiny_pair,), heads=("mlp",), seeds=1, shots=(1,), train=train, dev=train)
    (draw,) = grid.draws[1]
    taught = grid.taught(1, 1)
    assert [e.words for e in taught] == [e.words for e in train]
    assert [n for n, e in enumerate(taught) if e.is_labelled] == draw.tolist() != [0, 1, 2, 3]
