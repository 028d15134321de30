"""Tagger: labelled sentences in, a trained head out; then text in, entities out.

    tagger = Tagger(encoder="starter", head="mlp")
    tagger.fit("train.conll", dev="dev.conll", seed=1)
    tagger.evaluate("dev.conll").f1
    tagger.predict("Jane Villanueva of United Airlines spoke.")
    tagger.save_pretrained("ner"); Tagger.from_pretrained("ner")

The LMs stay frozen: features are computed once and cached, and only the head is trained and saved.
"""

import copy
import json
import tempfile
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from boustro import __version__
from boustro.encoders import Encoder, exact_spec, load_encoder, with_cache
from boustro.given import as_sentences, as_texts
from boustro.heads.base import Head
from boustro.heads.options import HeadOptions, TrainOptions
from boustro.heads.registry import head_class, make_head
from boustro.heads.training import (
    Dev,
    TrainLog,
    mix_all,
    predict_mixed,
    predict_streams,
    propose_batch,
    train_head,
)
from boustro.metrics.labels import LabelScore
from boustro.metrics.spans import SpanScore, extract_spans
from boustro.models.hardware import best_device, find_device
from boustro.options import Seed, check_options
from boustro.store import read_folder, read_json, write_file, write_folder
from boustro.tasks.answers import Answer, Labelling, TextAnswer, make_labelling, open_labelling
from boustro.tasks.card import KIND, write_card
from boustro.tasks.config import make_config
from boustro.tasks.data import Data, data_name, read_data
from boustro.tasks.data.conll import data_fingerprint
from boustro.tasks.data.schemes import Scheme
from boustro.tasks.hub import download, upload
from boustro.text.words import split_text
from boustro.types import Entity, Sentence


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
            head: linear, mlp, block, bilstm or span.
            preset: "default", or "paper" for section 3.2 of the backward-LM paper.
            cache: Keep the features of training and development data on disk (a folder says where).
            options: Fields of `TaggerConfig`, over the preset's.
        """
        check_options(Tagger.__init__, locals())
        head_class(head)  # an unknown one is refused before anything is encoded
        self.config = make_config(preset, encoder=encoder, head=head, **options)
        self.cache, self._wanted_device = cache, device
        self.device = find_device(device) if device else best_device()
        self.labelling: Labelling | None = None
        self.head: Head | None = None
        self.record: dict[str, Any] = {}
        self._encoders: dict[bool, Encoder] = {}
        self._trained_on: list[Any] | None = None
        """The LMs that the encoder must be made of, where it is not open yet."""

    def __getstate__(self) -> dict[str, Any]:
        """All but the encoders, which a copy, in whatever process or folder, opens again when it needs them."""
        state = {**self.__dict__, "_encoders": {}}
        if self.head is not None:
            state["head"] = copy.deepcopy(self.head).cpu()
            if self._encoders:
                identity = self.encoder().identity()
                state["_trained_on"] = _weights(identity)
                state["config"] = replace(self.config, encoder=exact_spec(self.config.encoder, identity))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.device = find_device(self._wanted_device) if self._wanted_device else best_device()
        if self.head is not None:
            self.head.to(self.device)

    def encoder(self, cached: bool = False) -> Encoder:
        """The encoder, loaded when it is first needed; `cached` puts the feature cache before it.

        Raises `ValueError` where the LMs are not those that the tagger was trained on, before it was saved or copied.
        """
        cached = cached and bool(self.cache)
        if cached not in self._encoders:
            c = self.config
            options = {name: getattr(c, name) for name in ("layers", "pooling", "spacing", "context", "dtype")}
            if c.sentinel is not None:
                options["sentinel"] = c.sentinel
            made = (
                with_cache(self.encoder(), self.cache)  # the LMs are loaded once for both
                if cached
                else load_encoder(c.encoder, device=str(self.device), **options)
            )
            if self._trained_on is not None and self._trained_on != _weights(made.identity()):
                raise ValueError(
                    f"the model at {c.encoder!r} is not the one that this tagger was trained on; "
                    "name the right one with --encoder, or train again"
                )
            self._encoders[cached] = made
        return self._encoders[cached]

    def fit(self, train: Data, dev: Data | None = None, seed: Seed = 1, scheme: Scheme = "auto") -> "Tagger":
        """Train the head; with `dev`, keep the epoch whose entity F1 there is best.

        Raises `ValueError` with file:line for bad data, and when the training set holds no entity.
        """
        check_options(Tagger.fit, {"seed": seed, "scheme": scheme})
        started = time.monotonic()
        train, dev = read_data(train, scheme), read_data(dev, scheme) if dev is not None else None
        found = {tag for sentence in train for tag in sentence.tags or ()}
        if found <= {"O"}:
            raise ValueError(f"{data_name(train)}: no word is labelled with an entity, so there is nothing to learn")
        if not any(sentence.document for sentence in train):  # a head reads later what it was trained on
            self.config = replace(self.config, context="sentence")
            self._encoders.clear()
        labelling = self.labelling = make_labelling(self.config.head, train, self.config.inside)
        self._trained_on = None
        encoder = self.encoder(cached=True)
        features = encoder.encode_all(train)
        dev_features = encoder.encode_all(dev) if dev else None
        encoded = time.monotonic()
        c = self.config
        batch_sentences = c.batch_sentences or propose_batch(len(train))
        torch.manual_seed(seed)
        chosen = {name: getattr(c, name) for name in HeadOptions.__dataclass_fields__}
        head_options = HeadOptions(**{**chosen, "max_span": c.max_span or labelling.longest(train)})
        streams = tuple((s.num_layers, s.width) for s in encoder.streams)
        self.head = make_head(c.head, head_options, streams, labelling.labels)
        train_options = TrainOptions(
            epochs=c.epochs,
            lr=c.lr,
            weight_decay=c.weight_decay,
            mix_epochs=c.mix_epochs,
            mix_lr_multiplier=c.mix_lr,
        )

        def dev_score(answers: list[Any]) -> float:
            assert dev is not None
            return self.score(dev, self._read(answers, [len(s) for s in dev])).value

        log = train_head(
            self.head,
            features.streams,
            features.lengths,
            labelling.targets(train),
            train_options,
            seed,
            batch_sentences,
            Dev(dev_features.streams, dev_features.lengths, dev_score) if dev_features else None,
            self.device,
        )
        dev_scores = None
        if dev and dev_features:
            mixed = mix_all(self.head, dev_features.streams)
            self.head.eval().calibrate(mixed.float(), torch.from_numpy(dev_features.lengths), labelling.gold(dev))
            answers = predict_mixed(self.head, mixed, dev_features.lengths)
            dev_scores = self.score(dev, self._read(answers, dev_features.lengths)).to_dict()
        self.record = {
            "seed": seed,
            "batch_sentences": batch_sentences,
            "train": _describe(train),
            "dev": _describe(dev) if dev else None,
            "encoder_parameters": encoder.num_parameters,
            "head_parameters": sum(p.numel() for p in self.head.parameters()),
            "encode_seconds": round(encoded - started, 2),
            "train_seconds": round(time.monotonic() - encoded, 2),
            "dev_scores": dev_scores,
            "notices": {
                **+encoder.counts,
                **_unpredictable(dev or [], found),
                **labelling.unreachable(train, head_options.max_span or 0),
            },
            **_log_record(log),
            "layer_weights": {
                s.name: m.layer_weights()  # type: ignore[operator]
                for s, m in zip(encoder.streams, self.head.mixes, strict=True)
            },
        }
        return self

    def tag(self, sentences: Iterable[Sentence | Sequence[str]], cached: bool = False) -> list[tuple[str, ...]]:
        """BIO tags of sentences that are split into words already."""
        return [answer.tags for answer in self.answer(sentences, cached)]

    def answer(self, sentences: Iterable[Sentence | Sequence[str]], cached: bool = False) -> list[Answer]:
        """Tags and entities, with their probabilities, of sentences that are split into words already.

        Raises `ValueError`, with the place, for a word that is no text.
        """
        head = self._trained()
        features = self.encoder(cached).encode_all(as_sentences(sentences))
        return self._read(predict_streams(head, features.streams, features.lengths), features.lengths)

    def answer_texts(self, texts: Iterable[str]) -> list[TextAnswer]:
        """The same of running texts, each a document of its own.

        Raises `ValueError`, with the place, for what is no text.
        """
        texts = as_texts(texts)
        split = [list(split_text(text, f"text {number}")) for number, text in enumerate(texts)]
        answers = iter(self.answer([placed.sentence for parts in split for placed in parts]))
        return [
            TextAnswer(text, tuple((placed, next(answers)) for placed in parts))
            for text, parts in zip(texts, split, strict=True)
        ]

    def evaluate(self, data: Data, scheme: Scheme = "auto") -> SpanScore | LabelScore:
        """Entity-level scores, in percent, with conlleval's rules; accuracy where the tags are no spans.

        Gold labels that the tagger does not know, so that it can never be right there, are a warning.
        """
        sentences = read_data(data, scheme)
        for what, count in self.unknown_labels(sentences).items():
            warnings.warn(f"{data_name(sentences)}: {count:,} {what}", stacklevel=2)
        return self.score(sentences, self.answer(sentences, cached=True))

    def unknown_labels(self, sentences: Sequence[Sentence]) -> dict[str, int]:
        """What stands there labelled as this tagger never answers, see `Labelling.unknown`."""
        self._trained()
        assert self.labelling is not None
        return self.labelling.unknown(sentences)

    def score(self, sentences: Sequence[Sentence], answers: Sequence[Answer]) -> SpanScore | LabelScore:
        """Scores of answers, signed."""
        assert self.labelling is not None
        signature = {"data": data_fingerprint(sentences), "version": f"boustro {__version__}"}
        return self.labelling.score(sentences, answers, signature)

    @overload
    def predict(self, text: str) -> list[Entity]: ...
    @overload
    def predict(self, text: Iterable[str]) -> list[list[Entity]]: ...
    def predict(self, text: str | Iterable[str]) -> list[Entity] | list[list[Entity]]:
        """Entities of a text, or of each of several: label, start, end (characters, half-open), text, score.

        Several are any iterable: a list, a generator, a column of a data frame. The score of a tagged entity is the
        geometric mean of the probabilities of its tags. Raises `ValueError`, with the place, for what is no text.
        """
        if isinstance(text, str):
            return self.answer_texts([text])[0].entities
        return [answer.entities for answer in self.answer_texts(text)]

    def save_pretrained(self, path: str | Path) -> None:
        """Write a tagger folder: the head, the tags, and which encoder it belongs to."""
        check_options(Tagger.save_pretrained, locals())
        head, labelling = self._trained(), self.labelling
        assert labelling is not None
        identity = self.encoder(cached=True).identity()
        config = {
            "version": __version__,
            "config": asdict(replace(self.config, encoder=exact_spec(self.config.encoder, identity))),
            "encoder_identity": identity,
            "head": {"kind": head.kind, "streams": head.streams, **asdict(head.options)},
            "labelling": labelling.to_dict(),
            "record": self.record,
        }
        with write_folder(path, KIND) as folder:
            save_file(
                {name: t.cpu().contiguous() for name, t in head.state_dict().items()}, folder / "head.safetensors"
            )
            write_file(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
            write_card(folder, Path(path).resolve().name)

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
        check_options(Tagger.from_pretrained, locals())
        path = download(path, revision)
        place = find_device(device) if device else best_device()
        with read_folder(path, KIND, verify=True):
            saved = read_json(path / "config.json")
            tagger = cls(**saved["config"], cache=cache)
            tagger.labelling = open_labelling(**saved["labelling"])
            head = {name: value for name, value in saved["head"].items() if name != "labels"}
            kind, streams = head.pop("kind"), tuple(tuple(s) for s in head.pop("streams"))
            tagger.head = make_head(kind, HeadOptions(**head), streams, tagger.labelling.labels)
            tagger.head.load_state_dict(load_file(path / "head.safetensors"))
            tagger.record = saved["record"]
            tagger._trained_on = _weights(saved["encoder_identity"])
        tagger.device, tagger._wanted_device = place, device
        tagger.head.to(tagger.device)
        if encoder:
            tagger.config = replace(tagger.config, encoder=encoder)
        try:
            tagger.encoder()
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{path}: its encoder is not there ({error}); name it with --encoder") from error
        return tagger

    @property
    def types(self) -> list[str]:
        """The entity types that it knows, or, where tags are no spans, the tags."""
        return list(self.labelling.types) if self.labelling else []

    def __repr__(self) -> str:
        state = f"types={self.types}" if self.head is not None else "trained=False"
        return f"Tagger(encoder={self.config.encoder!r}, head={self.config.head!r}, {state})"

    def _read(self, answers: Sequence[Any], lengths: Sequence[int] | np.ndarray) -> list[Answer]:
        assert self.labelling is not None
        return [self.labelling.read(answer, int(n)) for answer, n in zip(answers, lengths, strict=True)]

    def _trained(self) -> Head:
        if self.head is None:
            raise ValueError(
                "this tagger is not trained yet; call fit first, or open a trained one with from_pretrained"
            )
        return self.head


def _unpredictable(dev: Sequence[Sentence], tags: set[str]) -> dict[str, int]:
    """Entities of the dev set that no training could teach: their tags never occur in the training set."""
    count = sum(not set(s.tags[e.start : e.end]) <= tags for s in dev if s.tags for e in extract_spans(s.tags))
    return {"dev entities with a tag that the training data never show": count} if count else {}


def _describe(sentences: Sequence[Sentence]) -> dict[str, Any]:
    return {"name": data_name(sentences), "sentences": len(sentences), "fingerprint": data_fingerprint(sentences)}


def _log_record(log: TrainLog) -> dict[str, Any]:
    return {
        "best_epoch": log.best_epoch,
        "losses": [round(x, 5) for x in log.losses],
        "dev_f1": [round(x, 3) for x in log.scores],
    }


def _weights(identity: dict[str, Any]) -> list[Any]:
    parts = identity.get("parts", [identity])
    return [(part["weights"], part["vocabulary"], part.get("direction")) for part in parts]
