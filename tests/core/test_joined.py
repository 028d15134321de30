"""Files that were joined with their byte order marks read as they do without: in every reader of lines."""

from dataclasses import asdict, is_dataclass
from itertools import cycle

import pytest

from boustro.tasks import Fields
from boustro.tasks.data import load_data
from boustro.tasks.data.named import RecordReader
from boustro.tasks.data.texts import read_texts
from boustro.tasks.embed.data import read_texts_in_order
from boustro.tasks.questions.data import read_questions
from boustro.tasks.sense.data import read_keys
from boustro.tasks.sense.examples import read_wordnet
from boustro.text.documents import read_documents, read_lines
from boustro.text.files import DataFile
from boustro.text.tables import HEAD_AGAIN
from labelled import UD, rows

MARK = "\ufeff"
CONLL = ("-DOCSTART- O\n\nAda B-PER\nleft O\n\n", "-DOCSTART- O\n\nLisse B-LOC\nslept O\n")
TEXTS = ("Ada left.\n\nIt rained.\n", "Lisse slept.\n")
ENTITIES = tuple(rows({"text": f"{name} left.", "entities": [[0, 3, "PER"]]}) for name in ("Ada", "Eve"))
LABELLED = tuple(rows({"text": f"{name} left.", "label": "news"}) for name in ("Ada", "Eve"))
ASKED = tuple(rows({"context": "Ada left.", "question": f"{q}?", "answers": []}) for q in ("Who", "When"))
SENSES = ("bank%1:17:01:: 09213565 1 25\n", "bank%1:14:00:: 08420278 2 20\n")


def plain(found):
    return [asdict(item) if is_dataclass(item) and not isinstance(item, type) else item for item in found]


READERS = {
    "lines": ("a.txt", TEXTS, read_lines),
    "columns": ("a.conll", CONLL, lambda path: load_data(path).sentences),
    "columns with tabs": ("a", [part.replace(" ", "\t") for part in CONLL], lambda path: load_data(path).sentences),
    "CoNLL-U": ("a.conllu", (UD + "\n", UD), lambda path: load_data(path).sentences),
    "records": ("a.jsonl", ENTITIES, lambda path: load_data(path).sentences),
    "texts": ("a.jsonl", LABELLED, read_texts),
    "table": ("a.csv", ("text,label\nAda left.,news\n", "Eve left.,news\n"), read_texts),
    "table with tabs": ("a.tsv", ("text\tlabel\nAda left.\tnews\n", "Eve left.\tnews\n"), read_texts),
    "named": (
        "a.jsonl",
        LABELLED,
        RecordReader(what="pair", make=lambda record, where, notes: (record, where), fields=Fields()).read,
    ),
    "questions": ("a.jsonl", ASKED, read_questions),
    "documents": ("a.txt", TEXTS, lambda path: read_documents([str(path)])),
    "lines as documents": ("a.txt", TEXTS, lambda path: read_documents([str(path)], split="line")),
    "file as document": ("a.txt", TEXTS, lambda path: read_documents([str(path)], split="file")),
    "documents in records": ("a.jsonl", LABELLED, lambda path: read_documents([str(path)])),
    "values": ("a.jsonl", LABELLED, lambda path: DataFile(path).open("json")),
    "keys of senses": ("a.txt", ("d0 bank%1:17:01::\n", "d1 bank%1:14:00::\n"), lambda path: read_keys(path).items()),
    "inventory": ("index.sense", SENSES, lambda path: [read_wordnet(path).entries]),
    "texts to vectors": ("a.txt", TEXTS, read_texts_in_order),
}


@pytest.mark.parametrize(("reader", "marks"), zip(READERS, cycle([1, 2])))
def test_marks_between_joined_files_are_no_text(reader, marks, file):
    name, parts, read = READERS[reader]
    expected = plain(read(file(name, "".join(parts))))
    assert len(expected) > 0
    assert plain(read(file(name, "".join(MARK * marks + part for part in parts)))) == expected


@pytest.mark.parametrize(("name", "separator", "mark"), [("a.csv", ",", MARK), ("a.tsv", "\t", ""), ("a.csv", ";", "")])
def test_the_head_of_a_joined_table_is_no_row(name, separator, mark, file):
    parts = ["text,label\nAda left.,news\n", "text,label\nEve left.,sport\n"]
    path = file(name, "".join(mark + part for part in parts).replace(",", separator))
    notes: list = []
    assert [text.label for text in read_texts(path, notes=notes)] == ["news", "sport"]
    assert [str(note) for note in notes if note.what == HEAD_AGAIN] == [f"{path}:3: {HEAD_AGAIN}"]


def test_a_mark_in_a_column_of_its_own_is_a_word(file):
    (sentence,) = load_data(file("a.conll", f"Ada\tB-PER\n{MARK}\tO\nleft\tO\n")).sentences
    assert sentence.words == ("Ada", MARK, "left")
    assert list(read_documents([str(file("a.txt", f"one {MARK}two"))])) == [f"one {MARK}two"]
