"""The accounting of every reader closes: rows in = examples out + counted notes, with equal texts, labels and offsets.

Random files are read by ours and by an independent reader: csv, pandas, json, or a few lines below.
"""

import csv
import gzip
import io
import json
from collections import Counter, defaultdict
from pathlib import Path

import pandas
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from annotated import choice, record, region, span, task
from boustro import Classifier
from boustro.tasks import TASKS, read_counted
from boustro.tasks.data import annotations, load_data, reading, records
from boustro.tasks.data.reading import NOT_READ, DataOptions
from boustro.tasks.data.schemes import gold_entities
from boustro.tasks.data.units import CODECS, CONVERTED, TRIMMED, UNCLEAR
from boustro.tasks.embed.data import read_texts_in_order, read_vectors
from boustro.text import separated as dialect
from boustro.text.documents import read_documents
from boustro.text.files import KEYS, DataFile
from boustro.text.words import split_text
from labelled import RECORDS

LEFT_OUT = {annotations.UNANNOTATED, annotations.LABELLESS, reading.REJECTED, records.WORDLESS_RECORDS}
"""Notes of which each stands for a record that is no example."""


def words_of(text: str) -> tuple[str, ...]:
    return tuple(word for part in split_text(text) for word in part.sentence.words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("close")


# Tables

ends = st.sampled_from(["\n", "\r\n"])
marks = st.sampled_from([b"", b"\xef\xbb\xbf"])
pieces = st.sampled_from(['"', '""', ",", ";", "|", "Ada", "left", " ", "🚒", "é", "'", "0", "https://a.b/c", "<b>"])
plain = st.lists(pieces, max_size=5).map("".join)
broken = st.lists(pieces | st.just("\n"), max_size=5).map("".join)
tabbed = st.lists(pieces | st.just("\t"), max_size=5).map("".join)
labels = st.sampled_from(["x", "y z", " x", "7", '"q" z', "🚒"])
QUOTED = {
    "commas": ("a.csv", {"delimiter": ","}),
    "semicolons": ("a.csv", {"delimiter": ";"}),
    "bars": ("a.csv", {"delimiter": "|"}),
    "all quoted": ("a.csv", {"delimiter": ",", "quoting": csv.QUOTE_ALL}),
    "tabs": ("a.tsv", {"delimiter": "\t"}),
    "tabs, all quoted": ("a.tsv", {"delimiter": "\t", "quoting": csv.QUOTE_ALL}),
}


def read_both(path: Path, rows: list[list[str]]) -> Counter[str]:
    """Our reading of a file, compared with its rows as (text, label); the notes."""
    texts, counts = read_counted(Classifier, path, DataOptions())
    assert [(t.words, t.label) for t in texts] == [(words_of(text), label.strip()) for text, label in rows]
    assert len(texts) + sum(counts.get(what, 0) for what in LEFT_OUT) == len(rows)
    return Counter(counts)


@pytest.mark.parametrize("form", QUOTED)
@given(
    rows=st.lists(st.tuples(plain | broken | tabbed, labels), min_size=1, max_size=5),
    end=ends,
    mark=marks,
    declared=st.booleans(),
)
def test_tables_that_quote_their_cells(form, rows, end, mark, declared, folder):
    name, how = QUOTED[form]
    content = io.StringIO(f"sep={how['delimiter']}\n" * declared)
    content.seek(0, io.SEEK_END)
    csv.writer(content, lineterminator="\n", **how).writerows([("text", "label"), *rows])
    path = folder / name
    path.write_bytes(mark + content.getvalue().replace("\n", end).encode())
    with path.open(newline="", encoding="utf-8-sig") as file:
        head, *read = list(csv.reader(file, **how))[declared:]
    assert head == ["text", "label"]
    counts = read_both(path, [[cell.replace("\r\n", "\n") for cell in row] for row in read])
    assert counts[dialect.LITERAL] == 0
    if form in ("semicolons", "bars"):
        assert counts[f"rows with {form} between their cells"] == len(rows)
    how = {"sep": how["delimiter"], "dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
    found = pandas.read_csv(path, skiprows=int(declared), **how)
    assert len(found) == len(rows)


@given(rows=st.lists(st.tuples(plain, labels), min_size=1, max_size=5), end=ends, mark=marks)
def test_tables_without_quoting(rows, end, mark, folder):
    lines = ["text\tlabel", *("\t".join(row) for row in rows)]
    assume('"' not in "".join(cell[1:-1] for row in rows for cell in row if cell.startswith('"') and cell[-1:] == '"'))
    path = folder / "literal.tsv"
    path.write_bytes(mark + "".join(line + end for line in lines).encode())
    begun = sum(any(cell.startswith('"') for cell in row) for row in rows)
    assert read_both(path, [line.split("\t") for line in lines[1:]])[dialect.LITERAL] == begun


# Records


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "list.json"])
@given(rows=st.lists(st.tuples(broken, labels | st.integers(0, 3)), min_size=1, max_size=5), escaped=st.booleans())
def test_records_of_texts(name, rows, escaped, folder):
    made = [json.dumps({"text": text, "label": label, "id": 1}, ensure_ascii=escaped) for text, label in rows]
    path = folder / name
    path.write_text("[\n" + ",\n".join(made) + "\n]" if name == "list.json" else "\n\n".join(made) + "\n", "utf-8")
    content = path.read_text("utf-8")
    values = json.loads(content) if name == "list.json" else [json.loads(x) for x in content.splitlines() if x]
    read_both(path, [[value["text"], str(value["label"])] for value in values])


