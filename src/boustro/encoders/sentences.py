"""A folder of sentence-transformers, read as it was made and without that library: a text becomes one vector.

    modules.json    Transformer → Pooling → Dense, LayerNorm, Normalize, Dropout, as many as there are

    text       the prompt that is the default of the folder, and the text; in lower case with do_lower_case
    pieces     the first max_seq_length of them, with those that frame a text
    Pooling    cls, mean, max, mean_sqrt_len_tokens, weightedmean or lasttoken, several of them end to end; with
               include_prompt = false over the pieces behind the prompt
    Dense      activation(W · x + b), to which use_residual adds x, or R · x

The words have states, too: those of the Transformer, which is a masked or a causal LM. A task `reads` of a folder

    words    one stream with the states of the words, in windows, as `masked:` reads
    text     one stream with one layer: each word has the vector of its text
    both     both streams, of one LM, which in int8 reads a text once where its words have the same pieces
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from boustro.encoders.base import ConcatEncoder, Encoder, Identity, Stream
from boustro.encoders.lm import LMEncoder, MaskedEncoder
from boustro.encoders.loading import (
    exact_revision,
    find_file,
    load_config,
    load_tokenizer_of,
    vocabulary_fingerprint,
    weights_fingerprint,
)
from boustro.encoders.options import ReadingOptions, Reads, RecordedReading
from boustro.encoders.precision import compute_type, float_type, refuse_overflow
from boustro.encoders.reading import BATCH_PIECES, CHUNK_WORDS, batch_by_length, pad_rows
from boustro.encoders.transformer import DEVICE_PIECES, padding_mask
from boustro.errors import reason
from boustro.given import chunk_by_size
from boustro.hardware import find_device, is_spread
from boustro.models.body import Found, TransformersBody, find_own
from boustro.models.placing import load_placed
from boustro.models.pretrained import architecture_kind, describe_architecture, first_position
from boustro.models.products import INT8
from boustro.names import MODULES
from boustro.store import Artefact, fingerprint, hash_file, read_json
from boustro.text.alignment import guess_spaces
from boustro.text.tokenizers import UNLIKE_CUT, lower, unlike_cut
from boustro.text.words import join_words
from boustro.types import Sentence

LIBRARY = "sentence_transformers."
TRANSFORMER_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
POOLINGS = {  # by their names in files before version 6, in the order in which several are joined
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
VECTOR = "sentence_embedding"  # the library's name of what modules behind the pooling read and write
MODULE_WEIGHTS = "model.safetensors"
WHOLE = "whole text"
KEPT_VECTORS = 1 << 15  # of texts whose words were read: a twentieth of what the states of the words take
CUT_TEXTS = "texts longer than the folder's max_seq_length, whose vector is that of their beginning"


@dataclass(frozen=True)
class SentenceFolder:
    """The JSON files of a folder.

    Attributes:
        place: The folder, or its name on the Hub.
        body: Where its Transformer is.
        poolings: Which, end to end.
        pools_prompt: Whether the pieces of the prompt are pooled, too.
        prompt: Put before each text.
        longest: max_seq_length; `None` where the tokenizer and the model decide.
        lower: Whether texts are read in lower case.
        layers: The kind, the config and the path of each module behind the pooling.
    """

    place: Artefact
    revision: str | None
    body: Artefact
    poolings: tuple[str, ...]
    pools_prompt: bool
    prompt: str
    longest: int | None
    lower: bool
    layers: tuple[tuple[str, Mapping[str, Any], str], ...]

    def file(self, name: str) -> Path | None:
        """Return a file of the folder, which the Hub is asked for."""
        return find_file(self.place, name, self.revision)

    def fingerprint(self) -> str:
        """Of the weights of its Transformer and of its layers; name@commit of a model of the Hub."""
        weights = weights_fingerprint(self.place, exact_revision(self.place, self.revision))
        if not self.place.path.is_dir():
            return weights
        files = [self.file(f"{path}/{MODULE_WEIGHTS}") for _, _, path in self.layers]
        body = [weights_fingerprint(self.body, None)] if self.body is not self.place else []
        return fingerprint(weights, body, [file and hash_file(file) for file in files])


def read_modules(place: Artefact, revision: str | None = None) -> SentenceFolder:
    """Return the modules of a folder; `ValueError`, with the module, for what is not read as it was made."""
    listed = find_file(place, MODULES, revision)
    if listed is None:
        raise ValueError(
            f"{place}: no {MODULES}, so this is no folder of sentence-transformers; name it without sentences:"
        )

    def config_of(*names: str) -> dict[str, Any]:
        found = next(((file, name) for name in names if (file := find_file(place, name, revision))), None)
        return {} if found is None else _object(_settings(place, *found), found[0])

    modules = _settings(place, listed, MODULES)
    known = isinstance(modules, list) and all(isinstance(m, dict) and isinstance(m.get("type"), str) for m in modules)
    if not known:
        raise ValueError(f"{listed}: expected a list of modules, each with its type")
    kinds = [
        module["type"].rpartition(".")[2] if module["type"].startswith(LIBRARY) else module["type"]
        for module in modules
    ]
    paths = [str(module.get("path") or "") for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise ValueError(
            f"{place}: its modules begin with {' and '.join(kinds[:2]) or 'nothing'}; read are a Transformer and a "
            "Pooling, and what is behind them"
        )
    for kind, path in zip(kinds[2:], paths[2:], strict=True):
        if kind not in LAYERS:
            raise ValueError(
                f"{place}: its module {kind} ({path}) is not read; {', '.join(LAYERS)} are, behind a Pooling"
            )
    first, pooling = (
        config_of(*(f"{path}/{name}".lstrip("/") for name in names))
        for path, names in ((paths[0], TRANSFORMER_CONFIGS), (paths[1], ("config.json",)))
    )
    if (task := first.get("transformer_task", "feature-extraction")) != "feature-extraction":
        raise ValueError(f"{place}: its Transformer is made for {task}, and not for vectors of texts")
    layers = [(kind, config_of(f"{path}/config.json"), path) for kind, path in zip(kinds[2:], paths[2:], strict=True)]
    for kind, config, path in layers:
        if other := {config.get(f"module_{way}_name") for way in ("input", "output")} - {None, VECTOR}:
            raise ValueError(
                f"{place}: its module {kind} ({path}) is about {other.pop()}, and not about the vector of a text"
            )
    named = config_of("config_sentence_transformers.json")
    default = named.get("default_prompt_name")
    prompts = named.get("prompts") or {}
    if default is not None and default not in prompts:
        raise ValueError(f"{place}: its default prompt is {default!r}, which is not among its prompts")
    return SentenceFolder(
        place,
        revision,
        _body(place, paths[0]),
        _poolings(pooling, f"{place}/{paths[1]}"),
        bool(pooling.get("include_prompt", True)),
        str(prompts.get(default) or ""),
        first.get("max_seq_length"),
        bool(first.get("do_lower_case", False)),
        tuple(layers),
    )


def fingerprint_of(place: Artefact, revision: str | None) -> str:
    """Return `SentenceFolder.fingerprint` of a place; raises as `read_modules`."""
    return read_modules(place, revision).fingerprint()


def _settings(place: Artefact, file: Path, name: str) -> Any:
    return place.json(name) if place.path.is_dir() else read_json(file)


def _object(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object")
    return value


def _body(place: Artefact, path: str) -> Artefact:
    if not path or place.path.is_dir():
        return Artefact(place / path) if path else place
    raise ValueError(
        f"{place}: its Transformer is in the folder {path}, which the Hub is not asked for; download it all, and name "
        "the copy"
    )


def _poolings(config: Mapping[str, Any], where: str) -> tuple[str, ...]:
    given = config.get("pooling_mode")
    if given is None:
        given = [name for option, name in POOLINGS.items() if config.get(option)] or ["mean"]
    modes = (given,) if isinstance(given, str) else tuple(given)
    if unknown := [mode for mode in modes if mode not in POOLINGS.values()]:
        raise ValueError(f"{where}: unknown pooling {unknown[0]!r}; known are {', '.join(POOLINGS.values())}")
    return modes


def pool(states: Tensor, lengths: Tensor, first: int, mode: str) -> Tensor:
    """Return (B, D) of the states (B, P, D) of the pieces from `first` to `lengths` (B,) of each row."""
    places = torch.arange(states.shape[1], device=states.device)
    seen = (places >= first) & (places < lengths[:, None])  # (B, P)
    rows = torch.arange(len(states), device=states.device)
    if mode == "cls":
        return states[rows, seen.int().argmax(1)]
    if mode == "lasttoken":
        return states[rows, lengths - 1]
    if mode == "max":
        return states.masked_fill(~seen[..., None], -torch.inf).amax(1)
    weights = seen * ((places + 1) if mode == "weightedmean" else torch.ones_like(places))
    total = weights.sum(1, keepdim=True).clamp_min(1e-9)
    sums = (states * weights[..., None]).sum(1)
    return sums / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)


class DenseLayer(nn.Module):
    """A linear layer with an activation; the names of the weights are those of its file."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        super().__init__()
        width, out = int(config["in_features"]), int(config["out_features"])
        self.linear = nn.Linear(width, out, bias=bool(config.get("bias", True)))
        self.activation_function = _activation(
            config.get("activation_function", "torch.nn.modules.activation.Tanh"), where
        )
        self.adds = bool(config.get("use_residual", False))
        if self.adds and width != out:
            self.residual = nn.Linear(width, out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return (S, D) → (S, E)."""
        made = self.activation_function(self.linear(x))
        return made + getattr(self, "residual", nn.Identity())(x) if self.adds else made


def _activation(name: Any, where: str) -> nn.Module:
    made = getattr(nn, str(name).rpartition(".")[2], None) if str(name).startswith("torch.nn.") else None
    if not isinstance(made, type) or not issubclass(made, nn.Module):
        raise ValueError(f"{where}: its activation {name} is none of torch.nn")
    return made()


class NormLayer(nn.Module):
    """The norm of a layer, under the name that its file has."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(int(config["dimension"]))

    def forward(self, x: Tensor) -> Tensor:
        """Return (S, D) → (S, D)."""
        return self.norm(x)


class UnitLayer(nn.Module):
    """Divides each vector by its length."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (S, D) → (S, D)."""
        return F.normalize(x, dim=-1)


LAYERS: dict[str, Callable[[Mapping[str, Any], str], nn.Module]] = {
    "Dense": DenseLayer,
    "LayerNorm": NormLayer,
    "Normalize": lambda config, where: UnitLayer(),
    "Dropout": lambda config, where: nn.Identity(),  # which has an effect in training only
}


def load_layers(folder: SentenceFolder) -> nn.Sequential:
    """Return the modules behind the pooling, in float32; `ValueError` where a file is missing or does not fit."""
    made = []
    for kind, config, path in folder.layers:
        where = f"{folder.place}/{path}"
        try:
            layer = LAYERS[kind](config, where)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{where}: its config.json lacks what a {kind} needs ({reason(error)})") from error
        if layer.state_dict():
            file = folder.file(f"{path}/{MODULE_WEIGHTS}")
            if file is None:
                raise ValueError(
                    f"{where}: no {MODULE_WEIGHTS}; save the folder again with a newer sentence-transformers"
                )
            try:
                layer.load_state_dict(load_file(file))
            except Exception as error:  # a damaged file makes safetensors raise anything
                raise ValueError(f"{file}: its weights are not those of its config.json ({reason(error)})") from error
        made.append(layer)
    return nn.Sequential(*made).eval().requires_grad_(False)


class TextVectors(Encoder):
    """Each word has the vector of its text; see the module.

    `found` is what is known of its Transformer, and `words` what reads its words, whose body it shares.
    """

    def __init__(
        self, folder: SentenceFolder, found: Found, reading: ReadingOptions, spec: str, device: Any, words: Any = None
    ) -> None:
        self.folder, self.spec = folder, spec
        self.device, found = find_device(device), words.found if words else found
        config = words.config if words else found.config or load_config(folder.body, folder.revision)
        self._weights = folder.fingerprint()  # now: the files may change later
        self._compute = compute_type(self.device, reading, self._weights, found.has_channels)
        self._channels = found.channel_facts(self._compute)
        self.dtype = np.dtype(np.float32 if reading.dtype == "float32" else np.float16)
        self.tokenizer = load_tokenizer_of(folder.body, folder.revision, None)
        if folder.lower:
            lower(self.tokenizer)
        limits = [self.tokenizer.model_max_length]
        if positions := getattr(config.get_text_config(), "max_position_embeddings", None):
            limits.append(positions - first_position(config))
        self.longest = folder.longest or min(limits)
        self._first = 0 if folder.pools_prompt or not folder.prompt else self._prompt_length()
        self._is_unlike = unlike_cut(config, self.tokenizer, folder.prompt)
        self._kept: dict[tuple[int, ...], np.ndarray] = {}
        if words and words.num_blocks == words.num_layers:
            self.body = words.body
            if self._compute == INT8 and not folder.prompt:  # in another type a state depends on its batch
                words.observe = self._keep
        else:
            self.body = found.load(self._compute, self.device) or TransformersBody(
                _load(folder, reading, config, self.device, is_spread(device), float_type(self._compute))
            )
        self.layers = load_layers(folder)
        self.counts: Counter[str] = Counter()
        self.num_parameters = self.body.num_parameters + sum(p.numel() for p in self.layers.parameters())
        self.streams = (Stream(f"{spec}, {WHOLE}", 1, self._vectors(["a"]).shape[1], whole=True),)
        self.counts.clear()  # of that text

    def identity(self) -> Identity:
        return Identity(
            weights=self._weights,
            vocabulary=vocabulary_fingerprint(self.tokenizer),
            pooling="+".join(self.folder.poolings),
            rest={
                "layers": [[kind, dict(config)] for kind, config, _ in self.folder.layers],
                "pooled_from": self._first,
                "prompt": self.folder.prompt,
                "lower": self.folder.lower,
                "window": self.longest,
                "dtype": [str(self._compute), self.dtype.name, *self._channels],
            },
        )

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        for chunk in chunk_by_size(sentences, len, CHUNK_WORDS):
            texts = {text: n for n, text in enumerate(dict.fromkeys(map(_text, chunk)))}
            vectors = self._vectors(list(texts))
            for sentence in chunk:
                yield (np.repeat(vectors[[texts[_text(sentence)]]][:, None], len(sentence), 0),)

    def facts(self) -> dict[str, str]:
        """Return how texts are read, for people."""
        layers = [kind for kind, _, _ in self.folder.layers]
        return {
            "modules": " → ".join(["Transformer", f"Pooling ({'+'.join(self.folder.poolings)})", *layers]),
            "prompt": repr(self.folder.prompt) if self.folder.prompt else "none",
            "window": f"{self.longest:,} pieces, the beginning of a text",
        }

    def _prompt_length(self) -> int:
        """Without a piece at its end that frames every text."""
        ids = self.tokenizer(self.folder.prompt)["input_ids"]
        return len(ids) - (ids[-1] in self.tokenizer.all_special_ids)

    def _keep(self, ids: Tensor, lengths: Sequence[int], states: Tensor) -> None:
        """Keep the vectors of texts with these pieces (B, P), whose words were read: their last states are given."""
        rows, vectors = ids.tolist(), self._pooled(states, lengths).astype(self.dtype)
        self._kept.update((tuple(row[:n]), vector) for row, n, vector in zip(rows, lengths, vectors, strict=True))
        for row in list(self._kept)[:-KEPT_VECTORS]:  # where nobody asks for them
            self._kept.pop(row, None)

    def _pooled(self, states: Tensor, lengths: Sequence[int]) -> np.ndarray:
        """Return (B, D) float32 of the last states."""
        states = states.double() if self._compute == INT8 else states.float()  # sums that do not depend on padding
        ends = torch.tensor(lengths, device=states.device)
        pooled = torch.cat([pool(states, ends, self._first, mode) for mode in self.folder.poolings], 1)
        refuse_overflow(pooled, self.spec, self._compute)
        return self.layers(pooled.float().cpu()).numpy()

    @torch.inference_mode()
    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return (S, D) in the type of the arrays."""
        given = [self.folder.prompt + text for text in texts]
        rows = self.tokenizer(given, verbose=False)["input_ids"]
        self.counts[UNLIKE_CUT] += sum(map(self._is_unlike, texts, rows))
        long = [n for n, row in enumerate(rows) if len(row) > self.longest]
        self.counts[CUT_TEXTS] += len(long)
        for n in long:
            rows[n] = self.tokenizer(given[n], truncation=True, max_length=self.longest)["input_ids"]
        made = {n: vector for n, row in enumerate(rows) if (vector := self._kept.pop(tuple(row), None)) is not None}
        unread, most = [n for n in range(len(rows)) if n not in made], DEVICE_PIECES.get(self.device.type, BATCH_PIECES)
        for batch in batch_by_length(unread, lambda n: len(rows[n]), most):
            lengths = [len(rows[n]) for n in batch]
            ids = torch.from_numpy(pad_rows([rows[n] for n in batch], self.tokenizer.pad_token_id or 0)).to(self.device)
            states = self.body.last(ids, padding_mask(ids, lengths))
            made.update(zip(batch, self._pooled(states, lengths).astype(self.dtype), strict=True))
        return np.stack([made[n] for n in range(len(rows))])


def _text(sentence: Sentence) -> str:
    return sentence.text or join_words(sentence.words, sentence.spaces or guess_spaces(sentence.words))


def _load(
    folder: SentenceFolder, reading: ReadingOptions, config: Any, device: torch.device, spread: bool, dtype: torch.dtype
) -> Any:
    """Return the whole Transformer; of an encoder-decoder its encoder."""
    from transformers import AutoModel, AutoModelForTextEncoding
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES as ENCODERS

    make = AutoModelForTextEncoding if config.model_type in ENCODERS else AutoModel
    how: dict[str, Any] = {"config": config, "revision": folder.revision}
    return load_placed(make, str(folder.body), device, dtype=dtype, spread=spread, **how)


class WordsAndText(ConcatEncoder):
    """The states of words and the vector of their text, as two streams of one LM."""

    def __init__(self, words: Encoder, text: TextVectors, spec: str) -> None:
        super().__init__([words, text], spec)
        self.num_parameters, self.tokenizer = text.num_parameters, words.tokenizer

    @property
    def streams_by_lm(self) -> list[list[int]]:
        return [[0, 1]]

    def identity(self) -> Identity:
        words, text = self.parts
        (own,), (vector,) = words.identity().lms, text.identity().lms
        return replace(own, weights=vector.weights).with_facts(text=vector.to_dict())


def _as_recorded(folder: SentenceFolder, reading: ReadingOptions) -> ReadingOptions:
    """Return the options for the Transformer alone, whose weights have another fingerprint than the folder."""
    recorded = reading.computed if isinstance(reading, RecordedReading) else {}
    if not recorded or (computed := recorded.get(folder.fingerprint())) is None:
        return reading
    body = weights_fingerprint(folder.body, exact_revision(folder.body, folder.revision))
    return RecordedReading.of(reading, {**recorded, body: computed})


def open_sentences(
    path: Artefact,
    reading: ReadingOptions,
    *,
    spec: str,
    device: Any = None,
    tokenizer: Any = None,
    revision: str | None = None,
    whole: bool = False,
    reads: Reads = "words",
) -> Encoder:
    """Open the encoder that a task `reads` a folder by, see the module; `ValueError` for words where its Transformer
    has no states of words, as that of an encoder-decoder."""
    folder = read_modules(path, revision)
    found = Found(folder.body) if is_spread(device) else find_own(folder.body)
    own = found.only(MaskedEncoder.own_type)
    config: Any = own.config or load_config(folder.body, folder.revision)
    kind = "masked" if own.config else architecture_kind(config)
    if reads == "text" or (reads == "both" and kind is None):
        return TextVectors(folder, own, reading, spec, device)
    if kind is None:
        raise ValueError(
            f"{path}: its Transformer is {describe_architecture(config)}, whose words are not read; "
            "it gives texts a vector"
        )
    make = MaskedEncoder if kind == "masked" else LMEncoder
    how: dict[str, Any] = {"device": device, "tokenizer": tokenizer, "revision": revision, "found": found}
    how["whole"] = whole or (reads == "both" and own.config is None)
    words = make(folder.body, _as_recorded(folder, reading), spec=spec, **how)
    if reads == "words":
        return words
    return WordsAndText(words, TextVectors(folder, own, reading, spec, device, words), spec)
