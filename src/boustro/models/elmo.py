"""ELMo: a CNN over a word's letters makes its vector; a forward and a backward LSTM language model read the vectors.

    word vectors   letters → convolutions of several widths, max over positions → highway layers → D      (shared)
    forward LM     two LSTM layers, the second added to the first; state t knows words 0 … t - 1, and predicts word t
    backward LM    the same from the end; state t knows words t … T - 1, and predicts word t - 1
    softmax        over the V most frequent words                                                         (shared)

Letters are the bytes of UTF-8, so no input word is unknown; as a target, a rare word is the unknown one.

B texts, T words of a text, Q = T + 1 states, N different words, C letters of a word, D width of a vector, L layers.
Source: Peters et al. 2018, section 3; Kim et al. 2016. Unlike there, the LSTMs start from zero with every text, and the
softmax is a full one.
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from boustro.models.fusion import Lengths, after, both_readings, in_text_order
from boustro.models.loss import lm_loss
from boustro.names import ELMO
from boustro.store import Artefact, write_file

warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")  # only slower

ELMO_FILE = "elmo.safetensors"
BEGIN, WORD_END, BOUNDARY, PADDING = 256, 257, 258, 259  # after the 256 bytes
NUM_LETTERS = 260  # 256 bytes and the four marks above
# Peters et al. 2018: 2,048 filters, narrow windows with few
PAPER_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class ElmoShape:
    """Sizes of an ELMo; `filters` are (width in letters, number). By default the paper's small model."""

    width: int = 128
    cells: int = 1024
    letter_width: int = 16
    filters: tuple[tuple[int, int], ...] = PAPER_FILTERS
    num_highways: int = 1
    max_letters: int = 50


class Highway(nn.Module):
    """g · relu(W x) + (1 - g) · x, where the gate g begins near 0 (Srivastava et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, x: Float[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.relu(self.change(x)) + (1 - gate) * x


class CharCNN(nn.Module):
    """Spelt words to vectors; padding has no influence."""

    def __init__(self, shape: ElmoShape) -> None:
        super().__init__()
        self.letters = nn.Embedding(NUM_LETTERS, shape.letter_width)
        self.widths = [wide for wide, _ in shape.filters]
        self.convolutions = nn.ModuleList([nn.Conv1d(shape.letter_width, num, wide) for wide, num in shape.filters])
        total = sum(number for _, number in shape.filters)
        self.highways = nn.Sequential(*(Highway(total) for _ in range(shape.num_highways)))
        self.project = nn.Linear(total, shape.width)

    def forward(self, spelt: Int[Tensor, "N C"]) -> Float[Tensor, "N D"]:
        real = spelt != PADDING
        letters = (self.letters(spelt) * real[..., None]).transpose(1, 2)  # (N, letter width, C)
        features = []
        for convolution, wide in zip(self.convolutions, self.widths, strict=True):
            values = convolution(nn.functional.pad(letters, (0, wide - 1)))  # (N, number, C)
            # a window that begins after the word's end sees nothing of it
            features.append(torch.relu(values.masked_fill(~real[:, None], -torch.inf).amax(2)))
        return self.project(self.highways(torch.cat(features, 1)))


class LSTMStack(nn.Module):
    """Two LSTM layers with projections; the second's output is added to the first's."""

    def __init__(self, shape: ElmoShape) -> None:
        super().__init__()
        options = {"proj_size": shape.width, "batch_first": True}
        self.layers = nn.ModuleList([nn.LSTM(shape.width, shape.cells, **options) for _ in range(2)])

    def forward(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "L B Q D"]:
        """Return the states of both layers, the lower first."""
        first, _ = self.layers[0](x)
        second, _ = self.layers[1](first)
        return torch.stack([first, first + second])


class ElmoStates(NamedTuple):
    """The states of each direction, in text order, by layer: the word vectors (0), the LSTMs' (1, 2)."""

    forward: Float[Tensor, "L B Q D"]
    backward: Float[Tensor, "L B Q D"]


