"""boustro check: what it says about labelled files, in words and as JSON, and what it does with bad ones."""

import json
from pathlib import Path

import pytest

from boustro.apps.cli.check import report_files
from boustro.apps.cli.main import main
from boustro.tasks.data import load_data


@pytest.fixture
def file(tmp_path, monkeypatch):
    """file(name, text) → its name, in the folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (tmp_path / name).write_text(text, "utf-8")
        return name

    return write


TRAIN = "-DOCSTART- O\n\nAda B-PER\n\nAda B-PER\n\nLisse I-LOC\nsaid O\n\nx B-LOC\n"
DEV = "Ada O\n\nx B-LOC\n\nVellmar B-ORG\n"


def test_a_report_in_words(file, capsys):
    assert main(["check", file("train", TRAIN), file("dev", DEV)]) == 0
    assert capsys.readouterr().out == (
        "train: 4 sentences, 5 words, 1 document, scheme BIO (CoNLL columns)\n"
        "  LOC                2 entities\n"
        "  PER                2 entities\n"
        "  1 tag that does not fit its neighbours, read as conlleval reads them\n"
        "    train:7: I-LOC begins an entity; read as B-LOC\n"
        "  1 sentence occurs more than once\n"
        "  in this file only: PER\n"
        "dev: 3 sentences, 3 words, 0 documents, scheme BIO (CoNLL columns)\n"
        "  LOC                1 entity\n"
        "  ORG                1 entity\n"
        "  1 sentence with different labels elsewhere\n"
        "    dev:1: labelled differently at train:3\n"
        "  0 sentences occur more than once\n"
        "  2 sentences are also in train\n"
        "  in this file only: ORG\n"
    )


def test_the_same_report_as_json_on_standard_output_and_in_a_file(file, capsys, tmp_path):
    names = [file("train", TRAIN), file("dev", DEV)]
    assert main(["check", *names, "--json", "-"]) == 0
    train, dev = written = json.loads(capsys.readouterr().out)
    what = "tags that do not fit their neighbours, read as conlleval reads them"
    assert train["notes"] == {what: ["train:7: I-LOC begins an entity; read as B-LOC"]}
    assert (train["num_sentences"], train["num_words"], train["num_documents"], train["num_repeated"]) == (4, 5, 1, 1)
    assert (dev["also_in"], dev["only_here"], dev["counts"]) == ({"train": 2}, ["ORG"], {"LOC": 1, "ORG": 1})
    assert main(["check", *names, "--json", str(tmp_path / "report.json")]) == 0
    assert json.loads((tmp_path / "report.json").read_text()) == written
    assert capsys.readouterr().out.startswith("train: 4 sentences")


def test_many_places_are_shortened_in_words_and_whole_in_json(file, capsys):
    name = file("a", "x I-A\n\n" * 8 + "y B-A\n")
    assert main(["check", name]) == 0
    assert "    a:9: I-A begins an entity; read as B-A\n    … and 3 more\n" in capsys.readouterr().out
    assert [len(places) for places in report_files([name])[0].notes.values()] == [8]


def test_every_format_is_reported_on(file, capsys):
    texts = [
        {"text": "Port Lisse-based.", "entities": [[0, 10, "LOC"], [0, 4, "X"]]},
        {"text": "Ada", "entities": [], "answer": "ignore"},
    ]
    names = [
        file("a.jsonl", "".join(json.dumps(t) + "\n" for t in texts)),
        file("b.conllu", "1\tEnd\tend\tNOUN\t_\t_\t0\troot\t_\t_\n1.1\tx\tx\tX\t_\t_\t_\t_\t0:x\t_\n"),
    ]
    assert main(["check", *names]) == 0
    out = capsys.readouterr().out
    assert "a.jsonl: 1 sentence, 3 words, 1 document, scheme BIO (JSON lines)\n" in out
    assert "  LOC                1 entity\n  X                  1 entity\n" in out
    assert "a.jsonl:1: LOC 'Port Lisse' widened to 'Port Lisse-based'" in out
    assert "1 entity that overlaps another one" in out and "a.jsonl:1: X 'Port'" in out
    assert "1 record that its annotator rejected or ignored" in out
    assert "b.conllu: 1 sentence, 1 word, 0 documents, scheme LABELS (CoNLL-U)\n  NOUN               1 word" in out
    assert "b.conllu:2: empty node 1.1 left out" in out


def test_a_file_that_cannot_be_read_is_reported_with_the_others_and_fails_the_command(file, capsys):
    names = [file("bad", "a B-X\nb\n"), "missing", file("good", "a B-X\n")]
    assert main(["check", *names]) == 1
    captured = capsys.readouterr()
    assert "bad: cannot be read\n  bad:2: expected a word and a tag, got 'b'\n" in captured.out
    assert "missing: cannot be read\n  missing: no such file" in captured.out and "good: 1 sentence" in captured.out
    assert captured.err == "boustro: 2 of 3 cannot be read: bad, missing\n"
    assert main(["check"]) == 2
    assert "DATA ... is missing" in capsys.readouterr().err


def test_options_reach_the_reader(file, capsys):
    name = file("a", "Ada|B-PER|x\nleft|O|y\n")
    assert main(["check", name, "--delimiter", "|", "--tag-column", "-2", "--word-column", "0"]) == 0
    assert "  PER                1 entity\n" in capsys.readouterr().out
    assert main(["check", name, "--delimiter", "|", "--scheme", "labels"]) == 0
    assert "scheme LABELS" in capsys.readouterr().out
    assert main(["check", file("b", "Ada per\nOak per\n"), "--scheme", "io"]) == 0
    assert "  per                1 entity\n" in capsys.readouterr().out


def test_examples_that_mark_other_words_are_not_the_same(file):
    texts = {"sentence1": "The bank by the bank.", "sentence2": "A bank.", "start2": 2, "end2": 6}
    marked = [{"start1": 4, "end1": 8, "label": "a"}, {"start1": 16, "end1": 20, "label": "b"}]
    path = file("a.jsonl", "".join(json.dumps(texts | own) + "\n" for own in (*marked, marked[0])))
    (report,) = report_files([Path(path)], task="pair")
    assert (report.num_sentences, report.num_repeated, report.contradictions) == (3, 1, [])


def test_each_file_is_read_once(file, monkeypatch):
    read = []
    monkeypatch.setattr(
        "boustro.tasks.data.load_data", lambda path, options: read.append(path) or load_data(path, options)
    )
    report_files([file("a", TRAIN), file("b", DEV)])
    assert read == ["a", "b"]


def test_plain_labels_can_be_fitted_but_not_compared_with_entities(file, capsys, tmp_path):
    name = file("a.conllu", "1\tEnd\tend\tNOUN\t_\t_\t0\troot\t_\t_\n")
    data = ["--train", name, "--dev", name, "--out", str(tmp_path / "out")]
    assert main(["compare", "--encoders", "starter", *data[:1], file("b", TRAIN), *data[2:]]) == 1
    assert "'NOUN' marks no entity, and entities are compared" in capsys.readouterr().err
    assert main(["fit", *data, "--encoder", "starter", "--epochs", "1"]) == 0
    assert "accuracy 100.00" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "out"), name, "--json", "-"]) == 0
    assert '"accuracy": 100.0' in capsys.readouterr().out


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [  # sentences, words, entities (or words with a label)
        ("ner/conll2003/dev.txt", [], (3250, 51362, {"LOC": 1837, "MISC": 922, "ORG": 1341, "PER": 1842})),
        ("ner/wnut17/dev.txt", [], (1009, 15733, {"corporation": 34, "person": 470})),
        ("ner/conll2003/dev.txt", ["--tag-column", "2"], (3250, 51362, {"VP": 4696})),
        ("pos/en_ewt-ud-dev.conllu", [], (2001, 25147, {"NOUN": 4210, "X": 59})),
        ("pos/en_ewt-ud-dev.conllu", ["--tag-column", "feats:Number"], (2001, 25147, {"Plur": 1780, "Sing": 7821})),
    ],
)
def test_real_data_is_read_whole(name, options, expected, shared_data, capsys):
    assert main(["check", str(shared_data / name), *options, "--json", "-"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    sentences, words, counts = expected
    assert (report["num_sentences"], report["num_words"]) == (sentences, words)
    assert counts.items() <= report["counts"].items()


def jsonl(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def test_texts_are_counted_by_label_and_searched_for_leakage(file, capsys):
    train = jsonl(
        {"text": "A good boat.", "label": "up"},
        {"text": "A good boat.", "label": "down"},
        {"text": "", "label": "up"},
        {"text": "A bad boat.", "label": "down"},
    )
    dev = jsonl({"text": "A bad boat.", "label": "down"}, {"text": "Rain.", "label": "rain"})
    assert main(["check", file("train.jsonl", train), file("dev.jsonl", dev)]) == 0
    assert capsys.readouterr().out == (
        "train.jsonl: 4 texts, 12 words\n"
        "  down               2 texts\n"
        "  up                 2 texts\n"
        "  1 text without a word\n"
        "    train.jsonl:3: a text without a word\n"
        "  1 text with different labels elsewhere\n"
        "    train.jsonl:2: labelled differently at train.jsonl:1\n"
        "  1 text occurs more than once\n"
        "  in this file only: up\n"
        "dev.jsonl: 2 texts, 6 words\n"
        "  down               1 text\n"
        "  rain               1 text\n"
        "  0 texts occur more than once\n"
        "  1 text is also in train.jsonl\n"
        "  in this file only: rain\n"
    )


def test_pairs_and_scores_are_checked(file, capsys):
    pair = {"sentence1": "It rained.", "sentence2": "Rain fell."}
    train = jsonl(pair | {"score": 4.5}, {"sentence1": "Ada left.", "sentence2": "It rained.", "score": 1})
    dev = jsonl(pair | {"score": 3}, {"sentence1": "It snowed.", "sentence2": "Ada left.", "score": 0})
    assert main(["check", file("train.jsonl", train), file("dev.jsonl", dev), "--json", "r.json"]) == 0
    out = capsys.readouterr().out
    assert "train.jsonl: 2 pairs, 12 words\n  scores: lowest 1, mean 2.75, highest 4.5\n" in out
    assert "dev.jsonl:1: labelled differently at train.jsonl:1" in out and "1 pair is also in train.jsonl" in out
    assert "2 pairs share a text with train.jsonl" in out
    assert [report["task"] for report in json.loads(Path("r.json").read_text("utf-8"))] == ["similarity"] * 2


def test_answers_that_are_not_at_their_offset_are_counted(file, capsys):
    context = "Ada Brandt sold the harbour in May."
    right = {"context": context, "question": "Who?", "answers": [{"text": "Ada Brandt", "start": 0}]}
    moved = {"context": context, "question": "When?", "answers": [{"text": "May", "start": 30}]}
    many = [right | {"question": f"Who sold boat {n}?"} for n in range(30)]
    assert main(["check", file("qa.jsonl", jsonl(*many, moved, right | {"answers": []}))]) == 0
    out = capsys.readouterr().out
    assert "qa.jsonl: 32 questions" in out and "with an answer      31 questions" in out
    assert "1 answer that does not stand at its offset" in out and "without an answer" in out


FORGOTTEN = (
    "Please O\ncall O\nNina B-PER\nOkafor I-PER\n. O\n\nTom O\nReyes O\nmoved O\nto O\nBerlin B-LOC\n. O\n\n"
    "My O\norder O\nis O\nlate O\n. O\n"
)


def test_names_that_look_forgotten_are_listed_where_they_are_asked_for(file, capsys):
    assert main(["check", file("train", FORGOTTEN)]) == 0
    assert "forgotten" not in capsys.readouterr().out
    assert main(["check", "train", "--forgotten"]) == 0
    place = "    train:7: 'Tom Reyes' has no label, and is like 'Nina Okafor', PER\n"
    assert f"  1 name that may be forgotten\n{place}" in capsys.readouterr().out
    assert main(["check", file("words", "Ada NOUN\nleft VERB\n"), "--scheme", "labels", "--forgotten"]) == 1
    assert "remove --forgotten" in capsys.readouterr().out


def test_texts_without_a_label_are_counted_beside_the_others(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("text,label\nHi you,a\nNo,\n")
    assert main(["check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1 text, 2 words" in out and f"score counts\n    {path}:3: no label\n" in out
