"""An encoder's states into a smaller LM: the right words are compared, the student learns, and it is an LM folder."""

import json

import numpy as np
import pytest
import torch

from boustro.apps.cli.main import main
from boustro.encoders.spec import load_encoder
from boustro.roads import distill_states
from generators import write_masked_lm

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
TEXT = "\n\n".join(
    " ".join(f"Ada left Vellmar on {DAYS[(start + i) % 7]}, and came back." for i in range(1 + start % 5))
    for start in range(60)
)
OPTIONS = ["--batch-words", "128", "--text-words", "24", "--words", "8000", "--lr", "1e-2", "--evaluations", "1"]


@pytest.fixture
def lm(tiny_lm, tiny_tokenizer, tmp_path):
    """lm("backward:llama") → the spec of a tiny LM of this kind."""

    def make(kind, seed=0):
        prefix, _, name = kind.rpartition(":")
        if prefix == "masked":
            return f"masked:{write_masked_lm(tmp_path / name, tiny_tokenizer, None, name)}"
        return f"{prefix}:{tiny_lm(name, seed=seed)}".removeprefix(":")

    return make


@pytest.fixture
def corpus(file):
    return str(file("corpus.txt", TEXT))


def run(corpus, out, *options, code=0):
    given = ["distill-states", corpus, "--out", str(out), *OPTIONS, *map(str, options)]
    assert main(given) == code
    return json.loads((out / "training.json").read_text()) if not code else None


@pytest.mark.parametrize("kind", ["llama", "backward:llama", "masked:bert", "masked:eurobert"])
def test_a_word_is_compared_with_the_teachers_vector_of_the_same_word(lm, corpus, tmp_path, monkeypatch, kind):
    """A student that is the teacher has the teacher's vectors, if words, windows and order are right."""
    spec, seen = lm(kind), {}

    def look(config, facts, reader, loss_of, batches, *rest, **how):
        seen.update(reader=reader, batches=[batches[n] for n in range(3)])
        raise ValueError("seen")

    monkeypatch.setattr(distill_states, "train", look)
    run(corpus, tmp_path / "lm", "--teacher", spec, "--student", spec, "--pooling", "exit", code=1)
    reader = seen["reader"].eval()
    reader.head = torch.nn.Identity()
    for batch in seen["batches"]:
        targets = batch.pop("targets")
        with torch.no_grad():
            states = reader(**batch)
        fitted = np.polynomial.Polynomial.fit
        assert len(states) == len(targets) > 20
        for d in range(0, states.shape[1], 7):  # standardising is one line per dimension
            line = fitted(states[:, d], targets[:, d], 1)
            np.testing.assert_allclose(line(states[:, d].numpy()), targets[:, d], atol=0.01)


@pytest.mark.parametrize("kind", ["llama", "masked:eurobert"])
def test_the_student_learns_and_is_an_ordinary_folder(lm, corpus, tmp_path, capsys, kind):
    student, out = lm(kind, seed=3), tmp_path / "lm"
    made_by = ("--teacher", "starter", "--student", student, "--validation", corpus)
    record = run(corpus, out, *made_by)
    losses = [row["loss"] for row in record["history"] if "loss" in row]
    assert losses[0] > 0.9 and record["validation_loss"] < 0.5
    assert record["explained_variance"] == pytest.approx(1 - record["validation_loss"])
    assert record["validation_perplexity"] is None and "perplexity" not in capsys.readouterr().err
    assert record["teacher_parameters"] > record["num_parameters"]
    spec = f"{'masked:' if kind.startswith('masked') else ''}{out}"
    before, after = (load_encoder(s, "last").encode_all([["Ada", "left"]]).streams[0] for s in (student, spec))
    assert before.shape == after.shape and not np.allclose(before, after)
    assert run(corpus, out, *made_by, "--resume") == record
    assert run(corpus, out, *made_by, "--resume", "--text-words", "30", code=1) is None
    assert "another text_words" in capsys.readouterr().err


def test_a_stopped_run_goes_on_to_the_same_weights(tiny_lm, corpus, tmp_path, stopped_before):
    options = ("--teacher", tiny_lm("gpt2"), "--student", tiny_lm("llama"), "--save-minutes", "0", "--words", "3200")
    run(corpus, tmp_path / "whole", *options)
    with stopped_before(20, ValueError("stopped")):
        run(corpus, tmp_path / "parts", *options, code=1)
    run(corpus, tmp_path / "parts", *options, "--resume")
    whole, parts = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


@pytest.mark.parametrize("student", ["starter", "unmasked:starter-forward", "repeated:starter-forward"])
def test_what_cannot_learn_is_refused(corpus, tmp_path, capsys, student):
    run(corpus, tmp_path / "lm", "--teacher", "starter", "--student", student, code=1)
    assert "the student is a single causal or masked LM" in capsys.readouterr().err


def test_a_corpus_without_words_is_refused(file, tmp_path, capsys):
    how = ("--teacher", "starter", "--student", "starter-forward")
    run(str(file("empty.txt", "\n\n \n")), tmp_path / "lm", *how, code=1)
    assert "no words to train on" in capsys.readouterr().err
    assert main(["distill-states", "--out", str(tmp_path / "lm"), *map(str, how)]) == 1
    assert "no corpus given" in capsys.readouterr().err
