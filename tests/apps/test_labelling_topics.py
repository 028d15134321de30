"""Topics of whole texts on the page: one label or several, on the disk before the next, learned at once, saved."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.label.answers import SPANS, TOPIC, TOPICS, AnswerFile, held_task, manner_of
from boustro.apps.label.background import Background, choose_source
from boustro.apps.label.command import LabellingOptions
from boustro.apps.label.curve import measure_tagger
from boustro.apps.label.incremental import LiveTopics, LiveTopicSets
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.texts import read_whole
from boustro.apps.label.updated_ridge import BIAS
from boustro.apps.label.vectors import WordVectors
from boustro.options import OptionError
from boustro.output import DEFAULT_RUN
from boustro.tasks.label_names import parse_labels
from boustro.types import Entity, Sentence
from labelling import on_disk, vectors

ABOUT = {"delivery": ("parcel", "late"), "billing": ("invoice", "refund")}
MESSAGES = [
    f"{who} wrote.  The {word} is {how}!"
    for who in ("Ada", "Brandt", "Ines")
    for word, how in (("parcel", "late"), ("invoice", "wrong"), ("refund", "missing"), ("parcel", "lost"))
]


def write(path, messages=MESSAGES):
    path.write_text("".join(f"{message}\n" for message in messages), "utf-8")
    return path


def right(text):
    return [label for label, words in ABOUT.items() if {*words} & {*text.sentence.words}]


def session_of(tmp_path, file, manner, labels=("delivery", "billing"), **options):
    found = read_whole(write(tmp_path / "m.txt"), "auto")
    session = LabellingSession(found, file, labels, manner=manner, **options)
    session.attach([*range(len(found))], manner.vectors(vectors([text.sentence for text in found])))
    return session


def answer(session, labels=None):
    number = session.current
    text = session.texts[number]
    own = right(text) if labels is None else labels
    session.answer(number, [{"start": 0, "end": len(text.sentence), "label": label} for label in own])
    return number


@pytest.mark.parametrize("manner", [TOPIC, TOPICS], ids=["one", "several"])
def test_answers_are_on_the_disk_and_learned(tmp_path, manner):
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, manner.answer).open() as file:
        session = session_of(tmp_path, file, manner)
        assert session.view()["whole"] and session.view()["sentence"]["entities"] == []
        for count in range(1, 9):
            number = answer(session)
            row = on_disk(path)[-1]
            assert row["text"] == MESSAGES[number] and row["source"] == f"{tmp_path / 'm.txt'}:{number + 1}"
            assert row.get("labels", [row.get("label")]) == right(session.texts[number]) and len(on_disk(path)) == count
        rest = [n for n in range(len(MESSAGES)) if n not in session.answers]
        for number in rest:  # those that are left are answered rightly
            assert [e.label for e in session.suggest(number)] == right(session.texts[number])
            assert all(0 < e.score <= 1 for e in session.suggest(number))
        point = measure_tagger(session.tagger, session.answers)
        assert point.f1 > 30 and session.tagger.scales.kind in (2.0 ** np.arange(1, 6.5, 0.5)).tolist()
        session.undo()
        assert session.current == number or session.current is not None
        assert len(on_disk(path)) == 7 and len(session.tagger.learned) == 7


def test_first_suggestions_are_modest(tmp_path):
    with AnswerFile(tmp_path / "a.jsonl", TOPIC.answer).open() as file:
        session = session_of(tmp_path, file, TOPIC, ("delivery", "billing", "praise", "other"), order="in-order")
        for most in (0.35, 0.45, 0.5, 0.55):  # of four labels two have never been seen
            answer(session)
            assert session.suggest(session.current)[0].score <= most


def test_a_session_goes_on_with_its_own_form(tmp_path):
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, TOPICS.answer).open() as file:
        session = session_of(tmp_path, file, TOPICS)
        done = [answer(session, labels) for labels in (["billing", "delivery"], [], ["billing"])]
    assert [row["labels"] for row in on_disk(path)] == [["billing", "delivery"], [], ["billing"]]
    assert manner_of("classify", False, path) is TOPICS and manner_of("classify", False, tmp_path / "new") is TOPIC
    with AnswerFile(path, TOPICS.answer).open() as file:
        again = session_of(tmp_path, file, TOPICS, labels=())
        assert [*again.answers] == done and again.labels == ["billing", "delivery"]
        assert on_disk(path)[1] == again.answers[done[1]].to_dict()
    path.write_text(path.read_text().replace('"labels": ["billing"]', '"label": "billing"'))
    with AnswerFile(path, TOPICS.answer).open() as file:  # what had one label goes on with several
        assert len(session_of(tmp_path, file, TOPICS).answers) == 3
    refused = pytest.raises(ValueError, match=r"a.jsonl:1: no label; .* --several")
    with AnswerFile(path, TOPIC.answer).open() as file, refused:
        session_of(tmp_path, file, TOPIC)


def test_answers_that_cannot_be(tmp_path):
    with AnswerFile(tmp_path / "a.jsonl", TOPIC.answer).open() as file:
        session = session_of(tmp_path, file, TOPIC)
        for labels, message in (
            ([], "choose one label for this text, or skip it"),
            (["delivery", "billing"], "several"),
        ):
            with pytest.raises(ValueError, match=message):
                answer(session, labels)
        with pytest.raises(ValueError, match="labels are of the whole text here"):
            session.answer(session.current, [{"start": 0, "end": 1, "label": "billing"}])
        assert not session.answers and not file.path.exists()


def test_what_is_a_text(tmp_path):
    lines = write(tmp_path / "m.txt", ["One. Two.", "", "Three."])
    assert [text.text for text in read_whole(lines, "auto")] == ["One. Two.", "Three."]
    assert [text.text for text in read_whole(lines, "auto", sentences=True)] == ["One.", "Two.", "Three."]
    records = [{"text": "a\n\nb", "label": "x"}, {"text": "c", "labels": []}, {"text": "d"}, "e"]
    write(tmp_path / "m.jsonl", map(json.dumps, records))
    found = read_whole(tmp_path / "m.jsonl", "auto")
    assert [text.text for text in found] == ["a\n\nb", "c", "d", "e"]
    assert [text.gold and [e.label for e in text.gold] for text in found] == [["x"], (), None, None]


def test_a_file_of_answers_says_what_it_holds(tmp_path):
    answers = {
        ("tag", False): '{"text": "Ada left.", "entities": [], "note": "", "source": "m:1"}',
        ("classify", False): '{"text": "Ada left.", "label": "x", "note": "", "source": "m:1"}',
        ("classify", True): '{"text": "Ada left.", "labels": [], "note": "", "source": "m:1"}',
        (None, False): "",
    }
    for (task, several), line in answers.items():
        out = write(tmp_path / "a.jsonl", [line])
        assert held_task(out) == (task, several)
        for asked in ("tag", "classify") if task else ():
            if asked == task:
                assert manner_of(asked, False, out)
            else:
                with pytest.raises(ValueError, match=f"holds answers of --task {task}, and not of --task {asked}"):
                    manner_of(asked, False, out)
    for line in ('{"text": "a", "label": "x"}', '{"sentence1": "a", "sentence2": "b"}', "[1]"):
        with pytest.raises(ValueError, match="not an answer that boustro label wrote"):
            held_task(write(tmp_path / "a.jsonl", [line]))


def test_which_tasks_have_a_page(tmp_path):
    out = tmp_path / "a.jsonl"
    assert manner_of("tag", False, out) is SPANS
    with pytest.raises(ValueError, match="unknown task 'pair': known are tag, classify"):
        manner_of("pair", False, out)
    with pytest.raises(OptionError, match="--several is for labels of whole texts"):
        manner_of("tag", True, out)
    with pytest.raises(ValueError, match="classify"):
        manner_of("clasify", False, out)
    for given, message in ((["--head", "mlp"], "a mlp head is not for this task"), (["--spelling"], "is for entities")):
        write(tmp_path / "m.txt")
        words = ["label", str(tmp_path / "m.txt"), "--out", str(out), *"--task classify --port 0 --no-browser".split()]
        assert main([*words, *given]) in (1, 2), message


def test_a_session_leaves_a_classifier_of_several_topics(tmp_path, tiny_pair):
    out, messages = tmp_path / "topics.jsonl", write(tmp_path / "m.txt")
    manner = manner_of("classify", True, out)
    options = LabellingOptions(task="classify", epochs=3, labels=("delivery,billing",))
    with AnswerFile(out, manner.answer).open() as file:
        session = LabellingSession(read_whole(messages, "auto"), file, parse_labels(options.labels), manner=manner)
        with Background(session, choose_source(tiny_pair, options, DEFAULT_RUN, manner)) as work:
            assert work.wait_ready(60)
            for _ in range(11):
                with session.lock:
                    answer(session)
                work.answered()
            assert work.command.endswith("topics-classifier")
            assert work.train().head == "mlp-pool" and work.command.endswith("topics-classifier-2")
    assert boustro.load(tmp_path / "topics-classifier").predict("The parcel is late!").names


def names_of(labels, several=False, width=4):
    """What names say where value n of a text's vector is about label n: 2 or, of several, surely."""
    weights = np.vstack([8 * np.eye(width), np.full(width, (-4.0 if several else 0.0) / BIAS)])
    return {label: weights[:, n] for n, label in enumerate(labels)}


