"""Train the head of a SentenceEncoder over a frozen encoder: by neighbouring sentences, then by scored pairs.

    neighbours    two sentences that follow each other belong together, all other ones of the batch do not
    pairs         the cosines of pairs are brought into the order of their scores

Either may stand alone; pairs after neighbours go on from the head that those gave. Every different text is encoded
once, whatever the number of its pairs.

Sources: Logeswaran and Lee 2018, *An efficient framework for learning sentence representations* (neighbours);
Gao et al. 2021 (contrast within a batch); Su 2022 (CoSENT).
"""

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch

from boustro.embeddings.data import neighbours
from boustro.embeddings.encoder import SentenceEncoder
from boustro.embeddings.head import EmbeddingHead
from boustro.embeddings.options import EmbedTraining
from boustro.embeddings.pooling import WordFrequencies, pool_words
from boustro.encoders.spec import with_cache
from boustro.features.sentences import distinct_sentences
from boustro.heads.inputs import Inputs
from boustro.heads.layout import sentence_starts
from boustro.heads.training import Dev, mix_all, predict_inputs, train_head
from boustro.metrics.similarity import score_correlation
from boustro.options import Seed, check_options
from boustro.tasks.data.pairs import Pair, read_pairs
from boustro.types import Sentence

Model = TypeVar("Model", bound=SentenceEncoder)


def fit_neighbours(
    model: Model,
    documents: Iterable[str],
    seed: Seed = 1,
    *,
    most: int | None = None,
    cache: bool = True,
    **training: Any,
) -> Model:
    """Train the head of `model` by in-batch contrast on sentences that follow each other.

    Args:
        documents: Raw texts, each with several sentences.
        most: Pairs of sentences, taken from the beginning.
        cache: Keep the features on disk.
        training: Fields of `EmbedTraining`.

    Raises `ValueError` where no text has two sentences.
    """
    check_options(fit_neighbours, {"seed": seed, "most": most})
    pairs = neighbours(documents, most=most)
    return _fit(model, pairs, None, None, seed, EmbedTraining(**training), cache)


def fit_pairs(
    model: Model, pairs: Any, dev: Any | None = None, seed: Seed = 1, *, cache: bool = True, **training: Any
) -> Model:
    """Train the head of `model` on scored pairs; with `dev`, keep the epoch with the best rank correlation there.

    Args:
        pairs: Scored pairs, see `tasks.data.pairs.read_pairs`.
        dev: The same.
        cache: Keep the features on disk.
        training: Fields of `EmbedTraining`.

    Raises `ValueError` with file:line for bad data, and where all scores are equal.
    """
    check_options(fit_pairs, {"seed": seed})
    train = read_pairs(pairs, "score")
    scores = np.array(_scores(train), np.float32)
    if len(np.unique(scores)) < 2:
        raise ValueError("all pairs have the same score; training needs pairs that are more and less alike")
    held_out = read_pairs(dev, "score") if dev is not None else None
    return _fit(model, [pair.parts for pair in train], scores, held_out, seed, EmbedTraining(**training), cache)


def score_pairs(model: SentenceEncoder, data: Any) -> dict[str, float]:
    """Pearson and Spearman correlation, in percent, of the cosines with the scores of pairs."""
    pairs = read_pairs(data, "score")
    first, second = model.embed([pair.first for pair in pairs]), model.embed([pair.second for pair in pairs])
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(1) / lengths.clip(1e-12)
    score = score_correlation(_scores(pairs), cosines.tolist())
    return {"pearson": score.pearson, "spearman": score.spearman}


def _scores(pairs: Sequence[Pair]) -> list[float]:
    return [pair.score for pair in pairs if pair.score is not None]


def _fit(
    model: Model,
    pairs: Sequence[tuple[Sentence, Sentence]],
    scores: np.ndarray | None,
    dev: Sequence[Pair] | None,
    seed: int,
    training: EmbedTraining,
    cache: bool,
) -> Model:
    started = time.monotonic()
    if model.frequencies is None and model.options.pooling == "sif":
        model.frequencies = WordFrequencies.fit(sentence for pair in pairs for sentence in pair)
    inputs = _inputs(model, pairs, cache)
    on_dev = None
    if dev:
        gold = _scores(dev)
        dev_inputs = _inputs(model, [pair.parts for pair in dev], cache)
        on_dev = Dev(dev_inputs, lambda found: score_correlation(gold, found).spearman)
    encoded = time.monotonic()
    torch.manual_seed(seed)
    head = model.head
    if head is None:
        streams = [(s.num_layers, s.width) for s in model.encoder().streams]
        head = EmbeddingHead(training.head_options(), streams, training.scale)
        head.start_whitened(_means(head, inputs))
    targets = None if scores is None else torch.from_numpy(scores)
    log = train_head(
        head,
        inputs,
        lambda examples, rows: None if targets is None else targets[torch.from_numpy(examples)],
        training.train_options(),
        seed=seed,
        batch_sentences=training.batch_sentences or 32,
        dev=on_dev,
        device=model.device,
    )
    model.head = head
    model.record = {
        "seed": seed,
        "learned": "neighbours" if scores is None else "pairs",
        "pairs": len(pairs),
        "dev_spearman": on_dev.score(predict_inputs(head, on_dev.inputs)) if on_dev else None,
        "before": model.record or None,
        "losses": [round(x, 5) for x in log.losses],
        "dev_curve": [round(x, 3) for x in log.scores],
        "best_epoch": log.best_epoch,
        "encode_seconds": round(encoded - started, 2),
        "train_seconds": round(time.monotonic() - encoded, 2),
    }
    return model


def _inputs(model: SentenceEncoder, pairs: Sequence[tuple[Sentence, Sentence]], cache: bool) -> Inputs:
    """The features of every different text, once, the pairs as numbers of texts, and the weights of words."""
    texts, parts = distinct_sentences(pairs, tuple)
    encoder = with_cache(model.encoder()) if cache else model.encoder()
    features = encoder.encode_all(texts)
    side = model.word_weights([sentence for pair in pairs for sentence in pair])
    return Inputs(features.streams, features.lengths, parts, side[:, None])


def _means(head: EmbeddingHead, inputs: Inputs) -> np.ndarray:
    """(texts, d) the weighted means of the words of the first and the second texts, as the head reads them."""
    head.mixes.fit_standardisation(inputs.streams)
    mixed = mix_all(head, inputs.streams)
    means = []
    for number in range(len(inputs)):
        words = inputs.batch(np.array([number])).to_words(mixed).numpy(force=True)
        bounds = sentence_starts(inputs.lengths[inputs.parts[number]])
        means += [pool_words(words[a:b, :-1], words[a:b, -1]) for a, b in pairwise(bounds)]
    return np.stack(means)
