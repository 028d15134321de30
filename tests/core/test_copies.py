"""Copies of taggers: pickled, dumped, sent to another process or forked with it, they answer as the first one does."""

import copy
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys

import pytest
import torch

import boustro
from labelled import DATA

X, Y = [words for words, _ in DATA], [tags for _, tags in DATA]
TEXT = "Professor Ada Calloway sold umbrellas. In Vellmar it rained."
FAST = {"epochs": 3, "lr": 1e-2, "hidden": 16}


@pytest.fixture
def tagger(tagger_folder):
    return boustro.Tagger.from_pretrained(tagger_folder)


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


def dumped(thing, path):
    import joblib

    joblib.dump(thing, path)
    return joblib.load(path)


@pytest.mark.parametrize("head", ["mlp", "span"])
def test_a_copy_of_a_trained_tagger_answers_the_same(tiny_pair, tmp_path, head):
    tagger = boustro.Tagger(tiny_pair, head, **FAST).fit(DATA, DATA)
    drawn = torch.get_rng_state()
    for other in (
        pickled(tagger),
        copy.deepcopy(tagger),
        dumped(tagger, tmp_path / "tagger"),
        pickled(pickled(tagger)),
    ):
        assert other.predict(TEXT) == tagger.predict(TEXT) and other.record == tagger.record
        assert other.evaluate(DATA).to_dict() == tagger.evaluate(DATA).to_dict()
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_copy_holds_no_lm_and_opens_its_own_when_it_is_asked(tagger):
    tagger.predict(TEXT)
    given = pickle.dumps(tagger)
    assert len(given) < 4 * sum(p.numel() * 4 for p in tagger.fitted.head.parameters())
    assert not pickle.loads(given).plan.reader.is_open and tagger.plan.reader.is_open


def test_a_tagger_that_is_not_trained_is_copied_too(tiny_pair):
    other = pickled(boustro.Tagger(tiny_pair, "mlp", **FAST))
    assert other.plan.head_kind == "mlp" and other.fit(DATA).predict(TEXT) is not None


def test_a_copy_is_used_in_another_folder(tmp_path, tiny_lm, monkeypatch):
    shutil.copytree(tiny_lm("llama", sentinel=True), tmp_path / "lm")
    monkeypatch.chdir(tmp_path)
    tagger = boustro.Tagger("./lm", "mlp", **FAST).fit(DATA)
    given, expected = pickle.dumps(tagger), tagger.predict(TEXT)
    monkeypatch.chdir("/")
    assert pickle.loads(given).predict(TEXT) == expected


def test_a_copy_does_not_take_another_lm_for_its_own(tmp_path, tiny_lm):
    shutil.copytree(tiny_lm("llama", sentinel=True), tmp_path / "lm")
    given = pickle.dumps(boustro.Tagger(str(tmp_path / "lm"), "mlp", **FAST).fit(DATA))
    shutil.rmtree(tmp_path / "lm")
    shutil.copytree(tiny_lm("llama", seed=5, sentinel=True), tmp_path / "lm")
    other = pickle.loads(given)
    with pytest.raises(ValueError, match="not the one that this head was trained on"):
        other.predict(TEXT)
    other.fit(DATA)  # on the new one


def test_a_copy_goes_to_the_device_that_was_asked_for(tagger_folder, monkeypatch):
    named, best = (boustro.Tagger.from_pretrained(tagger_folder, device=device) for device in ("cpu", None))
    monkeypatch.setattr("boustro.hardware.best_device", lambda: torch.device("meta"))
    assert [pickled(tagger).plan.device.type for tagger in (named, best)] == ["cpu", "meta"]


# Other processes


@pytest.mark.long
def test_a_tagger_is_sent_to_another_process(tagger):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(tagger.predict, [TEXT]) == [tagger.predict(TEXT)]


@pytest.mark.long
def test_a_fitted_estimator_is_copied_and_a_grid_is_searched_in_two_processes(tiny_pair, tmp_path):
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    estimator = boustro.Tagger(tiny_pair, "linear", epochs=2)
    fitted = clone(estimator).fit(X, Y)
    for other in (pickled(fitted), copy.deepcopy(fitted), dumped(fitted, tmp_path / "estimator")):
        assert other.tag(X) == fitted.tag(X)
    assert not clone(fitted).is_trained
    search = GridSearchCV(estimator, {"epochs": [1, 2]}, cv=2, n_jobs=2, error_score="raise").fit(X, Y)
    assert len(search.cv_results_["mean_test_score"]) == 2 and search.best_estimator_.tag(X[:1])


FORKED = """
import os, signal, sys
import torch, boustro

tagger = boustro.Tagger.from_pretrained(sys.argv[1], device="cpu", cache=False)
words = [[f"word{i}-{k}" for k in range(40)] for i in range(400)]

def work():
    torch.rand(1 << 20).exp().sum()
    tagger.encoder().parts[0].tokenizer(words, is_split_into_words=True)
    return tagger.predict(sys.argv[2])

assert torch.get_num_threads() == 2
expected = work()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if work() == expected else 1)
assert torch.get_num_threads() == 2 and os.environ["TOKENIZERS_PARALLELISM"] == "true"
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_is_forked_after_a_prediction_predicts(tagger_folder):
    """Threads of OpenMP and of the tokenizers have been at work, and are not there in the child."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "true"}
    words = [sys.executable, "-c", FORKED, str(tagger_folder), TEXT]
    run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
