"""Labelling with an encoder: what is read, what runs beside the session, and the folders it leaves."""

import json
import os
import shlex
import time
from dataclasses import replace

import numpy as np
import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.export.check import check_examples
from boustro.apps.label.answers import Annotation, AnswerFile
from boustro.apps.label.background import Background, SessionSource, choose_source, offered_labels, training_command
from boustro.apps.label.command import LabellingOptions
from boustro.apps.label.named_types import guess_types
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.taggers import Point, is_due, session_curve
from boustro.apps.label.texts import TextToLabel, read_to_label, read_whole
from boustro.encoders.reading import group_sentences
from boustro.encoders.spec import load_encoder
from boustro.options import OptionError
from boustro.output import DEFAULT_RUN
from boustro.tasks.data.conll import format_conll, format_document
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.types import Entity, Sentence
from children import finish, start
from labelling import answer, right, texts

GOLD = [(t.sentence.words, ["B-PER", "O", "B-LOC", "O"]) for t in texts(24)]


ALONE, IN_DOCUMENTS, WITH_LETTERS = (1, False), (3, False), (3, True)


@pytest.fixture
def work(request, tiny_lm, tmp_path):
    """A session over 24 sentences that a tiny LM has read, and what runs beside it."""
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        together, spelling = getattr(request, "param", IN_DOCUMENTS)
        session = LabellingSession(texts(24, together), file, ["PER", "LOC"])
        how = {"spelling": spelling, "cache": False, "training": {"epochs": 2}}
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


