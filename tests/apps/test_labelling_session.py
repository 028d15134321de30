"""A labelling session: what is on the disk is what was answered, undo has no end, and the tagger learns and forgets."""

import json
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.label import answers as answers_module
from boustro.apps.label.answers import Annotation, AnswerFile, TopicAnswer
from boustro.apps.label.curve import measure_tagger, retrace
from boustro.apps.label.groups import GroupLabels, Mention, NameGroup, group_names
from boustro.apps.label.incremental import LiveTagger
from boustro.apps.label.session import LabellingSession, Stale
from boustro.apps.label.texts import TextToLabel, read_to_label, read_whole
from boustro.tasks.data import load_data
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions, named_in
from boustro.tasks.data.schemes import gold_entities
from boustro.types import Entity, Sentence
from children import finish, start
from labelling import answer, attach, on_disk, right, session_at, text, texts


def spans(entities):
    return {(e.label, e.start, e.end) for e in entities}


def test_what_stands_around_a_sentence_is_shown(tmp_path):
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = attach(LabellingSession(texts(6, 3), file, ["PER", "LOC"], order="in-order"))
        shown = []
        for _ in range(4):
            view = session.view()["sentence"]
            shown.append((view["before"], view["after"]))
            answer(session)
    whole = [" ".join(own.sentence.words) for own in texts(6)]
    assert shown == [("", whole[1]), (whole[0], whole[2]), (whole[1], ""), ("", whole[4])]
    alone = attach(LabellingSession(texts(3), AnswerFile(tmp_path / "others.jsonl"), order="in-order"))
    assert alone.view()["sentence"]["after"] == ""


