"""One function for every form of labelled data: files by name or content, data sets of the hub, frames and lists."""

import bz2
import gzip
import lzma
import os
from itertools import cycle
from pathlib import Path

import datasets
import pandas
import pytest

from boustro.tasks.data import load_data, read_data
from boustro.tasks.data.reading import REPAIRED, DataOptions
from boustro.tasks.data.schemes import gold_entities
from boustro.text.files import KEYS, DataFile
from boustro.types import Sentence
from labelled import UD, rows, spans


def test_the_format_is_found_by_name_or_by_content(file):
    record = rows({"words": ["a"], "tags": ["O"]})
    assert len(read_data(file("a.JSONL.gz", gzip.compress(record.encode())))) == 1
    assert len(read_data(file("a.txt.bz2", bz2.compress(b"a O\n")))) == 1
    assert load_data(file("a.conll", UD)).sentences[0].words[:2] == ("We", "do")
    assert len(read_data(file("no-suffix", record))) == 1
    assert len(read_data(file("v.2.json.train.jsonl", record))) == 1
    assert len(read_data(file("a.jsonl.txt", "a O\n"))) == 1  # the last suffix counts
    assert [s.words for s in read_data(file("braces.txt", "{ O\n} O\n"))] == [("{", "}")]
    with pytest.raises(FileNotFoundError, match=r"braces\.tx: no such file; did you mean .*braces\.txt"):
        read_data(file("braces.txt", "").with_suffix(".tx"))
    with pytest.raises(ValueError, match="is a folder; for a data set saved there by `datasets` write hf:"):
        read_data(file("x", "").parent)


@pytest.fixture
def dataset():
    names = datasets.ClassLabel(names=["O", "B-PER", "I-PER"])
    features = datasets.Features(
        tokens=datasets.List(datasets.Value("string")),
        ner_tags=datasets.List(names),
        pos_tags=datasets.List(datasets.ClassLabel(names=["X", "Y"])),
    )
    return datasets.Dataset.from_dict(
        {"tokens": [["Ada", "Oak", "left"], ["So"]], "ner_tags": [[1, 2, 0], [0]], "pos_tags": [[0, 1, 0], [1]]},
        features=features,
    )


def test_numbers_of_a_data_set_become_names(dataset):
    labelled = load_data(dataset)
    assert [s.tags for s in labelled.sentences] == [("B-PER", "I-PER", "O"), ("O",)] and labelled.scheme == "bio"
    assert [s.where for s in labelled.sentences] == ["the given data set:1", "the given data set:2"]
    speech = load_data(dataset, DataOptions(tag_column="pos_tags"))
    assert speech.scheme == "labels" and speech.sentences[0].tags == ("X", "Y", "X")
    with pytest.raises(ValueError, match=r"the given data set:1: no labels under .*found: tokens, pos"):
        read_data(dataset.select_columns(["tokens", "pos_tags"]).rename_column("pos_tags", "pos"))
    with pytest.raises(ValueError, match="the given data set:1: tag 1 under 'ner_tags' is 1; tags must be names"):
        read_data(dataset.cast_column("ner_tags", datasets.List(datasets.Value("int64"))))
    with pytest.raises(ValueError, match="the given data set has several splits; give one of them"):
        read_data(datasets.DatasetDict(train=dataset))  # type: ignore[arg-type]


def test_entities_of_a_data_set_are_named_too():
    number = datasets.Value("int64")
    entity = {"start": number, "end": number, "label": datasets.ClassLabel(names=["PER"])}
    as_list = datasets.List(entity), [[{"start": 0, "end": 3, "label": 0}], []]
    as_dict = (
        datasets.Sequence(entity),
        [{"start": [0], "end": [3], "label": [0]}, {"start": [], "end": [], "label": []}],
    )
    for feature, entities in (as_list, as_dict):
        features = datasets.Features({"text": datasets.Value("string"), "entities": feature})
        found = datasets.Dataset.from_dict({"text": ["Ada left", "So"], "entities": entities}, features=features)
        assert [spans(s) for s in read_data(found)] == [[("PER", "Ada")], []]


