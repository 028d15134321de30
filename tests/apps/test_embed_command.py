"""Sentence vectors at the command line: written, searched, trained and judged."""

import json

import numpy as np
import pytest

import boustro
from boustro.apps.cli.main import main
from embedding import PAIRS, TEXTS, statistics


@pytest.fixture
def files(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS[:8], "", *TEXTS[8:]]) + "\n")
    rows = [{"sentence1": a, "sentence2": b, "score": s} for a, b, s in PAIRS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return tmp_path


def test_the_commands_embed_and_similarity(tiny_pair, files, capsys):
    common = ["--encoder", tiny_pair, "--dtype", "float32"]
    out = files / "vectors.npy"
    assert main(["embed", str(files / "texts.txt"), "--out", str(out), *common]) == 0
    vectors = np.load(out)
    expected = statistics(tiny_pair).fit(TEXTS)
    assert vectors.shape == (len(TEXTS) + 1, expected.width) and not vectors[8].any()
    np.testing.assert_allclose(vectors[:8], expected.encode(TEXTS[:8]), atol=1e-5)
    assert "1 text without a word" in capsys.readouterr().err
    query = ["--query", TEXTS[0], "--top", "3", "--json", "-"]
    assert main(["similarity", str(files / "texts.txt"), *query, *common]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["query"] == TEXTS[0] and found["texts"][0]["row"] == 1 and len(found["texts"]) == 3
    assert found["texts"][0]["cosine"] == pytest.approx(1, abs=1e-3)
    assert main(["similarity", str(files / "texts.txt"), "--query", "", *common]) == 1
    assert main(["embed", str(files / "no.txt"), "--out", str(out), *common]) == 1
    assert main(["embed", str(files / "texts.txt"), "--out", str(files), *common]) == 1
    before = out.read_bytes()
    assert main(["embed", str(files / "pairs.jsonl"), "--text-column", "sentence1", "--out", str(out), *common]) == 1
    assert out.read_bytes() == before and f"{out} exists; give --overwrite" in capsys.readouterr().err
    assert main(["embed", str(files / "texts.txt"), "--out", str(out), "--overwrite", *common]) == 0


def test_queries_come_from_standard_input(tiny_pair, files, capsys, monkeypatch):
    (files / "queries.txt").write_text("Ada left.\nIt rained.\n")
    with (files / "queries.txt").open() as queries:
        monkeypatch.setattr("sys.stdin", queries)
        assert main(["similarity", str(files / "texts.txt"), "--query", "-", "--top", "2", "--encoder", tiny_pair]) == 0
    assert main(["similarity", "-", "--query", "-"]) == 2
    blocks = capsys.readouterr().out.strip().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["Ada left.", "It rained."]
    assert all(len(block.splitlines()) == 3 for block in blocks)


def test_a_training_without_pairs_needs_a_head_that_reads_texts(tiny_pair, files, capsys):
    texts, out = str(files / "texts.txt"), str(files / "e")
    small = ["--task", "embed", "--encoder", tiny_pair, "--out", out, "--train", texts]
    assert main(["fit", "--head", "statistics", *small]) == 0
    capsys.readouterr()
    assert main(["predict", out, texts, "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = boustro.SentenceEncoder.from_pretrained(out).encode([line["text"] for line in lines])
    assert len(lines) == len(TEXTS) + 1
    np.testing.assert_allclose([line["vector"] for line in lines], expected, atol=1e-3)
    assert main(["fit", *small, "--overwrite"]) == 1
    assert "texts.txt:1: a text alone" in capsys.readouterr().err
