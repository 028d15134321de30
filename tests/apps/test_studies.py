"""Comparison: a grid of cells that survives a kill, tables that follow from the cells, and how each unit is judged."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr

import children
from boustro.apps.cli.main import main
from boustro.apps.studies.compare.cases import OTHER_ENTITIES, WORD_GROUPS, Answers
from boustro.apps.studies.compare.examples import SHOWN_WORDS, confident_answers, cut, differing
from boustro.apps.studies.report.blocks import ExampleSentence, to_html
from boustro.metrics.labels import score_text_labels
from boustro.metrics.questions import score_answers
from boustro.metrics.significance import bootstrap
from boustro.tasks.answers import Answer
from boustro.tasks.data.conll import format_conll
from boustro.tasks.labellings import labelling_class
from boustro.tasks.labellings.scores import NumberUnits
from boustro.tasks.labellings.texts import LabelSetUnits, LabelUnits
from boustro.tasks.questions.data import read_questions
from boustro.tasks.questions.labelling import AnswerUnits
from boustro.tasks.render import shown_number
from boustro.tasks.tagger.entities import EntityUnits
from boustro.tasks.tagger.tags import WordUnits
from boustro.text.words import split_text
from boustro.types import Entity, Sentence
from pretraining import replacing

NAMES = ["Ada", "Brandt", "Lisse", "Vellmar", "Okonkwo", "<b>Calloway"]
DATA = [
    (words.split(), tags.split())
    for name in NAMES
    for words, tags in (
        (f"{name} said boats cost 3 million .", "B-PER O O O O O O"),
        (f"{name} closes on Mondays .", "B-LOC O O O O"),
    )
]


@pytest.fixture(scope="module")
def study(tiny_lm, tmp_path_factory):
    """A finished comparison: the arguments that made it, and its folder."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "data.conll").write_text(format_conll(DATA), "utf-8")
    forward, backward = tiny_lm("llama", sentinel=True), tiny_lm("llama", "backward", seed=1, sentinel=True)
    arguments = ["compare", "--encoders", f"{forward},{forward}+{backward}", "--heads", "linear,mlp"]
    arguments += ["--train", str(folder / "data.conll"), "--dev", str(folder / "data.conll")]
    arguments += ["--seeds", "2", "--epochs", "25", "--lr", "0.01", "--dropout", "0", "--out", str(folder / "out")]
    assert main(arguments) == 0
    return arguments, folder / "out"


@pytest.fixture
def fitted(monkeypatch):
    """What is trained from here on."""
    from boustro.tasks.tagger import Tagger

    done, original = [], Tagger.fit
    monkeypatch.setattr(Tagger, "fit", lambda self, *a, **k: done.append(self.config) or original(self, *a, **k))
    return done


def read(out):
    return json.loads((out / "results.json").read_text("utf-8"))


def test_one_cell_for_every_system_and_seed(study):
    _, out = study
    results = read(out)
    assert len(list((out / "cells").iterdir())) == 8
    assert len(results["systems"]) == 4 and results["seeds"] == 2 and results["stamp"] == ""
    for system in results["systems"]:
        assert len(system["dev"]["values"]) == system["num_seeds"] == 2
        assert system["dev"]["mean"] == pytest.approx(sum(system["dev"]["values"]) / 2)
        assert set(system["per_type"]) == {"PER", "LOC"}
    names = [s["name"] for s in results["systems"]]
    assert len(set(names)) == 4 and not any(str(out.parent) in name for name in names)


def test_every_split_of_a_system_adds_up_to_its_score(study):
    _, out = study
    for system in read(out)["systems"]:
        gold = 2 * len(DATA)  # an entity a sentence, two seeds
        errors = system["errors"]
        assert sum(n for kind, n in errors.items() if kind != "spurious") == gold
        predicted = sum(n for kind, n in errors.items() if kind != "missed")
        assert sum(n for g, _, n in system["confusions"] if g is not None) == gold
        assert sum(row[2] for row in system["calibration"]["bins"]) == predicted
        for buckets in system["buckets"].values():
            totals = [sum(column) for column in zip(*buckets.values(), strict=True)]
            assert totals == [gold, predicted, errors["correct"]]
        recall = 100 * errors["correct"] / gold
        assert system["figures"]["recall"]["mean"] == pytest.approx(recall)
        assert set(system["layer_weights"]) and all(len(w) == 2 for w in system["layer_weights"].values())


