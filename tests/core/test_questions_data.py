"""Questions from JSON lines, SQuAD's JSON and dicts; answers that are not where they say."""

import json

import pytest

from boustro.tasks.data.named import guess_task
from boustro.tasks.data.texts import whole_text
from boustro.tasks.data.units import word_span
from boustro.tasks.questions.data import as_question, read_questions

CONTEXT = "Ada Brandt painted the “old” harbour 🏖️ in 1907. Nobody bought it."


def record(**changes):
    own = {"context": CONTEXT, "question": "When?", "answers": [{"text": "1907", "start": CONTEXT.index("1907")}]}
    return {key: value for key, value in (own | changes).items() if value is not ...}


def read(*records):
    return read_questions(list(records), notes=(notes := [])), notes


def test_offsets_count_characters_and_become_words(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(record()) + "\n\n" + json.dumps(record(answers=[]), ensure_ascii=False) + "\n")
    first, second = read_questions(path, notes=(notes := []))
    assert not notes and first.where == f"{path}:1" and second.where == f"{path}:3"
    ((start, end),) = first.spans
    assert first.context.words[start:end] == ("1907",) and first.answers == ("1907",)
    assert all(first.text[a:b] == word for (a, b), word in zip(first.places, first.context.words, strict=True))
    assert second.answers == () and second.spans == () and guess_task(path) == "qa"


def test_the_files_of_squad_and_of_data_sets_are_read(tmp_path):
    start = CONTEXT.index("Ada")
    qas = [
        {
            "id": "1",
            "question": "Who?",
            "answers": [{"text": "Ada Brandt", "answer_start": start}],
            "is_impossible": False,
        },
        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
    ]
    nested = {"version": "v2", "data": [{"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": qas}]}]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(nested, indent=1))
    who, why = read_questions(path)
    assert who.answers == ("Ada Brandt",) and why.answers == () and guess_task(path) == "qa"
    assert who.where == f"{path}:article 1, paragraph 1, question 1"
    assert read_questions(nested)[0].spans == who.spans == ((0, 2),)
    columns = record(answers={"text": ["Ada", "Ada Brandt"], "answer_start": [start, start]})
    assert read(columns)[0][0].spans == ((0, 1), (0, 2))


def test_an_answer_inside_a_word_covers_the_word():
    text = "It cost 12-15€ (“about”)."
    places = whole_text(text).places
    assert [text[places[i][0] : places[i][1]] for i in range(*word_span(places, 8, 10))] == ["12-15"]
    assert word_span(places, 2, 3) is None
    (question,), notes = read(record(answers=[{"text": " 1907 ", "start": CONTEXT.index("1907") - 1}]))
    assert not notes and question.answers == ("1907",)


def test_answers_that_moved_are_counted_and_refused_when_there_are_many(tmp_path):
    moved = record(answers=[{"text": "1907", "start": 3}])
    questions, notes = read(*[record()] * 19, moved)
    assert [str(note) for note in notes] == [
        "question 20 of the given data: the answer '1907' does not stand at 3, where the text is ' Bra'"
    ]
    assert questions[-1].answers == ("1907",) and questions[-1].spans == ()
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in [record(), moved] * 4))
    with pytest.raises(ValueError, match=r"4 of 8 answers that do not .* more than 5%.*q.jsonl:2: .*q.jsonl:6: .*; …$"):
        read_questions(path)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (record(question=...), "no text under 'question' \\(found: context, answers\\)"),
        (record(context=...), "no text under 'context'"),
        (record(context=" \n"), "the context is empty"),
        (record(question=""), "the question is empty"),
        (record(answers=...), "no answers under 'answers'"),
        (record(answers="1907"), "no answers under 'answers'"),
        (record(answers=[{"text": "1907"}]), "an answer is an object with text and start"),
        (record(answers=[{"text": "", "start": 0}]), "an answer is an object with text and start"),
        (record(answers=[{"text": "Ada", "start": -1}]), "offsets count characters from 0"),
        (record(context="Ada \ud800 left."), "half a character"),
        (["When?"], "expected an object with context, question and answers"),
    ],
)
def test_bad_records_say_what_is_wrong_and_where(bad, message):
    with pytest.raises(ValueError, match=f"question 2 of the given data: .*{message}"):
        read(record(), bad)


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="questions are expected"):
        read_questions(tmp_path / "none.jsonl")
    path = tmp_path / "q.jsonl"
    path.write_text("")
    with pytest.raises(ValueError, match="no questions"):
        read_questions(path)
    path.write_text('{"data": [{"paragraphs": 3}]}')
    with pytest.raises(ValueError, match="article 1: expected an object with a list under 'paragraphs'"):
        read_questions(path)
    path.write_text("{\n")
    with pytest.raises(ValueError, match=r"q.jsonl:1: not a JSON object"):
        read_questions(path)
    assert guess_task(path) != "qa"


def test_without_answers_pairs_are_read():
    pair = as_question(("When?", CONTEXT), "here")
    assert pair.answers is None and pair.question.words == ("When", "?") and as_question(pair, "here") is pair
    with pytest.raises(ValueError, match="here: expected an object with context and question, got 3"):
        as_question(3, "here")
