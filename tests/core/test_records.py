"""JSON lines and lists of dicts: every notation, entities over characters, and what is written is read back."""

import json
from itertools import cycle, permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from boustro import Classifier
from boustro.tasks import read_counted, task_class
from boustro.tasks.data import load_data, read_data, units
from boustro.tasks.data.named import guess_task
from boustro.tasks.data.reading import OVERLAPPING, REJECTED, DataOptions
from boustro.tasks.data.records import WORDLESS_RECORDS, labelled_text
from boustro.tasks.data.schemes import encode_tags, flatten_entities, gold_entities
from boustro.tasks.data.texts import read_texts
from boustro.text.words import split_text
from boustro.types import Entity, Sentence
from labelled import RECORDS, rows, spans


@pytest.mark.parametrize(
    "record",
    [
        {"text": "Ada of Port Lisse left.", "entities": [[0, 3, "PER"], [7, 17, "LOC"]]},
        ["Ada of Port Lisse left.", [["Ada", "PER"], ["Port Lisse", "LOC"]]],
        ["Ada of Port Lisse left.", [[0, 3, "PER"], ["LOC", 7, 17]]],
        {
            "text": "Ada of Port Lisse left.",
            "tokens": ["Ada", "of", "Port", "Lisse", "left", "."],
            "spans": [[7, 17, "LOC"], [0, 3, "PER"]],
        },
        {"tokens": ["Ada", "of", "Port", "Lisse", "left", "."], "entities": [[0, 1, "PER"], [2, 4, "LOC"]]},
        {"words": ["Ada", "of", "Port", "Lisse", "left", "."], "tags": ["B-PER", "O", "B-LOC", "I-LOC", "O", "O"]},
        {"words": ["Ada", "of", "Port", "Lisse", "left", "."], "labels": ["I-PER", "O", "I-LOC", "I-LOC", "O", "O"]},
        {  # a cell of a comparison
            "words": ["Ada", "of", "Port", "Lisse", "left", "."],
            "gold": ["B-PER", "O", "B-LOC", "I-LOC", "O", "O"],
            "predicted": ["O"] * 6,
        },
    ],
)
def test_one_sentence_in_many_notations_is_one_sentence(file, record):
    """Those of annotation tools are tried with the units of their offsets."""
    labelled = load_data(file("a.jsonl", rows(record)))
    (sentence,) = labelled.sentences
    assert sentence.words == ("Ada", "of", "Port", "Lisse", "left", ".")
    assert sentence.tags == ("B-PER", "O", "B-LOC", "I-LOC", "O", "O")
    assert sentence.entities is None and not labelled.notes and sentence.where.endswith("a.jsonl:1")
    assert sentence.spaces in (None, (True,) * 5 + (False,))
    (given,) = read_data([record])
    assert (given.words, given.tags, given.where) == (sentence.words, sentence.tags, "")


def test_a_text_of_several_sentences_is_a_document(file):
    text = "Ada Brandt left Vellmar. Nobody saw her!\n\nThen it rained."
    sentences = read_data(
        file("a.jsonl", rows({"text": "Hm", "label": []}, {"text": text, "label": [[16, 23, "LOC"]]}))
    )
    assert [spans(s) for s in sentences] == [[], [("LOC", "Vellmar")], [], []]
    assert [s.document for s in sentences] == ["record 1", *["record 2"] * 3]
    assert [s.where[-1] for s in sentences] == ["1", "2", "2", "2"]


def test_an_entity_inside_words_is_widened_to_them_and_noted(file):
    text = "The Port Lisse-based firm paid Ada 's son."
    record = {"text": text, "entities": [[4, 14, "LOC"], [30, 35, "PER"]]}
    labelled = load_data(file("a.jsonl", rows({"text": "x", "label": []}, record)))
    assert spans(labelled.sentences[1]) == [("LOC", "Port Lisse-based"), ("PER", "Ada")]
    assert labelled.counts() == {units.WIDENED: 1, units.TRIMMED: 1}
    assert str(labelled.notes[0]).endswith("a.jsonl:2: LOC 'Port Lisse' widened to 'Port Lisse-based'")


