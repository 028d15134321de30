"""Labelling with an encoder: what is read, what runs beside the session, and the folders it leaves."""

import json
import os
import shlex
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import boustro
from boustro.apps.cli.main import main
from boustro.apps.export.check import check_examples
from boustro.apps.label.answers import SPANS, TOPIC, Annotation, AnswerFile
from boustro.apps.label.background import Background, SessionSource, choose_source, documents_of, offered_labels
from boustro.apps.label.command import LabellingOptions
from boustro.apps.label.curve import Point, is_due, session_curve
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.texts import TextToLabel, over, read_to_label, read_whole
from boustro.encoders.reading import group_sentences
from boustro.encoders.spec import load_encoder
from boustro.options import OptionError
from boustro.output import DEFAULT_RUN
from boustro.tasks.data.conll import format_conll, format_document
from boustro.tasks.data.reading import DEFAULT_OPTIONS, KEPT, DataOptions
from boustro.types import Entity, Sentence
from children import finish, start
from labelling import NAMES, PLACES, answer, right, texts

GOLD = [(t.sentence.words, ["B-PER", "O", "B-LOC", "O"]) for t in texts(24)]


ALONE, IN_DOCUMENTS, WITH_LETTERS = (1, False), (3, False), (3, True)


@pytest.fixture
def work(request, tiny_lm, tmp_path):
    """A session over 24 sentences that a tiny LM has read, and what runs beside it."""
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        together, spelling = getattr(request, "param", IN_DOCUMENTS)
        session = LabellingSession(texts(24, together), file, ["PER", "LOC"])
        how = {"spelling": spelling, "cache": False, "asked": {"encoder": str(tiny_lm("llama")), "epochs": 2}}
        with Background(session, SessionSource(encoder=str(tiny_lm("llama")), **how)) as work:
            assert work.wait_ready(60)
            yield work


def answer_with_lock(work, count):
    for _ in range(count):
        with work.session.lock:
            answer(work.session)
        work.answered()


