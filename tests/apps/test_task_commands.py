"""Tasks at the command line: what is trained there opens, agrees with Python, and is said."""

import json
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest
import torch

import boustro
from boustro.apps.cli.arguments import check_heads
from boustro.apps.cli.main import main
from boustro.heads.registry import HEADS
from boustro.tasks import TASKS, task_class
from boustro.tasks.data.conll import format_conll
from boustro.tasks.fitting.estimate import CHOICE, KEY
from boustro.tasks.render import as_html
from boustro.text.words import split_text
from boustro.types import Sentence
from labelled import DATA, INPUTS, RECORDS, rows, small
from served import same

SAMPLE = files("boustro") / "data" / "sample"
ALONE = "the names of the labels alone, on the same sentences: "


@pytest.mark.parametrize("kind", ["messages", "orders"])
def test_fit_says_what_the_names_of_types_score_on_the_same_sentences(kind, tmp_path, capsys):
    """Where they are as good as labels, and where labels are worth something."""
    train, dev, out = (str(path) for path in (SAMPLE / f"{kind}.jsonl", SAMPLE / f"dev-{kind}.jsonl", tmp_path / "out"))
    words = ["fit", "--train", train, "--head", "ridge", "--out", out, "--overwrite"]
    told = []
    for more in (["--dev", dev, "--json", "-"], ["--dev", dev], []):
        assert main([*words, *more]) == 0
        told.append(capsys.readouterr().out)
        shown = [line for line in told[-1].splitlines() if line.startswith(ALONE)]
        assert "--json" in more or f"- {shown[0]}\n" in (tmp_path / "out" / "README.md").read_text("utf-8")
    scores, alone = json.loads(told[0]), boustro.Tagger.from_labels(boustro.load(out).types).evaluate(dev).f1
    assert scores["names"] == pytest.approx(alone, abs=0.01) and f"{ALONE}{alone:.1f}" in told[1]
    assert (scores["names"] >= 90) if kind == "messages" else (scores["names"] + 50 < scores["f1"])
    assert told[2].splitlines()[1].startswith(ALONE)


def test_heads_of_one_task_have_the_same_defaults_or_are_not_trained_at_once():
    for name, task in TASKS.items():
        defaults = [(f.name, f.default) for kind in task.config.heads() for f in fields(HEADS[kind].options)]
        if len({*defaults}) > len({option for option, _ in defaults}):
            with pytest.raises(ValueError, match="other defaults of --standardise; train them in two runs"):
                check_heads(name, task.config.heads())
        else:
            check_heads(name, task.config.heads())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--head ridge --epochs 3", "epochs is not an option of a ridge head"),
        ("--decode argmax", "decode is not read where crf is None"),
        ("--weak-weight 0.5", "weak_weight is not read where weak is None"),
        ("--encoder elmo:no/such --start-piece bos", "start_piece is not read by elmo:no/such; remove it"),
    ],
)
def test_options_that_are_not_read_are_refused(arguments, said, tmp_path, capsys):
    (tmp_path / "x.conll").write_text("Ada B-PER\n")
    given = ["fit", "--train", str(tmp_path / "x.conll"), "--out", str(tmp_path / "out"), *arguments.split()]
    for name, value in (("--task", "tag"), ("--encoder", "no/such-model")):
        given += [] if name in given else [name, value]
    assert main(given) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", "").split())


def test_so_they_are_in_a_study_of_few_sentences(tmp_path, capsys):
    (tmp_path / "x.conll").write_text("Ada B-PER\n")
    sets = ["--train", str(tmp_path / "x.conll"), "--dev", str(tmp_path / "x.conll"), "--out", str(tmp_path / "out")]
    given = ["fewshot", "--task", "tag", "--encoders", "no/such-model", *sets]
    for words, said in ((["--epochs", "3"], "epochs is not an option"), (["--hidden", "8"], "hidden is not an option")):
        assert main([*given, "--heads", "ridge", *words]) == 2
        assert said in " ".join(capsys.readouterr().err.replace("│", "").split())


