"""`boustro lab names` and `names:DIR`: what a network learned of names from others' labels, and a tagger of it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import boustro
from boustro.apps.batch.models import OpenedFolder
from boustro.apps.cli.check import DataReport, forgotten_names
from boustro.apps.cli.main import main
from boustro.apps.cli.own_lms import names as train
from boustro.apps.label.background import SessionSource, offered_labels
from boustro.apps.live.redactor import Redactor
from boustro.apps.live.structured import Checker
from boustro.apps.serve.models import name_folders
from boustro.encoders.extended import NamesNetwork, load_names
from boustro.encoders.spec import load_encoder, with_cache
from boustro.lab.adapt.names import UNKNOWN, read_file
from boustro.lab.adapt.options import NamesConfig
from boustro.names import PACKAGED, packaged
from boustro.store import Artefact
from boustro.tasks.tagger.tags import join_names
from boustro.text.places import _say_which
from boustro.types import Entity, Sentence
from labelled import TAGGED

KINDS = {"PER": "PERSON", "city": "PLACE", "date": None}
NEWS = [
    ("Ada Brandt left Vellmar on Monday .", [("Ada Brandt", "PER"), ("Vellmar", "city"), ("Monday", "date")]),
    ("Vellmar is small .", [("Vellmar", "city")]),
    ("It rained on Tuesday .", [("Tuesday", "date")]),
    ("Ada Brandt saw Lisse .", [("Ada Brandt", "PER"), ("Lisse", "city")]),
]
OTHERS = [("Ferry Utopia left Lisse .", [("Ferry", "?"), ("Utopia", "*"), ("Lisse", "PLACE")])]


def write(path, rows):
    found = []
    for text, marked in rows:
        entities = [{"start": text.index(own), "end": text.index(own) + len(own), "label": k} for own, k in marked]
        found.append(json.dumps({"text": text, "entities": entities}) + "\n")
    path.write_text("".join(found), "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def command(tiny_pair, tmp_path_factory):
    """The words of a command that trains on two files."""
    tmp_path = tmp_path_factory.mktemp("names")
    files = [write(tmp_path / "news.jsonl", NEWS * 8), write(tmp_path / "others.jsonl", OTHERS * 4)]
    (tmp_path / "kinds.json").write_text(json.dumps(KINDS), "utf-8")
    how = ["--kinds", str(tmp_path / "kinds.json"), "--encoder", tiny_pair, "--width", "8", "--hidden", "16"]
    return ["lab", "names", *files, *how, "--epochs", "20", "--lr", "0.01", "--out", str(tmp_path / "names")]


@pytest.fixture(scope="module")
def folder(command):
    assert main(command) == 0
    return Path(command[-1])


@pytest.mark.parametrize(
    ("text", "given", "wanted"),
    [
        ("Councillor Amit Rao left .", [(0, 1, "ORG"), (1, 3, "PER")], [(0, 3, "PER")]),
        ("Then Mr. and Mrs Boyle came .", [(1, 2, "PER"), (3, 5, "PER")], [(1, 5, "PER")]),
        ("The University of Ibadan pays .", [(1, 2, "ORG"), (3, 4, "LOC")], [(1, 4, "ORG")]),
        ("The Bank of the Wye and Ada .", [(4, 5, "LOC"), (6, 7, "PER")], [(1, 5, "ORG"), (6, 7, "PER")]),
        ("Leeds and Hull , a city of Ada .", [(0, 1, "LOC"), (2, 3, "LOC"), (7, 8, "PER")], None),
        ("Pieter van der Merwe left .", [(0, 1, "PER"), (2, 3, "PER"), (3, 4, "PER")], [(0, 4, "PER")]),
        ("Dr Ulrike von Trotha left .", [(1, 2, "PER"), (3, 4, "LOC")], [(0, 4, "PER")]),
        (
            "Ahmad bin Rashid , Rio de Janeiro",
            [(0, 1, "PER"), (2, 3, "PER"), (4, 5, "LOC"), (6, 7, "LOC")],
            [(0, 3, "PER"), (4, 7, "LOC")],
        ),
        ("Ada von Siemens in Lyon de facto", [(0, 1, "PER"), (2, 3, "ORG"), (4, 5, "LOC")], None),
        ("Johnson & Johnson & Sons", [(0, 2, "PER"), (2, 3, "PER"), (4, 5, "ORG")], [(0, 5, "PER")]),
        (
            "Bell & Hart & co , Lyon & Metz",
            [(0, 1, "ORG"), (2, 3, "PER"), (6, 7, "LOC"), (8, 9, "LOC")],
            [(0, 3, "PER"), (6, 7, "LOC"), (8, 9, "LOC")],
        ),
        ("I'm Ada but we’ve left", [(0, 2, "PER"), (3, 4, "ORG")], [(1, 2, "PER")]),
        ("", [], None),
    ],
)
def test_titles_institutions_particles_and_signs_are_one_with_their_names(text, given, wanted):
    entities = [Entity(label, start, stop) for start, stop, label in given]
    found = join_names(tuple(text.split()), entities, ["LOC", "ORG", "PER"])
    assert [(e.start, e.end, e.label) for e in found] == (given if wanted is None else wanted)


def test_what_a_file_teaches(tmp_path):
    learned = read_file(write(tmp_path / "a.jsonl", NEWS[:1]), KINDS, ["PERSON", "PLACE"])
    assert learned.types == ("PER", "city", "date")
    assert learned.places[0].tolist() == [1, 2, 0, 1, 0, UNKNOWN, 0]  # a date is no name, nor is it surely none
    assert learned.names == [[(0, 2, 0, 0), (3, 4, 1, 1), (5, 6, 2, UNKNOWN)]]
    learned = read_file(write(tmp_path / "b.jsonl", OTHERS), KINDS, ["PERSON", "PLACE"])
    assert learned.types == () and learned.places[0].tolist() == [UNKNOWN, 1, 0, 1, 0]
    assert learned.names == [[(1, 2, UNKNOWN, UNKNOWN), (3, 4, UNKNOWN, 1)]]


def test_the_network_gives_logarithms_of_probabilities_and_vectors_of_names_alone():
    rng = np.random.default_rng(0)
    enter, leave = rng.standard_normal((5, 6)), rng.standard_normal((3 + 4 + 2, 5))
    network = NamesNetwork(np.ones(6), np.full(6, 0.5), enter, np.zeros(5), leave, np.zeros(9), num_kinds=2)
    vectors = rng.standard_normal((7, 6)).astype(np.float32)
    found = network.read(vectors)
    copies, place, kinds = np.split(found, [-5, -2], 1)
    np.testing.assert_array_equal(copies, np.tile(copies[:, :9], 4))
    own, likely, of_kinds = np.split(copies[:, :9], [4, 7], 1)
    np.testing.assert_allclose(np.exp(place).sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(kinds).sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(likely, np.exp(place))
    np.testing.assert_allclose(of_kinds.sum(1), 1 - likely[:, 0], rtol=1e-5)
    scores = np.maximum((vectors - 1) / 2 @ enter.T, 0) @ leave.T
    np.testing.assert_allclose(own, scores[:, 3:7] * (1 - np.exp(place[:, :1])), rtol=1e-4)


def test_a_folder_is_an_encoder_and_a_tagger_of_kinds(folder, command, tiny_pair, capsys):
    network, facts = load_names(Artefact(folder))
    assert facts["kinds"] == ["PERSON", "PLACE"] and network.width == 4 * (8 + 3 + 2) + 3 + 2
    assert facts["record"]["by_type"] == {"city": 24, "PER": 16, "date": 16, "*": 8}
    encoder, plain = load_encoder(f"names:{folder}", "last"), load_encoder(tiny_pair, "last")
    assert [s.width for s in encoder.streams] == [*(s.width for s in plain.streams), network.width]
    assert encoder.identity() != plain.identity()
    tagger = boustro.load(folder)
    assert [(e.label, e.text) for e in tagger.predict("Ada Brandt left Vellmar.")] == [
        ("PERSON", "Ada Brandt"),
        ("PLACE", "Vellmar"),
    ]
    (folder.parent / "text.txt").write_text("Vellmar is small.", "utf-8")
    assert main(["predict", str(folder), str(folder.parent / "text.txt")]) == 0
    assert "Vellmar PLACE" in capsys.readouterr().out
    assert main(command) == 1 and "--overwrite" in capsys.readouterr().err
    before = (folder / "names.safetensors").read_bytes()
    assert main([*command, "--overwrite"]) == 0 and (folder / "names.safetensors").read_bytes() == before


@pytest.mark.parametrize("cached", [False, True])
def test_the_stream_stands_behind_all_others(folder, tiny_pair, tmp_path, cached):
    encoder, base = load_encoder(f"names:{folder}", "0,last"), load_encoder(tiny_pair, "0,last")
    encoder = with_cache(encoder, tmp_path / "cache") if cached else encoder
    features, plain = encoder.encode_all(TAGGED), base.encode_all(TAGGED)
    for one, other in zip(features.streams, plain.streams, strict=False):
        np.testing.assert_array_equal(one, other)
    top = np.concatenate([stream[:, -1] for stream in plain.streams], 1)
    np.testing.assert_allclose(
        features.streams[-1][:, 0], load_names(Artefact(folder))[0].read(top), rtol=1e-2, atol=2e-3
    )
    assert encoder.streams_by_lm == [[0], [1], [2]]


@pytest.mark.parametrize("options", [{}, {"memory": True}, {"pool_mentions": True, "memory": True, "spelling": True}])
def test_a_tagger_with_it_is_saved_and_opened(folder, tmp_path, options):
    options |= {"epochs": 3, "context": "document"}
    tagger = boustro.Tagger(f"names:{folder}", cache=tmp_path / "cache", **options).fit(TAGGED, TAGGED, seed=1)
    tagger.save_pretrained(tmp_path / "ner")
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner", cache=False)
    assert opened.tag(TAGGED) == tagger.tag(TAGGED)
    text = "Vellmar is small. Ada left."
    assert opened.predict(text) == tagger.predict(text)
    live = boustro.Live(opened, None)
    found = [e for e in (*live.feed(text), *live.end()) if e.kind == "final"]
    assert [(e.label, e.start, e.end) for e in found] == [(e.label, e.start, e.end) for e in opened.predict(text)]


def test_what_does_not_fit_is_refused(folder, command, tmp_path, file):
    with pytest.raises(ValueError, match=r"trained on .* with other pooling; read in the same way"):
        load_encoder(f"names:{folder}", "last", pooling="exit")
    with pytest.raises(ValueError, match="the files have no names"):
        (tmp_path / "none").mkdir()
        nothing = write(tmp_path / "none" / "a.jsonl", [("It rained .", [("rained", "?")])])
        train_again(nothing, tmp_path / "none" / "out", command)
    (tmp_path / "kinds.json").write_text("[1]", "utf-8")
    with pytest.raises(ValueError, match="expected one object such as"):
        train_again(command[2], tmp_path / "other", command, tmp_path / "kinds.json")
    for name in ("starter-names", "starter-memory"):
        with pytest.raises(ValueError, match=rf"{name} is .*, not an LM"):
            load_encoder(f"masked:{name}")


def train_again(data, out, command, kinds=None):
    words = dict(zip(command[4::2], command[5::2], strict=True))
    kinds = kinds or Path(words["--kinds"])
    train(NamesConfig(data=(data,), out=out, kinds=kinds, encoder=words["--encoder"], epochs=1))


@pytest.mark.parametrize("options", [pytest.param({}, marks=pytest.mark.long), {"memory": True, "spelling": True}])
def test_an_export_has_the_network_in_the_graph_of_its_head(folder, tmp_path, options, traced_once):
    pytest.importorskip("onnxruntime")
    tagger = boustro.Tagger(f"names:{folder}", epochs=3, cache=False, context="sentence", **options)
    tagger.fit(TAGGED, seed=1).save_pretrained(tmp_path / "ner")
    assert main(["export", str(tmp_path / "ner"), "--out", str(tmp_path / "small"), "--sentences", "20"]) == 0
    text = "Ada left Vellmar. Vellmar is small."
    for one, other in zip(boustro.load(tmp_path / "small").predict(text), tagger.predict(text), strict=True):
        assert (one.label, one.start, one.end) == (other.label, other.start, other.end)
        assert one.score == pytest.approx(other.score, abs=0.01)


def test_the_tagger_of_the_package_is_found_by_its_name_by_files_and_service(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert OpenedFolder(Path("names")).fingerprint == OpenedFolder(packaged("starter-names").path).fingerprint
    for name, folder in (("names", "starter-names"), ("starter-large", "starter-large")):
        assert name_folders([name]) == {name: packaged(folder)}
    (tmp_path / "texts.txt").write_text("Ada left Vellmar.\n")
    assert main(["predict", "names", "texts.txt", "--out", "answers.jsonl"]) == 0
    assert "Vellmar" in (tmp_path / "answers.jsonl").read_text()


def test_what_is_the_packages_own_never_goes_through_a_folder_of_the_user(tagger_folder, tmp_path, monkeypatch, capsys):
    for name in ("names", *PACKAGED):
        shutil.copytree(tagger_folder, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    _say_which.cache_clear()
    assert Redactor().labels == Checker().labels == {"PERSON", "PLACE", "ORGANISATION"}
    labelled = [Sentence(("Ada", "left", "Oslo"), ("B-PER", "O", "O"), where="a:1")]
    report = DataReport(file="a", scheme="bio")
    assert forgotten_names(report, labelled) == ["a:1: 'Oslo' has no label, and is like 'Ada', PER"]
    assert offered_labels(SessionSource(encoder="starter-names", cache=False))[:2] == ["PERSON", "PLACE"]
    for name in ("starter-forward", "starter", "starter-memory", "starter-names", "starter-words"):
        assert load_encoder(name).spec.rpartition(":")[2] == name
    said = "note: starter-names is the tagger of the package, not the folder "
    assert capsys.readouterr().err.count(said) == 1

    assert boustro.load("names").types == boustro.load(tagger_folder).types  # as `fit --out names` has just said
    assert "not the tagger of the package, which starter-names always is" in capsys.readouterr().err
    (tmp_path / "a.txt").write_text("Ada left Oslo.\n")
    assert main(["predict", "starter-names", "a.txt"]) == 0
    assert "PERSON" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "names")
    (tmp_path / "names").write_text("Ada\n")  # a list of names is no tagger
    assert main(["predict", "names", "a.txt"]) == 0
    assert "PERSON" in capsys.readouterr().out
