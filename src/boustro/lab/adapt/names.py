"""A small network that learns from other people's labels what a name is, over the vectors of an encoder.

    OUT     the network (`encoders.extended.NamesNetwork`); its config.json says what it was trained on, and how

Every file has its own types. Of each word the network learns whether a name begins or goes on there, and of each name,
by the mean of its words' vectors, which type of its file it has, and which of a few kinds that all files share:

    place    cross-entropy over outside, begins, goes on, where the label of the word is known
    type     cross-entropy over the types of the file, by the cosine with a learned vector of each
    kind     cross-entropy over the kinds, by a linear map of the same vector

So names of one type are near to each other, whatever file they come from, and files need not agree about types. Words
with the label `?` may be names or not, and are left out of the first; a type that `--kinds` gives no kind is not a name
(a date, a quantity) and is learned as a type alone. A label that is a kind itself, or `*`, is a name without a type.
Source: Bogdanov et al. 2024 (NuNER: a contrast over types of many
sources); Snell, Swersky and Zemel 2017 (a vector for each class).

The vectors come from the feature cache: what a run that was stopped has read, the same command does not read again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch import Tensor, nn

from boustro.encoders.base import Encoder
from boustro.encoders.extended import NETWORK, NUM_PLACES, reading_facts
from boustro.encoders.reading import group_sentences
from boustro.encoders.spec import Spec, open_encoder
from boustro.given import chunk_by_size
from boustro.hardware import mixed_precision
from boustro.lab.adapt.options import NamesConfig
from boustro.lab.pretrain.distributed import say
from boustro.lab.pretrain.output import refuse_not_finite, run_output
from boustro.lab.pretrain.progress import DryRun
from boustro.metrics.spans import extract_spans
from boustro.names import NAMES
from boustro.progress import Progress
from boustro.store import fingerprint, read_json, write_file, write_folder
from boustro.tasks.data import read_data
from boustro.text.words import RULE
from boustro.types import Sentence

# labels of what may be no name, and of a name without a type; -1 carries no loss
MAYBE_NAME, UNTYPED_NAME, UNKNOWN = "?", "*", -1
CHECKED_WORDS, STEP_WORDS = 20_000, 4096  # a sample that settles mean and deviation; words of a step
FEWEST_STEPS = 12
"""Of a pass over few words, whose batches are smaller."""
LOSS_WEIGHTS = {"type": 0.5, "kind": 0.5}  # beside the loss of places, which every word has


@dataclass(frozen=True)
class NameExamples:
    """Lessons of the words of a file: their places (W,), -1 unknown, and its names."""

    types: tuple[str, ...]
    sentences: list[Sentence]
    places: list[np.ndarray]
    names: list[list[tuple[int, int, int, int]]]
    """Of each sentence: where a name begins and ends, its type and its kind, -1 without one."""


def read_file(name: str, kinds: dict[str, str | None], known: Sequence[str]) -> NameExamples:
    """Read a file's names; `kinds` has the kind of each type, and `None` for those of what is no name."""
    sentences = read_data(name)
    marked = [extract_spans(sentence.tags or ()) for sentence in sentences]
    types = tuple(sorted({e.label for group in marked for e in group} - {MAYBE_NAME, UNTYPED_NAME, *known}))
    numbers = {label: number for number, label in enumerate(types)}
    places, names = [], []
    for sentence, entities in zip(sentences, marked, strict=True):
        place = np.zeros(len(sentence), np.int64)
        for e in entities:
            no_name = e.label == MAYBE_NAME or kinds.get(e.label, "") is None
            place[e.start : e.end] = UNKNOWN if no_name else 2
            if not no_name:
                place[e.start] = 1
        places.append(place)
        entities = [e for e in entities if e.label != MAYBE_NAME]
        kind = [k if (k := kinds.get(e.label)) in known else e.label for e in entities]
        kind = [known.index(k) if k in known else UNKNOWN for k in kind]
        names.append([(e.start, e.end, numbers.get(e.label, UNKNOWN), k) for e, k in zip(entities, kind, strict=True)])
    return NameExamples(types, sentences, places, names)


