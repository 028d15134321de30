"""An ELMo as an encoder of words, `elmo:DIR`: no pieces, no unknown words, one stream of both directions.

Layer 0 is the words' own vectors, 1 and 2 are the LSTMs'; the forward state is concatenated with the backward one. A
word is one step of the LSTMs: `exit` is the paper's reading, the states of both directions after the word; `before` are
the two states before it; entry, first, last and mean equal exit. There is no window: a text is read from end to end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.base import Encoder, Identity, Stream
from boustro.encoders.loading import weights_fingerprint
from boustro.encoders.options import ReadingOptions
from boustro.encoders.reading import batch_by_length, encode_in_chunks, parse_pooling, select
from boustro.encoders.transformer import parse_layers
from boustro.hardware import find_device
from boustro.models.elmo import ElmoStates, load_elmo, spell_texts
from boustro.store import Artefact
from boustro.types import Sentence

# an LSTM takes a step a word: a CPU gains nothing by wider batches, a GPU is idle in narrow ones
BATCH_WORDS = {"cpu": 1024, "cuda": 32768}
CUT_WORDS = "words longer than the model spells, cut"
NUM_LAYERS = 3  # the letters' vector and two LSTMs, as Peters et al. 2018


class ElmoEncoder(Encoder):
    """Computes in float32; `reading.dtype` is that of the arrays, float16 unless it is "float32".

    Raises `FileNotFoundError` if there is no such folder, `ValueError` for a damaged one.
    """

    def __init__(
        self,
        path: Artefact,
        reading: ReadingOptions,
        *,
        spec: str,
        device: str | torch.device | None = None,
        tokenizer: Any = None,
    ) -> None:
        self.spec, self.tokenizer, self.counts = spec, tokenizer, Counter()
        self._context, self._places = reading.context, parse_pooling(reading.pooling or "exit")
        self._layers = parse_layers(reading.layers, NUM_LAYERS - 1)
        self.device = find_device(device)
        self.dtype = np.dtype(np.float32 if reading.dtype == "float32" else np.float16)
        self._weights = weights_fingerprint(path, None)
        self._elmo = load_elmo(path).to(self.device)
        self.num_parameters = sum(p.numel() for p in self._elmo.parameters())
        width = 2 * self._elmo.shape.width * len(self._places)
        self.streams = (Stream(self.spec, len(self._layers), width),)

    def identity(self) -> Identity:
        return Identity(
            weights=self._weights,
            vocabulary="letters",
            pooling="+".join(self._places),
            context=self._context,
            direction="both",
            rest={"layers": list(self._layers), "dtype": self.dtype.name},
        )

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        return encode_in_chunks(sentences, self._context, self._encode_chunk)

    def _encode_chunk(self, groups: list[list[Sentence]]) -> np.ndarray:
        """Return (W, L, K·2D) for all words of the groups."""
        texts = [[word for sentence in group for word in sentence.words] for group in groups]
        starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
        result = np.empty((starts[-1], len(self._layers), self.streams[0].width), self.dtype)
        most = BATCH_WORDS.get(self.device.type, BATCH_WORDS["cpu"])
        numbers = [number for number, text in enumerate(texts) if text]
        for batch in batch_by_length(numbers, lambda number: len(texts[number]), most):
            states = self._read([texts[number] for number in batch])
            for row, number in enumerate(batch):
                result[starts[number] : starts[number + 1]] = self._pool(states, row, len(texts[number]))
        return result

    @torch.inference_mode()
    def _read(self, texts: list[list[str]]) -> ElmoStates:
        *given, num_cut = spell_texts(texts, self._elmo.shape.max_letters)
        if num_cut:
            self.counts[CUT_WORDS] += num_cut
        return self._elmo(*(x.to(self.device) for x in given))

    def _pool(self, states: ElmoStates, row: int, length: int) -> np.ndarray:
        """Return (T, L, K·2D) of one text of T words, each of them one piece."""
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
