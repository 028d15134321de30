"""Parts of an exported folder in place of a trained one's: tokenizers, LMs as encoders, and the head, over graphs.

    GraphSession      a graph of ONNX, run by onnxruntime
    PieceTokenizer    tokenizer.json, with what `text.alignment` asks of a tokenizer of transformers
    GraphEncoder      the words, windows and places of `encoders.reading`, with states of a graph
    GraphHead         scores of a graph, read as the trained head reads its own

The graph of an LM mixes the layers that the head mixes, so a word has M vectors in place of L: the mixed ones, and
behind them the highest layer as it is, where mentions are pooled. Letters as in `encoders.reading`; S sentences,
N words, C labels, L longest span.
"""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from boustro.encoders.base import Identity
from boustro.encoders.options import ReadingOptions
from boustro.encoders.reading import PieceEncoder, pad_rows
from boustro.errors import reason
from boustro.heads.crf import Chain, softmax
from boustro.heads.decoding import LikelyWords, TagDecoder, read_scores
from boustro.heads.factored import mean_vectors, read_runs
from boustro.heads.inputs import HeadInputs, length_blocks
from boustro.heads.options import SequenceOptions
from boustro.heads.span import FLOOR, decode_spans

CHAIN = ("crf.starts", "crf.transitions", "crf.ends")
THRESHOLD_ARRAY = "threshold"
SIDE, LENGTHS, QUESTION, CONTEXT = "side", "lengths", "question", "context"
"""Inputs of graphs besides streams: side features, the lengths of sentences, the rows of the words of two parts."""


class GraphSession:
    """A graph that runs; `ValueError` for one that onnxruntime cannot open, or that has other inputs."""

    def __init__(self, path: Path, inputs: tuple[str, ...]) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError("an exported folder needs onnxruntime: pip install 'boustro[onnx]'") from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdigit():  # as for torch
            options.intra_op_num_threads = int(threads)
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its own classes
            raise ValueError(f"{path}: onnxruntime cannot open it ({reason(error)}); export it again") from error
        if (names := [given.name for given in self._session.get_inputs()]) != [*inputs]:
            raise ValueError(f"{path}: its inputs are {', '.join(names)}, not {', '.join(inputs)}; export it again")

    def run(self, given: Mapping[str, np.ndarray]) -> list[Any]:
        """Return the outputs."""
        return list(self._session.run(None, dict(given)))