def written(rows, form):
    """Records as JSON lines, as an array on one line, or as one or as objects over several."""
    if form == "lines":
        return "\n".join(map(json.dumps, rows)) + "\n"
    if form == "objects":
        return "\n".join(json.dumps(row, indent=2) for row in rows)
    return json.dumps(rows, indent=None if form == "compact" else 2)


def items_of(path):
    return [item.value["text"] for item in DataFile(path).open(keys=KEYS).items() if item]


EVERY_READER = {
    "embed": lambda path: [*read_texts_in_order(path)],
    "embed, training": lambda path: [pair.texts[0] for pair in read_vectors(path)],
    "score": lambda path: [record["text"] for _, record in DataFile(path).open("json")],
    "corpora": lambda path: [*read_documents([str(path)])],
    "everything else": items_of,
}


@pytest.mark.parametrize("reader", EVERY_READER)
@given(
    rows=st.lists(st.tuples(broken.filter(words_of), labels), min_size=1, max_size=4),
    form=st.sampled_from(["lines", "compact", "indented", "objects"]),
    name=st.sampled_from(["a.json", "a.jsonl", "a.txt", "a", "a.JSON.gz"]),
)
def test_json_is_read_as_what_it_is_by_every_reader(reader, rows, form, name, folder):
    content = written([{"text": text, "label": label} for text, label in rows], form).encode()
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert EVERY_READER[reader](path) == [text for text, _ in rows]
    found, _ = read_counted(Classifier, path, DataOptions())
    assert [text.label for text in found] == [label.strip() for _, label in rows]


@pytest.mark.parametrize("reader", EVERY_READER)
@pytest.mark.parametrize("name", ["a.conll", "a.iob2.gz", "a.txt"])
def test_columns_of_words_are_no_texts(reader, name, folder):
    """Each line would be one, with its tag, whatever the name."""
    content = b"Ada B-PER\nleft O\n"
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(ValueError, match=r"words in columns|CoNLL columns|not a JSON"):
        EVERY_READER[reader](folder / name)


@given(text=st.sampled_from(["[\nAda left.", "{\n x", "[1] Ada", '["a"', '[{"a": 1}]', '{"body": "x"}', "{}\n{", "[]"]))
def test_text_that_only_looks_like_json_is_text(text, folder):
    path = folder / "looks.txt"
    path.write_text(text)
    assert [item.value for item in DataFile(path).open(keys=KEYS).items() if item and item.is_line] == text.split("\n")


