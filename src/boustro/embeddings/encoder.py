"""SentenceEncoder: one vector for a text, from a frozen encoder.

    encoder = SentenceEncoder("starter").fit(my_texts)            # statistics of unlabelled texts
    encoder.encode(["Ada left.", "Ada went away."])               # (2, width) float32
    encoder.fit_pairs("pairs.jsonl"); encoder.save_pretrained("vectors"); SentenceEncoder.from_pretrained("vectors")

Words are encoded one by one, as for every task, and pooled here; a text is read as a whole. Without training a vector
is the pooled words (`pooling`) after a transform that is fitted to the user's own texts; `training` learns a head.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from boustro.embeddings.head import EmbeddingHead
from boustro.embeddings.options import EmbedOptions
from boustro.embeddings.pooling import WordFrequencies, first_component, pool_words, remove_component
from boustro.encoders.base import Encoder
from boustro.encoders.spec import load_encoder, split_kind, split_revision, split_spec
from boustro.features.weights import refuse_other_weights
from boustro.given import as_texts
from boustro.hardware import find_device
from boustro.heads.transforms import TRANSFORMS, Transform, unit
from boustro.options import Count, Seed, check_options
from boustro.progress import Progress
from boustro.tasks.data.texts import whole_text
from boustro.types import Sentence

EMPTY = "texts without a word; their vectors are zero"
LEAST_TEXTS = 2


class SentenceEncoder:
    """A frozen encoder, a pooling of its words, and what was fitted: statistics of texts, or a head.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        device: cpu, cuda, mps or auto, see `boustro.load_encoder`; by default the best available.
        options: Fields of `boustro.embeddings.options.EmbedOptions`: pooling, transform, layers, …

    Attributes:
        counts: Texts whose vectors are zero, texts read in windows, …
        record: What training recorded.

    Raises `ValueError` for an unknown option, and for a value outside its range.

    Examples:
        >>> encoder = boustro.SentenceEncoder("starter").fit(texts)
        >>> encoder.similarity("A ship left.", ["The boat sailed.", "It rains."])
    """

    def __init__(self, encoder: str = "starter", *, device: str | None = None, **options: Any) -> None:
        check_options(SentenceEncoder.__init__, locals())
        self.options = EmbedOptions(**options)
        self.encoder_spec, self.device, self._wanted_device = encoder, find_device(device), device
        self.frequencies: WordFrequencies | None = None
        self.component: np.ndarray | None = None
        self.transform: Transform | None = None
        self.head: EmbeddingHead | None = None
        self.record: dict[str, Any] = {}
        self.empty = 0
        self._encoder: Encoder | None = None
        self._trained_on: list[Any] | None = None

    def __repr__(self) -> str:
        fitted = "head" if self.head is not None else "statistics" if self.transform is not None else "nothing"
        return f"SentenceEncoder(encoder={self.encoder_spec!r}, pooling={self.options.pooling!r}, fitted={fitted!r})"

    @property
    def counts(self) -> Counter[str]:
        """What was noticed while encoding, counted."""
        return Counter({EMPTY: self.empty}) + (self._encoder.counts if self._encoder else Counter())

    @property
    def width(self) -> int:
        """The width of a vector."""
        if self.head is not None:
            return self.head.width
        return sum(stream.num_layers * stream.width for stream in self.encoder().streams)

    def encoder(self) -> Encoder:
        """The encoder of words, loaded on first use.

        Raises `ValueError` where the LMs are not those that the statistics or the head were made with.
        """
        if self._encoder is None:
            options = self.options
            spec = echo_spec(self.encoder_spec) if options.pooling == "echo" else self.encoder_spec
            made = load_encoder(
                spec,
                options.layers,
                options.states,
                device=self._wanted_device,
                dtype=options.dtype,
                quantise=options.quantise,
                start_piece=options.start_piece,
                context="sentence",
            )
            refuse_other_weights(made, self.encoder_spec, self._trained_on, "this sentence encoder was made with")
            self._encoder = made
        return self._encoder

    def fit(self, texts: Iterable[str]) -> Self:
        """Compute the statistics of unlabelled texts: word frequencies, the first component, the transform.

        Some hundred texts like those that are encoded later suffice; more are better. A trained head is left out.

        Raises `ValueError`, with the place, for what is not a string, and for fewer than two texts with words.
        """
        sentences = self.read(texts)
        full = [sentence for sentence in sentences if len(sentence)]
        if len(full) < LEAST_TEXTS:
            raise ValueError(f"statistics need at least {LEAST_TEXTS} texts with words; got {len(full)}")
        self.head, self.component, self.transform = None, None, None
        self.frequencies = WordFrequencies.fit(full) if self.options.pooling == "sif" else None
        pooled = self._pool(full)
        if self.frequencies is not None:
            self.component = first_component(pooled)
            pooled = remove_component(pooled, self.component)
        self.transform = TRANSFORMS[self.options.transform].fit(pooled)
        return self

    def encode(
        self,
        sentences: str | Iterable[str],
        batch_size: Count = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
    ) -> Any:
        """The vectors of texts; the arguments are those of sentence-transformers.

        Args:
            sentences: A text, or any iterable of texts, each of any length.
            batch_size: Texts whose words are in memory at once.
            show_progress_bar: By default in a terminal.
            convert_to_numpy: An array; else a list of tensors.
            convert_to_tensor: One tensor instead.
            normalize_embeddings: Divide each vector by its length.

        Returns an array (texts, width), float32, rows in the order of the texts; (width,) for a single text. The
        vector of a text without words is zero. Raises `ValueError`, with the place, for what is not a string, and
        where statistics of texts are needed first.
        """
        check_options(SentenceEncoder.encode, {"batch_size": batch_size})
        single = isinstance(sentences, str)
        read = self.read([sentences] if single else sentences)
        vectors = self.embed(read, batch_size, show_progress_bar)
        if normalize_embeddings:
            vectors = unit(vectors)
        if convert_to_tensor or not convert_to_numpy:
            tensors = torch.from_numpy(vectors)
            return tensors[0] if single else tensors if convert_to_tensor else list(tensors)
        return vectors[0] if single else vectors

    def similarity(self, first: Any, second: Any) -> np.ndarray:
        """(n, m) cosines between texts, or between vectors that `encode` gave."""
        left, right = (self._vectors(given) for given in (first, second))
        return cosines(left, right)

    def embed(self, sentences: Sequence[Sentence], batch_size: int = 1024, progress: bool | None = None) -> np.ndarray:
        """(S, width) the vectors of texts that are split into words already; the arguments are those of `encode`."""
        self._check_fitted()
        full = [number for number, sentence in enumerate(sentences) if len(sentence)]
        self.empty += len(sentences) - len(full)
        vectors = np.zeros((len(sentences), self.width), np.float32)
        with Progress("embedding", "texts", total=len(full), shown=progress) as bar:
            for start in range(0, len(full), batch_size):
                rows = full[start : start + batch_size]
                some = [sentences[row] for row in rows]
                vectors[rows] = self._transform(self._pool(some)) if self.head is None else self._embed_by_head(some)
                bar.update(len(rows))
        return vectors

    def word_weights(self, sentences: Sequence[Sentence]) -> np.ndarray:
        """(words of all sentences,) what each word weighs in its text's mean."""
        if self.frequencies is None:
            return np.ones(sum(map(len, sentences)), np.float32)
        weights = [self.frequencies.weights(sentence, self.options.smoothing) for sentence in sentences]
        return np.concatenate(weights) if weights else np.zeros(0, np.float32)

    @staticmethod
    def read(texts: Iterable[str]) -> list[Sentence]:
        """Each text as one sentence with all its words; `ValueError`, with the place, for what is not a string."""
        return [whole_text(text).sentence for text in as_texts(texts)]

    def save_pretrained(self, path: str | Path) -> None:
        """Write a folder with the statistics, the head, and which encoder they belong to; atomic."""
        from boustro.embeddings.folder import save_encoder

        check_options(SentenceEncoder.save_pretrained, locals())
        self._check_fitted()
        save_encoder(self, path)

    @classmethod
    def from_pretrained(cls, path: str | Path, *, encoder: str | None = None, device: str | None = None) -> Self:
        """Open a saved folder.

        Args:
            path: A folder that `save_pretrained` or `boustro embed-fit` wrote.
            encoder: Where the encoder is now, if it has moved.
            device: As for the constructor.

        Raises `FileNotFoundError` or `ValueError` when the folder is missing, incomplete, damaged or of another kind,
        or when the LMs are not the ones that it was made with.
        """
        from boustro.embeddings.folder import load_encoder_folder

        check_options(SentenceEncoder.from_pretrained, locals())
        return load_encoder_folder(cls, path, encoder=encoder, device=device)

    def fit_neighbours(self, documents: Iterable[str], seed: Seed = 1, **training: Any) -> Self:
        """Train the head by contrast of neighbouring sentences of raw texts, see `embeddings.training`."""
        from boustro.embeddings.training import fit_neighbours

        return fit_neighbours(self, documents, seed, **training)

    def fit_pairs(self, pairs: Any, dev: Any | None = None, seed: Seed = 1, **training: Any) -> Self:
        """Train the head on scored pairs of texts, see `embeddings.training`."""
        from boustro.embeddings.training import fit_pairs

        return fit_pairs(self, pairs, dev, seed, **training)

    def _word_vectors(self, sentences: Sequence[Sentence]) -> Iterator[np.ndarray]:
        """(N, width) per text: all layers of all streams, joined."""
        for arrays in self.encoder().encode(sentences):
            yield np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)

    def _pool(self, sentences: Sequence[Sentence]) -> np.ndarray:
        """(S, width) the pooled words, before anything is taken away."""
        words = zip(sentences, self._word_vectors(sentences), strict=True)
        return np.stack([pool_words(vectors, self.word_weights([sentence])) for sentence, vectors in words])

    def _transform(self, pooled: np.ndarray) -> np.ndarray:
        if self.component is not None:
            pooled = remove_component(pooled, self.component)
        return pooled if self.transform is None else self.transform.apply(pooled)

    @torch.inference_mode()
    def _embed_by_head(self, sentences: Sequence[Sentence]) -> np.ndarray:
        assert self.head is not None
        features = self.encoder().encode_all(sentences)
        mixed = self.head.eval().mix([torch.from_numpy(x).to(self.device) for x in features.streams])
        weights = torch.from_numpy(self.word_weights(sentences))[:, None].to(self.device)
        return self.head.embed(torch.cat([mixed, weights], 1), torch.from_numpy(features.lengths)).cpu().numpy()

    def _vectors(self, given: Any) -> np.ndarray:
        if isinstance(given, Tensor):
            given = given.detach().cpu().numpy()
        if not isinstance(given, np.ndarray) or given.dtype.kind not in "fiu":
            given = self.encode([given] if isinstance(given, str) else given)
        return np.atleast_2d(given)

    def _check_fitted(self) -> None:
        if self.head is None and self.transform is None and self.options.needs_texts:
            raise ValueError(
                f"pooling {self.options.pooling} with transform {self.options.transform} needs statistics of texts; "
                "call fit with texts like those you encode, or choose pooling mean and transform raw"
            )


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n, m) between rows (n, d) and (m, d); 0 for a zero vector."""
    return unit(first) @ unit(second).T


def echo_spec(spec: str) -> str:
    """The spec of the same LMs given the text twice: `"starter"` → `"repeated:starter-forward+repeated:…"`.

    Raises `ValueError` for a part that is no plain causal LM.
    """
    parts = []
    for name in split_spec(spec):
        kind = split_kind(split_revision(name)[0])[0]
        if kind not in ("", "repeated:"):
            raise ValueError(f"{name}: pooling echo reads a text twice with a causal LM, not with kind {kind!r}")
        parts.append(name if kind else f"repeated:{name}")
    return "+".join(parts)
