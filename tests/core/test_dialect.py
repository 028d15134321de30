"""CSV and TSV files: which separator, whether quotes are letters, which columns; nothing is taken in silence."""

import json

import pandas as pd
import pytest

from boustro import Classifier, PairClassifier, TextRegressor
from boustro.options import OptionError
from boustro.tasks import read_counted
from boustro.tasks.data import load_data
from boustro.tasks.data.annotations import ADDRESSES
from boustro.tasks.data.reading import DataOptions, named_columns
from boustro.tasks.data.texts import PADDED_LABELS, read_texts
from boustro.tasks.pairs import PAIRS
from boustro.tasks.tagger import Tagger
from boustro.text import separated as dialect
from boustro.text.documents import read_documents
from boustro.text.files import DataFile
from labelled import table


def test_a_quote_between_tabs_is_a_letter(file):
    path = file("a.tsv", 'text\tlabel\n"Best place\tgood\nx\tbad\n\n"great" he said\tgood\n"no"\tbad\n')
    rows = [('"Best place', "good"), ("x", "bad"), ('"great" he said', "good"), ('"no"', "bad")]
    assert table(path) == (rows, [2, 3, 5, 6], [(dialect.LITERAL, n) for n in (2, 5, 6)])


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ('text\tlabel\n"a ""b"" c"\tx\nd\ty\n', ['a "b" c', "d"]),  # doubled quotes
        ('text\tlabel\n"a\tb"\tx\nd\ty\n', ["a\tb", "d"]),  # a separator in a cell
        ('text\tlabel\n"a\nb"\tx\nd\ty\n', ["a\nb", "d"]),  # a line break in a cell
        ('"text"\t"label"\n"a"\t"x"\n"d"\t3\n', ["a", "d"]),  # all but numbers
    ],
)
def test_a_file_that_shows_its_quotes_is_read_without_them(content, texts, file):
    rows, _, notes = table(file("a.tsv", content))
    assert [text for text, _ in rows] == texts and {what for what, _ in notes} == {dialect.QUOTED}


@pytest.mark.parametrize(
    "content",
    [
        'text\tlabel\n"a\tx\nb\ty\nc"\tx\n',  # two letters, far apart, that would hide a row
        'text\tlabel\n"a"\tx\nb\ty\n',
        'text\tlabel\n"a ""b"" c"\tx\n"d\ty\n',
        'text\tlabel\n""\tx\n"""\ty\n',
    ],
)
def test_what_does_not_show_its_quotes_keeps_them(content, file):
    rows, _, notes = table(file("a.tsv", content))
    assert [f"{text}\t{label}" for text, label in rows] == content.splitlines()[1:]
    assert {what for what, _ in notes} == {dialect.LITERAL}


def test_cells_of_csv_are_quoted_as_rfc_4180_says(file):
    path = file("a.csv", 'text,label\r\n"a, ""b""",x\r\n5" pipe,y\r\n"two\r\nlines",x\r\n,y\r\n')
    rows = [('a, "b"', "x"), ('5" pipe', "y"), ("two\r\nlines", "x"), ("", "y")]
    assert table(path) == (rows, [2, 3, 4, 5], [])  # as a spreadsheet counts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('text,label\nx,bad\n"Best place,good\ny,bad\n', r"a\.csv:3: this line opens a quote that is never closed"),
        ('text,label\n"great" he said,good\n', r"a\.csv:2: a quoted cell goes on after its closing quote;"),
        ('text,label\n"a,x\nb,y\n"c" d,x\n', r"a\.csv:2: a quoted cell goes on after its closing quote \(line 4\)"),
        ("text,label\nHello, you,x\n", r"a\.csv:2: more cells than columns \(text, label\); quote a cell with commas"),
        ("text,label,text\na,b,c\n", r"a\.csv:1: several columns are named 'text'"),
        ("a,b,c,c,a,b\n", r"a\.csv:1: several columns are named 'a', 'b', 'c'"),
    ],
)
def test_what_is_no_table_is_named_with_the_line_where_it_begins(content, message, file):
    with pytest.raises(ValueError, match=message):
        read_texts(file("a.csv", content))


