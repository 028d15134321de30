"""Tagger: labelled sentences in, a trained head out; then text in, entities out.

    tagger = Tagger(encoder="starter", head="mlp")
    tagger.fit("train.conll", dev="dev.conll", seed=1)
    tagger.evaluate("dev.conll").f1
    tagger.predict("Jane Villanueva of United Airlines spoke.")
    tagger.save_pretrained("ner"); Tagger.from_pretrained("ner")

The LMs stay frozen: features are computed once and cached, and only the head is trained and saved.
"""

import difflib
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from boustro import __version__
from boustro.encoders import Encoder, exact_spec, load_encoder, with_cache
from boustro.heads.tagging import HeadConfig, TaggingHead
from boustro.heads.training import Dev, TrainConfig, TrainLog, predict_scores, train_head
from boustro.metrics.spans import SpanScore, extract_spans, score_spans
from boustro.models.hardware import best_device
from boustro.store import open_folder, write_file, write_folder
from boustro.tasks.card import KIND, write_card
from boustro.tasks.conll import data_fingerprint, read_conll
from boustro.tasks.hub import download, upload
from boustro.tasks.schemes import Scheme, detect_scheme, to_bio
from boustro.tasks.words import split_text
from boustro.types import Entity, Sentence

Data = str | Path | Sequence[Sentence] | Sequence[tuple[Sequence[str], Sequence[str]]]


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """What can be chosen about a tagger; the defaults are what measurement favoured (docs/log.md)."""

    encoder: str = "starter"
    """Spec of the encoder: a model, or several joined by +."""
    head: str = "mlp"
    """linear or mlp."""
    layers: str = "all"
    """all, last, or numbers such as 0,2,4."""
    pooling: str = "exit+before"
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +."""
    spacing: str = "natural"
    """natural, or always: a space before every word."""
    context: str = "document"
    """What an LM reads: the sentence alone, or the document around it, up to its window. Training data that
    does not say where documents begin makes it the sentence."""
    standardise: bool = True
    """Bring every layer and dimension to mean 0 and standard deviation 1."""
    hidden: int | None = 512
    """Width inside the mlp; none for the width of its input."""
    dropout: float = 0.3
    epochs: int = 20
    lr: float = 1e-3
    batch_sentences: int = 32
    weight_decay: float = 0.01
    mix_epochs: int = 4
    """Epochs that learn the mix of layers; then it is frozen."""
    mix_lr: float = 10.0
    """How many times faster the mix learns."""
    dtype: str | None = None
    """float32, bfloat16 or float16; by default the fastest."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {  # section 3.2
        "layers": "last",
        "pooling": "first",
        "spacing": "always",
        "context": "sentence",
        "standardise": False,
        "hidden": None,
        "dropout": 0.1,
        "epochs": 20,
        "lr": 1e-3,
        "batch_sentences": 32,
    },
}