def test_an_entity_over_sentence_breaks_takes_them_back(file):
    text = "Here he saw Oak! Vellmar grew. Then he slept. End."
    parts = ["Here he saw Oak !", "Vellmar grew .", "Then he slept .", "End ."]
    assert [" ".join(s.words) for s in read_data([{"text": text, "label": []}])] == parts
    labelled = load_data([{"text": text, "entities": [[12, 24, "ORG"], [36, 38, "X"]]}])
    assert [" ".join(s.words) for s in labelled.sentences] == [" ".join(parts[:2]), *parts[2:]]
    assert [spans(s) for s in labelled.sentences] == [[("ORG", "Oak ! Vellmar")], [("X", "he")], []]
    assert labelled.sentences[0].spaces == (True, True, True, True, False, True, True, False)
    assert labelled.counts() == {units.JOINED: 1}
    labelled = load_data([{"text": text, "entities": [[12, 45, "ORG"]]}])
    assert [" ".join(s.words) for s in labelled.sentences] == [" ".join(parts[:3]), parts[3]]
    assert labelled.counts() == {units.JOINED: 2}


def test_overlapping_entities_stand_beside_the_tags(file):
    record = {"words": list("abcdef"), "entities": [[3, 4, "LOC"], [0, 4, "ORG"], [0, 4, "ORG"], [5, 6, "PER"]]}
    labelled = load_data(file("a.jsonl", rows(record)))
    (sentence,) = labelled.sentences
    assert sentence.tags == ("B-ORG", "I-ORG", "I-ORG", "I-ORG", "O", "B-PER")
    assert gold_entities(sentence) == (Entity("ORG", 0, 4), Entity("LOC", 3, 4), Entity("PER", 5, 6))
    assert labelled.counts() == {OVERLAPPING: 1, units.REPEATED: 1}


@pytest.mark.parametrize(("name", "in_memory"), zip([*RECORDS, "classify"], cycle([False, True])))
def test_every_task_leaves_out_what_annotators_rejected_and_refuses_half_a_character(name, in_memory, file):
    record, kind = RECORDS[name][0], task_class(name)
    if name == "classify" and in_memory:
        record = {"text": "Ada left.", "labels": ["news", "sport"]}
    said = [record | {"answer": answer} for answer in ("accept", "reject", "ignore", "accept", "reject")]
    given = said if in_memory else file("a.jsonl", rows(*said))
    examples, notices = read_counted(kind, given, DataOptions())
    assert len(examples) == 2 and notices[REJECTED] == 3 and not any("answer" in what for what in notices)
    for rest, match in (
        (said[1:3], "all 2 records that their annotator rejected or ignored"),
        ([record, record | {"id": "\ud83d"}], "half a character"),
        ([record, record | {"\ud83d": 1}], "half a character"),
    ):
        with pytest.raises(ValueError, match=match):
            read_counted(kind, rest if in_memory else file("b.jsonl", "\n".join(map(json.dumps, rest))), DataOptions())


def test_a_column_called_answer_may_have_the_labels(file):
    table = file("a.csv", "text,answer\nAda left,accept\nShe stayed,reject\n")
    assert [text.label for text in Classifier("starter").read(table, label_column="answer")] == ["accept", "reject"]