def text_vectors(*abouts, width=4):
    return WordVectors(np.eye(width, dtype=np.float16)[[*abouts]], np.arange(len(abouts) + 1))


@pytest.mark.parametrize("kind", [LiveTopics, LiveTopicSets])
def test_topics_begin_at_the_probabilities_of_their_names(kind):
    tagger = kind(4, 1.0, ["a", "b", "class_1"], names_of("ab", kind.several))
    x = text_vectors(0, 1).words.astype(np.float32)
    logits = np.array([[8.0, 0], [0, 8]]) - 4 * kind.several
    p = tagger.probabilities(tagger.scores(x))
    wanted = 1 / (1 + np.exp(-logits)) if kind.several else np.exp([*np.c_[logits, [0, 0]]])
    wanted = wanted if kind.several else (wanted / wanted.sum(1)[:, None])[:, :2]
    np.testing.assert_allclose(p[:, :2], wanted, rtol=1e-3)
    assert tagger.trust == pytest.approx(2 / 3)  # of the third nothing is known
    ((first,), (second,)) = tagger.decode(tagger.scores(x), [Sentence(("w",))] * 2)
    assert (first.label, second.label) == ("a", "b")
    assert tagger.is_by_name(tagger.scores(x[:1]), "a")
    for number in range(8):
        tagger.learn(number, x[:1], [Entity("class_1", 0, 1)])
    assert not tagger.is_by_name(tagger.scores(x[:1]), ["class_1"])