def read_kinds(config: NamesConfig) -> tuple[dict[str, str | None], list[str]]:
    """Return the kind of each type, and all kinds; `ValueError` for a file that is not as it must be."""
    if config.kinds is None:
        return {}, []
    try:
        kinds = read_json(config.kinds)
    except ValueError:
        kinds = None
    if not isinstance(kinds, dict) or not all(kind is None or isinstance(kind, str) for kind in kinds.values()):
        raise ValueError(f'{config.kinds}: expected one object such as {{"city": "PLACE", "date": null}}')
    return kinds, list(dict.fromkeys(kind for kind in kinds.values() if kind))


class Network(nn.Module):
    """A network that finds and types names. W words, D values of each, H units, R values of a vector."""

    def __init__(self, vectors: np.ndarray, config: NamesConfig, num_types: Sequence[int], num_kinds: int) -> None:
        super().__init__()
        sample = vectors[np.random.default_rng(config.seed).permutation(len(vectors))[:CHECKED_WORDS]].astype(
            np.float32
        )
        self.mean, self.scale = torch.from_numpy(sample.mean(0)), torch.from_numpy(1 / (sample.std(0) + 1e-3))
        self.enter = nn.Linear(vectors.shape[1], config.hidden)
        self.place, self.vector = nn.Linear(config.hidden, NUM_PLACES), nn.Linear(config.hidden, config.width)
        self.kind = nn.Linear(config.width, num_kinds)
        self.types = nn.ParameterList(torch.randn(count, config.width) / 10 for count in num_types)
        self.sharpness = nn.Parameter(torch.tensor(np.log(10.0)))
        self.input_dropout, self.dropout = nn.Dropout(config.dropout / 3), nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the places (W, 3) and vectors (W, R)."""
        hidden = self.dropout(self.enter(self.input_dropout((x - self.mean) * self.scale)).relu())
        return self.place(hidden), self.vector(hidden)

    def loss(self, x: Tensor, places: Tensor, names: Tensor) -> Tensor:
        """Of words (W, D) with places (W,) and names (N, 5): begin, end, file, type and kind."""
        with mixed_precision(x.device):
            scores, vectors = (output.float() for output in self(x))
        total = F.cross_entropy(scores, places, ignore_index=UNKNOWN) if (places >= 0).any() else scores.sum() * 0
        begin, end, file, type_, kind = names.T
        sums = torch.cat([vectors.new_zeros(1, vectors.shape[1]), vectors.cumsum(0)])
        unit = F.normalize((sums[end] - sums[begin]) / (end - begin)[:, None], dim=1)
        for number, prototypes in enumerate(self.types):
            if len(some := torch.nonzero((file == number) & (type_ >= 0)).ravel()):
                cosines = unit[some] @ F.normalize(prototypes, dim=1).T
                among = F.cross_entropy(cosines * self.sharpness.exp(), type_[some], reduction="sum")
                total = total + LOSS_WEIGHTS["type"] * among / len(names)
        if len(some := torch.nonzero(kind >= 0).ravel()):
            mean = (sums[end[some]] - sums[begin[some]]) / (end - begin)[some, None]
            total = total + LOSS_WEIGHTS["kind"] * F.cross_entropy(self.kind(mean), kind[some])
        return total

    @torch.no_grad()
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the fields of `NamesNetwork`; what is wide in float16."""
        on_hidden, on_vector = self.kind.weight @ self.vector.weight, self.kind.weight @ self.vector.bias
        leave = torch.cat([self.place.weight, self.vector.weight, on_hidden])
        bias = torch.cat([self.place.bias, self.vector.bias, on_vector + self.kind.bias])
        small = {"mean": self.mean, "scale": self.scale, "enter_bias": self.enter.bias, "leave_bias": bias}
        wide = {"enter": self.enter.weight.half(), "leave": leave.half()}
        return {name: tensor.detach().contiguous().numpy() for name, tensor in (small | wide).items()}