def test_a_quote_that_may_hide_rows_is_noted(file):
    """Where each line of the row has as many cells as there are columns."""
    assert table(file("a.csv", 'text,label\n"a,x\nb,y\nc",x\n'))[2] == [(dialect.SPANNING, 2)]
    for prose in ('"a\nb\nc",x', '"Hi, Ada\nI left\nBye",x', 'x,"Hi,\n\nI left, too\nBye"'):
        assert table(file("a.csv", f"text,label\n{prose}\n"))[2] == []
    notes: list = []
    assert len([*DataFile(file("a.csv", 'text\n"a\nb\nc"\n')).open(notes=notes)]) == 1 and not notes


def test_the_head_is_read_as_rows_are(file):
    path = file("a.csv", 'id;"message, as ""sent"""\n1;"Hi, there"\n')
    assert (data := DataFile(path)).columns() == ["id", 'message, as "sent"'] == [*next(data.open().rows())[1]]
    (text,) = read_texts(file("b.csv", 'id,"a, b",topic\n1,"Hi, there",x\n'), options=named_columns("a, b", "topic"))
    assert text.words[:2] == ("Hi", ",") and text.label == "x"
    assert list(read_documents([str(path)], text_key='message, as "sent"')) == ["Hi, there"]


def test_labels_in_a_cell_are_a_list(file):
    path = file("a.csv", 'text,label\nHi,"[""Food, drink"", ""late""]"\nHo,[]\nHu,"[a, b]"\n')
    texts = read_texts(path)
    assert [text.labels or text.label for text in texts] == [("Food, drink", "late"), None, "[a, b]"]
    written = pd.DataFrame({"text": ["Hi", "Ho"], "label": [["Food, drink", "it's"], [1, 2]]}).to_csv(index=False)
    first, second = read_texts(file("b.csv", written))
    assert first.labels == ("Food, drink", "it's") and [label.value for label in second.labels] == [1, 2]


@pytest.mark.parametrize(
    ("name", "separator", "word"),
    [("a.csv", ";", "semicolons"), ("a.csv", "\t", "tabs"), ("a.tsv", ",", "commas"), ("a.csv", "|", "bars")],
)
def test_another_separator_is_found_and_said(name, separator, word, file):
    path = file(name, f"text{separator}label\nHi there{separator}x\n")
    assert table(path) == ([("Hi there", "x")], [2], [(f"rows with {word} between their cells", 2)])
    _, counts = read_counted(Classifier, path, DataOptions())
    assert counts == {f"rows with {word} between their cells": 1}


