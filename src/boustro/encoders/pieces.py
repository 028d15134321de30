"""A frozen transformer as an encoder of words: words → pieces → windows → states → words.

Letters: W words, P pieces of a window, L layers, D width of the model, K places of the pooling.

What the kinds share stands here; what a kind adds (the order of reading, what frames it, who sees whom)
is a subclass in a file of its own: `lm`, `unmasked`, `repeated` and `masked`.
"""

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.blocks import find_blocks, states_up_to
from boustro.encoders.contract import Encoder, Stream, Words, as_sentence
from boustro.encoders.loading import exact_revision, load_config, load_model, load_tokenizer_of, weights_fingerprint
from boustro.encoders.pooling import Selection, parse_pooling, select
from boustro.encoders.windows import Window, batch_windows, chunk_groups, group_documents, join_sentences
from boustro.models.hardware import best_device, has_fast_bf16
from boustro.store import fingerprint
from boustro.text.alignment import Aligner, Pieces, Spacing
from boustro.types import Sentence

Context = Literal["sentence", "document"]
Layers = Literal["all", "last"] | tuple[int, ...]

CHUNK_WORDS = 16384
BATCH_PIECES = {"cpu": 1024, "cuda": 65536}  # on a CPU, what stays in its caches is read fastest


class PieceEncoder(Encoder):
    """See the module. `streams` has one entry; `tokenizer` and `vocabulary` are shared facts of a pair.

    A subclass says what stands before and after a reading (`_frame`), and may set `backward` after this
    constructor ran.
    """

    default_pooling: ClassVar[str]
    backward = False

    def __init__(
        self,
        name_or_path: str,
        *,
        spec: str | None = None,
        layers: Layers | list[int] | str | int = "all",
        pooling: str | None = None,
        spacing: Spacing = "natural",
        context: Context = "sentence",
        device: str | torch.device | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        tokenizer: Any = None,
        **framing: Any,
    ) -> None:
        """Load a model folder or a model of the hub.

        Args:
            layers: "all", "last", or numbers: 0 is the embeddings, 1…n the blocks, -1 the last.
            pooling: Where a word is read, see `encoders.pooling`; by default what suits the kind.
            spacing: "natural", or a space before "always" every word.
            context: What the model reads: the "sentence" alone, or the "document" around it, up to its window.
            dtype: Of computation and result, "float32" or the like; by default the fastest, stored as float16.
            tokenizer: Used when the model brings none.
            framing: The kind's own options.

        Raises `FileNotFoundError` when there is no such model, `ValueError` when its folder is damaged or
        an option is unknown.
        """
        self.spec = spec or name_or_path
        config = load_config(name_or_path, revision)
        revision = exact_revision(name_or_path, revision)
        self._path, self._revision = name_or_path, revision
        self.device = torch.device(device) if device else best_device()
        compute = _compute_dtype(dtype, self.device)
        self.dtype = np.dtype(np.float32 if compute == torch.float32 and dtype else np.float16)
        self._model = load_model(name_or_path, config, revision, compute).to(self.device).eval().requires_grad_(False)
        self.tokenizer = load_tokenizer_of(name_or_path, revision, tokenizer)
        rows = self._model.get_input_embeddings().weight.shape[0]
        if len(self.tokenizer) > rows:
            raise ValueError(
                f"{name_or_path}: the tokenizer has {len(self.tokenizer):,} pieces, the model only {rows:,}"
            )
        self._aligner = Aligner(self.tokenizer, spacing)
        self.counts = self._aligner.counts
        unknown = framing.keys() - inspect.signature(self._frame).parameters.keys()
        if unknown:
            raise ValueError(f"{self.spec}: this kind of encoder has no option {', '.join(sorted(unknown))}")
        self._prefix, self._suffix = self._frame(config, **framing)
        self._places = parse_pooling(pooling or self.default_pooling)
        if context not in ("sentence", "document"):
            raise ValueError(f"unknown context {context!r}: known are sentence, document")
        self._context = context
        text = config.get_text_config()
        self._num_layers = text.num_hidden_layers
        self._layers = _parse_layers(layers, self._num_layers)
        self._width = text.hidden_size
        self._window = self._room(_window_size(text))
        self.num_parameters = sum(p.numel() for p in self._model.parameters())
        self.streams = (Stream(self.spec, len(self._layers), self._width * len(self._places)),)

    @abstractmethod
    def _frame(self, config: Any, **framing: Any) -> tuple[list[int], list[int]]:
        """Piece ids that stand before and after every reading."""

    @abstractmethod
    def _plan(self, text: int, num_pieces: int) -> list[Window]:
        """The windows in which a text of so many pieces is read."""

    @abstractmethod
    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Every layer's states (B, P, D) of rows padded on the right; `lengths` (B,) tells what is no padding."""

    def _room(self, window: int) -> int:
        """How many pieces of a text fit into a reading of at most `window`."""
        return window - len(self._prefix) - len(self._suffix)

    def _row(self, pieces: Sequence[int]) -> list[int]:
        """What the model is given for a window's pieces, in the order of reading."""
        return [*self._prefix, *pieces, *self._suffix]

    def _origin(self, num_pieces: int) -> int:
        """The column of such a row whose state is that of the window's first piece."""
        return len(self._prefix)

    def _states(self, **inputs: Any) -> Sequence[Tensor]:
        """The model's states, layer by layer; blocks above the highest layer that is wanted are not computed."""
        highest = max(self._layers)
        blocks = find_blocks(self._model, self._num_layers) if highest < self._num_layers else []
        if blocks:
            return states_up_to(self._model, blocks, highest, **inputs)
        return self._model(output_hidden_states=True, **inputs).hidden_states

    def identity(self) -> dict[str, Any]:
        return {
            "weights": weights_fingerprint(self._path, self._revision),
            "vocabulary": fingerprint(self.vocabulary()),
            "tokenizer": self._aligner.fingerprint(),
            "frame": [self._prefix, self._suffix],
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
        windows = [w for i, p in enumerate(aligned) for w in self._plan(i, len(p.ids))]
        selections = [[select(place, p.bounds, self.backward) for p in aligned] for place in self._places]
        shape = int(first_word[-1]), len(self._layers), len(self._places), self._width
        result = torch.zeros(shape, dtype=torch.float32 if self.dtype == np.float32 else torch.float16)
        means = {k: torch.zeros(shape[0], shape[1], shape[3]) for k, p in enumerate(self._places) if p == "mean"}
        for batch in batch_windows(windows, BATCH_PIECES.get(self.device.type, 1024)):
            states = self._read(batch, aligned)
            for k, by_text in enumerate(selections):
                words, places, weights = self._look_up(batch, by_text, first_word, states[0].shape[1])
                for number, layer in enumerate(states):
                    picked = layer.flatten(0, 1)[places.to(layer.device)].float()  # (n, D)
                    if k in means:  # of several states, which two windows may have read
                        means[k][:, number].index_add_(0, words, picked.cpu() * weights[:, None])
                    else:
                        result[:, number, k].index_copy_(0, words, _narrow(picked, result.dtype).cpu())
        for k, mean in means.items():
            result[:, :, k] = _narrow(mean, result.dtype)
        return result.flatten(2).numpy()

    def _look_up(
        self, batch: list[Window], by_text: list[Selection], first_word: np.ndarray, num_columns: int
    ) -> list[Tensor]:
        """(word of the chunk, place in the batch, row by row, weight) of all states that are wanted."""
        parts = []
        for row, window in enumerate(batch):
            words, states, weights = by_text[window.text]
            mine = (states >= window.first) & (states < window.last)
            places = row * num_columns + states[mine] - window.start + self._origin(len(window))
            parts.append((words[mine] + first_word[window.text], places, weights[mine]))
        return [torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)]

    @torch.inference_mode()
    def _read(self, batch: list[Window], aligned: list[Pieces]) -> list[Tensor]:
        """Every layer's states (B, P, D) of windows, padded on the right."""
        rows = []
        for window in batch:
            pieces = aligned[window.text].ids
            reading = pieces[::-1] if self.backward else pieces
            rows.append(self._row(reading[window.start : window.stop].tolist()))
        lengths = [len(row) for row in rows]
        padding = (self._prefix or [0])[0]
        ids = torch.tensor([row + [padding] * (max(lengths) - len(row)) for row in rows], dtype=torch.int64)
        states = self._hidden_states(ids.to(self.device), lengths)
        return [states[layer] for layer in self._layers]


def _narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    """In a narrower type, what is out of its range being brought to its end."""
    limit = torch.finfo(dtype).max
    return x if x.dtype == dtype else x.clamp(-limit, limit).to(dtype)


def _compute_dtype(dtype: str | None, device: torch.device) -> torch.dtype:
    if dtype is None:
        return torch.bfloat16 if has_fast_bf16(device) else torch.float32
    found = getattr(torch, dtype, None)
    if found not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(f"unknown dtype {dtype!r}: known are float32, float16, bfloat16")
    return found


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


def _window_size(text: Any) -> int:
    return min(getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 1024, 2048)