def make_config(preset: str = "default", **chosen: Any) -> TaggerConfig:
    """A preset with what was chosen put over it; `ValueError` for an unknown preset or option."""
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}: known are {', '.join(PRESETS)}")
    known = TaggerConfig.__dataclass_fields__
    for name in chosen:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ValueError(f"unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return TaggerConfig(**{**PRESETS[preset], **chosen})


class Tagger:
    """An encoder and a trained head."""

    def __init__(
        self,
        encoder: str = "starter",
        head: str = "mlp",
        *,
        preset: str = "default",
        cache: bool | str | Path = True,
        device: str | None = None,
        **options: Any,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            encoder: Spec, see `boustro.load_encoder`.
            head: linear or mlp.
            preset: "default", or "paper" for section 3.2 of the backward-LM paper.
            cache: Keep the features of training and development data on disk (a folder says where).
            options: Fields of `TaggerConfig`, over the preset's.
        """
        self.config = make_config(preset, encoder=encoder, head=head, **options)
        self.cache, self.device = cache, torch.device(device) if device else best_device()
        self.tags: list[str] = []
        self.head: TaggingHead | None = None
        self.record: dict[str, Any] = {}
        self._encoders: dict[bool, Encoder] = {}

    def encoder(self, cached: bool = False) -> Encoder:
        """The encoder, loaded when it is first needed; `cached` puts the feature cache before it."""
        cached = cached and bool(self.cache)
        if cached not in self._encoders:
            c = self.config
            options = {name: getattr(c, name) for name in ("layers", "pooling", "spacing", "context", "dtype")}
            self._encoders[cached] = (
                with_cache(self.encoder(), self.cache)  # the LMs are loaded once for both
                if cached
                else load_encoder(c.encoder, device=str(self.device), **options)
            )
        return self._encoders[cached]

    def fit(self, train: Data, dev: Data | None = None, seed: int = 1, scheme: Scheme = "auto") -> "Tagger":
        """Train the head; with `dev`, keep the epoch whose entity F1 there is best.

        Raises `ValueError` with file:line for bad data, and when the training set holds no entity.
        """
        started = time.monotonic()
        train, dev = read_data(train, scheme), read_data(dev, scheme) if dev is not None else None
        found = {tag for sentence in train for tag in sentence.tags or ()}
        if found <= {"O"}:
            raise ValueError(f"{data_name(train)}: no word is labelled with an entity, so there is nothing to learn")
        if not any(sentence.document for sentence in train):  # a head reads later what it was trained on
            self.config = replace(self.config, context="sentence")
            self._encoders.clear()
        self.tags = ["O", *sorted(found - {"O"})]
        ids = {tag: i for i, tag in enumerate(self.tags)}
        encoder = self.encoder(cached=True)
        features = encoder.encode_all(train)
        dev_features = encoder.encode_all(dev) if dev else None
        encoded = time.monotonic()
        c = self.config
        torch.manual_seed(seed)
        self.head = TaggingHead(
            HeadConfig(
                kind=c.head,
                streams=tuple((s.num_layers, s.width) for s in encoder.streams),
                num_tags=len(self.tags),
                hidden=c.hidden,
                dropout=c.dropout,
                standardise=c.standardise,
            )
        )

        def dev_f1(scores: torch.Tensor) -> float:
            assert dev is not None and dev_features is not None
            predicted = self._decode(scores, dev_features.lengths)
            return score_spans([s.tags or () for s in dev], [tags for tags, _ in predicted]).f1

        log = train_head(
            self.head,
            features.streams,
            features.starts,
            np.array([ids[tag] for s in train for tag in s.tags or ()], np.int64),
            TrainConfig(
                epochs=c.epochs,
                lr=c.lr,
                batch_sentences=c.batch_sentences,
                weight_decay=c.weight_decay,
                mix_epochs=c.mix_epochs,
                mix_lr=c.mix_lr,
                seed=seed,
            ),
            Dev(dev_features.streams, dev_f1) if dev_features else None,
            self.device,
        )
        self.record = {
            "seed": seed,
            "train": {"name": data_name(train), "sentences": len(train), "fingerprint": data_fingerprint(train)},
            "dev": {"name": data_name(dev), "sentences": len(dev), "fingerprint": data_fingerprint(dev)}
            if dev
            else None,
            "encoder_parameters": encoder.num_parameters,
            "head_parameters": sum(p.numel() for p in self.head.parameters()),
            "encode_seconds": round(encoded - started, 2),
            "train_seconds": round(time.monotonic() - encoded, 2),
            "dev_scores": self.score(
                dev,
                [
                    tags
                    for tags, _ in self._decode(predict_scores(self.head, dev_features.streams), dev_features.lengths)
                ],
            ).to_dict()
            if dev and dev_features
            else None,
            "notices": {**+encoder.counts, **_unpredictable(dev or [], found)},
            **_log_record(log),
            "layer_weights": {
                s.name: m.layer_weights()  # type: ignore[operator]
                for s, m in zip(encoder.streams, self.head.mixes, strict=True)
            },
        }
        return self

    def tag(self, sentences: Iterable[Sentence | Sequence[str]], cached: bool = False) -> list[tuple[str, ...]]:
        """BIO tags of sentences that are split into words already."""
        return [tags for tags, _ in self._tag(list(sentences), cached)]

    def evaluate(self, data: Data, scheme: Scheme = "auto") -> SpanScore:
        """Entity-level scores, in percent, with conlleval's rules."""
        sentences = read_data(data, scheme)
        return self.score(sentences, self.tag(sentences, cached=True))

    def score(self, sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> SpanScore:
        """Scores of predicted tags, signed."""
        signature = {"scheme": "BIO", "data": data_fingerprint(sentences), "version": f"boustro {__version__}"}
        return score_spans([s.tags or () for s in sentences], predicted, signature)

    @overload
    def predict(self, text: str) -> list[Entity]: ...
    @overload
    def predict(self, text: Sequence[str]) -> list[list[Entity]]: ...
    def predict(self, text: str | Sequence[str]) -> list[Entity] | list[list[Entity]]:
        """Entities of a text, or of each of several: label, start, end (characters, half-open), text, score.

        The score is the geometric mean of the probabilities of the entity's tags.
        """
        if isinstance(text, str):
            return self.predict([text])[0]
        split = [list(split_text(t, f"text {number}")) for number, t in enumerate(text)]
        tagged = iter(self._tag([placed.sentence for parts in split for placed in parts]))
        answers: list[list[Entity]] = []
        for whole, parts in zip(text, split, strict=True):
            answers.append([])
            for placed in parts:
                tags, scores = next(tagged)
                for span in extract_spans(tags):
                    start, end = placed.places[span.start][0], placed.places[span.end - 1][1]
                    score = float(np.exp(np.log(np.maximum(scores[span.start : span.end], 1e-12)).mean()))
                    answers[-1].append(Entity(span.label, start, end, whole[start:end], round(score, 4)))
        return answers

    def save_pretrained(self, path: str | Path) -> None:
        """Write a tagger folder: the head, the tags, and which encoder it belongs to."""
        head = self._trained()
        encoder = self.encoder(cached=True)
        config = {
            "version": __version__,
            "config": asdict(replace(self.config, encoder=exact_spec(self.config.encoder, encoder.identity()))),
            "encoder_identity": encoder.identity(),
            "head": asdict(head.config),
            "tags": self.tags,
            "record": self.record,
        }
        with write_folder(path, KIND) as folder:
            save_file(
                {name: t.cpu().contiguous() for name, t in head.state_dict().items()}, folder / "head.safetensors"
            )
            write_file(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
        write_card(path)

    def push_to_hub(
        self, repo_id: str, *, private: bool = False, revision: str | None = None, token: str | None = None
    ) -> str:
        """Save and upload, see `tasks.hub.upload`; returns the address of the commit."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / repo_id.rpartition("/")[2]
            self.save_pretrained(path)
            write_card(path, repo_id)
            return upload(path, repo_id, private=private, revision=revision, token=token)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        revision: str | None = None,
        encoder: str | None = None,
        cache: bool | str | Path = True,
        device: str | None = None,
    ) -> "Tagger":
        """Open a tagger folder, or a tagger of the hub by its name, at a `revision` of it.

        `encoder` names its LMs anew, should they have moved. Raises `FileNotFoundError` or `ValueError` when
        the folder is missing, half-written or damaged, or when the LMs are not the ones that the head was
        trained on.
        """
        path = download(path, revision)
        open_folder(path, KIND, verify=True)
        saved = json.loads((path / "config.json").read_text("utf-8"))
        chosen = {**saved["config"], **({"encoder": encoder} if encoder else {})}
        tagger = cls(**chosen, cache=cache, device=device)
        head = {**saved["head"], "streams": tuple(tuple(s) for s in saved["head"]["streams"])}
        tagger.head = TaggingHead(HeadConfig(**head))
        tagger.head.load_state_dict(load_file(path / "head.safetensors"))
        tagger.head.to(tagger.device)
        tagger.tags, tagger.record = saved["tags"], saved["record"]
        if _weights(tagger.encoder().identity()) != _weights(saved["encoder_identity"]):
            raise ValueError(
                f"{path}: the model at {tagger.config.encoder!r} is not the one that this tagger was trained on; "
                "name the right one with --encoder, or train again"
            )
        return tagger

    def _tag(
        self, sentences: Sequence[Sentence | Sequence[str]], cached: bool = False
    ) -> list[tuple[tuple[str, ...], np.ndarray]]:
        head = self._trained()
        features = self.encoder(cached).encode_all(sentences)
        return self._decode(predict_scores(head, features.streams), features.lengths)

    def _decode(self, scores: torch.Tensor, lengths: np.ndarray) -> list[tuple[tuple[str, ...], np.ndarray]]:
        """Per sentence: the best tag of every word, and its probability."""
        best, ids = (t.numpy() for t in scores.max(-1)) if len(scores) else (np.zeros(0), np.zeros(0, int))
        ends = np.cumsum(lengths)
        names = np.array(self.tags, object)
        return [(tuple(names[ids[e - n : e]]), best[e - n : e]) for e, n in zip(ends, lengths, strict=True)]

    def _trained(self) -> TaggingHead:
        if self.head is None:
            raise ValueError(
                "this tagger is not trained yet; call fit first, or open a trained one with from_pretrained"
            )
        return self.head


def read_data(data: Data, scheme: Scheme = "auto") -> list[Sentence]:
    """A CoNLL file, sentences, or (words, tags) pairs, as sentences tagged in BIO."""
    if isinstance(data, (str, Path)):
        return read_conll(data, scheme)
    sentences = [s if isinstance(s, Sentence) else Sentence(tuple(s[0]), tuple(s[1])) for s in data]
    for number, sentence in enumerate(sentences, start=1):
        if sentence.tags is None or len(sentence.tags) != len(sentence.words):
            raise ValueError(f"sentence {number} of the given data: {len(sentence.words)} words, but not as many tags")
    if not sentences:
        raise ValueError("the given data holds no sentence")
    found = detect_scheme(sentences) if scheme == "auto" else scheme
    return [replace(s, tags=to_bio(s.tags or (), found)) for s in sentences]


def _unpredictable(dev: Sequence[Sentence], tags: set[str]) -> dict[str, int]:
    """Entities of the dev set that no training could teach: their tags never occur in the training set."""
    count = sum(not set(s.tags[e.start : e.end]) <= tags for s in dev if s.tags for e in extract_spans(s.tags))
    return {"dev entities with a tag that the training data never show": count} if count else {}


def data_name(sentences: Sequence[Sentence]) -> str:
    """The file that sentences came from."""
    return sentences[0].where.rpartition(":")[0] or "data given in memory"


def _log_record(log: TrainLog) -> dict[str, Any]:
    return {
        "best_epoch": log.best_epoch,
        "losses": [round(x, 5) for x in log.losses],
        "dev_f1": [round(x, 3) for x in log.scores],
    }


def _weights(identity: dict[str, Any]) -> list[Any]:
    parts = identity.get("parts", [identity])
    return [(part["weights"], part["vocabulary"], part["direction"]) for part in parts]