def test_answers_are_learned_and_written_before_the_next_sentence(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        for count in range(1, 9):
            number = answer(session)
            assert on_disk(path)[-1]["words"] == list(session.texts[number].sentence.words)
            assert len(on_disk(path)) == count and session.current != number
        view = session.view()["sentence"]
        assert spans(session.suggest(view["number"])) == spans(right(session, view["number"]))
        assert view["entities"] and all(0.2 < e["score"] <= 1 for e in view["entities"])
        assert session.counts() == {"PER": 8, "LOC": 8} and session.words_answered == 32
    written = [{(e["label"], e["start"], e["end"]) for e in row["entities"]} for row in on_disk(path)]
    assert [spans(gold_entities(s)) for s in load_data(path).sentences] == written


def test_a_session_goes_on_where_it_ended(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        done = [answer(session, note=f"n{i}") for i in range(4)]
        session.skip(aside := session.current)
        session.add_label("ORG")
    with session_at(path, labels=()) as again:
        assert [*again.answers] == done and again.skipped == {aside}
        assert again.labels == ["PER", "LOC", "ORG"] or set(again.labels) == {"PER", "LOC", "ORG"}
        assert [a.note for a in again.answers.values()] == ["n0", "n1", "n2", "n3"]
        assert again.current not in {*done, aside}
        assert again.suggest(again.current) == session.suggest(again.current)
        for number in reversed(done):  # also over the restart
            again.undo()
            assert again.current == number
        assert on_disk(path) == []


def test_answers_to_other_texts_are_kept_and_learned(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        answer(session)
        answer(session)
    with AnswerFile(path).open() as file:
        other = attach(LabellingSession([text("Nobody reads .")], file))
        assert other.resumed == {"answers": 2, "elsewhere": 2} and set(other.tagger.learned) == {1, 2}
        other.answer(0, [])
    assert len(on_disk(path)) == 3


def test_skipped_sentences_of_other_texts_stay_skipped(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        session.skip(aside := session.current)
        key = session.texts[aside].key
    with AnswerFile(path).open() as file:
        other = attach(LabellingSession([text("Nobody reads ."), text("Nobody writes .")], file, ["PER"]))
        other.skip(other.current)
        assert len(file.read_beside().skipped) == 2
    with session_at(path) as again:
        assert again.skipped == {aside} and again.texts[aside].key == key


def test_of_equal_texts_each_is_one_of_its_own(tmp_path):
    """Skipped or answered, over a restart, in the file with a line more, and as a session without places has it."""
    path, same = tmp_path / "answers.jsonl", [text("Ada left .", n) for n in range(4)]
    with AnswerFile(path).open() as file:
        session = attach(LabellingSession(same, file, ["PER"]))
        session.show(2)
        session.skip(2)
        session.show(3)
        session.answer(3, [Entity("PER", 0, 1)])
    with AnswerFile(path).open() as file:
        again = attach(LabellingSession(same, file))
        assert again.skipped == {2} and [*again.answers] == [3] and not again.resumed["elsewhere"]
        again.undo()
        assert again.current == 3 and again.skipped == {2}
        again.redo()
        moved = attach(LabellingSession([text("It rained .", 0), *(text("Ada left .", n + 5) for n in range(4))], file))
        assert len(moved.skipped) == 1 and len(moved.answers) == 1 and not moved.resumed["elsewhere"]
        other = attach(LabellingSession([text("Ada left .", 9), text("Ada left .", 3)], file))
        assert [*other.answers] == [1] and other.skipped == {0}
        beside = json.loads(file.beside_path.read_text())
        beside["skipped"] = 2 * [key.split(" ")[0] for key in beside["skipped"]]
        file.beside_path.write_text(json.dumps(beside))
        assert attach(LabellingSession(same, file)).skipped == {0, 1}


@pytest.mark.parametrize("read", [read_to_label, read_whole])
def test_equal_sentences_of_one_line_have_places_of_their_own(tmp_path, monkeypatch, read):
    (tmp_path / "t.txt").write_text("It rained. It rained. Ada left.\nIt rained.\n")
    found = read(tmp_path / "t.txt", "text", DEFAULT_OPTIONS, True)
    wheres = [one.sentence.where.removeprefix(f"{tmp_path}/") for one in found]
    assert wheres == ["t.txt:1", "t.txt:1 (2)", "t.txt:1", "t.txt:2"]
    with AnswerFile(tmp_path / "a.jsonl").open() as file:
        LabellingSession(found, file)._set(1, None, skipped=True)
        assert LabellingSession(found, file).skipped == {1}
        monkeypatch.chdir(tmp_path)  # the same file by another path
        assert LabellingSession(read(Path("t.txt"), "text", DEFAULT_OPTIONS, True), file).skipped == {1}


def test_answers_that_another_program_wrote_are_not_overwritten(tmp_path):
    """The sibling of an unfinished file that is cut: the session holds all answers, and writes the file anew."""
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        answer(session)
        answer(session)
        before = path.read_bytes()
        path.write_bytes(before + before.splitlines(keepends=True)[0])  # an editor, or cat >>
        changed = path.read_bytes()
        with pytest.raises(ValueError, match="was changed by another program; end this session, and start it again"):
            answer(session)
        assert path.read_bytes() == changed and len(session.answers) == 2
        path.unlink()
        answer(session)  # nothing is lost
        assert len(on_disk(path)) == 3


class Model:
    """What a session should be, written down naively."""

    def __init__(self):
        self.answers, self.skipped, self.past, self.future = {}, set(), [], []

    def do(self, number, value):
        self.past.append((number, self.answers.get(number), number in self.skipped))
        self.put(number, value, value is None)

    def put(self, number, value, skipped):
        if value is None:
            self.answers.pop(number, None)
        else:
            self.answers[number] = value
        self.skipped.discard(number)
        if skipped:
            self.skipped.add(number)

    def turn(self, source, target):
        number, value, skipped = source.pop()
        target.append((number, self.answers.get(number), number in self.skipped))
        self.put(number, value, skipped)


STEPS = st.lists(st.sampled_from(["right", "none", "skip", "undo", "redo", "back", "ahead", "label"]), max_size=30)


@given(STEPS)
def test_any_sequence_of_steps_leaves_what_was_meant(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("session") / "answers.jsonl"
    model, used = Model(), {"PER", "LOC"}
    with session_at(path, number=6) as session:
        fresh = LabellingSession(texts(6), AnswerFile(path.with_name("fresh.jsonl")), ("PER", "LOC"))
        for name in steps:
            number = session.current
            if name in ("right", "none") and number is not None:
                value = right(session, number) if name == "right" else []
                session.answer(number, value)
                model.do(number, tuple(value))
                model.future.clear()
            elif name == "skip" and number is not None and number not in session.answers:
                session.skip(number)
                model.do(number, None)
                model.future.clear()
            elif name == "undo" and model.past:
                session.undo()
                model.turn(model.past, model.future)
            elif name == "redo" and model.future:
                session.redo()
                model.turn(model.future, model.past)
            elif name == "back":
                session.look_back()
            elif name == "ahead":
                session.look_ahead()
            elif name == "label":
                used.add(session.add_label(f"L{len(used)}"))
            assert {n: a.entities for n, a in session.answers.items()} == model.answers
            assert session.skipped == model.skipped and set(session.tagger.learned) == set(model.answers)
            assert (len(session.past), len(session.future)) == (len(model.past), len(model.future))
        rows = on_disk(path) if path.exists() else []
        assert [r["words"] for r in rows] == [list(a.sentence.words) for a in session.answers.values()]
        # The tagger is as if it had only ever seen the answers that are left.
        for label in session.labels[2:]:
            fresh.labels.append(label)
        attach(fresh)
        for number, own in session.answers.items():
            fresh.pool.update(*fresh.tagger.learn(number, fresh.pool.vectors(number), own.entities))
        for number in range(6):
            np.testing.assert_allclose(session.pool.scores(number), fresh.pool.scores(number), atol=2e-3)
            own, other = (one.pool._places[number][0].leverage for one in (session, fresh))
            np.testing.assert_allclose(own, other, rtol=2e-2, atol=1e-2)


def test_an_undone_answer_is_shown_again_and_an_edit_keeps_its_place(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        first, second = answer(session), answer(session)
        session.undo()
        view = session.view()["sentence"]
        assert view["number"] == second and view["is"] == "undone"
        assert {e["label"] for e in view["entities"]} == {"PER", "LOC"}
        session.redo()
        session.look_back()
        session.look_back()
        assert session.view()["sentence"]["is"] == "answered" and session.current == first
        session.answer(first, [], "empty after all")
        assert [row["note"] for row in on_disk(path)] == ["empty after all", ""]
        assert session.current not in (first, second)
        session.undo()
        assert session.current == first and len(session.answers[first].entities) == 2
        session.look_ahead()
        session.look_ahead()
        assert session.view()["sentence"]["is"] == "suggested"


def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        number = session.current
        wrong = {
            "outside the 4 words": [Entity("PER", 0, 5)],
            "no label 'X'": [Entity("X", 0, 1)],
            "overlap": [Entity("PER", 0, 2), Entity("LOC", 1, 3)],
        }
        for message, entities in wrong.items():
            with pytest.raises(ValueError, match=message):
                session.answer(number, entities)
        with pytest.raises(Stale):
            session.answer(number + 1, [])
        with pytest.raises(ValueError, match="nothing to undo"):
            session.undo()
        with pytest.raises(ValueError, match="nothing to do again"):
            session.redo()
        for name in ("", "  ", "O", "a\tb", "x" * 61, "PER"):
            with pytest.raises(ValueError, match=r"is no label|already"):
                session.add_label(name)
        assert session.current == number and not session.answers and not path.exists()


def test_nothing_changes_where_the_disk_is_full(tmp_path, monkeypatch):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        answer(session)
        before, number = path.read_bytes(), session.current

        def full(*given):
            raise OSError(28, "No space left on device", str(path))

        monkeypatch.setattr(answers_module, "write_file", full)
        for act in (answer, lambda s: s.skip(number), LabellingSession.undo, lambda s: s.add_label("N")):
            with pytest.raises(OSError, match="No space"):
                act(session)
        assert path.read_bytes() == before and session.current == number and len(session.answers) == 1
        assert not session.skipped and session.labels == ["PER", "LOC"] and len(session.past) == 1


def test_nested_entities_are_kept_where_they_are_allowed(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path, nested=True) as session:
        session.answer(session.current, [Entity("PER", 0, 3), Entity("LOC", 2, 3), Entity("PER", 2, 3)])
        answer(session)
        exported, notes = session.file.export_conll([*session.answers.values()])
        assert len(notes) == 2
    (read, _) = load_data(path).sentences
    assert len(read.entities) == 3 and read.tags == ("B-PER", "I-PER", "I-PER", "O")
    assert load_data(exported).sentences[0].tags == read.tags


def test_right_to_left_wide_and_hostile_words_come_back(tmp_path):
    path = tmp_path / "answers.jsonl"
    lines = [
        "زار أحمد القاهرة",
        "日本 東京 に 行く",
        "<script>alert(1)</script> & 'x' \"y\"",
        "👩‍👩‍👧 \u202eevil a\u0301",
    ]
    given = [text(line, n) for n, line in enumerate(lines)]
    with AnswerFile(path).open() as file:
        session = attach(LabellingSession(given, file, ["<b>"], order="in-order"))
        for number in range(4):
            session.answer(number, [Entity("<b>", 0, 1)], note="<i>")
    assert [" ".join(s.words) for s in load_data(path).sentences] == lines
    with AnswerFile(path).open() as file:
        assert len(LabellingSession(given, file).answers) == 4


def test_one_label_and_no_labels(tmp_path):
    with session_at(tmp_path / "one.jsonl", labels=("PER",)) as session:
        for _ in range(6):
            number = session.current
            session.answer(number, [e for e in right(session, number) if e.label == "PER"])
        assert {e.label for e in session.suggest(session.current)} == {"PER"}
    with session_at(tmp_path / "none.jsonl", labels=()) as session:
        assert session.view()["sentence"]["entities"] == []
        session.answer(session.current, [])
        assert session.suggest(session.current) == ()
        session.add_label("PER")
        session.answer(session.current, [Entity("PER", 0, 1)])


def test_orders(tmp_path):
    with session_at(tmp_path / "a.jsonl", order="in-order") as session:
        assert [answer(session) for _ in range(12)] == list(range(12)) and session.current is None
        session.undo()
        assert session.current == 11
    odd = [*texts(12), text("Quokka zebra yak xylophone")]
    with AnswerFile(tmp_path / "b.jsonl").open() as file:
        session = attach(LabellingSession(odd, file, ["PER", "LOC"], order="diverse"))
        seen = [answer(session) for _ in range(9)]
        assert session.current == 12 or 12 in seen
        with pytest.raises(ValueError, match="known are uncertain"):
            session.set_order("uncertian")


def test_skipped_sentences_come_back_when_asked_for(tmp_path):
    with session_at(tmp_path / "a.jsonl", number=3) as session:
        for _ in range(3):
            session.skip(session.current)
        assert session.current is None and session.view()["sentence"] is None
        session.restore_skipped()
        assert session.current is not None and not session.skipped


@pytest.mark.parametrize("sync_number", [1, 2, 5, 6])
def test_kill_9_loses_at_most_the_sentence_on_the_screen(tmp_path, sync_number):
    path = tmp_path / "answers.jsonl"
    assert finish(start(answer_until_killed, None, tmp_path / "errors", str(path), sync_number)) == -signal.SIGKILL
    told = (tmp_path / "told").read_text().split() if (tmp_path / "told").exists() else []
    rows = on_disk(path) if path.exists() else []
    assert len(told) <= len(rows) <= len(told) + 1, (tmp_path / "errors").read_text()
    with session_at(path) as again:
        assert len(again.answers) == len(rows)
        answer(again)
    assert len(on_disk(path)) == len(rows) + 1
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".staging")]


def answer_until_killed(path, number):
    from pathlib import Path

    from children import killed_in_sync

    killed_in_sync(number)
    with session_at(Path(path)) as session:
        for _ in range(12):
            shown = answer(session)
            with Path(path).with_name("told").open("a") as told:
                told.write(f"{shown}\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not a JSON object"),
        ('{"words": ["a"], "tags": ["O"]}', "not an answer that boustro label wrote"),
        ('{"words": ["a"], "entities": [[0, 2, "X"]], "source": ""}', "outside the 1 word"),
        ('{"words": ["a"], "entities": [[0, 1, "O"]], "source": ""}', "is no label"),
        ('{"words": ["a"], "spaces": [], "entities": [], "source": ""}', "spaces must be"),
        ('{"words": ["a"], "entities": [], "source": "", "label": 7}', "has 'label', which boustro label does not"),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path, line, message):
    path = tmp_path / "answers.jsonl"
    path.write_text(f"{line}\n")
    with AnswerFile(path).open() as file, pytest.raises(ValueError, match=f"answers.jsonl:1: .*{message}"):
        LabellingSession(texts(), file)
    assert path.read_text() == f"{line}\n"


@pytest.mark.parametrize(("read", "kind"), [(read_to_label, Annotation), (read_whole, TopicAnswer)])
def test_the_other_columns_of_a_row_stand_beside_its_answer(tmp_path, read, kind):
    """Under names that no reader of labelled data takes for labels; after a restart, too."""
    path, file = tmp_path / "a.csv", AnswerFile(tmp_path / "out.jsonl", kind)
    path.write_text(',id, pad ,message,label,text\n0,7,x,"Ada\nleft",gold,other\n\n1,8,y,Eve slept,,\n')
    shown = read(path, "auto", DataOptions(text_column=("message",)))
    assert [text.sentence.where for text in shown] == [f"{path}:2", f"{path}:4"]  # as a spreadsheet counts
    answers = [kind.of(text, (Entity("x", 0, 2),), "") for text in shown]
    file.read()
    file.write(answers)
    first = json.loads(file.path.read_text().splitlines()[0])
    assert [first[key] for key in ("", "id", " pad ", "row_label", "row_text")] == ["0", "7", "x", "gold", "other"]
    assert first["text"] == "Ada\nleft" and first.get("label", "x") == "x"
    assert list(first)[-6:] == ["", "id", " pad ", "row_label", "row_text", "text_column"]
    assert named_in(file.path) == {"text_column": ["message"]}  # which fit keeps
    assert [answer.line for answer in file.read()] == [answer.line for answer in answers]


def test_held_out_scores_are_those_of_training_without_the_sentence(tmp_path):
    with session_at(tmp_path / "a.jsonl") as session:
        done = [answer(session) for _ in range(6)]
        parts = done[:1], done[1:3], done[3:]  # alone, and in groups
        scores = session.tagger.held_out((part, part) for part in parts)
        for number in done:
            rest = session.tagger.without(next(own for own in parts if number in own))
            np.testing.assert_allclose(scores[number], rest.scores(session.pool.vectors(number)), atol=1e-4)
        assert set(session.tagger.learned) == set(done)


def test_the_curve_does_not_know_a_sentence_by_its_copy(tmp_path):
    """Names that say nothing of their types, each sentence twice."""
    rng = np.random.default_rng(0)
    with session_at(tmp_path / "a.jsonl") as session:
        live, answers = session.tagger.snapshot(), {}
        for n in range(40):
            entities = (Entity(session.labels[n // 2 * 7 % 5 % 2], 0, 1),)
            answers[n] = Annotation(Sentence((f"name{n // 2}",)), entities)
        own = rng.normal(size=(20, session.pool.vectors(0).shape[1])).astype(np.float32)
        for n, given in answers.items():
            live.learn(n, own[n // 2][None], given.entities)
    assert measure_tagger(live, answers).f1 < 70


def test_the_curve_of_a_resumed_session_is_that_of_the_session(tmp_path):
    with session_at(tmp_path / "a.jsonl", order="in-order") as session:
        points = []
        for _ in range(12):
            answer(session)
            if len(session.answers) in (4, 5, 6, 8, 10, 12):
                points.append(measure_tagger(session.tagger.snapshot(), session.answers))
        again = [*retrace(session.tagger.snapshot(), session.answers)]
        assert [p.sentences for p in again] == [4, 5, 6, 8, 10, 12] and again == points
        assert again[-1].f1 > again[0].f1


def test_a_prior_is_what_is_suggested_before_the_first_answer_and_corrected_after_it():
    live, words = LiveTagger(4, 4.0, ["PER", "LOC"]), np.eye(4, dtype=np.float32)[:2]
    prior = np.array([[0.9, 0.9, 0.1], [0.1, 0.5, 0.5]], np.float32)
    sentence = Sentence(("Ada", "left"))
    assert spans(live.decode(live.scores(words) + prior, [sentence])[0]) == {("PER", 0, 1)}
    for number in range(3):
        live.learn(number, words, [Entity("LOC", 0, 1)], prior)
    assert spans(live.decode(live.scores(words) + prior, [sentence])[0]) == {("LOC", 0, 1)}


def test_few_answers_that_are_all_right_are_no_certainty():
    """A wrong type at "100%" after ten answers: scores that tell all of them apart grew to the largest scale."""
    tagger = LiveTagger(4, 4.0, ["PER", "LOC"])
    scales = []
    for number in (10, 1000):
        name, outside = [0.9, 0.7, 0.3], [0.1, 0.5, 0.5]
        held_out = {n: np.array([name[:1] + name[1:][:: (1, -1)[n % 2]], outside]) for n in range(number)}
        tagger.rescale(held_out, {n: [Entity(("PER", "LOC")[n % 2], 0, 1)] for n in held_out})
        scales.append(tagger.scales)
    few, many = scales
    assert few.inside < 16 < many.inside and few.kind < 16 < many.kind


def test_an_entity_is_no_surer_than_its_end():
    """[Ada] Okonkwo left: whether Okonkwo belongs to the name is open, so it is open whether Ada is one."""
    tagger = LiveTagger(4, 4.0, ["PER"])
    (entity,) = tagger.decode(np.array([[1.0, 1], [0.45, 0], [0, 0]]), [Sentence(("Ada", "Okonkwo", "left"))])[0]
    (alone,) = tagger.decode(np.array([[1.0, 1], [0, 0], [0, 0]]), [Sentence(("Ada", "Okonkwo", "left"))])[0]
    assert (entity.start, entity.end) == (alone.start, alone.end) == (0, 1)
    assert entity.score < 0.75 < 0.9 < alone.score


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), {("", 0, 1, 0.5), ("LOC", 2, 4, 0.9)}),
        ((("PER", ("Ada",)),), {("PER", 0, 1, None), ("LOC", 2, 4, 0.9), ("PER", 5, 6, None)}),
        ((("", ("Port Lisse", "Ada")),), set()),
        ((("", ("Ada",)), ("PER", ("Ada", "Port"))), {("PER", 0, 1, None), ("LOC", 2, 4, 0.9), ("PER", 5, 6, None)}),
        ((("ORG", ("Lisse , Ada", "Lisse", "Ada")), ("", ("Port Lisse",))), {("ORG", 0, 1, None), ("ORG", 3, 6, None)}),
    ],
)
def test_what_is_told_of_names_holds_wherever_they_stand(steps, expected):
    words = ("Ada", "left", "Port", "Lisse", ",", "Ada")
    suggested = [Entity("", 0, 1, score=0.5), Entity("LOC", 2, 4, score=0.9)]
    assert {(e.label, e.start, e.end, e.score) for e in GroupLabels(steps).apply(words, suggested)} == expected


def test_names_are_told_in_groups_and_taken_back_also_after_a_restart(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        assert session.groups() == []
        for _ in range(6):
            answer(session)
        left = [n for n in range(12) if n not in session.answers]
        words = Counter(w for n in left for w in session.texts[n].sentence.words if w[0].isupper())
        assert sum(group.mentions for group in session.groups()) == words.total()
        before = [spans(session.suggest(n)) for n in left]
        session.label_group(["Ada", "Brandt"], "LOC")
        session.label_group(["Vellmar"], "")
        assert {"Ada", "Brandt", "Vellmar"}.isdisjoint(name for group in session.groups() for name in group.names)
        with pytest.raises(ValueError, match="no label 'ORG'"):
            session.label_group(["Ada"], "ORG")
    with session_at(path) as again:
        found = {again.texts[n].sentence.words[e.start]: e.label for n in left for e in again.suggest(n)}
        assert "Vellmar" not in found and {found.get(name) for name in ("Ada", "Brandt")} <= {"LOC", None}
        again.undo_group()
        again.undo_group()
        assert [spans(again.suggest(n)) for n in left] == before
        beside = json.loads(again.file.beside_path.read_text())
        assert beside["groups"] == []
        with pytest.raises(ValueError, match="no group"):
            again.undo_group()
        for damaged in (None, ["PER"], [["PER", "Ada"]], [[1, ["Ada"]]]):
            again.file.beside_path.write_text(json.dumps(beside | {"groups": damaged}))
            with pytest.raises(ValueError, match="damaged; remove it"):
                again.file.read_beside()


def test_a_rejected_name_is_suggested_nowhere_and_learned_by_nobody(tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path, order="in-order") as session:
        for _ in range(6):
            answer(session)
        held = [n for n in session.answers if "Ada" in session.texts[n].sentence.words]
        assert held and all(any(e.label == "PER" for e in session.answers[n].entities) for n in held)
        before = path.read_bytes()
        session.label_group(["Ada"], "")
        assert session.view()["cleaned"] == len(held)
        session.undo_group(["Ada"])
        assert path.read_bytes() == before
        session.label_group(["Ada"], "")
        session.label_group(["Brandt"], "LOC")
        session.undo_group(["Brandt"], "LOC")
        while session.past:  # neither undo nor redo brings it back
            session.undo()
        while session.future:
            session.redo()
    with session_at(path, order="in-order") as again:
        while again.current is not None:
            words = again.texts[again.current].sentence.words
            assert "Ada" not in {words[e["start"]] for e in again.view()["sentence"]["entities"]}
            again.answer(again.current, [e for e in right(again, again.current) if words[e.start] != "Ada"])
    tags = {tag for s in load_data(path).sentences for w, tag in zip(s.words, s.tags, strict=True) if w == "Ada"}
    assert tags == {"O"}


def test_a_mark_after_a_rejection_is_an_answer(tmp_path):
    with session_at(tmp_path / "answers.jsonl", order="in-order") as session:
        session.label_group(["Ada"], "")
        answer(session)
        session.label_group(["Brandt"], "")
        assert [e.start for e in session.answers[0].entities] == [0, 2]
        with pytest.raises(ValueError, match="no group"):
            session.undo_group(["Ada"], "PER")


def test_names_that_are_alike_are_one_group():
    vectors = {"Ghent": [1, 0.1], "Utrecht": [0.9, 0.2], "Ada": [0, 1.0]}
    named = ["Utrecht", "Ghent", "Ada", "Ghent"]
    found = group_names([Mention(name, "" if name == "Ada" else "LOC", np.array(vectors[name])) for name in named])
    assert found == [NameGroup(["Ghent", "Utrecht"], 3, "LOC"), NameGroup(["Ada"], 1, "")]
    assert group_names([]) == []


def test_the_labelling_page_gets_words_as_they_are_written(tmp_path):
    given = [text(" ".join(words)) for words in ([*"艾达在"], ["نعم", "،", "ليسة"])]
    given.append(TextToLabel(Sentence(tuple("艾达"), spaces=(True, True))))
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = attach(LabellingSession(given, file, ["PER"], order="in-order"))
        for gaps in ([" ", "", ""], [" ", " ", " "], [" ", " "]):
            number = session.current
            assert session.view()["sentence"]["gaps"] == gaps
            session.answer(number, [Entity("PER", 0, 1)])
    found = [json.loads(line)["words"] for line in (tmp_path / "answers.jsonl").read_text("utf-8").splitlines()]
    assert found == [list(t.sentence.words) for t in given]