def test_what_annotators_rejected_and_what_has_no_word_is_left_out_and_counted(file):
    good = {"text": "Ada", "spans": [[0, 3, "PER"]]}
    labelled = load_data(file("a.jsonl", rows(good, {**good, "answer": "reject"}, {"text": " ", "spans": []})))
    assert len(labelled.sentences) == 1 and labelled.counts() == {REJECTED: 1, WORDLESS_RECORDS: 1}
    assert [n.where[-1] for n in labelled.notes] == ["2", "3"]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("[1, 2", r"a\.jsonl:2: not a JSON object"),
        ("[1, 2]", r"a\.jsonl:2: expected an object with words and tags"),
        ({"tags": ["O"]}, r"a\.jsonl:2: no words and no text under words, tokens, text \(found: tags\)"),
        ({"text": "a"}, r"a\.jsonl:2: no labels under tags, .*\(found: text\); choose with --tag-column"),
        ({"text": "a", "tags": ["O"]}, r"a\.jsonl:2: 'tags' has tags, but there are no words"),
        ({"words": ["a"], "tags": ["O", "O"]}, r"a\.jsonl:2: 1 word, but 2 tags under 'tags'"),
        ({"words": ["a"], "tags": [3]}, r"a\.jsonl:2: tag 1 under 'tags' is 3; tags must be names"),
        ({"words": ["a"], "tags": ["PER"]}, r"a\.jsonl:2: 'PER' is not a valid IOB1"),
        ({"words": ["a", None], "tags": ["O", "O"]}, r"a\.jsonl:2: word 2 is None, which is not a string"),
        ({"words": ["a"], "tags": ["O"], "spans": [[0, 1, "X"]]}, r"labels under 'tags' and under 'spans'"),
        ({"words": ["a"], "tags": ["O"], "spaces": [1]}, r"a\.jsonl:2: spaces must be a list of 1 true or false"),
        ({"text": "a", "entities": [[0, 2, "X"]]}, r"a\.jsonl:2: the entity X \[0, 2\) is outside the 1 char"),
        ({"words": ["a"], "entities": [[0, 2, "X"]]}, r"a\.jsonl:2: the entity X \[0, 2\) is outside the 1 word"),
        ({"text": "a", "entities": [[1, 1, "X"]]}, r"a\.jsonl:2: the entity X \[1, 1\) is outside"),
        ({"text": "a", "entities": [[0, 1, ""]]}, r"a\.jsonl:2: the entity \[0, 1\) has an empty label"),
        ({"text": "a", "entities": [[0, 1]]}, r"a\.jsonl:2: an entity is \[start, end, label\], got \[0, 1\]"),
        ({"text": "a", "entities": [[0, True, "X"]]}, r"a\.jsonl:2: an entity is"),
        ({"text": "a b", "entities": [[1, 2, "X"]]}, r"a\.jsonl:2: the entity X \[1, 2\) covers no word"),
        ({"text": "🙂 Ada", "entities": [{"start": 3, "end": 6, "label": "X", "text": "Eve"}]}, r"is outside the"),
        ({"text": "🙂 Eve!", "entities": [{"start": 3, "end": 6, "label": "X", "text": "Ada"}]}, r"code points"),
        ({"text": "a b", "tokens": ["b", "a"], "spans": []}, r"a\.jsonl:2: the word 'a' is not in the text"),
        ({"text": "a", "tokens": [{"text": "b", "start": 0, "end": 1}], "spans": []}, r"the token 'b' differs"),
        ({"text": "a", "tokens": [{"text": "a"}], "spans": []}, r"a\.jsonl:2: a token has no 'start'"),
        ('{"words": ["\\ud800"], "tags": ["O"]}', r"a\.jsonl:2: .*half a character"),
    ],
)
def test_a_malformed_record_is_named_with_its_line(file, record, message):
    line = record + "\n" if isinstance(record, str) else rows(record)
    with pytest.raises(ValueError, match=message):
        read_data(file("a.jsonl", '{"words": ["a"], "tags": ["O"]}\n' + line))


def test_keys_can_be_named(file):
    record = {"mots": ["a", "b"], "fin": ["B-X", "O"], "tags": ["O", "O"], "spans": [[0, 2, "Y"]]}
    record |= {"satz": "a b", "z": [[0, 1, "Z"]]}
    path = file("a.jsonl", rows(record))
    assert spans(read_data(path, word_column="mots", tag_column="fin")[0]) == [("X", "a")]
    assert spans(read_data(path, word_column="satz", tag_column="z")[0]) == [("Z", "a")]
    with pytest.raises(ValueError, match=r"no list of labels under 'satz' \(found: mots, fin, tags, spans, satz, z\)"):
        read_data(path, word_column="mots", tag_column="satz")
    with pytest.raises(ValueError, match="no words and no text under wörter"):
        read_data(path, word_column="wörter")


