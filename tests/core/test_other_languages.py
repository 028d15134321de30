"""Which language a text is in, and what is said of one that nothing learned."""

import warnings

import pytest

from boustro import Classifier
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
        ("Wann kommt mein Paket?", "German"),
        ("Die Rechnung ist falsch.", "German"),
        ("Er wurde in Vellmar geboren.", "German"),
        ("Das Gerät läuft nicht mehr.", "German"),
        ("KANN ICH DAS ZURÜCKSCHICKEN?", "German"),
        ("Où est ma commande ?", "French"),
        ("¿Cuándo llega mi pedido?", "Spanish"),
        ("He works for Die Zeit in Berlin.", None),
        ("MIT, PER and ES are in the list of K S V", None),
        ("i m downloading mine right now", None),
        ("set a ten second timer", None),
        ("x = [K, S, V]; z = o | a", None),
        ("என் பார்சல் எங்கே?", "Tamil"),
        ("আমার টাকা ফেরত দিন", "Bengali"),
        ("სად არის ჩემი ამანათი?", "Georgian"),
        ("ፓኬጄ የት ነው", "Ethiopic"),
        ("Да", "Russian or another language in Cyrillic letters"),
        ("𝐁𝐨𝐥𝐝 𝐭𝐞𝐱𝐭 𝐡𝐞𝐫𝐞, x ∈ ℝ", None),
        (r"¯\_(ツ)_/¯", None),
        ("Der Akku ist nach einer Stunde leer.", "German"),
        ("Jemand anderes benutzt meinen Zugang.", "German"),
        ("Đơn hàng của tôi chưa đến.", "Vietnamese"),
        ("Moj paket još nije stigao.", "Croatian, Bosnian or Serbian"),
        ("Nire paketea ez da iritsi oraindik.", "Basque"),
        ("Hvornår kommer min pakke, og hvor er den nu?", "Danish"),
        ("Le m pake pa m poko rive?", "another language"),
        ("بسته من هنوز نرسیده است", "Persian"),
        ("میرا پارسل ابھی تک نہیں آیا", "Urdu"),
        ("طردي لم يصل بعد", "Arabic"),
        ("सामान कब आएगा?", "Hindi or another language in its letters"),
        ("MONTE CARLO 4, PORT LISSE 2", None),
        ("Ana Ruiz b Muralitharan 22", None),
        ("@ada_b #vellmar https://example.org/ab/cd", None),
    ],
)
def test_the_language_is_told_by_script_and_function_words(text, language):
    assert language_of(text) == language


def test_a_note_counts_the_texts_in_another_language():
    assert foreign_note([GERMAN] * 3 + ["The box was broken."] * 3).startswith("3 of 6 texts look German; the package")
    assert foreign_note([GERMAN] + ["The box was broken."] * 30) == ""
    assert foreign_note([]) == ""
    unnamed = "Le m pake pa m poko rive?"
    assert language_of(unnamed) == "another language"
    assert foreign_note([unnamed, GERMAN, unnamed]).startswith("3 of 3 texts are not in English; the package")


def test_names_alone_answer_none_in_another_language(monkeypatch):
    """Nor do such texts move the names; what is left out is counted, and said once."""
    monkeypatch.setattr("boustro.text.languages.languages_file", lambda: None)
    names, english = ["delivery", "payment"], [f"My parcel number {n} is late." for n in range(6)]
    english += [f"I was charged {n} euros twice." for n in range(2, 8)]
    alone = Classifier.from_labels(names, english)
    beside = Classifier.from_labels(names, [*english, *[GERMAN, "Wo ist mein Geld geblieben?", "என் பார்சல் எங்கே?"] * 9])
    assert beside.record["unlabelled"] == len(english)
    assert (alone.fitted.head.body.weight == beside.fitted.head.body.weight).all()
    with pytest.warns(UserWarning, match="1 of 13 texts look German; such texts have no label"):
        answers = beside.predict([*english, GERMAN])
    assert (answers[-1].label, answers[-1].score) == ("", 0.0)
    assert all(answer.label for answer in answers[1:6])
    several = Classifier.from_labels(names, english, several=True)
    with pytest.warns(UserWarning, match="no label"):
        assert several.predict([GERMAN])[0].labels == ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Classifier.from_labels(names, english, none=0).predict(GERMAN).label