def wait_for(condition, seconds=300.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_measured(work):
    """Whether the curve has come to the last answer, after which the scales stay."""
    with work.session.lock:
        return not is_due(work.points, work.session.words_answered, len(work.session.answers))


def found(entities):
    return [(e.label, e.start, e.end) for e in entities]


def test_answers_train_an_ordinary_tagger(work, tmp_path, tiny_lm):
    answer_with_lock(work, 6)
    folder = str(tmp_path / "fitted")
    path = str(work.session.file.path)
    assert main(["fit", "--train", path, "--out", folder, "--encoder", str(tiny_lm("llama")), "--epochs", "1"]) == 0
    conll, _ = work.session.file.export_conll([*work.session.answers.values()])
    assert main(["evaluate", folder, str(conll)]) == 0


def test_a_model_is_trained_beside_the_person(work, tmp_path):
    work.start_training()
    wait_for(lambda: not work.training)
    assert "no such file" in work.training_problem and work.trained is None
    answer_with_lock(work, 14)
    work.start_training()
    with pytest.raises(ValueError, match="being trained already"):
        work.start_training()
    answer_with_lock(work, 2)  # labelling goes on
    wait_for(lambda: not work.training)
    assert not work.training_problem and len(work.trained.answers) >= 14 and 0 <= work.trained.estimate["score"] <= 100
    (known,) = check_examples(work.trained.model, None, 1)
    assert known.words == next(iter(work.session.answers.values())).sentence.words
    assert work.folder == tmp_path / "answers-tagger"  # where the next one is written too
    answer_with_lock(work, 1)
    again = work.train()
    assert len(again.answers) == len(work.session.answers) and work.train() is again
    assert boustro.Tagger.from_pretrained(work.folder, cache=False).types == ["LOC", "PER"]


TOPICS = ["My parcel is late.", "The courier lost it.", "I was charged twice.", "The invoice is wrong.", "So kind!"]
TOPICS += [
    f"Parcel {n} came {state}." for n, state in enumerate(("broken", "open", "wet", "empty", "early", "to Lisse"))
]
ENTITIES = [f"{' '.join(text.sentence.words[:-1])}. It rained, {text.sentence.words[0]}." for text in texts(12)]
TABLE = ["message,n", *(f"{text},{n}" for n, text in enumerate(TOPICS * 3))]
KNOWN = ["--types", "praise", "--describe", "a.jsonl.labels.json"]
DESCRIBED = ["--labels", "delivery", "--labels", "billing: money, an invoice", "--labels", "praise"]


@pytest.mark.parametrize(
    ("name", "lines", "given", "wanted"),
    [
        ("a.txt", ENTITIES, ["--labels", "PER,LOC"], []),
        ("a.txt", ENTITIES, ["--labels", "PER,LOC", "--sentences"], ["--documents", "a.txt"]),
        ("a.csv", TABLE, ["--text-column", "message"], ["--documents", "a.csv"]),
        ("a.txt", TOPICS, DESCRIBED, ["--documents", "a.txt", *KNOWN]),
    ],
    ids=["texts", "sentences", "table", "topics"],
)
def test_the_page_makes_the_model_of_the_command_that_it_prints(
    tiny_lm, tmp_path, monkeypatch, capsys, name, lines, given, wanted
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)
    Path(name).write_text("\n".join(lines) + "\n")
    encoder = ["--encoder", str(tiny_lm("llama"))] if lines is ENTITIES else []
    command = ["label", name, "--out", "a.jsonl", *given, *encoder, "--port", "0", "--no-browser"]
    command += [] if encoder else ["--task", "classify"]
    reading = DataOptions(text_column=("message",) if name == "a.csv" else ())
    with AnswerFile(Path("a.jsonl"), SPANS.answer if encoder else TOPIC.answer).open() as file:
        read = read_to_label if encoder else read_whole
        found = read(Path(name), "auto", reading, "--sentences" in given)
        if encoder:
            file.write([SPANS.answer.of(text, said_in(text), "") for text in found])
        else:
            labels = zip(found, ("delivery", "delivery", "billing", "billing"), strict=False)
            file.write([TOPIC.answer.of(text, over(text.sentence, [label]), "") for text, label in labels])
    assert main([*command, "--out-tagger", "page"]) == 0
    line = shlex.split(capsys.readouterr().err.split("next: ")[1])
    assert line[:4] == ["boustro", "fit", "--train", "a.jsonl"] and line[4:-2] == [*wanted, *encoder]
    assert main([*line[1:-1], "fitted"]) == 0
    page, fitted = (boustro.load(folder) for folder in ("page", "fitted"))
    assert page.plan.head_kind == fitted.plan.head_kind and page.record.get(KEPT) == fitted.record.get(KEPT)
    assert page.record["cross_validation"] == fitted.record["cross_validation"]
    own, other = page.fitted.head.state_dict(), fitted.fitted.head.state_dict()
    assert own.keys() == other.keys() and all(torch.equal(own[name], other[name]) for name in own)
    asked = [*lines, "Ines sold Lisse.", "The refund never came."]
    assert [*map(page.predict, asked)] == [*map(fitted.predict, asked)]


def said_in(text):
    """Return the names of a text as a person would mark them."""
    kinds = dict.fromkeys(NAMES, "PER") | dict.fromkeys(PLACES, "LOC")
    return tuple(Entity(kinds[word], i, i + 1) for i, word in enumerate(text.sentence.words) if word in kinds)


def test_nested_entities_train_a_span_head(tiny_lm, tmp_path):
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = LabellingSession(texts(14), file, ["PER", "LOC"], nested=True)
        lm = str(tiny_lm("llama"))
        asked = {"encoder": lm, "head": "span", "epochs": 1, "hidden": 8}
        source = SessionSource(encoder=lm, cache=False, asked=asked)
        with Background(session, source) as work:
            work.wait_ready(60)
            for _ in range(12):
                with session.lock:
                    session.answer(session.current, [*right(session, session.current), Entity("PER", 0, 3)])
            assert work.train().head == "span"


def test_a_session_that_was_killed_comes_back_with_its_curve(work):
    answer_with_lock(work, 12)
    wait_for(lambda: work.points and work.points[-1].sentences >= 10)
    again = LabellingSession(work.session.texts, work.session.file, ["PER", "LOC"])
    with Background(again, work.source) as other:
        other.wait_ready(60)
        wait_for(lambda: bool(other.points))
        assert set(again.tagger.learned) == set(again.answers) and len(again.answers) == 12
        for number in range(24):
            np.testing.assert_allclose(again.pool.scores(number), work.session.pool.scores(number), atol=0.02)
        assert [p.sentences for p in other.points] == [4, 5, 6, 8, 10, 12]


def test_only_a_pool_is_encoded_and_more_when_it_is_answered(tiny_lm, tmp_path, monkeypatch):
    from boustro.apps.label import background

    monkeypatch.setattr(background, "CHUNK_SENTENCES", 4)
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = LabellingSession(texts(24), file, ["PER", "LOC"])
        with Background(session, SessionSource(encoder=str(tiny_lm("llama")), cache=False, pool=8)) as work:
            work.wait_ready(60)
            wait_for(lambda: len(session.pool) == 8)
            time.sleep(0.3)
            assert len(session.pool) == 8
            answer_with_lock(work, 3)
            wait_for(lambda: len(session.pool) == 12)


def test_a_document_is_encoded_at_once(tiny_lm, tmp_path, monkeypatch):
    from boustro.apps.label import background

    monkeypatch.setattr(background, "CHUNK_SENTENCES", 4)
    answered, parts = Annotation(texts(12)[7].sentence, ()), []
    attach = LabellingSession.attach
    monkeypatch.setattr(
        LabellingSession, "attach", lambda self, numbers, *rest: (parts.append(numbers), attach(self, numbers, *rest))
    )
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        file.write([answered])
        session = LabellingSession(texts(12, 3), file, ["PER", "LOC"])
        with Background(session, SessionSource(encoder=str(tiny_lm("llama")), cache=False)) as work:
            work.wait_ready(60)
            wait_for(lambda: len(session.pool) == 12)
    assert [len(part) for part in parts] == [6, 6]
    documents = [own[i : i + 3] for own in parts for i in range(0, len(own), 3)]
    assert sorted(documents) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    work.source = replace(work.source, pool=2)  # a document that is larger than the pool is read in parts
    assert sorted(map(len, work._plan())) == [1, 1, 1, 1, 2, 2, 2, 2]


def test_a_start_from_examples(tiny_lm, tmp_path):
    examples = tuple(Annotation(t.sentence, tuple(right(_only(t), 0))) for t in texts(8))
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = LabellingSession(texts(12), file)
        with Background(session, SessionSource(encoder=str(tiny_lm("llama")), cache=False, examples=examples)) as work:
            work.wait_ready(60)
            assert sorted(session.labels) == ["LOC", "PER"] and len(session.tagger.learned) == 8
            assert session.suggest(session.current)
            answer_with_lock(work, 1)
            assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 1


def _only(text):
    class One:
        texts = (text,)

    return One


def test_a_start_from_a_tagger(tiny_lm, tmp_path):
    lm = str(tiny_lm("llama"))
    tagger = boustro.Tagger(lm, "mlp", epochs=25, cache=False).fit(GOLD)
    source = SessionSource(encoder=lm, tagger=tagger, cache=False, reading={})
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = LabellingSession(texts(12), file, tagger.types)
        with Background(session, source) as work:
            work.wait_ready(60)
            sentences = [t.sentence for t in session.texts]
            said = [found(a.entities) for a in tagger.answer(sentences)]
            assert any(said) and [found(session.suggest(n)) for n in range(12)] == said
            for _ in range(4):  # from now on, names are places
                with session.lock:
                    session.answer(session.current, [Entity("LOC", 0, 1)])
            assert {e.label for n in session.pool.numbers for e in session.suggest(n)} == {"LOC"}


def test_names_are_suggested_before_anything_is_labelled(tmp_path):
    lines = ["Ada Brandt visited Leeds .", "We saw Marie Curie in Paris .", "Nobody came .", "Marie left London ."]
    found = [TextToLabel(Sentence(tuple(line.split(" ")))) for line in lines]
    source = choose_source(None, LabellingOptions(order="in-order"), DEFAULT_RUN)

    def suggested(out, labels, answers=()):
        with AnswerFile(out).open() as file:
            session = LabellingSession(found, file, labels, "in-order", offered=offered_labels(source))
            with Background(session, source) as work:
                work.wait_ready(60)
            for entities in answers:
                session.answer(session.current, entities)
            rows = session.view()["sentence"]
            return session, [(e["label"], e["start"], e["end"]) for e in rows["entities"]], rows["sure"], work

    session, first, sure, work = suggested(tmp_path / "a.jsonl", ())
    assert session.labels == ["PERSON", "PLACE", "ORGANISATION", "OTHER"] and not sure
    assert first == [("PERSON", 0, 2), ("PLACE", 3, 4)]
    words = work.reader.train_vectors(np.arange(4)).words.astype(np.float32)
    place = read_names([text.sentence for text in found])
    np.testing.assert_allclose(session.tagger.scores(words)[:, 0], 1 - np.exp(place), atol=0.02)
    # Labels that say which kind they are, and labels that do not until there is an answer with them.
    assert suggested(tmp_path / "b.jsonl", ("PER", "loc"))[1] == [("PER", 0, 2), ("loc", 3, 4)]
    asked = [Entity("T1", 0, 2), Entity("T2", 3, 4)]
    assert suggested(tmp_path / "c.jsonl", ("T1", "T2"))[1] == [("", 0, 2), ("", 3, 4)]
    assert suggested(tmp_path / "d.jsonl", ("T1", "T2"), [asked])[1] == [("T1", 2, 4), ("T2", 5, 6)]
    session, *_ = suggested(tmp_path / "e.jsonl", (), [[Entity("PLACE", 3, 4)]])
    assert suggested(tmp_path / "e.jsonl", ())[0].labels == ["PERSON", "PLACE", "ORGANISATION", "OTHER"]
    session.add_label("mine", keep=True)
    with AnswerFile(tmp_path / "e.jsonl").open() as file:
        assert "mine" in LabellingSession(found, file, offered=("PERSON",)).labels


def test_types_are_suggested_by_what_labels_are_called(tmp_path):
    lines = ["Ada Brandt visited Vellmar .", "Marie Curie took aspirin .", "The Liberal Party won .", "Nobody came ."]
    given = [TextToLabel(Sentence(tuple(line.split(" ")))) for line in lines]
    source = choose_source(None, LabellingOptions(order="in-order"), DEFAULT_RUN)

    def named(*labels):
        tagger = boustro.Tagger.from_labels(labels)
        return [found(answer.entities) for answer in tagger.answer([text.sentence for text in given])]

    def suggested(session):
        return [found(session.suggest(number)) for number in range(len(given))]

    for labels in (["T4", "town", "political_party", "politician"], ["politician", "LOC", "political_party", "T4"]):
        with AnswerFile(tmp_path / f"{labels[1]}.jsonl").open() as file:
            session = LabellingSession(given, file, labels, "in-order")
            with Background(session, source) as work:
                work.wait_ready(60)
                assert suggested(session) == named(*labels)
                assert not session.view()["sentence"]["sure"] and not session.tagger.told["T4"]
                session.answer(0, [Entity("politician", 0, 2)])  # as it was suggested, which counts as an answer
                assert session.tagger.trust == pytest.approx(1 / 18)
                session.add_label("drug")  # a noun's type, after an answer
                while not session.begun:
                    time.sleep(0.05)
        assert suggested(session)[1:] == named(*labels, "drug")[1:]
        assert ("drug", 3, 4) in suggested(session)[1] and suggested(session)[0] == [("politician", 0, 2)]
        assert session.tagger.told["drug"] and 0 in session.tagger.learned


def read_names(sentences):
    """(words,): the logarithm of the probability that a word is in no name."""
    features = load_encoder("starter-names", "last").encode_all(sentences)
    return features.streams[-1][:, 0, -7].astype(np.float32)


def test_the_encoder_of_a_session(tiny_lm, tmp_path):
    lm = str(tiny_lm("llama"))
    boustro.Tagger(lm, epochs=1, spelling=True, cache=False).fit(GOLD).save_pretrained(tmp_path / "ner")
    assert choose_source(None, LabellingOptions(), DEFAULT_RUN).encoder == "starter-names"
    for spelling in (False, True):
        assert choose_source(lm, LabellingOptions(spelling=spelling), DEFAULT_RUN).spelling == spelling
    started = LabellingOptions(tagger=tmp_path / "ner")
    for given in (None, lm):
        source = choose_source(given, started, DEFAULT_RUN)
        assert source.encoder == lm and source.spelling
    with pytest.raises(OptionError, match="remove --encoder"):
        choose_source("starter", started, DEFAULT_RUN)


@pytest.mark.parametrize(
    ("name", "content", "documents", "gold"),
    [
        ("a.txt", "Ada left. It rained.\n\n  \nLisse\n", [2, 1], False),
        ("a.txt", "Ada B-PER\nleft O\n\nIt O\n", [1, 1], True),
        ("a.txt", "no tags here\nnone there too\n", [1, 1], False),
        ("a.conll", "Ada B-PER\nleft O\n\n", [1], True),
        ("a.conll", "-DOCSTART- O\n\nAda B-PER\n\nIt O\n\n-DOCSTART- O\n\nAda B-PER\n", [2, 1], True),
        ("a.jsonl", '{"text": "Ada left. It rained."}\n{"words": ["a", "b"]}\n"One more."\n', [2, 1, 1], False),
        ("a.jsonl", '{"text": "Ada left.", "document": "a"}\n{"words": ["a"], "document": "a"}\n', [2], False),
        ("a.jsonl", '{"text": "Ada left. So.", "entities": [[0, 3, "P"]]}\n{"text": "A", "spans": []}\n', [2, 1], True),
        ("a.jsonl", '{"words": ["Ada"], "tags": ["B-PER"], "text": "Ada"}\n', [1], True),
        ("noname", '{"text": "Ada left."}\n', [1], False),
    ],
)
def test_texts_are_read_as_what_they_are(file, name, content, documents, gold):
    read = read_to_label(file(name, content), "auto", DEFAULT_OPTIONS, sentences=True)
    assert all((text.gold is not None) == gold and text.sentence.where for text in read)
    sentences = [text.sentence for text in read]
    assert [len(group) for group in group_sentences(sentences, "document")] == documents
    assert len({s.document for s in sentences if s.document}) == sum(size > 1 for size in documents)


SPANNED = '{"text": "Ada left. So. She", "spans": [[4, 12, "X"]]}\n{"text": "Marie Str. 5.", "spans": []}\n'


@pytest.mark.parametrize(
    ("name", "content", "column", "gold"),
    [
        ("a.txt", "Ada left.\u2028So. She\n\n\nMarie Str. 5.\n", (), None),
        ("a.jsonl", '{"text": "Ada left.\\nSo. She"}\n"Marie Str. 5."\n', (), None),
        ("a.csv", 'id,message\n1,"Ada left.\nSo. She"\n2,\n3,Marie Str. 5.\n', ("message",), None),
        ("a.tsv", "id\ttext\n1\tAda left. So. She\n3\tMarie Str. 5.\n", (), None),
        ("a.jsonl", SPANNED, (), "X"),
    ],
)
def test_a_text_is_labelled_as_a_whole(file, name, content, column, gold):
    read = read_to_label(file(name, content), "auto", DataOptions(text_column=column))
    assert [text.text.split() for text in read] == ["Ada left. So. She".split(), "Marie Str. 5.".split()]
    assert all(text.sentence.document for text in read) and len({text.sentence.where for text in read}) == 2
    for text in read:
        assert "".join(g + w for g, w in zip(text.gaps, text.sentence.words, strict=True)) == text.text
    assert [text.gold for text in read] == ([(Entity("X", 1, 4),), ()] if gold else [None, None])
    answer = Annotation.of(read[0], (Entity("PER", 0, 1), Entity("X", 1, 4)), "why")
    record = json.loads(answer.line)
    assert record["text"] == read[0].text and record["note"] == "why"
    assert [record["text"][e["start"] : e["end"]].split() for e in record["entities"]] == [["Ada"], ["left.", "So"]]
    again = Annotation.parse(record, "a:1")
    assert again.to_dict() == record and again.entities == answer.entities
    assert again.sentence.words == read[0].sentence.words  # so that a session finds it again


@pytest.mark.parametrize("read", [read_to_label, read_whole])
def test_records_without_a_word_are_counted(file, capsys, read):
    assert len(read(file("a.csv", "text,id\nAda left.,1\n,2\n"), "auto", DEFAULT_OPTIONS)) == 1
    assert "note: 1 record without a word, which is not shown" in capsys.readouterr().err
    assert len(read(file("a.txt", "Ada left.\n\nSo.\n"), "auto", DEFAULT_OPTIONS)) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", " \n\n", "there is no text"),
        ("a.jsonl", '{"title": "x"}\n', r"a.jsonl:1: no text and no words"),
        ("a.jsonl", '{"words": ["a", 1]}\n', r"a.jsonl:1, word 2 is 1"),
        ("a.conll", "Ada NOUN\n\n", "is not a valid"),
    ],
)
def test_texts_that_cannot_be_read(file, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_to_label(file(name, content), "auto", DEFAULT_OPTIONS)


def test_mistakes_of_the_command_line(file, tmp_path, tiny_lm, capsys, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)
    lm, out = str(tiny_lm("llama")), str(tmp_path / "answers.jsonl")
    text = str(file("a.txt", "Ada left.\n"))
    good = ["label", text, "--out", out, "--encoder", lm, "--port", "0", "--no-browser"]
    for arguments, code, message in (
        (good, 0, "0 answers so far"),
        (["label"], 2, "name a file of texts"),
        (["label", text], 2, "name a file of texts"),
        ([*good, "--head", "spam"], 1, "unknown head 'spam'"),
        ([*good, "--labels", "O"], 1, "'O' is no label"),
        ([*good, "--train", text], 1, "these have no labels"),
        ([*good, "--tagger", str(tmp_path / "none")], 1, "no such folder"),
        (["label", str(tmp_path / "b.txt"), "--out", out], 1, "b.txt: no such file"),
        ([*good[:3], str(tmp_path), *good[4:]], 1, "this is a folder"),
        ([*good[:3], text, *good[4:]], 2, "a.txt is named twice, and would be written over"),
    ):
        assert main(arguments) == code, (arguments, capsys.readouterr().err)
        assert message in capsys.readouterr().err, arguments
    assert (tmp_path / "a.txt").read_text() == "Ada left.\n"


def test_the_tagger_is_saved_when_the_session_ends(tmp_path, tiny_lm, monkeypatch, capsys):
    path, out, lm = tmp_path / "a.conll", tmp_path / "answers.jsonl", str(tiny_lm("llama"))
    path.write_text(format_conll(GOLD))
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)
    command = ["label", str(path), "--out", str(out), "--encoder", lm, "--port", "0", "--no-browser"]
    command += ["--out-tagger", str(tmp_path / "ner")]
    assert main(command) == 0 and not (tmp_path / "ner").exists()
    with AnswerFile(out).open() as file:
        session = LabellingSession(read_to_label(path, "auto", DEFAULT_OPTIONS), file, ["PER", "LOC"])
        file.write([Annotation(t.sentence, t.gold or ()) for t in session.texts[:12]])
    assert main(command) == 0
    assert "12 answers so far" in capsys.readouterr().err
    assert boustro.Tagger.from_pretrained(tmp_path / "ner").types == ["LOC", "PER"]
    assert main(command) == 1 and "--overwrite" in capsys.readouterr().err
    assert main([*command[:-2], "--train", str(path)]) == 0
    assert f"note: {path} taught the suggestions alone, and the model learns from {out};" in capsys.readouterr().err