@pytest.mark.parametrize("mark", [";", ",", "\t", "^"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_first_line_of_excel_says_the_separator(mark, quote, file):
    path = file("a.csv", f'{quote}sep={mark}{quote}\ntext{mark}label\n"Hi;\nthere"{mark}x\nNo{mark}y\n')
    assert table(path)[:2] == ([("Hi;\nthere", "x"), ("No", "y")], [2, 3])
    assert list(read_documents([str(path)])) == ["Hi;\nthere", "No"]
    path.write_text(f"sep={mark}\ntext{mark}label\na{mark}b{mark}c\n", "utf-8")
    for read in (read_texts, lambda path: list(read_documents([str(path)]))):
        with pytest.raises(ValueError, match=r"a\.csv:2: more cells than columns .* \(line 3 of the file\)"):
            read(path)
    columns = load_data(file("b.csv", f"sep={mark}\nAda{mark}B-PER\nleft{mark}O\n"))
    assert [(s.words, s.tags) for s in columns.sentences] == [(("Ada", "left"), ("B-PER", "O"))]


def test_the_delimiter_option_decides(file):
    path = file("a.csv", "text;label,x\na,b;c\n")
    rows = [row for _, row in DataFile(path).open(None, "semicolon", []).rows()]
    assert rows == [{"text": "a,b", "label,x": "c"}]
    with pytest.raises(ValueError, match="--delimiter is empty"):
        read_texts(path, options=DataOptions(delimiter=""))


def test_a_cell_of_any_length_is_read(file):
    long = 'He said ""no"", ' * 20_000
    (text,) = read_texts(file("a.csv", f'text,label\n"{long}",x\n'))
    assert len(text) == 6 * 20_000 and len(long) > 131_072


# Columns


def test_a_tagger_reads_a_named_column_of_texts(file):
    rows = [{"message": "Ada left.", "entities": [[0, 3, "PER"]], "id": 7}]
    file("a.jsonl", json.dumps(rows[0]) + "\n")
    for data in (pd.DataFrame(rows), rows, file("a.jsonl", json.dumps(rows[0]) + "\n")):
        assert [s.tags for s in Tagger.read(data, text_column="message")] == [("B-PER", "O", "O")]
    with pytest.raises(ValueError, match="the given table has no column 'mesage'; found: message, entities, id"):
        Tagger.read(pd.DataFrame(rows), text_column="mesage")


def test_named_columns_are_read_in_every_form(file):
    rows = [{"message": "Ada left.", "topic": "news", "text": "7"}, {"message": "It rained.", "topic": "weather"}]
    frame = pd.DataFrame(rows).fillna("8")
    frame.to_csv(file("a.csv", ""), index=False)
    frame.to_json(file("a.jsonl", ""), orient="records", lines=True)
    for data in (file("b.tsv", frame.to_csv(index=False, sep="\t")), frame, frame.to_dict("records")):
        found = Classifier.read(data, text_column="message", label_column="topic")
        assert [(s.words, s.label) for s in found] == [
            (("Ada", "left", "."), "news"),
            (("It", "rained", "."), "weather"),
        ]
    for name in ("a.csv", "a.jsonl"):
        path = file("b.tsv", "").with_name(name)
        texts, counts = read_counted(Classifier, path, named_columns("message", "topic"))
        assert [t.label for t in texts] == ["news", "weather"] and not counts


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_an_empty_cell_is_an_empty_text_in_every_table(file, ending):
    path = file(f"a.{ending}", "")
    frame = pd.DataFrame({"message": ["Ada left.", None], "topic": ["news", "weather"], "other": ["a", "b"]})
    written = {"csv": frame.to_csv, "xlsx": frame.to_excel, "parquet": frame.to_parquet}
    written[ending](path, index=False)
    texts, counts = read_counted(Classifier, path, named_columns("message", "topic"))
    assert [(len(t), t.label) for t in texts] == [(3, "news"), (0, "weather")]
    assert counts["texts without a word"] == 1
    pairs = PairClassifier.read(path, ("message", "other"), "topic")
    assert [len(part) for pair in pairs for part in pair.parts] == [3, 1, 0, 1]
    frame.assign(topic=["news", None]).to_csv(path.with_suffix(".csv"), index=False)
    with pytest.raises(ValueError, match=r"a.csv:3: .*expected a name or a number; label it, or remove it"):
        Classifier.read(path.with_suffix(".csv"), "message", "topic")


def test_the_columns_of_pairs_and_of_scores_are_named_too(file):
    path = file("a.csv", "left,right,how\nIt rained.,Rain fell.,4.5\n")
    (pair,) = PAIRS["similarity"].read(path, options=named_columns(("left", "right"), "how"))
    assert pair.texts == ("It rained.", "Rain fell.") and pair.score == 4.5
    assert PairClassifier.read(path, ("left", "right"), "how")[0].label == "4.5"
    assert TextRegressor.read(path, "left", "how")[0].score == 4.5
    with pytest.raises(OptionError, match="--text-column names 1 columns; this task reads 2"):
        PairClassifier.read(path, "left", "how")


def test_a_table_with_other_names_says_which_it_has(file):
    path = file("a.csv", "message;topic\nhi;news\n")
    with pytest.raises(
        ValueError, match=r"a\.csv:2: no text under text or sentence and no label .*\(found: message, topic\); name the"
    ):
        read_texts(path)
    with pytest.raises(ValueError, match=r"a\.csv:2: no label under label or labels \(found: message, topic\); name"):
        read_texts(path, options=named_columns("message"))
    with pytest.raises(
        ValueError, match=r"a\.csv:2: no column 'mesage'; did you mean 'message'\? \(found: message, topic\)"
    ):
        read_texts(path, options=named_columns("mesage", "topic"))
    for name in ("a.csv", "b.tsv"):
        with pytest.raises(
            ValueError, match=r"columns message, topic, and no words .* --text-column message --label-column"
        ):
            load_data(file(name, "message;topic\nhi;news\n".replace(";", ";" if name == "a.csv" else "\t")))
    with pytest.raises(ValueError, match=r"c\.tsv:4: expected a word and a tag, got 'Eve'$"):  # CoNLL columns
        load_data(file("c.tsv", "Ada\tB-PER\n\nleft\tO\nEve\n"))


def test_the_options_belong_to_texts(file):
    with pytest.raises(OptionError, match="--text-column and --label-column are for labelled texts and pairs"):
        load_data(file("a.conll", "Ada B-PER\n"), named_columns("a"))
    with pytest.raises(OptionError, match="--scheme, --word-column and --tag-column are for tags; remove them"):
        read_counted(Classifier, file("a.csv", "text,label\na,b\n"), DataOptions(tag_column="b"))


def test_addresses_and_padded_labels_are_noted(file):
    path = file("a.csv", "text,label\nhttps://example.org/a.txt,x\nsee https://example.org,x \n")
    texts, counts = read_counted(Classifier, path, DataOptions())
    assert [text.label for text in texts] == ["x", "x"] and counts == {ADDRESSES: 1, PADDED_LABELS: 1}
    region = {"from_name": "a", "type": "labels", "value": {"start": 0, "end": 5, "labels": ["X"]}}
    task = {"data": {"text": "s3://bucket/a.txt"}, "annotations": [{"result": [region]}]}
    for records in ([task], [{"text": "s3://bucket/a.txt", "entities": []}]):
        assert load_data(records).counts()[ADDRESSES] == 1


@pytest.mark.parametrize(
    ("name", "broken", "message"),
    [
        ("a.csv", b'7,"Ada left', "2001: this line opens a quote that is never closed"),
        ("a.csv", b'7,"Ada left" too', "2001: a quoted cell goes on after its closing quote"),
        ("a.csv", b"7,Ada \xff\xe4\x81", "2001: byte 0xff is not UTF-8"),
        ("a.tsv", b"7,Ada \xff\xe4\x81", "2001: byte 0xff is not UTF-8"),
    ],
)
def test_a_row_that_cannot_be_read_costs_no_other(file, name, broken, message):
    separator = b"," if name == "a.csv" else b"\t"
    lines = [b"id,text", *(b'%d,"So ""it"" is."' % n for n in range(1999)), broken, *(b"%d,Bo." % n for n in range(5))]
    path = file(name, b"\n".join(lines).replace(b",", separator))
    items = [*DataFile(path).open(notes=[]).items()]
    assert [item.place for item in items if item.problem] == [f"{path}:2001"] and len(items) == 2005
    assert message in items[1999].problem and items[-1].value["text"] == "Bo."
    with pytest.raises(ValueError, match=message):
        [*DataFile(path).open(notes=[]).rows()]


@pytest.mark.parametrize(
    ("broken", "rest"),
    [
        ('1,"Anna said "no"\nto Bo Lind",x\n', ("3: too few cells behind line 2",)),
        ('1,"Anna said "no\nand left"\nBo Lind,x\n', ("3: too few cells", "4: too few cells")),
    ],
)
def test_what_is_left_of_a_row_with_wrong_quotes_is_no_row(file, broken, rest):
    path = file("a.csv", f"id,text,label\n{broken}2,Eva left,y\n3,Max\n")
    items = [*DataFile(path).open(notes=[]).items()]
    problems = [item.problem for item in items if item.problem]
    assert "a quoted cell goes on" in problems[0] and len(problems) == len(rest) + 1
    assert all(message in problem for message, problem in zip(rest, problems[1:], strict=True))
    assert [item.value["text"] for item in items if not item.problem] == ["Eva left", "Max"]
