"""Weak labels from gazetteers and from what was listed, and the command that writes and reads them."""

import json
import unicodedata
from pathlib import Path

import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.cli.weak import ABSENT, INSIDE_WORDS, SURPLUS, TAKEN, locate_entities
from boustro.errors import count_of
from boustro.tasks.data import load_data
from boustro.text.gazetteer import Gazetteer
from boustro.types import Entity

NAMES = [("Ada Brandt", "PER"), ("Ada", "PER"), ("Port Lisse", "LOC"), ("Port Lisse Bank", "ORG"), ("O'Neill", "PER")]


def found(entities):
    return [(e.label, e.text, e.start) for e in entities]


def test_the_longest_name_counts_over_whole_words_in_its_case():
    names = Gazetteer([*NAMES, ("Ada", "LOC")])
    text = "Ada Brandt left Port Lisse Bank. Adam and Ada met O'Neill in Port\nLisse, port lisse."
    longest = [("PER", "Ada Brandt", 0), ("ORG", "Port Lisse Bank", 16), ("PER", "Ada", 42), ("PER", "O'Neill", 50)]
    assert found(names.entities(text)) == longest
    assert names.repeated == 1 and len(names) == 5
    for ignore_case in (False, True):
        apart = Gazetteer([("Zoë Côté", "PER")], ignore_case).entities(unicodedata.normalize("NFD", "Zoë Côté left."))
        assert [(e.start, e.end) for e in apart] == [(0, 11)]
    any_case = Gazetteer(NAMES, ignore_case=True)
    written = found(any_case.entities("PORT LISSE and port lisse"))
    assert written == [("LOC", "PORT LISSE", 0), ("LOC", "port lisse", 15)]


@pytest.mark.parametrize(
    ("content", "message"),
    [("Ada PER\n", "names:1: expected a name"), ("Ada\tPER\n\t\n", "no names"), ("\n", "no names"), ("{}", "names:1:")],
)
def test_a_gazetteer_that_is_none_is_refused(content, message, tmp_path):
    (tmp_path / "names").write_text(content)
    if content.endswith("\t\n"):  # a line of white space is blank
        assert len(Gazetteer.read(tmp_path / "names")) == 1
        return
    with pytest.raises(ValueError, match=message):
        Gazetteer.read(tmp_path / "names")


def test_what_was_listed_is_located():
    text = "Ada met Ada Brandt and Adam. Ada left Lisse."
    once, counts = locate_entities(text, [{"text": "Ada", "label": "PER"}, {"text": "Ada Brandt", "label": "PER"}], "x")
    assert found(once) == [("PER", "Ada", 0), ("PER", "Ada Brandt", 8), ("PER", "Ada", 29)] and counts == {TAKEN: 1}
    listed = [{"text": "Lisse", "label": "LOC"}, {"text": "Lisse", "label": "ORG"}, {"text": "lisse", "label": "LOC"}]
    twice, counts = locate_entities(text, listed, "x")
    assert found(twice) == [("LOC", "Lisse", 38)] and counts == {ABSENT: 1, SURPLUS: 1}
    with pytest.raises(ValueError, match="x: a listed entity is"):
        locate_entities(text, [{"text": "Ada"}], "x")


STOPS = [
    ("He works at Graematter Inc.", "Graematter Inc", "Graematter Inc."),
    ("He works at Graematter Inc.", "Graematter Inc.", "Graematter Inc."),
    ("Graematter Inc. fell. It rained.", "Graematter Inc", "Graematter Inc."),
    ("He left the U.S.", "the U.S.", "the U.S."),
    ("He left the U.S.", "U.S", "U.S."),
    ("He left the U.S.A. It rained.", "U.S.A", "U.S.A."),
    ("Take Vitamin C. It helps.", "Vitamin C", "Vitamin C."),
    ("They met in Jan. 1990.", "Jan", "Jan."),
    ("Acme Ltda. Shares fell.", "Acme Ltda", "Acme Ltda"),
    ("Yahoo! Inc fell.", "Yahoo! Inc", "Yahoo! Inc"),
    ("Who? Me! fell.", "Who? Me!", "Who? Me!"),
    ("It is Acme Corp. Vellmar, he said.", "Corp. Vellmar", "Corp. Vellmar"),
    ("Banana na na", "na na", "na na"),
    ("Port  Lisse slept.", "Port Lisse", "Port  Lisse"),
]