def test_the_next_command_has_what_was_asked_for(tiny_lm, tmp_path):
    lines, out, lm = tmp_path / "a.txt", tmp_path / "some answers.jsonl", str(tiny_lm("llama"))
    lines.write_text("Ada left Vellmar. It rained.\nOkonkwo saw Lisse. Nobody knew.\n")
    (tmp_path / "b.conll").write_text(format_document(GOLD[:2]))
    asked = ["--epochs", "3", "--encoder", lm, "--context", "sentence", "--spelling"]
    for path, encoder, given, wanted in (
        (lines, None, {"pool_mentions": False}, []),
        (lines, lm, {"sentences": True}, ["--documents", str(lines), "--encoder", lm]),
        (lines, lm, {"context": "sentence", "spelling": True, "epochs": 3}, asked),
        (lines, lm, {"context": "sentence", "sentences": True}, ["--encoder", lm, "--context", "sentence"]),
        (lines, "starter", {"head": "linear"}, ["--head", "linear", "--encoder", "starter"]),
        (tmp_path / "b.conll", "starter-large", {"sentences": True}, []),
    ):
        options = LabellingOptions(**given)
        with AnswerFile(out).open() as file:
            texts = read_to_label(path, "auto", DEFAULT_OPTIONS, options.sentences)
            documents = documents_of(path, texts, options, SPANS, DEFAULT_OPTIONS)
            source = choose_source(encoder, options, DEFAULT_RUN, documents=documents)
            command = shlex.split(Background(LabellingSession(texts, file, ["PER"]), source).command)
        assert command[:4] == ["boustro", "fit", "--train", str(out)] and command[4:-2] == wanted
        assert command[-2:] == ["--out", str(tmp_path / "some answers-tagger")]


def test_a_second_process_is_refused(tmp_path, tiny_lm):
    path, out, errors = tmp_path / "a.txt", tmp_path / "answers.jsonl", tmp_path / "errors"
    path.write_text("Ada left.\n")
    command = ["label", str(path), "--out", str(out), "--encoder", str(tiny_lm("llama")), "--port", "0", "--no-browser"]
    with AnswerFile(out).open():
        assert finish(start(os.getpid, command, errors)) == 1
    assert "another boustro label has this file open" in errors.read_text()


def test_pictures():
    drawn = session_curve([Point(4, 40, 10.0), Point(8, 90, 55.5)])
    assert "55.5 after 90 words" in drawn and drawn.count("h0") == 2
    assert session_curve([]) == ""