def write_names(config: NamesConfig) -> dict[str, Any]:
    """Write the folder; returns what was read.

    Raises `ValueError` for files without names, and for a loss that is not finite; `FileExistsError` for a folder that
    is there already.
    """
    kinds, known = read_kinds(config)
    with run_output(config, NAMES):
        files = [read_file(name, kinds, known) for name in config.data]
        counts = Counter((*f.types, UNTYPED_NAME)[n] for f in files for group in f.names for _, _, n, _ in group)
        if not counts:
            raise ValueError("the files have no names; give labelled ones")
        encoder = open_encoder(config.encoder, config.reading(), cache=True)
        record = {"sentences": sum(len(f.sentences) for f in files), "names": counts.total(), "types": len(counts)}
        if config.dry_run:
            words = sum(map(len, (s for f in files for s in f.sentences)))
            size = sum(stream.width for stream in encoder.streams) * 2 * words
            say(f"dry run: {words:,} words, {counts.total():,} names; {size / 2**20:,.0f} MB of vectors in memory")
            raise DryRun(None)
        vectors = np.concatenate([highest_layers(encoder, file.sentences) for file in files])
        network = train_names(vectors, files, len(known), config)
        facts = {
            "encoder": Spec.parse(config.encoder).exact(encoder.identity()),
            "reading": reading_facts(encoder),
            "text": fingerprint([[s.words, s.tags] for f in files for s in f.sentences]),
            "kinds": known,
            "words": RULE,
            "record": record | {"by_type": dict(counts.most_common())},
        }
        with write_folder(config.out, NAMES) as folder:
            save_file(network.arrays(), folder / NETWORK)
            write_file(folder / "config.json", json.dumps(facts, indent=1, ensure_ascii=False))
        return record


def highest_layers(encoder: Encoder, sentences: Sequence[Sentence]) -> np.ndarray:
    """Return (W, D) float16: the highest layer of every stream, side by side."""
    groups = list(
        chunk_by_size(group_sentences(sentences, "document"), lambda text: sum(map(len, text)), CHECKED_WORDS)
    )
    parts = []
    for chunk in groups:
        streams = encoder.read_all([sentence for group in chunk for sentence in group]).streams
        parts.append(np.concatenate([stream[:, -1] for stream in streams], 1))
    return np.concatenate(parts)


def train_names(vectors: np.ndarray, files: Sequence[NameExamples], num_kinds: int, config: NamesConfig) -> Network:
    """Return the trained network, from the vectors (W, D) of all words; equal seeds give equal ones on one machine."""
    starts = np.cumsum([0, *(len(s) for file in files for s in file.sentences)])
    places = np.concatenate([marks for file in files for marks in file.places])
    names = [[(b, e, n, t, k) for b, e, t, k in spans] for n, file in enumerate(files) for spans in file.names]
    torch.manual_seed(config.seed)
    random = np.random.default_rng(config.seed)
    network = Network(vectors, config, [len(file.types) for file in files], num_kinds)
    optimizer = torch.optim.AdamW(network.parameters(), lr=config.lr, weight_decay=0.01)
    batch_words = min(STEP_WORDS, max(1, len(vectors) // FEWEST_STEPS))
    num_steps = max(1, config.epochs * len(vectors) // batch_words)
    with Progress("learning names", "steps", total=num_steps) as bar:
        for step, some in zip(range(num_steps), _batches(starts, batch_words, random), strict=False):
            for group in optimizer.param_groups:
                # a short rise keeps the first steps of a network from noise; then down to 0
                group["lr"] = config.lr * min(1, (step + 1) / 50) * (1 - step / num_steps)
            rows = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in some])
            ends = np.cumsum([0, *(starts[n + 1] - starts[n] for n in some)])
            batch_names = [(b + ends[p], e + ends[p], *rest) for p, n in enumerate(some) for b, e, *rest in names[n]]
            given = torch.from_numpy(np.array(batch_names, np.int64).reshape(-1, 5))
            loss = network.loss(
                torch.from_numpy(vectors[rows].astype(np.float32)), torch.from_numpy(places[rows]), given
            )
            refuse_not_finite(float(loss.detach()), "the loss")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bar.update(1)
    return network.eval()


def _batches(starts: np.ndarray, batch_words: int, random: np.random.Generator) -> Iterator[list[int]]:
    """Sentences in a random order, about as many words a batch; without end."""
    sizes = np.diff(starts)
    while True:
        yield from chunk_by_size(random.permutation(len(sizes)).tolist(), lambda n: int(sizes[n]), batch_words)