class GraphHead:
    """A head over a graph, with the attributes and outputs of a trained one.

    Attributes:
        arrays: The scores of transitions (`CHAIN`), of a head with a CRF; the threshold of one that has its own.
    """

    is_exported = True
    words: LikelyWords | None = None
    """See `heads.base.Head`."""

    def __init__(
        self,
        kind: str,
        options: Any,
        labels: tuple[str, ...],
        temperature: float,
        session: GraphSession,
        inputs: tuple[str, ...],
        arrays: Mapping[str, np.ndarray],
    ) -> None:
        self.kind, self.options, self.labels, self.temperature = kind, options, labels, temperature
        self._session, self._inputs, self._arrays = session, inputs, arrays
        self._graph = GRAPHS[kind]

    def outputs(self, inputs: HeadInputs, candidates: bool = False) -> list[Any]:
        """Return the outputs of `heads.training.predict_inputs`; a text's output depends on nothing else in its
        batch."""
        outputs: dict[int, Any] = {}
        for examples in length_blocks(inputs.sizes, self._graph.words):
            rows, lengths, side = inputs.arrays(examples)
            given = {f"stream_{n}": stream[rows] for n, stream in enumerate(inputs.streams)}
            given |= {LENGTHS: lengths, QUESTION: np.arange(lengths[0]), CONTEXT: np.arange(lengths[0], len(rows))}
            given |= {} if side is None else {SIDE: side}
            (scores,) = self._session.run({name: given[name] for name in self._inputs})
            outputs.update(zip(examples.tolist(), self._graph.read(self, scores, lengths, candidates), strict=True))
        return [outputs[example] for example in range(len(inputs))]

    @property
    def has_likely_words(self) -> bool:
        """Whether `words` has an effect, as for `heads.base.Head.has_likely_words`."""
        return self._graph.read in (GraphHead.read_tags, GraphHead.read_runs)

    @property
    def threshold(self) -> float:
        """Of a head that has its own; `ValueError` where the folder has none."""
        if THRESHOLD_ARRAY not in self._arrays:
            raise ValueError(
                f"a {self.kind} head needs the array {THRESHOLD_ARRAY!r}, which the export lacks; export it again"
            )
        return float(self._arrays[THRESHOLD_ARRAY])

    @property
    def decoder(self) -> TagDecoder:
        """Decoder that makes tags of scores."""
        assert isinstance(self.options, SequenceOptions)
        chain = Chain(*(self._arrays[name] for name in CHAIN)) if CHAIN[0] in self._arrays else None
        return TagDecoder(self.labels, self.options, chain, self.temperature, self.words)

    def read_tags(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """Return (N, C) scores of words."""
        return (self.decoder.candidates if candidates else self.decoder.predict)(scores, lengths)

    def read_runs(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """Return (N, 2 + types) scores of outside, inside and types of words."""
        if candidates:
            return [[] for _ in lengths]
        return read_runs(
            softmax(scores[:, :2]),
            lambda runs: softmax(mean_vectors(scores[:, 2:], runs)),
            self.labels,
            lengths,
            self.words,
        )

    def read_spans(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """Return (N, L, 1 + C) probabilities of spans."""
        return decode_spans(scores, lengths, FLOOR if candidates else self.threshold)

    def read_answers(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """Return (words of the context · L + 1,) scores of spans and of no answer."""
        return read_scores(scores[None], (len(scores) - 1) // int(lengths[1]), self.threshold)

    def read_classes(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """Return (S, C) scores of texts or pairs."""
        return list(scores / np.float32(self.temperature))

    def read_numbers(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """Return (S, 1) numbers of texts or pairs."""
        return scores[:, 0].tolist()


class Graph(NamedTuple):
    """How the graph of a kind of head is run and read."""

    read: Callable[[GraphHead, np.ndarray, np.ndarray, bool], list[Any]]
    given: tuple[str, ...] = ()
    """Its inputs besides streams and side features."""
    words: int = 1024
    """Of a run, about, whose vectors fit a cache; 1 where it reads an example by itself."""


GRAPHS: dict[str, Graph] = {
    "linear": Graph(GraphHead.read_tags),
    "mlp": Graph(GraphHead.read_tags),
    "block": Graph(GraphHead.read_tags, (LENGTHS,), 1),
    "bilstm": Graph(GraphHead.read_tags, words=1),
    "ridge": Graph(GraphHead.read_runs),
    "span": Graph(GraphHead.read_spans),
    "mlp-pool": Graph(GraphHead.read_classes, (LENGTHS,)),
    "bilstm-pool": Graph(GraphHead.read_classes, (LENGTHS,), 1),
    "ridge-pool": Graph(GraphHead.read_classes, (LENGTHS,)),
    "lda-pool": Graph(GraphHead.read_classes, (LENGTHS,)),
    "score-pool": Graph(GraphHead.read_numbers, (LENGTHS,)),
    "answer": Graph(GraphHead.read_answers, (QUESTION, CONTEXT), 1),
    "pair": Graph(GraphHead.read_classes, (LENGTHS,), 1),
    "pair-score": Graph(GraphHead.read_numbers, (LENGTHS,), 1),
    "relation": Graph(GraphHead.read_classes, (LENGTHS,)),
}
"""The kinds of heads that are exported."""


def inputs_of(num_places: int, lengths: bool) -> tuple[str, ...]:
    """Return the names of the inputs of an LM's graph, in order."""
    return ("ids", *(["lengths"] if lengths else []), *(f"places_{k}" for k in range(num_places)))


class GraphEncoder(PieceEncoder):
    """`empty` (K, M, D) is what a word has where there is no state to read."""

    dtype = np.dtype(np.float32)
    num_parameters = 0
    default_pooling = "exit+before"

    def __init__(
        self,
        facts: dict[str, Any],
        spec: str,
        reading: ReadingOptions,
        tokenizer: Any,
        session: GraphSession,
        empty: Any,
    ) -> None:
        self.spec, self.backward, self.sees_both_sides = spec, bool(facts["backward"]), bool(facts["centred"])
        self._prefix, self._suffix = tuple(facts["prefix"]), tuple(facts["suffix"])
        self._session, self._empty, self._lengths = session, empty, bool(facts["lengths"])
        self._set_reading(tokenizer, reading)
        self._set_output(tuple(range(facts["rows"])), facts["width"], facts["window"])

    def identity(self) -> Identity:
        return Identity(weights=self.spec, vocabulary="exported", pooling="+".join(self._places))

    def in_context(self, context: Any) -> "GraphEncoder":
        """Return a copy that reads sentences or documents."""
        twin = copy.copy(self)
        twin.context = context
        return twin

    def _pick(self, rows: list[list[int]], places: list[np.ndarray]) -> list[np.ndarray]:
        given = {"ids": pad_rows(rows, self._prefix[0] if self._prefix else 0)}
        if self._lengths:
            given["lengths"] = np.array([len(row) for row in rows], np.int64)
        return self._session.run(given | {f"places_{k}": at.astype(np.int64) for k, at in enumerate(places)})

    def _unread(self, num_words: int) -> np.ndarray:
        return np.repeat(np.moveaxis(self._empty, 0, 1)[None], num_words, 0)


KEPT_ROLES = ("unk_token", "eos_token", "sep_token")


class PieceTokenizer:
    """A tokenizer for `text.alignment`: texts to ids of pieces, without special ones.

    Args:
        path: tokenizer.json.
        special: Special pieces and their ids.
        roles: The piece of each of `KEPT_ROLES`, or `None`.
    """

    is_fast = True

    def __init__(self, path: Path, special: Mapping[str, int], roles: Mapping[str, str | None]) -> None:
        self.backend_tokenizer = Tokenizer.from_file(str(path))
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        self.backend_tokenizer.encode_special_tokens = True  # "<s>" in a text is three characters
        self.all_special_tokens, self.all_special_ids = list(special), list(special.values())
        self.unk_token = roles["unk_token"]
        self.unk_token_id, self.eos_token_id, self.sep_token_id = (self._id(roles[role]) for role in KEPT_ROLES)

    def _id(self, piece: str | None) -> int | None:
        return None if piece is None else self.backend_tokenizer.token_to_id(piece)

    def __call__(self, texts: Sequence[str], **_: Any) -> dict[str, list[list[int]]]:
        """Return the ids of texts, without special pieces."""
        encoded = self.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return {"input_ids": [one.ids for one in encoded]}

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text."""
        return self.backend_tokenizer.encode(text, add_special_tokens=False).tokens

    def get_vocab(self) -> dict[str, int]:
        """Piece → id."""
        return self.backend_tokenizer.get_vocab()


def tokenizer_facts(tokenizer: Any) -> dict[str, Any]:
    """Return the facts that `PieceTokenizer` needs besides the file, of a tokenizer of transformers."""
    special = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
    return {"special": special, "roles": {role: getattr(tokenizer, role) for role in KEPT_ROLES}}
