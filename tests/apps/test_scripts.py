"""Text without spaces, from right to left and without capitals: words, sentences, alignment, pages, reports."""

import json
from pathlib import Path

import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.cli.weak import Gazetteer
from boustro.apps.label.answers import AnswerFile
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.texts import TextToLabel
from boustro.tasks.render import as_html, word_entities
from boustro.text.alignment import Aligner, guess_spaces
from boustro.text.tokenizers import load_tokenizer, save_tokenizer, train_tokenizer
from boustro.text.words import apart, join_words, split_text
from boustro.types import Entity, Sentence
from labelling import attach, text

CHINESE = "艾达在利塞港工作。她坐7路Bus去上班！“今天下雨。”他说。"
ARABIC = "سافرت ليلى إلى ميناء ليسة. هل وصلت اليوم؟ نعم، وصلت مساءً."


def words_of(text):
    return [list(placed.sentence.words) for placed in split_text(text)]


def test_chinese_is_split_into_characters_and_sentences():
    assert words_of(CHINESE) == [
        [*"艾达在利塞港工作。"],
        [*"她坐", "7", "路", "Bus", *"去上班！"],
        [*"“今天下雨。”"],
        [*"他说。"],
    ]
    assert words_of("東京タワーへ行く。") == [["東", "京", "タワー", "へ", "行", "く", "。"]]
    for placed in split_text(CHINESE):
        assert tuple(CHINESE[slice(*place)] for place in placed.places) == placed.sentence.words


def test_arabic_sentences_end_without_capitals():
    assert [own[-1] for own in words_of(ARABIC)] == [".", "؟", "."] and words_of(ARABIC)[2][:2] == ["نعم", "،"]
    assert words_of("He left. then slept.") == [["He", "left", ".", "then", "slept", "."]]  # lower case goes on


def test_spaces_that_nobody_gave():
    assert guess_spaces([*"艾达在"]) == [True, False, False]
    assert guess_spaces(["她", "坐", "Bus", "去"]) == [True, False, True, True]
    assert guess_spaces(["نعم", "،", "وصلت"]) == [True, False, True]
    assert apart([*"利塞"]) == [True, False] and apart(["Ada", "."]) == [True, True]
    assert join_words([*"利塞港"]) == "利塞港" and join_words(["Port", "Lisse"]) == "Port Lisse"
    assert word_entities([*"在利塞"], [Entity("LOC", 1, 3)]) == ("在利塞", [Entity("LOC", 1, 3, "利塞")])
    assert word_entities(["Ada", "left"], [Entity("PER", 0, 1)]) == ("Ada left", [Entity("PER", 0, 3, "Ada")])


@pytest.mark.parametrize("text", [CHINESE, ARABIC])
def test_words_and_pieces_agree_with_the_running_text(text, tmp_path):
    save_tokenizer(train_tokenizer([text] * 20, 300), tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    for placed in split_text(text):
        own = placed.sentence
        (pieces,) = Aligner(tokenizer).align([(own.words, own.spaces)])
        assert tokenizer.decode(pieces.ids).strip() == text[placed.places[0][0] : placed.places[-1][1]]
        parts = [
            tokenizer.decode(pieces.ids[a:b]).strip() for a, b in zip(pieces.bounds, pieces.bounds[1:], strict=False)
        ]
        assert parts == list(own.words)


def test_a_gazetteer_finds_names_inside_chinese_text():
    (found,) = Gazetteer([("利塞", "LOC"), ("利塞港", "LOC")]).entities(CHINESE)
    assert (found.text, found.start) == ("利塞港", 3)


LABELLED = {
    "chinese": [
        {"text": "艾达在利塞港。", "entities": [[0, 2, "PER"], [3, 6, "LOC"]]},
        {"text": "今天下雨。", "entities": []},
    ],
    "arabic": [
        {"text": "سافرت ليلى إلى ليسة.", "entities": [[6, 10, "PER"], [15, 19, "LOC"]]},
        {"text": "نعم، وصلت مساءً.", "entities": []},
    ],
}


@pytest.mark.parametrize("language", LABELLED)
def test_a_tagger_its_pages_and_its_report(language, tiny_pair, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = LABELLED[language]
    Path("train.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows * 4), "utf-8")
    how = ["--encoders", tiny_pair, *"--train train.jsonl --dev train.jsonl --seeds 1 --vary epochs=1,20".split()]
    assert main(["compare", *how, "--epochs", "20", "--hidden", "32", "--out", "study"]) == 0
    report = Path("study/report.html").read_text("utf-8")
    assert "<dd dir=auto>" in report and ("艾达" if language == "chinese" else "ليلى") in report.partition("<script")[0]
    cells = sorted(
        Path("study/cells").iterdir(), key=lambda c: json.loads((c / "scores.json").read_text())["dev"]["value"]
    )
    cell = cells[-1]
    tagger = boustro.Tagger.from_pretrained(cell / "trained")
    line = rows[0]["text"]
    found = tagger.predict(line)
    assert [[e.start, e.end, e.label] for e in found] == rows[0]["entities"]
    assert all(line[e.start : e.end] == e.text for e in found)
    words = Sentence(tuple(words_of(line)[0]))
    assert [e.text for e in tagger.predict([words])[0]] == [e.text for e in found]
    Path("texts.txt").write_text(line + "\n", "utf-8")
    capsys.readouterr()
    assert main(["predict", str(cell / "trained"), "texts.txt", "--format", "html"]) == 0
    shown = capsys.readouterr().out
    assert f"<p dir=auto>{as_html(line, found)}</p>" in shown


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