@pytest.mark.parametrize("name", RECORDS)
def test_a_task_is_trained_judged_and_asked_as_python_does_it(name, tiny_pair, file, tmp_path, capsys):
    """The task is found in the data; the scores of the training are those of the folder."""
    train, out = str(file("train.jsonl", rows(*RECORDS[name]))), str(tmp_path / "out")
    named = ["--task", name] if name == "embed" else []  # its data suit another task too
    words = [*named, "--train", train, "--dev", train, "--encoder", tiny_pair, "--layers", "last", "--no-cache"]
    words += [word for option, value in small(name).items() for word in (f"--{option}", str(value))]
    assert main(["fit", *words, "--out", out, "--json", str(tmp_path / "fit.json")]) == 0
    assert f"task: {name}" in capsys.readouterr().err
    assert main(["evaluate", out, train, "--no-cache", "--json", str(tmp_path / "evaluate.json")]) == 0
    first, second = (json.loads((tmp_path / f"{made}.json").read_text("utf-8")) for made in ("fit", "evaluate"))
    assert first == second
    given = INPUTS[name]
    pair = {"sentence1": given[0], "sentence2": given[1]} if isinstance(given, tuple) else {"text": given}
    asked = str(file("asked.jsonl", rows(given if isinstance(given, dict) else pair) * 2))
    capsys.readouterr()
    assert main(["predict", out, asked, "--no-cache", "--format", "jsonl"]) == 0
    task = task_class(name).from_pretrained(out, cache=False)
    wanted = json.loads(json.dumps(task.to_record(task.answer_inputs([given])[0])))
    for line in capsys.readouterr().out.splitlines():
        found = json.loads(line)
        assert same({key: found.get(f"answer_{key}", found[key]) for key in wanted}, wanted, 1e-5)
    assert main(["predict", out, asked, "--no-cache", "--format", "conll"]) == (0 if "conll" in task.formats else 2)
    assert main(["predict", out, str(file("bad.jsonl", '{"other": 1}\n')), "--no-cache"]) == 1
    assert "bad.jsonl:1: " in capsys.readouterr().err


