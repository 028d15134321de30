"""`boustro fewshot --self-train`: what a student learns from, and that it is off, on, or refused."""

import json

import numpy as np
import pytest

from boustro.apps.cli.main import main
from boustro.apps.studies.fewshot.heads import LabelledVectors
from boustro.apps.studies.fewshot.scoring import student_words, unlabelled_sentences
from boustro.features.vectors import Vectors

NAMES = ("Ada Brandt", "Port Lisse", "Vellmar", "Okonkwo", "Tarn", "Mossend")


def test_a_student_learns_from_the_draw_and_from_sentences_with_an_entity():
    gold = LabelledVectors(Vectors(np.array([[1.0], [2.0]]), np.array([0, 2])), np.array([1, 0]), ["PER"])
    silver = Vectors(np.arange(10.0, 22.0)[:, None], np.array([0, 3, 3, 7, 12]))
    tags = np.array([0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 1])
    found = student_words(gold, silver, tags)
    assert found.vectors.starts.tolist() == [0, 2, 4, 8, 13]  # the draw twice: 4 words of 13
    assert found.vectors.words.ravel().tolist() == [1, 2, 1, 2, *range(13, 17), *range(17, 22)]
    assert found.tags.tolist() == [1, 0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 1]


def test_a_student_without_silver_entities_learns_from_the_draw():
    gold = LabelledVectors(Vectors(np.array([[1.0]]), np.array([0, 1])), np.array([1]), ["PER"])
    found = student_words(gold, Vectors(np.zeros((4, 1)), np.array([0, 4])), np.zeros(4, np.int64))
    assert found.vectors.starts.tolist() == [0, 1] and found.tags.tolist() == [1]


def test_unlabelled_sentences_are_never_of_the_draw():
    draw = np.array([1, 4, 7])
    for seed in range(20):
        found = unlabelled_sentences(9, draw, 4, seed)
        assert len(found) == 4 and not {*found} & {*draw} and sorted(found) == [*found]
    assert unlabelled_sentences(9, draw, 100, 0).tolist() == [0, 2, 3, 5, 6, 8]
    assert unlabelled_sentences(3, np.arange(3), 5, 0).tolist() == []


@pytest.fixture(scope="module")
def study(tiny_pair, tmp_path_factory):
    """The arguments of a study, up to --out."""
    folder = tmp_path_factory.mktemp("self-training")
    rows = [f"{word} {tag}" if tag else "" for name in NAMES for word, tag in _sentence(name)]
    (folder / "data.conll").write_text("\n".join(rows), "utf-8")
    file = str(folder / "data.conll")
    return ["fewshot", "--encoders", tiny_pair, "--train", file, "--dev", file, "--shots", "1", "--draws", "2"]


def _sentence(name):
    first, *rest = name.split()
    yield from ((first, "B-PER"), *((word, "I-PER") for word in rest), ("flew", "O"), ("home", "O"), ("", ""))


@pytest.mark.parametrize(("head", "tags"), [("ridge", "factored"), ("ridge", "io"), ("mlp+crf", "bio")])
def test_students_of_every_scheme_answer(study, head, tags, tmp_path):
    trained = [] if head == "ridge" else ["--epochs", "4", "--hidden", "8"]
    more = ["--heads", head, "--tags", tags, *trained]
    scores = []
    for name, option in (("off", []), ("on", ["--self-train", "4"])):
        assert main([*study, *more, *option, "--out", str(tmp_path / name)]) == 0
        (point,) = json.loads((tmp_path / name / "results.json").read_text("utf-8"))["points"]
        scores.append(point["score"]["values"])
        assert len(point["strengths"]) == (2 if head == "ridge" else 0) and len(scores[-1]) == 2
    assert all(0 <= value <= 100 for own in scores for value in own)


def test_a_student_with_nothing_unlabelled_is_its_teacher(study, tmp_path):
    whole = [*study, "--heads", "ridge", "--tags", "bio"]
    whole[whole.index("--shots") + 1] = "100"
    found = []
    for name, option in (("off", []), ("on", ["--self-train", "9"])):
        assert main([*whole, *option, "--out", str(tmp_path / name)]) == 0
        found.append(json.loads((tmp_path / name / "results.json").read_text("utf-8"))["points"][0]["score"])
    assert found[0] == found[1]


def test_it_is_for_entities_in_the_sound_protocol(study, tmp_path, capsys):
    drawn = study.index("--draws")
    assert main([*study[:drawn], "--self-train", "4", "--protocol", "paper", "--out", str(tmp_path / "a")]) == 2
    assert "--self-train is for entities" in capsys.readouterr().err
    assert main([*study, "--self-train", "4", "--task", "classify", "--out", str(tmp_path / "a")]) == 2
    assert main([*study, "--self-train", "-1", "--out", str(tmp_path / "a")]) == 2
    assert main([*study, "--self-train", "4", "--dry-run", "--out", str(tmp_path / "a")]) == 0