def test_saved_data_sets_and_folders_of_files_are_read_by_name(dataset, tmp_path, file):
    datasets.DatasetDict(train=dataset, dev=dataset.select([0])).save_to_disk(tmp_path / "saved")
    assert len(read_data(f"hf:{tmp_path / 'saved'}:dev")) == 1
    assert read_data(f"hf:{tmp_path / 'saved'}:train")[1].where == f"hf:{tmp_path / 'saved'}:train:2"
    with pytest.raises(ValueError, match=r"name a split, such as hf:\S+:train \(there are train, dev\)"):
        read_data(f"hf:{tmp_path / 'saved'}")
    with pytest.raises(ValueError, match=r"no split 'test' \(there are train, dev\)"):
        read_data(f"hf:{tmp_path / 'saved'}:test")
    dataset.save_to_disk(tmp_path / "one")
    assert len(read_data(f"hf:{tmp_path / 'one'}")) == 2
    (tmp_path / "plain").mkdir()
    file("plain/train.jsonl", rows({"tokens": ["Ada"], "tags": ["B-PER"]}))
    assert spans(read_data(f"hf:{tmp_path / 'plain'}")[0]) == [("PER", "Ada")]
    with pytest.raises(FileNotFoundError, match="hf:nobody/nothing: no data set of this name could be read"):
        read_data("hf:nobody/nothing")


# Data frames and lists


def test_a_frame_with_a_row_a_word_is_grouped_by_its_sentences():
    columns = {"Sentence #": ["Sentence: 1", None, "Sentence: 2"], "Word": ["Ada", "left", "Vellmar"]}
    frame = pandas.DataFrame(columns | {"POS": ["NNP", "VBD", "NNP"], "Tag": ["B-per", "O", "B-geo"]})
    wanted = [(("Ada", "left"), ("B-per", "O")), (("Vellmar",), ("B-geo",))]
    assert [(s.words, s.tags) for s in read_data(frame)] == wanted
    assert load_data(frame, DataOptions(tag_column="POS")).scheme == "labels"
    numbered = frame.assign(**{"Sentence #": [0, 0, 1]}).rename(columns={"Sentence #": "sentence_id"})
    assert [s.words for s in read_data(numbered)] == [("Ada", "left"), ("Vellmar",)]
    with pytest.raises(ValueError, match=r"row 3 of the given table: Word is None.*keep_default_na=False"):
        read_data(frame.assign(Word=["Ada", "left", None]))
    with pytest.raises(ValueError, match=r"row 3 of the given table: the sentence 0 ended before; sort the rows"):
        read_data(numbered.assign(sentence_id=[0, 1, 0]))
    with pytest.raises(ValueError, match=r"no column with the sentence of a word .*found: Word, POS, Tag"):
        read_data(frame.drop(columns="Sentence #"))
    with pytest.raises(ValueError, match=r"no column with tags .*found: Sentence #, Word"):
        read_data(frame.drop(columns=["POS", "Tag"]))


def test_a_sentence_of_a_frame_is_known_by_its_document_and_its_name():
    columns = {"document": [0, 0, 1, None], "sentence_id": [1, 1, 1, None], "word": ["Ada", "Brandt", "Vellmar", "Bay"]}
    frame = pandas.DataFrame(columns | {"tag": ["B-PER", "I-PER", "I-PER", "I-PER"]})
    found = load_data(frame)
    assert [(s.words, s.document) for s in found.sentences] == [(("Ada", "Brandt"), "0.0"), (("Vellmar", "Bay"), "1.0")]
    assert [len(gold_entities(s)) for s in found.sentences] == [1, 1] and found.counts() == {REPAIRED: 1}
    whole = frame.assign(document=[0, 0, 1, 1], sentence_id=[1, 1, 1, 1])
    assert [s.document for s in read_data(whole)] == ["0", "1"]
    with pytest.raises(ValueError, match=r"row 4 of the given table: the sentence 1 of 0 ended before; sort the rows"):
        read_data(whole.assign(document=[0, 0, 1, 0]))


