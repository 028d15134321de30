"""The note on texts in another language, which is silent on English, names, code and lists of products."""

import pytest

from boustro.text.languages import foreign_note, language_of

GERMAN = "Ich bin mit der Lieferung nicht zufrieden."


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (GERMAN, "German"),
        ("La entrega llegó muy tarde y no estoy contento con el servicio.", "Spanish"),
        ("Je ne suis pas content de cette livraison.", "French"),
        ("Nem vagyok elégedett, és ez a csomag még mindig nem jött meg.", "Hungarian"),
        ("商品はまだ届いていません。", "Japanese"),
        ("Посилка ще не прийшла.", "Russian or another language in Cyrillic letters"),
        ("The parcel came late and the box was broken.", None),
        ("Ludwig van Beethoven, Oscar de la Renta, Ursula von der Leyen", None),
        ("Great!", None),
        ("def main(argv: list[str]) -> int: return len(argv)", None),
        ("Dyson V11, Bosch Akku GSR 12V-15, IKEA Billy", None),
        ("", None),
    ],
)
def test_the_language_is_told_by_script_and_function_words(text, language):
    assert language_of(text) == language


def test_a_note_counts_the_texts_in_another_language():
    assert foreign_note([GERMAN] * 3 + ["The box was broken."] * 3).startswith("3 of 6 texts look German; the package")
    assert foreign_note([GERMAN] + ["The box was broken."] * 30) == ""
    assert foreign_note([]) == ""


def test_nothing_is_suggested_in_another_language_before_there_are_answers(tmp_path):
    from boustro.apps.label.answers import SPANS, AnswerFile
    from boustro.apps.label.session import Session
    from boustro.apps.label.texts import Text, whole_sentence

    texts = [Text(whole_sentence(text, f"t:{n}"), None, text) for n, text in enumerate((GERMAN, "The box was broken."))]
    with AnswerFile(tmp_path / "answers.jsonl", SPANS.answer).open() as file:
        session = Session(texts, file, ["PER"], note="1 of 2 texts look German")
        assert session.view()["note"] == "1 of 2 texts look German"
        assert [session._is_unread(n) for n in (0, 1)] == [True, False]
        session.note = ""
        assert not session._is_unread(0)
