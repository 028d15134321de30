"""The note on texts in another language, which is silent on English, names, code and lists of products."""

import json
import warnings

import pytest

import boustro
from boustro import Classifier, Tagger
from boustro.apps.cli.main import main
from boustro.apps.live.redactor import Redactor
from boustro.text.languages import foreign_note, language_of
from boustro.types import Sentence
from children import CONTEXT

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
    ],
)
def test_the_language_is_told_by_script_and_function_words(text, language):
    assert language_of(text) == language


def test_a_note_counts_the_texts_in_another_language():
    assert foreign_note([GERMAN] * 3 + ["The box was broken."] * 3).startswith("3 of 6 texts look German; the package")
    assert foreign_note([GERMAN] + ["The box was broken."] * 30) == ""
    assert foreign_note([]) == ""


def test_predict_redact_and_streams_say_once_that_they_do_not_read_a_language(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("boustro.apps.live.redactor._opened", {})  # as in a process of its own
    (tmp_path / "a.txt").write_text(f"{GERMAN}\nThe box was broken.\n")
    (tmp_path / "e.txt").write_text("The box was broken.\n")
    said = "of 2 texts look German; the package's models read English"
    for words in (["predict", "starter-names"], ["redact"]):
        assert main([*words, str(tmp_path / "a.txt")]) == 0
        assert capsys.readouterr().err.count(f"note: 1 {said}") == 1
    assert main(["predict", "starter-names", str(tmp_path / "e.txt")]) == 0
    assert main(["predict", "starter-names", str(tmp_path / "a.txt"), "--live"]) == 0
    assert capsys.readouterr().err.count("look German") == 1
    tagger = boustro.load("starter-names")
    with pytest.warns(UserWarning, match="1 of 1 texts look German"):
        tagger.predict(GERMAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.predict([GERMAN])  # it has been said
    with pytest.warns(UserWarning, match="look German"):
        redactor = Redactor(boustro.load("starter-names"))
        redactor.feed(GERMAN)
        redactor.end()


def test_a_note_counts_inputs_and_not_their_sentences(tmp_path, capsys):
    text = tmp_path / "a.txt"
    text.write_text(f"{GERMAN} Es kam nicht an. Bitte schicken Sie es noch einmal.\nThe box broke. It was late.\n")
    assert main(["predict", "starter-names", str(text)]) == 0
    assert "note: 1 of 2 texts look German" in capsys.readouterr().err
    assert main(["embed", str(text), "--out", str(tmp_path / "v")]) == 0
    assert "note: 1 of 2 texts look German" in capsys.readouterr().err
    sentences = [[Sentence((*s.split(" "),), ("O",) * 3, document="d") for s in ("Ich bin zufrieden", "Das ist gut")]]
    assert [*Tagger.running_texts(sentences[0])] == ["Ich bin zufrieden Das ist gut"]


def test_the_predictor_of_columns_warns_once(tmp_path):
    Classifier("starter-words", "ridge-pool").fit(["It broke.", "It works."], ["a", "b"]).save_pretrained(
        tmp_path / "m"
    )
    predictor = boustro.Predictor(tmp_path / "m")
    with pytest.warns(UserWarning, match="2 of 2 texts look German"):
        predictor({"text": [GERMAN] * 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor({"text": [GERMAN]})


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_predict_counts_the_languages_of_all_files_of_a_folder(tmp_path, capsys, monkeypatch, workers):
    monkeypatch.setattr("boustro.apps.batch.labeller.get_context", lambda kind: CONTEXT)  # no new interpreters
    (tmp_path / "in").mkdir()
    for name, text in (("a.txt", f"{GERMAN}\nIt broke.\n"), ("b.txt", f"It broke.\n{GERMAN}\n")):
        (tmp_path / "in" / name).write_text(text)
    words = ["predict", "starter-names", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--workers", workers]
    assert main(words) == 0
    assert capsys.readouterr().err.count("note: 2 of 4 texts look German") == 1


@pytest.mark.parametrize("how", ["python", "command"])
def test_a_folder_that_learned_from_a_language_says_nothing_of_it(tmp_path, how):
    texts, labels = [GERMAN, "Das Paket ist nicht da und ich warte."], ["gut", "schlecht"]
    if how == "python":
        Classifier("starter-words", "ridge-pool").fit(texts, labels).save_pretrained(tmp_path / "m")
    else:
        rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
        (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        options = ["--encoder", "starter-words", "--head", "ridge-pool", "--out", str(tmp_path / "m")]
        assert main(["fit", "--train", str(tmp_path / "a.jsonl"), *options]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        boustro.load(tmp_path / "m").predict([GERMAN])
    with pytest.warns(UserWarning, match="look French"):
        boustro.load(tmp_path / "m").predict(["Je ne suis pas content de cette livraison."])


def test_names_alone_answer_none_in_another_language():
    """Nor do such texts move the names; what is left out is counted, and said once."""
    names, english = ["delivery", "payment"], [f"My parcel number {n} is late." for n in range(6)]
    english += [f"I was charged {n} euros twice." for n in range(2, 8)]
    alone = Classifier.from_labels(names, english)
    beside = Classifier.from_labels(names, [*english, *[GERMAN, "Wo ist mein Geld geblieben?", "என் பார்சல் எங்கே?"] * 9])
    assert beside.record["unlabelled"] == len(english)
    assert (alone.head.body.weight == beside.head.body.weight).all()
    with pytest.warns(UserWarning, match="1 of 13 texts look German; they have no label"):
        answers = beside.predict([*english, GERMAN])
    assert (answers[-1].label, answers[-1].score) == ("", 0.0)
    assert all(answer.label for answer in answers[1:6])
    several = Classifier.from_labels(names, english, several=True)
    with pytest.warns(UserWarning, match="no label"):
        assert several.predict([GERMAN])[0].labels == ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Classifier.from_labels(names, english, none=0).predict(GERMAN).label


def test_nothing_is_suggested_in_another_language_before_there_are_answers(tmp_path):
    from boustro.apps.label.answers import SPANS, AnswerFile
    from boustro.apps.label.session import LabellingSession
    from boustro.apps.label.texts import TextToLabel, whole_sentence

    texts = [
        TextToLabel(whole_sentence(text, f"t:{n}"), None, text)
        for n, text in enumerate((GERMAN, "The box was broken."))
    ]
    with AnswerFile(tmp_path / "answers.jsonl", SPANS.answer).open() as file:
        session = LabellingSession(texts, file, ["PER"], note="1 of 2 texts look German", english=True)
        assert session.view()["note"] == "1 of 2 texts look German"
        assert [session._is_unread(n) for n in (0, 1)] == [True, False]
        session.english = False
        assert not session._is_unread(0)