FIELDS = ["relations", "spans", "topic", "score", "labels", "tags", "plausible_answers", "id", "meta", "source"]
READ_TOO = {"tag": {"spans", "labels", "tags"}, "classify": {"labels"}, "embed": {"score"}}


@pytest.mark.parametrize("task", RECORDS)
@given(made=st.lists(st.sets(st.sampled_from(FIELDS)), min_size=1, max_size=4))
def test_fields_that_a_task_leaves_are_counted_once(task, made, folder):
    """Rows with a field that is neither read nor about the record."""
    own: dict[str, object] = {name: name for name in FIELDS}
    own |= {"relations": [{"head": 0, "child": 1}], "score": 1, "meta": {"x": 1}, "id": 7, "tags": ["x"]}
    given = RECORDS[task][0]
    made = [names - READ_TOO.get(task, set()) - given.keys() for names in made]
    path = folder / "fields.jsonl"
    path.write_text("".join(json.dumps(given | {n: own[n] for n in names}) + "\n" for names in made))
    left = [names - {"id", "meta", "source"} for names in made]
    loaded = TASKS[task].read(path, DataOptions())
    counts = Counter(note.what for note in loaded.notes)
    found = {what: count for what, count in counts.items() if what.startswith(NOT_READ.format(""))}
    assert len(loaded.examples) == len(made) and list(found.values()) == [sum(map(bool, left))] * any(left)
    assert {name for what in found for name in what.partition(": ")[2].split(", ")} == set().union(*left)


def test_other_columns_of_tags_are_counted(folder):
    """Of CoNLL-2003's columns the chunks are tags, too; parts of speech are none."""
    (folder / "four.conll").write_text("Ada NNP B-NP B-PER\nleft VBD B-VP O\n\nRain NN B-NP O\n")
    assert load_data(folder / "four.conll").counts() == {NOT_READ.format("column 2"): 2}


# Columns

letters = st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\ufeff")
tokens = st.text(letters, min_size=1, max_size=4).filter(lambda w: w.strip() and not w.startswith("-DOCSTART-"))
tags = st.lists(st.tuples(tokens, st.sampled_from(["O", "B-PER", "B-LOC", "I"])), min_size=1, max_size=6)