def test_recall_is_promised_by_taggers_alone(tagger_folder, tiny_lm, file, tmp_path, capsys):
    texts, gold = file("texts.txt", "Ada said boats cost 3 million.\n" * 120), file("gold.conll", format_conll(DATA))
    texts, gold = str(texts), str(gold)
    predict = ["predict", str(tagger_folder), texts, "--recall", "0.9", "--format"]
    assert main([*predict, "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 120 and any(e["text"] == "Ada" for e in lines[0]["entities"])
    assert main(["evaluate", str(tagger_folder), gold, "--recall", "0.9", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["recall"] >= 90
    assert main([*predict, "conll"]) == 2
    assert "no place for entities that overlap" in capsys.readouterr().err
    assert main(["predict", str(tagger_folder), texts, "--recall", "1"]) == 2
    other = boustro.Classifier(str(tiny_lm("llama")), epochs=1, cache=False).fit(RECORDS["classify"])
    other.save_pretrained(tmp_path / "other")
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "other"), texts, "--recall", "0.9"]) == 2
    assert "--recall is for taggers, and this is a Classifier" in capsys.readouterr().err


def test_without_a_development_set_the_head_is_chosen_and_judged_by_cross_validation(tiny_pair, file, tmp_path, capsys):
    texts = [f"{start} {end}." for start in ("Ada left", "It rained", "Bo slept", "It snows") for end in "abcd"]
    data = str(file("t.jsonl", rows(*({"text": t, "label": "sky" if t[0] == "I" else "who"} for t in texts))))
    fit = ["fit", "--train", data, "--encoder", tiny_pair, "--epochs", "1", "--hidden", "8"]
    assert main([*fit, "--out", str(tmp_path / "a"), "--json", str(tmp_path / "a.json")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("cross-validated accuracy: ") and "last doubling" in out
    assert json.loads((tmp_path / "a.json").read_text())[KEY]["examples"] == 16
    assert boustro.Classifier.from_pretrained(tmp_path / "a").record[KEY]["parts"] == 5
    assert main([*fit, "--out", str(tmp_path / "b"), "--cross-validate", "0"]) == 0
    assert main([*fit, "--out", str(tmp_path / "c"), "--dev", data]) == 0
    assert "cross-validated" not in capsys.readouterr().out


@pytest.mark.parametrize("task", ["tag", "classify"])
def test_python_and_the_command_fit_the_same_head(task, tiny_pair, tmp_path):
    texts = [
        (f"{name} likes {thing}", thing)
        for name in ("Ada left", "It rained", "Bo slept", "It snows", "Vellmar fell", "Ada saw it")
        for thing in ("rain", "boats")
    ]
    rows = {
        "tag": format_conll(DATA[:12]),
        "classify": "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in texts),
    }
    file = tmp_path / f"train.{'conll' if task == 'tag' else 'jsonl'}"
    file.write_text(rows[task], "utf-8")
    assert (
        main(["fit", "--train", str(file), "--encoder", tiny_pair, "--task", task, "--out", str(tmp_path / "m")]) == 0
    )
    by_command = task_class(task).from_pretrained(tmp_path / "m")
    by_python = task_class(task)(tiny_pair).fit(str(file))
    assert by_command.record.get(CHOICE) == by_python.record.get(CHOICE)
    ours, theirs = by_python.fitted.head.state_dict(), by_command.fitted.head.state_dict()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    asked = ["Okonkwo sold umbrellas .", "Ada likes rain"]
    assert by_python.predict(asked) == by_command.predict(asked)


def test_a_student_is_distilled_and_judged(tagger_folder, tiny_lm, file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, dev = file("texts.txt", "Ada said boats cost 3 million .\n" * 24), file("dev.conll", format_conll(DATA))
    texts, dev = str(texts), str(dev)
    how = ["--student", str(tiny_lm("llama", sentinel=True)), "--texts", texts, "--epochs", "2", "--no-cache"]
    assert main(["distill", str(tagger_folder), *how, "--dev", dev, "--out", "s", "--json", "figures.json"]) == 0
    shown = capsys.readouterr().out
    assert "agreement with the teacher on 2 examples" in shown
    assert shown.count("M parameters") == 2 and "F1" in shown
    assert json.loads(Path("figures.json").read_text())["compared"] == 2
    assert main(["evaluate", "s", dev, "--no-cache"]) == 0


def test_senses_are_read_and_answered_in_the_files_of_the_framework(tiny_lm, file, tmp_path, capsys):
    word = '<instance id="d0.s0.t0" lemma="bank" pos="NOUN">bank</instance>'
    texts = f'<text id="d0"><sentence id="d0.s0"><wf lemma="the" pos="DET">The</wf>{word}</sentence></text>'
    corpus = str(file("c.data.xml", f'<?xml version="1.0" encoding="UTF-8" ?>\n<corpus lang="en">{texts}</corpus>\n'))
    file("c.gold.key.txt", "d0.s0.t0 bank%1 bank%2\n")
    train, out = str(file("train.jsonl", rows(*RECORDS["sense"]))), str(tmp_path / "out")
    assert main(["check", train]) == 0 and "words with a sense" in capsys.readouterr().out
    fit = ["fit", "--train", train, "--dev", corpus, "--encoder", str(tiny_lm("llama")), "--out", out, "--no-cache"]
    assert main([*fit, "--json", "-"]) == 0 and json.loads(capsys.readouterr().out)["f1"] == 100
    assert main(["evaluate", out, corpus]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["all", "100.00", "100.00", "100.00", "1"] in table and ["lemma", "in", "training", "100.00%"] in table
    assert main(["predict", out, corpus, "--reads", "xml"]) == 0
    assert capsys.readouterr().out in ("d0.s0.t0 bank%1\n", "d0.s0.t0 bank%2\n")
    assert main(["predict", out, corpus]) == 1 and "c.data.xml:1: not a JSON object" in capsys.readouterr().err


LABELLED = {
    "chinese": [
        {"text": "艾达在利塞港。", "entities": [[0, 2, "PER"], [3, 6, "LOC"]]},
        {"text": "今天下雨。", "entities": []},
    ],
    "arabic": [
        {"text": "سافرت ليلى إلى ليسة.", "entities": [[6, 10, "PER"], [15, 19, "LOC"]]},
        {"text": "نعم، وصلت مساءً.", "entities": []},
    ],
}


@pytest.mark.parametrize("language", LABELLED)
def test_pages_and_reports_of_other_scripts(language, tiny_pair, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = LABELLED[language]
    Path("train.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows * 4), "utf-8")
    how = ["--encoders", tiny_pair, *"--train train.jsonl --dev train.jsonl --seeds 1 --vary epochs=1,20".split()]
    assert main(["compare", *how, "--epochs", "20", "--hidden", "32", "--out", "study"]) == 0
    report = Path("study/report.html").read_text("utf-8")
    assert "<dd dir=auto>" in report and ("艾达" if language == "chinese" else "ليلى") in report.partition("<script")[0]
    cells = sorted(
        Path("study/cells").iterdir(), key=lambda c: json.loads((c / "scores.json").read_text())["dev"]["value"]
    )
    cell = cells[-1]
    tagger = boustro.Tagger.from_pretrained(cell / "trained")
    line = rows[0]["text"]
    found = tagger.predict(line)
    assert [[e.start, e.end, e.label] for e in found] == rows[0]["entities"]
    assert all(line[e.start : e.end] == e.text for e in found)
    words = Sentence(next(iter(split_text(line))).sentence.words)
    assert [e.text for e in tagger.predict([words])[0]] == [e.text for e in found]
    Path("texts.txt").write_text(line + "\n", "utf-8")
    capsys.readouterr()
    assert main(["predict", str(cell / "trained"), "texts.txt", "--format", "html"]) == 0
    shown = capsys.readouterr().out
    assert f"<p dir=auto>{as_html(line, found)}</p>" in shown