def test_a_document_may_have_the_number_0():
    records = [{"words": ["Ada"], "tags": ["O"], "document": 0}, {"text": "So.", "entities": [], "document": 0}]
    assert [s.document for s in read_data(records)] == ["0", "0"]


def test_a_frame_with_a_row_a_sentence_holds_records(tmp_path):
    frame = pandas.DataFrame({"tokens": [["Ada", "left"], ["So"]], "ner_tags": [["B-PER", "O"], ["O"]]})
    assert [s.tags for s in read_data(frame)] == [("B-PER", "O"), ("O",)]
    frame.to_parquet(tmp_path / "a.parquet")
    assert [s.tags for s in read_data(pandas.read_parquet(tmp_path / "a.parquet"))] == [("B-PER", "O"), ("O",)]
    texts = pandas.DataFrame({"text": ["Ada left"], "entities": [[(0, 3, "PER")]]})
    assert spans(read_data(texts)[0]) == [("PER", "Ada")]
    with pytest.raises(ValueError, match="record 2 of the given table: 1 word, but 2 tags"):
        read_data(frame.assign(ner_tags=[["B-PER", "O"], ["O", "O"]]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the given data has no sentences"),
        ([(["a"], ["O", "O"])], "sentence 1 of the given data: 1 word, but 2 tags"),
        ([Sentence(("a",))], "the given data: no sentence has labels"),
        ([(["a"], ["O"]), Sentence(("b",))], "sentence 2 of the given data: 1 word without labels"),
        ([(["a"], ["O"]), ("ab", "OO")], "sentence 2 of the given data: expected a text and its entities"),
        (["ab"], "sentence 1 of the given data: expected a text and its entities"),
        ([{"words": ["a"], "tags": ["O"]}, {"words": ["a"]}], "record 2 of the given data: no labels"),
        ([(["a", "b"], ["O", "PER"])], "sentence 1 of the given data, word 2: 'PER' is not a valid"),
        ({"words": ["a"]}, "the given data is a dict of words"),
        (3.5, "expected a file, a data set's name, or labelled sentences, got float"),
        (None, "expected a file, a data set's name, or labelled sentences, got NoneType"),
        (b"a O", "got bytes; decode them first"),
        (
            [(["a", float("nan")], ["O", "O"])],
            "sentence 1 of the given data, word 2 is nan, which is not a string .a missing",
        ),
        ([(["a"], ["O"]), (["a"], [None])], "sentence 2 of the given data, tag 1 is None, which is not a string"),
        ([(["a"], 5)], "expected words and tags of sentence 1, got int"),
    ],
)
def test_data_in_memory_is_named_by_its_place(data, message):
    with pytest.raises(ValueError, match=message):
        read_data(data)


@pytest.mark.parametrize(
    "content", ["Ada B-PER\nleft O\n", rows({"words": ["Ada", "left"], "tags": ["B-PER", "O"]}), UD]
)
def test_a_stream_is_read_like_a_file(file, content):
    reader, writer = os.pipe()
    os.write(writer, content.encode())
    os.close(writer)
    stream = Path(f"/dev/fd/{reader}")
    assert [(s.words, s.tags) for s in read_data(stream)] == [(s.words, s.tags) for s in read_data(file("a", content))]
    os.close(reader)


