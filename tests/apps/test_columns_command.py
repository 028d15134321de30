"""Columns and dialects of tables at the command line: said, proposed, named, and kept in the folder."""

import json
import sys

import pandas as pd
import pytest

import boustro
from boustro.apps.cli.main import main


@pytest.fixture
def write(file):
    return file


def test_check_says_the_dialect_and_takes_the_columns(write, capsys):
    path = write("a.csv", "message;topic\nhi, you;news\nbye;news\n")
    words = ["check", str(path), "--text-column", "message", "--label-column", "topic"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "2 texts, 4 words" in shown and "2 rows with semicolons between their cells" in shown
    assert main(["check", str(path)]) == 1
    assert "message, topic" in capsys.readouterr().out


MESSAGES = "Nr;Nachricht;Kanal;Thema\n" + "".join(
    f"{n};Mein Paket Nummer {n} ist noch nicht angekommen;mail;{'Ware' if n % 2 else 'Konto'}\n" for n in range(8)
)


def test_names_of_columns_are_kept_in_the_folder(write, tmp_path, capsys):
    """`fit` is told the columns; `evaluate` and `predict` read them, and a file with the usual ones too."""
    file, folder = write("eigene datei.csv", MESSAGES), str(tmp_path / "m")
    usual = write("usual.jsonl", '{"text": "Mein Paket fehlt", "label": "Ware"}\n')
    named = ["--text-column", "Nachricht", "--label-column", "Thema"]
    how = ["--encoder", "starter-words", "--head", "ridge-pool", "--cross-validate", "0", "--no-cache"]
    assert main(["fit", "--train", str(file), *named, "--dev", str(usual), *how, "--out", folder]) == 0
    for data, rows in ((file, 8), (usual, 1)):
        assert main(["evaluate", folder, str(data)]) == 0
        capsys.readouterr()
        assert main(["predict", folder, str(data), "--format", "jsonl"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == rows
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(MESSAGES)
    assert main(["predict", folder, str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    assert len((tmp_path / "out" / "a.jsonl").read_text().splitlines()) == 8


def test_a_file_is_opened_to_be_looked_at_counted_and_answered(write, tagger_folder, tmp_path):
    """Whatever it is, and whatever the task: three times, and once more where its quotes or its end say what it is."""
    classifier, opened, watched = str(tmp_path / "m"), list[str](), set[str]()
    how = ["--encoder", "starter-words", "--head", "ridge-pool", "--cross-validate", "0", "--no-cache"]
    data = write("train.csv", "text,label\nAda left,go\nIt rained,rain\nBo left,go\nIt rains,rain\n")
    assert main(["fit", "--train", str(data), *how, "--out", classifier]) == 0
    sys.addaudithook(lambda event, how: opened.extend({str(how[0])} & watched) if event == "open" else None)
    table = "id,text\n1,Ada left.\n2,It rained.\n"
    contents = {"a.csv": table, "a.txt": "Ada left.\n" * 300, "a.jsonl": '{"text": "Ada left."}\n'}
    for name, content in {**contents, "a.tsv": table.replace(",", "\t"), "a": table}.items():
        watched.add(path := str(write(name, content)))
        for folder in (str(tagger_folder), classifier):
            opened.clear()
            assert main(["predict", folder, path, "--quiet"]) == 0
            assert 0 < len(opened) <= (3 if name in contents else 4), (name, folder)
    watched.clear()  # a hook stays to the end


@pytest.mark.parametrize("how", [[], ["--task", "classify"], ["--text-column", "Nachricht"]])
def test_columns_are_asked_for_at_once_with_a_proposal(write, capsys, how):
    assert main(["check", str(write("a.csv", MESSAGES)), *how]) == 1
    said = capsys.readouterr().out
    assert "--text-column Nachricht --label-column Thema" in said and "expected a word and a tag" not in said


def test_the_scheme_of_tags_is_kept_in_the_folder(write, tmp_path, capsys):
    """`fit --scheme io` is not told again: `evaluate`, Python and `predict` read such tags, and others as they are."""
    bare = write("bare.txt", "Ada PER\nleft O\nVellmar LOC\n\nBo PER\nslept O\n")
    only_names = write("names.txt", "Ada\tPER\nBo\tPER\n\nVellmar\tLOC\nLisse\tLOC\n")
    bio = write("bio.conll", "Ada B-PER\nleft O\n\nBo B-PER\nslept O\n")
    folder = str(tmp_path / "m")
    how = ["--encoder", "starter-words", "--head", "ridge", "--cross-validate", "0", "--no-cache"]
    assert main(["fit", "--train", str(bare), "--scheme", "io", "--dev", str(bio), *how, "--out", folder]) == 0
    for data, sentences in ((bare, 2), (only_names, 2), (bio, 2)):
        assert main(["evaluate", folder, str(data)]) == 0
        assert boustro.load(folder).evaluate(data).value >= 0
        capsys.readouterr()
        assert main(["predict", folder, str(data), "--format", "jsonl"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["words"] if "words" in row else row["text"] for row in rows] and len(rows) == sentences


@pytest.mark.parametrize(("ending", "number"), [("csv", 1), ("xlsx", 0), ("parquet", 1), ("csv", 0)])
def test_answers_have_the_columns_by_the_names_that_stand_in_the_file(tagger_folder, ending, number, tmp_path):
    """With white space around them, and without any row those of the answers too."""
    names, table = ["id", " pad ", "text"], tmp_path / f"a.{ending}"
    frame = pd.DataFrame([["7", "x", "Ada left Lisse."]], columns=names).astype(object)[:number]
    write = {"csv": frame.to_csv, "xlsx": frame.to_excel, "parquet": frame.to_parquet}[ending]
    write(table, index=False)
    for form in ("jsonl", "parquet", "arrow"):
        out = tmp_path / f"answers.{form}"
        assert main(["predict", str(tagger_folder), str(table), "--out", str(out), "--quiet"]) == 0
        if form == "jsonl":
            rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
            assert [[*row] for row in rows] == [[*names, "entities"]] * number
        else:
            read = pd.read_parquet if form == "parquet" else pd.read_feather
            assert [*read(out).columns] == [*names, "entities"] and len(read(out)) == number


@pytest.mark.parametrize("named", [[], ["--text-column", "Nachricht"]])
def test_answers_are_learned_beside_the_rest_of_their_table(write, tmp_path, capsys, named):
    """The column is of the table; the page's answers have their texts under a key of their own, and say its name."""
    table = write("a.csv", "id,Nachricht\n1,Ada left Vellmar. It rained.\n2,Nobody left.\n")
    shown = {} if named else {"text_column": "Nachricht"}
    answers = [{"text": "Ada left Vellmar.", "entities": [[0, 3, "PER"]], **shown}]
    file = write("labelled.jsonl", "".join(json.dumps(answer) + "\n" for answer in answers))
    words = ["fit", "--train", str(file), "--documents", str(table), "--encoder", "starter-memory", "--no-cache"]
    assert main([*words, *named, "--out", str(tmp_path / "ner")]) == 0
    assert "1 sentence of documents around them" in capsys.readouterr().err
    other = write("b.csv", "id,note\n1,Nobody left.\n")
    words[words.index(str(table))] = str(other)
    assert main([*words, *named, "--out", str(tmp_path / "other")]) == 1
    assert "name it with --text-column note" in capsys.readouterr().err


def test_the_column_of_documents_is_renamed_where_the_option_names_that_of_the_training_set(write, tmp_path, capsys):
    train = write("a.csv", "texte,label\nLe train part,a\nLa gare dort,a\nIl paie tout,b\nElle a paye,b\n")
    other = write("b.csv", "id,note\n1,Le bus part\n")
    words = ["fit", "--train", str(train), "--text-column", "texte", "--documents", str(other)]
    assert main([*words, "--encoder", "starter-memory", "--no-cache", "--out", str(tmp_path / "x")]) == 1
    assert "b.csv:2: no text under the key 'text' (found: id, note); rename that of the texts to text" in (
        capsys.readouterr().err
    )
