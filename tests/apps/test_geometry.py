"""The geometry of word vectors: exact against loops over pairs; the map's page; the command."""

import itertools
import json

import numpy as np
import pytest

from boustro.apps.cli.main import main
from boustro.apps.studies.geometry.map import OTHER_SENSES, map_page, project
from boustro.apps.studies.geometry.measures import measure_vectors, pair_parts, read_word_pairs

WORDS = ["the", "ox", "turns", "The", "plough", "the", "field", "the", "ox", "the"]
LENGTHS = [4, 1, 5]


def cosine(a, b) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_measures_are_those_of_loops_over_pairs():
    x = np.random.default_rng(2).normal(size=(10, 6)) + np.array([3, 0, 0, 0, 0, 0.5])
    found = measure_vectors(x, WORDS, LENGTHS)
    mean = np.mean([cosine(a, b) for a, b in itertools.combinations(x, 2)])
    same = [n for n, word in enumerate(WORDS) if word.lower() == "the"]
    self_similarity = np.mean([cosine(x[a], x[b]) for a, b in itertools.combinations(same, 2)])
    inside = [np.mean([cosine(x[n], x[rows].mean(0)) for n in rows]) for rows in ([0, 1, 2, 3], [5, 6, 7, 8, 9])]
    assert found.anisotropy == pytest.approx(mean)
    assert found.self_similarity == pytest.approx(self_similarity - mean)
    assert found.intra_sentence == pytest.approx(np.mean(inside) - mean)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    part = np.mean([a[0] * b[0] for a, b in itertools.combinations(unit, 2)])
    assert (found.rogue_dimension, found.rogue_share) == (0, pytest.approx(100 * part / mean))
    assert pair_parts(unit).sum() == pytest.approx(mean)


def test_what_cannot_be_measured_is_nan_or_refused():
    assert np.isnan(measure_vectors(np.eye(3), ["a", "b", "c"], [1, 1, 1]).self_similarity)
    with pytest.raises(ValueError, match="two are needed"):
        measure_vectors(np.eye(1), ["a"], [1])


def test_a_map_is_equal_bytes_for_equal_input_with_escaped_text():
    points = project(np.random.default_rng(0).normal(size=(14, 5)))
    assert points.shape == (14, 2)
    labels = [f"<sense {n % 12}>" for n in range(14)]
    first, second = (map_page("a & b", points, labels, ["x < y [w]"] * 14) for _ in range(2))
    assert first == second and first.count("<circle") == 14 and f"{OTHER_SENSES} (3)" in first
    assert "&lt;sense 0&gt;: x &lt; y [w]" in first and "<sense" not in first and "<script" not in first


def test_word_pairs_are_read_at_their_offsets(file):
    record = {"context1": "by the bank  of", "start1": 7, "context2": '"Bank"s rose', "start2": 1, "score": 2}
    (pair,) = read_word_pairs(file("p.jsonl", json.dumps(record)))
    assert pair.words == (2, 0) and pair.contexts[0].words[2] == "bank" and pair.score == 2.0
    for change, message in (
        ({"score": None}, "p.jsonl:1: expected two contexts"),
        ({"start1": 99}, "p.jsonl:1: no word begins at offset 99 of context1"),
        ({"start1": 6}, "no word begins at offset 6"),
        ({"context2": None}, "no text under 'context2'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_word_pairs(file("p.jsonl", json.dumps({**record, **change})))


def test_the_command(file, tmp_path, tiny_pair, capsys):
    text = file("text.txt", "The ox turns. The field ends.\nThe ox turns; the plough, the ox, the field.\n")
    context = "by the bank of the stream we sat"
    records = [
        {"context1": context, "start1": 7, "context2": context, "start2": s, "score": n}
        for n, s in enumerate((0, 7, 19))
    ]
    pairs = file("pairs.jsonl", "\n".join(map(json.dumps, records)))
    scores = tmp_path / "scores.json"
    assert (
        main(
            [
                "lab",
                "geometry",
                "measure",
                str(text),
                "--encoder",
                tiny_pair,
                "--pairs",
                str(pairs),
                "--json",
                str(scores),
            ]
        )
        == 0
    )
    found = json.loads(scores.read_text())
    assert {"raw", "standardised", "top-removed", "whitened"} == {
        *found["spearman"]
    } and "self" in capsys.readouterr().out
    assert {row["layer"] for row in found["layers"]} >= {0, 1}
    tagged = [{"words": ["an", "ox", f"w{n}"], "senses": [[1, "ox", "n", [f"ox-{n % 2}"]]]} for n in range(6)]
    data, out = str(file("ox.jsonl", "\n".join(map(json.dumps, tagged)))), tmp_path / "map.html"
    assert main(["lab", "geometry", "map", data, "--word", "ox", "--out", str(out), "--encoder", tiny_pair]) == 0
    assert out.read_text().count("<circle") == 6 and "ox-1: an [ox] w1" in out.read_text()
    assert main(["lab", "geometry", "map", data, "--word", "ox", "--out", str(out), "--encoder", tiny_pair]) == 1
    assert f"{out} exists; give --overwrite to replace it" in capsys.readouterr().err
    cow = ["lab", "geometry", "map", data, "--word", "cow", "--out", str(out), "--overwrite", "--encoder", tiny_pair]
    assert main(cow) == 1
    assert "'cow' is 0 times among" in capsys.readouterr().err
    assert main(["lab", "geometry", "map", data]) == 2
