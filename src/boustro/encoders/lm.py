"""One causal LM, frozen, as an encoder of words; reads forward or backward.

Letters: W words, P pieces of a window, L layers, D width of the LM, K places of the pooling.

A backward LM gets the pieces reversed, and a word is looked up where that reading meets it: this file
is the only one that knows.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from huggingface_hub import try_to_load_from_cache
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, AutoModel
from transformers.utils import logging

from boustro.encoders.contract import Encoder, Stream, Words, as_sentence
from boustro.encoders.pooling import Selection, parse_pooling, select
from boustro.encoders.windows import Window, batch_windows, chunk_groups, group_documents, join_sentences, plan_windows
from boustro.models.hardware import best_device, has_fast_bf16
from boustro.store import MANIFEST, fingerprint, hash_file, open_folder
from boustro.text.alignment import Aligner, Pieces, Spacing
from boustro.text.tokenizers import end_of_text_id, load_tokenizer
from boustro.types import Sentence

Context = Literal["sentence", "document"]
Layers = Literal["all", "last"] | tuple[int, ...]

CHUNK_WORDS = 8192
BATCH_PIECES = {"cpu": 4096, "cuda": 65536}


class LMEncoder(Encoder):
    """See the module. `streams` has one entry; `tokenizer` and `vocabulary` are shared facts of a pair."""

    def __init__(
        self,
        name_or_path: str,
        *,
        spec: str | None = None,
        direction: Literal["forward", "backward"] | None = None,
        layers: Layers | list[int] | str | int = "all",
        pooling: str = "exit+before",
        spacing: Spacing = "natural",
        context: Context = "sentence",
        sentinel: bool | None = None,
        device: str | torch.device | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        """Load a model folder or a model of the hub.

        Args:
            direction: By default what the model's config says, else forward.
            layers: "all", "last", or numbers: 0 is the embeddings, 1…n the blocks, -1 the last.
            pooling: Where a word is read; see `encoders.pooling`.
            spacing: "natural", or a space before "always" every word.
            context: What the LM reads: the "sentence" alone, or the "document" around it, up to its window.
            sentinel: Whether to start a reading with the end-of-text piece; by default what the config says.
            dtype: Of computation and result, "float32" or the like; by default the fastest, stored as float16.
            tokenizer: Used when the model brings none.

        Raises `FileNotFoundError` when there is no such model, `ValueError` when its folder is damaged or
        an option is unknown.
        """
        self.spec = spec or name_or_path
        config = _load_config(name_or_path, revision)
        revision = _exact_revision(name_or_path, revision)
        self._path, self._revision = name_or_path, revision
        self.backward = (direction or getattr(config, "direction", "forward")) == "backward"
        self.device = torch.device(device) if device else best_device()
        compute = _compute_dtype(dtype, self.device)
        self.dtype = np.dtype(np.float32 if compute == torch.float32 and dtype else np.float16)
        self._model = _load_model(name_or_path, config, revision, compute).to(self.device).eval().requires_grad_(False)
        self.tokenizer = _load_tokenizer(name_or_path, revision, tokenizer)
        rows = self._model.get_input_embeddings().weight.shape[0]
        if len(self.tokenizer) > rows:
            raise ValueError(
                f"{name_or_path}: the tokenizer has {len(self.tokenizer):,} pieces, the model only {rows:,}"
            )
        self._aligner = Aligner(self.tokenizer, spacing)
        self.counts = self._aligner.counts
        self._sentinel = end_of_text_id(self.tokenizer) if _wants_sentinel(sentinel, config) else None
        self._places = parse_pooling(pooling)
        if context not in ("sentence", "document"):
            raise ValueError(f"unknown context {context!r}: known are sentence, document")
        self._context = context
        num_layers = config.get_text_config().num_hidden_layers
        self._layers = _parse_layers(layers, num_layers)
        self._width = config.get_text_config().hidden_size
        self._shift = int(self._sentinel is not None)  # of a piece's state, when the sentinel's stands before it
        self._window = _window_size(config) - self._shift
        self.num_parameters = sum(p.numel() for p in self._model.parameters())
        self.streams = (Stream(self.spec, len(self._layers), self._width * len(self._places)),)

    def identity(self) -> dict[str, Any]:
        return {
            "weights": _weights_fingerprint(self._path, self._revision),
            "vocabulary": fingerprint(self.vocabulary()),
            "tokenizer": self._aligner.fingerprint(),
            "direction": "backward" if self.backward else "forward",
            "sentinel": self._sentinel,
            "layers": list(self._layers),
            "pooling": "+".join(self._places),
            "spacing": self._aligner.spacing,
            "context": self._context,
            "window": self._window,
            "dtype": [str(self._model.dtype), self.dtype.name],
        }

    def vocabulary(self) -> dict[str, int]:
        """Piece → id; the two LMs of a pair must agree on it."""
        return self.tokenizer.get_vocab()

    def encode(self, sentences: Iterable[Words]) -> Iterator[tuple[np.ndarray, ...]]:
        given = (as_sentence(s) for s in sentences)
        groups = group_documents(given) if self._context == "document" else ([s] for s in given)
        for chunk in chunk_groups(groups, CHUNK_WORDS):
            vectors = self._encode_chunk(chunk)
            bounds = np.concatenate([[0], np.cumsum([len(s) for group in chunk for s in group])])
            for start, stop in pairwise(bounds):
                yield (vectors[start:stop],)

    def _encode_chunk(self, groups: list[list[Sentence]]) -> np.ndarray:
        """(W, L, K·D) for all words of the chunk, end to end; a group is read as one text."""
        texts = [join_sentences(group) for group in groups]
        aligned = self._aligner.align([(t.words, t.spaces) for t in texts])
        self.counts["sentences longer than the model's window, read in overlapping windows"] += sum(
            len(group) == 1 and len(pieces.ids) > self._window for group, pieces in zip(groups, aligned, strict=True)
        )
        first_word = np.concatenate([[0], np.cumsum([len(t) for t in texts])])
        windows = [w for i, p in enumerate(aligned) for w in plan_windows(i, len(p.ids), self._window, -self._shift)]
        selections = [[select(place, p.bounds, self.backward) for p in aligned] for place in self._places]
        result = torch.zeros(int(first_word[-1]), len(self._layers), len(self._places), self._width)
        for batch in batch_windows(windows, BATCH_PIECES.get(self.device.type, 4096)):
            states = self._read(batch, aligned)
            for k, by_text in enumerate(selections):
                words, rows, columns, weights = self._look_up(batch, by_text, first_word)
                picked = states[rows.to(states.device), columns.to(states.device)].float().cpu()  # (n, L, D)
                result[:, :, k].index_add_(0, words, picked * weights[:, None, None])
        flat = result.flatten(2)
        limit = torch.finfo(torch.float16).max
        return (flat if self.dtype == np.float32 else flat.clamp_(-limit, limit).half()).numpy()

    def _look_up(self, batch: list[Window], by_text: list[Selection], first_word: np.ndarray) -> list[Tensor]:
        """(word of the chunk, window of the batch, position in it, weight) of all states that are wanted."""
        parts = []
        for row, window in enumerate(batch):
            words, states, weights = by_text[window.text]
            mine = (states >= window.first) & (states < window.last)
            columns = states[mine] - window.start + self._shift
            parts.append((words[mine] + first_word[window.text], np.full(len(columns), row), columns, weights[mine]))
        return [torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)]

    @torch.inference_mode()
    def _read(self, batch: list[Window], aligned: list[Pieces]) -> Tensor:
        """States (B, P, L, D) of windows padded on the right, where a causal LM never looks."""
        ids = np.full((len(batch), max(map(len, batch)) + self._shift), self._sentinel or 0, np.int64)
        for row, window in enumerate(batch):
            pieces = aligned[window.text].ids
            reading = pieces[::-1] if self.backward else pieces
            ids[row, self._shift : self._shift + len(window)] = reading[window.start : window.stop]
        given = torch.from_numpy(ids).to(self.device)
        output = self._model(input_ids=given, output_hidden_states=True, use_cache=False)
        return torch.stack([output.hidden_states[layer] for layer in self._layers], dim=2)


def _load_config(name_or_path: str, revision: str | None):
    path = Path(name_or_path)
    if path.is_dir() and (path / MANIFEST).is_file():
        open_folder(path, "model")
    elif path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{path}: no config.json, so this is no model folder, or a half-written one")
    try:
        return AutoConfig.from_pretrained(name_or_path, revision=revision)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise FileNotFoundError(f"{name_or_path}: no model could be loaded from this path or name: {reason}") from error


def _load_model(name_or_path: str, config: Any, revision: str | None, dtype: torch.dtype):
    """The model without its LM head; quietly, since the head's weights are left over on purpose."""
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        return AutoModel.from_pretrained(name_or_path, config=config, revision=revision, dtype=dtype)
    except (OSError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{name_or_path}: the weights could not be loaded: {reason}") from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _load_tokenizer(name_or_path: str, revision: str | None, fallback: Any) -> Any:
    try:
        return load_tokenizer(name_or_path, revision)
    except FileNotFoundError:
        if fallback is None:
            raise
        return fallback


def _compute_dtype(dtype: str | None, device: torch.device) -> torch.dtype:
    if dtype is None:
        return torch.bfloat16 if has_fast_bf16(device) else torch.float32
    found = getattr(torch, dtype, None)
    if found not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(f"unknown dtype {dtype!r}: known are float32, float16, bfloat16")
    return found


def _wants_sentinel(asked: bool | None, config: Any) -> bool:
    return getattr(config, "sentinel", False) if asked is None else asked


def _parse_layers(layers: Any, num_layers: int) -> tuple[int, ...]:
    if layers == "all":
        return tuple(range(num_layers + 1))
    if layers == "last":
        return (num_layers,)
    try:
        numbers = [int(n) for n in (layers.split(",") if isinstance(layers, str) else np.atleast_1d(layers))]
    except ValueError as error:
        raise ValueError(f"unknown layers {layers!r}: expected all, last, or numbers such as 0,3,4") from error
    wrong = [n for n in numbers if not -num_layers - 1 <= n <= num_layers]
    if wrong or not numbers:
        raise ValueError(f"no layer {wrong}: the model has 0 (embeddings) to {num_layers}, or -1 for the last")
    return tuple(n % (num_layers + 1) for n in numbers)


def _window_size(config: Any) -> int:
    text = config.get_text_config()
    return min(getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 1024, 2048)


def _exact_revision(name_or_path: str, revision: str | None) -> str | None:
    """The commit at which a model of the hub lies in the hub's cache; a local folder has none.

    transformers does not say which commit it read (5.23 no longer does, at least), so the cache is asked.
    """
    if Path(name_or_path).is_dir():
        return None
    config = try_to_load_from_cache(name_or_path, "config.json", revision=revision)
    return Path(config).parent.name if isinstance(config, str) else revision


def _weights_fingerprint(name_or_path: str, revision: str | None) -> str:
    path = Path(name_or_path)
    if not path.is_dir():
        return f"{name_or_path}@{revision}"
    if (path / MANIFEST).is_file():
        files = open_folder(path, "model")["files"]
        return fingerprint({name: fact["sha256"] for name, fact in files.items() if name != "training.json"})
    return fingerprint(
        {p.name: hash_file(p) for p in sorted(path.glob("*")) if p.suffix in (".safetensors", ".json", ".bin")}
    )