def with_types(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """`I` continues what is before it."""
    fixed: list[tuple[str, str]] = []
    for word, tag in rows:
        before = fixed[-1][1] if fixed else "O"
        fixed.append((word, tag if tag != "I" else "O" if before == "O" else f"I{before[1:]}"))
    return fixed


@given(sentences=st.lists(tags.map(with_types), min_size=1, max_size=4), end=ends, mark=marks, opens=st.booleans())
def test_columns(sentences, end, mark, opens, folder):
    assume(not all(word.strip().isdecimal() for rows in sentences for word, _ in rows))  # these may number the lines
    blocks = ["".join(f"{word}\tx\t{tag}{end}" for word, tag in rows) for rows in sentences]
    path = folder / "a.conll"
    path.write_bytes(mark + (f"-DOCSTART-\t-X-\tO{end}{end}" * opens + end.join(blocks)).encode())
    expected: list[list[tuple[str, str]]] = [[]]
    for line in path.read_bytes().decode("utf-8-sig").split(end):
        if not line.strip() or line.startswith("-DOCSTART-"):
            expected.append([])
        else:
            word, _, tag = line.split("\t")
            expected[-1].append((word.strip(), tag))
    labelled = load_data(path, DataOptions(scheme="bio"))
    found = [list(zip(s.words, s.tags or (), strict=True)) for s in labelled.sentences]
    assert found == [rows for rows in expected if rows] and len(found) == len(sentences)


# Annotations over characters

names = st.sampled_from(["Ada", "é", "🚒", "🚀🦬", "日", "Lisse", "x"])
TOOLS = ["our own", "doccano", "prodigy", "labelstudio", "argilla"]


@st.composite
def annotated(draw):
    """(text, entities over its characters, whether it is left out) records; entities may overlap.

    No word is in a text twice, where it could stand at the same place in another unit.
    """
    made = []
    for _ in range(draw(st.integers(1, 4))):
        own = draw(st.lists(names, min_size=1, max_size=6, unique=True))
        places = [(len(" ".join(own[:n])) + bool(n), len(" ".join(own[: n + 1]))) for n in range(len(own))]
        ranges = st.tuples(st.sampled_from(places), st.sampled_from(places), st.sampled_from(["PER", "LOC"]))
        drawn = draw(st.lists(ranges, max_size=4))
        entities = sorted({(min(a[0], b[0]), max(a[1], b[1]), label) for a, b, label in drawn})
        made.append((" ".join(own), entities, draw(st.sampled_from([False, False, True]))))
    return made


def write_record(tool: str, text: str, entities: list[tuple[int, int, str]], left_out: bool, shift) -> dict:
    moved = [(shift(text, start), shift(text, end), label) for start, end, label in entities]
    if tool == "labelstudio":
        own = [text[start:end] for start, end, _ in entities]
        regions = [region(*entity, text, own=part) for entity, part in zip(moved, own, strict=True)]
        return task(*regions, text=text, **({"annotations": []} if left_out else {}))
    if tool == "argilla":
        return record(text) if left_out else record(text, ner=[span(*entity) for entity in moved])
    if tool == "prodigy":
        spans = [span(*entity) for entity in moved]
        return {"text": text, "spans": spans, "answer": "reject" if left_out else "accept"}
    return {"text": text, "label" if tool == "doccano" else "entities": [list(entity) for entity in moved]}


def in_unit(unit: str):
    codec, width = CODECS[unit]
    return lambda text, place: len(text[:place].encode(codec)) // width


@pytest.mark.parametrize(("tool", "unit"), [(t, u) for t in TOOLS for u in CODECS if (t, u) != ("argilla", "bytes")])
@given(made=annotated(), escaped=st.booleans())
def test_annotated_texts(tool, unit, made, escaped, folder):
    if tool in ("our own", "doccano"):
        made = [(text, entities, False) for text, entities, _ in made]
    assume(any(entities and not left_out for _, entities, left_out in made))
    path = folder / f"{tool} {unit}.jsonl"
    written = [write_record(tool, *own, in_unit(unit)) for own in made]
    path.write_text("".join(json.dumps(own, ensure_ascii=escaped) + "\n" for own in written), "utf-8")
    labelled = load_data(path)
    counts = labelled.counts()
    assume(not counts[UNCLEAR])
    found = defaultdict(list)
    for sentence in labelled.sentences:
        found[sentence.where] += [(e.label, sentence.words[e.start : e.end]) for e in gold_entities(sentence)]
    expected = {
        f"{path}:{number}": sorted({(label, words_of(text[a:b]), a) for a, b, label in entities}, key=lambda e: e[2])
        for number, (text, entities, left_out) in enumerate(made, start=1)
        if not left_out
    }
    assert {where: sorted(own) for where, own in found.items()} == {
        where: sorted((label, words) for label, words, _ in own) for where, own in expected.items()
    }
    assert len(found) + sum(counts[what] for what in LEFT_OUT) == len(made)
    kept = [in_unit(unit)(text, b) != b for text, entities, left_out in made if not left_out for _, b, _ in entities]
    assert counts[CONVERTED.format(unit)] + counts[TRIMMED] == sum(kept)  # a space after a mark hides its unit


@given(answers=st.lists(st.sampled_from(["news", "sport", None]), min_size=1, max_size=6), tool=st.sampled_from(TOOLS))
def test_annotated_labels(answers, tool, folder):
    assume(tool in ("labelstudio", "argilla") and any(answers))
    path = folder / "labels.json"
    make = {
        "labelstudio": lambda own: task(*([choice(own)] if own else []), text="Ada left."),
        "argilla": lambda own: record("Ada left.", **({"topic": own} if own else {})),
    }[tool]
    path.write_text(json.dumps([make(own) for own in answers]), "utf-8")
    texts, counts = read_counted(Classifier, path, DataOptions())
    assert [text.label for text in texts] == [own for own in answers if own]
    assert len(texts) + sum(counts.get(what, 0) for what in LEFT_OUT) == len(answers)