@pytest.mark.parametrize(("text", "name", "expected"), STOPS)
def test_names_at_a_full_stop_and_across_the_end_of_a_sentence_are_found(text, name, expected):
    """Abbreviations, initials, months; what looks like the end of a sentence; a hit that overlaps part of a word."""
    named = Gazetteer([(name, "X")]).entities(text)
    listed, counts = locate_entities(text, [{"text": name, "label": "X"}], "x")
    assert found(named) == found(listed) == [("X", expected, text.rindex(expected))] and not counts
    entities = [{"start": e.start, "end": e.end, "label": e.label, "text": e.text} for e in listed]
    labelled = load_data([{"text": text, "entities": entities}])
    assert set(labelled.counts()) <= {"sentence breaks removed because an entity extends over them"}


@pytest.mark.parametrize(("name", "text"), [("No.", "No cat."), ("Inc.", "Inc fell."), ("Port Lisse", "Port\nLisse")])
def test_a_full_stop_of_the_name_must_be_in_the_text_and_a_line_ends_a_name(name, text):
    assert not Gazetteer([(name, "X")]).entities(text)


def test_of_names_that_differ_in_a_full_stop_the_one_of_the_text_counts():
    names = Gazetteer([("Inc", "A"), ("Inc.", "B")])
    assert [e.label for e in names.entities("Inc fell. Inc. fell.")] == ["A", "B"]


def test_names_that_cross_another_one_are_counted(tmp_path, capsys, monkeypatch):
    names = Gazetteer([("Port Lisse", "LOC"), ("Lisse Bank", "ORG"), ("Lisse", "LOC")])
    crossing: list[Entity] = []
    apart = found(names.entities("Port Lisse Bank of Lisse", crossing))
    assert apart == [("LOC", "Port Lisse", 0), ("LOC", "Lisse", 19)]
    assert found(crossing) == [("ORG", "Lisse Bank", 5)]
    monkeypatch.chdir(tmp_path)
    Path("names.tsv").write_text("Port Lisse\tLOC\nLisse Bank\tORG\n")
    Path("texts.txt").write_text("Port Lisse Bank fell.\n")
    assert main(["weak", "texts.txt", "--gazetteer", "names.tsv", "--out", "weak.jsonl"]) == 0
    assert "note: 1 name that begins inside another one and ends after it, left out" in capsys.readouterr().err


def test_what_is_said_of_listed_entities_that_were_left_out_is_true():
    """Absent, only inside words, listed more often than they stand there, and overlapping are counted apart."""
    text = "Adam met Port Lisse Bank and Ada Brandt. Lisse-based."
    for names, counts in (
        (["Eve"], {ABSENT: 1}),
        (["adam"], {ABSENT: 1}),
        (["dam", "based"], {INSIDE_WORDS: 2}),
        (["Adam", "Adam", "Adam"], {SURPLUS: 2}),
        (["Port Lisse", "Lisse Bank"], {TAKEN: 1}),
        (["Ada Brandt", "Ada", "Ada"], {TAKEN: 1, SURPLUS: 1}),
    ):
        listed, left_out = locate_entities(text, [{"text": name, "label": "X"} for name in names], "x")
        assert left_out == counts and all(e.text == text[e.start : e.end] for e in listed)