@pytest.mark.parametrize(
    ("content", "pack"),
    zip([
        'id,text\r\n1,"Ada, who\nleft."\r\n2,So\r\n',
        "\ufeffid;text\n1;Ada\n\n2;So\n",
        "sep=|\nid|text\n1|Ada\n",
        "text\tn\nAda\t1\n",
        '{"n": 1, "text": "Ada"}\n{"text": "So"}\n',
        '\ufeff[\n{"text": "Ada"},\n{"text": "So"}]',
        "Ada, text\nSo\n",
    ], cycle([bytes, gzip.compress, bz2.compress, lzma.compress])),
)  # fmt: skip
def test_a_stream_of_texts_has_the_form_that_it_shows(file, content, pack):
    def items(path):
        return [item.value for item in DataFile(path).open(notes=[], keys=KEYS).items() if item is not None]

    path = file("a", content)
    reader, writer = os.pipe()
    os.write(writer, pack(path.read_bytes()))
    os.close(writer)
    found = items(Path(f"/dev/fd/{reader}"))
    os.close(reader)
    assert found == items(path) and all(isinstance(one, str) == ("Ada, text" in content) for one in found)


WORDS = 'Sentence #,Word,POS,Tag\n1,Müller,NNP,B-per\n,left,VBD,O\n2,Vellmar,NNP,B-geo\n,"1,000",CD,O\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", WORDS.encode()),
        ("a.csv", WORDS.replace("1,000", "@").replace(",", ";").replace("@", "1,000").encode("cp1252")),
        ("a.tsv", WORDS.replace('"1,000"', "@").replace(",", "\t").replace("@", "1,000").encode()),
        ("a.csv", WORDS.replace("Sentence #", "nr").replace("\n,left", "\n1,left").replace('\n,"', '\n2,"').encode()),
        ("a.csv", b'word,tag\nM\xc3\xbcller,B-per\nleft,O\n\nVellmar,B-geo\n"1,000",O\n'),
    ],
)
def test_a_table_with_a_row_a_word_is_grouped_by_its_sentences(tmp_path, capsys, name, content):
    (tmp_path / name).write_bytes(content)
    found = load_data(tmp_path / name)
    wanted = [(("Müller", "left"), ("B-per", "O")), (("Vellmar", "1,000"), ("B-geo", "O"))]
    assert [(s.words, s.tags) for s in found.sentences] == wanted
    assert found.sentences[0].where == f"{tmp_path / name}:2"


def test_words_of_a_frame_are_parted_by_a_column_of_any_name(tmp_path):
    frame = pandas.DataFrame({"nr": [7, 7, 8, 8], "kind": [*"abab"], "Wort": [*"wxyz"], "tag": ["O"] * 4})
    for given in (frame, frame.assign(nr=["a", None, "b", None])):
        assert [s.words for s in read_data(given)] == [("w", "x"), ("y", "z")]
    (tmp_path / "b.csv").write_text("word,tag\nAda,B-PER\nleft,O\n")
    with pytest.raises(ValueError, match=r"no column with the sentence of a word .* or a blank row between sentences"):
        load_data(tmp_path / "b.csv")


@pytest.mark.parametrize("told", ["text", "number", "blank row"])
def test_equal_sentences_that_follow_each_other_are_apart(tmp_path, told):
    sentences = ["Ada left .".split(), "Ada left .".split(), ["Yes"], ["Yes"], ["Yes"], "No no".split()]
    lines = ["n,sentence,word,tag"]
    for words in sentences:
        name = " ".join(words) if told == "text" else words[0]
        lines += [f"{n if told == 'number' else 7},{name},{word},O" for n, word in enumerate(words)]
        lines += ["", ",,,"] * (told == "blank row")
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines).replace(",O", ",B-X"))
    assert [list(s.words) for s in read_data(path)] == sentences
    if told != "blank row":
        assert [list(s.words) for s in read_data(pandas.read_csv(path))] == sentences
    again = [*lines, *lines[1:4]] if told == "text" else lines
    path.write_text("\n".join([*again, ""]).replace(",O", ",B-X"))
    assert len(read_data(path)) == len(sentences) + (told == "text")