def test_names_that_mislead_are_given_up_and_undo_is_exact():
    rng, width = np.random.default_rng(1), 100
    wrong, right = (LiveTopics(width, 1.0, ["a", "b"], names_of(names, width=width)) for names in ("ba", "ab"))
    for tagger in (wrong, right):
        before, gold = tagger.kinds.weight, {}
        for number in range(8):
            x = rng.normal(0, 0.085, (1, width)).astype(np.float32)
            x[0, number % 2] += 0.5
            gold[number] = [Entity("ab"[number % 2], 0, 1)]
            tagger.learn(number, x, gold[number])
        tagger.rescale(tagger.held_out([([n], [n]) for n in gold]), gold)
        for number in gold:
            tagger.forget(number)
        np.testing.assert_allclose(tagger.kinds.weight, before, atol=1e-8)
    assert wrong.scales.names < 1 <= right.scales.names


def test_a_label_that_is_added_is_suggested_by_its_name(tmp_path):
    with AnswerFile(tmp_path / "a.jsonl", TOPIC.answer).open() as file:
        found = read_whole(write(tmp_path / "m.txt", ["One.", "Two.", "Three."]), "auto")
        session = LabellingSession(found, file, ["a", "b"], manner=TOPIC, order="in-order")
        session.attach([0, 1, 2], text_vectors(0, 1, 2), start=names_of("ab"))
        shown = session.view()["sentence"]
        assert [e["label"] for e in shown["entities"]] == ["a"]
        assert shown["by_name"] is True and shown["sure"]
        session.answer(0, [Entity("a", 0, len(found[0].sentence))])
        session.add_label("c")
        session.begin(names_of("abc"))
        assert session.suggest(2)[0].label == "c"
        assert session.suggest(2)[0].score > 0.9
        fresh = LiveTopics(4, 1.0, ["a", "b", "c"], names_of("abc"))
        fresh.learn(0, session.pool.vectors(0), session.answers[0].entities)
        np.testing.assert_allclose(session.pool.scores(2), fresh.scores(session.pool.vectors(2)), atol=1e-5)