@pytest.mark.parametrize(
    ("empty", "full"),
    [*permutations(("entities", "spans"), 2), ("labels", "label"), ("label", "labels"), ("spans", "spans"),
     ("entities", "ner"), ("label", "ner")],
)  # fmt: skip
def test_a_key_without_entities_hides_no_key_with_some(empty, full):
    """As in doccano's exports of projects with relations, and in records that went through several tools."""
    for nothing in ([], {"start": [], "end": [], "label": []}):
        record = {"text": "Ada left.", empty: nothing, full: [[0, 3, "PER"]]}
        assert spans(read_data([record])[0]) == [("PER", "Ada")]
    with pytest.raises(ValueError, match=f"entities under .*{full!r}.*; choose with --tag-column"):
        read_data([record | {"spans" if full == "entities" else "entities": [[4, 8, "X"]]}])


def test_a_list_of_records_knows_its_lines(file):
    text = '[\n{"words": ["a"], "tags": ["O"]},\n\n{"words": ["b"],\n "tags": ["B-X"]}\n]\n'
    assert [s.where[-6:] for s in read_data(file("a.json", text))] == ["json:2", "json:4"]
    with pytest.raises(ValueError, match=r"b\.json:4: no labels"):
        read_data(file("b.json", text.replace('"tags": ["B-X"]', '"tag": 1')))
    for broken in (text[:-2], text + "x", text.replace("},", "}"), text.replace(": [", ": ")):
        with pytest.raises(ValueError, match=r"c\.json:\d+: not a JSON list of records"):
            read_data(file("c.json", broken))
    assert len(read_data(file("d.json", rows({"words": ["a"], "tags": ["O"]})))) == 1


any_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("text", "entities", "places"),
    [
        ("Alexandria: Alex left.", [("Alex", "P")], [(12, 16)]),
        ("Alex-Street: Alex left.", [("Alex", "P")], [(13, 17)]),
        ("Alexandria in Alex-Street", [("Alex", "P")], [(14, 18)]),
        ("Anna saw Ann, and Ann Anna.", [("Ann", "P"), ("Ann", "P")], [(9, 12), (18, 21)]),
        ("New York and York", [("York", "P"), ("New York", "P")], [(0, 8), (13, 17)]),
        ("New York, York", [(0, 8, "P"), ("York", "P")], [(0, 8), (10, 14)]),
        ("AT&T's U.S. unit AT&T", [("AT&T", "P"), ("U.S.", "P"), ("AT&T", "P")], [(0, 4), (7, 11), (17, 21)]),
        ("Budapesten Budapest", [("Budapest", "P"), ("Budapest", "P")], [(0, 8), (11, 19)]),  # one inside a word
        ("中国人在中国", [("中国", "P"), ("中国", "P")], [(0, 2), (4, 6)]),
    ],
)
def test_entities_given_by_their_words_are_whole_words_first(text, entities, places):
    found = labelled_text(text, entities, "text 1")["entities"]
    assert sorted((e["start"], e["end"]) for e in found) == places


def test_labels_of_one_name_are_in_the_order_of_the_text():
    found = labelled_text("Jordanian: Jordan met Jordan.", [("Jordan", "A"), ("Jordan", "B")], "text 1")["entities"]
    assert sorted((e["start"], e["label"]) for e in found) == [(11, "A"), (22, "B")]
    with pytest.raises(ValueError, match="text 1: 'Ann' does not stand in 'Anna' once more"):
        labelled_text("Anna", [("Ann", "P"), ("Ann", "P")], "text 1")


@st.composite
def labelled_texts(draw):
    """A text and spans of its characters that cover something."""
    text = draw(any_text)
    ends = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)), st.sampled_from(["A", "B C"]))
    found = [(min(a, b), max(a, b), label) for a, b, label in draw(st.lists(ends, max_size=5))]
    return text, [span for span in found if text[span[0] : span[1]].strip()]