def test_the_command_writes_what_fit_reads(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("Ada Brandt left.\n\nIt rained.\nPort Lisse slept.\n")
    Path("names.tsv").write_text("".join(f"{name}\t{label}\n" for name, label in NAMES))
    assert main(["weak", "texts.txt", "--gazetteer", "names.tsv", "--out", "weak.jsonl"]) == 0
    shown = capsys.readouterr()
    assert not shown.out and "note: 1 text without a name" in shown.err and "3 texts, 1 LOC, 1 PER" in shown.err
    sentences = boustro.Tagger.read("weak.jsonl")
    assert sentences[0].tags == ("B-PER", "I-PER", "O", "O") and len(sentences) == 3
    answers = [{"text": "Ada left.", "entities": [{"text": "Ada", "label": "PER"}, {"text": "Eve", "label": "PER"}]}]
    Path("answers.jsonl").write_text("".join(json.dumps(a) + "\n" for a in answers))
    assert main(["weak", "answers.jsonl", "--out", "listed.jsonl"]) == 0
    assert f"note: {count_of(1, ABSENT)}" in capsys.readouterr().err
    (entity,) = json.loads(Path("listed.jsonl").read_text())["entities"]
    assert entity == {"start": 0, "end": 3, "label": "PER", "text": "Ada"}
    assert main(["weak", "texts.txt", "--out", "x.jsonl"]) == 1 and not Path("x.jsonl").exists()
    assert main(["weak", "texts.txt", "--gazetteer", "names.tsv", "--out", "answers.jsonl"]) == 1
    assert "answers.jsonl exists; give --overwrite" in capsys.readouterr().err
    assert json.loads(Path("answers.jsonl").read_text()) == answers[0]
    names = [{"text": name, "label": label} for name, label in NAMES]
    for number, form in enumerate([json.dumps(names, indent=2), json.dumps(names), *_lines_and_objects(names)]):
        Path(f"names.{number}").write_text(form)
        assert main(["weak", "texts.txt", "--gazetteer", f"names.{number}", "--out", "again.jsonl", "--overwrite"]) == 0
        assert Path("again.jsonl").read_text() == Path("weak.jsonl").read_text()
    Path("none.txt").write_text("It rained.\n")
    assert main(["weak", "none.txt", "--gazetteer", "names.tsv", "--out", "x.jsonl"]) == 1
    assert "no entity was found" in capsys.readouterr().err


def _lines_and_objects(rows):
    return ["\n".join(json.dumps(row, indent=indent) for row in rows) for indent in (None, 2)]


PEOPLE = ["Ada", "Mira", "Tobias", "Brandt", "Okonkwo", "Calloway", "Ines", "Elodie"]
GOLD = [([n, "left", "early"], ["B-PER", "O", "O"]) for n in PEOPLE[:3]]
GOLD += [(["nobody", "left", "early"], ["O"] * 3)] * 3
GOOD = [([n, verb, "."], ["B-PER", "O", "O"]) for n in PEOPLE for verb in ("slept", "left", "sang")] + GOLD[3:]


def test_the_option_of_fit(tiny_pair, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, data in (("gold", GOLD), ("silver", GOOD)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps({"words": w, "tags": t}) + "\n" for w, t in data))
    how = ["--encoder", tiny_pair, *"--hidden 8 --epochs 2 --no-cache --cross-validate 0 --out t".split()]
    assert main(["fit", "--train", "gold.jsonl", "--weak", "silver.jsonl", *how]) == 0
    assert "weight of the 27 weak sentences: " in capsys.readouterr().err
    assert main(["fit", "--train", "gold.jsonl", "--weak", "silver.jsonl", "--weak-weight", "2", *how]) == 2
    assert main(["fit", "--train", "gold.jsonl", "--weak", "absent.jsonl", *how, "--overwrite"]) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "name,type\nPort Lisse,LOC\n"),
        ("a.csv", "id;Type;Name;n\r\n1;LOC;Port Lisse;2\r\n\r\n2;LOC;Vellmar;\r\n"),
        ("a.tsv", "text\tlabel\nPort Lisse\tLOC\n"),
        ("a.tsv", "Port Lisse\tLOC\nLOC\tLOC\n"),
        ("a.tsv", "LOC\tLOC\nPort Lisse\tLOC\n"),
        ("a.jsonl", '{"name": "Port Lisse", "type": "LOC"}\n'),
        ("a.parquet", {"label": ["LOC"], "text": ["Port Lisse"]}),
        ("a.xlsx", {"Name": ["Port Lisse", " Vellmar"], "Label": ["LOC", "LOC"]}),
    ],
)
def test_a_gazetteer_may_be_a_table_with_columns(tmp_path, name, content):
    if isinstance(content, str):
        (tmp_path / name).write_text(content, newline="")
    else:
        frame = pytest.importorskip("pandas").DataFrame(content)
        (frame.to_excel if name == "a.xlsx" else frame.to_parquet)(tmp_path / name, index=False)
    names = Gazetteer.read(tmp_path / name)
    assert [e.text for e in names.entities("The type, the name, the label of Port Lisse.")] == ["Port Lisse"]
    (tmp_path / "b.csv").write_text("who,what\nPort Lisse,LOC\n")
    said = r"b.csv:1: expected a name and a label with a tab .* or columns text \(or name"
    with pytest.raises(ValueError, match=said):
        Gazetteer.read(tmp_path / "b.csv")


def test_a_gazetteer_and_texts_in_windows_1252_are_read_with_a_note(tmp_path, capsys):
    for name, content in (("names.tsv", "Müller\tPER\n"), ("texts.txt", "Herr Müller kommt.\n")):
        (tmp_path / name).write_bytes(content.encode("cp1252"))
    paths = [str(tmp_path / name) for name in ("texts.txt", "names.tsv", "out.jsonl")]
    assert main(["weak", paths[0], "--gazetteer", paths[1], "--out", paths[2]]) == 0
    assert capsys.readouterr().err.count("read as Windows-1252") == 2
    assert '"text": "Müller"' in (tmp_path / "out.jsonl").read_text("utf-8")


CHINESE = "艾达在利塞港工作。她坐7路Bus去上班！“今天下雨。”他说。"


def test_a_gazetteer_finds_names_inside_chinese_text():
    (found,) = Gazetteer([("利塞", "LOC"), ("利塞港", "LOC")]).entities(CHINESE)
    assert (found.text, found.start) == ("利塞港", 3)