def test_easy_texts_of_each_topic_come_first(tmp_path):
    """In turn, and not the hard ones, which stand in front."""
    with AnswerFile(tmp_path / "a.jsonl", TOPIC.answer).open() as file:
        found = read_whole(write(tmp_path / "m.txt", [f"Text {n}." for n in range(14)]), "auto")
        session = LabellingSession(found, file, ["a", "b"], manner=TOPIC)
        hard, easy = np.full((6, 4), 0.5, np.float16), np.eye(4, dtype=np.float16)[[0, 0, 0, 0, 1, 1, 1, 1]]
        vectors = WordVectors(np.vstack([hard, easy]), np.arange(15))
        session.attach([*range(14)], vectors, start=names_of("ab"))
        shown = []
        for _ in range(6):
            shown.append(session.current)
            label = "a" if shown[-1] < 10 else "b"
            session.answer(shown[-1], [Entity(label, 0, len(found[0].sentence))])
        assert shown == [6, 10, 7, 11, 8, 12] and session.current < 6


def test_topics_are_suggested_before_anything_is_labelled(tmp_path):
    """What was described, too, and what is added; not in a language that the encoder does not read."""
    messages = [
        *(f"My parcel number {n} has not arrived yet." for n in range(4)),
        *(f"I was charged {n} euros twice by your shop." for n in range(2, 6)),
        *(f"Thank you, {name} was wonderful on the phone!" for name in ("Nina", "Omar", "Ida", "Paulo")),
        "Vielen Dank, das Paket ist gestern bei mir angekommen und alles war heil.",
    ]
    options = LabellingOptions(task="classify", labels=("delivery", "payment", "praise: thanks, a compliment"))
    means = parse_labels(options.labels)
    assert means["praise"] == "thanks, a compliment"
    with AnswerFile(tmp_path / "a.jsonl", TOPIC.answer).open() as file:
        found, note = read_whole(write(tmp_path / "m.txt", messages), "auto"), "one is German"
        session = LabellingSession(found, file, [*means][:2], manner=TOPIC, note=note, english=True)
        source = choose_source(None, options, DEFAULT_RUN, TOPIC, means=means)
        with Background(session, replace(source, cache=False)) as work:
            assert work.wait_ready(120)
            assert session.pool.vectors(0).shape == (1, 384)
            asked = [n for n in range(len(messages)) if n in session.pool]
            assert [session.suggest(n)[0].label for n in asked[:8]] == ["delivery"] * 4 + ["payment"] * 4
            assert session.suggest(len(messages) - 1) == ()
            with session.lock:
                session.add_label("praise")
            work.answered()
            until = time.monotonic() + 60
            while session.begun < 1:
                assert time.monotonic() < until
                time.sleep(0.05)
            assert {session.suggest(n)[0].label for n in asked[8:12]} == {"praise"}
            with session.lock:
                answer(session, ["delivery"])
                answer(session, ["payment"])
            assert session.suggest(len(messages) - 1) == ()  # no answer is in its language
            assert "--types praise" in work.command and "--encoder" not in work.command  # it is the default