@given(labelled_texts())
def test_every_entity_of_any_text_is_found_on_the_words_that_it_touches(data):
    text, given_spans = data
    assume(text.strip())
    entities = [{"start": a, "end": b, "label": x, "text": text[a:b]} for a, b, x in given_spans]  # in code points
    labelled = load_data([{"text": text, "entities": entities}])
    words = [place for placed in split_text(text) for place in placed.places]
    assert [w for s in labelled.sentences for w in s.words] == [text[a:b] for a, b in words]
    expected = set()
    for start, end, label in given_spans:
        touched = [i for i, (a, b) in enumerate(words) if any(start <= c < end for c in range(a, b))]
        expected.add((label, touched[0], touched[-1] + 1))
    got, begin = set(), 0
    for sentence in labelled.sentences:
        got |= {(e.label, begin + e.start, begin + e.end) for e in gold_entities(sentence)}
        begin += len(sentence)
    assert got == expected
    exact = {(a, b, x) for x, first, last in expected for a, b in [(words[first][0], words[last - 1][1])]}
    inexact = [span for span in given_spans if span not in exact]
    assert labelled.counts()[units.WIDENED] + labelled.counts()[units.TRIMMED] == len(inexact)


@st.composite
def labelled_sentences(draw):
    """Sentences of words that are not padded, with flat or overlapping entities, documents and spaces or none."""
    words = draw(st.lists(any_text.map(str.strip).filter(bool), min_size=1, max_size=8))
    size = len(words)
    ends = st.tuples(st.integers(0, size), st.integers(0, size), st.sampled_from(["A", "B-C"]))
    entities = {Entity(x, min(a, b), max(a, b)) for a, b, x in draw(st.lists(ends, max_size=4)) if a != b}
    ordered = tuple(sorted(entities))
    flat = flatten_entities(ordered)
    spaces = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size).map(tuple))
    nested = ordered if len(flat) < len(ordered) else None
    return Sentence(tuple(words), encode_tags(flat, size, "bio"), spaces, draw(st.sampled_from(["", "d"])), "", nested)


def format_jsonl(sentences) -> str:
    """Each sentence with its words, its tags or (where some overlap) its entities, its spaces and its document."""
    records = []
    for s in sentences:
        labels = (
            {"tags": s.tags} if s.entities is None else {"entities": [[e.start, e.end, e.label] for e in s.entities]}
        )
        spaces = {} if s.spaces is None else {"spaces": s.spaces}
        records.append({"words": s.words, **labels, **spaces, **({"document": s.document} if s.document else {})})
    return rows(*records)


@given(st.lists(labelled_sentences(), min_size=1, max_size=4))
def test_sentences_written_as_json_lines_are_read_back(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("j") / "a.jsonl"
    path.write_text(format_jsonl(sentences), "utf-8")
    labelled = load_data(path)
    assert [s.where for s in labelled.sentences] == [f"{path}:{n}" for n in range(1, len(sentences) + 1)]
    stripped = [Sentence(s.words, s.tags, s.spaces, s.document, "", s.entities) for s in labelled.sentences]
    key = [(s.words, s.tags, s.spaces, s.document, set(gold_entities(s))) for s in sentences]
    assert [(s.words, s.tags, s.spaces, s.document, set(gold_entities(s))) for s in stripped] == key
    assert set(labelled.counts()) <= {OVERLAPPING}


def test_options_that_an_annotator_accepted_are_labels(tmp_path):
    """As Prodigy writes them."""
    offered = {"options": [{"id": "news", "text": "News"}, {"id": "sport", "text": "Sport"}], "config": {}}
    answers = [("We won.", ["sport"], "accept"), ("It rained.", ["news"], "accept"), ("No.", ["news"], "reject")]
    records = [{"text": text, **offered, "accept": ids, "answer": answer} for text, ids, answer in answers]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    notes = []
    assert guess_task(file) == "classify"
    assert [text.label for text in read_texts(file, notes=notes)] == ["sport", "news"] and len(notes) == 1
    records[0]["accept"] = ["sport", "news"]
    assert [text.labels for text in read_texts(records[:2])] == [("sport", "news"), ("news",)]
