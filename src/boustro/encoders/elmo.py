"""An ELMo as an encoder of words: no pieces, no unknown words, one stream of both directions.

    elmo:DIR    layer 0 the words' own vectors, 1 and 2 the LSTMs'; of each the forward state beside the backward one

A word is one step of the LSTMs: `exit` is the paper's reading, the forward state after the word beside the backward
one after it; `before` are the two that have not met it; entry, first, last and mean are exit. There is no
window: a text of any length is read from end to end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.contract import Encoder, Stream, Words
from boustro.encoders.pooling import parse_pooling, select
from boustro.encoders.transformer import parse_layers
from boustro.encoders.weights import weights_fingerprint
from boustro.encoders.windows import check_context, chunk_groups, group_sentences
from boustro.given import each_sentence
from boustro.models.elmo import ElmoStates, load_elmo, spell_texts
from boustro.models.hardware import best_device, find_device

CHUNK_WORDS = 16384
BATCH_WORDS = {"cpu": 1024, "cuda": 32768}
CUT = "words longer than the model spells, cut"
NUM_LAYERS = 3


class ElmoEncoder(Encoder):
    """Takes the options of the other encoders; of them `dtype` means the arrays, computed in float32.

    Raises `FileNotFoundError` where there is no such folder, `ValueError` for a damaged one or an unknown option.
    """

    def __init__(
        self,
        path: str,
        *,
        spec: str | None = None,
        layers: Any = "all",
        pooling: str | None = None,
        spacing: str = "natural",
        context: str = "sentence",
        device: str | torch.device | None = None,
        dtype: str | None = None,
        tokenizer: Any = None,
        **unknown: Any,
    ) -> None:
        self.spec = spec or path
        given = [name for name, value in unknown.items() if value is not None]
        if given:
            raise ValueError(f"{self.spec}: this kind of encoder has no option {', '.join(sorted(given))}")
        check_context(context)
        self._context, self._places = context, parse_pooling(pooling or "exit")
        self._layers = parse_layers(layers, NUM_LAYERS - 1)
        self.device = find_device(device) if device else best_device()
        self.dtype = np.dtype(np.float32 if dtype == "float32" else np.float16)
        self._weights = weights_fingerprint(path, None)
        self._elmo = load_elmo(Path(path)).to(self.device)
        self.tokenizer, self.counts = tokenizer, Counter()
        self.num_parameters = sum(p.numel() for p in self._elmo.parameters())
        width = 2 * self._elmo.shape.width * len(self._places)
        self.streams = (Stream(self.spec, len(self._layers), width),)

    def identity(self) -> dict[str, Any]:
        return {
            "weights": self._weights,
            "vocabulary": "letters",
            "direction": "both",
            "layers": list(self._layers),
            "pooling": "+".join(self._places),
            "context": self._context,
            "dtype": self.dtype.name,
        }

    def encode(self, sentences: Iterable[Words]) -> Iterator[tuple[np.ndarray, ...]]:
        groups = group_sentences(each_sentence(sentences), self._context)
        for chunk in chunk_groups(groups, CHUNK_WORDS):
            texts = [[word for sentence in group for word in sentence.words] for group in chunk]
            read = self._encode_texts(texts)
            for group, vectors in zip(chunk, read, strict=True):
                start = 0
                for sentence in group:
                    yield (vectors[start : start + len(sentence)],)
                    start += len(sentence)

    def _encode_texts(self, texts: list[list[str]]) -> list[np.ndarray]:
        """(T, L, K·2D) for each text."""
        found = [np.empty((0, len(self._layers), self.streams[0].width), self.dtype)] * len(texts)
        most = BATCH_WORDS.get(self.device.type, 1024)
        batch: list[int] = []
        order = sorted((i for i, text in enumerate(texts) if text), key=lambda i: len(texts[i]))
        for number, i in enumerate(order):
            batch.append(i)
            if number + 1 == len(order) or (len(batch) + 1) * len(texts[order[number + 1]]) > most:
                states = self._read([texts[j] for j in batch])
                for row, j in enumerate(batch):
                    found[j] = self._pool(states, row, len(texts[j]))
                batch = []
        return found

    @torch.inference_mode()
    def _read(self, texts: list[list[str]]) -> ElmoStates:
        *given, num_cut = spell_texts(texts, self._elmo.shape.max_letters)
        if num_cut:
            self.counts[CUT] += num_cut
        return self._elmo(*(x.to(self.device) for x in given))

    def _pool(self, states: ElmoStates, row: int, length: int) -> np.ndarray:
        """(T, L, K·2D) of one text."""
        bounds, layers = np.arange(length + 1), list(self._layers)
        parts: list[Tensor] = []
        for place in self._places:
            ahead = select(place, bounds, backward=False).states + 1
            back = length - (select(place, bounds, backward=True).states + 1)
            for side, at in ((states.forward, ahead), (states.backward, back)):
                parts.append(side[layers, row][:, torch.from_numpy(at).to(side.device)])
        limit = float(np.finfo(self.dtype).max)
        vectors = torch.cat(parts, -1).transpose(0, 1).clamp(-limit, limit)  # (T, L, K·2D)
        return vectors.cpu().numpy().astype(self.dtype)
