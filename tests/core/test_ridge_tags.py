"""The ridge head for entities: tags of every scheme, brute force, what it refuses, saving."""

import numpy as np
import pytest
import torch

import boustro
from boustro.heads.closed_form import LabelledWords, ridge
from boustro.heads.decoding import LikelyWords
from boustro.heads.options import TagOptions
from boustro.heads.registry import make_head
from boustro.types import Sentence

BIO = ("O", "B-LOC", "B-PER", "I-LOC", "I-PER")
IO = ("O", "LOC", "PER")
BIOES = ("O", "B-PER", "E-PER", "I-PER", "S-PER")


def head(labels=BIO, width=3, **options):
    return make_head("ridge", TagOptions(**options), ((1, width),), labels)


def entities(labels, tags, starts):
    ids = np.array([labels.index(tag) for tag in tags])
    kinds, runs = head(labels)._entities(ids, np.array(starts))
    return [(int(kinds[a]), int(a), int(b)) for a, b in zip(runs.first, runs.stop, strict=True)]


def test_entities_of_every_scheme():
    assert entities(BIO, ["B-PER", "I-PER", "B-PER", "O", "B-LOC", "I-LOC"], [0, 5, 6]) == [
        (1, 0, 2),
        (1, 2, 3),
        (0, 4, 5),
        (0, 5, 6),  # a sentence begins
    ]
    assert entities(IO, ["PER", "PER", "LOC", "O", "LOC"], [0, 3, 3, 5]) == [(1, 0, 2), (0, 2, 3), (0, 4, 5)]
    assert entities(BIOES, ["S-PER", "B-PER", "I-PER", "E-PER", "O"], [0, 5]) == [(0, 0, 1), (0, 1, 4)]


def test_both_regressions_are_ridge_on_words_and_on_means_of_entities():
    rng = np.random.default_rng(0)
    x, lengths = rng.normal(size=(30, 3)).astype(np.float32), torch.tensor([10, 0, 8, 12])
    tags = ["B-PER", "I-PER", "O", "B-LOC", "O"] * 6
    made = head()
    made.solve(torch.from_numpy(x), torch.tensor([BIO.index(t) for t in tags]), lengths)
    starts = np.array([0, 10, 10, 18, 30])
    inside = ridge(LabelledWords(x, np.array([t != "O" for t in tags]).astype(int), 2, starts))
    np.testing.assert_allclose(made.body.maps[0].weight.numpy(), inside.weight, rtol=1e-5)
    means = np.concatenate([[x[i : i + 2].mean(0), x[i + 3]] for i in range(0, 30, 5)])
    kinds = np.array([1, 0] * 6)
    kind = ridge(LabelledWords(means, kinds, 2, np.array([0, 4, 4, 7, 12])))
    np.testing.assert_allclose(made.body.maps[1].weight.numpy()[:2], kind.weight, rtol=1e-4, atol=1e-6)
    p = torch.softmax(made.body.scales[0] * torch.from_numpy(x @ inside.weight.T + inside.bias), -1).numpy()
    ids, scores = (np.concatenate(side) for side in zip(*made.predict(torch.from_numpy(x), lengths), strict=True))
    assert ((ids > 0) == (p[:, 1] > p[:, 0])).all()
    np.testing.assert_allclose(scores[ids == 0], p[ids == 0, 0], rtol=1e-4)
    assert (scores[ids > 0] <= p[ids > 0, 1] + 1e-6).all()
    with torch.no_grad():
        made.body.maps[0].bias.add_(torch.tensor([1.0, 0]))  # so that few words are in an entity
    p = made.body.probabilities(0, torch.from_numpy(x)).detach().numpy()[:, 1]
    made.words = LikelyWords(least := float(np.median(p)))
    more = np.concatenate([ids for ids, _ in made.predict(torch.from_numpy(x), lengths)])
    assert ((more > 0) == (p >= least)).all() and least < 0.5


def test_it_begins_at_what_a_stream_tells():
    tells = (("O", 0), ("PERSON", 1), ("PLACE", 2))
    made = make_head("ridge", TagOptions(), ((1, 3, None, False, tells),), ("O", "B-LOC", "B-PER", "B-law"))
    rows = [[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [1.0, 0.0, 0.0], [0.1, 0.1, 0.8]]
    likely = torch.tensor(rows)[:, None]
    made.mixes.fit([likely.numpy()])
    x = made.mix([likely])
    made.solve(x[:3], torch.tensor([0, 2, 0]), torch.tensor([3]))  # without a place
    ids, _ = made.predict(x, torch.tensor([4]))[0]
    assert ids.tolist() == [0, 2, 0, 1]


def test_a_stream_that_tells_of_no_kind_changes_nothing():
    rng, tags = np.random.default_rng(0), torch.tensor([0, 2, 0, 1, 0, 2])
    x = torch.from_numpy(rng.normal(size=(6, 3)).astype(np.float32))
    made = [make_head("ridge", TagOptions(), (shape,), BIO) for shape in ((1, 3), (1, 3, None, False, (("O", 0),)))]
    for one in made:
        one.solve(x, tags, torch.tensor([2, 2, 2]))
    for plain, told in zip(made[0].body.maps, made[1].body.maps, strict=True):
        np.testing.assert_array_equal(plain.weight[:2].numpy(), told.weight[:2].numpy())


@pytest.mark.parametrize(("labels", "wanted"), [(BIO, [2, 4, 0, 2]), (IO, [2, 2, 0, 2]), (BIOES, [1, 2, 0, 4])])
def test_answers_are_tags_of_the_scheme(labels, wanted):
    made = head(labels, width=1)
    made.body.maps[0].weight.copy_(torch.tensor([[-1.0], [1.0]]))
    made.body.maps[0].bias.zero_()
    made.body.maps[1].weight.zero_()
    made.body.maps[1].bias.fill_(-torch.inf)[len(made.forms) - 1] = 0
    ids, _ = made.predict(torch.tensor([[1.0], [1], [-1], [1]]), torch.tensor([4]))[0]
    assert ids.tolist() == wanted


@pytest.mark.parametrize("labels", [("NOUN", "VERB"), ("O",)])
def test_what_it_cannot_do_is_refused(labels):
    with pytest.raises(ValueError, match="a ridge head finds entities"):
        head(labels)


def test_one_labelled_sentence_is_enough_and_recall_is_not_promised(tiny_pair):
    data = [Sentence(("Ada", "left", "Tarn"), ("B-PER", "O", "B-LOC"))]
    tagger = boustro.Tagger(tiny_pair, "ridge", cache=False).fit(data, data)
    assert len(tagger.answer(data)[0].tags) == 3 and tagger.promise is None
    with pytest.raises(ValueError, match="no recall can be promised"):
        tagger.with_recall(0.9)