@pytest.mark.parametrize("work", [ALONE, IN_DOCUMENTS, WITH_LETTERS], indirect=True)
def test_the_live_tagger_is_an_ordinary_folder(work, tmp_path, capsys):
    with pytest.raises(ValueError, match="answer a sentence first"):
        work.best_tagger()
    answer_with_lock(work, 12)
    wait_for(lambda: is_measured(work))
    tagger, what = work.best_tagger()
    tagger.save_pretrained(tmp_path / "ner")
    assert what == "live, 12 answers"
    (known,) = check_examples(tagger, None, 1)
    assert known.words == next(iter(work.session.answers.values())).sentence.words
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner", cache=False)
    assert opened.types == ["LOC", "PER"] and opened.config.spelling == work.source.spelling
    assert opened.config.context == ("document" if work.session.texts[0].sentence.document else "sentence")
    sentences = [t.sentence for t in work.session.texts]
    for number, read in enumerate(opened.answer(sentences)):
        shown = work.session.suggest(number)
        assert found(read.entities) == found(shown)
        np.testing.assert_allclose([e.score for e in read.entities], [e.score for e in shown], atol=0.02)
    (tmp_path / "a.txt").write_text("Ada left Vellmar.\n")
    assert main(["predict", str(tmp_path / "ner"), str(tmp_path / "a.txt"), "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "Ada left Vellmar."


def test_answers_train_an_ordinary_tagger(work, tmp_path, tiny_lm):
    answer_with_lock(work, 6)
    folder = str(tmp_path / "fitted")
    path = str(work.session.file.path)
    assert main(["fit", "--train", path, "--out", folder, "--encoder", str(tiny_lm("llama")), "--epochs", "1"]) == 0
    conll, _ = work.session.file.export_conll([*work.session.answers.values()])
    assert main(["evaluate", folder, str(conll)]) == 0


@pytest.mark.parametrize("work", [ALONE, WITH_LETTERS], indirect=True)
def test_training_is_finished_in_the_background(work):
    work.start_finishing()
    wait_for(lambda: not work.finishing)
    assert "at least 10" in work.finish_problem and work.finished is None
    answer_with_lock(work, 14)
    work.start_finishing()
    with pytest.raises(ValueError, match="being trained already"):
        work.start_finishing()
    answer_with_lock(work, 2)  # labelling goes on
    wait_for(lambda: not work.finishing)
    assert not work.finish_problem and work.finished is not None and work.finished.sentences >= 14
    assert 0 <= work.finished.f1 <= 100 and 0 <= work.finished.live_f1 <= 100
    tagger, what = work.best_tagger()
    assert what.startswith("mlp" if work.finished.better else "live") and tagger.types == ["LOC", "PER"]
    finished = work.finished.tagger
    if work.context == "document":  # the other sentences of the documents are read, and not learned
        assert finished.config.context == "document" and len(finished.encoder().streams) == 2 + work.source.spelling
        assert finished.record["train"]["sentences"] > finished.record["train"]["labelled"] >= 14


@pytest.mark.parametrize("sentences", [False, pytest.param(True, marks=pytest.mark.long)], ids=["texts", "sentences"])
def test_the_figure_of_the_page_is_that_of_the_command_that_it_prints(tiny_lm, tmp_path, capsys, sentences):
    lines, out = tmp_path / "a.txt", tmp_path / "answers.jsonl"
    made = [text.sentence.words for text in texts(16)]
    lines.write_text("".join(f"{' '.join(w[:-1])}. It rained, {w[0]}.\n" for w in made))
    options, lm = LabellingOptions(sentences=sentences, labels=("PER", "LOC")), str(tiny_lm("llama"))
    with AnswerFile(out).open() as file:
        session = LabellingSession(read_to_label(lines, "auto", DEFAULT_OPTIONS, sentences), file, options.labels)
        with Background(session, choose_source(lm, options, DEFAULT_RUN)) as work:
            work.wait_ready(60)
            answer_with_lock(work, len(session.texts))
            work.start_finishing()
            wait_for(lambda: not work.finishing)
            assert work.finish_problem == ""
            command = shlex.split(training_command(lines, options, DEFAULT_OPTIONS, session, work))
    shown = tmp_path / "scores.json"
    assert main([*command[1:], "--json", str(shown)]) == 0
    said = capsys.readouterr().err
    assert f"head: {work.finished.tagger.plan.head_kind}, of " in said and " by cross-validation (F1: ridge" in said
    assert "next: boustro predict" in said
    assert round(json.loads(shown.read_text())["cross_validation"]["score"], 1) == work.finished.f1


def test_nested_entities_train_a_span_head(tiny_lm, tmp_path):
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = LabellingSession(texts(14), file, ["PER", "LOC"], nested=True)
        how = {"cache": False, "head": "span", "training": {"epochs": 1, "hidden": 8}}
        source = SessionSource(encoder=str(tiny_lm("llama")), **how)
        with Background(session, source) as work:
            work.wait_ready(60)
            for _ in range(12):
                with session.lock:
                    session.answer(session.current, [*right(session, session.current), Entity("PER", 0, 3)])
            work.start_finishing()
            wait_for(lambda: not work.finishing)
            assert not work.finish_problem and work.finished.tagger.plan.head_kind == "span"


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
            with pytest.raises(ValueError, match="finish training"):
                work.live_tagger()


def test_names_are_suggested_before_anything_is_labelled(tmp_path):
    lines = ["Ada Brandt left Vellmar .", "We saw Marie Curie in Paris .", "Nobody came .", "Marie left London ."]
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
    lines = ["Ada Brandt left Vellmar .", "Marie Curie liked Berlin .", "The Liberal Party won .", "Nobody came ."]
    found = [TextToLabel(Sentence(tuple(line.split(" ")))) for line in lines]
    source = choose_source(None, LabellingOptions(order="in-order"), DEFAULT_RUN)
    for labels in (["T4", "town", "political_party", "politician"], ["politician", "LOC", "political_party", "T4"]):
        with AnswerFile(tmp_path / f"{labels[1]}.jsonl").open() as file:
            session = LabellingSession(found, file, labels, "in-order")
            with Background(session, source) as work:
                work.wait_ready(60)
        said = [[e.label for e in session.suggest(number)] for number in range(4)]
        assert said == [["politician", labels[1]], ["politician", labels[1]], ["political_party"], []]
        assert not session.view()["sentence"]["sure"] and not session.tagger.told["T4"]
    # Kinds of a network of one's own, whose names are short, and a network without kinds.
    vectors, start = work.reader.train_vectors(np.arange(4)), work.reader.start
    sentences, place = [text.sentence for text in found], start.kinds["PLACE"]
    assert [*guess_types(replace(start, kinds={"CITY": place}), vectors, sentences, labels).types] == labels[:3]
    assert not guess_types(replace(start, kinds={}), vectors, sentences, labels).types


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


ALONE_READ = ["--context", "sentence", "--spelling"]


def test_the_next_command_has_the_settings_of_the_page(tiny_lm, tmp_path):
    lines, out, lm = tmp_path / "a.txt", tmp_path / "some answers.jsonl", str(tiny_lm("llama"))
    lines.write_text("Ada left Vellmar. It rained.\nOkonkwo saw Lisse. Nobody knew.\n")
    (tmp_path / "b.conll").write_text(format_document(GOLD[:2]))
    for path, given, wanted in (
        (lines, {}, ["--pool-mentions", "--encoder", lm]),
        (lines, {"sentences": True}, ["--documents", str(lines), "--pool-mentions", "--encoder", lm]),
        (
            lines,
            {"context": "sentence", "spelling": True, "epochs": 3},
            [*ALONE_READ, "--encoder", lm, "--epochs", "3"],
        ),
        (lines, {"context": "sentence", "sentences": True}, ["--encoder", lm]),
        (lines, {"head": "linear"}, ["--pool-mentions", "--head", "linear", "--encoder", lm]),
        (tmp_path / "b.conll", {"pool_mentions": False}, ["--encoder", lm]),
    ):
        options = LabellingOptions(**given)
        with AnswerFile(out).open() as file:
            texts = read_to_label(path, "auto", DEFAULT_OPTIONS, options.sentences)
            session = LabellingSession(texts, file, ["PER"])
            work = Background(session, choose_source(lm, options, DEFAULT_RUN))
            command = shlex.split(training_command(path, options, DEFAULT_OPTIONS, session, work))
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
