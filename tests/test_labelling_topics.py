"""Topics of whole texts on the page: one label or several, on the disk before the next, learned at once, saved."""

import json
import time

import numpy as np
import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.label.answers import SPANS, TOPIC, TOPICS, AnswerFile, held_task, manner_of
from boustro.apps.label.background import Background, folder_beside, make_source, next_command
from boustro.apps.label.command import LabellingOptions
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.taggers import measure
from boustro.apps.label.texts import read_whole
from boustro.options import OptionError
from boustro.output import DEFAULT_RUN
from boustro.tasks.data.reading import DEFAULT_OPTIONS
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
        point = measure(session.tagger, session.answers)
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
    with (
        AnswerFile(path, TOPIC.answer).open() as file,
        pytest.raises(ValueError, match=r"a.jsonl:1: no label; .* --several"),
    ):
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
    write(tmp_path / "m.conll", ["Ada B-PER"])
    with pytest.raises(ValueError, match=r"m\.conll: words in columns; texts are expected"):
        read_whole(tmp_path / "m.conll", "auto")


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
        words = [
            "label",
            str(tmp_path / "m.txt"),
            "--task",
            "classify",
            "--out",
            str(out),
            "--port",
            "0",
            "--no-browser",
        ]
        assert main([*words, *given]) in (1, 2), message


@pytest.mark.parametrize("several", [False, True])
def test_a_session_leaves_a_classifier_and_its_command(tmp_path, tiny_pair, several):
    out, messages = tmp_path / "topics.jsonl", write(tmp_path / "m.txt")
    manner = manner_of("classify", several, out)
    options = LabellingOptions(task="classify", epochs=3, labels=("delivery,billing",))
    assert options.labels == ("delivery", "billing")
    with AnswerFile(out, manner.answer).open() as file:
        session = LabellingSession(read_whole(messages, "auto"), file, options.labels, manner=manner)
        source = make_source(tiny_pair, options, DEFAULT_RUN, manner)
        with Background(session, source) as work:
            assert work.wait_ready(60)
            with pytest.raises(ValueError, match="answer a text first"):
                work.best_tagger()
            for _ in range(11):
                with session.lock:
                    answer(session)
                work.answered()
            model, what = work.best_tagger()
            assert isinstance(model, boustro.Classifier) and what == f"{manner.saved_head}, 11 answers"
            work.start_finishing()
            until = time.monotonic() + 120
            while work.finishing:
                assert time.monotonic() < until
                time.sleep(0.05)
            assert not work.finish_problem and work.finished.sentences == 11
            command = next_command(messages, LabellingOptions(), DEFAULT_OPTIONS, session, work)
    model.save(folder_beside(out, "classify"))
    assert (tmp_path / "topics-classifier").is_dir()
    assert folder_beside(out, "classify").name == "topics-classifier-2"
    assert boustro.load(tmp_path / "topics-classifier").predict("The parcel is late!").label in ("billing", "delivery")
    words = command.split()
    assert words[:4] == ["boustro", "fit", "--train", str(out)] and words[-1].endswith("topics-classifier")
    assert "--epochs" in words and "--documents" not in words
    assert main([*words[1:-1], str(tmp_path / "fitted"), "--cross-validate", "0"]) == 0
    assert isinstance(boustro.load(tmp_path / "fitted"), boustro.Classifier)