def test_the_pair_knows_what_follows_the_first_word(study):
    _, out = study
    results = read(out)
    forward, pair = (
        max(s["dev"]["mean"] for s in results["systems"] if ("+" in s["encoder"]) == both) for both in (False, True)
    )
    assert pair > 95 and forward < 85
    assert "+" in results["best"] and results["pair"][1] == results["best"]
    assert results["direction_test"]["starts the sentence"]["points"] > 10
    assert results["pair"][0].split(" · ")[1] == results["best"].split(" · ")[1]  # the two differ in the encoder only
    start = results["cases"][0]
    assert start["title"] == "starts the sentence" and start["entities"] == len(DATA)
    gained = (start["recall"][1] - start["recall"][0]) / 100
    assert (start["fixed"] - start["broken"]) / (2 * len(DATA)) == pytest.approx(gained)


def test_a_cell_holds_a_score_for_every_predicted_entity(study):
    _, out = study
    for cell in (out / "cells").iterdir():
        for line in (cell / "dev.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            assert len(row["scores"]) == len(row["entities"]) and len(row["gold"]) == 1
            assert all(0 < score <= 1 for score in row["scores"])
        cost = json.loads((cell / "scores.json").read_text())["cost"]
        streams = 2 if "+" in cell.name else 1
        words = 2 * sum(len(words) for words, _ in DATA)
        assert cost["feature_bytes"] == words * streams * 3 * 2 * 32 * 2  # layers, places, width, bytes
        assert cost["head_bytes"] > 0 and cost["words_per_second"] > 0


def test_after_a_kill_only_the_missing_cells_run_and_the_table_is_the_same(study, fitted, capsys):
    arguments, out = study
    assert main(arguments) == 0 and not fitted
    before = {name: (out / name).read_bytes() for name in ("report.md", "report.html", "results.json")}
    (gone,) = (c for c in (out / "cells").iterdir() if "+" in c.name and "-mlp-2-" in c.name)
    (gone / "manifest.json").unlink()  # half written
    shutil.rmtree(gone / "trained")
    capsys.readouterr()
    assert main([*arguments, "--report-only"]) == 0 and not fitted
    partial = read(out)
    assert partial["stamp"] == "7 of 8 cells" and "incomplete: 7 of 8 cells" in capsys.readouterr().out
    assert "Incomplete: 7 of 8 cells" in (out / "report.html").read_text("utf-8")
    assert len(partial["missing"]) == 1 and partial["missing"][0].endswith("mlp, seed 2")
    assert sorted(s["num_seeds"] for s in partial["systems"]) == [1, 2, 2, 2]
    assert "(1 of 2 seeds)" in (out / "report.md").read_text("utf-8")
    assert main(arguments) == 0 and len(fitted) == 1
    assert main(arguments) == 0 and len(fitted) == 1
    first, again = json.loads(before["results.json"]), read(out)
    assert first.pop("cost").keys() == again.pop("cost").keys()  # the clock's figures are the only ones that may differ
    assert json.dumps(again) == json.dumps(first)
    tables = [text.partition(b"## Cost")[0] for text in (before["report.md"], (out / "report.md").read_bytes())]
    assert tables[0] == tables[1]
    page = (out / "report.html").read_bytes()
    assert main([*arguments, "--report-only"]) == 0 and (out / "report.html").read_bytes() == page


def test_a_dry_run_computes_nothing_and_counts_what_is_there(study, fitted, tmp_path, capsys):
    arguments, _ = study
    capsys.readouterr()
    assert main([*arguments, "--dry-run"]) == 0
    assert "8 cells: 8 known, 0 to compute" in capsys.readouterr().out and not fitted
    elsewhere = replacing(arguments, "--out", tmp_path / "out", "--heads", "linear", "--dry-run")
    assert main([*elsewhere, "--json", "-"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["cells"] == {"of": 4, "known": 0} and plan["feature_bytes"] == 0  # the cache has them all
    assert all(row["missing"] == 2 and row["train_seconds"] > 0 for row in plan["systems"])
    assert not (tmp_path / "out").exists()
    assert main([*elsewhere, "--pooling", "entry", "--json", "-"]) == 0
    plan = json.loads(capsys.readouterr().out)
    words = sum(len(words) for words, _ in DATA)  # train and dev are one text
    assert plan["feature_bytes"] == 2 * words * 3 * 32 * 2  # two LMs: both systems share the forward one
    assert plan["encode_minutes"] > 0


def test_options_are_varied_and_named_after_what_differs(study, fitted, tmp_path, capsys):
    arguments, _ = study
    forward = arguments[2].partition(",")[0]
    data = arguments[arguments.index("--train") : arguments.index("--seeds")]
    vary = ["--vary", "pooling=exit,exit+before", "--vary", "layers=last", "--epochs", "2"]
    given = ["compare", "--encoders", forward, *data, *vary, "--seeds", "1", "--out", str(tmp_path)]
    assert main([*given, "--json", "-"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert sorted(s["name"] for s in results["systems"]) == ["exit", "exit+before"]
    assert [(c.pooling, c.layers) for c in fitted] == [("exit", "last"), ("exit+before", "last")]
    assert results["options"]["layers"] == "last" and "pooling" not in results["options"]
    assert main([*given, "--reference", "exit"]) == 0
    assert read(tmp_path)["reference"] == read(tmp_path)["pair"][0] == "exit"
    assert main([*given, "--cases", "exit+before,exit"]) == 0 and len(fitted) == 2
    assert read(tmp_path)["pair"] == ["exit+before", "exit"]
    capsys.readouterr()
    assert main([*given, "--reference", "exits"]) == 1
    assert "did you mean 'exit'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["results.json", "report.md", "report.html"])
def test_a_report_of_something_else_is_kept(study, tmp_path, capsys, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("{}")
    assert main([*study[0][:-1], str(tmp_path / "out"), "--report-only"]) == 1
    assert f"{name} exists, and no study of boustro wrote it; choose another --out" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
    assert main(["demo", "--out", str(tmp_path / "out")]) == 1


def test_a_report_of_nothing_is_refused_and_json_goes_to_standard_output_alone(study, tmp_path, capsys):
    arguments, _ = study
    assert main([*arguments[:-1], str(tmp_path), "--report-only"]) == 1
    assert "no cell of this study is complete yet" in capsys.readouterr().err and not list(tmp_path.iterdir())
    assert main([*arguments, "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["seeds"] == 2 and "report:" in captured.err


def at_once(command, folder):
    """The exit codes of two processes that run one command, and what they say."""
    errors = [folder / "1.err", folder / "2.err"]
    running = [children.start(children.undisturbed, command, path) for path in errors]
    return [children.finish(process) for process in running], [path.read_text() for path in errors]


def test_two_programs_run_one_study_and_both_end_with_the_whole_table(study, tmp_path):
    arguments, _ = study
    words = replacing(arguments, "--out", tmp_path / "out", "--epochs", "2", "--heads", "linear")
    codes, told = at_once(words, tmp_path)
    assert codes == [0, 0], told
    assert len(list((tmp_path / "out" / "cells").glob("*"))) == 4
    assert not list((tmp_path / "out" / "cells").glob(".*")) and read(tmp_path / "out")["stamp"] == ""


def test_of_two_fits_into_one_folder_one_is_refused_and_one_is_whole(study, tmp_path):
    arguments, out = study
    data = str(out.parent / "data.conll")
    words = [
        "fit",
        "--encoder",
        arguments[2].partition(",")[0],
        "--train",
        data,
        "--out",
        str(tmp_path / "out" / "ner"),
    ]
    words += ["--epochs", "2", "--cross-validate", "0"]
    codes, told = at_once(words, tmp_path)
    assert sorted(codes) == [0, 1], told
    assert "another run is writing here" in told[codes.index(1)] or "give --overwrite" in told[codes.index(1)]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["ner"]
    assert main(["evaluate", str(tmp_path / "out" / "ner"), data]) == 0


class Labelled(SimpleNamespace):
    """A text with any number of labels."""

    def __len__(self):
        return len(self.words)


TEXTS = [Sentence(("boat", str(n)), label="up" if n % 3 else "down", where=f"d/t.jsonl:{n}") for n in range(9)]
CONTEXT = "Ada Brandt sold the old harbour in May."
WHEN = (("May", 35), ("in May", 32))
RECORDS = [
    {"context": CONTEXT, "question": "Who sold it?", "answers": [{"text": "Ada Brandt", "start": 0}]},
    {"context": CONTEXT, "question": "When?", "answers": [*({"text": t, "start": n} for t, n in WHEN)]},
    {"context": CONTEXT, "question": "Why?", "answers": []},
]
QUESTIONS = read_questions(RECORDS)


def score(units, examples, answers):
    (drawn,) = bootstrap(units.statistic, [units.values(examples, answers)[None]], draws=1)
    return drawn.scores[0]


def label(name, p=0.8):
    return Answer((name,), (p,))


def word_labels(*names):
    return Answer(names, (0.8,) * len(names), tuple(Entity(name, n, n + 1, score=0.8) for n, name in enumerate(names)))


def span(start, end, p=0.6):
    return Answer(("answer",), (p,), (Entity("answer", start, end, score=p),), value=0.0)


def judged(units, examples, answers):
    """The answers as a report reads them from a cell."""
    found = [units.found(e, a) for e, a in zip(examples, answers, strict=True)]
    predicted = [[Entity(e.label, e.start, e.end) for e in own] for own in found]
    said = [units.describe_answer(e, a) for e, a in zip(examples, answers, strict=True)]
    scores, values = [[e.score for e in own] for own in found], units.values(examples, answers)
    return Answers([*map(units.words, examples)], [*map(units.gold, examples)], predicted, scores, values, said)


def test_one_label_per_text_is_judged_by_accuracy():
    units, answers = LabelUnits(), [label("up")] * 9
    wanted = score_text_labels([t.label for t in TEXTS], ["up"] * 9).accuracy
    assert score(units, TEXTS, answers) == pytest.approx(wanted) == pytest.approx(200 / 3)
    assert [own.facts("texts")["units"] for own in (units, LabelSetUnits())] == ["texts", "labels"]
    assert units.credits(units.values(TEXTS, answers)).tolist() == [0, 1, 1] * 3
    empty = Sentence((), label="up")
    assert score(units, [empty], [label("up")]) == 100 and units.words(empty) == ("",)


WORDS = [Sentence(("Boats", "rot", "."), ("NOUN", "VERB", "PUNCT")), Sentence(("Rot", "!"), ("NOUN", "PUNCT"))]


def test_labels_of_words_are_judged_by_accuracy():
    units = labelling_class("tags", WORDS).units
    answers = [word_labels("NOUN", "VERB", "PUNCT"), word_labels("VERB", "PUNCT")]
    assert isinstance(units, WordUnits)
    assert isinstance(labelling_class("tags", [Sentence(("a",), ("B-X",))]).units, EntityUnits)
    assert score(units, WORDS, answers) == pytest.approx(80)
    assert units.credits(units.values(WORDS, answers)).tolist() == [1, 0.5]
    assert units.gold(WORDS[1]) == [Entity("NOUN", 0, 1), Entity("PUNCT", 1, 2)]


def test_labels_of_words_are_compared(tiny_pair, tmp_path):
    rows = "".join("".join(f"{w}\t{t}\n" for w, t in zip(s.words, s.tags, strict=True)) + "\n" for s in WORDS * 6)
    (tmp_path / "a.tsv").write_text(rows, "utf-8")
    (tmp_path / "b.tsv").write_text(rows + "Oh\tINTJ\n", "utf-8")
    words = ["--encoders", f"{tiny_pair.split('+')[0]},{tiny_pair}", "--train", str(tmp_path / "a.tsv")]
    words += ["--dev", str(tmp_path / "b.tsv"), "--scheme", "labels", "--out", str(tmp_path / "out")]
    assert main(["compare", *words, "--seeds", "1", "--epochs", "4"]) == 0
    results = json.loads((tmp_path / "out/results.json").read_text("utf-8"))
    assert results["signature"]["metric"] == "accuracy of words" and results["data"]["dev"]["entities"] == 31
    for system in results["systems"]:
        right = {label: found["num_entities"] for label, found in system["per_type"].items()}
        assert right["PUNCT"] == 12 and all(value <= 100 for value in system["dev"]["values"])
    assert [group["title"] for group in results["cases"]] == [*WORD_GROUPS, OTHER_ENTITIES]
    report = (tmp_path / "out/report.md").read_text("utf-8")
    assert "Words before the word" in report and "conlleval" not in report and "Kinds of mistakes" not in report
    assert "1 dev words with a label that the training data never show" in report


def test_label_sets_are_judged_by_micro_f1():
    texts = [Labelled(words=("a",), labels=names, where="") for names in (("x", "y"), (), ("y",))]
    units = labelling_class("class", texts).units
    answers = [Answer(("x",), (0.9,)), Answer((), ()), Answer(("x", "y"), (0.7, 0.6))]
    assert isinstance(units, LabelSetUnits) and not units.has_confusions
    assert score(units, texts, answers) == pytest.approx(200 * 2 / 6)
    assert units.credits(units.values(texts, answers)) == pytest.approx([2 / 3, 1, 2 / 3])
    assert [units.reference(t) for t in texts] == ["x, y", "", "y"]


def test_answers_to_questions_are_judged_by_their_mean_f1():
    units = AnswerUnits()
    nothing = Answer(("no answer",), (0.5,), (Entity("answer", 0, 1, score=0.1),), value=1.0)
    answers = [span(0, 1), span(7, 8), nothing]
    wanted = score_answers([q.answers for q in QUESTIONS], ["Ada", "May", ""])
    assert score(units, QUESTIONS, answers) == pytest.approx(wanted.f1)
    assert units.values(QUESTIONS, answers)[:, 3].mean() * 100 == pytest.approx(wanted.exact_match)
    assert [units.describe_answer(q, a) for q, a in zip(QUESTIONS, answers, strict=True)] == ["Ada", "May", "no answer"]
    found = judged(units, QUESTIONS, answers)
    assert units.reference(QUESTIONS[1]) == "May / in May" and units.reference(QUESTIONS[2]) == "no answer"
    assert units.right(found.gold, found.predicted, found.values) == [[False], [True], []]
    assert units.title(QUESTIONS[0]) == "Who sold it?"


def test_numbers_are_judged_by_the_correlation_of_their_ranks():
    units, rng = NumberUnits(), np.random.default_rng(0)
    gold, found = rng.normal(size=(2, 12))
    pairs = [SimpleNamespace(words=("a", "|", "b"), score=g, where="") for g in gold]
    answers = [Answer(value=float(x)) for x in found]
    assert score(units, pairs, answers) == pytest.approx(100 * spearmanr(gold, found).statistic)
    exact = [Answer(value=2 * g) for g in gold]
    assert units.credits(units.values(pairs, exact)).tolist() == [1] * 12
    reversed_ranks = units.credits(units.values(pairs, [Answer(value=-g) for g in gold]))
    assert reversed_ranks.min() == 0 and units.reference(pairs[0]) == shown_number(gold[0])


def test_examples_that_two_systems_answer_differently_are_fixed_or_broken():
    units = LabelUnits()
    always, never = [label("up", p) for p in np.linspace(0.5, 0.9, 9)], [label("down", 0.7)] * 9
    first, second = judged(units, TEXTS, never), judged(units, TEXTS, always)
    (group,) = differing(units, TEXTS, [first, first], [second, second], {}, ("a", "b"), "all texts")
    assert (group["entities"], group["fixed"], group["broken"], group["num_seeds"]) == (9, 12, 6, 2)
    assert group["recall"] == pytest.approx([100 / 3, 200 / 3])
    shown = group["sentences"]
    assert [s["kind"] for s in shown] == ["fixed"] * 5 + ["broken"] * 3
    assert shown[0]["number"] == 9 and shown[0]["where"] == "t.jsonl:8"  # the surest first
    assert shown[0]["answers"]["b"] == {"said": "up", "score": pytest.approx(0.9), "credit": 1}
    (same,) = differing(units, TEXTS, [first], [first], {}, ("a", "b"), "all texts")
    assert (same["fixed"], same["broken"], same["sentences"]) == (0, 0, [])
    mistakes = confident_answers(units, TEXTS, "b", second)
    assert [m["number"] for m in mistakes] == [7, 4, 1] and mistakes[0]["reference"] == "down"


def test_a_long_context_is_cut_around_the_answer():
    words, left_out = [(f"w{i}", i % 2 == 0) for i in range(200)], ("…", True)
    shown, spans = cut(words, [(150, 152), (3, 4)], SHOWN_WORDS)
    assert shown[0] == shown[-1] == left_out and len(shown) == SHOWN_WORDS + 2
    assert spans == [[spans[0][0], spans[0][0] + 2]] and shown[spans[0][0]] == ("w150", True)
    assert cut(words[:5], [(0, 5)], SHOWN_WORDS) == (words[:5], [[0, 5]])
    assert cut(words, [(199, 200)], 10)[0] == [left_out, *words[190:]]
    assert cut(words, [], 3)[0] == [*words[:3], left_out]


def test_an_example_is_shown_as_its_text_was_given():
    text = "(Ada's) boats,sold"
    (part,) = split_text(text, "the text")
    block = ExampleSentence("x", part.sentence.words, [Entity("PER", 1, 2)], [], EntityUnits().spaces(part.sentence))
    assert re.sub("<[^>]+>", "", to_html(block)).replace("&#x27;", "'") == "xreference(Ada PER's) boats,sold"