class Elmo(nn.Module):
    """The two LMs without the softmax."""

    def __init__(self, shape: ElmoShape) -> None:
        super().__init__()
        self.shape = shape
        self.words = CharCNN(shape)
        self.forward_lm, self.backward_lm = LSTMStack(shape), LSTMStack(shape)

    def forward(self, spelt: Int[Tensor, "N C"], texts: Int[Tensor, "B T"], lengths: Lengths) -> ElmoStates:
        """States of texts padded on the right; `texts` are rows of `spelt`, whose row 0 is the sentinel's.

        Forward state t follows word t - 1 and backward state t precedes word t: forward state 0 and backward state T
        know only the sentinel.
        """
        vectors = self.words(spelt)
        ahead, back = (vectors[after([0], rows)] for rows in both_readings(texts, lengths))
        read = torch.cat([back[None], self.backward_lm(back)])
        return ElmoStates(torch.cat([ahead[None], self.forward_lm(ahead)]), in_text_order(read, lengths))


class ElmoLM(nn.Module):
    """An ELMo with the softmax that its LMs share, and their loss."""

    def __init__(self, elmo: Elmo, num_targets: int) -> None:
        super().__init__()
        self.elmo, self.softmax = elmo, nn.Linear(elmo.shape.width, num_targets)

    def forward(
        self, spelt: Int[Tensor, "N C"], texts: Int[Tensor, "B T"], lengths: Lengths, targets: Int[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy per word, in nats, of both directions; targets of -100 (padding) are ignored."""
        states = self.elmo(spelt, texts, lengths)
        top = states.forward[-1, :, :-1], states.backward[-1, :, 1:]
        ahead, back = (lm_loss(x, self.softmax, targets) for x in top)
        return (ahead + back) / 2


def spell_bytes(words: Sequence[str], max_letters: int) -> tuple[Int[Tensor, "N C"], int]:
    """Words as bytes between `BEGIN` and `WORD_END`, padded, after the sentinel's row; and how many were cut.

    `["Ada"]` → `[[256, 258, 257, 259, 259], [256, 65, 100, 97, 257]]`
    """
    spelt, num_cut = [[BEGIN, BOUNDARY, WORD_END]], 0
    for word in words:
        letters = list(word.encode("utf-8", "surrogatepass"))
        num_cut += len(letters) > max_letters - 2
        spelt.append([BEGIN, *letters[: max_letters - 2], WORD_END])
    longest = max(map(len, spelt))
    return torch.tensor([row + [PADDING] * (longest - len(row)) for row in spelt]), num_cut


class SpeltTexts(NamedTuple):
    """The different words of some texts, spelt, and the texts as their row numbers, padded with 0."""

    spelt: Int[Tensor, "N C"]
    rows: Int[Tensor, "B T"]
    lengths: Lengths
    num_cut: int


def spell_texts(texts: Sequence[Sequence[str]], max_letters: int) -> SpeltTexts:
    """Return the input of an `Elmo`, and how many different words were cut."""
    numbers = {word: row for row, word in enumerate(dict.fromkeys(word for text in texts for word in text), 1)}
    spelt, num_cut = spell_bytes(list(numbers), max_letters)
    longest = max(map(len, texts))
    rows = [[numbers[word] for word in text] + [0] * (longest - len(text)) for text in texts]
    return SpeltTexts(spelt, torch.tensor(rows), torch.tensor([len(text) for text in texts]), num_cut)


def save_elmo(folder: Path, elmo: Elmo) -> None:
    """Write weights and config into a folder that `store.write_folder` opened."""
    save_file({name: tensor.contiguous() for name, tensor in elmo.state_dict().items()}, folder / ELMO_FILE)
    write_file(folder / "config.json", json.dumps({"shape": asdict(elmo.shape)}, indent=1))


def load_elmo(path: Artefact) -> Elmo:
    """Return the two LMs without the softmax. Raises as `Artefact.check`."""
    with path.opened(ELMO):
        shape = path.config()["shape"]
        elmo = Elmo(ElmoShape(**{**shape, "filters": tuple(map(tuple, shape["filters"]))}))
        elmo.load_state_dict(load_file(path / ELMO_FILE))
    return elmo.eval().requires_grad_(False)
